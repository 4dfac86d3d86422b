import assert from "node:assert/strict";
import { once } from "node:events";
import test from "node:test";
import { setImmediate, setTimeout } from "node:timers/promises";
import { follow, IncompleteStream, RowstreamError, rows } from "rowstream";
import { answer, columns, DROPS, HEAD, lines, problem, record, serve } from "./server.mjs";

const ids = (from, to) => Array.from({ length: to - from }, (_, at) => ({ id: from + at }));
const big = (list) => list.map(({ id }) => ({ id: BigInt(id) }));
const ID = columns({ id: "int64" });
const end = (rows, members) => record({ end: { rows, ...members } });
const mark = (rows, next) => record({ mark: { rows, next } });

async function drain(stream) {
  for await (const _ of stream);
}

test("values are exact, also in lists", async (t) => {
  const inner = { ...columns({ n: "int64", price: "decimal", at: "date-time" }), name: "items", type: "list" };
  const described = { columns: [...columns({ id: "int64", total: "decimal", flag: "boolean", n: "int32" }).columns, inner] };
  const row = '{"id":"-9223372036854775808","total":"1.10","flag":true,"n":7,"items":[{"n":"9007199254740993","price":"0.30","at":"2026-03-01T09:00:00Z"},{"n":null,"price":null,"at":null}]}';
  const server = await serve(t, answer(lines(record(described), row, end(1))));
  const [items, nulls] = [{ n: 9007199254740993n, price: "0.30", at: "2026-03-01T09:00:00Z" }, { n: null, price: null, at: null }];
  const expected = { id: -9223372036854775808n, total: "1.10", flag: true, n: 7, items: [items, nulls] };
  const stream = rows(server.url);
  assert.deepEqual(await stream.collect(), [expected]);
  assert.deepEqual(stream.columns, described.columns);
  assert.equal(server.requests[0].url.searchParams.get("_numbers"), "string");

  const convert = { int64: String, decimal: Number, "date-time": (text) => new Date(text) };
  const [converted] = await rows(server.url, { convert }).collect();
  const date = new Date(Date.UTC(2026, 2, 1, 9));
  assert.deepEqual(converted, { ...expected, id: "-9223372036854775808", total: 1.1, items: [{ n: "9007199254740993", price: 0.3, at: date }, nulls] });
});

test("a number that has lost digits is an error", async (t) => {
  const server = await serve(t, answer(lines(record(ID), '{"id":9007199254740993}', end(1))));
  const read = (_numbers) => rows(server.url, { params: { _numbers } }).collect();
  for (const form of ["number", null]) await assert.rejects(read(form), /remove _numbers from the parameters/);
  assert.equal(server.requests.length, 2);
});

// A REAL such as 1e19 was an error about a parameter that the request doesn't have.
test("values of SQLite that aren't integers stay as they are", async (t) => {
  const values = ["-7", 7, "abc", "", " 1", "0x10", "1.5", 1.5, 1e16, 1e19, -1e19, 1e300, true];
  const server = await serve(t, answer(lines(record(ID), ...values.map((id) => ({ id })), end(values.length))));
  const got = await rows(server.url).collect();
  assert.deepEqual(got.map(({ id }) => id), [-7n, 7n, ...values.slice(2)]);
});

test("a row may have columns with any name", async (t) => {
  const row = '{"__proto__":"1","constructor":"2","toString":null}';
  const described = { columns: ["__proto__", "constructor", "toString"].map((name) => ({ name, type: "int64" })) };
  const server = await serve(t, answer(lines(record(described), row, end(1))));
  const [got] = await rows(server.url).collect();
  assert.deepEqual(Object.entries(got), [["__proto__", 1n], ["constructor", 2n], ["toString", null]]);
  assert.equal(Object.getPrototypeOf(got), Object.prototype);
});

// Those of NULLs that `_nulls=omit` leaves out got inherited values: functions, and another prototype.
test("a column that a row leaves out isn't converted", async (t) => {
  const names = ["__proto__", "constructor", "toString", "id"];
  const all = names.map((name) => ({ name, type: "int64" }));
  const nested = [...all, { name: "valueOf", type: "list", columns: all }, { name: "hasOwnProperty", type: "list", columns: all }];
  const server = await serve(t, answer(lines(record({ columns: nested }), "{}", '{"valueOf":[{},{"id":"1"}]}', end(2))));
  const [got, { valueOf }] = await rows(server.url, { params: { _nulls: "omit" }, convert: { int64: () => ({}) } }).collect();
  for (const row of [got, ...valueOf]) assert.equal(Object.getPrototypeOf(row), Object.prototype);
  assert.deepEqual([got, ...valueOf].map(Object.keys), [[], [], ["id"]]);
});

test("a type that we don't know isn't converted", async (t) => {
  const server = await serve(t, answer(lines(record(columns({ a: "constructor", b: "point" })), { a: "1", b: [1] }, end(1))));
  assert.deepEqual(await rows(server.url).collect(), [{ a: "1", b: [1] }]);
});

test("the request has the parameters, the token and the headers", async (t) => {
  const server = await serve(t, answer(lines(record(ID), end(0))));
  const params = { status: "A&B", n: 5n, left: null, out: undefined, old: false };
  await rows(`${server.url}?n=1&left=1&m=2`, { params, token: "secret", headers: { "x-a": "b" } }).collect();
  const [{ url, headers }] = server.requests;
  const sent = { n: "5", m: "2", status: "A&B", old: "false", _format: "ndjson", _end: "1", _numbers: "string" };
  assert.deepEqual(Object.fromEntries(url.searchParams), sent);
  assert.equal(headers.authorization, "Bearer secret");
  assert.equal(headers["x-a"], "b");
});

// A token of 15 minutes ended an export of hours at its first cut.
test("a function's token is renewed before each request", { skip: DROPS }, async (t) => {
  const aborted = answer(lines(record(ID), ...ids(0, 2), mark(2, "after-2")), { cut: true, head: { "rowstream-stream": "0a" } });
  const expired = (response) => problem(response, 401, { code: "token_expired", detail: "too old", retry: false });
  const rest = answer(lines(record(ID), ...ids(2, 3), end(1)));
  const server = await serve(t, aborted, (response) => response.writeHead(404).end(), expired, rest);
  let calls = 0;
  const token = async () => `token-${(calls += 1)}`;
  const stream = rows(server.url, { token });
  assert.equal(calls, 0);
  assert.deepEqual(await stream.collect(), big(ids(0, 3)));
  const sent = server.requests.map(({ url, headers }) => [url.pathname.includes("streams"), headers.authorization]);
  assert.deepEqual(sent, [[false, "Bearer token-1"], [true, "Bearer token-2"], [false, "Bearer token-3"], [false, "Bearer token-4"]]);
  assert.equal(stream.resumed, 1);
});

test("a live tail renews its token", { skip: DROPS }, async (t) => {
  const event = (id) => `data: {"id":${id}}\nid: c${id}\n\n`;
  const tail = (id) => answer(`event: rowstream\ndata: ${record(ID)}\n\n${event(id)}`, { head: { "rowstream-resume": "ids" }, cut: true });
  const server = await serve(t, tail(1), tail(2), tail(3));
  let calls = 0;
  const got = [];
  for await (const { id } of follow(server.url, { token: () => `token-${(calls += 1)}` })) {
    got.push(id);
    if (id === 3n) break;
  }
  assert.deepEqual(got, [1n, 2n, 3n]);
  assert.deepEqual(server.requests.map(({ headers }) => headers.authorization), ["Bearer token-1", "Bearer token-2", "Bearer token-3"]);
});

test("a second 401 is an error, and one for a text is, too", async (t) => {
  const server = await serve(t, (response) => problem(response, 401, { code: "unauthorized", detail: "no", retry: false }));
  for (const [token, requests] of [["secret", 1], [() => "secret", 3]]) {
    await assert.rejects(rows(server.url, { token }).collect(), { name: "RowstreamError", code: "unauthorized", status: 401 });
    assert.equal(server.requests.length, requests);
  }
});

test("a token function's error is thrown, and no error shows a token", async (t) => {
  const server = await serve(t, answer(lines(record(ID), end(0))));
  const failed = new Error("the login failed");
  const throws = () => {
    throw failed;
  };
  for (const token of [throws, async () => throws()]) {
    await assert.rejects(rows(server.url, { token }).collect(), (error) => error === failed);
  }
  // `Headers` showed those with a control character at an end.
  const wrongs = ["\ns3cret", "s3cret\n", " s3cret", "s3 cret", "s3cr\nt", "\0s3cret", "s3cret\x7f", "s3cr\u20act", "", 7, {}];
  const hidden = (error) => error instanceof TypeError && /option token/.test(error.message) && !error.stack.includes("s3");
  for (const wrong of wrongs) {
    assert.throws(() => rows(server.url, { token: wrong }), hidden, JSON.stringify(wrong));
    await assert.rejects(rows(server.url, { token: async () => wrong }).collect(), hidden, JSON.stringify(wrong));
  }
  await assert.rejects(rows(server.url, { token: () => undefined }).collect(), hidden);
  const signal = AbortSignal.timeout(20);
  const wait = setTimeout(10_000, undefined, { signal }).catch(() => {});
  await assert.rejects(rows(server.url, { token: () => new Promise(() => {}), signal }).collect(), { name: "TimeoutError" });
  await wait;
  assert.equal(server.requests.length, 0);
});

test("an Authorization beside a token is refused", () => {
  const headers = { authorization: "Basic s3cret" };
  for (const token of ["s3cret", () => "s3cret"]) {
    const hidden = (error) => error instanceof TypeError && /beside token/.test(error.message) && !error.message.includes("s3");
    assert.throws(() => rows("http://localhost/orders", { token, headers }), hidden);
  }
});

test("an aborted read doesn't call the token function", async () => {
  let calls = 0;
  const token = () => `token-${(calls += 1)}`;
  const signal = AbortSignal.abort();
  await assert.rejects(rows("http://localhost/orders", { token, signal }).collect(), { name: "AbortError" });
  assert.equal(calls, 0);
});

test("a slow token function isn't called again while it runs", async () => {
  const [calls, sent] = [[], []];
  let give;
  const token = () => {
    calls.push("call");
    return calls.length > 1 ? "second" : new Promise((resolve) => (give = resolve));
  };
  // Before each further attempt.
  const rewind = () => calls.push("cut") === 4 && give("first");
  const fetch = async (_, { headers }) => {
    sent.push(headers.get("authorization"));
    return new Response(lines(record(ID), end(0)), { headers: HEAD });
  };
  await rows("http://localhost/orders", { token, rewind, fetch, firstRowTimeout: 5 }).collect();
  assert.deepEqual([calls, sent], [["call", "cut", "cut", "cut", "call"], ["Bearer second"]]);
});

test("a redirect isn't followed, and a password isn't shown", async (t) => {
  const other = await serve(t, answer(lines(record(ID), end(0))));
  for (const status of [301, 302, 303, 307, 308]) {
    const server = await serve(t, (response) => response.writeHead(status, { location: other.url }).end());
    await assert.rejects(rows(server.url, { token: "secret" }).collect(), { name: "RowstreamError", status, message: /redirects/ });
    assert.equal(server.requests.length, 1);
  }
  // A browser's answer to `redirect: "manual"`.
  const hidden = async () => ({ status: 0, headers: new Headers(), body: null });
  await assert.rejects(rows(other.url, { fetch: hidden }).collect(), { name: "RowstreamError", message: /redirects/ });
  assert.equal(other.requests.length, 0);
  for (const user of ["user:secret@", "secret@", ":secret@"]) {
    assert.throws(() => rows(other.url.replace("//", `//${user}`)), (error) => /option headers/.test(error.message) && !error.stack.includes("secret"));
  }
});

test("a page has a cursor to the next one", async (t) => {
  const server = await serve(t, answer(lines(record(ID), ...ids(0, 2), end(2, { next: "after-1", page: "full" }))));
  const page = rows(server.url);
  assert.deepEqual(await page.collect(), big(ids(0, 2)));
  assert.deepEqual([page.page, page.cursor, page.rows, page.resumed], ["full", "after-1", 2, 0]);
  assert(page.bytes > 100);
});

// Each mark covers three rows. The rest is served from the cursor.
test("a cut at any byte loses no row and doubles none", async (t) => {
  const body = (from) => {
    const all = [record(ID)];
    for (let at = from; at < 12; at += 3) all.push(...ids(at, at + 3), mark(at + 3 - from, `after-${at + 3}`));
    return lines(...all, end(12 - from, { next: "after-12" }));
  };
  const whole = body(0);
  const length = whole.lastIndexOf("\n");
  const cutAt = async (at) => {
    const server = await serve(t, answer(whole.slice(0, at), { cut: true }), (response, url) => {
      answer(body(Number(url.searchParams.get("_after")?.slice(6) ?? 0)))(response);
    });
    const [stream, got] = [rows(server.url), []];
    for await (const row of stream) got.push(row);
    assert.deepEqual(got, big(ids(0, 12)), `cut at ${at}`);
    assert.deepEqual([server.requests.length, stream.resumed], [2, 1], `cut at ${at}`);
  };
  for (let at = 0; at < length; at += 100) {
    await Promise.all(Array.from({ length: Math.min(100, length - at) }, (_, more) => cutAt(at + more)));
  }
});

test("rows wait for their mark, and a failure leaves those that the cursor covers", async (t) => {
  const problem = { code: "bad_value", detail: "division by zero", retry: false, hint: "none", status: 500 };
  const server = await serve(t, answer(lines(record(ID), ...ids(0, 2), mark(2, "after-2"), ...ids(2, 3), record({ error: problem }))));
  const got = [];
  await assert.rejects(async () => {
    for await (const row of rows(server.url)) got.push(row);
  }, (error) => {
    assert(error instanceof RowstreamError);
    const { code, detail, hint, retry, status, rows, cursor } = error;
    assert.deepEqual({ code, detail, hint, retry, status }, problem);
    assert.deepEqual([rows, cursor], [2, "after-2"]);
    return true;
  });
  assert.deepEqual(got, big(ids(0, 2)));
});

// The cursor of a whole batch was ahead of the loop: who stored it with each row skipped the others.
test("after a break anywhere, the cursor skips no row and begins after the last mark", async (t) => {
  const body = lines(record(ID), ...ids(0, 2), mark(2, "after-2"), ...ids(2, 4), mark(4, "after-4"), ...ids(4, 5), end(5, { next: "after-5" }));
  const server = await serve(t, answer(body));
  const cursors = [undefined, "after-2", "after-2", "after-4", "after-5"];
  for (let last = 0; last < 5; last += 1) {
    const stream = rows(server.url);
    const seen = [];
    for await (const row of stream) {
      seen.push([stream.rows, stream.cursor]);
      if (row.id === BigInt(last)) break;
    }
    assert.deepEqual(seen, cursors.slice(0, last + 1).map((cursor, at) => [at + 1, cursor]));
    assert.deepEqual([stream.rows, stream.cursor], [last + 1, cursors[last]]);
  }
  const all = rows(server.url);
  for await (const batch of all.batches()) assert.deepEqual([all.rows, all.cursor], [batch.length, "after-5"]);

  const events = recordEvent(ID) + [1, 2, 3].map((id) => event({ id }, `c${id}`)).join("");
  const following = await serve(t, answer(events, { head: tail }));
  const stream = follow(following.url);
  const seen = [];
  for await (const _ of stream) if (seen.push(stream.cursor) === 2) break;
  assert.deepEqual([seen, stream.cursor, stream.rows], [["c1", "c2"], "c2", 2]);
});

// The error had the position of rows that were lost with the array.
test("after a failed collect, the error's position is the beginning", async (t) => {
  const failure = record({ error: { code: "bad_value", retry: false } });
  const server = await serve(t, answer(lines(record(ID), ...ids(0, 2), mark(2, "after-2"), failure)));
  const stream = rows(server.url, { params: { _after: "begin" } });
  await assert.rejects(stream.collect(), { code: "bad_value", rows: 0, cursor: "begin" });
  assert.deepEqual([stream.rows, stream.cursor], [0, "begin"]);
  const cut = await serve(t, answer(lines(record(ID), ...ids(0, 2)), { cut: true, head: { "rowstream-resume": "none" } }));
  await assert.rejects(rows(cut.url).collect(), { name: "IncompleteStream", rows: 0, cursor: undefined });
});

test("without cursors rows don't wait, and a cut is reported", { skip: DROPS }, async (t) => {
  const server = await serve(t, answer(lines(record(ID), ...ids(0, 3)), { cut: true, head: { "rowstream-resume": "none" } }));
  const got = [];
  await assert.rejects(async () => {
    for await (const row of rows(server.url)) got.push(row);
  }, (error) => {
    assert(error instanceof IncompleteStream);
    assert.deepEqual([error.rows, error.cursor], [3, undefined]);
    assert.match(error.message, /read it again from the start/);
    assert(error.cause instanceof Error);
    return true;
  });
  assert.deepEqual([got, server.requests.length], [big(ids(0, 3)), 1]);
});

test("no row is handed over after one that isn't whole", async (t) => {
  // The lines are read together, so each of them could look whole together with its neighbours.
  for (const damaged of ['{"id":', '{"id":1}{"id":1}', '{"id":1},{"id":1}', '{"id":1},', ',{"id":1}', "1", "[1]", '[{"id":1}]', "]", "],["]) {
    for (const after of [[], ids(2, 3), ids(2, 1000)]) {
      const body = lines(record(ID), { id: 0 }, damaged, ...after, end(after.length + 2));
      const server = await serve(t, answer(body, { head: { "rowstream-resume": "none" } }));
      const got = [];
      await assert.rejects(async () => {
        for await (const row of rows(server.url)) got.push(row);
      }, /a row isn't whole/, damaged);
      assert.deepEqual(got, big(ids(0, 1)), damaged);
    }
  }
});

test("what waits for a mark is bounded", async (t) => {
  const row = JSON.stringify({ text: "x".repeat(1 << 20) });
  const server = await serve(t, answer(lines(record(columns({ text: "string" })), ...Array(40).fill(row)), { cut: true }));
  let got = 0;
  await assert.rejects(async () => {
    for await (const _ of rows(server.url)) got += 1;
  }, (error) => error instanceof IncompleteStream && error.cursor === undefined && error.rows === got);
  assert(got >= 30 && server.requests.length === 1, `${got} rows, ${server.requests.length} requests`);
});

test("attempts without new rows are counted, and a new row begins again", { skip: DROPS }, async (t) => {
  const busy = (response) => problem(response, 503, { code: "pool_full", detail: "busy", retry: true });
  const always = await serve(t, busy);
  await assert.rejects(rows(always.url, { retries: 2 }).collect(), { name: "RowstreamError", code: "pool_full", status: 503 });
  assert.equal(always.requests.length, 3);

  const step = (from) => answer(lines(record(ID), { id: from }, mark(1, `after-${from}`)), { cut: true });
  const last = answer(lines(record(ID), end(0)));
  const server = await serve(t, busy, step(0), busy, step(1), busy, step(2), last);
  assert.deepEqual(await rows(server.url, { retries: 2 }).collect(), big(ids(0, 3)));
});

test("a server that isn't there is tried again, and then reported", async (t) => {
  const server = await serve(t, (response) => response.socket.destroy());
  await assert.rejects(rows(server.url, { retries: 1 }).collect(), { name: "IncompleteStream", rows: 0 });
  assert.equal(server.requests.length, 2);
});

test("a delay beyond patience is the caller's decision", async (t) => {
  const server = await serve(t, (response) => problem(response, 429, { code: "rate_limited", retry: true, retry_after: 1e9 }));
  await assert.rejects(rows(server.url).collect(), { code: "rate_limited", retryAfter: 1e9 });
  assert.equal(server.requests.length, 1);
});

// Its pause was negative, so the attempts followed one another at once.
test("a negative delay is none", async (t) => {
  const server = await serve(t, (response) => problem(response, 503, { code: "pool_full", retry: true, retry_after: -1e9 }));
  await assert.rejects(rows(server.url, { retries: 0 }).collect(), { code: "pool_full", retryAfter: 0 });
});

test("the status of a proxy is repeated if it may pass", async (t) => {
  const plain = (status) => (response) => response.writeHead(status).end("<html>");
  const passing = await serve(t, plain(502), answer(lines(record(ID), end(0))));
  assert.deepEqual(await rows(passing.url).collect(), []);
  const gone = await serve(t, plain(404));
  await assert.rejects(rows(gone.url).collect(), { name: "RowstreamError", status: 404, code: undefined, retry: false });
  assert.equal(gone.requests.length, 1);
});

// A date was ignored, and 1e1 was ten seconds.
test("the delay of a proxy is seconds or a date", async (t) => {
  const at = (seconds) => new Date(Date.now() + 1000 * seconds).toUTCString();
  const delays = { 7: 7, "Sun, 06 Nov 1994 08:49:37 GMT": 0, "1e1": undefined, "0x10": undefined, "-1": undefined, "1.5": undefined, soon: undefined, "Sun, never GMT": undefined };
  for (const [value, seconds] of Object.entries(delays)) {
    const server = await serve(t, (response) => response.writeHead(503, { "retry-after": value }).end());
    await assert.rejects(rows(server.url, { retries: 0 }).collect(), { status: 503, retryAfter: seconds });
  }
  for (const [seconds, requests] of [[2, 2], [1000, 1]]) {
    const later = (response) => response.writeHead(503, { "retry-after": at(seconds) }).end();
    const server = await serve(t, later, answer(lines(record(ID), end(0))));
    const begun = Date.now();
    await rows(server.url).collect().catch(({ retryAfter }) => assert(retryAfter > 990, `${retryAfter}`));
    assert.equal(server.requests.length, requests);
    if (requests === 2) assert(Date.now() - begun > 900);
  }
});

test("an answer of something else isn't read", async (t) => {
  const server = await serve(t, (response) => response.end("{}"));
  await assert.rejects(rows(server.url).collect(), /Rowstream-Tag is missing/);
  assert.equal(server.requests.length, 1);
  const { "rowstream-wire": _, ...head } = HEAD;
  const unversioned = await serve(t, (response) => response.writeHead(200, head).end(lines(record(ID), end(0))));
  await assert.rejects(rows(unversioned.url).collect(), /Rowstream-Wire is missing/);
  assert.equal(unversioned.requests.length, 1);
});

// A damaged record of the columns looked like a row, and an int64 stayed a string.
test("damaged lines aren't rows, and damaged records are cuts", async (t) => {
  const described = record(ID);
  const damaged = {
    "the columns are missing": [described.replace("rowstream", "rowstreem"), end(1)],
    "the columns aren't a list": [record({ columns: { id: "int64" } }), end(0)],
    "a row isn't whole": [described, "7", end(1)],
    "a row isn't whole: null": [described, "null", end(1)],
    "a row isn't whole: a list": [described, "[1]", end(1)],
    "a mark has no cursor": [described, ...ids(0, 1), record({ mark: { rows: 1 } }), end(1)],
  };
  for (const [reason, body] of Object.entries(damaged)) {
    const server = await serve(t, answer(lines(...body)), answer(lines(described, ...ids(0, 1), end(1))));
    const stream = rows(server.url);
    assert.deepEqual(await stream.collect(), big(ids(0, 1)), reason);
    assert.deepEqual([server.requests.length, server.requests[1].url.searchParams.get("_after")], [2, null], reason);
    const message = new RegExp(reason.split(":")[0]);
    const always = await serve(t, answer(lines(...body)));
    await assert.rejects(rows(always.url, { retries: 0 }).collect(), { name: "IncompleteStream", message });
  }
});

test("after an abort without a reason, the client asks the server", { skip: DROPS }, async (t) => {
  const head = { "rowstream-stream": "abc" };
  const cut = answer(lines(record(ID), ...ids(0, 1), mark(1, "after-0")), { cut: true, head });
  const failed = { state: "failed", error: { code: "bad_value", detail: "division by zero", retry: false } };
  const server = await serve(t, cut, (response) => response.end(JSON.stringify(failed)));
  await assert.rejects(drain(rows(server.url, { token: "t" })), { code: "bad_value", rows: 1, cursor: "after-0" });
  assert.equal(server.requests[1].url.pathname, "/_rowstream/streams/abc");
  assert.equal(server.requests[1].headers.authorization, "Bearer t");

  for (const other of [(response) => problem(response, 404, {}), (response) => response.end("<html>")]) {
    const server = await serve(t, cut, other, answer(lines(record(ID), end(0))));
    assert.deepEqual(await rows(server.url).collect(), big(ids(0, 1)));
    assert.equal(server.requests[2].url.searchParams.get("_after"), "after-0");
  }
});

test("a shard is continued in its snapshot", async (t) => {
  const cut = answer(lines(record(ID), ...ids(0, 1), mark(1, "after-0")), { cut: true, head: { "rowstream-snapshot": "s" } });
  const server = await serve(t, cut, answer(lines(record(ID), end(0))));
  await rows(server.url, { params: { _shard: "1/2" } }).collect();
  assert.deepEqual(server.requests.map(({ url }) => url.searchParams.get("_snapshot")), [null, "s"]);
});

/** Sends rows without end, as long as the client takes them. */
function endless(state) {
  return async (response) => {
    response.once("close", () => (state.isClosed = true));
    response.writeHead(200, { ...HEAD, "rowstream-resume": "none" });
    response.write(lines(record(ID)));
    const block = lines(...ids(0, 10_000));
    state.closed = once(response, "close");
    while (!state.isClosed) {
      state.sent = (state.sent ?? 0) + block.length;
      if (!response.write(block)) await Promise.race([once(response, "drain"), state.closed]);
    }
  };
}

test("break cancels the request", async (t) => {
  const [one, other] = [{}, {}];
  const server = await serve(t, endless(one), endless(other));
  for await (const _ of rows(server.url)) break;
  await one.closed;
  for await (const _ of rows(server.url).batches()) break;
  await other.closed;
});

test("the client asks for the reason below the path prefix of a proxy", { skip: DROPS }, async (t) => {
  const paths = { "./": "/api/shop/", "../": "/api/", "../../": "/", "../../../": "/", "//evil.example/": "/", ".././": "/" };
  for (const [root, path] of Object.entries(paths)) {
    const head = { "rowstream-stream": "0a1b", "rowstream-root": root };
    const server = await serve(t, answer(lines(record(ID)), { cut: true, head }), (response) => response.writeHead(404).end());
    const url = new URL("/api/shop/orders?n=/x/y", server.url);
    await assert.rejects(rows(url, { retries: 0 }).collect(), { name: "IncompleteStream" });
    assert.equal(server.requests[1].url.pathname, `${path}_rowstream/streams/0a1b`);
  }
});

test("a signal cancels the request, the pause, and what hasn't begun", async (t) => {
  const state = {};
  const server = await serve(t, endless(state));
  const abort = new AbortController();
  await assert.rejects(async () => {
    for await (const _ of rows(server.url, { signal: abort.signal })) abort.abort(new Error("enough"));
  }, /^Error: enough$/);
  await state.closed;

  // The rows that have arrived with it aren't handed over, even if they're the last ones.
  const small = await serve(t, answer(lines(record(ID), ...ids(0, 3), end(3))));
  for (const last of [0n, 2n]) {
    const [within, got] = [new AbortController(), []];
    await assert.rejects(async () => {
      for await (const { id } of rows(small.url, { signal: within.signal })) {
        got.push(id);
        if (id === last) within.abort(new Error("enough"));
      }
    }, /^Error: enough$/);
    assert.equal(got.at(-1), last);
  }

  const silent = await serve(t, () => {});
  const early = new AbortController();
  const waiting = rows(silent.url, { signal: early.signal }).collect();
  while (silent.requests.length === 0) await setImmediate();
  early.abort(new Error("enough"));
  await assert.rejects(waiting, /^Error: enough$/);

  const busy = await serve(t, (response) => problem(response, 503, { code: "pool_full", retry: true, retry_after: 200 }));
  const pausing = rows(busy.url, { signal: AbortSignal.timeout(50) }).collect();
  await assert.rejects(pausing, { name: "TimeoutError" });

  await assert.rejects(rows(silent.url, { signal: AbortSignal.abort() }).collect(), { name: "AbortError" });
  assert.equal(silent.requests.length, 1);
});

test("the wait for the first row is limited, and tried again", async (t) => {
  const server = await serve(t, () => {}, answer(lines(record(ID), ...ids(0, 1), end(1))));
  assert.deepEqual(await rows(server.url, { firstRowTimeout: 50, retries: 100 }).collect(), big(ids(0, 1)));
  assert.equal(server.requests.length > 1, true);
  const silent = await serve(t, () => {});
  const waiting = rows(silent.url, { firstRowTimeout: 50, retries: 1 }).collect();
  await assert.rejects(waiting, { name: "IncompleteStream", message: /nothing arrived for 0.05 seconds/ });
});

// Deno's fetch did this to a silent connection.
test("an aborted read that stays pending is given up", async () => {
  const silent = () => new Response(new ReadableStream({ pull: () => new Promise(() => {}) }, { highWaterMark: 0 }), { headers: HEAD });
  const fetch = async () => silent();
  await assert.rejects(rows("http://server/", { fetch, readTimeout: 20, retries: 0 }).collect(), /nothing arrived for 0.02 seconds/);
  const signal = AbortSignal.timeout(20);
  // Its timer alone wouldn't keep the process.
  const wait = setTimeout(10_000, undefined, { signal }).catch(() => {});
  await assert.rejects(rows("http://server/", { fetch, signal }).collect(), { name: "TimeoutError" });
  await wait;
});

test("a slow caller stops the server", async (t) => {
  const state = {};
  const server = await serve(t, endless(state));
  const stream = rows(server.url);
  for await (const _ of stream.batches()) {
    const read = stream.bytes;
    // Until the buffers of the sockets are full.
    for (let before = -1; before !== state.sent; before = state.sent, await setTimeout(100));
    assert(state.sent < 64 << 20, `${state.sent} bytes`);
    assert.equal(stream.bytes, read);
    break;
  }
});

test("the next request uses the same connection", async (t) => {
  const sockets = new Set();
  const server = await serve(t, (response) => {
    sockets.add(response.socket);
    response.writeHead(200, HEAD).write(lines(record(ID), end(0)));
    // The last chunk arrives after the end record.
    setTimeout(2).then(() => response.end());
  });
  for (let turn = 0; turn < 20; turn += 1) {
    await rows(server.url).collect();
    await setTimeout(20);
  }
  assert(sockets.size < 20, `${sockets.size} connections`);
});

test("a line is bounded", async (t) => {
  const block = "x".repeat(1 << 20);
  const server = await serve(t, async (response) => {
    response.writeHead(200, HEAD).write(`${lines(record(ID))}{"text":"`);
    while (!response.destroyed) {
      if (!response.write(block)) await Promise.race([once(response, "drain"), once(response, "close")]);
    }
  });
  await assert.rejects(rows(server.url).collect(), /a row is longer than 128 MiB; read its lists/);
  assert.equal(server.requests.length, 1);
});

// Parts were kept with the chunks around them, so a line in small ones filled the memory.
test("parts of a line are copied from their chunks", async () => {
  const { Lines } = await import("../dist/lines.js");
  const [lines, chunk] = [new Lines(), new Uint8Array(100)];
  for (let part = 0; part < 1000; part += 1) {
    assert.deepEqual(lines.push(chunk.fill(97 + (part % 26)).subarray(0, part % 7)), []);
  }
  const text = Array.from({ length: 1000 }, (_, part) => String.fromCharCode(97 + (part % 26)).repeat(part % 7)).join("");
  assert.deepEqual(lines.push(Buffer.from("é\n\nab")), [`${text}é`, ""]);
  assert.deepEqual(lines.push(Buffer.from("c\n")), ["abc"]);
});

test("bytes that aren't UTF-8 aren't rows", async (t) => {
  const row = Buffer.from('{"text":"\xff"}\n', "latin1");
  const body = Buffer.concat([Buffer.from(lines(record(columns({ text: "string" })))), row, Buffer.from(lines(end(1)))]);
  const server = await serve(t, answer(body));
  await assert.rejects(rows(server.url, { retries: 0 }).collect(), /a part isn't UTF-8/);
});

test("several rows may be asked for at once", async (t) => {
  const body = Array.from({ length: 5 }, (_, at) => [...ids(2 * at, 2 * at + 2), mark(2 * at + 2, "c")]).flat();
  const server = await serve(t, async (response) => {
    response.writeHead(200, HEAD).write(lines(record(ID)));
    for (const line of body) {
      response.write(lines(line));
      await setTimeout(1);
    }
    response.end(lines(end(10)));
  });
  const iterator = rows(server.url)[Symbol.asyncIterator]();
  const ask = (length) => Array.from({ length }, () => iterator.next());
  const first = ask(3);
  await first[0];
  const results = await Promise.all([...first, ...ask(9)]);
  assert.deepEqual(results.filter(({ done }) => !done).map(({ value }) => value), big(ids(0, 10)));
  assert.deepEqual(results.slice(10).map(({ done }) => done), [true, true]);
});

test("rows are read once, and collected up to a limit", async (t) => {
  const server = await serve(t, answer(lines(record(ID), ...ids(0, 3), end(3))));
  const stream = rows(server.url);
  await stream.collect(3);
  await assert.rejects(stream.collect(), /have been read/);
  await assert.rejects(rows(server.url).collect(2), { name: "RangeError", message: /more than 2 rows/ });
});

test("an error of the caller's converter is the caller's", async (t) => {
  const server = await serve(t, answer(lines(record(ID), ...ids(0, 1), end(1))));
  const convert = { int64: () => { throw new TypeError("mine"); } };
  await assert.rejects(rows(server.url, { convert }).collect(), { name: "TypeError", message: "mine" });
  assert.equal(server.requests.length, 1);
});

const event = (row, id) => `data: ${JSON.stringify(row)}\nid: ${id}\n\n`;
const recordEvent = (kind) => `event: rowstream\ndata: ${record(kind)}\n\n`;
const tail = { "content-type": "text/event-stream", "rowstream-resume": "ids" };

test("a live tail survives a shutdown, a cut and a proxy's status", { skip: DROPS }, async (t) => {
  const rest = event({ id: 3 }, "c3");
  const server = await serve(t,
    answer(recordEvent(ID) + event({ id: 1 }, "c1") + ": heartbeat\n\n" + recordEvent({ end: { rows: 1, next: "c1" } }), { head: tail }),
    (response) => response.writeHead(502).end(),
    answer(recordEvent(ID) + event({ id: 2 }, "c2") + rest.slice(0, -1), { head: tail, cut: true }),
    (response) => response.writeHead(200, { ...HEAD, ...tail }).write(recordEvent(ID) + rest));
  const got = [];
  for await (const row of follow(server.url)) {
    got.push(row);
    if (row.id === 3n) break;
  }
  assert.deepEqual(got, big([{ id: 1 }, { id: 2 }, { id: 3 }]));
  assert.deepEqual(server.requests.map(({ url }) => url.searchParams.get("_after")), [null, "c1", "c1", "c2"]);
  assert.equal(server.requests[0].url.searchParams.get("_follow"), "1");
});

test("a live tail ends with errors that don't pass, and with a wrong count", async (t) => {
  const ahead = await serve(t, (response) => problem(response, 410, { code: "cursor_ahead", retry: false }));
  await assert.rejects(follow(ahead.url).collect(), { code: "cursor_ahead" });
  // The cursor of its last event passed the row that is missing.
  const body = recordEvent(ID) + event({ id: 1 }, "c1") + event({ id: 3 }, "c3") + recordEvent({ end: { rows: 3, next: "c3" } });
  const wrong = await serve(t, answer(body, { head: tail }));
  for (const options of [{}, { rewind: () => assert.fail("it isn't resumed") }]) {
    const error = { name: "IncompleteStream", rows: 2, cursor: undefined, message: /3 rows, but 2 arrived; read it again from the start/ };
    await assert.rejects(drain(follow(wrong.url, options)), error);
  }
  assert.equal(wrong.requests.length, 2);
});

// The encoder allows rows without ids.
test("events without ids are rows", async (t) => {
  const body = recordEvent(ID) + [1, 2].map((id) => `data: {"id":${id}}\n\n`).join("");
  const server = await serve(t, answer(body + recordEvent({ end: { rows: 2 } }), { head: { ...tail, "rowstream-resume": "none" } }));
  const got = [];
  await assert.rejects(async () => {
    for await (const row of follow(server.url)) got.push(row);
  }, { name: "IncompleteStream", rows: 2, cursor: undefined });
  assert.deepEqual([got, server.requests.length], [big([{ id: 1 }, { id: 2 }]), 1]);
});

// An event of which a proxy lost a part moved the cursor, so its row was lost.
test("a live tail goes back to the event that isn't whole", async (t) => {
  const [first, second, third] = [1, 2, 3].map((id) => event({ id }, `c${id}`));
  for (const torn of ['data: {"id":\nid: c2\n\n', second.slice(0, -1), second.slice(2), "id: c2\n\n"]) {
    const server = await serve(t,
      answer(recordEvent(ID) + first + torn + third, { head: tail }),
      (response) => response.writeHead(200, { ...HEAD, ...tail }).write(recordEvent(ID) + second + third));
    const got = [];
    for await (const row of follow(server.url)) {
      got.push(row);
      if (row.id === 3n) break;
    }
    assert.deepEqual(got, big([{ id: 1 }, { id: 2 }, { id: 3 }]), torn);
    assert.equal(server.requests[1].url.searchParams.get("_after"), "c1", torn);
  }
});

// Its ids were cursors, and so the rows of another list could follow.
test("a response without resumption isn't continued after its ids, marks or end", { skip: DROPS }, async (t) => {
  const head = { ...tail, "rowstream-resume": "none" };
  const again = (response) => problem(response, 410, { code: "repeated" });
  const begin = recordEvent(ID) + event({ id: 1 }, "c1");
  for (const [body, cut] of [[begin, true], [begin + recordEvent({ end: { rows: 1 } }), false]]) {
    const server = await serve(t, answer(body, { head, cut }), again);
    const error = { name: "IncompleteStream", rows: 1, cursor: undefined, message: /read it again from the start/ };
    await assert.rejects(drain(follow(server.url)), error);
    assert.equal(server.requests.length, 1);
  }
  const marked = await serve(t, answer(lines(record(ID), ...ids(0, 1), mark(1, "c1")), { head, cut: true }), again);
  await assert.rejects(drain(rows(marked.url)), { name: "IncompleteStream", rows: 1, cursor: undefined });
  assert.equal(marked.requests.length, 1);
});

test("rows as text have every digit", async (t) => {
  const texts = ['{"id":9007199254740993,"total":1.10,"json":{"n":1e400}}', '{"total": 2}'];
  const described = record(columns({ id: "int64", total: "decimal", json: "json" }));
  const server = await serve(t, answer(lines(described, ...texts, end(2))));
  const params = { _numbers: null };
  assert.deepEqual(await rows(server.url, { as: "text", params }).collect(), texts);
  assert.equal(server.requests[0].url.searchParams.get("_numbers"), null);
  const event = await serve(t, answer(recordEvent(ID) + `data: ${texts[0]}\nid: c1\n\n`, { head: tail }));
  for await (const text of follow(event.url, { as: "text" })) {
    assert.equal(text, texts[0]);
    break;
  }
  const torn = await serve(t, answer(lines(described, texts[0].slice(0, -1), end(1))));
  await assert.rejects(drain(rows(torn.url, { as: "text", retries: 0 })), { reason: "a row isn't whole" });
});

/** Reads rows one by one, in batches, or all at once. */
const ways = {
  async one(stream, got) {
    for await (const { id } of stream) got.push(id);
  },
  async batch(stream, got) {
    for await (const batch of stream.batches()) got.push(...batch.map(({ id }) => id));
  },
  async collect(stream, got) {
    const all = await stream.collect();
    got.splice(0, got.length, ...all.map(({ id }) => id));
  },
};

test("rows that don't wait for a mark are dropped before they're sent again", { skip: DROPS }, async (t) => {
  for (const [name, read] of Object.entries(ways)) {
    const server = await serve(t,
      answer(lines(record(ID), ...ids(0, 2)), { cut: true }),
      answer(lines(record(ID), ...ids(0, 3), mark(3, "c3"), ...ids(3, 5)), { cut: true }),
      answer(lines(record(ID), ...ids(3, 6), end(3))));
    const [got, rewinds] = [[], []];
    const rewind = (rows, { message }) => {
      rewinds.push([got.length, rows, message]);
      got.length = Math.min(got.length, rows);
    };
    const stream = rows(server.url, { rewind });
    await read(stream, got);
    assert.deepEqual(got, [0n, 1n, 2n, 3n, 4n, 5n], name);
    assert.equal(stream.rows, 6);
    assert.deepEqual(server.requests.map(({ url }) => url.searchParams.get("_after")), [null, null, "c3"]);
    const lost = "the connection was lost";
    if (name !== "collect") assert.deepEqual(rewinds, [[2, 0, lost], [5, 3, lost]], name);
  }
});

test("without new marks, rows that don't wait are given up, too", { skip: DROPS }, async (t) => {
  const body = lines(record(ID), ...ids(0, 2), mark(2, "c2"), ...ids(2, 4));
  const server = await serve(t, answer(body, { cut: true }), answer(lines(record(ID), ...ids(2, 4)), { cut: true }));
  const got = [];
  const stream = rows(server.url, { retries: 1, rewind: (rows) => got.push(rows) });
  const error = await drain(stream).catch((error) => error);
  assert.deepEqual([error.name, error.rows, error.cursor, got], ["IncompleteStream", 2, "c2", [2]]);
  assert.deepEqual([stream.rows, stream.marked, stream.cursor], [4, 2, "c2"]);
  assert.equal(server.requests.length, 2);

  const head = { "rowstream-resume": "none" };
  const final = await serve(t, answer(lines(record(ID), ...ids(0, 2)), { cut: true, head }));
  const rewind = () => assert.fail("it isn't resumed");
  await assert.rejects(drain(rows(final.url, { rewind })), { rows: 2, cursor: undefined });
});

test("an error has the whole document", async (t) => {
  const document = { status: 422, title: "Unprocessable", code: "c", sqlstate: "22012" };
  const server = await serve(t, (response) => problem(response, 422, document));
  await assert.rejects(rows(server.url).collect(), { problem: document });
});
