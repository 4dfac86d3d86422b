// A table of any length: of its rows those that are seen are in the page.

import { LitElement, html, nothing } from "lit";
import { count } from "./format.js";
import { type Column, type Item, type Rows, members, shown } from "./rows.js";
import { styled } from "./styled.js";

const ROW = 29;
const BEYOND = 8;
/** The widths of a letter and of what stands around a value, in pixels. */
const LETTER = 7.9;
const AROUND = 26;

export class RowTable extends LitElement {
  static properties = {
    rows: { attribute: false },
    total: { attribute: false },
    follows: { attribute: false },
    picked: { state: true },
  };
  declare rows: Rows;
  /** Renders anew when it changes. */
  declare total: number;
  /** Whether the last row stays in sight. */
  declare follows: boolean;
  declare picked: number;
  #observer = new ResizeObserver(() => this.requestUpdate());

  constructor() {
    super();
    this.picked = -1;
  }

  protected createRenderRoot() {
    return this;
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.#observer.observe(this);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#observer.disconnect();
  }

  get #scroller(): HTMLElement | null {
    return this.querySelector(".scroller");
  }

  protected updated(): void {
    const scroller = this.#scroller;
    if (this.follows && scroller) scroller.scrollTop = scroller.scrollHeight;
  }

  protected render() {
    const columns = [...this.rows.columns];
    const scroller = this.#scroller;
    const [top, height] = [scroller?.scrollTop ?? 0, scroller?.clientHeight || 600];
    const from = Math.max(0, Math.min(Math.floor(top / ROW), this.rows.length) - BEYOND);
    const to = Math.min(this.rows.length, Math.ceil((top + height) / ROW) + BEYOND);
    const lines = [];
    for (let index = from; index < to; index += 1) {
      const item = this.rows.at(index);
      if (item) lines.push(this.#line(index, item, columns));
    }
    const widths = [count(this.rows.total).length, ...columns.map(([, { letters }]) => letters)].map((letters) =>
      Math.round(letters * LETTER + AROUND),
    );
    const width = `${widths.reduce((sum, width) => sum + width)}px`;
    const isLong = columns.map(([, column]) => column.isLong);
    return html`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${() => this.requestUpdate()}
      @keydown=${this.#key}
    >
      <div class="sizer" ${styled({ height: `${(this.rows.length + 1) * ROW}px` })}>
        <table
          aria-rowcount=${this.rows.total + 1}
          ${styled({ top: `${from * ROW}px`, minWidth: width, width: isLong.includes(true) ? "100%" : width })}
        >
          <colgroup>
            ${widths.map(
              // Columns without a width share the room that is left; the first is that of the row numbers.
              (width, at) => html`<col ${styled({ width: isLong[at - 1] ? "" : `${width}px` })} />`,
            )}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="at">#</th>
              ${columns.map(
                ([name, { isNumber }]) =>
                  html`<th scope="col" class=${isNumber ? "number" : ""} title=${name}>${name}</th>`,
              )}
            </tr>
          </thead>
          <tbody>
            ${lines}
          </tbody>
        </table>
      </div>
    </div>`;
  }

  #line(index: number, item: Item, columns: [string, Column][]) {
    if ("from" in item) {
      const text = `rows ${count(item.from)} to ${count(item.to)} have passed and aren't kept`;
      return html`<tr class="gap"><td colspan=${columns.length + 1}><span>${text}</span></td></tr>`;
    }
    const values = new Map(members(item.line));
    return html`<tr
      class=${index === this.picked ? "picked" : ""}
      aria-rowindex=${item.row + 1}
      @click=${() => this.#pick(index)}
      @dblclick=${() => this.#open(index)}
    >
      <th scope="row" class="at">${count(item.row)}</th>
      ${columns.map(([name]) => cell(values.get(name)))}
    </tr>`;
  }

  #pick(index: number): void {
    this.picked = Math.max(0, Math.min(index, this.rows.length - 1));
    const scroller = this.#scroller;
    if (!scroller) return;
    const top = this.picked * ROW;
    const last = scroller.scrollTop + scroller.clientHeight - 3 * ROW;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top > last) scroller.scrollTop += top - last;
  }

  #open(index: number): void {
    const item = this.rows.at(index);
    if (!item || "from" in item) return;
    this.dispatchEvent(new CustomEvent("open-row", { detail: item, bubbles: true }));
  }

  #key(event: KeyboardEvent): void {
    const page = Math.floor((this.#scroller?.clientHeight ?? 0) / ROW) - 2;
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    const step = steps[event.key];
    if (event.key === "Enter") this.#open(this.picked);
    else if (step !== undefined) this.#pick(Math.max(-1, this.picked) + step);
    else return;
    event.preventDefault();
  }
}

function cell(json: string | undefined) {
  if (json === undefined) return html`<td></td>`;
  const { kind, text } = shown(json);
  // A cell of a megabyte would be laid out whole.
  const short = text.length > 300 ? `${text.slice(0, 300)}…` : text;
  return html`<td class=${kind} title=${text.length > 30 ? short : nothing}>${short}</td>`;
}

customElements.define("rs-table", RowTable);
