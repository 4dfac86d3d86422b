// One request, whose every end closes its connection, so that the server cancels the statement.

import { Cut } from "./errors.js";

/** The longest time of a timer, in milliseconds. */
const LONGEST = 2 ** 31 - 1;

export class Connection {
  readonly #controller = new AbortController();
  readonly #signal: AbortSignal | undefined;
  #interrupt: (() => void) | undefined;
  readonly #stop = () => {
    this.#controller.abort();
    this.#interrupt?.();
  };
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(
    signal: AbortSignal | undefined,
    /** The longest wait for the headers or for further bytes, in milliseconds. 0 is no limit. */
    public timeout: number,
  ) {
    this.#signal = signal;
    signal?.addEventListener("abort", this.#stop);
    if (signal?.aborted) this.#stop();
  }

  /** Sends a request. The rest of an earlier answer is dropped. */
  async open(fetch: typeof globalThis.fetch, url: URL, headers: Headers): Promise<Response> {
    this.#reader?.cancel().catch(() => {});
    // A redirect could send the headers and the parameters to another origin.
    const init: RequestInit = { headers, signal: this.#controller.signal, redirect: "manual" };
    const response = await this.#wait(fetch(url, init));
    this.#reader = response.body?.getReader();
    return response;
  }

  /** The result of a caller's function, whose error isn't a cut. */
  async call<T>(get: () => T | Promise<T>): Promise<T> {
    this.#signal?.throwIfAborted();
    let thrown: { error: unknown } | undefined;
    const result = await this.#wait(
      (async () => get())().catch((error: unknown) => {
        thrown = { error };
      }),
    );
    if (thrown) throw thrown.error;
    return result as T;
  }

  /** The next bytes. They're requested only now, so a slow caller slows the server. */
  async read(): Promise<Uint8Array | undefined> {
    return this.#reader && (await this.#wait(this.#reader.read())).value;
  }

  /** A short body, of which `limit` bytes suffice. */
  async text(limit: number): Promise<string> {
    const decoder = new TextDecoder();
    let text = "";
    for (let bytes = await this.read(); bytes; bytes = await this.read()) {
      text += decoder.decode(bytes, { stream: true });
      if (text.length > limit) break;
    }
    return text;
  }

  /** Reads the end of the body, so that the next request can use the connection. Doesn't wait for it. */
  finish(): void {
    this.timeout = 1000;
    this.text(1000).catch(() => {}).finally(() => this.close());
  }

  close(): void {
    this.#signal?.removeEventListener("abort", this.#stop);
    this.#controller.abort();
  }

  /** Waits for a step of the request, but not longer than allowed: an aborted read may stay pending. */
  async #wait<T>(promise: Promise<T>): Promise<T> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const interrupted = new Promise<never>((_, reject) => {
      this.#interrupt = reject;
      if (this.#signal?.aborted) reject();
      const silence = () => reject(new Cut(`nothing arrived for ${this.timeout / 1000} seconds`));
      if (this.timeout > 0) timer = setTimeout(silence, Math.min(this.timeout, LONGEST));
    });
    try {
      return await Promise.race([promise, interrupted]);
    } catch (cause) {
      this.#signal?.throwIfAborted();
      throw cause instanceof Cut ? cause : new Cut("the connection was lost", true, cause);
    } finally {
      clearTimeout(timer);
    }
  }
}
