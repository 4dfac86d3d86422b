"""The exceptions that users see."""

from __future__ import annotations

from typing import Any, cast


class RowstreamError(Exception):
    """Rows are missing. `code` and the others are those of the server's error, if it sent one."""

    #: How many rows were handed over before.
    rows: int = 0
    #: The cursor after them; `params={"_after": cursor}` continues there. None if there isn't one.
    cursor: str | None = None

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        status: int | None = None,
        hint: str | None = None,
        retry: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.status = status
        self.hint = hint
        #: True if the same request may succeed later.
        self.retry = retry
        self.retry_after = retry_after

    def __str__(self) -> str:
        text = f"{self.code}: {self.detail}" if self.code else self.detail
        return f"{text} (hint: {self.hint})" if self.hint else text


class IncompleteStream(RowstreamError):  # noqa: N818 - it says what happened
    """The end is missing, and the server's reason isn't known: the connection was cut, for example."""


def of_members(members: Any, status: int | None) -> RowstreamError | None:
    """The error of a problem document or an error record. None if it's neither."""
    known = cast("dict[str, Any]", members) if isinstance(members, dict) else {}
    code, hint, seconds = known.get("code"), known.get("hint"), known.get("retry_after")
    if not isinstance(code, str):
        return None
    return RowstreamError(
        str(known.get("detail", "the server gave no detail")),
        code=code,
        status=known["status"] if isinstance(known.get("status"), int) else status,
        hint=hint if isinstance(hint, str) else None,
        retry=known.get("retry") is True,
        retry_after=seconds if isinstance(seconds, (int, float)) and seconds >= 0 else None,
    )
