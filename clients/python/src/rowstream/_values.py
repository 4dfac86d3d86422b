"""Exact Python values, by the types in the `columns` record.

A value that Python's type can't hold stays as it is in the JSON: the year 10000, infinite dates, `24:00:00`,
nanoseconds, and in SQLite any value that doesn't fit the type of its column.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

Row = dict[str, Any]

#: The types without decimals in them. In others, a number with a fraction is a Decimal.
_NO_DECIMALS = {"int16", "int32", "int64", "float", "double", "boolean", "string", "uuid", "duration"} | {
    *("date", "time-local", "date-time-local", "date-time", "binary", "list")
}


def decoder(columns: Iterable[Row]) -> json.JSONDecoder:
    """A decoder that keeps the digits of decimals."""
    return json.JSONDecoder(parse_float=Decimal) if _has_decimals(columns) else json.JSONDecoder()


def patient_decoder(columns: Iterable[Row]) -> json.JSONDecoder:
    """The same, for -0 and integers of any length: Python refuses those of more than 4,300 digits."""
    fast = decoder(columns)
    return json.JSONDecoder(parse_float=fast.parse_float, parse_int=_integer)


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < 4000 and digits != "-0" else Decimal(digits)


#: In dates, other characters follow these.
_NEGATIVE_ZERO = re.compile(r"-0[],}\s]")


def has_negative_zero(text: str) -> bool:
    """True if a number may be -0, which the fast decoder reads as the integer 0."""
    return _NEGATIVE_ZERO.search(text) is not None


def _has_decimals(columns: Iterable[Row]) -> bool:
    return any(
        column.get("type") not in _NO_DECIMALS or _has_decimals(column.get("columns", ()))
        for column in columns
    )


def converter(columns: Iterable[Row], changes: str, zeros: list[int]) -> Callable[[Row], None] | None:
    """Converts the values of a row in place. None if JSON's values are exact already.

    `changes` is the header that lists the values' other forms, for example `numbers=string,bytes=base64`.
    `zeros` gets the integers 0 in columns of floats, because they may have been -0.
    """
    fields = [
        (column["name"], convert) for column in columns if (convert := _of_type(column, changes, zeros))
    ]
    if not fields:
        return None

    def convert_row(row: Row) -> None:
        for name, convert in fields:
            value = row.get(name)
            if value is not None:
                try:  # noqa: SIM105 - `suppress` is slower
                    row[name] = convert(value)
                except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                    pass  # Python's type can't hold it.

    return convert_row


def _of_type(column: Row, changes: str, zeros: list[int]) -> Callable[[Any], Any] | None:
    match column.get("type"):
        case "int64" if "numbers=string" in changes:
            return _int64
        case "decimal" if "numbers=string" in changes:
            return _decimal_of_text
        case "float" | "double":
            return _float(zeros)
        case "binary":
            return _base64 if "bytes=base64" in changes else _hex
        case "list":
            convert_row = converter(column.get("columns", ()), changes, zeros)
            return convert_row and _list_of(convert_row)
        case name:
            return _CONVERTERS.get(name) if isinstance(name, str) else None


def _list_of(convert_row: Callable[[Row], None]) -> Callable[[list[Row]], list[Row]]:
    def convert(rows: list[Row]) -> list[Row]:
        for row in rows:
            convert_row(row)
        return rows

    return convert


def _form(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(pattern, re.ASCII).fullmatch


# Python's types read more forms than the wire has: `int("1_0")` is 10. They check digits themselves, except
# that the hour 24 is in some versions the next day.
_DATE = "....-..-.."
_TIME = r"(?!24)..:..:..(?:\.\d{1,6})?"
_is_integer = _form(r"-?\d+")
_is_number = _form(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_is_date, _is_time, _is_local = _form(_DATE), _form(_TIME), _form(f"{_DATE}T{_TIME}")
_is_instant = _form(f"{_DATE}T{_TIME}Z")
_is_uuid = _form("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NOT_FINITE = {"NaN", "Infinity", "-Infinity"}


def _int64(value: Any) -> Any:
    return int(value) if _is_integer(value) else value


def _decimal(value: Any) -> Any:
    kind = value.__class__
    if kind is Decimal:
        return value
    return Decimal(value) if kind is int or (kind is str and value in _NOT_FINITE) else value


def _decimal_of_text(value: Any) -> Any:
    return Decimal(value) if value in _NOT_FINITE or _is_number(value) else value


def _float(zeros: list[int]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        kind = value.__class__
        if kind is int:
            if value == 0:
                zeros.append(value)
            return float(value)
        return float(value) if kind is Decimal or (kind is str and value in _NOT_FINITE) else value

    return convert


def _hex(text: str) -> Any:
    value = bytes.fromhex(text[2:])
    return value if text.startswith("\\x") and 2 * len(value) == len(text) - 2 else text


def _base64(text: str) -> bytes:
    return b64decode(text, validate=True)


def _microseconds(text: str, whole: int) -> str:
    """The form that every version of Python reads: with no fraction, or with six digits."""
    return f"{text:0<{whole + 7}}" if len(text) > whole else text


def _instant(text: str) -> Any:
    if not _is_instant(text):
        return text
    whole = text[:-1] if len(text) == 20 else _microseconds(text[:-1], 19)
    return datetime.fromisoformat(whole + "+00:00")


def _local_datetime(text: str) -> Any:
    return datetime.fromisoformat(_microseconds(text, 19)) if _is_local(text) else text


def _date(text: str) -> Any:
    return date.fromisoformat(text) if _is_date(text) else text


def _local_time(text: str) -> Any:
    return time.fromisoformat(_microseconds(text, 8)) if _is_time(text) else text


def _uuid(text: str) -> Any:
    return UUID(text) if _is_uuid(text) else text


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "decimal": _decimal,
    "date-time": _instant,
    "date-time-local": _local_datetime,
    "date": _date,
    "time-local": _local_time,
    "uuid": _uuid,
}
