import assert from "node:assert/strict";
import test from "node:test";
import { setTimeout } from "node:timers/promises";
import { stream } from "rowstream";
import { DROPS, problem, serve } from "./server.mjs";

async function read(t, body, pointer, { cut = false, head = {}, reason } = {}) {
  const pieces = Array.isArray(body) ? body : [body];
  const respond = async (response) => {
    response.writeHead(200, { "content-type": "application/json", ...head });
    for (const piece of pieces) await new Promise((resolve) => response.write(piece, resolve));
    if (cut) response.socket.destroy();
    else response.end();
  };
  const server = await serve(t, respond, (response) => response.end(JSON.stringify(reason)));
  const rows = [];
  try {
    for await (const row of stream(server.url).at(pointer)) rows.push(row);
  } catch (error) {
    return { rows, error };
  }
  return { rows };
}

const DOCUMENT = JSON.stringify({
  note: 'a "]}, [ \\',
  _embedded: { authors: [{ id: 1, articles: [0] }], articles: [{ id: 1, t: "é\\\"]," }, [2, { a: [] }], null, "x", 5] },
  "a/b~": [[], [[7]], { list: [8, 9] }],
  empty: [ ],
  total: 5,
});

test("each list of a body is found, whatever the pieces are", async (t) => {
  const whole = JSON.parse(DOCUMENT);
  const lists = { "/_embedded/articles": whole._embedded.articles, "/_embedded/authors": whole._embedded.authors,
    "/a~1b~0": whole["a/b~"], "/a~1b~0/1": [[7]], "/a~1b~0/2/list": [8, 9], "/empty": [], "/_embedded/authors/0/articles": [0] };
  const bytes = Buffer.from(DOCUMENT);
  for (const [pointer, expected] of Object.entries(lists)) {
    assert.deepEqual(await read(t, bytes, pointer), { rows: expected }, pointer);
  }
  // Bytes are joined on their way, so the parser itself gets each piece.
  const { Elements } = await import("../dist/elements.js");
  for (const [pointer, expected] of Object.entries(lists)) {
    for (let size = 1; size < 8; size += 1) {
      const [elements, found] = [new Elements(pointer), []];
      for (let at = 0; at < DOCUMENT.length; at += size) {
        assert(!elements.isWhole);
        found.push(...elements.push(DOCUMENT.slice(at, at + size)));
      }
      assert.deepEqual([found, elements.isFound, elements.isWhole], [expected, true, true], `${pointer} in pieces of ${size}`);
    }
  }
});

test("the default body is a list itself, with blanks or without", async (t) => {
  for (const body of ['[{"id":1},{"id":2}]', ' [ {"id":1} ,\n{"id":2} ]\n']) {
    assert.deepEqual(await read(t, body, ""), { rows: [{ id: 1 }, { id: 2 }] });
  }
});

test("a body that's cut at any byte isn't whole", { skip: DROPS }, async (t) => {
  const all = JSON.parse(DOCUMENT)._embedded.articles;
  const bytes = Buffer.from(DOCUMENT);
  const cutAt = async (at, cut) => {
    const { rows, error } = await read(t, bytes.subarray(0, at), "/_embedded/articles", { cut });
    assert.equal(error?.name, "IncompleteStream", `${at}`);
    assert.deepEqual(rows, all.slice(0, error.rows), `${at}`);
  };
  for (let at = 1; at < bytes.length; at += 1) await cutAt(at, at % 2 === 0);
  // Nothing is missing after the last bracket.
  assert.deepEqual(await read(t, [bytes], "/_embedded/articles", { cut: true }).then(({ rows }) => rows), all);
});

test("a body that isn't JSON, or has no such list, is an error", async (t) => {
  for (const body of ['{"a":[1,}', '{"a":[1,2}', '{"a":[,1]}', '{"a":[1,]}', '{"a":[1],"b":[}}']) {
    assert.equal((await read(t, body, "/a")).error.name, "IncompleteStream", body);
  }
  assert.match((await read(t, '{"a":[1]}', "/b")).error.message, /no list at "\/b"/);
  assert.match((await read(t, '{"a":{"b":1}}', "/a")).error.message, /no list at/);
});

test("the depth is bounded", async (t) => {
  const nested = (depth) => "[".repeat(depth) + "]".repeat(depth);
  assert.equal((await read(t, nested(1000), "")).rows.length, 1);
  const { error } = await read(t, nested(1001), "");
  assert.match(error.message, /more than 1000 lists and objects/);
  assert.equal(error.name, "IncompleteStream");
});

test("a pointer without its slash is an error before the request", async (t) => {
  const server = await serve(t, (response) => response.end("[]"));
  await assert.rejects(stream(server.url).at("customers").next(), { name: "TypeError", message: /use "\/customers"/ });
  assert.equal(server.requests.length, 0);
});

test("a row is bounded", async () => {
  const { Elements } = await import("../dist/elements.js");
  const [elements, piece] = [new Elements(""), "x".repeat(1 << 20)];
  elements.push('["');
  assert.throws(() => {
    for (let size = 0; size < 200; size += 1) elements.push(piece);
  }, /a row is longer than 128 MiB/);
});

test("the server's reason is an error with its code", { skip: DROPS }, async (t) => {
  const server = await serve(t, (response) => problem(response, 503, { code: "pool_full", retry: true }));
  await assert.rejects(stream(server.url).at("").next(), { name: "RowstreamError", code: "pool_full" });
  assert.equal(server.requests[0].url.searchParams.get("_format"), "json");
  const reason = { error: { code: "bad_value", detail: "division by zero", retry: false } };
  const { error } = await read(t, '[{"id":1},', "", { cut: true, head: { "rowstream-stream": "abc" }, reason });
  assert.deepEqual([error.code, error.rows], ["bad_value", 1]);
});

test("break cancels the request", async (t) => {
  let closed;
  const server = await serve(t, async (response) => {
    closed = new Promise((resolve) => response.once("close", resolve));
    response.writeHead(200).write("[1");
    for (; !response.destroyed; await setTimeout(1)) response.write(",1");
  });
  for await (const _ of stream(server.url).at("")) break;
  await closed;
});

test("after an abort no row follows, and its reason is thrown", async (t) => {
  const server = await serve(t, (response) => response.end("[1,2,3]"));
  for (const last of [1, 3]) {
    const [abort, got] = [new AbortController(), []];
    await assert.rejects(async () => {
      for await (const row of stream(server.url, { signal: abort.signal }).at("")) {
        got.push(row);
        if (row === last) abort.abort(new Error("enough"));
      }
    }, /^Error: enough$/);
    assert.equal(got.at(-1), last);
  }
});
