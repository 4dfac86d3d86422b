#!/usr/bin/env node
// Runs the program, which is in a package for this system. Signals and the exit status pass through.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { constants } from "node:os";

const require = createRequire(import.meta.url);
const FORWARDED = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2"];
/**
 * A terminal sends these to each process in its foreground. There, one that was sent to the wrapper alone
 * looks the same, so the program doesn't get it.
 */
const FROM_TERMINAL = ["SIGINT", "SIGQUIT"];

function fail(message) {
  process.stderr.write(`error: ${message}\n`);
  process.exit(1);
}

/** The path of the program. */
function program() {
  const name = `@rowstream/server-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${name}/rowstream-server`);
  } catch {
    const { optionalDependencies: packages } = require("./package.json");
    if (name in packages) fail(`the package ${name} is missing: install rowstream-server again, with its optional dependencies`);
    fail(
      `rowstream-server has programs for Linux on x64 and arm64, but this is ${process.platform} on ${process.arch}.\n` +
        "Run it in a container with Linux. For another processor, build it in a clone of Rowstream's repository: " +
        "cargo install --path .",
    );
  }
}

/** Returns true if this process and the program are in the foreground of a terminal. */
function isInForeground() {
  const stat = readFileSync("/proc/self/stat", "utf8");
  // A name in parentheses precedes these fields.
  const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return group === foreground;
}

function forward(signal) {
  // The program has this Ctrl-C already. A second one would abort the streams that it drains.
  if (FROM_TERMINAL.includes(signal) && isInForeground()) return;
  child.kill(signal);
}

const path = program();
for (const signal of FORWARDED) process.on(signal, forward);
const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
child.on("error", (error) => fail(`can't start ${path}: ${error.message}`));
child.on("exit", (status, signal) => {
  if (signal === null) process.exit(status);
  // Node ignores some signals, such as SIGPIPE and SIGXFSZ. They would end as a success.
  process.exitCode = 128 + constants.signals[signal];
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
