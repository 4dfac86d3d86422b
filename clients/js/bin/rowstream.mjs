#!/usr/bin/env node
// The command line of the package: `rowstream types`.

import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { escaped, types } from "../dist/types.js";

const USAGE = `Writes TypeScript types of a server's endpoints

Usage: rowstream types URL [-o FILE] [--check]

URL is the server's address, or that of its OpenAPI document, or a file with the document. The
variable ROWSTREAM_TOKEN is sent as the bearer token. The types are of endpoints that it may call.

  -o, --output FILE  Write to this file instead of the standard output
      --check        Write nothing, and fail if FILE isn't up to date
  -h, --help         Print this help
`;

/** The longest document in bytes, and the longest wait for it in milliseconds. */
const [MOST_BYTES, PATIENCE] = [64 << 20, 60_000];

/** A wrong command line. The usage follows the message. */
class UsageError extends Error {}

async function main() {
  const { values, positionals } = read();
  if (values.help) return process.stdout.write(USAGE);
  const [command, source, ...others] = positionals;
  if (command !== "types" || !source || others.length > 0) throw new UsageError("write: rowstream types URL");
  if (values.check && !values.output) throw new Error("--check needs a file: add -o FILE");
  const written = convert(await load(source), source);
  if (!values.output) process.stdout.write(written);
  else if (!values.check) await writeFile(values.output, written);
  else if ((await readFile(values.output, "utf8").catch(() => undefined)) !== written) {
    throw new Error(`${values.output} isn't up to date: run the command without --check`);
  }
}

function read() {
  const options = { output: { type: "string", short: "o" }, check: { type: "boolean" }, help: { type: "boolean", short: "h" } };
  try {
    return parseArgs({ options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error.message);
  }
}

/** The types of the document in these bytes. */
function convert(bytes, source) {
  try {
    const document = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    if (Object.keys(document.paths ?? {}).length === 0) throw new Error("it has no endpoints, perhaps because it needs ROWSTREAM_TOKEN");
    return types(document);
  } catch (error) {
    // The document is too large.
    if (error instanceof RangeError) throw error;
    throw new Error(`${source} has no OpenAPI document of Rowstream: ${error.message}; use the server's address`);
  }
}

/** The bytes of a file, or at a URL. */
async function load(source) {
  // Messages contain the URL.
  if (/^https?:[^?#]*@/i.test(source)) throw new Error("the URL has a user or a password: use ROWSTREAM_TOKEN instead");
  try {
    return await (/^https?:/i.test(source) ? download(new URL(source)) : readFile(source));
  } catch (error) {
    const reason = error.cause?.message || error.cause?.code || error.message;
    throw new Error(`can't read ${source}: ${reason}; use the address of a running server, which begins with http:// or https://`);
  }
}

async function download(url) {
  if (!url.pathname.endsWith(".json")) url.pathname = `${url.pathname.replace(/\/+$/, "")}/_rowstream/openapi.json`;
  const { ROWSTREAM_TOKEN: token } = process.env;
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  // A redirect could send the token to another origin.
  const { status, body } = await fetch(url, { headers, redirect: "manual", signal: AbortSignal.timeout(PATIENCE) });
  if (status !== 200) throw new Error(`the status is ${status}`);
  const pieces = [];
  let length = 0;
  for await (const piece of body) {
    length += piece.length;
    if (length > MOST_BYTES) throw new Error(`it has more than ${MOST_BYTES} bytes, so use a token with fewer endpoints`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

try {
  await main();
} catch (error) {
  // Servers and documents could control the terminal.
  process.stderr.write(`error: ${escaped(error.message)}\n${error instanceof UsageError ? `\n${USAGE}` : ""}`);
  process.exitCode = 1;
}
