// The console: what is chosen in the address, and the parts of the page around it.

import { LitElement, html, nothing } from "lit";
import { keepFocus } from "./focus.js";
import { type Document, type Endpoint, labelOf, readEndpoints, readable, takesTokens } from "./openapi.js";
import { type Problem, ask, setToken, token } from "./server.js";
import "./endpoint.js";
import "./live.js";

const THEME = "rowstream.theme";
/** How many endpoints the first page offers. */
const OFFERED = 12;
const THEMES = ["auto", "light", "dark"];

class App extends LitElement {
  static properties = {
    endpoints: { state: true },
    failure: { state: true },
    search: { state: true },
    path: { state: true },
    theme: { state: true },
  };
  declare endpoints?: Endpoint[];
  /** True if some endpoints may need a token. */
  takesTokens = false;
  declare failure?: Problem;
  declare search: string;
  /** What the address has after `#`: `/endpoints/films/{id}`. */
  declare path: string;
  declare theme: string;
  query = new URLSearchParams();

  constructor() {
    super();
    this.search = this.path = "";
    this.theme = localStorage.getItem(THEME) ?? "auto";
    this.#route();
    this.#paint();
    addEventListener("hashchange", () => {
      this.#route();
      void this.updateComplete.then(keepFocus);
    });
    void this.#load();
  }

  protected createRenderRoot() {
    return this;
  }

  #route(): void {
    const [path = "", query = ""] = location.hash.slice(1).split(/\?(.*)/s);
    this.query = new URLSearchParams(query);
    this.path = readable(path) || "/endpoints";
    this.requestUpdate();
  }

  async #load(): Promise<void> {
    try {
      const described = await ask<Document>("openapi.json");
      this.takesTokens = takesTokens(described);
      this.endpoints = readEndpoints(described);
      this.failure = undefined;
    } catch (error) {
      const isProblem = !(error instanceof Error);
      this.failure = isProblem ? (error as Problem) : { title: "The server cannot be reached", detail: error.message };
    }
  }

  get #chosen(): Endpoint | undefined {
    return this.endpoints?.find(({ name }) => this.path === `/endpoints${name}`);
  }

  #nextTheme(): void {
    this.theme = THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]!;
    localStorage.setItem(THEME, this.theme);
    this.#paint();
  }

  #paint(): void {
    document.documentElement.dataset.theme = this.theme;
  }

  protected updated(): void {
    const chosen = this.#chosen;
    document.title = chosen ? `${chosen.name} · Rowstream` : "Rowstream console";
  }

  protected render() {
    const chosen = this.#chosen;
    return html`<a class="skip" href="#main" @click=${this.#skip}>Skip the navigation</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${logo} Rowstream</a>
        <a class="tab" href="#/endpoints" aria-current=${this.path === "/live" ? nothing : "page"}>Endpoints</a>
        <a class="tab" href="#/live" aria-current=${this.path === "/live" ? "page" : nothing}>Live</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#nextTheme}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#askToken}>${this.#tokenState()}</button>
      </header>
      ${this.path === "/live"
        ? html`<div class="page wide"><main id="main" tabindex="-1"><rs-live></rs-live></main></div>`
        : html`<div class="page ${chosen ? "has-chosen" : ""}">
            <nav aria-label="Endpoints">${this.#list()}</nav>
            <main id="main" tabindex="-1">
              ${chosen
                ? html`<rs-endpoint .endpoint=${chosen} .query=${this.query}></rs-endpoint>`
                : this.#welcome()}
            </main>
          </div>`}
      ${this.#tokenDialog()}`;
  }

  #list() {
    if (this.failure) {
      return html`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${() => this.#load()}>Try again</button>
      </div>`;
    }
    const words = this.search.toLowerCase().split(/\s+/);
    const found = (this.endpoints ?? []).filter(({ name, summary }) =>
      words.every((word) => `${name} ${summary}`.toLowerCase().includes(word)),
    );
    return html`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${(event: Event) => (this.search = (event.target as HTMLInputElement).value)}
      />
      <ul>
        ${found.map(
          ({ path, name, summary, needsToken }) => html`<li>
            <a href="#/endpoints${path}" aria-current=${this.path === `/endpoints${name}` ? "page" : nothing}>
              <code>${name}</code>${needsToken ? html`<span class="lock" title="needs a token">token</span>` : nothing}
              ${summary ? html`<small title=${summary}>${summary}</small>` : nothing}
            </a>
          </li>`,
        )}
      </ul>
      ${this.endpoints && found.length === 0 ? this.#nothingFound() : nothing}
      ${this.endpoints && this.takesTokens && !this.#tokenOpens
        ? html`<p class="quiet">
            ${token()
              ? "Your token opens no endpoint: it may be wrong, or have expired."
              : "Endpoints that need a token are listed once you have entered one."}
          </p>
          <button class="run" @click=${this.#askToken}>Enter a token</button>`
        : nothing}`;
  }

  #nothingFound() {
    return html`<p class="quiet">
      ${this.search
        ? "No endpoint has these words in its path or summary."
        : this.takesTokens
          ? "No endpoint is open to everybody."
          : "This server has no endpoints."}
    </p>`;
  }

  /** True if the token opens an endpoint. */
  get #tokenOpens(): boolean {
    return token() !== "" && (this.endpoints ?? []).some(({ needsToken }) => needsToken);
  }

  #tokenState(): string {
    if (!token()) return "Token";
    return !this.endpoints || this.#tokenOpens ? "Token ✓" : "Token ✗";
  }

  #welcome() {
    const isUnknown = this.endpoints && this.path !== "/endpoints";
    return html`<div class="welcome">
      <h1>${isUnknown ? "There is no such endpoint" : "Try an endpoint"}</h1>
      ${isUnknown
        ? html`<p>It may need a token, or it may be gone. Choose another one.</p>`
        : html`<ol>
            <li>Choose an endpoint.</li>
            <li>Fill in its parameters and press <b>Run</b>. Rows appear as the database sends them.</li>
            <li>Copy the same request for curl, JavaScript or Python.</li>
          </ol>`}
      ${this.endpoints?.length ? this.#offers(this.endpoints) : nothing}
    </div>`;
  }

  #offers(endpoints: Endpoint[]) {
    return html`<ul class="offers">
        ${endpoints.slice(0, OFFERED).map(
          ({ path, name, summary, params }) => html`<li>
            <a class="card" href="#/endpoints${path}">
              <code>${name}</code>
              <span>${summary}</span>
              <small>${params.map(labelOf).join(", ")}</small>
            </a>
          </li>`,
        )}
      </ul>
      ${endpoints.length > OFFERED ? html`<p>The list has ${endpoints.length - OFFERED} more.</p>` : nothing}`;
  }

  #askToken(): void {
    this.querySelector<HTMLDialogElement>("dialog.token")!.showModal();
  }

  #tokenDialog() {
    return html`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#takeToken}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${token()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${() => this.querySelector<HTMLDialogElement>("dialog.token")!.close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`;
  }

  #takeToken(event: Event): void {
    event.preventDefault();
    setToken(this.querySelector<HTMLInputElement>("#token")!.value.trim());
    this.querySelector<HTMLDialogElement>("dialog.token")!.close();
    void this.#load();
    this.requestUpdate();
  }

  #skip(event: Event): void {
    event.preventDefault();
    this.querySelector<HTMLElement>("main")!.focus();
  }
}

const logo = html`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;

customElements.define("rs-app", App);
