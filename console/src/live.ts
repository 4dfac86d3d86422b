// What the server does now: its metrics and the streams in flight, asked for every two seconds
// while this page is open.

import { LitElement, type TemplateResult, html, nothing, svg } from "lit";
import { bytes, count, duration } from "./format.js";
import { ADMIN, type Problem, ask, problemOf, request } from "./server.js";
import { styled } from "./styled.js";

const EVERY = 2000;
/** Fifteen minutes of them. */
const SAMPLES = 450;
/** Over how many samples a rate is taken. */
const OVER = 5;
const PHASES = ["pool", "database", "encode", "client"];

/** The values of a metric by the text of its labels. */
type Metrics = Map<string, Map<string, number>>;

interface Sample {
  at: number;
  metrics: Metrics;
}

/** A stream in flight, as the server reports it. */
interface Stream {
  id: string;
  endpoint: string;
  format: string;
  rows: number;
  bytes: number;
  started: string;
  ms: Record<string, number>;
}

interface Streams {
  streams: Stream[];
  /** How many others there are. */
  more: number;
}

/** Kept as long as the page is open, also while another view is. */
const samples: Sample[] = [];

/** Those of the metrics that the view shows; buckets would be most of them. */
const SHOWN =
  /^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;

function read(text: string): Metrics {
  const metrics: Metrics = new Map();
  for (const line of text.split("\n")) {
    const found = SHOWN.exec(line);
    if (!found) continue;
    const [name, labels, value] = [found[1]!, found.at(-2) ?? "", Number(found.at(-1))];
    const known = metrics.get(name) ?? new Map<string, number>();
    metrics.set(name, known.set(labels, value));
  }
  return metrics;
}

const label = (labels: string, name: string): string =>
  new RegExp(`(?:^|,)${name}="((?:[^"\\\\]|\\\\.)*)"`).exec(labels)?.[1] ?? "";

/** The sum of a metric's values whose labels are wanted. */
function sum(sample: Sample, name: string, wanted: (labels: string) => boolean = () => true): number {
  let sum = 0;
  for (const [labels, value] of sample.metrics.get(name) ?? []) if (wanted(labels)) sum += value;
  return sum;
}

/** How fast `of` grows up to a sample, per second. A server that was restarted begins at 0. */
function rate(index: number, of: (sample: Sample) => number): number {
  const [now, before] = [samples[index]!, samples[Math.max(0, index - OVER)]!];
  const seconds = (now.at - before.at) / 1000;
  return seconds > 0 ? Math.max(0, of(now) - of(before)) / seconds : 0;
}

export class LiveView extends LitElement {
  static properties = { failure: { state: true }, refused: { state: true }, streams: { state: true } };
  declare failure?: Problem;
  /** Why the last stream that was to be stopped was not. */
  declare refused?: Problem;
  declare streams?: Streams;
  #timer = 0;
  #isAsking = false;

  protected createRenderRoot() {
    return this;
  }

  connectedCallback(): void {
    super.connectedCallback();
    void this.#ask();
    this.#timer = setInterval(() => void this.#ask(), EVERY);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.#timer);
  }

  /** Asks, unless an answer is still awaited: a slow server is not asked twice. */
  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      const response = await request(new URL("metrics", ADMIN), { headers: { Accept: "text/plain" } });
      if (!response.ok) {
        this.failure = await problemOf(response);
        return;
      }
      samples.push({ at: Date.now(), metrics: read(await response.text()) });
      if (samples.length > SAMPLES) samples.shift();
      // Whoever may read the metrics need not be one who may see the streams.
      this.streams = await ask<Streams>("streams").catch(() => undefined);
      this.failure = undefined;
    } catch (error) {
      this.failure = { title: "The server cannot be reached", detail: String(error) };
    } finally {
      this.#isAsking = false;
    }
    this.requestUpdate();
  }

  /** Stops a stream. One that has ended meanwhile is not in the next list either. */
  async #stop(id: string): Promise<void> {
    const response = await request(new URL(`streams/${id}`, ADMIN), { method: "DELETE" });
    const isGone = response.ok || response.status === 404 || response.status === 409;
    this.refused = isGone ? undefined : await problemOf(response);
    await this.#ask();
  }

  protected render() {
    return html`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">Since you opened this view, up to 15 minutes; asked for every two seconds.</p>
      ${this.failure ? this.#failed(this.failure) : nothing} ${samples.length ? this.#all() : nothing}
      ${this.refused ? this.#failed(this.refused) : nothing}
      ${this.streams?.streams.length ? this.#inFlight(this.streams) : nothing}
    </article>`;
  }

  #failed({ status, title, detail }: Problem) {
    const hint =
      status === 404
        ? "With `admin_listen` the metrics are at that port alone, and so is this view."
        : status === 401 || status === 403
          ? "Enter a token that [admin] names in rowstream.toml."
          : "";
    return html`<div class="card problem" role="alert">
      <h2>${status ? html`<span>${status}</span>` : nothing} ${title}</h2>
      <p>${detail}</p>
      <p class="hint">${hint}</p>
    </div>`;
  }

  #inFlight({ streams, more }: Streams) {
    return html`<section class="card live" aria-label="Each stream in flight" tabindex="0">
      <table>
        <thead>
          <tr>
            <th scope="col">Stream</th>
            <th scope="col">Format</th>
            <th scope="col" class="number">Runs for</th>
            <th scope="col" class="number">Rows</th>
            <th scope="col" class="number">Sent</th>
            <th scope="col">Where the time went</th>
            <th scope="col"><span class="quiet">Stop</span></th>
          </tr>
        </thead>
        <tbody>
          ${streams.map(
            ({ id, endpoint, format, started, rows, bytes: sent, ms }) => html`<tr>
              <th scope="row">${endpoint}</th>
              <td>${format}</td>
              <td class="number">${duration(Math.max(0, Date.now() - Date.parse(started)))}</td>
              <td class="number">${count(rows)}</td>
              <td class="number">${bytes(sent)}</td>
              <td>${split(PHASES.map((phase) => (ms[phase] ?? 0) / 1000))}</td>
              <td>
                <button class="stop" aria-label="Stop the stream ${id} of ${endpoint}" @click=${() => this.#stop(id)}>
                  Stop
                </button>
              </td>
            </tr>`,
          )}
        </tbody>
      </table>
      ${more ? html`<p class="quiet">and ${count(more)} more</p>` : nothing}
    </section>`;
  }

  #all() {
    const now = samples.at(-1)!;
    const clients = (labels: string) => label(labels, "endpoint") !== "/_rowstream/";
    const well = (labels: string) => clients(labels) && label(labels, "outcome") === "complete";
    const ill = (labels: string) => clients(labels) && label(labels, "outcome") !== "complete";
    const perSecond = (name: string, wanted = clients) => (index: number) =>
      rate(index, (sample) => sum(sample, name, wanted));
    const gauge = (name: string) => (index: number) => sum(samples[index]!, name);
    const cpu = (index: number) => rate(index, (sample) => sum(sample, "process_cpu_seconds_total")) * 100;
    const permits = sum(now, "rowstream_permits_max");
    return html`<div class="charts">
        ${chart("Streams in flight", gauge("rowstream_streams_running"), count, `of ${count(permits)} at most`)}
        ${chart("Rows per second", perSecond("rowstream_rows_total"), count)}
        ${chart("Sent per second", perSecond("rowstream_sent_bytes_total"), bytes)}
        ${chart("Requests per second", perSecond("rowstream_requests_total", well), tenths, "that were complete")}
        ${chart("Other ends per second", perSecond("rowstream_requests_total", ill), tenths, "not complete")}
        ${chart("Memory", gauge("process_resident_memory_bytes"), bytes, "resident")}
        ${chart("Processor", cpu, (value) => `${value.toFixed(0)} %`, "of one core")}
        ${[...(now.metrics.get("rowstream_pool_used") ?? new Map<string, number>()).keys()].map(pool)}
      </div>
      ${endpoints(now)}`;
  }
}

/** A pool: how many of its places are in use, and how many requests wait for one. */
function pool(labels: string): TemplateResult {
  const value = (name: string, index = samples.length - 1) => samples[index]!.metrics.get(name)?.get(labels) ?? 0;
  const waiting = value("rowstream_pool_waiting");
  const more = `of ${value("rowstream_pool_max")}, ${waiting} waiting`;
  return chart(`Pool of ${label(labels, "source")}`, (index) => value("rowstream_pool_used", index), count, more);
}

const tenths = (value: number): string => (value < 10 ? value.toFixed(1) : count(value));

/** A number as it is now, and as it was. */
function chart(name: string, value: (index: number) => number, shown: (value: number) => string, more = "") {
  const values = samples.map((_, index) => value(index));
  const most = Math.max(...values, 1e-9);
  const at = (index: number) => 200 - (samples.length - 1 - index) * (200 / Math.max(60, samples.length - 1));
  const points = values.map((value, index) => `${at(index).toFixed(1)},${(46 - (value / most) * 42).toFixed(1)}`);
  const area = `${at(0).toFixed(1)},48 ${points.join(" ")} 200,48`;
  return html`<section class="card chart" aria-label=${name}>
    <h2>${name}</h2>
    <p><b>${shown(values.at(-1) ?? 0)}</b> <span class="quiet">${more}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${shown(most)}">
      ${svg`<polygon points=${area}></polygon><polyline points=${points.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${shown(Math.max(...values))}</p>
  </section>`;
}

/** Each endpoint: what it does, and which side it waits for. */
function endpoints(now: Sample) {
  const names = [...(now.metrics.get("rowstream_streams_running") ?? new Map<string, number>()).keys()];
  const last = samples.length - 1;
  const rows = names.map((labels) => {
    const path = label(labels, "endpoint");
    const own = (other: string) => label(other, "endpoint") === path;
    const of = (name: string) => rate(last, (sample) => sum(sample, name, own));
    const phases = PHASES.map((phase) =>
      rate(last, (sample) => sum(sample, "rowstream_phase_seconds_total", (l) => own(l) && label(l, "phase") === phase)),
    );
    return { path, running: sum(now, "rowstream_streams_running", own), of, phases };
  });
  return html`<section class="card live" aria-label="Endpoints now" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col" class="number">Streams</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Rows/s</th>
          <th scope="col">Where the time goes</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ path, running, of, phases }) => html`<tr>
            <th scope="row"><a href="#/endpoints${path}">${path}</a></th>
            <td class="number">${count(running)}</td>
            <td class="number">${tenths(of("rowstream_requests_total"))}</td>
            <td class="number">${count(of("rowstream_rows_total"))}</td>
            <td>${split(phases)}</td>
          </tr>`,
        )}
      </tbody>
    </table>
    <p class="quiet">${PHASES.map((name) => html`<span class="key ${name}">${name}</span>`)}</p>
  </section>`;
}

function split(phases: number[]) {
  const all = phases.reduce((sum, part) => sum + part, 0);
  if (all === 0) return nothing;
  const said = phases.map((part, index) => `${PHASES[index]} ${duration(part * 1000)}`).join(", ");
  return html`<div class="bar" role="img" aria-label=${said}>
    ${phases.map((part, index) => html`<i class=${PHASES[index]!} ${styled({ flexGrow: String(part / all) })}></i>`)}
  </div>`;
}

customElements.define("rs-live", LiveView);
