"""A server that plays responses, one for each connection, and notes the requests."""

import json
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

TAG = "5f0c9a7e31b84d2296e0c1d7a4b8f365"
COLUMNS = [{"name": "id", "type": "int64"}]

#: Seconds after which a test that waits for an event fails.
LONG = 60

Play = Callable[[socket.socket], None]


def head(resume: str = "marks", **others: str) -> bytes:
    """The head of a framed response, whose body ends with its connection."""
    fields = {"rowstream-tag": TAG, "rowstream-wire": "1", "rowstream-resume": resume, **others}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    return "\r\n".join(["HTTP/1.1 200 OK", "connection: close", *lines, "", ""]).encode()


def record(**members: Any) -> bytes:
    return json.dumps({"$rowstream": TAG, **members}, separators=(",", ":")).encode() + b"\n"


def begun(resume: str = "marks", **others: str) -> bytes:
    """The head and the columns."""
    return head(resume, **others) + record(columns=COLUMNS)


def rows(*ids: int) -> bytes:
    return b"".join(b'{"id":%d}\n' % i for i in ids)


def mark(count: int, cursor: str) -> bytes:
    return record(mark={"rows": count, "next": cursor})


def event(i: int) -> bytes:
    return b'data: {"id":%d}\nid: c%d\n\n' % (i, i)


def event_record(**members: Any) -> bytes:
    return b"event: rowstream\ndata: " + record(**members) + b"\n"


def problem(status: int, **members: Any) -> bytes:
    body = json.dumps(members).encode()
    fields = b"connection: close\r\ncontent-type: application/problem+json\r\ncontent-length: %d" % len(body)
    return b"HTTP/1.1 %d X\r\n%s\r\n\r\n%s" % (status, fields, body)


def sends(*pieces: bytes) -> Play:
    return lambda client: client.sendall(b"".join(pieces))


def wait_for_end(client: socket.socket) -> None:
    """Returns once the other end has closed its connection."""
    with suppress(ConnectionError):
        while client.recv(4096):
            pass


def send_until_blocked(client: socket.socket, data: bytes, most: int) -> int:
    """Sends the same bytes until the other end has read nothing for a while. Returns how often."""
    for sent in range(most):
        if not select.select([], [client], [], 0.5)[1]:
            return sent
        client.sendall(data)
    return most


class Peer:
    def __init__(self, *plays: Play) -> None:
        self.requests: list[str] = []
        self.heads: list[bytes] = []
        self._plays = plays
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/rows"

    def __enter__(self) -> "Peer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # Otherwise a failed test would wait for plays that never begin.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _serve(self) -> None:
        with self._listener, suppress(OSError):
            for play in self._plays:
                self._serve_one(play)

    def _serve_one(self, play: Play) -> None:
        client, _ = self._listener.accept()
        client.settimeout(LONG)
        with client:
            request = b""
            while not request.endswith(b"\r\n\r\n"):
                if not (data := client.recv(4096)):
                    return
                request += data
            self.heads.append(request)
            self.requests.append(request.split(b" ", 2)[1].decode())
            with suppress(ConnectionError):
                play(client)
                client.shutdown(socket.SHUT_WR)
                wait_for_end(client)
