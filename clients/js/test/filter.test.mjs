import assert from "node:assert/strict";
import test from "node:test";
import { and, escapeLike, filter, not, or, order, rows } from "rowstream";
import { skip, start } from "./program.mjs";

test("conditions are in the brackets of one parameter", () => {
  for (const [conditions, expected] of [
    [[{ a: { eq: 1 } }], "(a.eq.1)"],
    [[{ a: { gt: 1n, lte: 9007199254740993n } }, { b: { is: null } }], "(a.gt.1,a.lte.9007199254740993,b.is.null)"],
    [[{ a: { in: [] }, b: { in: [1, "x,y"] } }], '(a.in.(),b.in.(1,"x,y"))'],
    [[{ a: { is: true }, b: { is: "not_null" }, c: { eq: false } }], "(a.is.true,b.is.not_null,c.eq.false)"],
    [[{ a: { is: "null,b.eq.1" } }], '(a.is."null,b.eq.1")'],
    [[{ 'a"b\\c': { eq: '"\\' } }], '("a\\"b\\\\c".eq."\\"\\\\")'],
    [[{ a: { eq: "" }, and: { eq: "null" } }], '(a.eq."",and.eq.null)'],
    [[{ a: { eq: new Date(Date.UTC(2026, 2, 1, 10)), lt: new Date(250) } }], '(a.eq."2026-03-01T10:00:00.000Z",a.lt."1970-01-01T00:00:00.250Z")'],
    [[or({ a: { eq: 1 } }, { b: { eq: 2 }, c: { eq: 3 } })], "(or(a.eq.1,and(b.eq.2,c.eq.3)))"],
    [[not({ a: { eq: 1 } }), not(not({ a: { eq: 1 } })), not(or({ b: { eq: 2 } }, and({ c: { eq: 3 } })))], "(not.and(a.eq.1),not.and(not.and(a.eq.1)),not.or(b.eq.2,and(c.eq.3)))"],
  ]) {
    assert.equal(filter(...conditions).and, expected);
  }
  assert.deepEqual(order("total.desc.nullslast", "id"), { order: "total.desc.nullslast,id" });
  assert.equal(escapeLike("100%_*\\a"), "100\\%\\_\\*\\\\a");
});

// If they were left out, more rows would match.
test("values and conditions that are missing are errors", () => {
  const missing = undefined;
  for (const [write, message] of [
    [() => filter(), /^filter\(\) has no condition: add one, or leave it out/],
    [() => or(), /^or\(\) has no condition/],
    [() => filter(missing), /^a condition needs a plain object with columns: write \{ column: \{ eq: value \} \}/],
    [() => filter({ a: { eq: 1 } }, {}), /^a condition needs/],
    [() => or({ a: { eq: 1 } }, {}), /^a condition needs/],
    [() => not({ a: {} }), /^a needs a plain object with comparisons: write \{ a: \{ eq: value \} \}, or leave it out/],
    [() => filter({ a: { ...(missing !== undefined && { eq: missing }) } }), /^a needs/],
    [() => filter({ a: { eq: 1 }, b: {} }), /^b needs/],
    [() => filter({ a: { eq: undefined } }), /^a can't be compared with undefined: leave/],
    [() => filter({ a: { neq: null } }), /^a can't be compared with null: .* write \{ is: null \}/],
    [() => filter({ a: { in: [1, undefined] } }), /^a can't be compared with undefined/],
    [() => filter({ a: { in: ["x", , "y"] } }), /^a can't be compared with undefined/],
    [() => filter({ a: { in: new Array(2) } }), /^a can't be compared with undefined/],
    [() => filter({ a: { in: "ab" } }), /^a needs an array after in: write \{ in: \[value\] \}/],
    [() => filter({ a: { is: undefined } }), /^a can't be compared with undefined/],
    [() => filter({ a: { eq: { neq: 1 } } }), /^a can't be compared with object/],
    [() => filter({ a: { gt: NaN } }), /^a can't be compared with NaN: check the number, or write "NaN"/],
    [() => filter({ a: { in: [1, NaN] } }), /^a can't be compared with NaN/],
    [() => filter({ a: { lt: new Date("x") } }), /^a can't be compared with an invalid date: check the date/],
    [() => filter({ "": { eq: 1 } }), /name of a column is empty/],
    [() => order(), /^order\(\) has no column: write order\("id"\), or leave it out/],
    [() => order(""), /^order\(\) has no column/],
    [() => order("id", ""), /^order\(\) has no column/],
    [() => order(["id"]), /^order\(\) has no column/],
    [() => order("a,b"), /has a comma/],
  ]) {
    assert.throws(write, { name: "TypeError", message }, String(write));
  }
});

// Columns and comparisons in other objects would be lost.
test("only plain objects are conditions", () => {
  class Comparison {
    get eq() {
      return 5;
    }
  }
  const hidden = Object.defineProperty({ eq: 5 }, "gt", { value: 1, enumerable: false });
  const others = ["", "PAID", 5, 0, false, true, null, undefined, [], [{ eq: 5 }], new Map([["eq", 5]]), new Set(["eq"]), new Date(), /eq/, () => 5, new Comparison(), Object.create({ eq: 5 }), { __proto__: { eq: 1 } }, { [Symbol("eq")]: 5 }, { eq: 5, [Symbol("gt")]: 5 }, hidden];
  for (const other of others) {
    assert.throws(() => filter({ a: other }), { name: "TypeError", message: /^a needs a plain object with comparisons/ });
    assert.throws(() => filter(other), { name: "TypeError", message: /^a condition needs a plain object with columns/ });
  }
  assert.throws(() => filter({ a: or({ b: { eq: 1 } }) }), { name: "TypeError", message: /^a needs/ });
  const bare = Object.assign(Object.create(null), { eq: 5 });
  assert.equal(filter(Object.assign(Object.create(null), { a: bare })).and, "(a.eq.5)");
});

test("only the operators of the server are written", () => {
  for (const operator of ["eq.1,id.gt.0,id.eq", "not", "not.eq", "EQ", "", "toString", "fts", "eq "]) {
    assert.throws(() => filter({ a: { [operator]: 1 } }), { name: "TypeError", message: /isn't an operator: use not\(\), or one of eq, neq, .*, ov$/ });
  }
  for (const operator of ["eq", "neq", "gt", "gte", "lt", "lte", "is", "like", "ilike", "match", "imatch", "cs", "cd", "ov"]) {
    assert.equal(filter({ a: { [operator]: "b" } }).and, `(a.${operator}.b)`);
  }
});

// In a URL it'd be another character.
test("half of a character is an error", () => {
  for (const write of [
    (text) => filter({ a: { eq: text } }),
    (text) => filter({ a: { in: ["b", text] } }),
    (text) => filter({ [text]: { eq: 1 } }),
    (text) => order(`${text}.desc`),
  ]) {
    for (const text of ["\uD83D", "a\uDE00", "\uDE00\uD83D"]) {
      assert.throws(() => write(text), { name: "TypeError", message: /^".*\\ud.*" has half of a character: cut texts between characters$/ });
    }
    write("😀");
  }
});

const TEXTS = ["", " ", "a", "A", "a,b", "a)b", "(a", 'a"b', '"a"', "a\\b", "\\", "%", "a%b", "_", "a_b", "*", "{a,b}", "{", "null", "not.eq.1", "a.eq.1", "größe", "日本", "😀", "a&b=c", "a+b", "a'b", "--", "line\nbreak", "\t"];
const NAMES = ["name", "order", "limit", "and", "not", "or", "_first", "a,b", "c(d)", 'e"f', "g\\h", "i.j", "größe", " blank ", "k'l", "in.(1)", "__proto__"];
const DECIMALS = ["-1.5", "0", "7.25", "1000000.01"];
const TIMES = ["2026-03-01T09:00:00Z", "2026-03-01T09:00:00.25Z", "1999-12-31T23:59:59Z"];

/** Each text is in each column with a name, in another row. Each twelfth value is NULL. */
function data() {
  return Array.from({ length: 60 }, (_, at) => ({
    id: BigInt(at) + 9007199254740990n,
    flag: at % 5 === 0 ? null : at % 2 === 0,
    total: at % 7 === 0 ? null : DECIMALS[at % DECIMALS.length],
    at: at % 11 === 0 ? null : TIMES[at % TIMES.length],
    ...Object.fromEntries(NAMES.map((name, column) => [name, (at + column) % 12 === 11 ? null : TEXTS[(at * 7 + column) % TEXTS.length]])),
  }));
}

const sqlName = (name) => `"${name.replaceAll('"', '""')}"`;
const sqlValue = (value) => {
  // The server writes times for SQLite like this.
  if (TIMES.includes(value)) return `'${value.replace("T", " ").replace("Z", "").replace(".25", ".250000")}'`;
  if (typeof value === "string") return `'${value.replaceAll("'", "''")}'`;
  return value === null ? "null" : String(value);
};

function sql(all) {
  const types = NAMES.map((name) => `${sqlName(name)} text`);
  const values = all.map((row) => `(${Object.values(row).map(sqlValue)})`);
  return `create table odd (id integer primary key, flag boolean, total decimal(12,2), at timestamptz, ${types});\ninsert into odd values ${values};\n`;
}

const compare = (a, b) => (typeof a === "string" ? Buffer.compare(Buffer.from(a), Buffer.from(b)) : a < b ? -1 : Number(a > b));
const isLike = (text, pattern, flags) => {
  const tokens = pattern.match(/\\.|[^\\]/gsu).map((token) => {
    if (token === "%" || token === "*") return ".*";
    return token === "_" ? "." : token.replace(/^\\/, "").replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  });
  return new RegExp(`^${tokens.join("")}$`, `su${flags}`).test(text);
};
const TESTS = {
  eq: (value, other) => compare(value, other) === 0,
  neq: (value, other) => compare(value, other) !== 0,
  gt: (value, other) => compare(value, other) > 0,
  gte: (value, other) => compare(value, other) >= 0,
  lt: (value, other) => compare(value, other) < 0,
  lte: (value, other) => compare(value, other) <= 0,
  in: (value, list) => list.some((other) => compare(value, other) === 0),
  like: (value, pattern) => isLike(value, pattern, ""),
  ilike: (value, pattern) => isLike(value, pattern, "i"),
};

/** Three-valued logic. A condition is `[column, operator, value]`, or `[or | and | not, ...conditions]`. */
function evaluate([word, ...rest], row) {
  if (!Array.isArray(rest[0])) {
    const [operator, other] = rest;
    const key = (value) => (value === null ? null : word === "total" ? Number(value) : word === "at" ? Date.parse(value) : value);
    const value = key(row[word]);
    if (operator === "is") return other === "not_null" ? value !== null : value === other;
    if (value === null) return null;
    return TESTS[operator](value, Array.isArray(other) ? other.map(key) : other instanceof Date ? Number(other) : key(other));
  }
  const found = rest.map((condition) => evaluate(condition, row));
  if (word === "not") return found[0] === null ? null : !found[0];
  const decisive = word === "or";
  return found.includes(decisive) ? decisive : found.includes(null) ? null : !decisive;
}

function build([word, ...rest]) {
  if (!Array.isArray(rest[0])) return Object.fromEntries([[word, { [rest[0]]: rest[1] }]]);
  return { or, and, not }[word](...rest.map(build));
}

test("the server returns the rows that meet the conditions", { skip }, async (t) => {
  const all = data();
  const url = `${await start(t, sql(all), { odd: '/*\nkey = ["id"]\nfilter = true\nsort = true\n*/\nselect * from odd order by id' })}/odd`;
  assert.deepEqual(await rows(url).collect(), all);

  const conditions = [];
  for (const name of NAMES) {
    for (const text of TEXTS) conditions.push([name, "eq", text]);
    conditions.push([name, "is", null], [name, "is", "not_null"], ["not", [name, "in", TEXTS.slice(3, 12)]]);
  }
  for (const text of TEXTS) {
    for (const operator of ["neq", "gt", "gte", "lt", "lte"]) conditions.push(["name", operator, text]);
    const part = escapeLike(text);
    for (const pattern of [part, `${part}%`, `%${part}%`, `_${part}*`]) {
      if (pattern !== "") conditions.push(["order", "like", pattern], ["order", "ilike", pattern]);
    }
  }
  for (const operator of ["eq", "gt", "lte"]) {
    conditions.push(["id", operator, all[17].id], ["flag", operator, true]);
    for (const value of DECIMALS) conditions.push(["total", operator, value]);
    for (const value of TIMES) conditions.push(["at", operator, value], ["at", operator, new Date(value)]);
  }
  conditions.push(["id", "in", [all[3].id, 5n, all[59].id]], ["id", "in", []], ["flag", "is", true], ["flag", "is", false]);
  // Groups of the conditions before them.
  const single = conditions.length;
  for (let at = 0; at < 150; at += 1) {
    const [a, b, c, d] = [1, 3, 7, 13].map((step) => conditions[(at * 31 + step * 101) % single]);
    conditions.push([["or", a, b, c], ["and", ["not", a], ["or", b, ["not", ["and", c, d]]]], ["not", ["or", a, ["and", b, c]]]][at % 3]);
  }

  let matched = 0;
  for (const condition of conditions) {
    const expected = all.filter((row) => evaluate(condition, row) === true);
    const found = await rows(url, { params: filter(build(condition)) }).collect();
    assert.deepEqual(found.map(({ id }) => id), expected.map(({ id }) => id), JSON.stringify(condition, (_, value) => (typeof value === "bigint" ? String(value) : value)));
    matched += found.length;
  }
  assert(matched > conditions.length, `${matched} rows of ${conditions.length} conditions`);

  const several = await rows(url, { params: filter({ id: { gte: all[5].id, lt: all[9].id } }, { name: { is: "not_null" } }) }).collect();
  assert.deepEqual(several, all.slice(5, 9).filter(({ name }) => name !== null));
  const sorted = await rows(url, { params: { ...filter({ order: { is: "not_null" } }), ...order("order.desc", "i.j.asc.nullslast") } }).collect();
  const texts = all.map((row) => row.order).filter((text) => text !== null).sort(compare).reverse();
  assert.deepEqual(sorted.map((row) => row.order), texts);
});
