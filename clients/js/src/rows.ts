// Reads a list of rows over as many requests as it takes.

import { Connection } from "./connection.js";
import { Cut, IncompleteStream, RowstreamError } from "./errors.js";
import { Lines } from "./lines.js";
import { Reading } from "./reading.js";
import { type Column, type Converters, EXACT } from "./values.js";

export interface Options {
  /** Parameters of the endpoint. They replace those in the URL; null and undefined are left out. */
  params?: Readonly<Record<string, string | number | bigint | boolean | null | undefined>>;
  /** Sent as `Authorization: Bearer …`. */
  token?: string;
  headers?: HeadersInit;
  /** Cancels the request, and so the statement. */
  signal?: AbortSignal;
  /** Converts values by the types of their columns. By default, `int64` is a `bigint`. */
  convert?: Converters;
  /** The most attempts in a row that bring no rows: 5, or 20 for a live tail. */
  retries?: number;
  /** The longest silence, in milliseconds. By default three heartbeats of the server. */
  readTimeout?: number;
  fetch?: typeof fetch;
}

/** Statuses of proxies that may pass (the server's own errors say so themselves). */
const PASSING = [408, 429, 502, 503, 504];
/** The most characters of a problem document. The server sends at most 4 KB. */
const LONGEST_PROBLEM = 65_536;
/** The wait for an answer that isn't a stream, in milliseconds. */
const PATIENCE = 10_000;
/** The pause before the first attempt, and the longest ones, in milliseconds. */
const [FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RETRY_AFTER] = [100, 10_000, 300_000];

/** The rows of an endpoint. They're requested once someone iterates over them. */
export class Rows<Row = Record<string, unknown>> implements AsyncIterable<Row> {
  /** The columns, once the first rows have arrived. */
  columns: readonly Column[] = [];
  /** The number of rows so far. */
  rows = 0;
  /** The number of bytes so far, including those of rows that had to be read again. */
  bytes = 0;
  /** The number of further requests, after cuts and errors that may pass. */
  resumed = 0;
  /** The cursor after these rows. Once all rows have arrived, it begins the next page. */
  cursor: string | undefined;
  /** Says if more pages may follow, once all rows have arrived. */
  page: "full" | "last" | undefined;

  readonly #url: URL;
  readonly #headers: Headers;
  readonly #fetch: typeof fetch;
  #hasBegun = false;
  /** True if the caller has rows after the cursor, so that a cut can't be resumed. */
  #isPastCursor = false;
  #failures = 0;

  /** Use `rows` or `follow`. */
  constructor(
    url: string | URL,
    private readonly options: Options,
    private readonly isTail: boolean,
  ) {
    this.#url = new URL(url, globalThis.location?.href);
    const query = this.#url.searchParams;
    for (const [name, value] of Object.entries(options.params ?? {})) {
      if (value === null || value === undefined) query.delete(name);
      else query.set(name, String(value));
    }
    // The format is a parameter, because a suffix isn't possible in every path.
    query.set("_format", isTail ? "sse" : "ndjson");
    query.set("_end", "1");
    if (isTail) query.set("_follow", "1");
    if (!query.has("_numbers")) query.set("_numbers", "string");
    this.cursor = query.get("_after") ?? undefined;
    this.#headers = new Headers(options.headers);
    if (options.token !== undefined) this.#headers.set("Authorization", `Bearer ${options.token}`);
    this.#fetch = options.fetch ?? fetch;
  }

  /** The rows one by one. Unlike a generator, this takes one turn of the event loop's queue for each. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Row, void> {
    const batches = this.batches();
    let batch: Row[] = [];
    let at = 0;
    let waiting: Promise<IteratorResult<Row, void>> | undefined;
    const step = async (): Promise<IteratorResult<Row, void>> => {
      if (at === batch.length) {
        const next = await batches.next();
        if (next.done) return next;
        [batch, at] = [next.value, 0];
      }
      return { done: false, value: batch[at++]! };
    };
    return {
      next: () => {
        if (!waiting && at < batch.length) return Promise.resolve({ done: false, value: batch[at++]! });
        // A caller may ask for several rows before the first one has arrived.
        const own = waiting ? waiting.then(step) : step();
        const done = () => {
          if (waiting === own) waiting = undefined;
        };
        own.then(done, done);
        return (waiting = own);
      },
      return: async () => {
        [batch, at] = [[], 0];
        await batches.return();
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  /** All rows. Throws a `RangeError` if there are more than `limit`. */
  async collect(limit = 100_000): Promise<Row[]> {
    const all: Row[] = [];
    for await (const batch of this.batches()) {
      for (const row of batch) all.push(row);
      if (all.length > limit) {
        throw new RangeError(`there are more than ${limit} rows; iterate over them, or collect(more)`);
      }
    }
    return all;
  }

  /** The rows as they arrive, up to some thousand at a time. */
  async *batches(): AsyncGenerator<Row[], void> {
    if (this.#hasBegun) throw new Error("these rows have been read; call rows() again to read them again");
    this.#hasBegun = true;
    for (;;) {
      try {
        yield* this.#respond();
        if (!this.isTail) return;
        throw new Cut("the server ended the live tail");
      } catch (error) {
        await this.#recover(error);
      }
      this.resumed += 1;
    }
  }

  /** The rows of one response. */
  async *#respond(): AsyncGenerator<Row[], void> {
    const connection = new Connection(this.options.signal, 0);
    try {
      const response = await connection.open(this.#fetch, this.#request(), this.#headers);
      const started = Date.now();
      const reading = await this.#begin(connection, response);
      const [lines, heartbeat] = [new Lines(), connection.timeout / 3];
      try {
        while (!reading.end) {
          const bytes = await connection.read();
          if (!bytes) throw new Cut("the end is missing");
          this.bytes += bytes.length;
          // A live tail may have no rows for hours.
          if (this.isTail && Date.now() - started > heartbeat) this.#failures = 0;
          yield* this.#read(reading, lines, bytes);
        }
      } catch (error) {
        const reason = error instanceof Cut && error.retry ? await this.#reason(response) : undefined;
        throw reason ?? error;
      }
      connection.finish();
    } finally {
      connection.close();
    }
  }

  /** Hands over the rows in these bytes, and only then throws their error. */
  *#read(reading: Reading, lines: Lines, bytes: Uint8Array): Generator<Row[], void> {
    let failure: unknown;
    try {
      for (const line of lines.push(bytes)) {
        reading.line(line);
        if (reading.end) break;
      }
    } catch (error) {
      failure = error;
    }
    reading.flush();
    const batch = reading.ready as Row[];
    reading.ready = [];
    this.columns = reading.columns ?? this.columns;
    this.cursor = reading.cursor ?? this.cursor;
    this.#isPastCursor = reading.isPastCursor;
    this.page = reading.end?.page;
    if (batch.length > 0) {
      this.rows += batch.length;
      this.#failures = 0;
      yield batch;
    }
    if (failure !== undefined) throw failure;
  }

  #request(): URL {
    if (this.cursor !== undefined) this.#url.searchParams.set("_after", this.cursor);
    return this.#url;
  }

  /** Checks the status and the headers. */
  async #begin(connection: Connection, { status, headers }: Response): Promise<Reading> {
    if (status !== 200) {
      connection.timeout = PATIENCE;
      throw problem(status, headers, await connection.text(LONGEST_PROBLEM));
    }
    const tag = headers.get("rowstream-tag");
    const version = headers.get("rowstream-wire") ?? "1";
    if (!tag) {
      throw new Cut("the header Rowstream-Tag is missing: the URL isn't an endpoint, or CORS hides it", false);
    }
    if (version !== "1") throw new Cut(`it has version ${version} of the wire: update this package`, false);
    connection.timeout = this.options.readTimeout ?? 3000 * Number(headers.get("rowstream-heartbeat"));
    // A shard is continued in the snapshot that it began with.
    const snapshot = headers.get("rowstream-snapshot");
    if (snapshot && this.#url.searchParams.has("_shard")) this.#url.searchParams.set("_snapshot", snapshot);
    const isResumable = ["marks", "ids"].includes(headers.get("rowstream-resume") ?? "");
    return new Reading(this.isTail ? "sse" : "ndjson", tag, isResumable, { ...EXACT, ...this.options.convert });
  }

  /** The server's reason for a cut: browsers drop the error record of an aborted response. */
  async #reason(response: Response): Promise<RowstreamError | undefined> {
    const id = response.headers.get("rowstream-stream");
    if (!id) return undefined;
    const connection = new Connection(this.options.signal, PATIENCE);
    try {
      const url = new URL(`/_rowstream/streams/${encodeURIComponent(id)}`, this.#url);
      const { ok } = await connection.open(this.#fetch, url, this.#headers);
      const { error } = ok ? JSON.parse(await connection.text(LONGEST_PROBLEM)) : {};
      return error && new RowstreamError(error, 500);
    } catch {
      // Another replica or a proxy answered. The cut is reported as one.
      this.options.signal?.throwIfAborted();
      return undefined;
    } finally {
      connection.close();
    }
  }

  /** Waits until another attempt makes sense. Otherwise throws the error for the caller. */
  async #recover(error: unknown): Promise<void> {
    const isServers = error instanceof RowstreamError;
    if (!isServers && !(error instanceof Cut)) throw error;
    const after = isServers ? 1000 * (error.retryAfter ?? 0) : 0;
    const retries = this.options.retries ?? (this.isTail ? 20 : 5);
    if (error.retry && !this.#isPastCursor && this.#failures < retries && after <= LONGEST_RETRY_AFTER) {
      return this.#pause(after);
    }
    const position = { rows: this.rows, cursor: this.#isPastCursor ? undefined : this.cursor };
    throw isServers ? Object.assign(error, position) : new IncompleteStream(error.message, position, error.cause);
  }

  /** Waits longer with each failure, but at least as long as the server says. */
  async #pause(after: number): Promise<void> {
    const most = Math.min(FIRST_PAUSE * 2 ** this.#failures, LONGEST_PAUSE);
    this.#failures += 1;
    const { signal } = this.options;
    await new Promise<void>((resolve) => {
      const done = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = setTimeout(done, after + most * (0.5 + Math.random() / 2));
      signal?.addEventListener("abort", done);
      if (signal?.aborted) done();
    });
    signal?.throwIfAborted();
  }
}

/** The error of a status. A proxy's has no problem document. */
function problem(status: number, headers: Headers, body: string): RowstreamError {
  if (headers.get("content-type")?.startsWith("application/problem+json")) {
    try {
      return new RowstreamError(JSON.parse(body), status);
    } catch {
      // A part of a document says no more than its status.
    }
  }
  const after = Number(headers.get("retry-after") ?? undefined);
  const delay = Number.isInteger(after) ? { retry_after: after } : {};
  return new RowstreamError({ retry: PASSING.includes(status), ...delay }, status);
}

/** Reads an endpoint's rows. They're all there, once each, or an error is thrown. */
export function rows<Row = Record<string, unknown>>(url: string | URL, options: Options = {}): Rows<Row> {
  return new Rows<Row>(url, options, false);
}

/** Reads an endpoint's rows and then each new one, until the caller stops. */
export function follow<Row = Record<string, unknown>>(url: string | URL, options: Options = {}): Rows<Row> {
  return new Rows<Row>(url, options, true);
}
