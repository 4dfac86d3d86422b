"""Reads a list of rows with the ids 1, 2, 3 … over connections that are cut, and prints which arrived.

Usage: cuts.py sync|async URL
"""

import asyncio
import json
import sys

import rowstream
from rowstream import _protocol

# Hundreds of cuts shouldn't take minutes.
_protocol.FIRST_PAUSE = _protocol.LONGEST_PAUSE = 0.002
way, url = sys.argv[1:]


def read() -> tuple[list[int], rowstream.Progress]:
    with rowstream.rows(url, attempts=100) as stream:
        return [row["n"] for row in stream], stream.progress


async def aread() -> tuple[list[int], rowstream.Progress]:
    async with rowstream.aio.rows(url, attempts=100) as stream:
        return [row["n"] async for row in stream], stream.progress


ids, progress = read() if way == "sync" else asyncio.run(aread())
lost, doubled = set(range(1, max(ids) + 1)) - set(ids), len(ids) - len(set(ids))
assert ids == sorted(ids), "the order of the rows"
assert progress.rows == len(ids), progress
print(
    json.dumps({"rows": len(ids), "lost": len(lost), "doubled": doubled, "resumptions": progress.resumptions})
)
