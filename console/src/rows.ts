// What is kept of the rows of a run: the first ones and the last ones. A million rows take no more
// than some thousand of them do, and those that are looked at first stay where they are.

const FIRST = 10_000;
const LAST = 10_000;
const BLOCK = 500;
/** In UTF-16 units, for the first rows and for the last ones. */
const MOST_TEXT = 8 << 20;
/** Of so many rows the columns and their widths are taken. */
const SAMPLED = 200;
/** A column has room for so many letters. */
const MOST_LETTERS = 48;

interface Block {
  lines: string[];
  text: number;
}

export interface Column {
  /** How many letters it has room for. */
  letters: number;
  /** True if it has a value that is longer, which gets the room that is left. */
  isLong: boolean;
  /** True if all its values are numbers. Unknown while they are NULL. */
  isNumber?: boolean;
}

export type Item = { row: number; line: string } | { from: number; to: number };

export class Rows {
  /** How many have come. */
  total = 0;
  readonly columns = new Map<string, Column>();
  #first: string[] = [];
  #firstText = 0;
  #firstIsFull = false;
  #last: Block[] = [];
  #lastCount = 0;
  #lastText = 0;

  push(line: string): void {
    this.total += 1;
    if (this.total <= SAMPLED) this.#sample(line);
    if (!this.#firstIsFull) {
      this.#first.push(line);
      this.#firstText += line.length;
      this.#firstIsFull = this.#first.length >= FIRST || this.#firstText >= MOST_TEXT;
      return;
    }
    let block = this.#last.at(-1);
    if (!block || block.lines.length >= BLOCK || block.text > MOST_TEXT / 16) {
      block = { lines: [], text: 0 };
      this.#last.push(block);
    }
    block.lines.push(line);
    block.text += line.length;
    this.#lastCount += 1;
    this.#lastText += line.length;
    if (this.#lastCount >= LAST + BLOCK || this.#lastText > MOST_TEXT) this.#forget();
  }

  #forget(): void {
    if (this.#last.length < 2) return;
    const block = this.#last.shift()!;
    this.#lastCount -= block.lines.length;
    this.#lastText -= block.text;
  }

  #sample(line: string): void {
    for (const [name, value] of members(line)) {
      const column: Column = this.columns.get(name) ?? { letters: name.length, isLong: false };
      column.letters = Math.min(Math.max(column.letters, value.length), MOST_LETTERS);
      column.isLong ||= value.length > MOST_LETTERS;
      if (value !== "null") column.isNumber = column.isNumber !== false && /^[-\d]/.test(value);
      this.columns.set(name, column);
    }
  }

  get #missing(): number {
    return this.total - this.#first.length - this.#lastCount;
  }

  /** How many lines a table of them has; what is not kept any more is one of them. */
  get length(): number {
    return this.#first.length + (this.#missing > 0 ? 1 : 0) + this.#lastCount;
  }

  /** How much text is kept, in UTF-16 units. */
  get text(): number {
    return this.#firstText + this.#lastText;
  }

  /** How many rows are kept. */
  get kept(): number {
    return this.#first.length + this.#lastCount;
  }

  at(index: number): Item | undefined {
    if (index < this.#first.length) return { row: index + 1, line: this.#first[index]! };
    let rest = index - this.#first.length;
    const missing = this.#missing;
    if (missing > 0) {
      if (rest === 0) return { from: this.#first.length + 1, to: this.#first.length + missing };
      rest -= 1;
    }
    let row = this.#first.length + missing + rest + 1;
    for (const block of this.#last) {
      if (rest < block.lines.length) return { row, line: block.lines[rest]! };
      rest -= block.lines.length;
    }
    return undefined;
  }

  /** Forgets all rows after the first `total` of them, which are to come again. */
  cutTo(total: number): void {
    while (this.total > total) {
      const isKept = this.#missing === 0;
      this.total -= 1;
      const block = this.#last.at(-1);
      if (!block) {
        if (!isKept) continue;
        this.#firstText -= this.#first.pop()?.length ?? 0;
        this.#firstIsFull = false;
        continue;
      }
      const length = block.lines.pop()?.length ?? 0;
      block.text -= length;
      this.#lastText -= length;
      this.#lastCount -= 1;
      if (block.lines.length === 0) this.#last.pop();
    }
  }
}

/** The members of a row, each with its JSON text as it came: no number passes through a float. */
export function members(line: string): [string, string][] {
  let at = skipSpace(line, 0);
  if (line[at] !== "{") return [["value", line.trim()]];
  const found: [string, string][] = [];
  at = skipSpace(line, at + 1);
  while (line[at] === '"') {
    const keyEnd = skipString(line, at);
    const key = JSON.parse(line.slice(at, keyEnd)) as string;
    const start = skipSpace(line, skipSpace(line, keyEnd) + 1);
    const end = skipValue(line, start);
    found.push([key, line.slice(start, end).trimEnd()]);
    at = skipSpace(line, end + 1);
  }
  return found;
}

function skipSpace(text: string, at: number): number {
  while (text[at] === " " || text[at] === "\t") at += 1;
  return at;
}

function skipString(text: string, at: number): number {
  for (at += 1; at < text.length && text[at] !== '"'; at += 1) if (text[at] === "\\") at += 1;
  return at + 1;
}

/** Where the comma or the bracket stands that ends the value at `at`. */
function skipValue(text: string, at: number): number {
  let depth = 0;
  while (at < text.length) {
    const c = text[at];
    if (c === '"') {
      at = skipString(text, at);
      continue;
    }
    if (depth === 0 && (c === "," || c === "}")) return at;
    if (c === "{" || c === "[") depth += 1;
    if (c === "}" || c === "]") depth -= 1;
    at += 1;
  }
  return at;
}

export type Kind = "null" | "number" | "text" | "boolean" | "json";

/** A value as it is shown. */
export function shown(json: string): { kind: Kind; text: string } {
  const c = json[0];
  if (c === '"') return { kind: "text", text: JSON.parse(json) as string };
  if (c === "{" || c === "[") return { kind: "json", text: json };
  if (c === "n") return { kind: "null", text: "null" };
  return { kind: c === "t" || c === "f" ? "boolean" : "number", text: json };
}
