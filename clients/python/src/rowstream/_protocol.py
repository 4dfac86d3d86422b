"""The wire, version 1, without sockets: bytes of responses in, rows out.

A reading asks for one list, over as many responses as it needs. It's driven like this:

1. `url` is the next request.
2. A status other than 200: `refuse`. Otherwise `begin` with the headers, `feed` with each piece of the body
   until `ended`, and `finish`. These three raise, except `feed`: it returns the rows before the fault first.
3. After any fault, `retry` returns the seconds until the next request, or raises the error.

Invariants:

1. Rows are handed over together with the cursor after them, so none is read twice. Rows without one are held
   back until their mark, if the response has marks, and as long as they aren't too many characters.
2. Once rows without a cursor were handed over, or rows before a cursor are missing, no request is repeated
   before the next mark.
3. After `attempts` requests in a row that brought nothing new, `retry` raises.
4. A first 401 is repeated at once if the token is a new one. It isn't one of the attempts. A second 401 in
   a row isn't repeated.
"""

from __future__ import annotations

import codecs
import json
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from math import ceil
from typing import Any, ClassVar, NoReturn, cast

import httpx

from ._errors import IncompleteStream, RowstreamError, of_members
from ._values import Row, converter, decoder, has_negative_zero, patient_decoder

VERSION = "1"
#: A row of 16 MiB, the server's default limit, can be six times as long in JSON.
MAX_LINE_BYTES = 128 * 2**20
#: A server sends a mark at least every 1,000 rows.
MAX_HELD_ROWS = 10_000
#: Longer rows are handed over before their mark.
MAX_HELD_CHARACTERS = 32 * 2**20
#: A problem document, or a stream's state.
MAX_DOCUMENT_BYTES = 64 * 2**10
#: A server that wants a longer pause gets no further request.
MAX_RETRY_AFTER = 300
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30
MISSED_HEARTBEATS = 3
#: They're for an `EventSource`, and belong to no row.
IDS_WITHOUT_DATA = frozenset(("end", "none"))
#: The token may have expired.
DENIED = 401
REDIRECTS = frozenset((301, 302, 303, 307, 308))
#: The statuses of proxies that may pass.
PASSING = frozenset((408, 429, 502, 503, 504))


def _no_json(error: UnicodeError) -> tuple[str, int]:
    """A byte that isn't UTF-8 becomes a character that no JSON has, so its line isn't taken for a row."""
    return "\0", cast("UnicodeDecodeError", error).end


codecs.register_error("rowstream", _no_json)


@dataclass
class Progress:
    """The state of a stream."""

    #: The rows that were handed over.
    rows: int = 0
    #: The bytes of all bodies that arrived, uncompressed.
    bytes: int = 0
    #: The requests after the first one.
    resumptions: int = 0
    #: Continues after rows that were all handed over: `params={"_after": cursor}`. Further rows may have been
    #: handed over, except in a live tail, where each row has a cursor.
    cursor: str | None = None


@dataclass
class Block:
    """Rows, and the cursor after them if there is one."""

    rows: list[Row]
    cursor: str | None


class Reading:
    """Requests that are repeated after faults. The kinds below read the bodies."""

    #: The format in the request.
    parameters: ClassVar[Mapping[str, str]] = {}

    def __init__(self, url: str, params: Mapping[str, Any] | None, attempts: int) -> None:
        self._list = _with_params(_without_user(url), params or {})
        self._attempts, self._limit = 0, attempts
        self._is_unsafe = False
        self.progress = Progress()
        #: The longest silence of the response, in seconds.
        self.silence: float | None = None
        #: The id under which the server knows the response.
        self.stream_id: str | None = None
        #: The way to the server's root. A proxy may serve it below a prefix.
        self.root = "/"
        #: True if each request has a new token, so that a 401 may pass.
        self.renews_token = False
        self._is_denied, self._is_renewal = False, False
        self.is_complete = False
        self._failure: RowstreamError | None = None

    @property
    def url(self) -> httpx.URL:
        return self._list.copy_merge_params(self.parameters)

    @property
    def ended(self) -> bool:
        """True if the rest of the body doesn't matter."""
        return self.is_complete or self._failure is not None

    def refuse(self, status: int, headers: Mapping[str, str], body: bytes) -> NoReturn:
        """Raises the error of a response that isn't a 200."""
        error = of_members(_members(body), status) if _is_problem(headers) else None
        if error is None:
            error = RowstreamError(
                self._of_proxy(status, headers),
                status=status,
                retry=status in PASSING,
                retry_after=_delay(headers.get("retry-after", "")),
            )
        is_first_denial = status == DENIED and not self._is_denied
        self._is_denied = status == DENIED
        self._is_renewal = is_first_denial and self.renews_token
        raise error

    def _of_proxy(self, status: int, headers: Mapping[str, str]) -> str:
        location = headers.get("location")
        if status in REDIRECTS and location:
            return (
                f"the URL redirects to {location[:999]!r}, and the client doesn't follow: use that URL "
                "if it may have the token, the headers and the parameters"
            )
        found = "no problem document" if is_plain(headers) else "an encoding that the request forbids"
        return f"the answer has the status {status}, but {found}: check the URL and the proxies"

    def begin(self, headers: Mapping[str, str]) -> None:
        self._failure, self._is_denied = None, False
        if not is_plain(headers):
            raise IncompleteStream(
                f"the answer has the encoding {headers['content-encoding'][:99]!r}, which the request "
                "forbids: turn off compression in the proxy"
            )
        self.silence = _silence(headers.get("rowstream-heartbeat", ""))
        stream_id = headers.get("rowstream-stream", "")
        self.stream_id = stream_id if re.fullmatch("[0-9a-f]{1,64}", stream_id) else None
        root = headers.get("rowstream-root", "")
        self.root = root if re.fullmatch(r"\./|(\.\./)+", root) else "/"

    def feed(self, data: bytes) -> Sequence[Block]:
        raise NotImplementedError

    def finish(self) -> None:
        """Raises unless everything has arrived."""
        if self._failure:
            raise self._failure
        if not self.is_complete:
            raise IncompleteStream("the response ended without its end record: it was cut", retry=True)

    def explain(self, status: int, body: bytes) -> RowstreamError | None:
        """The server's reason for a cut, from the state of the stream. Another replica doesn't know it."""
        return of_members(_members(body).get("error"), None) if status == 200 else None

    def retry(self, error: RowstreamError) -> float:
        """The seconds to wait before the next request. Raises the error if there's no next one."""
        self.stream_id, self.silence = None, None
        if self._is_renewal:
            self._is_renewal = False
            self.progress.resumptions += 1
            return 0
        self._attempts += 1
        wanted = error.retry_after or 0
        if self._is_unsafe or not error.retry or wanted > MAX_RETRY_AFTER or self._attempts >= self._limit:
            if self._is_unsafe:
                self.progress.cursor = None
            error.rows, error.cursor = self.progress.rows, self.progress.cursor
            raise error
        self.progress.resumptions += 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._attempts - 1, 10))
        return wanted + pause * random.uniform(0.5, 1)  # noqa: S311 - it isn't a secret


class RowReading(Reading):
    """Rows as NDJSON with records. Holds them back until their mark."""

    parameters: ClassVar[Mapping[str, str]] = {"_format": "ndjson", "_end": "1"}

    def __init__(self, url: str, params: Mapping[str, Any] | None, attempts: int) -> None:
        super().__init__(url, params, attempts)
        self.columns: list[Row] = []
        #: `full` or `last`, if the response was a page.
        self.page: str | None = None
        self._cursor: str | None = None
        self.progress.cursor = self._list.params.get("_after")
        self._snapshot: str | None = None

    @property
    def url(self) -> httpx.URL:
        known = {"_after": self._cursor, "_snapshot": self._snapshot}
        return super().url.copy_merge_params({name: value for name, value in known.items() if value})

    def begin(self, headers: Mapping[str, str]) -> None:
        super().begin(headers)
        tag, version = headers.get("rowstream-tag"), headers.get("rowstream-wire")
        if tag is None:
            raise IncompleteStream(
                "the answer has no `Rowstream-Tag`, so its end can't be verified: "
                "check that the URL is an endpoint, and that proxies pass on the headers"
            )
        if version != VERSION:
            raise IncompleteStream(
                f"this client reads version {VERSION} of the wire, and not {version}: update `rowstream`"
            )
        self._record_start = f'{{"$rowstream":"{tag}",'
        self._is_resumable = headers.get("rowstream-resume") in ("marks", "ids")
        self._snapshot = headers.get("rowstream-snapshot", self._snapshot)
        self._changes = headers.get("rowstream-changes", "")
        self._rest: list[bytes] = []
        self._rest_bytes = 0
        self._count = 0
        self._held: list[Row] = []
        self._held_characters = 0
        self._torn: IncompleteStream | None = None
        self._is_described = False
        self._zeros: list[int] = []
        self._describe([])

    def feed(self, data: bytes) -> Sequence[Block]:
        self._blocks: list[Block] = []
        self.progress.bytes += len(data)
        try:
            self._lines(self._whole_lines(data))
        except RowstreamError as error:
            self._failure = error
        is_too_much = self._held_characters > MAX_HELD_CHARACTERS and not self._failure
        if self._held and (is_too_much or not self._is_resumable):
            self._hand_over(None)
        elif len(self._held) > MAX_HELD_ROWS:
            self._failure = IncompleteStream(
                f"the server announced marks, but sent none in {MAX_HELD_ROWS} rows: update the server"
            )
        return self._blocks

    def _whole_lines(self, data: bytes) -> str:
        """The lines that end in this piece. The rest is kept."""
        end = data.rfind(b"\n") + 1
        if end == 0:
            self._rest.append(data)
            self._rest_bytes += len(data)
            if self._rest_bytes > MAX_LINE_BYTES:
                raise IncompleteStream(f"a line has more than {MAX_LINE_BYTES} bytes: select less in a row")
            return ""
        whole = b"".join((*self._rest, data[:end]))
        self._rest, self._rest_bytes = [data[end:]], len(data) - end
        return whole.decode("utf-8", "rowstream")

    def _lines(self, text: str) -> None:
        start = 0
        while start < len(text) and not self.ended:
            end = text.index("\n", start)
            if text.startswith(self._record_start, start):
                self._record(text[start:end])
            elif end > start:
                self._row(text, start, end)
            start = end + 1

    def _row(self, text: str, start: int, end: int) -> None:
        if self._torn:
            raise self._torn
        if not self._is_described:
            raise IncompleteStream("the columns are missing: a proxy lost a part of their record", retry=True)
        try:
            row, stop = self._decoder.raw_decode(text, start)
            if stop != end:
                raise ValueError("blanks, or a part of a row")
        except (ValueError, RecursionError):
            row = self._patient_row(text[start:end])
        if row.__class__ is not dict:
            # An error record may follow, which interrupted the row.
            self._torn = self._torn or IncompleteStream(
                "a line isn't JSON: a proxy lost a part of it", retry=True
            )
            return
        if self._convert:
            self._convert(row)
            if self._zeros:
                row = self._signed(row, self._convert, text[start:end])
        self._held.append(row)
        self._held_characters += end - start
        self._count += 1

    def _signed(self, row: Row, convert: Callable[[Row], None], line: str) -> Row:
        """The row again if one of its zeros is -0."""
        if has_negative_zero(line):
            row = self._patient.decode(line)
            convert(row)
        self._zeros.clear()
        return row

    def _patient_row(self, line: str) -> Any:
        try:
            return self._patient.decode(line)
        except ValueError:
            return None
        except RecursionError:
            self._torn = IncompleteStream(
                f"row {self._count + 1} of the response is nested too deeply for Python, whose limit is "
                f"{sys.getrecursionlimit()} levels: select less of it"
            )
            return None

    def _record(self, line: str) -> None:
        record = _members(line)
        if not record:
            raise IncompleteStream("a record isn't JSON: a proxy lost a part of it", retry=True)
        try:
            if "error" in record:
                raise of_members(record["error"], None) or IncompleteStream("the server failed", retry=True)
            if "columns" in record:
                self._describe(record["columns"])
                self._is_described = True
            elif "mark" in record:
                self._verify(record["mark"])
                self._keep(record["mark"]["next"])
            elif "end" in record:
                self._verify(record["end"])
                self._end(record["end"])
        except (AttributeError, LookupError, TypeError) as error:
            raise IncompleteStream(f"a record isn't as documented: {line[:200]}") from error

    def _describe(self, columns: list[Row]) -> None:
        self._decoder, self._patient = decoder(columns), patient_decoder(columns)
        self._convert = converter(columns, self._changes, self._zeros)
        self.columns = columns or self.columns

    def _verify(self, counted: Row) -> None:
        if self._torn:
            raise self._torn
        if counted["rows"] != self._count:
            raise IncompleteStream(
                f"the server counted {counted['rows']} rows, but {self._count} arrived", retry=True
            )

    def _keep(self, cursor: object) -> None:
        if not isinstance(cursor, str):
            raise TypeError("a cursor is a text")
        if not self._is_resumable:
            return
        self._cursor = cursor
        self._is_unsafe = False
        self._hand_over(cursor)

    def _hand_over(self, cursor: str | None) -> None:
        if self._held:
            self._attempts = 0
            self._is_unsafe = cursor is None
        self._blocks.append(Block(self._held, cursor))
        self._held, self._held_characters = [], 0

    def _end(self, end: Row) -> None:
        self.page = end.get("page")
        self._hand_over(end.get("next"))
        self.is_complete = True


class EventReading(RowReading):
    """A live tail, as events, each with a cursor if it can be resumed. No row is held back. It has no end."""

    parameters: ClassVar[Mapping[str, str]] = {"_format": "sse", "_end": "1", "_follow": "1"}

    def begin(self, headers: Mapping[str, str]) -> None:
        super().begin(headers)
        self._event: dict[str, str] = {}
        self._heartbeats = 0

    def _lines(self, text: str) -> None:
        for line in text.split("\n")[:-1]:
            if self.ended:
                return
            name, _, value = line.partition(":")
            if name:
                if name == "data" and name in self._event:
                    raise IncompleteStream("the end of an event is missing: a proxy lost it", retry=True)
                self._event[name] = value.removeprefix(" ")
            elif line:
                self._heartbeat()
            else:
                self._dispatch()

    def _heartbeat(self) -> None:
        # The first one is sent at once, so only a second one proves that the server stays.
        self._heartbeats += 1
        if self._heartbeats > 1:
            self._attempts = 0

    def _dispatch(self) -> None:
        event, self._event = self._event, {}
        data = event.get("data", "")
        if event.get("event") == "rowstream" and data.startswith(self._record_start):
            self._record(data)
        elif data and "event" not in event:
            self._row(data, 0, len(data))
            if self._torn:
                raise self._torn
            if self._is_resumable and not event.get("id"):
                raise IncompleteStream("an event isn't whole: a proxy lost a part of it", retry=True)
            self._keep(event.get("id", ""))
        elif not data and event.get("id", "end") not in IDS_WITHOUT_DATA:
            raise IncompleteStream("the data of an event are missing: a proxy lost them", retry=True)

    def _verify(self, counted: Row) -> None:
        """Events have no marks, so a wrong number may concern any of them."""
        try:
            super()._verify(counted)
        except IncompleteStream:
            self._is_unsafe = True
            raise

    def _end(self, end: Row) -> None:
        raise IncompleteStream("the server shut down", retry=True)


def _without_user(url: str) -> httpx.URL:
    """httpx would send a user of the URL instead of the token. No error shows a password."""
    parsed = httpx.URL(url)
    if parsed.userinfo:
        raise ValueError(
            "the URL has a user or a password: send them in the argument `headers`, as `Authorization`"
        )
    return parsed


def _with_params(url: httpx.URL, params: Mapping[str, Any]) -> httpx.URL:
    """They replace those in the URL, and None removes one. httpx would send an empty text."""
    for name, value in params.items():
        if isinstance(value, (list, tuple)) and any(item is None for item in cast("list[Any]", value)):
            raise ValueError(f"the list in the parameter {name!r} has a None: leave it out of the list")
        url = url.copy_remove_param(name)
    return url.copy_merge_params({name: value for name, value in params.items() if value is not None})


def _members(text: str | bytes) -> dict[str, Any]:
    """Those of a JSON object. Empty if it's something else."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def is_plain(headers: Mapping[str, str]) -> bool:
    """True without a `Content-Encoding`. Requests ask for none, because a few bytes can be gigabytes."""
    return headers.get("content-encoding", "").strip().lower() in ("", "identity")


def _is_problem(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").split(";")[0].strip().lower() == "application/problem+json"


def _delay(retry_after: str) -> int | None:
    """The seconds of a `Retry-After`, which may be a date."""
    if re.fullmatch("[0-9]{1,9}", retry_after):
        return int(retry_after)
    if not retry_after.endswith(" GMT"):
        return None
    try:
        then = parsedate_to_datetime(retry_after)
        return max(0, ceil((then - datetime.now(timezone.utc)).total_seconds()))
    except (ValueError, TypeError, OverflowError):
        return None


def _silence(heartbeat: str) -> float | None:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,9})?", heartbeat):
        return None
    return MISSED_HEARTBEATS * float(heartbeat)
