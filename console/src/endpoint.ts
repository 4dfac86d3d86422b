// One endpoint: its form, and what comes of running it.

import { LitElement, html, nothing } from "lit";
import { keyed } from "lit/directives/keyed.js";
import { live } from "lit/directives/live.js";
import { repeat } from "lit/directives/repeat.js";
import { bytes, count, duration, noun } from "./format.js";
import { type Endpoint, PAGE, type Param, labelOf, typeName } from "./openapi.js";
import { type Asked, FRAMED, Run, type State } from "./run.js";
import { estimate } from "./plan.js";
import { problem } from "./problem.js";
import { members } from "./rows.js";
import { ROOT, request, token } from "./server.js";
import { snippets } from "./snippets.js";
import { styled } from "./styled.js";
import "./compare.js";
import "./table.js";

/** Bytes per second at which a client reads, by the places of the slider. */
const SPEEDS = [0, 4_000_000, 1_000_000, 250_000, 50_000, 10_000];
/** A rate is shown of runs with so many rows. */
const LEAST_ROWS = 1000;
const PHASES = ["pool", "database", "encode", "client"];
const SAID: Record<State, string> = {
  waiting: "Waiting for the first row",
  running: "Streaming",
  complete: "Complete",
  unproved: "Ended, not proved whole",
  truncated: "Truncated",
  failed: "Failed",
  cancelled: "Cancelled",
};
const NAMES: Record<string, string> = {
  ndjson: "NDJSON (table)",
  json: "JSON",
  csv: "CSV",
  sse: "Server-sent events",
  "json-seq": "JSON text sequence",
  arrow: "Arrow",
};

export class EndpointView extends LitElement {
  static properties = {
    endpoint: { attribute: false },
    query: { attribute: false },
    isFollowing: { state: true },
    isPaused: { state: true },
    speed: { state: true },
    language: { state: true },
    said: { state: true },
  };
  declare endpoint: Endpoint;
  /** The form as the address of the page has it. */
  declare query: URLSearchParams;
  declare isFollowing: boolean;
  declare isPaused: boolean;
  declare speed: number;
  declare language: number;
  /** What a screen reader says next. */
  declare said: string;
  run?: Run;
  /** The dates and times that are written as text. */
  #texts = new Set<string>();
  /** True once the query has had an option. An option that is cleared doesn't fold its field away. */
  #hasOptions = false;
  #isDue = false;
  /** What the table shows while it is paused. */
  #pausedAt = 0;

  constructor() {
    super();
    this.isFollowing = this.isPaused = false;
    this.speed = this.language = 0;
    this.said = "";
  }

  protected createRenderRoot() {
    return this;
  }

  protected willUpdate(changed: Map<string, unknown>): void {
    const before = changed.get("endpoint") as Endpoint | undefined;
    if (before && before.path !== this.endpoint.path) this.#forget();
    this.#hasOptions ||= this.endpoint.options.some(({ name }) => this.query.has(name));
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.#forget();
  }

  #forget(): void {
    this.run?.cancel();
    this.run = undefined;
    this.isFollowing = this.isPaused = false;
    this.said = "";
    this.#texts.clear();
    this.#hasOptions = false;
  }

  /** Once per frame at most, however fast rows come. */
  #changed = (): void => {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.requestUpdate();
    });
  };

  get #format(): string {
    const { formats } = this.endpoint;
    const asked = this.query.get("_format") ?? "";
    if (formats.includes(asked)) return asked;
    return formats.includes("ndjson") ? "ndjson" : (formats[0] ?? "");
  }

  get #follows(): boolean {
    return this.endpoint.controls.has("_follow") && this.query.get("_follow") === "1";
  }

  get #isFramed(): boolean {
    return FRAMED.includes(this.#format) && this.endpoint.controls.has("_end");
  }

  get #reads(): Asked["reads"] {
    if (this.#format === "arrow") return "bytes";
    if ((this.#format === "sse" || this.#format === "json-seq") && this.#isFramed) return this.#format;
    if (this.#format !== "ndjson") return "text";
    // The client reads a live tail as events.
    return this.#follows && this.endpoint.formats.includes("sse") ? "tail" : "rows";
  }

  /** The request of the form, as others would send it. */
  #request(): { url: URL; headers: Record<string, string> } {
    let path = this.endpoint.path;
    const query = new URLSearchParams();
    const headers: Record<string, string> = {};
    for (const param of [...this.endpoint.params, ...this.endpoint.options]) {
      const value = this.query.get(param.name) ?? "";
      if (param.in === "path") path = path.replace(`{${param.name}}`, encodeURIComponent(value));
      else if (value === "") continue;
      else if (param.in === "header") headers[param.name] = value;
      else if (param.schema.type === "object")
        for (const [column, condition] of conditions(value)) query.append(column, condition);
      else for (const item of items(param, value)) query.append(param.name, item);
    }
    const format = this.#format;
    if (format) query.set("_format", format);
    if (this.#isFramed) query.set("_end", "1");
    if (this.#follows) query.set("_follow", "1");
    const url = new URL(path.replace(/^\//, "./"), ROOT);
    url.search = query.toString();
    return { url, headers };
  }

  #set(name: string, value: string): void {
    const query = new URLSearchParams(this.query);
    if (value === "") query.delete(name);
    else query.set(name, value);
    this.query = query;
    const search = query.toString();
    history.replaceState(null, "", `#/endpoints${this.endpoint.path}${search && `?${search}`}`);
  }

  /** Changes between the picker and a field for text, which takes offsets and microseconds as well. */
  #toggle(name: string): void {
    if (!this.#texts.delete(name)) this.#texts.add(name);
    this.requestUpdate();
  }

  async #start(event?: Event): Promise<void> {
    event?.preventDefault();
    this.run?.cancel();
    this.isPaused = false;
    const { url, headers } = this.#request();
    this.run = new Run({ url, headers, reads: this.#reads }, this.#changed);
    this.isFollowing = this.#follows;
    if (this.run.isRows && !this.#follows && this.endpoint.controls.has("_explain")) void this.#expect(this.run);
    await this.#watch(this.run, this.run.start());
  }

  async #expect(run: Run): Promise<void> {
    run.expected = await estimate(run.asked);
    this.#changed();
  }

  async #watch(run: Run, ended: Promise<void>): Promise<void> {
    run.limit = SPEEDS[this.speed] ?? 0;
    this.said = "Running";
    this.requestUpdate();
    await ended;
    if (run !== this.run) return;
    const { total } = run.rows;
    this.said = `${SAID[run.state]}, ${count(total)} ${noun(total, "row")}. ${run.problem?.detail ?? run.why}`;
  }

  /** Its button is gone while the run goes on, so the one that cancels gets the focus. */
  #resume(run: Run): void {
    this.querySelector<HTMLElement>("form button.run")?.focus();
    void this.#watch(run, run.resume());
  }

  #slow(event: Event): void {
    this.speed = Number((event.target as HTMLInputElement).value);
    if (this.run) this.run.limit = SPEEDS[this.speed] ?? 0;
  }

  #pause(): void {
    this.isPaused = !this.isPaused;
    this.#pausedAt = this.run?.rows.total ?? 0;
  }

  async #copy(what: string, text: string): Promise<void> {
    await navigator.clipboard.writeText(text);
    this.said = `${what} copied`;
  }

  protected render() {
    const { name, summary, needsToken } = this.endpoint;
    return html`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${pathOf(name)}</h1>
        <span class="grow"></span>
        ${this.#pageButton()}
        <button class="quiet" @click=${() => this.#copy("Link", location.href)}>Copy link</button>
      </header>
      ${summary ? html`<p class="summary">${summary}</p>` : nothing}
      ${needsToken && !token() ? html`<p class="note">This endpoint needs a token. Enter yours at the top of the page.</p>` : nothing}
      ${this.#form()} ${this.run ? this.#result(this.run) : nothing} ${this.#code()}
      ${this.#plan()} ${this.#comparison()} ${this.#columns()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`;
  }

  #form() {
    const { params, formats, controls } = this.endpoint;
    // One button runs and cancels, so that it keeps the focus.
    const isRunning = this.run?.isRunning ?? false;
    return html`<form class="card" @submit=${this.#start}>
      ${params.length
        ? html`<div class="fields">${repeat(params, (param) => param.name, (param) => this.#field(param))}</div>`
        : html`<p class="quiet">This endpoint has no parameters.</p>`}
      ${this.#options()}
      <div class="actions">
        ${formats.length > 1
          ? html`<label class="inline"
              ><span>Format</span>
              <select @change=${(event: Event) => this.#set("_format", (event.target as HTMLSelectElement).value)}>
                ${formats.map(
                  (format) => html`<option value=${format} ?selected=${format === this.#format}>
                    ${NAMES[format] ?? format}
                  </option>`,
                )}
              </select></label
            >`
          : nothing}
        ${controls.has("_follow")
          ? html`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${live(this.#follows)}
                @change=${(event: Event) => this.#set("_follow", (event.target as HTMLInputElement).checked ? "1" : "")}
              /><span>Live tail</span></label
            >`
          : nothing}
        <span class="grow"></span>
        <button
          type=${isRunning ? "button" : "submit"}
          class=${isRunning ? "stop" : "run"}
          @click=${() => isRunning && this.run?.cancel()}
        >
          ${isRunning ? "Cancel" : "Run"}
        </button>
        <button type="button" @click=${this.#download} title="Save all of it to a file">Download</button>
      </div>
    </form>`;
  }

  /** Parameters of the response, folded unless the page's address has one. */
  #options() {
    const { path, options } = this.endpoint;
    if (options.length === 0) return nothing;
    const details = html`<details class="options" ?open=${this.#hasOptions}>
      <summary>Options of the response</summary>
      <div class="fields">${repeat(options, (option) => option.name, (option) => this.#field(option))}</div>
    </details>`;
    return keyed(path, details);
  }

  #field(param: Param) {
    const { name, schema, required } = param;
    const id = `param-${name}`;
    const label = labelOf(param);
    const value = this.query.get(name) ?? "";
    const fallback = schema.default === undefined || schema.default === null ? "" : String(schema.default);
    const set = (event: Event) => {
      const input = event.target as HTMLInputElement;
      // A field doesn't become a picker while one writes into it.
      if (input.type === "text") this.#texts.add(name);
      this.#set(name, input.value);
    };
    const fitting = picker(schema, value);
    const type = this.#texts.has(name) ? "text" : (fitting ?? "text");
    const isText = type === "text";
    const choices = schema.enum ?? schema.items?.enum ?? (schema.type === "boolean" ? [true, false] : undefined);
    const isChoice = choices && schema.type !== "array";
    return html`<div class="field">
      <label for=${id}
        >${label}${required ? html`<span class="required" title="required">*</span>` : nothing}
        <span class="type">${typeName(schema)}</span></label
      >
      ${isChoice
        ? html`<select id=${id} ?required=${required} aria-describedby="${id}-more" @change=${set}>
            <option value="" ?selected=${value === ""}>${fallback || (required ? "choose" : "not given")}</option>
            ${choices.map(
              (choice) => html`<option value=${String(choice)} ?selected=${value === String(choice)}>${choice}</option>`,
            )}
          </select>`
        : html`<input
            id=${id}
            type=${type}
            step=${schema.format === "date-time" ? "1" : nothing}
            .value=${live(isText ? value : value.replace(/Z$/, ""))}
            ?required=${required}
            placeholder=${fallback || placeholder(param)}
            inputmode=${schema.type === "integer" ? "numeric" : "text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${id}-more"
            @input=${set}
          />`}
      <small id="${id}-more">${withCode(more(param, isText, fallback))}</small>
      ${fitting
        ? html`<button type="button" class="link" @click=${() => this.#toggle(name)}>
            ${isText ? "Use the picker" : "Write as text"}<span class="spoken"> for ${label}</span>
          </button>`
        : nothing}
    </div>`;
  }

  #result(run: Run) {
    const took = run.elapsed;
    const { total } = run.rows;
    const isLonger = run.isRunning && (run.expected ?? 0) > total;
    return html`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${run.state}" data-state=${run.state}>${SAID[run.state]}</span>
        ${run.isRows ? fact(noun(total, "row"), count(total)) : nothing}
        ${isLonger ? fact("expected by the planner", `of some ${count(run.expected!)}`) : nothing}
        ${total >= LEAST_ROWS ? fact("rows/s", count((total / took) * 1000)) : nothing}
        ${fact("received", bytes(run.bytes))}
        ${run.resumed > 0 ? fact("resumed", `${count(run.resumed)} ×`) : nothing}
        ${fact("time", duration(took))}
        ${run.firstRow === undefined ? nothing : fact("first row", duration(run.firstRow))}
        <span class="grow"></span>
        ${this.#steering(run)}
      </div>
      ${run.again ? html`<p class="note" role="status">Trying again: ${run.again}.</p>` : nothing}
      ${run.why ? html`<p class="warning" role="alert">This answer is not whole: ${run.why}.</p>` : nothing}
      ${run.state === "unproved"
        ? html`<p class="note">
            We can't tell if this is the whole answer: it was compressed on its way, and its format has no record at its
            end. NDJSON has one.
          </p>`
        : nothing}
      ${run.problem ? problem(run.problem) : nothing} ${phases(run)} ${this.#body(run)}
      <div class="progress reading">${this.#reading(run)}</div>
    </section>`;
  }

  #steering(run: Run) {
    const canResume = run.mark && !run.isRunning && run.state !== "complete";
    return html`${run.isRunning && run.isRows
        ? html`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#pause}>
            ${this.isPaused ? `Go on (${count(run.rows.total - this.#pausedAt)} new)` : "Pause"}
          </button>`
        : nothing}
      ${canResume
        ? html`<button class="run" @click=${() => this.#resume(run)}>
            Resume after row ${count(run.mark!.rows)}
          </button>`
        : nothing}`;
  }

  /** How this page reads the rows. */
  #reading(run: Run) {
    return html`${run.rows.total
        ? html`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${live(this.isFollowing)}
              @change=${(event: Event) => (this.isFollowing = (event.target as HTMLInputElement).checked)}
            /><span>Keep the last row in sight</span></label
          >`
        : nothing}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${SPEEDS.length - 1}
          .value=${live(String(this.speed))}
          aria-valuetext=${speedName(this.speed)}
          @input=${this.#slow}
        /><output>${speedName(this.speed)}</output></label
      >`;
  }

  #body(run: Run) {
    if (run.isRows) {
      if (run.rows.total === 0) {
        return run.state === "complete" ? html`<p class="empty">There are no rows.</p>` : nothing;
      }
      const total = this.isPaused ? this.#pausedAt : run.rows.total;
      return html`<rs-table
        .rows=${run.rows}
        .total=${total}
        .follows=${this.isFollowing && !this.isPaused}
        @open-row=${this.#open}
      ></rs-table>`;
    }
    if (run.asked.reads === "bytes") return html`<p class="empty">Arrow is binary: download it to read it.</p>`;
    if (!run.text) return nothing;
    const isAll = run.bytes <= run.text.length * 3 && run.text.length < 100_000;
    return html`<pre class="text" tabindex="0" role="region" aria-label="The answer">${run.text}</pre>
      ${isAll ? nothing : html`<p class="quiet">This is the beginning of ${bytes(run.bytes)}.</p>`}`;
  }

  #open(event: CustomEvent<{ row: number; line: string }>): void {
    const { row, line } = event.detail;
    const dialog = this.querySelector("dialog") ?? document.createElement("dialog");
    dialog.replaceChildren();
    dialog.ariaLabel = `Row ${row}`;
    const title = document.createElement("h2");
    title.textContent = `Row ${count(row)}`;
    const list = document.createElement("dl");
    for (const [name, value] of members(line)) {
      const [key, text] = [document.createElement("dt"), document.createElement("dd")];
      [key.textContent, text.textContent] = [name, value];
      list.append(key, text);
    }
    const close = document.createElement("button");
    close.textContent = "Close";
    close.onclick = () => dialog.close();
    dialog.append(title, list, close);
    this.append(dialog);
    dialog.showModal();
  }

  #code() {
    const asked = { ...this.#request(), reads: this.#reads };
    const all = snippets(asked, this.endpoint.formats, token() !== "");
    const { name, text } = all[this.language]!;
    return html`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${all.map(
          ({ name }, index) => html`<button
            class="tab"
            aria-pressed=${index === this.language}
            @click=${() => (this.language = index)}
          >
            ${name}
          </button>`,
        )}
        <span class="grow"></span>
        <button class="quiet" @click=${() => this.#copy(name, text)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${name}>${text}</pre>
    </section>`;
  }

  /** The request of the form, once all that it needs is filled in. */
  #filled = () => (this.querySelector("form")?.reportValidity() ? this.#request() : undefined);

  /** If the server's configuration allows it. */
  #plan() {
    if (!this.endpoint.controls.has("_explain")) return nothing;
    return keyed(this.endpoint.path, html`<rs-plan .request=${this.#filled}></rs-plan>`);
  }

  /** Of lists alone: one row is whole when it comes. */
  #comparison() {
    const { formats } = this.endpoint;
    if (!formats.includes("ndjson") || !formats.includes("json")) return nothing;
    return keyed(this.endpoint.path, html`<rs-compare .request=${this.#filled}></rs-compare>`);
  }

  #columns() {
    const { columns } = this.endpoint;
    if (columns.length === 0) return nothing;
    return html`<details class="card">
      <summary>${columns.length} ${noun(columns.length, "column")}</summary>
      <dl class="columns">
        ${columns.map(({ name, schema }) => html`<dt>${name}</dt><dd>${typeName(schema)}</dd>`)}
      </dl>
    </details>`;
  }

  #pageButton() {
    if (!this.endpoint.hasPage) return nothing;
    const obstacle = this.#pageObstacle;
    return html`<button
      class="quiet"
      ?disabled=${obstacle !== undefined}
      title=${obstacle ?? nothing}
      @click=${this.#openPage}
    >
      Open as a page
    </button>`;
  }

  /** The reason why a page of its own would lack a part of the request. */
  get #pageObstacle(): string | undefined {
    const [header] = Object.keys(this.#request().headers);
    if (header) return `A browser can't send the header ${header} when it opens a page`;
    const { needsToken, takesPassword } = this.endpoint;
    return needsToken && !takesPassword ? "A browser can't send your token when it opens a page" : undefined;
  }

  /** The server's own page of the list sorts, filters and links its rows. */
  #openPage = (): void => {
    const url = this.#filled()?.url;
    if (!url) return;
    url.searchParams.delete("_end");
    url.searchParams.delete("_follow");
    url.searchParams.set("_format", PAGE);
    window.open(url, "_blank", "noopener");
  };

  /** Saves all of it: by the browser itself, or with the token, which a link cannot have. */
  #download = async (): Promise<void> => {
    const asked = this.#filled();
    if (!asked) return;
    const { url, headers } = asked;
    url.searchParams.delete("_end");
    url.searchParams.delete("_follow");
    const name = this.endpoint.path.replaceAll(/[^\w-]+/g, "-").replaceAll(/^-+|-+$/g, "") || "rows";
    if (this.endpoint.controls.has("_download")) url.searchParams.set("_download", name);
    const link = document.createElement("a");
    link.download = `${name}.${this.#format || "txt"}`;
    link.href = url.href;
    if (token() || Object.keys(headers).length > 0) {
      this.said = "Downloading";
      try {
        const response = await request(url, { headers });
        if (!response.ok) throw new Error(`status ${response.status}`);
        link.href = URL.createObjectURL(await response.blob());
      } catch (error) {
        this.said = `The download failed, nothing is saved: ${String(error)}`;
        return;
      }
    }
    link.click();
    this.said = `${link.download} is downloaded by the browser`;
  };
}

/** Conditions are pairs of their own: `status=eq.PAID&amount=gt.5`. A plus sign isn't a space in them. */
function conditions(value: string): URLSearchParams {
  return new URLSearchParams(value.replaceAll("+", "%2B"));
}

/** A list is written with commas, but where a text may have one. */
function items(param: Param, value: string): string[] {
  return param.schema.type === "array" ? value.split(",").map((item) => item.trim()) : [value];
}

function pathOf(path: string) {
  return path.split(/(\{[^}]*\})/).map((part) => (part.startsWith("{") ? html`<em>${part}</em>` : part));
}

/** A text whose parts in backticks are code. */
function withCode(text: string) {
  return text.split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));
}

function placeholder({ schema, required }: Param): string {
  const examples: Record<string, string> = {
    date: "2026-12-31",
    "date-time": "2026-12-31T12:00:00Z",
    uuid: "00000000-0000-0000-0000-000000000000",
    duration: "PT10S",
  };
  if (schema.type === "array") return "1,2,3";
  if (schema.type === "object") return "status=eq.PAID&total=gt.100";
  return examples[schema.format ?? ""] ?? (required ? "" : "not given");
}

/** The browser's own picker for a date or a time in UTC, if it can show the value. */
function picker({ format }: Param["schema"], value: string): "date" | "datetime-local" | undefined {
  if (format === "date" && /^(\d{4}-\d\d-\d\d)?$/.test(value)) return "date";
  if (format === "date-time" && /^(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?Z?)?$/.test(value)) return "datetime-local";
  return undefined;
}

function more({ schema, in: place, name, description = "" }: Param, isText: boolean, fallback: string): string {
  const bounds = [
    schema.minimum === undefined ? "" : `from ${schema.minimum}`,
    schema.maximum === undefined ? "" : `to ${schema.maximum}`,
  ];
  const where = place === "query" ? "" : place === "path" ? "in the path" : `header ${name}`;
  // A picker has no place for a default.
  const unless = fallback && !isText ? `${fallback} unless given` : "";
  const zone = schema.format !== "date-time" ? "" : isText ? "UTC if it has no offset" : "UTC";
  return [description, bounds.filter(Boolean).join(" "), zone, unless, where].filter(Boolean).join(" · ");
}

function fact(name: string, value: string) {
  return html`<span class="fact"><b>${value}</b> <span>${name}</span></span>`;
}

const speedName = (speed: number): string => (SPEEDS[speed] ? `${bytes(SPEEDS[speed]!)}/s` : "full speed");

/** Where the time went: until the first row, or of all of it once it has ended. */
function phases(run: Run) {
  const all = Object.entries(run.report?.ms ?? {});
  const parts = (all.length ? all : run.timing).filter(([name, ms]) => PHASES.includes(name) && ms >= 1);
  const sum = parts.reduce((sum, [, ms]) => sum + ms, 0);
  const sent = run.report && run.isRunning ? `The server has sent ${bytes(run.report.bytes)}.` : "";
  if (sum === 0) return sent ? html`<p class="quiet phases">${sent}</p>` : nothing;
  // A bar of one part says nothing.
  const bar = html`<div class="bar" aria-hidden="true">
    ${parts.map(([name, ms]) => html`<i class=${name} ${styled({ flexGrow: String(ms / sum) })}></i>`)}
  </div>`;
  return html`<div class="phases">
    ${parts.length > 1 ? bar : nothing}
    <p class="quiet">
      ${all.length ? "Where the server's time went:" : "Until the first row:"}
      ${parts.map(([name, ms]) => html`<span class="key ${name}">${name} ${duration(ms)}</span> `)} ${sent}
    </p>
  </div>`;
}

customElements.define("rs-endpoint", EndpointView);
