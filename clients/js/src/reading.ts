// The rows and records of one response: the lines of the wire, version 1.
//
// Rows wait until a cursor follows them, in `held`. So a cut loses no row and doubles none: the rows
// that the caller has are those before the cursor. If the response has no cursors, or too much is
// held, rows don't wait, and a later cut can't be resumed. A caller that can drop rows gets them at once.

import { Cut, RowstreamError } from "./errors.js";
import { type Column, type Converters, converter } from "./values.js";

type Row = Record<string, unknown>;

/** The records that we know. Others, and other members, are skipped. */
interface Rec {
  columns?: Column[];
  mark?: { rows: number; next: string };
  end?: End;
  error?: Record<string, unknown>;
}

export interface End {
  rows: number;
  next?: string;
  page?: "full" | "last";
}

/** Rows for the caller. */
export interface Batch<Row> {
  rows: Row[];
  /** The cursors, by the number of these rows that precede them. */
  cursors: Map<number, string>;
}

/** When the caller gets rows, and if a later cut can be resumed. */
export type Delivery =
  /** Once a cursor follows them. */
  | "marked"
  /** At once. After a cut, the caller drops those after the cursor. */
  | "revocable"
  /** At once. There are no cursors, so a cut can't be resumed. */
  | "final";

/** They're for an `EventSource`, and belong to no row. */
const IDS_WITHOUT_DATA = ["end", "none"];

/** The most text that waits for a cursor, in UTF-16 units. */
const MOST_HELD = 32 << 20;

/** The tag of a response's records, if its headers say that it's framed, and in a version that we know. */
export function tagOf(headers: Headers): string {
  const tag = headers.get("rowstream-tag");
  const version = headers.get("rowstream-wire");
  if (!tag || !version) {
    const missing = tag ? "Rowstream-Wire" : "Rowstream-Tag";
    throw new Cut(`the header ${missing} is missing: the URL isn't an endpoint, or CORS or a proxy hides it`, false);
  }
  if (version !== "1") throw new Cut(`it has version ${version} of the wire: update this package`, false);
  return tag;
}

export class Reading {
  columns: readonly Column[] | undefined;
  /** The last cursor. */
  cursor: string | undefined;
  /** True if rows became ready after the cursor, or rows before it are missing, so that it's of no use. */
  isPastCursor = false;
  end: End | undefined;

  readonly #record: string;
  #convert: ((row: Row) => void) | undefined;
  #count = 0;
  #ready: Batch<Row | string> = { rows: [], cursors: new Map() };
  #held: (Row | string)[] = [];
  #heldText = 0;
  /** Why a line isn't a row. Only an error record may follow it. */
  #brokenLine: unknown;
  #event: { type?: string; data?: string; id?: string } = {};

  constructor(
    private readonly framing: "ndjson" | "sse",
    tag: string,
    private readonly delivery: Delivery,
    /** Undefined for rows as text. */
    private readonly converters: Converters | undefined,
  ) {
    this.#record = `{"$rowstream":"${tag}",`;
  }

  /** Reads lines, up to the end. */
  lines(lines: string[]): void {
    let rows: string[] = [];
    for (const line of lines) {
      if (this.framing === "sse") this.#readEventLine(line);
      else if (line.startsWith(this.#record)) {
        this.#readRows(rows);
        rows = [];
        this.#readRecord(line);
      } else if (line !== "") rows.push(line);
      if (this.end) return;
    }
    this.#readRows(rows);
  }

  /** Reads a line of server-sent events. An empty one ends an event. */
  #readEventLine(line: string): void {
    const [, field, value] = /^(event|data|id): (.*)$/s.exec(line) ?? [];
    if (field === "event") this.#event.type = value!;
    else if (field === "data") {
      if (this.#event.data !== undefined) throw new Cut("the end of an event is missing");
      this.#event.data = value!;
    }
    else if (field === "id") this.#event.id = value!;
    else if (line === "") {
      const { type, data, id } = this.#event;
      this.#event = {};
      if (data === undefined) {
        if (id !== undefined && !IDS_WITHOUT_DATA.includes(id)) throw new Cut("the data of an event are missing");
        return;
      }
      if (type === "rowstream" && data.startsWith(this.#record)) return this.#readRecord(data);
      this.#readRow(data);
      if (id && this.#isResumable) {
        // Otherwise the cursor would pass a row that isn't whole.
        this.#checkLineBefore();
        this.#release(id);
      }
    }
  }

  /** The rows that became ready. */
  take(): Batch<Row | string> {
    const ready = this.#ready;
    this.#ready = { rows: [], cursors: new Map() };
    return ready;
  }

  /** Makes the held rows ready that won't wait for a cursor. */
  flush(): void {
    if (this.#held.length === 0 || (this.delivery === "marked" && this.#heldText < MOST_HELD)) return;
    this.#release(undefined);
  }

  get #isResumable(): boolean {
    return this.delivery !== "final";
  }

  #release(cursor: string | undefined): void {
    const { rows, cursors } = this.#ready;
    if (this.#held.length > 0) this.isPastCursor = this.delivery !== "revocable";
    if (rows.length === 0) this.#ready.rows = this.#held;
    else for (const row of this.#held) rows.push(row);
    [this.#held, this.#heldText] = [[], 0];
    if (cursor === undefined) return;
    [this.cursor, this.isPastCursor] = [cursor, false];
    cursors.set(this.#ready.rows.length, cursor);
  }

  #readRows(lines: string[]): void {
    const rows = this.#brokenLine || !this.columns ? undefined : parseAll(lines);
    for (let at = 0; at < lines.length; at += 1) {
      if (rows) this.#hold(rows[at]!, lines[at]!);
      else this.#readRow(lines[at]!);
    }
  }

  #readRow(line: string): void {
    this.#checkLineBefore();
    // Their types are missing, too, if the record was damaged and looks like a row.
    if (!this.columns) throw new Cut("the columns are missing");
    let row: unknown;
    try {
      row = JSON.parse(line);
      if (!isRow(row)) throw new TypeError("it isn't an object");
    } catch (cause) {
      this.#brokenLine = cause;
      return;
    }
    this.#hold(row, line);
  }

  #hold(row: Row, line: string): void {
    this.#convert?.(row);
    this.#count += 1;
    this.#held.push(this.converters ? row : line);
    this.#heldText += line.length;
  }

  #readRecord(line: string): void {
    let record: Rec;
    try {
      record = JSON.parse(line);
    } catch (cause) {
      throw new Cut("a record isn't whole", true, cause);
    }
    if (record.error) throw new RowstreamError(record.error, 500);
    this.#checkLineBefore();
    if (record.columns) {
      if (!Array.isArray(record.columns)) throw new Cut("the columns aren't a list");
      this.columns = record.columns;
      this.#convert = this.converters && converter(record.columns, this.converters);
    } else if (record.mark) {
      this.#checkCount(record.mark.rows);
      if (typeof record.mark.next !== "string") throw new Cut("a mark has no cursor");
      if (this.#isResumable) this.#release(record.mark.next);
    } else if (record.end) {
      this.#checkCount(record.end.rows);
      this.#release(record.end.next);
      this.end = record.end;
    }
  }

  #checkLineBefore(): void {
    if (this.#brokenLine) throw new Cut("a row isn't whole", true, this.#brokenLine);
  }

  /** A wrong number is a cut after the last mark. Events have no marks, so it may concern any of them. */
  #checkCount(rows: number): void {
    if (rows === this.#count) return;
    const hasMarks = this.framing === "ndjson";
    this.isPastCursor ||= !hasMarks;
    throw new Cut(`the server sent ${rows} rows, but ${this.#count} arrived`, hasMarks);
  }
}

function isRow(value: unknown): value is Row {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Reads rows as one list, which is faster. Undefined if the list isn't JSON or has another length, because a line
 * isn't a row. Then they have to be read one by one. Several such lines aren't noticed here if one has as many rows
 * too many as others lack. The count of rows doesn't show that either.
 */
function parseAll(lines: string[]): Row[] | undefined {
  if (lines.length < 2) return undefined;
  try {
    const rows: unknown[] = JSON.parse(`[${lines.join(",")}]`);
    return rows.length === lines.length && rows.every(isRow) ? rows : undefined;
  } catch {
    return undefined;
  }
}
