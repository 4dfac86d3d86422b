// Reads lists whose responses are damaged, and prints the rows of each run that were missing or
// repeated.

import { rows } from "rowstream";

async function read(base, run) {
  const seen = { run, rows: 0, lost: 0, doubled: 0, error: null };
  let last = 0;
  try {
    for await (const row of rows(`${base}/${run}/${run % PLAIN === 0 ? "plain" : "rows"}`)) {
      const id = Number(row.id);
      seen.rows += 1;
      if (id <= last) seen.doubled += 1;
      seen.lost += Math.max(0, id - last - 1);
      last = Math.max(last, id);
    }
    seen.lost += ROWS - last;
  } catch (error) {
    seen.error = error.code ?? error.name;
  }
  return JSON.stringify(seen);
}

async function readAll(base) {
  const lines = [];
  for (let run = 0; run < RUNS; run++) lines.push(await read(base, run));
  return lines.join("\n");
}

console.log((await Promise.all(BASES.map(readAll))).join("\n\n"));
