"""A reference client of Rowstream's wire, version 1: it reads NDJSON, JSON sequences, JSON and CSV.

usage: python3 client.py URL…      prints a report for each URL, as a line of JSON
"""
import csv, hashlib, io, json, socket, sys, time
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qsl, urlencode, urlsplit

ATTEMPTS, CONNECT_TIMEOUT, MISSED_HEARTBEATS = 4, 10, 3


class Cut(Exception):
    """A part of the response is missing. The argument has the members of the server's error, if any."""


class Response:
    """An HTTP/1.1 response whose end is verified, unlike that of `http.client`."""
    def __init__(self, address, target):
        connection = socket.create_connection(address, CONNECT_TIMEOUT)
        head = f"GET {target} HTTP/1.1\r\nHost: {address[0]}\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n"
        connection.sendall(head.encode())
        self.file = connection.makefile("rb")
        self.status, self.headers, self.trailers = int(self.line().split()[1]), self.fields(), {}
        if heartbeat := self.headers.get("rowstream-heartbeat"):
            connection.settimeout(MISSED_HEARTBEATS * float(heartbeat))

    def line(self):
        line = self.file.readline(65536)
        if not line.endswith(b"\r\n"):
            raise Cut({"detail": "the connection closed within a line of HTTP"})
        return line[:-2].decode("latin-1")

    def fields(self):
        return {line.split(":")[0].lower(): line.split(":", 1)[1].strip() for line in iter(self.line, "")}

    def exactly(self, size):
        while size:
            piece = self.file.read1(min(size, 65536))
            if not piece:
                raise Cut({"detail": "the connection closed within the body"})
            size -= len(piece)
            yield piece

    def pieces(self):
        if "content-length" in self.headers:
            yield from self.exactly(int(self.headers["content-length"]))
        elif self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.line(), 16):
                yield from self.exactly(size)
                self.line()
            self.trailers = self.fields()
            announced = "rowstream-status" in self.headers.get("trailer", "")
            if announced and self.trailers.get("rowstream-status") != "complete":
                raise Cut({"detail": "a proxy dropped the trailers"})
        else:
            raise Cut({"detail": "without a length or chunks, no end can be verified"})


class Reading:
    """The rows of a list so far, from several responses."""
    def __init__(self, query):
        self.rows, self.unsafe = [], []  # rows up to the last mark, and those after it
        self.query, self.requests, self.attempts = query, 0, 0
        self.resume, self.has_begun = "none", False  # whether rows arrived

    def keep(self, cursor):
        self.attempts = 0 if self.unsafe else self.attempts
        self.rows, self.unsafe = self.rows + self.unsafe, []
        self.query |= {"_after": cursor} if cursor else {}

    def records(self, response):
        """Reads lines. In JSON sequences, a separator begins each element, and a line ends it."""
        start, rest, count = b'{"$rowstream":"%s",' % response.headers["rowstream-tag"].encode(), b"", 0
        for piece in response.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            for line in (line.rpartition(b"\x1e")[2] for line in lines):
                record = json.loads(line) if line.startswith(start) else {}
                counted = record.get("end") or record.get("mark")
                if "error" in record or counted and counted["rows"] != count:
                    raise Cut(record.get("error", {"detail": "the server counted other rows"}))
                if counted:
                    self.keep(counted.get("next"))
                if "end" in record:
                    return
                if line and not record:
                    self.unsafe.append(line)
                    count, self.has_begun = count + 1, True
        raise Cut({"detail": "the end record is missing"})

    def document(self, response):
        self.has_begun = True
        body = b"".join(response.pieces())
        if response.headers["content-type"].startswith("text/csv"):
            rows = list(csv.reader(io.StringIO(body.decode("utf-8-sig"), newline="")))[1:]
        else:
            rows = json.loads(body)
        if int(response.trailers.get("rowstream-rows", len(rows))) != len(rows):
            raise Cut({"detail": "the server counted other rows"})
        self.rows = [json.dumps(row).encode() for row in rows]

    def read(self, address, path):
        """Returns the reason if rows are missing."""
        while True:
            self.requests, self.attempts, self.unsafe = self.requests + 1, self.attempts + 1, []
            try:
                response = Response(address, f"{path}?{urlencode(self.query)}")
                if response.status != 200:
                    raise Cut(json.loads(b"".join(response.pieces())))
                self.resume = response.headers.get("rowstream-resume", "none")
                if response.headers.get("rowstream-wire", "1") != "1":
                    raise Cut({"detail": "this client reads version 1 of the wire", "retry": False})
                return (self.records if "rowstream-tag" in response.headers else self.document)(response)
            except Cut as cut:
                error = cut.args[0]
            except (OSError, ValueError) as fault:
                error = {"detail": str(fault)}
            can_repeat = not self.has_begun or self.resume == "marks" and "_after" in self.query
            if not can_repeat or not error.get("retry", True) or self.attempts == ATTEMPTS:
                return error
            time.sleep(error.get("retry_after", 0.1 * self.attempts))


def report(url):
    url = urlsplit(url)
    reading = Reading(dict(parse_qsl(url.query)))
    error = reading.read((url.hostname, url.port), url.path)
    outcome = "complete" if error is None else "error" if "code" in error else "incomplete"
    digest = hashlib.sha256(b"".join(row + b"\n" for row in reading.rows)).hexdigest()
    return {"outcome": outcome, "error": error, "requests": reading.requests,
            "rows": [json.loads(row) for row in reading.rows], "sha256": digest}


with ThreadPoolExecutor(16) as pool:
    for line in pool.map(report, sys.argv[1:]):
        print(json.dumps(line))
