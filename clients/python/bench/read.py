"""Compares this client with loops over urllib that check nothing, on a recorded answer of a million rows.

Usage: read.py
"""

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from threading import Thread

import httpx
import pyarrow

import rowstream

TAG = "5f0c9a7e31b84d2296e0c1d7a4b8f365"
ROWS, RUNS = 1_000_000, 5
PLAIN = [
    {"name": "id", "type": "int64"},
    {"name": "sensor", "type": "int64"},
    {"name": "note", "type": "string"},
]
TYPED = [
    {"name": "id", "type": "int64"},
    {"name": "total", "type": "decimal"},
    {"name": "at", "type": "date-time"},
]


def record(**members: object) -> str:
    return json.dumps({"$rowstream": TAG, **members}, separators=(",", ":"))


def framed(columns: list[dict[str, str]], count: int) -> Iterable[str]:
    yield record(columns=columns)
    for i in range(count):
        if columns is TYPED:
            at = f"2026-03-{i % 28 + 1:02}T09:{i % 60:02}:00Z"
            yield f'{{"id":{i},"total":{i % 977}.{i % 100:02},"at":"{at}"}}'
        else:
            yield f'{{"id":{i},"sensor":{i % 16},"note":"reading {i}"}}'
        if i % 1000 == 999:
            yield record(mark={"rows": i + 1, "next": f"c{i}"})
    yield record(end={"rows": count, "next": "c"})


def arrow(count: int) -> bytes:
    ids = pyarrow.array(range(count), pyarrow.int64())
    table = pyarrow.table({"id": ids, "sensor": ids, "note": ids.cast(pyarrow.string())})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2000)
    return sink.getvalue().to_pybytes()


def serve(listener: socket.socket, answers: dict[str, bytes]) -> None:
    """Sends chunks of 32 KiB, as the server does."""
    fields = f"rowstream-tag: {TAG}\r\nrowstream-wire: 1\r\nrowstream-resume: marks\r\n"
    head = f"HTTP/1.1 200 OK\r\n{fields}connection: close\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    while True:
        client, _ = listener.accept()
        with client:
            body = memoryview(answers[client.recv(65536).split(b" ")[1].decode().split("?")[0]])
            client.sendall(head)
            for start in range(0, len(body), 32768):
                chunk = body[start : start + 32768]
                client.sendall(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            client.sendall(b"0\r\n\r\n")


def read_by_hand(url: str) -> int:
    with urllib.request.urlopen(url) as body:
        return sum(1 for line in body if json.loads(line))


def read_by_client(url: str) -> int:
    return sum(1 for _ in rowstream.rows(url))


def read_by_aio(url: str) -> int:
    async def read() -> int:
        count = 0
        async for _ in rowstream.aio.rows(url):
            count += 1
        return count

    return asyncio.run(read())


def arrow_by_hand(url: str) -> int:
    with urllib.request.urlopen(url) as body:
        return pyarrow.ipc.open_stream(body).read_all().num_rows


def arrow_unread(url: str) -> int:
    """httpx alone, which the client can't be faster than."""
    with httpx.Client() as client, client.stream("GET", url) as response:
        for _ in response.iter_raw():
            pass
    return ROWS


def arrow_by_client(url: str) -> int:
    return rowstream.rows(url).to_arrow().num_rows


WAYS = {
    way.__name__: way
    for way in (read_by_hand, read_by_client, read_by_aio, arrow_by_hand, arrow_unread, arrow_by_client)
}


def run(way: str, url: str) -> tuple[float, int]:
    """The best rate in rows a second, and the peak memory in KiB, of a process of its own."""
    rate, memory = json.loads(subprocess.check_output([sys.executable, __file__, way, url]))
    return rate, memory


def measure(way: str, url: str) -> None:
    rates: list[float] = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        rates.append(WAYS[way](url) / (time.perf_counter() - begun))
    status = Path("/proc/self/status").read_text().splitlines()
    (peak,) = (line for line in status if line.startswith("VmHWM:"))
    print(json.dumps([max(rates), int(peak.split()[1])]))


def main() -> None:
    answers = {"/arrow": arrow(ROWS)}
    for name, columns in (("plain", PLAIN), ("typed", TYPED)):
        for count in (ROWS // 10, ROWS):
            answers[f"/{name}{count}"] = "".join(line + "\n" for line in framed(columns, count)).encode()
    listener = socket.create_server(("127.0.0.1", 0))
    Thread(target=serve, args=(listener, answers), daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    for path in answers:
        by_hand = 0.0
        for way in WAYS:
            if way.startswith("arrow") == (path == "/arrow"):
                rate, memory = run(way, url + path)
                by_hand = by_hand or rate
                ratio = rate / by_hand
                print(
                    f"{path:13} {way:15} {rate:10,.0f} rows/s {ratio:5.2f} {memory / 1024:6.1f} MiB at most"
                )


if __name__ == "__main__":
    measure(*sys.argv[1:]) if sys.argv[1:] else main()
