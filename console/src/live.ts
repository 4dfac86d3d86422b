// What the server does now, and what it did in the last minutes: its history, and while this page
// is open its metrics and the streams in flight, asked for every two seconds.

import { LitElement, type TemplateResult, html, nothing, svg } from "lit";
import { keepFocus } from "./focus.js";
import { bytes, count, duration } from "./format.js";
import { ADMIN, type Problem, ask, problemOf, request } from "./server.js";
import { styled } from "./styled.js";

const EVERY = 2000;
/** As long as the server keeps its history. */
const SPAN = 15 * 60_000;
/** What a chart shows at least, so that it does not crawl. */
const LEAST_SPAN = 2 * 60_000;
/** Over how many samples a rate is taken. */
const OVER = 5;
const BUCKETS = "rowstream_request_duration_seconds_bucket";
const PHASES = ["pool", "database", "encode", "client"];

/** The values of a metric by the text of its labels. */
type Metrics = Map<string, Map<string, number>>;

interface Sample {
  /** By the server's clock, in milliseconds since 1970. */
  at: number;
  /** Whether it knows the endpoints apart. */
  isWhole: boolean;
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

/** What the server kept while nobody looked: sums over all endpoints, under the metrics' names. */
interface History {
  now: number;
  series: { name: string; labels: string }[];
  moments: { at: number; values: (number | null)[] }[];
}

/** In the order of their time. Kept as long as the page is open, also while another view is. */
let samples: Sample[] = [];
/** By how much the server's clock is ahead of this one, in milliseconds. */
let ahead = 0;

/** Those of the metrics that the view shows; buckets would be most of them. */
const SHOWN =
  /^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections|host_in_flight|request_duration_seconds_bucket)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;

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

/** A moment of the history as if it had been asked for then. */
function sampleOf({ series }: History, { at, values }: History["moments"][number]): Sample {
  const metrics: Metrics = new Map();
  values.forEach((value, index) => {
    const { name, labels } = series[index]!;
    if (value === null) return;
    metrics.set(name, (metrics.get(name) ?? new Map<string, number>()).set(labels, value));
  });
  return { at, isWhole: false, metrics };
}

/** Adds samples that are newer than all others, and leaves out what is too old to be shown. */
function add(newer: Sample[]): void {
  const last = samples.at(-1)?.at ?? 0;
  // Only the last has buckets: they are most of a sample, and shown as they are now.
  samples.at(-1)?.metrics.delete(BUCKETS);
  samples.push(...newer.filter(({ at }) => at > last));
  samples = samples.filter(({ at }) => at > samples.at(-1)!.at - SPAN);
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
function rate(index: number, of: (sample: Sample) => number, isKnown: (sample: Sample) => boolean = () => true) {
  const now = samples[index]!;
  const before = samples.slice(Math.max(0, index - OVER), index).find(isKnown) ?? now;
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
    void this.#catchUp().then(() => this.#ask());
    this.#timer = setInterval(() => void this.#ask(), EVERY);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.#timer);
  }

  /** Asks for what the server kept while nobody looked. Charts begin now where it says nothing. */
  async #catchUp(): Promise<void> {
    this.#isAsking = true;
    const history = await ask<History>(`history?after=${samples.at(-1)?.at ?? 0}`).catch(() => undefined);
    if (history) {
      ahead = history.now - Date.now();
      add(history.moments.map((moment) => sampleOf(history, moment)));
    }
    this.#isAsking = false;
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
      const metrics = read(await response.text());
      add([{ at: Date.now() + ahead, isWhole: true, metrics }]);
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
    await this.updateComplete;
    keepFocus();
  }

  protected render() {
    return html`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">The last 15 minutes, and now; asked for every two seconds.</p>
      ${this.failure ? this.#failed(this.failure) : nothing} ${samples.length ? this.#all() : nothing}
      ${this.refused ? this.#failed(this.refused) : nothing}
      ${this.streams?.streams.length ? this.#inFlight(this.streams) : nothing}
    </article>`;
  }

  #failed({ status, title, detail }: Problem) {
    const hint =
      status === 404
        ? "With `admin_listen` this view works at that port only."
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
        ${chart("Incomplete per second", perSecond("rowstream_requests_total", ill), tenths, "failed, cancelled or cut")}
        ${chart("Memory", gauge("process_resident_memory_bytes"), bytes, "resident")}
        ${chart("Processor", cpu, (value) => `${value.toFixed(0)} %`, "of one core")}
        ${labelsOf(now, "rowstream_pool_used").map(pool)} ${labelsOf(now, "rowstream_host_in_flight").map(host)}
      </div>
      ${endpoints(now)}`;
  }
}

/** The labels of each series of a metric. */
const labelsOf = (sample: Sample, name: string): string[] => [...(sample.metrics.get(name)?.keys() ?? [])];

/** A host of a source: how many requests or connections it has. */
function host(labels: string): TemplateResult {
  const value = (index: number) => samples[index]!.metrics.get("rowstream_host_in_flight")?.get(labels) ?? 0;
  return chart(`Host ${label(labels, "host")}`, value, count, `in flight, of ${label(labels, "source")}`);
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
  const last = samples.at(-1)!.at;
  const span = Math.max(LEAST_SPAN, last - samples[0]!.at);
  const at = (index: number) => (200 - (200 * (last - samples[index]!.at)) / span).toFixed(1);
  const points = values.map((value, index) => `${at(index)},${(46 - (value / most) * 42).toFixed(1)}`);
  const area = `${at(0)},48 ${points.join(" ")} 200,48`;
  return html`<section class="card chart" aria-label=${name}>
    <h2>${name}</h2>
    <p><b>${shown(values.at(-1) ?? 0)}</b> <span class="quiet">${more}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${shown(most)}">
      ${svg`<polygon points=${area}></polygon><polyline points=${points.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${shown(Math.max(...values))}</p>
  </section>`;
}

/** Within how many seconds 95 of 100 requests of an endpoint have ended, since the server began. */
function mostWithin(now: Sample, path: string): number | undefined {
  const buckets = [...(now.metrics.get(BUCKETS) ?? [])]
    .filter(([labels]) => label(labels, "endpoint") === path)
    .map(([labels, count]) => ({ bound: Number(label(labels, "le").replace("+Inf", "Infinity")), count }))
    .sort((one, other) => one.bound - other.bound);
  const all = buckets.at(-1)?.count ?? 0;
  return all ? buckets.find(({ count }) => count >= 0.95 * all)?.bound : undefined;
}

const within = (seconds?: number) =>
  seconds === undefined ? "" : seconds === Infinity ? "longer" : duration(seconds * 1000);

/** Each endpoint: what it does, and which side it waits for; the slowest first. */
function endpoints(now: Sample) {
  const names = labelsOf(now, "rowstream_streams_running");
  const last = samples.length - 1;
  const isWhole = (sample: Sample) => sample.isWhole;
  const rows = names.map((labels) => {
    const path = label(labels, "endpoint");
    const own = (other: string) => label(other, "endpoint") === path;
    const of = (name: string) => rate(last, (sample) => sum(sample, name, own), isWhole);
    const phase = (name: string) => (other: string) => own(other) && label(other, "phase") === name;
    const phases = PHASES.map((name) =>
      rate(last, (sample) => sum(sample, "rowstream_phase_seconds_total", phase(name)), isWhole),
    );
    return { path, running: sum(now, "rowstream_streams_running", own), of, phases, most: mostWithin(now, path) };
  });
  rows.sort((one, other) => (other.most ?? -1) - (one.most ?? -1));
  return html`<section class="card live" aria-label="Endpoints now" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col" class="number">Streams</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Rows/s</th>
          <th scope="col" class="number">95 % within</th>
          <th scope="col">Where the time goes</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          ({ path, running, of, phases, most }) => html`<tr>
            <th scope="row"><a href="#/endpoints${path}">${path}</a></th>
            <td class="number">${count(running)}</td>
            <td class="number">${tenths(of("rowstream_requests_total"))}</td>
            <td class="number">${count(of("rowstream_rows_total"))}</td>
            <td class="number">${within(most)}</td>
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
