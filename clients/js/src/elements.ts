// Finds the elements of one list in a JSON document that arrives in pieces, without keeping the rest.
//
// It follows the brackets and strings of the document, and JSON.parse reads each element.

import { Cut } from "./errors.js";

/** The longest element or string, in UTF-16 units. */
const LONGEST = 128 << 20;

/** The most lists and objects within each other. */
const DEEPEST = 1000;

/** A list or an object that hasn't ended. */
interface Container {
  isList: boolean;
  /** The index or the name of its current member. */
  key: number | string;
}

export class Elements {
  isFound = false;
  /** True once the last bracket of the document has arrived. */
  isWhole = false;

  readonly #path: readonly string[];
  readonly #open: Container[] = [];
  /** The list, while it's open. */
  #list: Container | undefined;
  #isInString = false;
  /** True if the next character follows a backslash. */
  #isEscaped = false;
  /** The beginning of an element or a string, from earlier pieces. Undefined outside of these. */
  #captured: string | undefined;
  /** The place in the current piece from which the capture continues. */
  #from = 0;
  /** The last string outside of the list, which may be a member's name. */
  #string = '""';

  /** `pointer` is a JSON pointer (RFC 6901). */
  constructor(pointer: string) {
    if (pointer !== "" && !pointer.startsWith("/")) {
      throw new TypeError(`a JSON pointer begins with "/": use ${JSON.stringify(`/${pointer}`)}`);
    }
    const name = (segment: string) => segment.replaceAll("~1", "/").replaceAll("~0", "~");
    this.#path = pointer.split("/").slice(1).map(name);
  }

  /** The elements that end within this piece. */
  push(piece: string): unknown[] {
    const found: unknown[] = [];
    const token = /["\\{}[\],:]/g;
    token.lastIndex = this.#isEscaped ? 1 : 0;
    this.#isEscaped = false;
    this.#from = 0;
    for (let match = token.exec(piece); match && !this.isWhole; match = token.exec(piece)) {
      const [character, at] = [match[0], match.index];
      if (!this.#isInString) {
        this.#follow(character, piece, at, found);
      } else if (character === '"') {
        this.#isInString = false;
        if (!this.#list && this.#captured !== undefined) this.#string = this.#take(piece, at + 1);
      } else if (character === "\\") {
        this.#isEscaped = at + 1 === piece.length;
        token.lastIndex = at + 2;
      }
    }
    if (this.#captured !== undefined) this.#captured += piece.slice(this.#from);
    if ((this.#captured?.length ?? 0) > LONGEST) {
      throw new Cut(`a row is longer than ${LONGEST >> 20} MiB; read its lists from endpoints of their own`, false);
    }
    return found;
  }

  /** A character outside of strings. */
  #follow(character: string, piece: string, at: number, found: unknown[]): void {
    const last = this.#open.at(-1);
    if (character === '"') {
      this.#isInString = true;
      if (!this.#list && this.#open.length <= this.#path.length) this.#capture(at);
    } else if (character === "{" || character === "[") {
      this.#begin(character === "[", at);
    } else if (character === ":") {
      if (last && !this.#list) last.key = parse(this.#string) as string;
    } else if (last && last === this.#list) {
      const element = this.#take(piece, at);
      // Only the end of an empty list has nothing before it.
      if (character === "," || element.trim() !== "" || last.key !== 0) found.push(parse(element));
      if (character === ",") this.#capture(at + 1);
      else this.#end(character);
      last.key = 1;
    } else if (character !== ",") {
      this.#end(character);
    } else if (last?.isList) {
      last.key = Number(last.key) + 1;
    }
  }

  #begin(isList: boolean, at: number): void {
    if (this.#open.length === DEEPEST) {
      throw new Cut(`the body has more than ${DEEPEST} lists and objects within each other; return fewer`, false);
    }
    const isHere = () => this.#open.every(({ key }, depth) => String(key) === this.#path[depth]);
    const container = { isList, key: 0 };
    if (isList && !this.#list && this.#open.length === this.#path.length && isHere()) {
      this.#list = container;
      this.isFound = true;
      this.#capture(at + 1);
    }
    this.#open.push(container);
  }

  #end(bracket: string): void {
    const ended = this.#open.pop();
    if (ended?.isList !== (bracket === "]")) throw new Cut("the body isn't JSON");
    if (ended === this.#list) this.#list = undefined;
    this.isWhole = this.#open.length === 0;
  }

  #capture(from: number): void {
    [this.#captured, this.#from] = ["", from];
  }

  #take(piece: string, to: number): string {
    const taken = this.#captured + piece.slice(this.#from, to);
    this.#captured = undefined;
    return taken;
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new Cut("the body isn't JSON", false, cause);
  }
}
