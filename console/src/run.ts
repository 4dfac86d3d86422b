// One run of an endpoint: its rows or its bytes as they come, and what proves that it is whole.

import { noun } from "./format.js";
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
const TAIL = 4_000;
/** How long rows are read before the page gets a turn, in milliseconds. */
const TURN = 30;

export interface Asked {
  url: URL;
  headers: Record<string, string>;
  format: string;
}

export class Run {
  state: State = "waiting";
  problem?: Problem;
  /** Why it is not whole. */
  why = "";
  status = 0;
  bytes = 0;
  readonly rows = new Rows();
  /** The beginning of what is no rows. */
  text = "";
  #tail = "";
  readonly started = performance.now();
  firstRow?: number;
  /** How many rows the database's planner expects. */
  expected?: number;
  ended?: number;
  stream = "";
  report?: Report;
  timing: [string, number][] = [];
  /** From where it can go on, and how many rows had come by then. */
  mark?: { next: string; rows: number };
  /** Bytes per second; 0 for as fast as they come. */
  limit = 0;
  #abort = new AbortController();
  #tag = "";
  #before = 0;
  #rest = "";
  #end?: { rows: number };
  #isCancelled = false;

  constructor(
    readonly asked: Asked,
    private readonly changed: () => void,
  ) {}

  get isRows(): boolean {
    return this.asked.format === "ndjson";
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

  /** Goes on after the last row from which it can. */
  async resume(): Promise<void> {
    if (!this.mark) return;
    this.rows.cutTo(this.mark.rows);
    const url = new URL(this.asked.url);
    url.searchParams.set("_after", this.mark.next);
    this.#before = this.rows.total;
    this.#rest = "";
    this.#end = undefined;
    this.#isCancelled = false;
    this.#abort = new AbortController();
    this.why = "";
    this.problem = this.report = this.ended = undefined;
    this.state = "waiting";
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
      await this.#receive(url);
    } catch (error) {
      this.#fail(error);
    } finally {
      clearInterval(timer);
    }
    this.ended = performance.now();
    this.changed();
    const ended = this.state === "cancelled" || this.state === "truncated";
    await this.#ask(ended ? 5 : 1);
    if (this.state === "unproved") this.#prove();
    if (this.state === "truncated") this.#explain();
    this.changed();
  }

  #fail(error: unknown): void {
    if (this.#isCancelled) this.state = "cancelled";
    else if (this.problem) this.state = "failed";
    else if (this.state === "waiting") {
      this.state = "failed";
      this.problem = { title: "The server cannot be reached", detail: String(error) };
    } else {
      this.state = "truncated";
      this.why = "the connection ended before the answer did";
    }
  }

  async #receive(url: URL): Promise<void> {
    const init = { headers: this.asked.headers, signal: this.#abort.signal };
    const response = await request(url, init);
    this.status = response.status;
    if (!response.ok) {
      this.problem = await problemOf(response);
      this.state = "failed";
      return;
    }
    this.state = "running";
    this.stream = response.headers.get("Rowstream-Stream") ?? "";
    this.#tag = response.headers.get("Rowstream-Tag") ?? "";
    this.timing = readTiming(response.headers.get("Server-Timing"));
    this.changed();
    await this.#drain(response);
    this.#finish(response);
  }

  async #drain(response: Response): Promise<void> {
    const reader = response.body?.getReader();
    if (!reader) return;
    const decoder = new TextDecoder();
    let turn = performance.now();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      this.bytes += value.byteLength;
      if (this.asked.format !== "arrow") this.#take(decoder.decode(value, { stream: true }));
      if (this.limit > 0) await this.#slow(value.byteLength);
      if (performance.now() - turn > TURN) {
        this.changed();
        await new Promise((resolve) => setTimeout(resolve));
        turn = performance.now();
      }
    }
  }

  #take(text: string): void {
    if (!this.isRows) {
      if (this.text.length < PREVIEW) this.text += text.slice(0, PREVIEW - this.text.length);
      this.#tail = (this.#tail + text).slice(-TAIL);
      this.changed();
      return;
    }
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (line) this.#line(line);
    }
    this.changed();
  }

  #line(line: string): void {
    if (this.#tag && line.startsWith(`{"$rowstream":"${this.#tag}",`)) {
      this.#record(JSON.parse(line) as ServerRecord);
      return;
    }
    this.firstRow ??= performance.now() - this.started;
    this.rows.push(line);
  }

  #record({ end, mark, error }: ServerRecord): void {
    const next = end?.next ?? mark?.next;
    if (next) this.mark = { next, rows: this.rows.total };
    if (end) this.#end = end;
    if (error) this.problem = error;
  }

  /** It ends as a success would. */
  #finish(response: Response): void {
    const record = `{"$rowstream":"${this.#tag}","end":`;
    if (this.problem) {
      this.state = "failed";
    } else if (this.#end || (this.#tag && this.#tail.includes(record))) {
      const came = this.rows.total - this.#before;
      const isWhole = !this.#end || this.#end.rows === came;
      this.state = isWhole ? "complete" : "truncated";
      if (!isWhole) this.why = `${came} ${noun(came, "row")} arrived, and the server sent ${this.#end?.rows}`;
    } else if (this.#tag) {
      this.state = "truncated";
      this.why = "it ended without the record of its end";
    } else {
      // Of an answer with a length the browser has checked it.
      const hasLength = response.headers.has("Content-Length") || response.status === 204;
      this.state = hasLength ? "complete" : "unproved";
    }
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

interface ServerRecord {
  end?: { rows: number; next?: string };
  mark?: { rows: number; next?: string };
  error?: Problem;
}

/** `pool;dur=0.1, database;dur=12` */
function readTiming(header: string | null): [string, number][] {
  return (header ?? "").split(",").flatMap((item) => {
    const found = /^\s*([\w-]+);dur=([\d.]+)/.exec(item);
    return found ? [[found[1]!, Number(found[2])] as [string, number]] : [];
  });
}
