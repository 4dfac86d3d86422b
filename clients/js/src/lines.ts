// Divides bytes into lines. Only LF ends a line, and bytes after the last LF aren't one.

import { Cut } from "./errors.js";

/** The longest line, in bytes. A server sends longer ones only if lists in a row are that long. */
const LONGEST = 128 << 20;

export class Lines {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** The beginning of a line. */
  #parts: Uint8Array[] = [];
  #size = 0;

  /** The lines that end within these bytes. */
  push(bytes: Uint8Array): string[] {
    const end = bytes.lastIndexOf(10);
    const lines = end < 0 ? [] : this.#join(bytes.subarray(0, end)).split("\n");
    if (end + 1 < bytes.length) {
      this.#size += bytes.length - end - 1;
      this.#parts.push(bytes.subarray(end + 1));
    }
    if (this.#size > LONGEST) {
      throw new Cut(`a row is longer than ${LONGEST >> 20} MiB; read its lists from endpoints of their own`, false);
    }
    return lines;
  }

  #join(last: Uint8Array): string {
    let bytes = last;
    if (this.#parts.length > 0) {
      bytes = new Uint8Array(this.#size + last.length);
      let at = 0;
      for (const part of this.#parts) {
        bytes.set(part, at);
        at += part.length;
      }
      bytes.set(last, at);
      [this.#parts, this.#size] = [[], 0];
    }
    return decode(this.#decoder, bytes);
  }
}

export function decode(decoder: TextDecoder, bytes: Uint8Array, options?: TextDecodeOptions): string {
  try {
    return decoder.decode(bytes, options);
  } catch (cause) {
    throw new Cut("a part isn't UTF-8", true, cause);
  }
}
