"""Exact Python values, by the types in the `columns` record.

A value that Python's type can't hold stays as it is in the JSON: the year 10000, infinite dates, `24:00:00`,
nanoseconds, and in SQLite any value that doesn't fit the type of its column.
"""

from __future__ import annotations

import json
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
    """The same, for integers of any length: Python refuses those of more than 4,300 digits."""
    fast = decoder(columns)
    return json.JSONDecoder(parse_float=fast.parse_float, parse_int=_integer)


def _integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < 4000 else Decimal(digits)


def _has_decimals(columns: Iterable[Row]) -> bool:
    return any(
        column.get("type") not in _NO_DECIMALS or _has_decimals(column.get("columns", ()))
        for column in columns
    )


def converter(columns: Iterable[Row], changes: str) -> Callable[[Row], None] | None:
    """Converts the values of a row in place. None if JSON's values are exact already.

    `changes` is the header that lists the values' other forms, for example `numbers=string,bytes=base64`.
    """
    fields = [(column["name"], convert) for column in columns if (convert := _of_type(column, changes))]
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


def _of_type(column: Row, changes: str) -> Callable[[Any], Any] | None:
    match column.get("type"):
        case "int64" if "numbers=string" in changes:
            return int
        case "binary":
            return _base64 if "bytes=base64" in changes else _hex
        case "list":
            convert_row = converter(column.get("columns", ()), changes)
            return convert_row and _list_of(convert_row)
        case name:
            return _CONVERTERS.get(name) if isinstance(name, str) else None


def _list_of(convert_row: Callable[[Row], None]) -> Callable[[list[Row]], list[Row]]:
    def convert(rows: list[Row]) -> list[Row]:
        for row in rows:
            convert_row(row)
        return rows

    return convert


def _decimal(value: Any) -> Decimal:
    return value if value.__class__ is Decimal else Decimal(value)


def _hex(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("not PostgreSQL's hex form")
    return bytes.fromhex(text[2:])


def _base64(text: str) -> bytes:
    return b64decode(text, validate=True)


def _microseconds(text: str, whole: int) -> str:
    """The form that every version of Python reads: with no fraction, or with six digits."""
    fraction = text[whole:]
    if not fraction:
        return text
    if fraction[0] != "." or len(fraction) > 7:
        raise ValueError("Python has only years of four digits, and microseconds")
    return f"{text:0<{whole + 7}}"


def _instant(text: str) -> datetime:
    if text[-1] != "Z":
        raise ValueError("not UTC")
    return datetime.fromisoformat(_microseconds(text[:-1], 19) + "+00:00")


def _local_datetime(text: str) -> datetime:
    return datetime.fromisoformat(_microseconds(text, 19))


def _local_time(text: str) -> time:
    if text.startswith("24"):
        raise ValueError("not midnight of the same day")
    return time.fromisoformat(_microseconds(text, 8))


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "double": float,
    "decimal": _decimal,
    "date-time": _instant,
    "date-time-local": _local_datetime,
    "date": date.fromisoformat,
    "time-local": _local_time,
    "uuid": UUID,
}
