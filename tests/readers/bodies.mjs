// Reads the bodies of a list of jobs, all at once, and tells how each of them ended, as this client sees it: HTTP/1.1 by fetch, HTTP/2 by
// node:http2. A job is {"url": …, "h2": …}; the list comes on stdin, and what is told goes to stdout.
import fs from 'node:fs';
import http2 from 'node:http2';

const TAIL = 400;

/** What is told of a body. */
class Body {
  constructor() {
    this.bytes = 0;
    this.tail = Buffer.alloc(0);
  }
  add(chunk) {
    this.bytes += chunk.length;
    this.tail = Buffer.concat([this.tail, chunk]).subarray(-TAIL);
  }
  told(clean, headers) {
    const tail = this.tail.toString('base64');
    return { clean, bytes: this.bytes, tail, tag: headers['rowstream-tag'] ?? '', stream: headers['rowstream-stream'] ?? '' };
  }
}

async function byFetch(url) {
  const body = new Body();
  let headers = {};
  try {
    const response = await fetch(url);
    headers = Object.fromEntries(response.headers);
    for await (const chunk of response.body) body.add(Buffer.from(chunk));
    // A proxy may answer for a server that is gone.
    return body.told(response.ok, headers);
  } catch {
    return body.told(false, headers);
  }
}

function byHttp2(url) {
  const body = new Body();
  let headers = {};
  const { origin, pathname, search } = new URL(url);
  const { promise, resolve } = Promise.withResolvers?.() ?? withResolvers();
  const session = http2.connect(origin);
  const end = (clean) => {
    resolve(body.told(clean, headers));
    session.destroy();
  };
  session.on('error', () => end(false));
  session.on('close', () => end(false));
  const request = session.request({ ':path': pathname + search });
  request.on('response', (fields) => { headers = fields; });
  request.on('data', (chunk) => body.add(chunk));
  request.on('error', () => end(false));
  request.on('aborted', () => end(false));
  // Whoever waits for the end alone sees one whenever the stream is over: nothing is `aborted` once the request has been sent.
  request.on('end', () => end(!request.aborted && headers[':status'] === 200));
  return promise;
}

function withResolvers() {
  const made = {};
  made.promise = new Promise((resolve) => { made.resolve = resolve; });
  return made;
}

const jobs = JSON.parse(fs.readFileSync(0, 'utf8'));
const told = await Promise.all(jobs.map((job) => (job.h2 ? byHttp2(job.url) : byFetch(job.url))));
fs.writeSync(1, JSON.stringify(told));
process.exit(0);
