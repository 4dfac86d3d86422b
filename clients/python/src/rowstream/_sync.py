"""The synchronous client. Generated; edit aio.py, and run generate.py."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

import httpx

from . import _frames
from ._errors import RowstreamError
from ._frames import ArrowReading
from ._protocol import Block, EventReading, Progress, Reading, RowReading, is_plain
from ._requests import (
    ATTEMPTS,
    FOLLOW_ATTEMPTS,
    STATE_SECONDS,
    TIMEOUT,
    Token,
    call_token,
    checked_size,
    headers_of,
    is_finished,
    is_long,
    limit_silence,
    of_transport,
    only_if_whole,
    state_url,
    timeout_of,
    tls,
    used_up,
    with_token,
)
from ._values import Row

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow
    from typing_extensions import Self


class _Connection:
    """Requests of a stream."""

    def __init__(
        self,
        client: httpx.Client | None,
        token: Token | None,
        headers: Mapping[str, str] | None,
        timeout: float | None,
    ) -> None:
        self._client, self._headers = client, headers_of(token, headers)
        self._new_token = token if callable(token) else None
        self._timeout = timeout_of(timeout)

    def _new_headers(self) -> httpx.Headers:
        """Those of the next request."""
        if self._new_token is None:
            return self._headers
        return with_token(self._headers, call_token(self._new_token))

    def blocks(self, reading: Reading) -> Generator[Block]:
        """Closing this closes the connection, which cancels the statement."""
        with nullcontext(self._client) if self._client else httpx.Client(verify=tls()) as client:
            reading.renews_token = self._new_token is not None
            while True:
                # Its exception is the caller's, even if it's one of httpx.
                headers = self._new_headers()
                try:
                    with closing(self._response(client, reading, headers)) as blocks:
                        for block in blocks:
                            yield block
                    return
                except httpx.RequestError as error:
                    fault = of_transport(error)
                except RowstreamError as error:
                    fault = error
                time.sleep(reading.retry(self._explained(client, reading, fault)))

    def _response(
        self,
        client: httpx.Client,
        reading: Reading,
        headers: httpx.Headers,
    ) -> Generator[Block]:
        with client.stream(
            "GET", reading.url, headers=headers, timeout=self._timeout, follow_redirects=False
        ) as response:
            if response.status_code != 200:
                reading.refuse(response.status_code, response.headers, _document(response))
            reading.begin(response.headers)
            limit_silence(response, reading)
            for data in response.iter_raw():
                for block in reading.feed(data):
                    yield block
                if reading.ended:
                    break
            reading.finish()

    def _explained(
        self,
        client: httpx.Client,
        reading: Reading,
        fault: RowstreamError,
    ) -> RowstreamError:
        """The server's reason for a cut, if it knows one."""
        if fault.code or not fault.retry or not reading.stream_id:
            return fault
        url = state_url(reading)
        try:
            headers = self._new_headers()
        except Exception:
            # The reason is optional. The next request calls the function again.
            return fault
        try:
            with client.stream(
                "GET", url, headers=headers, timeout=STATE_SECONDS, follow_redirects=False
            ) as response:
                return reading.explain(response.status_code, _document(response)) or fault
        except httpx.RequestError:
            return fault


def _document(response: httpx.Response) -> bytes:
    document = b""
    if not is_plain(response.headers):
        return document
    for data in response.iter_bytes():
        document += data
        if is_long(document):
            break
    return document


def _rows(connection: _Connection, reading: RowReading) -> Generator[Row]:
    progress = reading.progress
    with closing(connection.blocks(reading)) as blocks:
        for block in blocks:
            last = block.rows.pop() if block.rows else None
            for row in block.rows:
                progress.rows += 1
                yield row
            progress.cursor = block.cursor
            if last is not None:
                progress.rows += 1
                yield last


def _batches(rows: Generator[Row], size: int, progress: Progress) -> Iterator[list[Row]]:
    batch: list[Row] = []
    fault = None
    handed_over = progress.rows, progress.cursor
    try:
        for row in rows:
            batch.append(row)
            if len(batch) == size:
                full, batch = batch, []
                handed_over = progress.rows, progress.cursor
                yield full
    except Exception as error:
        fault = error
    except BaseException:
        # Ctrl-C, for example, or a cancelled task of time. The caller doesn't get the rows in `batch`.
        progress.rows, progress.cursor = handed_over
        raise
    if batch:
        yield batch
    if fault:
        raise fault


class Stream(Iterator[Row]):
    """Rows as they arrive. Closing it closes the connection, which cancels the statement."""

    def __init__(self, connection: _Connection, reading: RowReading) -> None:
        self._connection, self._reading = connection, reading
        # It doesn't refer to this object, so both end with the last reference to it.
        self._rows = _rows(connection, reading)

    @property
    def progress(self) -> Progress:
        return self._reading.progress

    @property
    def columns(self) -> list[Row]:
        """The name and the type of each column. It's empty before the first row."""
        return self._reading.columns

    def __iter__(self) -> Iterator[Row]:
        return self._unread()

    def __next__(self) -> Row:
        return next(self._unread())

    def _unread(self) -> Generator[Row]:
        """The generator of the rows. Once it has finished, it would look like an empty list."""
        if is_finished(self._rows):
            raise used_up()
        return self._rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._rows.close()


class Rows(Stream):
    """The rows of a list, which has an end."""

    @property
    def page(self) -> str | None:
        """At the end of a page, `full` if other rows may follow after `progress.cursor`, or `last`."""
        return self._reading.page

    def batches(self, size: int) -> Iterator[list[Row]]:
        """Lists of `size` rows. The last one is shorter, also before an exception."""
        return _batches(self._unread(), checked_size(size), self.progress)

    def collect(self) -> list[Row]:
        """All rows, or an exception."""
        unread = self._unread()
        with only_if_whole(self.progress):
            return [row for row in unread]

    def to_arrow(self) -> pyarrow.Table:
        """Requests the result as Arrow. This and the following don't depend on rows that were read before."""
        reading = ArrowReading.like(self._reading)
        for _ in self._connection.blocks(reading):
            pass
        return reading.table

    def to_pandas(self) -> pandas.DataFrame:
        """A frame of Arrow's types, which have NULL and exact decimals."""
        return _frames.to_pandas(self.to_arrow())

    def to_polars(self) -> polars.DataFrame:
        return _frames.to_polars(self.to_arrow())

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        return _frames.to_duckdb(self.to_arrow(), connection)


def rows(
    url: str,
    params: Mapping[str, Any] | None = None,
    *,
    token: Token | None = None,
    headers: Mapping[str, str] | None = None,
    client: httpx.Client | None = None,
    attempts: int = ATTEMPTS,
    timeout: float | None = TIMEOUT,
) -> Rows:
    """The rows of a list, each once. The request is sent when the first row is read.

    `token`: may be a function that's called before each request, for tokens that expire. In `rowstream.aio`
    it may also be a coroutine function.
    `attempts`: raises after so many requests in a row that brought no new rows.
    `timeout`: seconds until the first row, and the longest silence of Arrow, which has no heartbeats.
    """
    connection = _Connection(client, token, headers, timeout)
    return Rows(connection, RowReading(url, params, attempts))


def follow(
    url: str,
    params: Mapping[str, Any] | None = None,
    *,
    token: Token | None = None,
    headers: Mapping[str, str] | None = None,
    client: httpx.Client | None = None,
    attempts: int = FOLLOW_ATTEMPTS,
    timeout: float | None = TIMEOUT,
) -> Stream:
    """The rows of a list, and then each new one. Survives restarts of the server."""
    connection = _Connection(client, token, headers, timeout)
    return Stream(connection, EventReading(url, params, attempts))
