"""Both clients against a peer that plays faults: each test runs with the synchronous one and with asyncio."""

import asyncio
import json
import socket
import threading
import unittest
import zlib
from collections.abc import Callable
from itertools import islice
from typing import Any
from unittest import mock

import httpx
import pyarrow

import rowstream
from peer import (
    COLUMNS,
    LONG,
    Peer,
    Play,
    begun,
    event,
    event_record,
    head,
    mark,
    problem,
    record,
    rows,
    send_until_blocked,
    sends,
    wait_for_end,
)
from rowstream import _protocol
from rowstream._frames import END, ArrowReading


def setUpModule() -> None:
    mock.patch.object(_protocol, "FIRST_PAUSE", 0.001).start()


def tearDownModule() -> None:
    mock.patch.stopall()


class Reader:
    """How a test reads: all rows, or the first ones."""

    def all(self, url: str, **options: Any) -> list[int]:
        return [row["id"] for row in rowstream.rows(url, **options)]

    def first(self, stream: Callable[..., Any], url: str, count: int, **options: Any) -> list[int]:
        with stream(url, **options) as opened:
            return [row["id"] for row in islice(opened, count)]

    def until_error(self, stream: Callable[..., Any], url: str, **options: Any) -> tuple[list[int], Any]:
        ids: list[int] = []
        try:
            for row in stream(url, **options):
                ids.append(row["id"])
        except rowstream.RowstreamError as error:
            return ids, error
        return ids, None

    def arrow(self, url: str, **options: Any) -> Any:
        return rowstream.rows(url, **options).to_arrow()

    def uses(self, url: str, *uses: str) -> list[Any]:
        """The results of these methods of a stream, one after the other."""
        stream, results = rowstream.rows(url, attempts=1), []
        for use in uses:
            try:
                if use == "next":
                    results.append(next(stream)["id"])
                elif use == "for":
                    results.append([row["id"] for row in stream])
                elif use == "batches":
                    for batch in stream.batches(2):
                        results.append([row["id"] for row in batch])
                elif use == "collect":
                    results.append([row["id"] for row in stream.collect()])
                else:
                    stream.close()
            except rowstream.RowstreamError as error:
                results.append((error.rows, error.cursor, "call `rows`" in str(error)))
        return results


class AsyncReader(Reader):
    def all(self, url: str, **options: Any) -> list[int]:
        async def read() -> list[int]:
            return [row["id"] async for row in rowstream.aio.rows(url, **options)]

        return asyncio.run(read())

    def first(self, stream: Callable[..., Any], url: str, count: int, **options: Any) -> list[int]:
        async def read() -> list[int]:
            ids: list[int] = []
            async with getattr(rowstream.aio, stream.__name__)(url, **options) as opened:
                async for row in opened:
                    ids.append(row["id"])
                    if len(ids) == count:
                        break
            return ids

        return asyncio.run(read())

    def until_error(self, stream: Callable[..., Any], url: str, **options: Any) -> tuple[list[int], Any]:
        async def read() -> tuple[list[int], Any]:
            ids: list[int] = []
            try:
                async for row in getattr(rowstream.aio, stream.__name__)(url, **options):
                    ids.append(row["id"])
            except rowstream.RowstreamError as error:
                return ids, error
            return ids, None

        return asyncio.run(read())

    def uses(self, url: str, *uses: str) -> list[Any]:
        async def read() -> list[Any]:
            stream, results = rowstream.aio.rows(url, attempts=1), []
            for use in uses:
                try:
                    if use == "next":
                        results.append((await anext(stream))["id"])
                    elif use == "for":
                        results.append([row["id"] async for row in stream])
                    elif use == "batches":
                        async for batch in stream.batches(2):
                            results.append([row["id"] for row in batch])
                    elif use == "collect":
                        results.append([row["id"] for row in await stream.collect()])
                    else:
                        await stream.close()
                except rowstream.RowstreamError as error:
                    results.append((error.rows, error.cursor, "call `rows`" in str(error)))
            return results

        return asyncio.run(read())

    def arrow(self, url: str, **options: Any) -> Any:
        async def read() -> Any:
            return await rowstream.aio.rows(url, **options).to_arrow()

        return asyncio.run(read())


class Faults(unittest.TestCase):
    reader = Reader()

    def raises(self, peer: Peer, **options: Any) -> rowstream.RowstreamError:
        with self.assertRaises(rowstream.RowstreamError) as raised:
            self.reader.all(peer.url, **options)
        return raised.exception

    def test_attempts_are_bounded(self) -> None:
        for play in (sends(), sends(begun()), sends(begun(), rows(1)), sends(problem(503))):
            with Peer(*[play] * 4) as peer:
                error = self.raises(peer, attempts=3)
                self.assertEqual((len(peer.requests), error.rows, error.cursor), (3, 0, None))

    def test_the_error_has_the_rows_and_the_cursor(self) -> None:
        with Peer(sends(begun(), rows(1, 2), mark(2, "c2"), rows(3)), sends()) as peer:
            error = self.raises(peer, attempts=2)
            self.assertIsInstance(error, rowstream.IncompleteStream)
            self.assertEqual((error.rows, error.cursor, len(peer.requests)), (2, "c2", 2))
        self.assertIn("_after=c2", peer.requests[1])

    def test_a_server_that_cannot_be_reached(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            url = f"http://127.0.0.1:{closed.getsockname()[1]}/rows"
        with self.assertRaisesRegex(rowstream.IncompleteStream, "the connection failed"):
            self.reader.all(url, attempts=2)
        with self.assertRaisesRegex(rowstream.IncompleteStream, "protocol"):
            self.reader.all("ftp://127.0.0.1/rows", attempts=10**9)

    def test_an_answer_without_a_tag(self) -> None:
        with Peer(sends(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", rows(1))) as peer:
            self.assertIn("check that the URL is an endpoint", str(self.raises(peer)))

    def test_the_reason_of_an_abort(self) -> None:
        """An abort may reach the client without its error record."""
        reason = {"code": "row_too_large", "detail": "too long", "retry": False}
        state = json.dumps({"state": "failed", "error": reason}).encode()
        known = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(state), state)
        aborted = sends(begun(rowstream_stream="0a1b"), rows(1), mark(1, "c1"))
        with Peer(aborted, sends(known)) as peer:
            error = self.raises(peer, token="secret")
            self.assertEqual((error.code, error.rows, error.cursor), ("row_too_large", 1, "c1"))
        self.assertEqual(peer.requests[1:], ["/_rowstream/streams/0a1b"])

    def test_the_reason_behind_a_path_prefix(self) -> None:
        unknown = sends(problem(404, code="not_found", retry=False))
        for root, path in (
            ("./", "/api/shop/"),
            ("../", "/api/"),
            ("../../", "/"),
            ("../../../", "/"),
            ("//evil.example/", "/"),
            (".././", "/"),
        ):
            with Peer(sends(begun(rowstream_stream="0a1b", rowstream_root=root)), unknown) as peer:
                url = peer.url.replace("/rows", "/api/shop/rows?n=/x/y")
                with self.assertRaises(rowstream.IncompleteStream):
                    self.reader.all(url, attempts=1)
            self.assertEqual(peer.requests[1], f"{path}_rowstream/streams/0a1b")

    def test_a_replica_that_does_not_know_the_reason(self) -> None:
        rest = sends(begun(), rows(2), record(end={"rows": 1}))
        for answer in (problem(404, code="not_found", retry=False), b"", b"HTTP/1.1 200 OK\r\n\r\n{"):
            with Peer(
                sends(begun(rowstream_stream="0a1b"), rows(1), mark(1, "c1")), sends(answer), rest
            ) as peer:
                self.assertEqual(self.reader.all(peer.url), [1, 2])

    def test_a_shard_keeps_its_snapshot(self) -> None:
        cut = sends(begun(rowstream_snapshot="s-1"), rows(1), mark(1, "c1"))
        with Peer(cut, sends(begun(), rows(2), record(end={"rows": 1}))) as peer:
            self.assertEqual(self.reader.all(peer.url, params={"_shard": "1/2"}), [1, 2])
        self.assertIn("_snapshot=s-1", peer.requests[1])

    def test_headers_and_parameters_are_sent(self) -> None:
        for options, authorization in (
            ({"token": "secret"}, ["Bearer secret"]),
            ({"headers": {"AUTHORIZATION": "Basic eA=="}}, ["Basic eA=="]),
            ({"headers": {"accept-encoding": "gzip"}}, []),
        ):
            with Peer(sends(problem(401, code="unauthorized", retry=False))) as peer:
                error = self.raises(peer, params={"status": "a&b", "n": 2}, **options)
            self.assertEqual((error.code, error.status), ("unauthorized", 401))
            self.assertEqual(peer.requests, ["/rows?status=a%26b&n=2&_format=ndjson&_end=1"])
            lines = [line.split(": ", 1) for line in peer.heads[0].decode().splitlines()[1:-1]]
            values = {
                name: [v for n, v in lines if n.lower() == name]
                for name in ("authorization", "accept-encoding")
            }
            self.assertEqual(values, {"authorization": authorization, "accept-encoding": ["identity"]})

    def test_an_error_does_not_show_a_secret(self) -> None:
        for secret in ("s3cret\n", "s3cret ", "s3cr\xe9t", "s3\r\nx: cret"):
            with self.assertRaisesRegex(ValueError, "check for a line break") as raised:
                self.reader.all("http://127.0.0.1:1/", headers={"x-key": secret})
            self.assertNotIn("s3", repr(raised.exception))

    def test_compression_is_refused(self) -> None:
        """A proxy or an attacker sends 10 MB as 10 kB, although the request forbids it."""
        body = zlib.compress(begun().partition(b"\r\n\r\n")[2] + record(end={"rows": 0}) + b"\n" * 10**7)
        answer = begun(content_encoding="deflate").partition(b"\r\n\r\n")[0] + b"\r\n\r\n" + body
        with mock.patch("zlib.decompressobj", side_effect=AssertionError("it was decoded")):
            with Peer(sends(answer)) as peer:
                self.assertIn("has the encoding 'deflate'", str(self.raises(peer)))
            answer = answer.replace(b" 200 OK", b" 401 X").replace(
                b"content-", b"content-type: application/problem+json\r\ncontent-", 1
            )
            with Peer(sends(answer)) as peer:
                self.assertIn("status 401, but an encoding", str(self.raises(peer)))

    def test_a_redirect_is_not_followed(self) -> None:
        """The headers were sent to another host, if the client followed redirects."""
        with Peer(sends(begun(), record(end={"rows": 0}))) as other:
            moved = b"HTTP/1.1 307 X\r\nconnection: close\r\nlocation: %s\r\n\r\n" % other.url.encode()
            for plays in ([sends(moved)], [sends(begun(rowstream_stream="0a1b")), sends(moved)]):
                with Peer(*plays) as peer:
                    error = self.raises(peer, attempts=1, headers={"x-key": "s3cret"}, client=self.follower())
                self.assertEqual(len(peer.requests), len(plays))
            self.assertEqual(other.requests, [])
            with Peer(sends(moved)) as peer:
                error = self.raises(peer, client=self.follower())
            self.assertIn(f"redirects to {other.url!r}", str(error))

    def follower(self) -> Any:
        return httpx.Client(follow_redirects=True)


EXPIRED = sends(problem(401, code="token_expired", retry=False))


class Tokens(unittest.TestCase):
    """A token of 15 minutes ended an export of hours at its first cut."""

    reader = Reader()
    #: The ends of iterators, which Python replaces if they leave a generator.
    ends: tuple[type[Exception], ...] = (StopIteration,)

    def setUp(self) -> None:
        self.calls = 0

    def token(self) -> Any:
        self.calls += 1
        return f"t{self.calls}"

    def tokens(self, peer: Peer) -> list[str]:
        return [head.decode().split("Bearer ")[1].split("\r")[0] for head in peer.heads]

    def test_each_request_has_a_new_one(self) -> None:
        aborted = sends(begun(rowstream_stream="0a1b"), rows(1), mark(1, "c1"))
        unknown = sends(problem(404, code="not_found", retry=False))
        rest = sends(begun(), rows(2), record(end={"rows": 1}))
        with Peer(EXPIRED, aborted, unknown, EXPIRED, rest) as peer:
            self.assertEqual(self.reader.all(peer.url, token=self.token), [1, 2])
        self.assertEqual(self.tokens(peer), ["t1", "t2", "t3", "t4", "t5"])
        self.assertIn("/streams/", peer.requests[2])

    def test_each_request_of_a_live_tail_has_a_new_one(self) -> None:
        columns = event_record(columns=COLUMNS)
        tails = [sends(head("ids"), columns, event(i)) for i in (1, 2, 3)]
        with Peer(*tails) as peer:
            self.assertEqual(self.reader.first(rowstream.follow, peer.url, 3, token=self.token), [1, 2, 3])
        self.assertEqual(self.tokens(peer), ["t1", "t2", "t3"])

    def test_a_renewal_is_not_an_attempt(self) -> None:
        rest = sends(begun(), rows(1), record(end={"rows": 1}))
        with mock.patch.object(_protocol, "FIRST_PAUSE", LONG), Peer(EXPIRED, rest) as peer:
            self.assertEqual(self.reader.all(peer.url, token=self.token, attempts=1), [1])
        self.assertEqual(self.tokens(peer), ["t1", "t2"])

    def test_a_false_function_is_one(self) -> None:
        token = mock.MagicMock(side_effect=self.token)
        token.__bool__.return_value = False
        with Peer(sends(begun(), record(end={"rows": 0}))) as peer:
            self.reader.all(peer.url, token=token)
        self.assertEqual(self.tokens(peer), ["t1"])

    def test_a_second_denial_is_an_error(self) -> None:
        for token, count in (("secret", 1), (self.token, 2)):
            with Peer(*[EXPIRED] * 3) as peer, self.assertRaises(rowstream.RowstreamError) as raised:
                self.reader.all(peer.url, token=token)
            self.assertEqual((raised.exception.code, raised.exception.retry), ("token_expired", False))
            self.assertEqual(len(peer.requests), count)

    def test_another_error_follows_a_denial(self) -> None:
        busy, rest = (
            sends(problem(503, code="not_ready", retry=True)),
            sends(begun(), record(end={"rows": 0})),
        )
        with Peer(EXPIRED, busy, EXPIRED, rest) as peer:
            self.assertEqual(self.reader.all(peer.url, token=self.token), [])
        self.assertEqual(self.tokens(peer), ["t1", "t2", "t3", "t4"])

    def test_the_exception_of_a_function_is_raised(self) -> None:
        for failure in (ZeroDivisionError("the login failed"), httpx.ConnectError("no route to the login")):
            token = mock.Mock(side_effect=failure)
            with self.assertRaises(type(failure)) as raised:
                self.reader.all("http://127.0.0.1:1/", token=token)
            self.assertIs(raised.exception, failure)
            self.assertEqual(token.call_count, 1)

    def fails_second(self) -> Any:
        """The request for the reason of a cut has no token."""
        self.calls += 1
        if self.calls == 2:
            raise ZeroDivisionError("the login failed")
        return f"t{self.calls}"

    def test_a_cut_outlives_a_function_that_fails(self) -> None:
        """The exception hid the cut, its number of rows, and its cursor."""
        cut = sends(begun(rowstream_stream="0a1b"), rows(1), mark(1, "c1"))
        with Peer(cut) as peer, self.assertRaises(rowstream.IncompleteStream) as raised:
            self.reader.all(peer.url, token=self.fails_second, attempts=1)
        self.assertEqual((raised.exception.rows, raised.exception.cursor), (1, "c1"))
        self.assertEqual(self.tokens(peer), ["t1"])

    def test_a_live_tail_outlives_a_function_that_fails(self) -> None:
        columns = event_record(columns=COLUMNS)
        tails = [sends(head("ids", rowstream_stream="0a1b"), columns, event(i)) for i in (1, 2)]
        with Peer(*tails) as peer:
            ids = self.reader.first(rowstream.follow, peer.url, 2, token=self.fails_second)
        self.assertEqual((ids, self.tokens(peer)), ([1, 2], ["t1", "t3"]))

    def test_an_iterator_that_ends_is_a_clear_error(self) -> None:
        for end in self.ends:
            with self.assertRaisesRegex(RuntimeError, f"`token` raised {end.__name__}") as raised:
                self.reader.all("http://127.0.0.1:1/", token=mock.Mock(side_effect=end))
            self.assertIsInstance(raised.exception.__cause__, end)

    def test_an_error_does_not_show_a_token(self) -> None:
        wrongs = ("s3cret\n", "\ns3cret", " s3cret", "s3 cret", "s3cr\xe9t", "s3cret\0", "")
        for wrong, kind in [
            *((wrong, ValueError) for wrong in wrongs),
            (b"s3cret", TypeError),
            (5, TypeError),
        ]:
            for token in (wrong, lambda wrong=wrong: wrong):
                with self.assertRaisesRegex(kind, "check the argument `token`") as raised:
                    self.reader.all("http://127.0.0.1:1/", token=token)
                self.assertNotIn("s3", repr(raised.exception))

    def test_another_authorization_is_refused(self) -> None:
        for token in ("secret", self.token):
            with self.assertRaisesRegex(ValueError, "`Authorization` beside `token`"):
                self.reader.all("http://127.0.0.1:1/", token=token, headers={"authorization": "Basic eA=="})
        for user in ("user:s3cret@", "s3cret@", ":s3cret@"):
            with self.assertRaisesRegex(ValueError, "has a user or a password") as raised:
                self.reader.all(f"http://{user}127.0.0.1:1/")
            self.assertNotIn("s3", repr(raised.exception))
        self.assertEqual(self.calls, 0)


class AsyncTokens(Tokens):
    reader = AsyncReader()
    ends = (StopIteration, StopAsyncIteration)


class AwaitedTokens(AsyncTokens):
    async def token(self) -> Any:
        await asyncio.sleep(0)
        return super().token()

    async def fails_second(self) -> Any:
        await asyncio.sleep(0)
        return super().fails_second()


CUT = sends(begun(), rows(1, 2, 3), mark(3, "c3"), rows(4))
WHOLE = sends(begun(), rows(1, 2, 3), record(end={"rows": 3, "next": "c3"}))


class Uses(unittest.TestCase):
    """A part of a list never looks like all of it."""

    reader = Reader()

    def check(self, play: Play, uses: str, *results: Any) -> None:
        with Peer(play) as peer:
            self.assertEqual(self.reader.uses(peer.url, *uses.split()), list(results), uses)

    def test_the_rows_before_a_fault_are_in_a_batch(self) -> None:
        self.check(CUT, "batches", [1, 2], [3], (3, "c3", False))

    def test_a_list_that_is_not_whole_has_no_rows(self) -> None:
        """Its caller got none of them, so the error doesn't count them."""
        self.check(CUT, "collect", (0, None, False))
        self.check(CUT, "next collect", 1, (1, None, False))

    def test_a_stream_is_read_once(self) -> None:
        again = (0, None, True)
        for use in ("next", "for", "batches", "collect"):
            self.check(CUT, f"collect {use}", (0, None, False), again)
            self.check(WHOLE, f"collect {use}", [1, 2, 3], again)
            self.check(WHOLE, f"next close {use}", 1, again)

    def test_a_closed_stream_sends_no_request(self) -> None:
        self.assertEqual(self.reader.uses("http://127.0.0.1:1/", "close", "collect"), [(0, None, True)])

    def test_batches_have_at_least_a_row(self) -> None:
        for size in (0, -1):
            for stream in (rowstream.rows("http://x/"), rowstream.aio.rows("http://x/")):
                with self.assertRaisesRegex(ValueError, "at least 1"):
                    stream.batches(size)

    def interrupted(self, url: str, way: str, token: Any) -> tuple[list[int], Any]:
        """The rows before an exception, and the progress."""
        stream, ids = rowstream.rows(url, token=token), []
        try:
            if way == "collect":
                stream.collect()
            for batch in stream.batches(2):
                ids += [row["id"] for row in batch]
        except (asyncio.CancelledError, ZeroDivisionError):
            return ids, stream.progress
        raise AssertionError("it isn't interrupted")

    def test_rows_that_were_not_handed_over_do_not_count(self) -> None:
        """A timeout dropped those of a batch that wasn't full, and the cursor passed them."""
        play = sends(begun(), rows(1), mark(1, "c1"), rows(2, 3), mark(3, "c3"))
        for failure, way, ids, cursor in (
            (asyncio.CancelledError, "batches", [1, 2], "c1"),
            (ZeroDivisionError, "batches", [1, 2, 3], "c3"),
            (asyncio.CancelledError, "collect", [], None),
            (ZeroDivisionError, "collect", [], None),
        ):
            with self.subTest(failure=failure, way=way), Peer(play) as peer:
                got, progress = self.interrupted(peer.url, way, mock.Mock(side_effect=["t1", failure]))
                self.assertEqual((got, progress.rows, progress.cursor), (ids, len(ids), cursor))


class AsyncUses(Uses):
    reader = AsyncReader()

    def interrupted(self, url: str, way: str, token: Any) -> tuple[list[int], Any]:
        async def read() -> tuple[list[int], Any]:
            stream, ids = rowstream.aio.rows(url, token=token), []
            try:
                if way == "collect":
                    await stream.collect()
                async for batch in stream.batches(2):
                    ids += [row["id"] for row in batch]
            except (asyncio.CancelledError, ZeroDivisionError):
                return ids, stream.progress
            raise AssertionError("it isn't interrupted")

        return asyncio.run(read())


class Connections(unittest.TestCase):
    reader = Reader()

    def test_leaving_early_closes_the_connection(self) -> None:
        closed = threading.Event()

        def play(client: socket.socket) -> None:
            client.sendall(begun("none") + rows(1, 2))
            wait_for_end(client)
            closed.set()

        with Peer(play) as peer:
            self.assertEqual(self.reader.first(rowstream.rows, peer.url, 1), [1])
            self.assertTrue(closed.wait(LONG))

    def test_a_slow_consumer_slows_the_server(self) -> None:
        data, most, sent = rows(*range(10_000, 20_000)), 2_000, []
        consumer_may_read = threading.Event()

        def play(client: socket.socket) -> None:
            client.sendall(begun("none") + data)
            sent.append(send_until_blocked(client, data, most))
            consumer_may_read.set()
            client.sendall(record(end={"rows": 10_000 * (sent[0] + 1)}))

        with Peer(play) as peer:
            count = self.slow(peer.url, consumer_may_read)
        self.assertLess(sent[0], most)
        self.assertEqual(count, 10_000 * (sent[0] + 1))

    def slow(self, url: str, may_read: threading.Event) -> int:
        with rowstream.rows(url) as stream:
            next(stream)
            self.assertTrue(may_read.wait(LONG))
            return 1 + sum(1 for _ in stream)


class AsyncFaults(Faults):
    reader = AsyncReader()

    def follower(self) -> Any:
        return httpx.AsyncClient(follow_redirects=True)


class AsyncConnections(Connections):
    reader = AsyncReader()

    def slow(self, url: str, may_read: threading.Event) -> int:
        async def read() -> int:
            async with rowstream.aio.rows(url) as stream:
                await anext(stream)
                # The loop runs meanwhile, so a client that read ahead would do so.
                await asyncio.to_thread(may_read.wait, LONG)
                return 1 + len([row async for row in stream])

        return asyncio.run(read())

    def test_cancelling_a_task_closes_the_connection(self) -> None:
        closed = threading.Event()

        def play(client: socket.socket) -> None:
            client.sendall(begun("none") + rows(1))
            wait_for_end(client)
            closed.set()

        async def cancel(url: str) -> None:
            began = asyncio.Event()

            async def read() -> None:
                async for _ in rowstream.aio.rows(url):
                    began.set()

            task = asyncio.create_task(read())
            await began.wait()
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task

        with Peer(play) as peer:
            asyncio.run(cancel(peer.url))
            self.assertTrue(closed.wait(LONG))


class Follow(unittest.TestCase):
    reader = Reader()

    def test_a_live_tail_survives_cuts_and_restarts(self) -> None:
        columns, shutdown = event_record(columns=COLUMNS), event_record(end={"rows": 1, "next": "c2"})
        with Peer(
            sends(head("ids"), b":\n\n", columns, event(1), event(2)[:-1]),
            sends(head("ids"), columns, event(2), shutdown),
            sends(problem(503, code="not_ready", retry=True)),
            sends(
                head("ids"),
                columns,
                event(3),
                event_record(error={"code": "source_unavailable", "retry": True}),
            ),
            sends(head("ids"), columns, b"data: 1\n\n"),
            sends(head("ids"), columns, event(4)),
        ) as peer:
            self.assertEqual(self.reader.first(rowstream.follow, peer.url, 4), [1, 2, 3, 4])
        after = [httpx.URL(request).params.get("_after") for request in peer.requests]
        self.assertEqual(after, [None, "c1", "c2", "c2", "c3", "c3"])
        self.assertIn("_follow=1", peer.requests[0])

    def check(self, plays: list[Play], ids: list[int], reason: str) -> None:
        """The rows before an error without a cursor. Each of the plays is requested."""
        with Peer(*plays) as peer:
            got, error = self.reader.until_error(rowstream.follow, peer.url, attempts=3)
        self.assertEqual((got, len(peer.requests)), (ids, len(plays)))
        self.assertEqual(
            (type(error), error.rows, error.cursor), (rowstream.IncompleteStream, len(ids), None)
        )
        self.assertIn(reason, str(error))

    def test_a_response_without_resumption_is_not_continued(self) -> None:
        """Its ids were cursors, so rows were doubled. The encoder also allows rows without ids."""
        for resume in ("none", "another"):
            begun = head(resume) + event_record(columns=COLUMNS)
            for rest in (b"", event_record(end={"rows": 3, "next": "c3"})):
                self.check([sends(begun, event(1), event(2), event(3), rest)], [1, 2, 3], "")
            without_ids = [b'data: {"id":%d}\n\n' % i for i in (1, 2)]
            self.check([sends(begun, *without_ids, event_record(end={"rows": 2}))], [1, 2], "shut down")
            self.check([sends(begun, *without_ids, b"data: {\n\n", event(3))], [1, 2], "isn't JSON")

    def test_a_wrong_count_is_an_error(self) -> None:
        """The cursor of the last event passes the rows that are missing, so the next request lost them."""
        begun = head("ids") + event_record(columns=COLUMNS)
        end = event_record(end={"rows": 3, "next": "c3"})
        self.check([sends(begun, event(1), event(3), end)], [1, 3], "counted 3 rows, but 2 arrived")

    def test_the_end_of_an_event_is_missing(self) -> None:
        """The second row replaced the first one."""
        begun = head("ids") + event_record(columns=COLUMNS)
        with Peer(
            sends(begun, event(1), event(2)[:-1], event(3)),
            sends(begun, event(2), event(3)),
        ) as peer:
            self.assertEqual(self.reader.first(rowstream.follow, peer.url, 3), [1, 2, 3])
        self.assertIn("_after=c1", peer.requests[1])

    def test_the_data_of_an_event_are_missing(self) -> None:
        """The event counted as one without a row, so the cursor of the next one passed the row."""
        begun = head("ids") + event_record(columns=COLUMNS)
        for torn in (b"id: c2\n\n", event(2)[2:]):
            with Peer(
                sends(begun, event(1), torn, event(3)),
                sends(begun, event(2), event(3)),
            ) as peer:
                self.assertEqual(self.reader.first(rowstream.follow, peer.url, 3), [1, 2, 3])
            self.assertIn("_after=c1", peer.requests[1])

    def test_an_event_without_resumption_has_no_data(self) -> None:
        begun = head("none") + b"id: none\n\n" + event_record(columns=COLUMNS)
        with Peer(sends(begun, event(1))) as peer:
            self.assertEqual(self.reader.first(rowstream.follow, peer.url, 1), [1])


class AsyncFollow(Follow):
    reader = AsyncReader()


class FollowProgress(unittest.TestCase):
    def test_each_row_has_its_cursor(self) -> None:
        with (
            Peer(sends(head("ids"), event_record(columns=COLUMNS), event(1), event(2), event(3))) as peer,
            rowstream.follow(peer.url) as stream,
        ):
            for row in stream:
                self.assertEqual(stream.progress.cursor, f"c{row['id']}")
                self.assertEqual(stream.progress.rows, row["id"])
                if row["id"] == 3:
                    break


class Progress(unittest.TestCase):
    def test_a_page_with_its_progress(self) -> None:
        first = head(), record(columns=COLUMNS), rows(1), mark(1, "c1")
        rest = (
            head(),
            record(columns=COLUMNS),
            rows(2, 3),
            record(end={"rows": 2, "next": "c3", "page": "full"}),
        )
        with Peer(sends(*first), sends(*rest)) as peer, rowstream.rows(peer.url) as stream:
            self.assertEqual(list(stream.batches(2)), [[{"id": 1}, {"id": 2}], [{"id": 3}]])
        size = sum(map(len, first[1:] + rest[1:]))
        self.assertEqual(stream.progress, rowstream.Progress(rows=3, bytes=size, resumptions=1, cursor="c3"))
        self.assertEqual((stream.page, stream.columns), ("full", COLUMNS))

    def test_a_cursor_never_skips_rows(self) -> None:
        with Peer(
            sends(begun(), rows(1, 2), mark(2, "c2"), rows(3), record(end={"rows": 3, "next": "c3"}))
        ) as peer:
            stream = rowstream.rows(peer.url)
            seen = [(row["id"], stream.progress.rows, stream.progress.cursor) for row in stream]
        self.assertEqual(seen, [(1, 1, None), (2, 2, "c2"), (3, 3, "c3")])

    def test_a_list_begins_at_its_cursor(self) -> None:
        ahead = sends(problem(410, code="cursor_ahead", retry=False))
        with Peer(ahead) as peer, self.assertRaises(rowstream.RowstreamError) as raised:
            rowstream.rows(peer.url, {"_after": "c9"}).collect()
        self.assertEqual((raised.exception.rows, raised.exception.cursor), (0, "c9"))


def arrow_stream() -> bytes:
    """Two batches. The last bytes of each value look like the marker of the end."""
    table = pyarrow.table({"id": pyarrow.array([0xFFFFFFFF] * 8, pyarrow.int64())})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        for _ in range(2):
            writer.write_table(table)
    return sink.getvalue().to_pybytes()


ARROW_HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"


class Arrow(unittest.TestCase):
    reader = Reader()

    def test_a_whole_stream(self) -> None:
        with Peer(sends(ARROW_HEAD, arrow_stream())) as peer:
            self.assertEqual(self.reader.arrow(peer.url).num_rows, 16)
        self.assertEqual(peer.requests, ["/rows?_format=arrow"])

    def test_a_cut_stream_is_read_again_or_raises(self) -> None:
        whole = arrow_stream()
        # pyarrow doesn't miss the second batch.
        first = whole.index(b"\xff" * 4, 8)
        second = (first + len(whole) - len(END)) // 2
        self.assertTrue(whole.endswith(END) and whole[:second].endswith(END))
        self.assertEqual(pyarrow.ipc.open_stream(whole[:second]).read_all().num_rows, 8)
        for at in (0, 8, second, len(whole) - 200, len(whole) - 8, len(whole) - 4, len(whole) - 1):
            with Peer(sends(ARROW_HEAD, whole[:at]), sends(ARROW_HEAD, whole)) as peer:
                self.assertEqual(self.reader.arrow(peer.url).num_rows, 16, at)
            self.assertEqual(len(peer.requests), 2)
            with Peer(sends(ARROW_HEAD, whole[:at])) as peer, self.assertRaises(rowstream.IncompleteStream):
                self.reader.arrow(peer.url, attempts=1)

    def test_a_cut_at_any_byte_is_noticed(self) -> None:
        whole = arrow_stream()
        for at in range(len(whole)):
            reading = ArrowReading("http://localhost/rows", None, 1)
            reading.begin({})
            reading.feed(whole[:at])
            with self.assertRaises(rowstream.IncompleteStream, msg=at) as raised:
                reading.finish()
            self.assertTrue(raised.exception.retry)

    def test_an_error_is_one(self) -> None:
        error: Play = sends(problem(406, code="not_acceptable", detail="no arrow", retry=False))
        with (
            Peer(error) as peer,
            self.assertRaisesRegex(rowstream.RowstreamError, "not_acceptable: no arrow"),
        ):
            self.reader.arrow(peer.url)


class AsyncArrow(Arrow):
    reader = AsyncReader()


if __name__ == "__main__":
    unittest.main()
