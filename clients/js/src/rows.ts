// Reads a list of rows over as many requests as it takes.

import { Cut, IncompleteStream, RowstreamError } from "./errors.js";
import { Lines } from "./lines.js";
import { type Batch, type Delivery, Reading, tagOf } from "./reading.js";
import { type RequestOptions, Requests } from "./request.js";
import { type Column, type Converters, EXACT, UNSURE } from "./values.js";

export interface Options extends RequestOptions {
  /** Converts values by the types of their columns. By default, `int64` is a `bigint`. */
  convert?: Converters;
  /**
   * The most further attempts in a row that bring no new cursor: 8, or 20 for a live tail, whose heartbeats count,
   * too.
   */
  retries?: number;
  /** Rows as objects, by default, or as their JSON texts with all digits, which `convert` doesn't concern. */
  as?: "objects" | "text";
  /**
   * Hands over rows at once, before a mark follows them. Before a further request, it's called with the number of
   * rows that stay: the caller drops the later ones, because they're sent again.
   */
  rewind?: (rows: number, reason: Error) => void;
}

/** The pause before the first attempt, and the longest ones, in milliseconds. */
const [FIRST_PAUSE, LONGEST_PAUSE, LONGEST_RETRY_AFTER] = [100, 10_000, 300_000];

/** The rows of an endpoint. They're requested once someone iterates over them. */
export class Rows<Row = Record<string, unknown>> implements AsyncIterable<Row> {
  /** The columns, once the first rows have arrived. */
  columns: readonly Column[] = [];
  /** The number of rows that the caller has. */
  rows = 0;
  /** The number of bytes so far, including those of rows that had to be read again. */
  bytes = 0;
  /** The number of further requests, after cuts and errors that may pass. */
  resumed = 0;
  /** The last cursor that these rows contain. Once all rows have arrived, it begins the next page. */
  cursor: string | undefined;
  /** The number of rows up to that cursor. */
  marked = 0;
  /** Says if more pages may follow, once all rows have arrived. */
  page: "full" | "last" | undefined;

  readonly #requests: Requests;
  #hasBegun = false;
  /** The cursor after the rows that arrived, which the caller may not have yet. */
  #arrived: string | undefined;
  /** The rows that arrived, and those of them before the cursor. */
  #count = 0;
  #safe = 0;
  /** True if rows arrived after the cursor and didn't wait, so that a cut can't be resumed. */
  #isPastCursor = false;
  #failures = 0;

  /** Use `rows` or `follow`. */
  constructor(
    url: string | URL,
    private readonly options: Options,
    private readonly isTail: boolean,
  ) {
    // The format is a parameter, because a suffix isn't possible in every path.
    const control: Record<string, string> = isTail ? { _format: "sse", _follow: "1", _end: "1" } : { _format: "ndjson", _end: "1" };
    this.#requests = new Requests(url, options, control);
    this.cursor = this.#arrived = this.#requests.query.get("_after") ?? undefined;
  }

  /** The rows one by one. Unlike a generator, this takes one turn of the event loop's queue for each. */
  [Symbol.asyncIterator](): AsyncIterableIterator<Row, void> {
    const batches = this.#batches();
    const { signal } = this.options;
    let [rows, cursors]: [Row[], Map<number, string>] = [[], new Map()];
    let at = 0;
    let waiting: Promise<IteratorResult<Row, void>> | undefined;
    const pass = () => {
      const cursor = cursors.get(at);
      if (cursor !== undefined) [this.cursor, this.marked] = [cursor, this.rows];
    };
    const take = (): IteratorResult<Row, void> => {
      const value = rows[at++]!;
      this.rows += 1;
      pass();
      return { done: false, value };
    };
    const step = async (): Promise<IteratorResult<Row, void>> => {
      // After an abort, the next batch is its reason.
      while (at === rows.length || signal?.aborted) {
        const next = await batches.next();
        if (next.done) return next;
        ({ rows, cursors } = next.value);
        at = 0;
        pass();
      }
      return take();
    };
    return {
      next: () => {
        if (!waiting && at < rows.length && !signal?.aborted) return Promise.resolve(take());
        // A caller may ask for several rows before the first one has arrived.
        const own = waiting ? waiting.then(step) : step();
        const done = () => {
          if (waiting === own) waiting = undefined;
        };
        own.then(done, done);
        return (waiting = own);
      },
      return: async () => {
        [rows, at] = [[], 0];
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
    for await (const { rows } of this.#batches()) {
      // Fewer after a rewind.
      all.length = this.#count - rows.length;
      for (const row of rows) all.push(row);
      if (all.length > limit) {
        throw new RangeError(`there are more than ${limit} rows; iterate over them, or collect(more)`);
      }
    }
    // Until now the caller has none of them.
    this.#pass(all.length);
    return all;
  }

  /** The rows as they arrive, up to some thousand at a time. */
  async *batches(): AsyncGenerator<Row[], void> {
    for await (const { rows } of this.#batches()) {
      this.#pass(rows.length);
      if (rows.length > 0) yield rows;
    }
  }

  /** The caller gets all rows that arrived. */
  #pass(rows: number): void {
    this.rows += rows;
    [this.cursor, this.marked] = [this.#arrived, this.#safe];
  }

  async *#batches(): AsyncGenerator<Batch<Row>, void> {
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
  async *#respond(): AsyncGenerator<Batch<Row>, void> {
    const connection = this.#requests.connect();
    let reading: Reading | undefined;
    try {
      if (this.#arrived !== undefined) this.#requests.query.set("_after", this.#arrived);
      const headers = await this.#requests.open(connection);
      const started = Date.now();
      reading = this.#begin(headers);
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
        this.page = reading.end.page;
      } catch (error) {
        const reason = error instanceof Cut && error.retry ? await this.#requests.reason(headers) : undefined;
        throw reason ?? error;
      }
    } finally {
      if (reading?.end) connection.finish();
      else connection.close();
    }
  }

  /** Hands over the rows in these bytes, and only then throws their error. */
  *#read(reading: Reading, lines: Lines, bytes: Uint8Array): Generator<Batch<Row>, void> {
    let failure: unknown;
    try {
      reading.lines(lines.push(bytes));
    } catch (error) {
      failure = error;
    }
    reading.flush();
    const batch = reading.take() as Batch<Row>;
    this.columns = reading.columns ?? this.columns;
    if (reading.cursor !== undefined && reading.cursor !== this.#arrived) {
      this.#arrived = reading.cursor;
      this.#failures = 0;
    }
    for (const before of batch.cursors.keys()) this.#safe = this.#count + before;
    this.#count += batch.rows.length;
    this.#isPastCursor = reading.isPastCursor;
    if (batch.rows.length > 0 || batch.cursors.size > 0) yield batch;
    this.options.signal?.throwIfAborted();
    if (failure !== undefined) throw failure;
  }

  /** Checks the headers. */
  #begin(headers: Headers): Reading {
    const tag = tagOf(headers);
    // A shard is continued in the snapshot that it began with.
    const snapshot = headers.get("rowstream-snapshot");
    if (snapshot && this.#requests.query.has("_shard")) this.#requests.query.set("_snapshot", snapshot);
    const isResumable = ["marks", "ids"].includes(headers.get("rowstream-resume") ?? "");
    const { as, convert, rewind } = this.options;
    const delivery: Delivery = !isResumable ? "final" : rewind ? "revocable" : "marked";
    const exact = this.#requests.query.get("_numbers") === "string" ? EXACT : UNSURE;
    return new Reading(this.isTail ? "sse" : "ndjson", tag, delivery, as === "text" ? undefined : { ...exact, ...convert });
  }

  /** Waits until another attempt makes sense. Otherwise throws the error for the caller. */
  async #recover(error: unknown): Promise<void> {
    const isServers = error instanceof RowstreamError;
    if (!isServers && !(error instanceof Cut)) throw error;
    const after = isServers ? 1000 * (error.retryAfter ?? 0) : 0;
    const retries = this.options.retries ?? (this.isTail ? 20 : 8);
    if (error.retry && !this.#isPastCursor && this.#failures < retries && after <= LONGEST_RETRY_AFTER) {
      this.#count = this.#safe;
      this.rows = Math.min(this.rows, this.#safe);
      this.options.rewind?.(this.rows, error);
      return this.#pause(after);
    }
    const isPastCursor = this.#isPastCursor && this.rows > 0;
    const rows = isPastCursor ? this.rows : Math.min(this.rows, this.#safe);
    const position = { rows, cursor: isPastCursor ? undefined : this.cursor };
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

/** Reads an endpoint's rows. They're all there, once each, or an error is thrown. */
export function rows(url: string | URL, options: Options & { as: "text" }): Rows<string>;
export function rows<Row = Record<string, unknown>>(url: string | URL, options?: Options): Rows<Row>;
export function rows<Row = Record<string, unknown>>(url: string | URL, options: Options = {}): Rows<Row> {
  return new Rows<Row>(url, options, false);
}

/** Reads an endpoint's rows and then each new one, until the caller stops. */
export function follow(url: string | URL, options: Options & { as: "text" }): Rows<string>;
export function follow<Row = Record<string, unknown>>(url: string | URL, options?: Options): Rows<Row>;
export function follow<Row = Record<string, unknown>>(url: string | URL, options: Options = {}): Rows<Row> {
  return new Rows<Row>(url, options, true);
}
