"""Reads an Arrow IPC stream with pyarrow, and prints its rows as JSON, with dates and decimals as texts, and the type of
each column.

Usage: rows.py FILE
"""

import json
import sys

import pyarrow

with pyarrow.OSFile(sys.argv[1]) as file, pyarrow.ipc.open_stream(file) as reader:
    table = reader.read_all()
table.validate(full=True)
types = [str(field.type) for field in table.schema]
print(json.dumps({"rows": table.to_pylist(), "types": types}, default=str))
