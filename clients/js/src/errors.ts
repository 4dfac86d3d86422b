// The two errors of a stream, and the cuts before them.

/** The rows that the caller has, and the cursor after them. */
export interface Position {
  /** The number of rows that the caller has. */
  rows: number;
  /** Continues after these rows, as the parameter `_after`. Missing if the stream can't be resumed. */
  cursor?: string | undefined;
}

/** An error of the server: a problem document, or an error record within the rows. */
export class RowstreamError extends Error implements Position {
  override readonly name: string = "RowstreamError";
  /** The stable code, for programs. Missing if a proxy sent the status. */
  readonly code?: string;
  readonly status: number;
  /** For people. May change. */
  readonly detail: string;
  readonly hint?: string;
  /** True if the same request may succeed later. */
  readonly retry: boolean;
  /** The delay that the server asks for, in seconds. */
  readonly retryAfter?: number;
  rows = 0;
  cursor?: string | undefined;

  constructor(
    /** The whole problem document or error record. */
    readonly problem: Readonly<Record<string, unknown>>,
    status: number,
  ) {
    const { code, hint, retry_after: after } = problem;
    const detail = String(problem.detail ?? `HTTP status ${status}, without a reason`);
    super(typeof code === "string" ? `${code}: ${detail}` : detail);
    this.detail = detail;
    this.status = typeof problem.status === "number" ? problem.status : status;
    this.retry = problem.retry === true;
    if (typeof code === "string") this.code = code;
    if (typeof hint === "string") this.hint = hint;
    if (typeof after === "number") this.retryAfter = Math.max(0, after);
  }
}

/** Rows may be missing, and the server hasn't said why. Those that arrived are right. */
export class IncompleteStream extends Error implements Position {
  override readonly name: string = "IncompleteStream";
  readonly rows: number;
  readonly cursor?: string | undefined;

  constructor(
    /** Why rows may be missing: the message without its remedy. */
    readonly reason: string,
    { rows, cursor }: Position,
    cause: unknown,
  ) {
    const remedy = cursor ? "continue with the parameter _after and the error's cursor" : "read it again from the start";
    super(`the stream is incomplete after ${rows} rows: ${reason}; ${remedy}`, { cause });
    this.rows = rows;
    this.cursor = cursor;
  }
}

/** The end of one response, before all rows arrived. */
export class Cut extends Error {
  constructor(
    message: string,
    /** False if another attempt would meet the same. */
    readonly retry = true,
    override readonly cause?: unknown,
  ) {
    super(message);
  }
}
