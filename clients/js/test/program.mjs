// The real server, and the compiler.
import { execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The server's program. Tests that need it are left out without this variable. */
const PROGRAM = process.env.ROWSTREAM_BIN;
export const skip = PROGRAM ? false : "ROWSTREAM_BIN has no path of the server's program";

/** A folder with these files. */
export function folder(t, files) {
  const path = mkdtempSync(join(tmpdir(), "rowstream-"));
  t.after(() => rmSync(path, { recursive: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}

/** Starts the server with a new SQLite database and these endpoints. Returns its URL. */
export async function start(t, sql, endpoints) {
  const config = 'listen = "127.0.0.1:0"\nendpoints = "endpoints"\n[source.db]\nurl = "sqlite:data.db"\ncreate = ["data.sql"]\n';
  const files = Object.entries(endpoints).map(([path, text]) => [`endpoints/${path}.sql`, text]);
  const path = folder(t, { "rowstream.toml": config, "data.sql": sql, ...Object.fromEntries(files) });
  const server = spawn(PROGRAM, ["serve"], { cwd: path, stdio: ["ignore", "pipe", "pipe"] });
  const ended = new Promise((resolve) => server.once("close", resolve));
  t.after(async () => {
    server.kill();
    await ended;
  });
  let said = "";
  for (const stream of [server.stdout, server.stderr]) stream.on("data", (bytes) => (said += bytes));
  const listening = new Promise((resolve) => {
    for (const stream of [server.stdout, server.stderr]) {
      createInterface(stream).on("line", (line) => {
        const url = /listening on (http:\S+)/.exec(line)?.[1];
        if (url) resolve(url);
      });
    }
  });
  const failed = ended.then(() => {
    throw new Error(said);
  });
  return Promise.race([listening, failed]);
}

/** Runs a program of Node until it ends. */
export function node(...args) {
  return new Promise((resolve) => {
    execFile(process.execPath, args, (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }));
  });
}

/** Runs the package's command line. */
export const cli = (...args) => node(fileURLToPath(new URL("../bin/rowstream.mjs", import.meta.url)), ...args);

/** Checks a TypeScript module that imports `./api.js`, the module with these types, and `rowstream`. */
export async function compile(t, types, text) {
  const path = folder(t, { "api.ts": types, "main.ts": text });
  const compiler = createRequire(import.meta.url).resolve("typescript/bin/tsc");
  const source = fileURLToPath(new URL("../dist/index.d.ts", import.meta.url));
  const options = { strict: true, noEmit: true, target: "es2022", module: "esnext", moduleResolution: "bundler", types: [] };
  const config = { compilerOptions: { ...options, paths: { rowstream: [source] } }, files: ["main.ts"] };
  writeFileSync(join(path, "tsconfig.json"), JSON.stringify(config));
  return (await node(compiler, "--project", path)).stdout;
}
