"""Reads lists whose responses are damaged, and prints the rows of each run that were missing or repeated.

Usage: faults.py BASE RUNS ROWS PLAIN
"""

import asyncio
import json
import sys

import rowstream
from rowstream import _protocol

# Hundreds of faults shouldn't take minutes.
_protocol.FIRST_PAUSE = _protocol.LONGEST_PAUSE = 0.01
base, (runs, all_rows, plain) = sys.argv[1], map(int, sys.argv[2:])


class Seen:
    """The rows of a run."""

    def __init__(self) -> None:
        self.rows = self.lost = self.doubled = self.last = 0
        self.error: str | None = None

    def add(self, number: int) -> None:
        self.rows += 1
        self.doubled += number <= self.last
        self.lost += max(0, number - self.last - 1)
        self.last = max(self.last, number)


def read(url: str, seen: Seen) -> None:
    with rowstream.rows(url) as stream:
        for row in stream:
            seen.add(row["id"])


async def aread(url: str, seen: Seen) -> None:
    async with rowstream.aio.rows(url) as stream:
        async for row in stream:
            seen.add(row["id"])


for run in range(runs):
    seen = Seen()
    url = f"{base}/{run}/{'plain' if run % plain == 0 else 'rows'}"
    try:
        # Both ways meet each fault.
        if run // 8 % 2:
            asyncio.run(aread(url, seen))
        else:
            read(url, seen)
        seen.lost += all_rows - seen.last
    except rowstream.RowstreamError as error:
        seen.error = error.code or type(error).__name__
    members = {"rows": seen.rows, "lost": seen.lost, "doubled": seen.doubled, "error": seen.error}
    print(json.dumps({"run": run, **members}))
