"""Reads an Arrow IPC stream as a user of the library would, and prints as JSON what it saw:
how many rows, and of each column the type, how many NULLs, and the last value.

Usage: read.py pyarrow|polars|duckdb FILE
"""

import json
import sys


def with_pyarrow(path):
    import pyarrow

    with pyarrow.OSFile(path) as file, pyarrow.ipc.open_stream(file) as reader:
        table = reader.read_all()
    table.validate(full=True)
    types = [str(field.type) for field in table.schema]
    nulls = [column.null_count for column in table.columns]
    return table.column_names, table.num_rows, types, nulls, table.slice(table.num_rows - 1).to_pylist()[0].values()


def with_polars(path):
    import polars

    frame = polars.read_ipc_stream(path)
    return frame.columns, frame.height, map(str, frame.dtypes), frame.null_count().row(0), frame.row(-1)


def with_duckdb(path):
    import duckdb
    import pyarrow

    with pyarrow.OSFile(path) as file, pyarrow.ipc.open_stream(file) as stream:
        connection = duckdb.connect()
        connection.execute("create table rows as select * from stream")
    names, types = zip(*(column[:2] for column in connection.execute("describe rows").fetchall()))
    rows = connection.execute("select count(*) from rows").fetchone()[0]
    nulls = connection.execute("select count(*) - count(columns(*)) from rows").fetchone()
    last = connection.execute(f"select columns(*)::varchar from rows offset {rows - 1}").fetchone()
    return names, rows, types, nulls, last


library, path = sys.argv[1:]
names, rows, *columns = {"pyarrow": with_pyarrow, "polars": with_polars, "duckdb": with_duckdb}[library](path)
columns = {
    name: {"type": type_name, "nulls": nulls, "last": None if last is None else str(last)}
    for name, type_name, nulls, last in zip(names, *columns, strict=True)
}
print(json.dumps({"rows": rows, "columns": columns}))
