// Reads one list of a JSON body while it arrives. A body has no cursors, so it isn't resumed.

import { Elements } from "./elements.js";
import { Cut, IncompleteStream, RowstreamError } from "./errors.js";
import { decode } from "./lines.js";
import { type RequestOptions, Requests } from "./request.js";

export class Body {
  /** Use `stream`. */
  constructor(
    private readonly url: string | URL,
    private readonly options: RequestOptions,
  ) {}

  /**
   * The rows of the list at a JSON pointer, such as `/_embedded/articles`. Reads the rest of the body, too,
   * because only its last bracket proves that nothing is missing.
   */
  async *at<Row = Record<string, unknown>>(pointer: string): AsyncGenerator<Row, void> {
    const requests = new Requests(this.url, this.options, { _format: "json" });
    const [elements, connection] = [new Elements(pointer), requests.connect()];
    const decoder = new TextDecoder("utf-8", { fatal: true });
    let headers: Headers | undefined;
    let rows = 0;
    try {
      headers = await requests.open(connection);
      while (!elements.isWhole) {
        const bytes = await connection.read();
        if (!bytes) throw new Cut("the end is missing");
        for (const row of elements.push(decode(decoder, bytes, { stream: true }))) {
          rows += 1;
          yield row as Row;
          this.options.signal?.throwIfAborted();
        }
      }
    } catch (error) {
      const reason = error instanceof Cut && headers ? await requests.reason(headers) : undefined;
      if (!reason && error instanceof Cut) throw new IncompleteStream(error.message, { rows }, error.cause);
      const thrown = reason ?? error;
      throw thrown instanceof RowstreamError ? Object.assign(thrown, { rows }) : thrown;
    } finally {
      if (elements.isWhole) connection.finish();
      else connection.close();
    }
    if (!elements.isFound) throw new Error(`the body has no list at ${JSON.stringify(pointer)}`);
  }
}

/** Reads lists of an endpoint's JSON body. */
export function stream(url: string | URL, options: RequestOptions = {}): Body {
  return new Body(url, options);
}
