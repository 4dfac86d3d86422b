// The common parts of all requests of a caller: the URL, the headers, and the reasons of failures.

import { Connection } from "./connection.js";
import { RowstreamError } from "./errors.js";

export interface RequestOptions {
  /** Parameters of the endpoint. They replace those in the URL; null and undefined are left out. */
  params?: Readonly<Record<string, string | number | bigint | boolean | null | undefined>>;
  /**
   * Sent as `Authorization: Bearer …`, so `headers` can't have an `Authorization`, too. A function is called before
   * each request, and once more after a 401.
   */
  token?: string | (() => string | Promise<string>);
  headers?: HeadersInit;
  /** Cancels the request, and so the statement. */
  signal?: AbortSignal;
  /** The longest wait for the first row, in milliseconds. By default, it has no limit. */
  firstRowTimeout?: number;
  /** The longest silence after that, in milliseconds. By default three heartbeats of the server. */
  readTimeout?: number;
  fetch?: typeof fetch;
}

/** Statuses of proxies that may pass (the server's own errors say so themselves). */
const PASSING = [408, 429, 502, 503, 504];
/** The most characters of a problem document. The server sends at most 4 KB. */
const LONGEST_PROBLEM = 65_536;
/** The wait for an answer that isn't a stream, in milliseconds. */
const PATIENCE = 10_000;

export class Requests {
  readonly query: URLSearchParams;
  readonly #url: URL;
  readonly #headers: Headers;
  /** The token of a function that hasn't returned yet. */
  #renewal: Promise<string> | undefined;

  /** `control` has the parameters that we need. */
  constructor(
    url: string | URL,
    private readonly options: RequestOptions,
    control: Record<string, string>,
  ) {
    this.#url = new URL(url, globalThis.location?.href);
    if (this.#url.username || this.#url.password) {
      throw new TypeError("the URL has a user or a password; send them in the option headers, as Authorization");
    }
    this.query = this.#url.searchParams;
    if (!this.query.has("_numbers")) this.query.set("_numbers", "string");
    for (const [name, value] of Object.entries({ ...options.params, ...control })) {
      if (value === null || value === undefined) this.query.delete(name);
      else this.query.set(name, String(value));
    }
    this.#headers = new Headers(options.headers);
    const { token } = options;
    if (token === undefined || token === null) return;
    if (this.#headers.has("Authorization")) throw new TypeError("the option headers has an Authorization beside token; leave one of them out");
    if (typeof token !== "function") this.#authorize(token);
  }

  /** A new connection. The caller closes it. */
  connect(): Connection {
    return new Connection(this.options.signal, this.options.firstRowTimeout ?? 0);
  }

  /** The headers of an answer that isn't an error. */
  async open(connection: Connection): Promise<Headers> {
    let { status, headers } = await this.#fetch(connection, this.#url);
    if (status === 401 && typeof this.options.token === "function") {
      // The token may have expired meanwhile.
      ({ status, headers } = await this.#fetch(connection, this.#url));
    }
    // Browsers hide the status of a redirect.
    if (status === 0 || (status >= 300 && status < 400)) {
      throw new RowstreamError({ detail: "the URL redirects, and the client doesn't follow; use the new URL" }, status);
    }
    if (status !== 200) {
      connection.timeout = PATIENCE;
      throw problem(status, headers, await connection.text(LONGEST_PROBLEM));
    }
    connection.timeout = this.options.readTimeout ?? 3000 * Number(headers.get("rowstream-heartbeat"));
    return headers;
  }

  /** The server's reason for a cut: browsers drop the error record of an aborted response. */
  async reason(headers: Headers): Promise<RowstreamError | undefined> {
    const id = headers.get("rowstream-stream");
    if (!id) return undefined;
    // A proxy may serve the server below a prefix.
    const root = /^(\.\/|(\.\.\/)+)$/.exec(headers.get("rowstream-root") ?? "")?.[0] ?? "/";
    const connection = this.connect();
    connection.timeout = PATIENCE;
    try {
      const { ok } = await this.#fetch(connection, new URL(`${root}_rowstream/streams/${encodeURIComponent(id)}`, this.#url));
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

  async #fetch(connection: Connection, url: URL): Promise<Response> {
    const { token } = this.options;
    if (typeof token === "function") this.#authorize(await connection.call(() => this.#renew(token)));
    return connection.open(this.options.fetch ?? fetch, url, this.#headers);
  }

  /** A call that outlasts its request serves the next one. */
  #renew(token: () => string | Promise<string>): Promise<string> {
    return (this.#renewal ??= (async () => token())().finally(() => {
      this.#renewal = undefined;
    }));
  }

  #authorize(token: unknown): void {
    // The error of `Headers` would show it.
    if (typeof token !== "string" || !/^[!-~]+$/.test(token)) {
      throw new TypeError("the token isn't one word of visible ASCII characters: check the option token");
    }
    this.#headers.set("Authorization", `Bearer ${token}`);
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
  return new RowstreamError({ retry: PASSING.includes(status), retry_after: delay(headers.get("retry-after") ?? "") }, status);
}

/** The seconds of a `Retry-After`, which may be a date. */
function delay(after: string): number | undefined {
  if (/^\d+$/.test(after)) return Number(after);
  // Other forms would be local times, or just numbers.
  const seconds = / GMT$/.test(after) ? Math.ceil((Date.parse(after) - Date.now()) / 1000) : NaN;
  return Number.isNaN(seconds) ? undefined : seconds;
}
