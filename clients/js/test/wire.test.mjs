// The scripts of `testdata/wire` certify the client. `cargo xtask wire` plays them; ROWSTREAM_WIRE is
// the address that it prints.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";
import { IncompleteStream, RowstreamError, rows } from "rowstream";

const peer = process.env.ROWSTREAM_WIRE;
const folder = process.env.ROWSTREAM_WIRE_SCRIPTS ?? fileURLToPath(new URL("../../../testdata/wire", import.meta.url));

const scripts = readdirSync(folder)
  .filter((name) => /^ndjson.*\.json$/.test(name))
  .map((name) => JSON.parse(readFileSync(join(folder, name), "utf8")));

async function read(url) {
  const report = { outcome: "complete", rows: [] };
  try {
    for await (const row of rows(url)) report.rows.push(row);
  } catch (error) {
    report.outcome = error instanceof RowstreamError ? "error" : "incomplete";
    report.code = error.code;
    assert(error instanceof RowstreamError || error instanceof IncompleteStream, error);
    assert.equal(error.rows, report.rows.length);
  }
  // The scripts' numbers are small.
  report.rows = JSON.parse(JSON.stringify(report.rows, (_, value) => (typeof value === "bigint" ? Number(value) : value)));
  return report;
}

function check({ outcome, code, rows: expected }, report) {
  assert.deepEqual([report.outcome, report.code], [outcome, code]);
  if (!Array.isArray(expected)) {
    const lines = report.rows.map((row) => `${JSON.stringify(row)}\n`).join("");
    const sha256 = createHash("sha256").update(lines).digest("hex");
    assert.deepEqual({ count: report.rows.length, sha256 }, expected);
  } else {
    const most = outcome === "complete" ? expected.length : report.rows.length;
    assert.deepEqual(report.rows, expected.slice(0, most));
  }
}

test("scripts", { skip: peer ? false : "set ROWSTREAM_WIRE to the peer's address", concurrency: true }, async (t) => {
  assert(scripts.length >= 50, `${scripts.length} scripts`);
  await Promise.all(scripts.map((script) => t.test(`${script.name}: ${script.story}`, async () => {
    const report = await read(`${peer}/${script.name}${script.start}`);
    const seen = (await (await fetch(`${peer}/_results`)).json())[script.name];
    assert.deepEqual(seen.mismatches, []);
    assert.equal(seen.requests.length, script.expect.requests, seen.requests);
    check(script.expect, report);
  })));
});

test("the package has the licenses of the repository", () => {
  const { files } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert(files.includes("LICENSE-*"));
  for (const name of ["LICENSE-APACHE", "LICENSE-MIT"]) {
    const own = readFileSync(new URL(`../${name}`, import.meta.url), "utf8");
    assert.equal(own, readFileSync(join(folder, "../..", name), "utf8"));
  }
});
