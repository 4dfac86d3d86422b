// The same answer read as most clients read it, whole and then parsed, and read as its rows come:
// when there is a first row to show, and how much has to be held for it.

import { LitElement, html, nothing } from "lit";
import { bytes, count, duration, noun } from "./format.js";
import { problem } from "./problem.js";
import { Run } from "./run.js";
import { ADMIN, type Problem, problemOf, request } from "./server.js";
import { styled } from "./styled.js";

/** How often the server is asked for its memory, in milliseconds. */
const EVERY = 250;
const RESIDENT = /^process_resident_memory_bytes (\S+)$/m;

interface Request {
  url: URL;
  headers: Record<string, string>;
}

/** One way of reading. Times are in milliseconds from the request. */
interface Side {
  name: string;
  firstRow: number;
  whole: number;
  /** The most text that was held at once, in letters. */
  held: number;
  /** The most that was resident in the server, in bytes; 0 where the metrics may not be seen. */
  server: number;
}

export class CompareView extends LitElement {
  static properties = {
    request: { attribute: false },
    sides: { state: true },
    rows: { state: true },
    problem: { state: true },
    isRunning: { state: true },
  };
  /** The request of the form, or nothing while the form is wrong. */
  declare request: () => Request | undefined;
  declare sides: Side[];
  declare rows: number;
  declare problem?: Problem;
  declare isRunning: boolean;
  #abort = new AbortController();

  constructor() {
    super();
    this.sides = [];
    this.rows = 0;
    this.isRunning = false;
  }

  protected createRenderRoot() {
    return this;
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#abort.abort();
  }

  /** One after the other, so that neither takes the other's time. */
  async #compare(): Promise<void> {
    const asked = this.request();
    if (!asked || this.isRunning) return;
    this.isRunning = true;
    this.sides = [];
    this.problem = undefined;
    this.#abort = new AbortController();
    try {
      for (const read of [this.#streamed, this.#buffered]) this.sides = [...this.sides, await this.#watched(read, asked)];
    } catch (error) {
      const title = this.#abort.signal.aborted ? "Stopped" : "The comparison failed";
      this.problem = error instanceof Error ? { title, detail: error.message } : (error as Problem);
    }
    this.isRunning = false;
  }

  /** Reads in one of the ways, and looks at the server's memory meanwhile. */
  async #watched(read: (asked: Request) => Promise<Omit<Side, "server">>, asked: Request): Promise<Side> {
    let server = 0;
    const look = async () => {
      const response = await request(new URL("metrics", ADMIN)).catch(() => undefined);
      const found = response?.ok ? RESIDENT.exec(await response.text()) : null;
      server = Math.max(server, Number(found?.[1] ?? 0));
    };
    await look();
    const timer = setInterval(() => void look(), EVERY);
    try {
      return { ...(await read(asked)), server };
    } finally {
      clearInterval(timer);
    }
  }

  #streamed = async ({ url, headers }: Request) => {
    let held = 0;
    const run = new Run({ url: inFormat(url, "ndjson"), headers, reads: "rows" }, () => {
      held = Math.max(held, run.rows.text);
    });
    this.#abort.signal.addEventListener("abort", () => run.cancel());
    await run.start();
    if (run.problem) throw run.problem;
    if (run.state !== "complete" && run.state !== "unproved") throw new Error(run.why || "It was stopped.");
    this.rows = run.rows.total;
    return { name: "As rows come", firstRow: run.firstRow ?? run.elapsed, whole: run.elapsed, held };
  };

  #buffered = async ({ url, headers }: Request) => {
    const started = performance.now();
    const response = await request(inFormat(url, "json"), { headers, signal: this.#abort.signal });
    if (!response.ok) throw await problemOf(response);
    const text = await response.text();
    JSON.parse(text);
    const whole = performance.now() - started;
    return { name: "Read whole, then parsed", firstRow: whole, whole, held: text.length };
  };

  protected render() {
    return html`<details class="card compare">
      <summary>Compare with reading it whole</summary>
      <p>
        Reads the answer twice: as its rows come, and as most clients do, whole and then parsed. The second holds all of
        it in this tab.
      </p>
      <div class="actions">
        <button
          type="button"
          class=${this.isRunning ? "stop" : ""}
          @click=${() => (this.isRunning ? this.#abort.abort() : this.#compare())}
        >
          ${this.isRunning ? "Stop" : "Compare"}
        </button>
        <span class="quiet" role="status">
          ${this.isRunning ? "Reading …" : this.sides.length === 2 ? `${count(this.rows)} ${noun(this.rows, "row")}, twice` : ""}
        </span>
      </div>
      ${this.problem ? problem(this.problem) : nothing} ${this.sides.length ? this.#table() : nothing}
    </details>`;
  }

  #table() {
    const line = (name: string, value: (side: Side) => number, shown: (value: number) => string) => {
      const most = Math.max(...this.sides.map(value), 1e-9);
      return html`<tr>
        <th scope="row">${name}</th>
        ${this.sides.map(
          (side) => html`<td>
            ${shown(value(side))}
            <div class="bar" aria-hidden="true">
              <i class="database" ${styled({ flexGrow: String(value(side) / most) })}></i
              ><i ${styled({ flexGrow: String(1 - value(side) / most) })}></i>
            </div>
          </td>`,
        )}
      </tr>`;
    };
    return html`<table>
      <thead>
        <tr>
          <td></td>
          ${this.sides.map(({ name }) => html`<th scope="col">${name}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${line("First row after", ({ firstRow }) => firstRow, duration)}
        ${line("All rows after", ({ whole }) => whole, duration)}
        ${line("Text held in this tab", ({ held }) => held, bytes)}
        ${this.sides.every(({ server }) => server > 0)
          ? line("Memory of the server, at most", ({ server }) => server, bytes)
          : nothing}
      </tbody>
    </table>`;
  }
}

function inFormat(url: URL, format: string): URL {
  const asked = new URL(url);
  asked.searchParams.set("_format", format);
  asked.searchParams.delete("_follow");
  if (format !== "ndjson") asked.searchParams.delete("_end");
  return asked;
}

customElements.define("rs-compare", CompareView);
