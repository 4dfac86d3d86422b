"""Certification: the scripts of `testdata/wire`, played by the peers in `ROWSTREAM_TEST_PEERS`.

Each peer plays a script once, so the variable has a URL for each of the two clients.
"""

import asyncio
import hashlib
import json
import os
import unittest
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

import rowstream

PEERS = os.environ.get("ROWSTREAM_TEST_PEERS", "").split()
SCRIPTS = [
    json.loads(file.read_text(encoding="utf-8"), parse_float=Decimal)
    for file in sorted((Path(__file__).parents[3] / "testdata/wire").glob("ndjson-*.json"))
]
ATTEMPTS = 4


class Report:
    """What a client says about a script."""

    def __init__(self) -> None:
        self.outcome, self.code, self.rows = "complete", None, []

    def failed(self, error: rowstream.RowstreamError) -> None:
        is_incomplete = isinstance(error, rowstream.IncompleteStream)
        self.outcome, self.code = "incomplete" if is_incomplete else "error", error.code

    def differences(self, expect: dict[str, Any], seen: dict[str, Any]) -> list[str]:
        found = list(seen["mismatches"])
        if (self.outcome, self.code) != (expect["outcome"], expect.get("code")):
            found.append(f"{self.outcome} {self.code}")
        if len(seen["requests"]) != expect["requests"]:
            found.append(f"requests: {seen['requests']}")
        if not self.has(expect["rows"], expect["outcome"] == "complete"):
            found.append(f"rows: {self.rows}")
        return found

    def has(self, rows: Any, is_whole: bool) -> bool:
        if isinstance(rows, list):
            return self.rows == rows[: len(rows) if is_whole else len(self.rows)]
        lines = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in self.rows)
        digest = hashlib.sha256(lines.encode()).hexdigest()
        return (len(self.rows), digest) == (rows["count"], rows["sha256"])


def read(url: str) -> Report:
    report = Report()
    try:
        report.rows.extend(rowstream.rows(url, attempts=ATTEMPTS))
    except rowstream.RowstreamError as error:
        report.failed(error)
    return report


async def aread(url: str) -> Report:
    report = Report()
    try:
        async for row in rowstream.aio.rows(url, attempts=ATTEMPTS):
            report.rows.append(row)
    except rowstream.RowstreamError as error:
        report.failed(error)
    return report


async def aread_all(urls: list[str]) -> list[Report]:
    return await asyncio.gather(*map(aread, urls))


@unittest.skipUnless(len(PEERS) == 2, "ROWSTREAM_TEST_PEERS isn't set: start `cargo xtask wire` twice")
class Wire(unittest.TestCase):
    def urls(self, peer: str) -> list[str]:
        return [f"{peer}/{script['name']}{script['start']}" for script in SCRIPTS]

    def judge(self, peer: str, reports: list[Report]) -> None:
        self.assertGreater(len(SCRIPTS), 50)
        results = httpx.get(f"{peer}/_results").json()
        for script, report in zip(SCRIPTS, reports, strict=True):
            with self.subTest(script["name"]):
                self.assertEqual(report.differences(script["expect"], results[script["name"]]), [])

    def test_the_synchronous_client(self) -> None:
        with ThreadPoolExecutor(16) as pool:
            self.judge(PEERS[0], list(pool.map(read, self.urls(PEERS[0]))))

    def test_the_asynchronous_client(self) -> None:
        self.judge(PEERS[1], asyncio.run(aread_all(self.urls(PEERS[1]))))


if __name__ == "__main__":
    unittest.main()
