// Divides bytes into lines. Only LF ends a line, and bytes after the last LF aren't one.

import { Cut } from "./errors.js";

/** The longest line, in bytes. A server sends longer ones only if lists in a row are that long. */
const LONGEST = 128 << 20;

export class Lines {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** The beginning of a line, in the first bytes. Grows by doubling, so many small parts cost little. */
  #buffer = new Uint8Array(0);
  #size = 0;

  /** The lines that end within these bytes. */
  push(bytes: Uint8Array): string[] {
    const [first, last] = [bytes.indexOf(10), bytes.lastIndexOf(10)];
    const lines = first < last ? decode(this.#decoder, bytes.subarray(first + 1, last)).split("\n") : [];
    if (first >= 0) lines.unshift(this.#join(bytes.subarray(0, first)));
    this.#append(bytes.subarray(last + 1));
    if (this.#size > LONGEST) {
      throw new Cut(`a row is longer than ${LONGEST >> 20} MiB; read its lists from endpoints of their own`, false);
    }
    return lines;
  }

  /** The line that began in earlier bytes. Only this one is copied. */
  #join(end: Uint8Array): string {
    this.#append(end);
    const bytes = this.#buffer.subarray(0, this.#size);
    [this.#buffer, this.#size] = [new Uint8Array(0), 0];
    return decode(this.#decoder, bytes);
  }

  #append(bytes: Uint8Array): void {
    const size = this.#size + bytes.length;
    if (size > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(size, 2 * this.#buffer.length));
      larger.set(this.#buffer.subarray(0, this.#size));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.#size);
    this.#size = size;
  }
}

export function decode(decoder: TextDecoder, bytes: Uint8Array, options?: TextDecodeOptions): string {
  try {
    return decoder.decode(bytes, options);
  } catch (cause) {
    throw new Cut("a part isn't UTF-8", true, cause);
  }
}
