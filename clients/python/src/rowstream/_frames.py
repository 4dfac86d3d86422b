"""Results as Arrow, and as tables of other libraries. Those are extras of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from ._errors import IncompleteStream
from ._protocol import Block, Reading

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow

#: The marker after the last batch.
END = b"\xff\xff\xff\xff\0\0\0\0"


class ArrowReading(Reading):
    """A whole result as an Arrow stream, which has no marks: after a cut it's read from the start."""

    parameters: ClassVar[Mapping[str, str]] = {"_format": "arrow"}

    @classmethod
    def like(cls, reading: Reading) -> ArrowReading:
        """Of the same list. Its progress replaces that of the rows."""
        _needs("pyarrow", "arrow")  # before the request
        arrow = cls(str(reading._list), None, reading._limit)
        reading.progress = arrow.progress
        return arrow

    def begin(self, headers: Mapping[str, str]) -> None:
        super().begin(headers)
        self._body = bytearray()

    def feed(self, data: bytes) -> Sequence[Block]:
        self.progress.bytes += len(data)
        self._body += data
        return ()

    def finish(self) -> None:
        """Reads the batches up to the marker after the last one. pyarrow doesn't check that there's one."""
        import pyarrow

        size = len(self._body)
        # If the stream was cut, this marker is the first one, or a part of what's missing.
        self._body += END
        source = pyarrow.BufferReader(self._body)
        try:
            table = pyarrow.ipc.open_stream(source).read_all()
        except (pyarrow.ArrowException, OSError) as error:
            raise IncompleteStream(f"the Arrow stream isn't whole: {error}", retry=True) from error
        if source.tell() > size:
            raise IncompleteStream("the Arrow stream ended without its marker: it was cut", retry=True)
        self.table = table
        self.progress.rows = table.num_rows
        self.is_complete = True


def to_pandas(table: Any) -> pandas.DataFrame:
    _needs("pandas", "pandas")
    import pandas

    return table.to_pandas(types_mapper=pandas.ArrowDtype)


def to_polars(table: Any) -> polars.DataFrame:
    _needs("polars", "polars")
    import polars

    return polars.DataFrame(table)


def to_duckdb(table: pyarrow.Table, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    _needs("duckdb", "duckdb")
    import duckdb

    return (connection or duckdb).from_arrow(table)


def _needs(module: str, extra: str) -> None:
    try:
        import_module(module)
    except ImportError as error:
        raise ImportError(f"{error}: install it with pip install 'rowstream[{extra}]'") from error
