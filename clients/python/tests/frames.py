"""Compares results as Arrow, pandas, polars and DuckDB with the rows.

Usage: frames.py URL…
"""

import asyncio
import sys
from collections.abc import Iterable
from typing import Any

import duckdb

import rowstream


def plain(rows: Iterable[dict[str, Any]]) -> list[list[Any]]:
    """The values of rows. Instants are compared as such: libraries have time zones of their own kinds."""
    return [
        [value.timestamp() if hasattr(value, "timestamp") else value for value in row.values()]
        for row in rows
    ]


async def of_aio(url: str) -> tuple[Any, ...]:
    rows = rowstream.aio.rows(url)
    table, pandas, polars = await rows.to_arrow(), await rows.to_pandas(), await rows.to_polars()
    relation = await rows.to_duckdb()
    return await rows.collect(), table, pandas, polars, relation


for url in sys.argv[1:]:
    rows = rowstream.rows(url)
    relation = rows.to_duckdb(duckdb.connect())
    of_sync = rows.collect(), rows.to_arrow(), rows.to_pandas(), rows.to_polars(), relation
    for expected, table, pandas, polars, relation in (of_sync, asyncio.run(of_aio(url))):
        assert expected, url
        assert plain(table.to_pylist()) == plain(expected), "pyarrow"
        assert plain(pandas.to_dict("records")) == plain(expected), "pandas"
        assert plain(polars.iter_rows(named=True)) == plain(expected), "polars"
        names = relation.columns
        named = [dict(zip(names, row, strict=True)) for row in relation.fetchall()]
        assert plain(named) == plain(expected), "DuckDB"
