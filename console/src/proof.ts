// Counts the rows of a response that is shown as text, and finds its end, with the code of the client.

import { Lines } from "../../clients/js/src/lines.js";
import { Reading, tagOf } from "../../clients/js/src/reading.js";
import type { FramedText } from "./run.js";

export class Proof {
  readonly #lines = new Lines();
  readonly #reading: Reading;
  /** Lines end with LF. In `json-seq`, a line also contains the separator before it, and perhaps heartbeats. */
  readonly #separator: string;

  /** Throws the error of headers without a tag. */
  constructor(format: FramedText, headers: Headers) {
    this.#separator = format === "sse" ? "\n" : "\u001e";
    this.#reading = new Reading(format === "sse" ? "sse" : "ndjson", tagOf(headers), "final", undefined);
  }

  /** True once the end record has confirmed the number of rows. */
  get isComplete(): boolean {
    return this.#reading.end !== undefined;
  }

  /** Throws the error of a record, or of rows that are missing or damaged. */
  push(bytes: Uint8Array): void {
    const parts = this.#lines.push(bytes).flatMap((line) => line.split(this.#separator));
    if (!this.isComplete) this.#reading.lines(parts);
    this.#reading.flush();
    this.#reading.take();
  }
}
