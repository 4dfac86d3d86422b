// One run of an endpoint: its rows, which the JavaScript client reads, or its text as it comes, and what
// proves that it is whole.

import { Cut } from "../../clients/js/src/errors.js";
import { IncompleteStream, RowstreamError, follow, rows } from "../../clients/js/src/index.js";
import { type RequestOptions, Requests } from "../../clients/js/src/request.js";
import { Proof } from "./proof.js";
import { Rows } from "./rows.js";
import { ADMIN, type Problem, problemOf, request } from "./server.js";

export type State =
  | "waiting" // for the head
  | "running"
  | "complete" // and proved to be
  | "unproved" // it has ended, and nothing tells whether that was its end
  | "truncated"
  | "failed"
  | "cancelled";

/** How the server says that a stream goes. */
export interface Report {
  state: string;
  rows: number;
  bytes: number;
  ms?: Record<string, number>;
  error?: Problem;
}

/** Formats with a record at the end, by which the answer proves itself. */
export const FRAMED = ["ndjson", "sse", "json-seq"];
/** In UTF-16 units: what is shown of an answer that is no rows. */
const PREVIEW = 100_000;
/** How long rows are read before the page gets a turn, in milliseconds. */
const TURN = 30;

/** Formats that are shown as text, whose records prove the end. */
export type FramedText = "sse" | "json-seq";

export interface Asked {
  url: URL;
  headers: Record<string, string>;
  /**
   * As rows, as rows without an end, as text with records of this format, as text that has none, or as bytes that
   * aren't shown.
   */
  reads: "rows" | "tail" | FramedText | "text" | "bytes";
}

export class Run {
  state: State = "waiting";
  problem?: Problem;
  /** Why it is not whole. */
  why = "";
  /** Why the client repeats the request, until the server responds. */
  again = "";
  /** How many times the client has repeated it. */
  resumed = 0;
  status = 0;
  bytes = 0;
  readonly rows = new Rows();
  /** The beginning of what is no rows. */
  text = "";
  readonly started = performance.now();
  firstRow?: number;
  /** How many rows the database's planner expects. */
  expected?: number;
  ended?: number;
  stream = "";
  report?: Report;
  timing: [string, number][] = [];
  /** A cursor, and the number of rows before it. */
  mark?: { next: string; rows: number };
  /** Bytes per second; 0 for as fast as they come. */
  limit = 0;
  #abort = new AbortController();
  #isCancelled = false;
  /** The end of the page's turn, by the clock of `performance.now()`. */
  #turn = 0;

  constructor(
    readonly asked: Asked,
    private readonly changed: () => void,
  ) {}

  get isRows(): boolean {
    return this.asked.reads === "rows" || this.asked.reads === "tail";
  }

  get isRunning(): boolean {
    return this.state === "waiting" || this.state === "running";
  }

  /** How long it has taken so far, in milliseconds. */
  get elapsed(): number {
    return (this.ended ?? performance.now()) - this.started;
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#abort.abort();
  }

  async start(): Promise<void> {
    await this.#read(this.asked.url);
  }

  /** Continues after the last mark, once the client has given up. */
  async resume(): Promise<void> {
    if (!this.mark) return;
    this.rows.cutTo(this.mark.rows);
    const url = new URL(this.asked.url);
    url.searchParams.set("_after", this.mark.next);
    this.#isCancelled = false;
    this.#abort = new AbortController();
    this.why = "";
    this.problem = this.report = this.ended = undefined;
    this.state = "waiting";
    this.status = 0;
    this.changed();
    await this.#read(url);
  }

  async #read(url: URL): Promise<void> {
    let isAsking = false;
    const ask = async () => {
      if (isAsking) return;
      isAsking = true;
      await this.#ask().finally(() => (isAsking = false));
    };
    const timer = setInterval(() => void ask(), 1000);
    try {
      await this.#readAs(url);
    } catch (error) {
      this.#fail(error);
    } finally {
      clearInterval(timer);
    }
    this.ended = performance.now();
    this.again = "";
    this.changed();
    const ended = this.state === "cancelled" || this.state === "truncated";
    await this.#ask(ended ? 5 : 1);
    if (this.state === "unproved") this.#prove();
    if (this.state === "truncated") this.#explain();
    this.changed();
  }

  #readAs(url: URL): Promise<void> {
    switch (this.asked.reads) {
      case "rows":
        return this.#readRows(url, rows);
      case "tail":
        return this.#readRows(url, follow);
      case "sse":
      case "json-seq":
        return this.#readFramed(url, this.asked.reads);
      default:
        return this.#readText(url);
    }
  }

  #fail(error: unknown): void {
    if (this.#isCancelled) this.state = "cancelled";
    else if (error instanceof RowstreamError) {
      this.state = "failed";
      this.problem = { status: error.status, detail: error.detail, ...error.problem };
    } else if (this.status === 0) {
      this.state = "failed";
      this.problem = { title: "The server cannot be reached", detail: reasonOf(error) };
    } else {
      this.state = "truncated";
      this.why = reasonOf(error);
    }
  }

  /** Reads rows with the client, which checks and resumes them. They're shown before a mark follows. */
  async #readRows(url: URL, read: typeof rows): Promise<void> {
    const before = this.rows.total;
    const rewind = (rows: number, reason: Error) => {
      this.rows.cutTo(before + rows);
      this.again = reason.message;
      this.resumed += 1;
      this.changed();
    };
    const stream = read(url, { ...this.#options(url), as: "text", rewind });
    let seen = 0;
    try {
      for await (const batch of stream.batches()) {
        this.firstRow ??= performance.now() - this.started;
        for (const line of batch) this.rows.push(line);
        const bytes = stream.bytes - seen;
        seen = stream.bytes;
        await this.#received(bytes);
      }
      this.state = "complete";
    } finally {
      this.bytes += stream.bytes - seen;
      if (stream.cursor !== undefined) this.mark = { next: stream.cursor, rows: before + stream.marked };
    }
  }

  /** Reads text whose records prove its end, as the client reads rows. It isn't resumed, because all of it is shown. */
  async #readFramed(url: URL, format: FramedText): Promise<void> {
    const requests = new Requests(url, this.#options(url), {});
    const connection = requests.connect();
    const decoder = new TextDecoder();
    let proof: Proof | undefined;
    try {
      proof = new Proof(format, await requests.open(connection));
      while (!proof.isComplete) {
        const bytes = await connection.read();
        if (!bytes) throw new Cut("the end is missing");
        this.#take(decoder.decode(bytes, { stream: true }));
        await this.#received(bytes.byteLength);
        proof.push(bytes);
      }
      this.state = "complete";
    } finally {
      if (proof?.isComplete) connection.finish();
      else connection.close();
    }
  }

  /** The client would ask for numbers as strings. */
  #options(url: URL): RequestOptions {
    const params = { _numbers: url.searchParams.get("_numbers") };
    return { params, headers: this.asked.headers, signal: this.#abort.signal, fetch: this.#fetch };
  }

  /** Sends a request of the client, and notes how the server responds. */
  #fetch = async (input: RequestInfo | URL, init?: RequestInit): Promise<Response> => {
    const url = new URL(input as URL);
    // The client asks for the reason of a cut. A proxy may have the server below a path.
    if (url.pathname.startsWith("/_rowstream/streams/")) {
      return request(new URL(url.pathname.slice("/_rowstream/".length), ADMIN), init);
    }
    const response = await request(url, init);
    this.#begin(response);
    return response;
  };

  #begin({ ok, status, headers }: Response): void {
    this.status = status;
    if (!ok) return;
    this.state = "running";
    this.again = "";
    this.stream = headers.get("Rowstream-Stream") ?? "";
    this.timing = readTiming(headers.get("Server-Timing"));
    this.changed();
  }

  async #readText(url: URL): Promise<void> {
    const response = await request(url, { headers: this.asked.headers, signal: this.#abort.signal });
    this.#begin(response);
    if (!response.ok) throw new RowstreamError(await problemOf(response), response.status);
    const decoder = new TextDecoder();
    const reader = response.body?.getReader();
    for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
      if (this.asked.reads === "text") this.#take(decoder.decode(read.value, { stream: true }));
      await this.#received(read.value.byteLength);
    }
    this.#finish(response);
  }

  #take(text: string): void {
    if (this.text.length < PREVIEW) this.text += text.slice(0, PREVIEW - this.text.length);
  }

  /** Counts bytes, waits if the page reads slowly, and gives the page a turn. */
  async #received(bytes: number): Promise<void> {
    this.bytes += bytes;
    this.changed();
    if (this.limit > 0) await this.#slow(bytes);
    if (performance.now() - this.#turn > TURN) {
      await new Promise((resolve) => setTimeout(resolve));
      this.#turn = performance.now();
    }
  }

  /** It ends as a success would. */
  #finish({ headers, status }: Response): void {
    // Of an answer with a length the browser has checked it.
    this.state = headers.has("Content-Length") || status === 204 ? "complete" : "unproved";
  }

  /**
   * Shows the server's reason for an abort. A browser drops the bytes that it hasn't given to the
   * page when a response is aborted, and the error record with them.
   */
  #explain(): void {
    if (!this.report?.error) return;
    this.why = `the server says: ${this.report.state}`;
    this.problem = this.report.error;
  }

  /** Compares what came with what the server says it sent. */
  #prove(): void {
    if (!this.report) return;
    if (this.report.state !== "complete") {
      this.state = "truncated";
      this.why = `the server says: ${this.report.state}`;
    } else if (this.report.bytes === this.bytes) {
      this.state = "complete";
    }
  }

  /** Asks the server how it goes; `tries` times at most, until it has ended. */
  async #ask(tries = 0): Promise<void> {
    for (let left = Math.max(tries, 1); this.stream && left > 0; left -= 1) {
      try {
        const response = await request(new URL(`streams/${this.stream}`, ADMIN));
        if (!response.ok) return;
        this.report = (await response.json()) as Report;
      } catch {
        return;
      }
      this.changed();
      if (tries === 0 || this.report.state !== "running") return;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }

  /** Waits as long as a client of so many bytes per second takes for these. */
  async #slow(bytes: number): Promise<void> {
    this.changed();
    for (let begun = performance.now(); this.limit > 0 && !this.#abort.signal.aborted; ) {
      const left = (bytes / this.limit) * 1000 - (performance.now() - begun);
      if (left <= 0) return;
      await new Promise((resolve) => setTimeout(resolve, Math.min(left, 200)));
    }
  }
}

/** Why reading failed, without the client's advice for programs. */
function reasonOf(error: unknown): string {
  if (!(error instanceof IncompleteStream) && !(error instanceof Cut)) return String(error);
  const reason = error instanceof Cut ? error.message : error.reason;
  return error.cause instanceof Error ? `${reason} (${error.cause.message})` : reason;
}

/** `pool;dur=0.1, database;dur=12` */
function readTiming(header: string | null): [string, number][] {
  return (header ?? "").split(",").flatMap((item) => {
    const found = /^\s*([\w-]+);dur=([\d.]+)/.exec(item);
    return found ? [[found[1]!, Number(found[2])] as [string, number]] : [];
  });
}
