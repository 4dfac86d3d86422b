// A server that plays one function per request, and notes the requests.
import { createServer } from "node:http";

export const TAG = "5f0c9a7e31b84d2296e0c1d7a4b8f365";

export const HEAD = {
  "rowstream-tag": TAG,
  "rowstream-wire": "1",
  "rowstream-resume": "marks",
  "rowstream-heartbeat": "15",
};

/** The reason to skip a test that needs bytes right before a cut. Node hands them over, too. */
export const DROPS = process.versions.bun ? "Bun drops bytes that weren't read before an abort" : false;

/** A record as a line, or as the data of an event. */
export const record = (kind) => `{"$rowstream":"${TAG}",${JSON.stringify(kind).slice(1, -1)}}`;
export const columns = (types) => ({ columns: Object.entries(types).map(([name, type]) => ({ name, type })) });

/** The lines of rows and records. */
export const lines = (...all) => all.map((line) => `${typeof line === "string" ? line : JSON.stringify(line)}\n`).join("");

export function problem(response, status, members) {
  response.writeHead(status, { "content-type": "application/problem+json" });
  response.end(JSON.stringify({ status, ...members }));
}

/** Starts a server. The last step plays all further requests. */
export async function serve(t, ...steps) {
  const requests = [];
  const server = createServer((request, response) => {
    requests.push({ url: new URL(request.url, "http://server"), headers: request.headers });
    steps[Math.min(requests.length, steps.length) - 1](response, requests.at(-1).url);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}/orders`, requests };
}

/** A step that sends this body, and then ends the response or cuts it. */
export const answer = (body, { head = {}, cut = false } = {}) => (response) => {
  response.writeHead(200, { ...HEAD, ...head });
  if (cut) response.write(body, () => response.socket.destroy());
  else response.end(body);
};
