// The statements of an endpoint, and how the database would run them for the form as it stands.

import { LitElement, html, nothing } from "lit";
import { problem } from "./problem.js";
import { type Problem, problemOf, request } from "./server.js";

interface Asked {
  url: URL;
  headers: Record<string, string>;
}

type Row = Record<string, unknown>;

interface Statement {
  name: string;
  sql: string;
  /** The rows in which the database tells its plan. */
  plan: Row[];
}

export class PlanView extends LitElement {
  static properties = {
    request: { attribute: false },
    statements: { state: true },
    problem: { state: true },
  };
  /** The request of the form, or nothing while the form is wrong. */
  declare request: () => Asked | undefined;
  declare statements: Statement[];
  declare problem?: Problem;

  constructor() {
    super();
    this.statements = [];
  }

  protected createRenderRoot() {
    return this;
  }

  async #explain(): Promise<void> {
    const asked = this.request();
    if (!asked) return;
    this.problem = undefined;
    try {
      this.statements = await explain(asked);
    } catch (error) {
      this.statements = [];
      this.problem = error instanceof Error ? { title: "There is no plan", detail: error.message } : (error as Problem);
    }
  }

  protected render() {
    return html`<details class="card plan">
      <summary>SQL and its plan</summary>
      <p>The SQL, and how the database would run it with these parameters. Nothing is run.</p>
      <div class="actions"><button type="button" @click=${() => this.#explain()}>Explain</button></div>
      <div role="status">
        ${this.statements.map(
          ({ name, sql, plan }) => html`<section aria-label=${name}>
            ${this.statements.length > 1 ? html`<h2>${name}</h2>` : nothing}
            <pre tabindex="0" role="region" aria-label="SQL of ${name}">${sql}</pre>
            <pre tabindex="0" role="region" aria-label="Plan of ${name}">${told(plan)}</pre>
          </section>`,
        )}
      </div>
      ${this.problem ? problem(this.problem) : nothing}
    </details>`;
  }
}

async function explain(asked: Asked): Promise<Statement[]> {
  const url = new URL(asked.url);
  for (const name of ["_end", "_follow", "_after", "_shard", "_snapshot"]) url.searchParams.delete(name);
  url.searchParams.set("_format", "json");
  url.searchParams.set("_explain", "1");
  const response = await request(url, { headers: asked.headers });
  if (!response.ok) throw await problemOf(response);
  return ((await response.json()) as { statements: Statement[] }).statements;
}

/** How many rows the planner expects, where it says so of the only statement. */
export async function estimate(asked: Asked): Promise<number | undefined> {
  const statements = await explain(asked).catch(() => []);
  const plan = statements.length === 1 ? statements[0]!.plan : [];
  // PostgreSQL's top node comes first; MySQL's says it of each table alone.
  const rows = /\brows=(\d+)/.exec(String(plan[0]?.["QUERY PLAN"]))?.[1] ?? (plan.length === 1 ? plan[0]!.rows : undefined);
  return rows === undefined || rows === null ? undefined : Number(rows);
}

/** A plan as its database's own client has it. */
function told(plan: Row[]): string {
  const [first] = plan;
  if (!first) return "";
  if ("detail" in first && "parent" in first) return tree(plan, 0, "").join("\n");
  const names = Object.keys(first);
  const lines = plan.map((row) => names.map((name) => String(row[name] ?? "")));
  if (names.length === 1) return lines.join("\n");
  const widths = names.map((name, at) => Math.max(name.length, ...lines.map((line) => line[at]!.length)));
  const line = (cells: string[]) => cells.map((cell, at) => cell.padEnd(widths[at]!)).join("  ").trimEnd();
  return [line(names), ...lines.map(line)].join("\n");
}

/** SQLite's: each row stands in the one that it names. */
function tree(plan: Row[], parent: unknown, indent: string): string[] {
  return plan
    .filter((row) => row.parent === parent)
    .flatMap((row) => [indent + String(row.detail), ...tree(plan, row.id, `${indent}  `)]);
}

customElements.define("rs-plan", PlanView);
