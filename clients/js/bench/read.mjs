// Compares this client with a loop over JSON.parse that checks nothing: `node bench/read.mjs [ROWS]`.
// A process serves a recorded answer with marks; another one reads it, a few times each way.
import { fork } from "node:child_process";
import { createServer } from "node:http";
import { rows } from "rowstream";

const TAG = "5f0c9a7e31b84d2296e0c1d7a4b8f365";
const count = Number(process.argv[2] ?? 1_000_000);
const record = (kind) => `{"$rowstream":"${TAG}",${kind.slice(1, -1)}}\n`;

function thousand(from) {
  let text = "";
  for (let id = from; id < from + 1000; id += 1) {
    text += `{"id":"${9_007_199_254_740_993n + BigInt(id)}","customer":"customer ${id}","status":"SENT",`
      + `"quantity":${id % 100},"total":"${id % 1000}.95","placed":"2026-03-01T09:12:30Z"}\n`;
  }
  return Buffer.from(text + record(`{"mark":{"rows":${from + 1000},"next":"cursor-${from + 1000}"}}`));
}

async function serve() {
  const columns = [["id", "int64"], ["customer", "string"], ["status", "string"], ["quantity", "int32"],
    ["total", "decimal"], ["placed", "date-time"]].map(([name, type]) => ({ name, type }));
  const blocks = Array.from({ length: count / 1000 }, (_, at) => thousand(at * 1000));
  const server = createServer(async (_, response) => {
    response.writeHead(200, { "rowstream-tag": TAG, "rowstream-wire": "1", "rowstream-resume": "marks", "rowstream-heartbeat": "15" });
    response.write(record(JSON.stringify({ columns })));
    for (const block of blocks) {
      if (!response.write(block)) await new Promise((resolve) => response.once("drain", resolve));
    }
    response.end(record(JSON.stringify({ end: { rows: count } })));
  });
  server.listen(0, "127.0.0.1", () => process.send(server.address().port));
}

const ways = {
  async "JSON.parse, unchecked"(url) {
    const decoder = new TextDecoder();
    let [rest, total] = ["", 0];
    for await (const bytes of (await fetch(url)).body) {
      const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) if (JSON.parse(line).id !== undefined) total += 1;
    }
    return total;
  },
  async "rows()"(url) {
    let total = 0;
    for await (const row of rows(url)) if (row.id !== undefined) total += 1;
    return total;
  },
  async "rows().batches()"(url) {
    let total = 0;
    for await (const batch of rows(url).batches()) for (const row of batch) if (row.id !== undefined) total += 1;
    return total;
  },
  async "rows() with int64 as text"(url) {
    let total = 0;
    for await (const row of rows(url, { convert: { int64: String } })) if (row.id !== undefined) total += 1;
    return total;
  },
};

if (process.env.BENCH_SERVER) await serve();
else {
  const server = fork(import.meta.filename ?? new URL(import.meta.url).pathname, [count], { env: { ...process.env, BENCH_SERVER: "1" } });
  const port = await new Promise((resolve) => server.once("message", resolve));
  for (let turn = 0; turn < 3; turn += 1) {
    for (const [name, read] of Object.entries(ways)) {
      let most = 0;
      const watch = setInterval(() => (most = Math.max(most, process.memoryUsage().rss)), 100);
      const [started, cpu] = [performance.now(), process.cpuUsage()];
      const total = await read(`http://127.0.0.1:${port}/orders`);
      const seconds = (performance.now() - started) / 1000;
      const { user, system } = process.cpuUsage(cpu);
      clearInterval(watch);
      if (total !== count) throw new Error(`${name}: ${total} rows`);
      console.log(`${name}: ${Math.round(count / seconds)} rows/s, ${((user + system) / 1e6).toFixed(2)} s of CPU, ${most >> 20} MiB`);
    }
  }
  server.kill();
}
