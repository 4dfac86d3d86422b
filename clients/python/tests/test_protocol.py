"""The protocol without sockets: exact values, and cuts at every byte."""

import json
import random
import unittest
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from email.utils import format_datetime
from typing import Any
from unittest import mock
from uuid import UUID

from peer import COLUMNS, TAG, mark, record, rows
from rowstream import IncompleteStream, RowstreamError, _protocol
from rowstream._protocol import EventReading, RowReading

HEADERS = {
    "rowstream-tag": TAG,
    "rowstream-wire": "1",
    "rowstream-resume": "marks",
    "rowstream-heartbeat": "0.5",
}


def begun(**others: str) -> RowReading:
    reading = RowReading("http://x/rows?n=4", {"status": "a b"}, 3)
    reading.begin({**HEADERS, **{name.replace("_", "-"): value for name, value in others.items()}})
    reading.feed(record(columns=COLUMNS))
    return reading


def fed(reading: RowReading, *pieces: bytes) -> list[dict[str, Any]]:
    return [row for piece in pieces for block in reading.feed(piece) for row in block.rows]


def value_of(kind: str, text: str, changes: str = "", **members: Any) -> Any:
    """The Python value of a JSON text in a column of this type."""
    reading = begun(rowstream_changes=changes)
    body = record(columns=[{"name": "v", "type": kind, **members}]) + b'{"v":%s}\n' % text.encode()
    (row,) = fed(reading, body + record(end={"rows": 1}))
    reading.finish()
    return row["v"]


class Values(unittest.TestCase):
    def check(self, expected: Any, kind: str, text: str, changes: str = "") -> None:
        value = value_of(kind, text, changes)
        self.assertEqual((type(value), str(value)), (type(expected), str(expected)), (kind, text))

    def test_numbers(self) -> None:
        self.check(2**63 - 1, "int64", "9223372036854775807")
        self.check(2**63 - 1, "int64", '"9223372036854775807"', "numbers=string")
        self.check(Decimal("0.10"), "decimal", "0.10")
        self.check(Decimal("0.10"), "decimal", '"0.10"', "numbers=string")
        self.check(Decimal(5), "decimal", "5")
        self.check(
            Decimal("123456789012345678901234567890.123456789"),
            "decimal",
            "123456789012345678901234567890.123456789",
        )
        self.check(Decimal("9" * 6000), "decimal", "9" * 6000)
        self.check(Decimal("NaN"), "decimal", '"NaN"')
        self.check(Decimal("-Infinity"), "decimal", '"-Infinity"')
        self.check(0.1, "double", "0.1")
        self.check(5.0, "double", "5")
        self.check(float("inf"), "float", '"Infinity"')
        self.check(float("nan"), "double", '"NaN"')
        # Of an unknown type, so its digits are kept.
        self.check(Decimal("0.10"), "any", "0.10")

    def test_negative_zeros_keep_their_sign(self) -> None:
        for text in ("-0", "-0.0", "-0e0", "-0 "):
            self.check(-0.0, "double", text)
            self.check(-0.0, "float", text)
        self.check(0.0, "double", "0")
        columns = [{"name": "id", "type": "int64"}, {"name": "list", "type": "list"}]
        columns[1]["columns"] = [{"name": "v", "type": "double"}]
        body = record(columns=columns) + b'{"id":0,"list":[{"v":-0},{"v":1}]}\n' + record(end={"rows": 1})
        for at in range(len(body)):
            self.assertEqual(
                str(fed(begun(), body[:at], body[at:])), "[{'id': 0, 'list': [{'v': -0.0}, {'v': 1.0}]}]"
            )

    def test_a_double_beside_a_decimal_is_a_float(self) -> None:
        reading = begun()
        columns = [{"name": "a", "type": "double"}, {"name": "b", "type": "decimal"}]
        (row,) = fed(reading, record(columns=columns) + b'{"a":0.30,"b":0.30}\n' + record(end={"rows": 1}))
        self.assertEqual([repr(value) for value in row.values()], ["0.3", "Decimal('0.30')"])

    def test_times(self) -> None:
        utc = timezone.utc
        self.check(datetime(2024, 2, 29, 12, 0, 0, 250000, utc), "date-time", '"2024-02-29T12:00:00.25Z"')
        self.check(datetime(2024, 2, 29, 12, tzinfo=utc), "date-time", '"2024-02-29T12:00:00Z"')
        self.assertEqual(value_of("date-time", '"2024-02-29T12:00:00Z"').utcoffset(), timedelta(0))
        self.check(datetime(2024, 2, 29, 12, 0, 0, 1), "date-time-local", '"2024-02-29T12:00:00.000001"')
        self.check(date(2024, 2, 29), "date", '"2024-02-29"')
        self.check(time(12, 0, 0, 500000), "time-local", '"12:00:00.5"')

    def test_what_python_cannot_hold_stays_a_text(self) -> None:
        for kind, text in (
            ("date-time", "10000-01-01T00:00:00Z"),
            ("date-time", "0044-03-15T00:00:00Z BC"),
            ("date-time", "infinity"),
            ("date-time", "2024-02-29T12:00:00.123456789Z"),
            ("date-time-local", "2024-02-29T12:00:00.1234567"),
            ("date", "-infinity"),
            ("date", ""),
            ("time-local", "24:00:00"),
            ("duration", "P1DT-2H"),
            ("uuid", "not one"),
            ("decimal", "not one"),
            ("binary", "6869"),
        ):
            self.check(text, kind, json.dumps(text))
        # Python's types would read these.
        for kind, text, changes in (
            ("int64", "1_0", "numbers=string"),
            ("int64", " 10", "numbers=string"),
            ("decimal", "1_0", "numbers=string"),
            ("decimal", "nan", "numbers=string"),
            ("decimal", "inf", ""),
            ("decimal", "10", ""),
            ("double", "nan", ""),
            ("double", "1e5", ""),
            ("date", "20260301", ""),
            ("date", "2026-W09-1", ""),
            ("date-time", "2026-03-01 09:00:00Z", ""),
            ("date-time", "2026-03-01T09:00:00", ""),
            ("date-time-local", "2026-03-01T09:00:00.1+01", ""),
            ("time-local", "09:00+01", ""),
            ("uuid", "{abababab-abab-abab-abab-abababababab}", ""),
            ("uuid", "ab" * 16, ""),
            ("binary", "\\x68 69", ""),
            ("binary", "00ab", ""),
        ):
            self.check(text, kind, json.dumps(text), changes)
        for kind, changes in (
            ("decimal", ""),
            ("decimal", "numbers=string"),
            ("double", ""),
            ("int64", "numbers=string"),
        ):
            self.check(True, kind, "true", changes)
        # SQLite's columns may have values of any type.
        self.check(7, "date-time", "7")
        self.check(7, "uuid", "7")
        self.check(7, "binary", "7")

    def test_others(self) -> None:
        self.check(
            UUID("abababab-abab-abab-abab-abababababab"), "uuid", '"abababab-abab-abab-abab-abababababab"'
        )
        self.check(b"hi", "binary", r'"\\x6869"')
        self.check(b"hi", "binary", '"aGk="', "numbers=string,bytes=base64")
        self.check(None, "uuid", "null")
        self.check(True, "boolean", "true")
        self.check([1, None], "array", "[1,null]")

    def test_lists_in_rows(self) -> None:
        inner = [{"name": "total", "type": "decimal"}, {"name": "on", "type": "date"}]
        columns = [{"name": "orders", "type": "list", "columns": inner}]
        text = '[{"orders":[{"total":1.50,"on":"2024-02-29"}]},{"orders":null}]'
        value = value_of("list", text, columns=columns)
        self.assertEqual(
            value, [{"orders": [{"total": Decimal("1.50"), "on": date(2024, 2, 29)}]}, {"orders": None}]
        )
        self.assertEqual(str(value[0]["orders"][0]["total"]), "1.50")

    def test_a_member_that_is_left_out(self) -> None:
        reading = begun()
        body = record(columns=[{"name": "v", "type": "uuid"}]) + b"{}\n" + record(end={"rows": 1})
        self.assertEqual(fed(reading, body), [{}])


BODY = record(columns=COLUMNS) + rows(1, 2) + mark(2, "c2") + rows(3) + b"\n" + mark(3, "c3") + rows(4)
WHOLE = BODY + record(end={"rows": 4, "next": "c4", "page": "last"})


class Cuts(unittest.TestCase):
    def test_a_body_may_be_split_anywhere(self) -> None:
        for at in range(len(WHOLE)):
            reading = begun()
            self.assertEqual([row["id"] for row in fed(reading, WHOLE[:at], WHOLE[at:])], [1, 2, 3, 4], at)
            reading.finish()
            self.assertEqual((reading.page, reading.columns), ("last", COLUMNS))

    def test_a_body_may_be_cut_anywhere(self) -> None:
        # The end record is whole without its LF, but a line isn't.
        for at in range(len(WHOLE)):
            reading = begun()
            ids = [row["id"] for row in fed(reading, WHOLE[:at])]
            with self.assertRaises(IncompleteStream) as raised:
                reading.finish()
            reading.retry(raised.exception)
            after = reading.url.params.get("_after")
            self.assertEqual(ids, list(range(1, int(after[1:]) + 1)) if after else [], at)

    def test_a_list_that_is_cut_again_and_again(self) -> None:
        generator = random.Random(1)
        for _ in range(200):
            reading, ids, marks = RowReading("http://x/rows", None, 10**6), [], 0
            while not reading.is_complete:
                first = int(reading.url.params.get("_after", "0")) + 1
                body, count = record(columns=COLUMNS), 0
                for i in range(first, 51):
                    body, count = body + rows(i), count + 1
                    if generator.random() < 0.3:
                        body, marks = body + mark(count, str(i)), marks + 1
                body += record(end={"rows": count, "next": "50"})
                if generator.random() < 0.9:
                    body = body[: generator.randrange(len(body))]
                reading.begin(HEADERS)
                ids += [row["id"] for row in fed(reading, body)]
                try:
                    reading.finish()
                except IncompleteStream as error:
                    reading.retry(error)
            self.assertEqual(ids, list(range(1, 51)))
            self.assertGreater(marks, 0)

    def test_rows_before_a_fault_of_the_same_piece_are_handed_over(self) -> None:
        for fault in (
            record(error={"code": "bad_value", "retry": True}),
            mark(9, "c9"),
            record(end={"rows": 9}),
        ):
            reading = begun()
            self.assertEqual(fed(reading, BODY + fault), [{"id": 1}, {"id": 2}, {"id": 3}])
            with self.assertRaises(RowstreamError) as raised:
                reading.finish()
            reading.retry(raised.exception)
            self.assertEqual(
                dict(reading.url.params),
                {"n": "4", "status": "a b", "_format": "ndjson", "_end": "1", "_after": "c3"},
            )

    def test_a_torn_line_is_not_a_row(self) -> None:
        for torn in (
            b'{"id":',
            b'{"id":"\xc3',
            b'{"id":"\xff"}',
            b'{"id":1}{"id":2}',
            b"[" * 100_000,
            b"[1]",
            b"7",
        ):
            for then in (rows(2), mark(1, "c1"), record(end={"rows": 1})):
                reading = begun(rowstream_resume="none")
                self.assertEqual(fed(reading, rows(1) + torn + b"\n", then), [{"id": 1}])
                self.assertRaises(IncompleteStream, reading.finish)
            # The server interrupts a row only by an error.
            reading = begun(rowstream_resume="none")
            error = record(error={"code": "bad_value", "detail": "division by zero", "retry": False})
            self.assertEqual(fed(reading, rows(1) + torn + b"\n" + error), [{"id": 1}])
            with self.assertRaisesRegex(RowstreamError, "bad_value: division by zero"):
                reading.finish()

    def test_a_damaged_record_is_not_skipped(self) -> None:
        """A damaged end is a cut, and values of unknown columns would have other types."""
        columns = record(columns=COLUMNS)
        for damaged in (
            columns[:-3] + b"\n",
            columns[:-3] + b"\xff}\n",
            columns[:9] + b"x" + columns[10:],
            b"",
        ):
            reading = RowReading("http://x/rows", None, 3)
            reading.begin(HEADERS)
            self.assertEqual(fed(reading, damaged + rows(1) + record(end={"rows": 1})), [])
            with self.assertRaises(IncompleteStream) as raised:
                reading.finish()
            self.assertTrue(raised.exception.retry)
        reading = begun()
        self.assertEqual(fed(reading, rows(1) + mark(1, "c1")[:-2] + b"\n" + record(end={"rows": 1})), [])
        self.assertRaisesRegex(IncompleteStream, "a record isn't JSON", reading.finish)

    def test_a_row_that_is_too_deep_is_not_requested_again(self) -> None:
        for then in (rows(2), mark(1, "c1"), record(end={"rows": 1})):
            reading = begun()
            fed(reading, b'{"id":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n" + then)
            with self.assertRaisesRegex(IncompleteStream, "row 1 .* nested too deeply .* limit") as raised:
                reading.finish()
            self.assertFalse(raised.exception.retry)

    def test_blanks_in_a_row_are_heartbeats(self) -> None:
        reading = begun(rowstream_resume="none")
        self.assertEqual(fed(reading, b' {"id": 1 ', b"}  \n"), [{"id": 1}])


class Bounds(unittest.TestCase):
    def test_a_line_has_a_longest_length(self) -> None:
        reading = begun()
        piece = b" " * 2**20
        for _ in range(_protocol.MAX_LINE_BYTES // len(piece)):
            reading.feed(piece)
            self.assertFalse(reading.ended)
        reading.feed(piece)
        self.assertRaisesRegex(IncompleteStream, "select less in a row", reading.finish)

    def test_rows_are_not_held_without_end(self) -> None:
        reading = begun()
        self.assertEqual(fed(reading, rows(*range(_protocol.MAX_HELD_ROWS + 1))), [])
        self.assertRaisesRegex(IncompleteStream, "sent none", reading.finish)

    def test_marks_of_a_response_without_resumption_are_not_cursors(self) -> None:
        for resume in ("none", "another"):
            reading = begun(rowstream_resume=resume)
            self.assertEqual(len(fed(reading, rows(1) + mark(1, "c1"))), 1)
            self.assertRaises(IncompleteStream, reading.finish)
            with self.assertRaises(IncompleteStream) as raised:
                reading.retry(IncompleteStream("cut", retry=True))
            self.assertIsNone(raised.exception.cursor)

    def test_held_rows_have_a_most_length(self) -> None:
        """They are handed over, and a cut before the next mark can't be repaired."""
        body = b'{"id":1,"text":"%s"}\n' % (b"x" * 1000)
        cut = IncompleteStream("cut", retry=True)
        with mock.patch.object(_protocol, "MAX_HELD_CHARACTERS", 2000):
            reading = begun()
            self.assertEqual(fed(reading, body), [])
            self.assertEqual(len(fed(reading, body)), 2)
            self.assertEqual(fed(reading, body), [])
            self.assertRaises(IncompleteStream, reading.retry, cut)
            self.assertEqual(len(fed(reading, mark(3, "c3"))), 1)
            reading.retry(cut)
            self.assertEqual(reading.url.params["_after"], "c3")
            # Rows before a fault are requested again.
            reading = begun()
            self.assertEqual(fed(reading, body * 3 + mark(9, "c9")), [])
            reading.retry(cut)

    def test_any_number_of_attempts(self) -> None:
        reading = RowReading("http://x/rows", None, 10**9)
        reading._attempts = 10**5
        pause = reading.retry(IncompleteStream("cut", retry=True))
        self.assertLessEqual(pause, _protocol.LONGEST_PAUSE)

    def test_attempts_without_progress(self) -> None:
        reading = begun()
        cut = IncompleteStream("cut", retry=True)
        pauses = [reading.retry(cut), reading.retry(cut)]
        self.assertTrue(0 < pauses[0] <= _protocol.FIRST_PAUSE < 2 * pauses[1], pauses)
        # A mark with rows is progress, and one without isn't.
        reading.begin(HEADERS)
        fed(reading, record(columns=COLUMNS) + rows(1) + mark(1, "c1"))
        reading.retry(cut)
        reading.begin(HEADERS)
        fed(reading, mark(0, "c1"))
        reading.retry(cut)
        with self.assertRaises(IncompleteStream) as raised:
            reading.retry(cut)
        self.assertIs(raised.exception, cut)

    def test_a_server_cannot_ask_for_any_pause(self) -> None:
        reading = begun()
        self.assertGreaterEqual(reading.retry(RowstreamError("busy", retry=True, retry_after=7)), 7)
        self.assertRaises(
            RowstreamError, reading.retry, RowstreamError("busy", retry=True, retry_after=10**9)
        )

    def test_headers_that_make_no_sense(self) -> None:
        for heartbeat in ("", "x", "-1", "nan", "1e99", "9" * 50):
            self.assertIsNone(begun(rowstream_heartbeat=heartbeat).silence)
        self.assertEqual(begun().silence, 1.5)
        self.assertIsNone(begun(rowstream_stream="../../x").stream_id)
        self.assertEqual(begun(rowstream_stream="0a").stream_id, "0a")

    def test_the_delay_of_a_proxy(self) -> None:
        """A date was ignored."""
        for value, seconds in (
            ("7", 7),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 0),
            ("1e1", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("never GMT", None),
            (" GMT", None),
            ("Sun, 06 Nov 99999 08:49:37 GMT", None),
            ("Sun, 36 Nov 1994 28:49:37 GMT", None),
        ):
            with self.assertRaises(RowstreamError) as raised:
                begun().refuse(503, {"retry-after": value}, b"")
            self.assertEqual(raised.exception.retry_after, seconds, value)
        now = datetime.now(timezone.utc)
        for seconds in (60, 10**6):
            later = format_datetime(now + timedelta(seconds=seconds), usegmt=True)
            reading = begun()
            with self.assertRaises(RowstreamError) as raised:
                reading.refuse(429, {"retry-after": later}, b"")
            self.assertAlmostEqual(raised.exception.retry_after or 0, seconds, delta=30)
            if seconds == 60:
                self.assertGreater(reading.retry(raised.exception), 30)
            else:
                self.assertRaises(RowstreamError, reading.retry, raised.exception)

    def test_none_leaves_a_parameter_out(self) -> None:
        """It was sent as an empty text, which no row has."""
        params = {"n": None, "status": "a", "_after": None, "ids": [1, 2], "none": []}
        reading = RowReading("http://x/rows?n=4&m=5&_after=c1&none=1", params, 3)
        sent = reading.url.params.multi_items()
        self.assertEqual(sent[:-2], [("m", "5"), ("status", "a"), ("ids", "1"), ("ids", "2")])
        self.assertIsNone(reading.progress.cursor)
        for values in ([1, None], (None,)):
            with self.assertRaisesRegex(ValueError, "'ids' has a None"):
                RowReading("http://x/rows", {"ids": values}, 3)

    def test_records_that_make_no_sense(self) -> None:
        for members in (
            {"mark": 1},
            {"mark": {}},
            {"mark": {"rows": 0, "next": None}},
            {"end": None},
            {"columns": [{"type": "uuid"}]},
            {"columns": [1]},
            {"error": 1},
        ):
            reading = begun()
            fed(reading, record(**members))
            self.assertTrue(reading.ended, members)
            self.assertRaises(RowstreamError, reading.finish)

    def test_refusals(self) -> None:
        for status, body, code, retry in (
            (503, b'{"code":"pool_full","detail":"x","retry":true,"retry_after":1}', "pool_full", True),
            (400, b'{"code":"invalid_cursor","detail":"x","retry":false}', "invalid_cursor", False),
            (502, b"<html>", None, True),
            (404, b"<html>", None, False),
            (302, b"", None, False),
            (418, b'{"code":"of another service","retry":true}', None, False),
            (503, b"[" * 100_000, None, True),
        ):
            with self.assertRaises(RowstreamError) as raised:
                kind = "text/html" if code is None else "Application/Problem+JSON; charset=utf-8"
                begun().refuse(status, {"retry-after": "2", "content-type": kind}, body)
            error = raised.exception
            self.assertEqual((error.code, error.status, error.retry), (code, status, retry))
            self.assertEqual(error.retry_after, 1 if code == "pool_full" else None if code else 2)
        with self.assertRaisesRegex(RowstreamError, "redirects to 'https://y/rows'"):
            begun().refuse(307, {"location": "https://y/rows"}, b"")


class Events(unittest.TestCase):
    def test_an_idle_live_tail_survives_any_number_of_cuts(self) -> None:
        reading = EventReading("http://x/rows", None, 3)
        cut = IncompleteStream("cut", retry=True)
        for _ in range(20):
            reading.begin(HEADERS)
            reading.feed(b":\n\n:\n\n")
            reading.retry(cut)
        # The first heartbeat is sent at once, so it proves nothing.
        reading.begin(HEADERS)
        reading.feed(b":\n\n")
        reading.retry(cut)
        reading.begin(HEADERS)
        reading.feed(b":\n\n")
        self.assertRaises(IncompleteStream, reading.retry, cut)


if __name__ == "__main__":
    unittest.main()
