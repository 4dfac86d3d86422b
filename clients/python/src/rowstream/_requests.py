"""The parts of requests that the synchronous and the asynchronous client share."""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from inspect import isawaitable
from typing import Any, TypeAlias

import httpx

from ._errors import IncompleteStream, RowstreamError
from ._protocol import MAX_DOCUMENT_BYTES, Progress, Reading

#: About half a minute of pauses.
ATTEMPTS = 8
#: Some minutes, because a live tail has to survive a restart of the server.
FOLLOW_ATTEMPTS = 20
TIMEOUT = 600.0
CONNECT_SECONDS = 10
STATE_SECONDS = 5
#: A function returns another one for each request.
Token: TypeAlias = str | Callable[[], str]
AsyncToken: TypeAlias = str | Callable[[], str | Awaitable[str]]
#: Repeating these requests doesn't help.
_WRONG_REQUESTS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


def headers_of(token: object, headers: Mapping[str, str] | None) -> httpx.Headers:
    """Those of each request. The token of a function isn't among them."""
    merged = httpx.Headers()
    for name, value in (headers or {}).items():
        merged[name] = _checked(name, value)
    merged["Accept-Encoding"] = "identity"
    if token is not None and "Authorization" in merged:
        raise ValueError(
            "the argument `headers` has an `Authorization` beside `token`: leave one of them out"
        )
    return merged if callable(token) or token is None else with_token(merged, token)


def with_token(headers: httpx.Headers, token: object) -> httpx.Headers:
    if not isinstance(token, str):
        raise TypeError(f"a token is a text, and not {type(token).__name__}: check the argument `token`")
    if not re.fullmatch("[!-~]+", token):
        raise ValueError(
            "a token is one word of visible ASCII characters, and isn't empty: check the argument `token`, "
            "for example for a line break at its end"
        )
    merged = headers.copy()
    merged["Authorization"] = f"Bearer {token}"
    return merged


def call_token(function: Callable[[], str]) -> str:
    try:
        return function()
    except StopIteration as error:
        raise _without_token(error) from error


async def acall_token(function: Callable[[], str | Awaitable[str]]) -> str:
    try:
        token = function()
        return await token if isawaitable(token) else token
    except (StopIteration, StopAsyncIteration) as error:
        raise _without_token(error) from error


def _without_token(error: Exception) -> RuntimeError:
    """Python would replace a `StopIteration` that leaves a generator by an error without its reason."""
    return RuntimeError(
        f"the function `token` raised {type(error).__name__}: let it return a token for each request"
    )


def _checked(name: str, value: str) -> str:
    """No error shows a value, because it may be a secret."""
    if not re.fullmatch("([!-~]([\t -~]*[!-~])?)?", value):
        raise ValueError(
            f"the value of the header {name!r} has a character that headers can't have, or a blank at "
            "an end: check for a line break, for example after a token"
        )
    return value


@cache
def tls() -> ssl.SSLContext:
    """Loading the certificates takes longer than a small read, so all streams share them."""
    return httpx.create_ssl_context()


def timeout_of(seconds: float | None) -> httpx.Timeout:
    """Until the headers, whose wait is that for the first row."""
    return httpx.Timeout(CONNECT_SECONDS, read=seconds, pool=None)


def limit_silence(response: httpx.Response, reading: Reading) -> None:
    """The body has another timeout than the headers. httpx reads it from here before it reads the body."""
    if reading.silence is not None:
        response.request.extensions["timeout"]["read"] = reading.silence


def state_url(reading: Reading) -> httpx.URL:
    return reading.url.join(f"{reading.root}_rowstream/streams/{reading.stream_id}")


def is_long(document: bytes) -> bool:
    return len(document) > MAX_DOCUMENT_BYTES


def checked_size(size: int) -> int:
    if size < 1:
        raise ValueError(f"a batch of {size} rows is never full: ask for at least 1")
    return size


@contextmanager
def only_if_whole(progress: Progress) -> Generator[None]:
    """If this fails, the caller gets none of its rows, so they don't count."""
    before = progress.rows, progress.cursor
    try:
        yield
    except BaseException as error:
        progress.rows, progress.cursor = before
        if isinstance(error, RowstreamError):
            error.rows, error.cursor = before
        raise


def is_finished(rows: Generator[Any] | AsyncGenerator[Any]) -> bool:
    """True once the generator has ended, failed or been closed."""
    frame = "gi_frame" if isinstance(rows, Generator) else "ag_frame"
    return not getattr(rows, frame)


def used_up() -> RowstreamError:
    return RowstreamError("the stream has ended, failed or been closed: call `rows` or `follow` again")


def of_transport(error: httpx.RequestError) -> RowstreamError:
    detail = str(error) or type(error).__name__
    cut = IncompleteStream(f"the connection failed: {detail}", retry=not isinstance(error, _WRONG_REQUESTS))
    cut.__cause__ = error
    return cut
