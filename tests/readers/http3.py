"""A client of HTTP/3 that is not ours: aioquic. Says what came as one line of JSON per request.

http3.py CA URL [stop=BYTES] [leave=SECONDS] [pause=BYTES] [take=BYTES] [header=BYTES]
    [connections=N] [stops=N] [then=PATH] [raw=HEX,HEX,...] [open=HEX,HEX,...]
    [body=FILE] [halves=HEX] [silent=BYTES [returns=1]] [flood=HEX]

stop and leave: STOP_SENDING after so many bytes, or so much time; pause: does nothing for a second
after so many bytes; take: lets the server send so many bytes and no more; header: sends header fields of that length; connections: opens so many at once
first that ask nothing, and says how many of them had to show that their address is theirs; stops:
asks so many times more, and stops each at once; then: asks for this path on the same connection once
there is a line on standard input; raw: sends these bytes as requests first, each on a stream of
its own; halves: sixty times these bytes, each on a stream of its
own, and the first half of each before the rest of any; open: the same, but the
streams stay open; silent: sends the first datagram of a connection, of so many bytes, and nothing else, and
says which datagrams the server sends, until it sends nothing for two seconds; returns: then does as
the first of these says, once there is a line on standard input, and says the same again; flood:
sends these bytes on each of a hundred streams, which stay open, and says after two seconds how many
of them the server has reset; body: sends the JSON in this file with the method QUERY.
"""

import asyncio
import hashlib
import json
import socket
import sys
import time
from urllib.parse import urlsplit

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamReset

REQUEST_CANCELLED = 0x10C


class Answer:
    def __init__(self):
        self.seen = {"status": None, "headers": {}, "trailers": {}, "bytes": 0}
        self.digest = hashlib.sha256()
        self.tail = b""
        self.ended = asyncio.get_running_loop().create_future()

    def end(self, how):
        if not self.ended.done():
            self.seen["sha256"] = self.digest.hexdigest()
            self.seen["tail"] = self.tail.decode("utf-8", "replace")
            self.seen["ended"] = how
            self.ended.set_result(self.seen)


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.answers = {}
        self.stop = None
        self.pause = None

    def ask(self, url, fields=(), body=None):
        number = self._quic.get_next_available_stream_id()
        target = url.path + ("?" + url.query if url.query else "")
        head = [(":method", "GET" if body is None else "QUERY"), (":scheme", "https"), (":authority", url.netloc), (":path", target)]
        head += [("te", "trailers"), *fields]
        answer = self.answers[number] = Answer()
        if body is not None:
            head.append(("content-type", "application/json"))
        self.http.send_headers(number, [(n.encode(), v.encode()) for n, v in head], end_stream=body is None)
        if body is not None:
            self.http.send_data(number, body, end_stream=True)
        self.transmit()
        return answer

    def send(self, raw, ends):
        number = self._quic.get_next_available_stream_id()
        answer = self.answers[number] = Answer()
        self._quic.send_stream_data(number, raw, end_stream=ends)
        self.transmit()
        return answer

    def leave(self, number):
        self.stop = None
        self._quic.stop_stream(number, REQUEST_CANCELLED)
        self.transmit()

    def quic_event_received(self, event):
        if isinstance(event, StreamReset) and event.stream_id in self.answers:
            self.answers[event.stream_id].end(f"reset {event.error_code:#x}")
        if isinstance(event, ConnectionTerminated):
            for answer in self.answers.values():
                answer.end(f"closed {event.error_code:#x} {event.reason_phrase}")
        for what in self.http.handle_event(event):
            self.took(what, self.answers.get(what.stream_id))

    def took(self, what, answer):
        if answer is None:
            return
        seen = answer.seen
        if isinstance(what, HeadersReceived):
            fields = {n.decode(): v.decode() for n, v in what.headers}
            if seen["status"] is None:
                seen["status"] = int(fields.pop(":status"))
                seen["headers"] = fields
            else:
                seen["trailers"] = fields
        if isinstance(what, DataReceived):
            seen["bytes"] += len(what.data)
            answer.digest.update(what.data)
            answer.tail = (answer.tail + what.data)[-200:]
            if self.pause is not None and seen["bytes"] >= self.pause:
                self.pause = None
                time.sleep(1)
            if self.stop is not None and seen["bytes"] >= self.stop:
                self.leave(what.stream_id)
        if getattr(what, "stream_ended", False):
            answer.end("whole")


def take_no_more():
    """Has clients let nothing come but what they let come at first."""
    grant = QuicConnection._write_stream_limits

    def never(self, builder, space, stream):
        if stream.receiver.highest_offset == 0:
            grant(self, builder, space, stream)

    QuicConnection._write_stream_limits = never


def shake_hands(address, configuration, returns):
    client = QuicConnection(configuration=configuration)
    client.connect(address, now=time.time())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        received = send_one_datagram(udp, address, client)
        if returns:
            sys.stdin.readline()
            client.receive_datagram(received[0], address, now=time.time())
            send_one_datagram(udp, address, client)


def send_one_datagram(udp, address, client):
    (first, _), *_ = client.datagrams_to_send(now=time.time())
    udp.sendto(first, address)
    # A busy server may need long for its first datagram.
    udp.settimeout(30)
    received = [udp.recv(65536)]
    udp.settimeout(2)
    while True:
        try:
            received.append(udp.recv(65536))
        except TimeoutError:
            break
    # Short headers have no kind: these bits are encrypted.
    kinds = [datagram[0] >> 4 & 3 for datagram in received if datagram[0] & 0x80]
    seen = {"sent": len(first), "received": [len(datagram) for datagram in received], "kinds": kinds}
    print(json.dumps(seen), flush=True)
    return received


async def main():
    ca, url = sys.argv[1], urlsplit(sys.argv[2])
    options = dict(word.split("=", 1) for word in sys.argv[3:])
    number = lambda name: int(options[name]) if name in options else None
    texts = lambda name: options[name].split(",") if name in options else []
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, cafile=ca, server_name="localhost")
    if "silent" in options:
        configuration.max_datagram_size = number("silent")
        return shake_hands(("127.0.0.1", url.port), configuration, "returns" in options)
    if "take" in options:
        configuration.max_stream_data = number("take")
        take_no_more()
    new = lambda: connect("127.0.0.1", url.port, configuration=configuration, create_protocol=Client)
    idle = [new() for _ in range(number("connections") or 0)]
    opened = await asyncio.gather(*[one.__aenter__() for one in idle])
    retried = sum(one._quic._retry_count > 0 for one in opened)
    async with new() as client:
        client.stop, client.pause = number("stop"), number("pause")
        heads = [client.send(bytes.fromhex(raw), "open" not in options) for raw in texts("raw") + texts("open")]
        halves = [bytes.fromhex(raw) for raw in texts("halves")] * 60
        firsts = [client.send(raw[: len(raw) // 2], False) for raw in halves]
        if halves:
            await asyncio.sleep(0.5)
        for number_of, raw in zip([n for n, one in client.answers.items() if one in firsts], halves):
            client._quic.send_stream_data(number_of, raw[len(raw) // 2 :], end_stream=True)
            client.transmit()
        for head in heads + firsts:
            print(json.dumps(await head.ended), flush=True)
        if "flood" in options:
            for _ in range(100):
                client.send(bytes.fromhex(options["flood"]), False)
            await asyncio.sleep(2)
            return print(json.dumps({"reset": sum(one.ended.done() for one in client.answers.values())}), flush=True)
        fields = [(f"x-{n}", "x" * 1000) for n in range((number("header") or 0) // 1000)]
        body = open(options["body"], "rb").read() if "body" in options else None
        answer = client.ask(url, fields, body)
        answer.seen["retried"] = retried
        for turn in range(number("stops") or 0):
            client.ask(url)
            client.leave(4 * turn + 4)
            if turn % 50 == 49:
                await asyncio.sleep(0.05)
        if "leave" in options:
            await asyncio.sleep(number("leave"))
            client.leave(0)
        if "then" in options:
            await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            later = client.ask(url._replace(path=options["then"], query=""))
            print(json.dumps(await later.ended), flush=True)
        print(json.dumps(await answer.ended), flush=True)
    for one in idle:
        await one.__aexit__(None, None, None)


asyncio.run(main())
