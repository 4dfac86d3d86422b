"""Reads an Arrow IPC stream of one row with pyarrow, and prints as JSON each column's type and value in the form of
testdata/values.ndjson: dates and times as the numbers that they are in Arrow, bytes in hexadecimal digits.

Usage: values.py FILE
"""

import json
import sys

import pyarrow


def as_text(value):
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            return value.hex()
        case _:
            return str(value)


def plain(column):
    """The values of the column, without what pyarrow makes of its type."""
    if pyarrow.types.is_list(column.type):
        elements = json.dumps([as_text(value) for value in plain(column.flatten())])
        return [None if column.null_count else elements]
    if isinstance(column, pyarrow.ExtensionArray):
        column = column.storage
    if pyarrow.types.is_date32(column.type):
        column = column.cast(pyarrow.int32())
    if pyarrow.types.is_time64(column.type) or pyarrow.types.is_timestamp(column.type):
        column = column.cast(pyarrow.int64())
    return column.to_pylist()


with pyarrow.OSFile(sys.argv[1]) as file, pyarrow.ipc.open_stream(file) as reader:
    table = reader.read_all()
table.validate(full=True)
assert table.num_rows == 1, table.num_rows
values = [as_text(plain(column.combine_chunks())[0]) for column in table.columns]
print(json.dumps([{"type": str(field.type), "value": value} for field, value in zip(table.schema, values, strict=True)]))
