// The real server.
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

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
