import assert from "node:assert/strict";
import { createServer } from "node:http";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { types } from "../dist/types.js";
import { cli, compile, folder, skip, start } from "./program.mjs";

const REFERENCE = { $ref: "#/components/schemas/Row" };
const NULLABLE = (type, format) => ({ type: [type, "null"], format });
const endpoint = (schema, json, more) => ({
  get: { responses: { 200: { content: { "application/x-ndjson": { "x-itemSchema": schema }, ...(json && { "application/json": { schema: json } }) } } }, ...more },
});
const object = (properties, required = Object.keys(properties)) => ({ type: "object", required, properties });

/** The type of one value in a row, and in a body. */
function typeOf(schema) {
  const text = types({ paths: { "/a": endpoint(object({ a: schema }), object({ a: schema })) } });
  return text.match(/^ {2}a: .*(?:\n {3,}.*|\n {2}\}.*)*;$/gm).map((line) => line.slice(5, -1));
}

test("types are those of the client's values", () => {
  for (const [schema, row, body = row] of [
    [NULLABLE("integer", "int64"), "bigint | null", "string | null"],
    [{ type: ["string", "null"], pattern: "^-?[0-9]+$" }, "bigint | null", "string | null"],
    [NULLABLE("integer", "int32"), "number | null"],
    [{ type: "integer", minimum: 0 }, "number"],
    [NULLABLE("string", "decimal"), "string | null"],
    [{ anyOf: [{ type: "number", format: "decimal" }, { enum: ["NaN", "Infinity"] }, { type: "null" }] }, "string | null"],
    [{ anyOf: [{ type: "number", format: "double" }, { enum: ["NaN", "Infinity"] }, { type: "null" }] }, 'number | "NaN" | "Infinity" | null'],
    [NULLABLE("string", "date-time"), "string | null"],
    [{ type: ["string", "null"], pattern: "^\\\\x([0-9a-f]{2})*$" }, "string | null"],
    [NULLABLE("boolean"), "boolean | null"],
    [NULLABLE("array"), "unknown[] | null"],
    [{}, "unknown"],
    [{ type: "object" }, "Record<string, unknown>"],
    [{ type: "array", maxItems: 0 }, "[]"],
    [{ type: "array", prefixItems: [{ const: 1 }, { const: "x" }, { const: null }] }, '[1, "x", null]'],
    [{ type: "array", items: object({ n: NULLABLE("integer", "int64") }) }, "Array<{\n    n: bigint | null;\n  }>", "Array<{\n    n: string | null;\n  }>"],
  ]) {
    assert.deepEqual(typeOf(schema), [row, body], JSON.stringify(schema));
  }
});

test("a body that is only the rows has no type of its own", () => {
  const components = { schemas: { Row: object({ a: {} }), List: { type: "array", items: REFERENCE }, One: REFERENCE } };
  const body = (schema) => /body: (\w+)/.exec(types({ components, paths: { "/a": endpoint(REFERENCE, schema) } }))?.[1];
  assert.equal(body({ $ref: "#/components/schemas/List" }), undefined);
  assert.equal(body({ $ref: "#/components/schemas/One" }), undefined);
  assert.equal(body(object({ rows: REFERENCE })), "ABody");
});

test("names of paths become unique names of types, in a stable order", () => {
  const paths = ["/", "/2024", "/orders", "/orders/{id}", "/Orders", "/order-s", "/gr%C3%B6%C3%9Fe", "/%", "/a_b", "/__proto__"];
  const names = (all) => [...types({ paths: Object.fromEntries(all.map((path) => [path, endpoint({})])) }).matchAll(/^export type (\w+|.*?) =/gm)].map(([, name]) => name);
  const expected = ["RootRow", "Root_2Row", "_2024Row", "OrdersRow", "ProtoRow", "ABRow", "GrößeRow", "OrderSRow", "Orders_2Row", "OrdersByIdRow", "Paths"];
  assert.deepEqual(names(paths), expected);
  assert.deepEqual(names(paths.reverse()), expected);
});

test("no text of a document leaves its comment or its string", async (t) => {
  const texts = ["*/ evil: never; /*", '"; evil', "'", "`${evil}`", "\\", "\n evil", "\r", "\u2028evil", "\u202Eevil", "\uD800", "@ts-expect-error", "//", "__proto__", "constructor", "größe", "日本", "a b", ""];
  const properties = Object.fromEntries(texts.map((text) => [text, { enum: [text] }]));
  const parameters = texts.map((name) => ({ name, in: "query", description: name, schema: { enum: texts } }));
  const paths = texts.map((text) => [`/${text}`, endpoint(object(properties), undefined, { summary: text, parameters })]);
  const written = types({ paths: Object.fromEntries(paths) });
  const uses = texts.filter((text) => text !== "\uD800").map((text) => {
    const [path, name] = [JSON.stringify(`/${text}`), JSON.stringify(text)];
    return `{ const { row, params } = {} as Paths[${path}]; const value: ${name} = row[${name}]; void [value, params["*/ evil: never; /*"]]; }\n`;
  });
  assert.equal(await compile(t, written, `import type { Paths } from "./api.js";\n${uses.join("")}`), "");
  assert.match(await compile(t, written, 'import type { Paths } from "./api.js";\nconst row = {} as Paths["/"]["row"]; row.evil;'), /'evil' does not exist/);
});

test("documents that refer to themselves, or repeat, end", () => {
  const circle = { components: { schemas: { Row: object({ row: REFERENCE }) } }, paths: { "/a": endpoint(REFERENCE) } };
  assert.throws(() => types(circle), /use a token with fewer endpoints/);
  const self = { components: { schemas: { Row: REFERENCE } }, paths: { "/a": endpoint(REFERENCE) } };
  assert.throws(() => types(self), /use a token with fewer endpoints/);
  const wide = { components: { schemas: { Row: { anyOf: [REFERENCE, REFERENCE] } } }, paths: { "/a": endpoint(REFERENCE) } };
  assert.throws(() => types(wide), /use a token with fewer endpoints/);
  const missing = { paths: { "/a": endpoint(REFERENCE) } };
  assert.match(types(missing), /ARow = unknown;/);
});

test("a short document can't have endless types", () => {
  const long = "x".repeat(1 << 20);
  const repeated = Array.from({ length: 100 }, (_, at) => [`a${at}`, REFERENCE]);
  const rows = { components: { schemas: { Row: { enum: [long] } } }, paths: { "/a": endpoint(object(Object.fromEntries(repeated))) } };
  const parameters = [{ $ref: "#/components/parameters/Long" }];
  const paths = Object.fromEntries(repeated.map(([name]) => [`/${name}`, endpoint({}, undefined, { parameters })]));
  const descriptions = { components: { parameters: { Long: { name: "n", in: "query", description: long } } }, paths };
  for (const document of [rows, descriptions]) {
    assert.throws(() => types(document), { name: "RangeError", message: "the types have more than 67108864 characters; use a token with fewer endpoints" });
  }
});

test("a parameter has one type", async (t) => {
  const parameters = ["integer", "string"].map((type) => ({ name: "n", in: "query", required: true, schema: { type } }));
  const written = types({ paths: { "/a": endpoint({}, undefined, { parameters }) } });
  assert.equal(await compile(t, written, 'import type { Paths } from "./api.js";\n({ n: "1" }) satisfies Paths["/a"]["params"];'), "");
});

const HOSTILE = ['"*/ x"', '"a""b"', "[it's]", '"a\\b"', '"${x}"', '"line\nbreak"', '"\u2028"', '"__proto__"', '"class"', '"größe"', '"a-b"'];
const SQL = `create table orders (id integer primary key, status text, total decimal(10,2), placed timestamptz, weight double);
insert into orders values (1, 'PAID', 7.25, '2026-03-01 09:00:00', 1.5), (2, 'OPEN', 9.5, null, null);
create table hostile (id integer primary key, ${HOSTILE.map((name) => `${name} integer`)});
insert into hostile values (1, ${HOSTILE.map((_, at) => at)});
`;
const ENDPOINTS = {
  orders: `/*
summary = "*/"
key = ["id"]
filter = true
[params]
n = { type = "integer", default = 10, summary = "@ts-expect-error" }
state = { type = "text", enum = ["PAID", "it's \\"x\\""], optional = true }
since = { type = "timestamp" }
*/
select * from orders where (:state is null or status = :state) and placed is not :since limit :n`.replace('"*/"', '"* /"'),
  "orders/{id}": '/*\nbody = "$order"\n[params]\nid = "integer"\n*/\n-- name: order :one\nselect id, status from orders where id = :id',
  report: '/*\nbody = { kind = "a\\"*b", orders = "$orders", count = "$count(orders)", next = [1, true] }\n*/\n-- name: orders :many\nselect id, total from orders order by id',
  "2024": "select 1 as one",
  hostile: '/*\nkey = ["id"]\nfilter = true\n*/\nselect * from hostile',
};

const USES = `import { filter, order, rows, stream } from "rowstream";
import type { HostileRow, OrdersRow, Paths, ReportBody, _2024Row } from "./api.js";

const params = { since: "2026-03-01T09:00:00Z", n: 3n, state: "PAID" } satisfies Paths["/orders"]["params"];
for await (const row of rows<OrdersRow>("/orders", { params: { ...params, ...filter<OrdersRow>({ id: { gte: 1n } }), ...order<OrdersRow>("total.desc") } })) {
  const [id, total, placed]: [bigint | null, string | null, string | null] = [row.id, row.total, row.placed];
  const weight: number | "NaN" | "Infinity" | "-Infinity" | null = row.weight;
  void [id, total, placed, weight];
}
for await (const order of stream("/report").at<ReportBody["orders"][number]>("/orders")) {
  const [id, total]: [string | null, string | null] = [order.id, order.total];
  void [id, total];
}
const report = {} as Paths["/report"]["body"];
const [kind, next, count]: ['a"*b', [1, true], number] = [report.kind, report.next, report.count];
const one: Paths["/orders/{id}"]["row"] = { id: 1n, status: null };
const row = {} as HostileRow;
const values: (bigint | null)[] = [row["*/ x"], row['a"b'], row["it's"], row["a\\\\b"], row["\${x}"], row["line\\nbreak"], row["\\u2028"], row.class, row.größe, row["a-b"]];
const strange: HostileRow["__proto__"] = 1n;
const first = {} as _2024Row;
void [kind, next, count, one, values, strange, first.one, filter<HostileRow>({ "a-b": { in: [1n] }, "*/ x": { eq: 1n } })];

// @ts-expect-error
filter<OrdersRow>({ id: { eq: "1" } });
// @ts-expect-error
filter<OrdersRow>({ nope: { eq: 1n } });
// @ts-expect-error
filter<OrdersRow>({ weight: { like: "1%" } });
// @ts-expect-error
order<OrdersRow>("nope.desc");
// @ts-expect-error
({ since: "x", state: "OPEN" }) satisfies Paths["/orders"]["params"];
// @ts-expect-error
({ n: 3 }) satisfies Paths["/orders"]["params"];
// @ts-expect-error
const wrong: number = ({} as OrdersRow).id;
// @ts-expect-error
type None = Paths["/none"];
`;

test("a server's types compile and match its rows", { skip }, async (t) => {
  const url = await start(t, SQL, ENDPOINTS);
  const file = join(folder(t, {}), "api.ts");
  assert.deepEqual(await cli("types", url, "-o", file), { code: 0, stdout: "", stderr: "" });
  const written = readFileSync(file, "utf8");
  assert.equal(await compile(t, written, USES), "");

  assert.deepEqual(await cli("types", `${url}/_rowstream/openapi.json`), { code: 0, stdout: written, stderr: "" });
  // With this parameter, the document describes the client's own requests.
  assert.equal((await cli("types", `${url}/_rowstream/openapi.json?_numbers=string`)).stdout, written);
  const document = join(folder(t, { "openapi.json": await (await fetch(`${url}/_rowstream/openapi.json`)).text() }), "openapi.json");
  assert.equal((await cli("types", document)).stdout, written);

  assert.equal((await cli("types", url, "-o", file, "--check")).code, 0);
  writeFileSync(file, `${written} `);
  const { code, stderr } = await cli("types", url, "-o", file, "--check");
  assert.deepEqual([code, stderr], [1, `error: ${file} isn't up to date: run the command without --check\n`]);
});

test("errors of the command say the remedy", async (t) => {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push(request);
    if (request.url.startsWith("/long")) {
      const piece = Buffer.alloc(1 << 20, " ");
      const send = () => {
        while (!response.destroyed) if (!response.write(piece)) return response.once("drain", send);
      };
      return send();
    }
    if (request.headers.authorization === "Bearer secret") return response.end(JSON.stringify({ paths: { "/private": endpoint({}) } }));
    if (request.url.startsWith("/moved")) return response.writeHead(302, { location: "/" }).end();
    if (request.url.startsWith("/control")) return response.end("\x1b[2J\u202e\n");
    if (request.url.startsWith("/wide")) {
      const [text, reference] = ["x".repeat(1 << 20), { $ref: "#/text" }];
      return response.end(JSON.stringify({ text: { enum: [text] }, paths: { "/a": endpoint({ prefixItems: Array(100).fill(reference), type: "array" }) } }));
    }
    response.end(request.url.startsWith("/empty") ? '{"openapi":"3.1.0","paths":{}}' : "<html>");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = `http://127.0.0.1:${server.address().port}`;
  for (const [args, expected] of [
    [[], /write: rowstream types URL/],
    [["types"], /write: rowstream types URL/],
    [["types", url, "--nope"], /Unknown option '--nope'/],
    [["types", url, "--check"], /add -o FILE/],
    [["types", url], /use the server's address/],
    [["types", `${url}/empty`], /no endpoints, perhaps because it needs ROWSTREAM_TOKEN/],
    [["types", `${url}/moved`], /the status is 302; use the address of a running server/],
    [["types", `${url}/long`], /more than 67108864 bytes, so use a token with fewer endpoints/],
    [["types", `${url}/control`], /^error: [^\p{C}]*\\u\{1b\}\[2J\\u\{202e\}[^\p{C}]*; use the server's address\n$/u],
    [["types", `${url}/wide`], /^error: the types have more than 67108864 characters; use a token with fewer endpoints\n$/],
    [["types", "localhost:8080"], /begins with http:\/\//],
    [["types", "http://user:secret@localhost"], /^error: the URL has a user or a password: use ROWSTREAM_TOKEN instead\n$/],
  ]) {
    const { code, stdout, stderr } = await cli(...args);
    assert.deepEqual([code, stdout], [1, ""], args.join(" "));
    assert.match(stderr, expected);
  }
  assert.deepEqual(requests.map((request) => request.url), ["", "/empty", "/moved", "/long", "/control", "/wide"].map((path) => `${path}/_rowstream/openapi.json`));
  process.env.ROWSTREAM_TOKEN = "secret";
  assert.match((await cli("types", url)).stdout, /export type PrivateRow = unknown;/);
  delete process.env.ROWSTREAM_TOKEN;
  assert.match((await cli("--help")).stdout, /^Writes TypeScript types/);
});
