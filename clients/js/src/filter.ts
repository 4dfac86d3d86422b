// Writes conditions on rows in the grammar of the server's filters. Only the server knows which ones an
// endpoint allows.
//
// All conditions are in the brackets of one parameter: there, a column can have any name and several conditions.

type Scalar = string | number | bigint | boolean | Date;
type Operand<Value> = unknown extends Value ? Scalar : Value extends string ? Value | Date : Value extends Scalar ? Value : never;
/** Floats can be `"NaN"`, but they aren't texts. */
type Pattern<Value> = unknown extends Value ? string : number extends Value ? never : Value extends string ? string : never;

/** Comparisons of one column. A row has to meet all of them. */
export interface Comparisons<Value> {
  eq?: Operand<Value>;
  neq?: Operand<Value>;
  gt?: Operand<Value>;
  gte?: Operand<Value>;
  lt?: Operand<Value>;
  lte?: Operand<Value>;
  in?: readonly Operand<Value>[];
  is?: null | boolean | "not_null";
  /** `%` is any text and `_` any character. `escapeLike` makes a text mean itself. */
  like?: Pattern<Value>;
  ilike?: Pattern<Value>;
  match?: Pattern<Value>;
  imatch?: Pattern<Value>;
  cs?: string;
  cd?: string;
  ov?: string;
}

const OPERATORS: readonly string[] = [
  "eq", "neq", "gt", "gte", "lt", "lte", "in", "is", "like", "ilike", "match", "imatch", "cs", "cd", "ov",
] satisfies (keyof Comparisons<unknown>)[];

/** Comparisons by column, or a group of conditions. */
export type Condition<Row> = { readonly [Column in keyof Row]?: Comparisons<Row[Column]> } | Group<Row>;

class Group<Row> {
  /** Only for the compiler: conditions on other rows don't fit. */
  declare readonly row?: Row;

  constructor(readonly text: string) {}
}

/** The parameters for rows that meet all conditions: `rows(url, { params: filter<Order>({ id: { gte: 5n } }) })`. */
export function filter<Row = Record<string, unknown>>(...conditions: Condition<NoInfer<Row>>[]): { and: string } {
  return { and: `(${nonEmpty("filter", conditions).flatMap(members)})` };
}

/** Is true if one of the conditions is. */
export function or<Row = Record<string, unknown>>(...conditions: Condition<NoInfer<Row>>[]): Group<Row> {
  return group("or", conditions);
}

/** Is true if all of the conditions are. */
export function and<Row = Record<string, unknown>>(...conditions: Condition<NoInfer<Row>>[]): Group<Row> {
  return group("and", conditions);
}

/** Is true if the condition isn't. A comparison with NULL is neither. */
export function not<Row = Record<string, unknown>>(condition: Condition<NoInfer<Row>>): Group<Row> {
  const text = member(condition);
  // The server bounds the nesting of brackets.
  return new Group(/^(and|or)\(/.test(text) ? `not.${text}` : `not.and(${text})`);
}

/** The parameter for rows in this order: `order<Order>("total.desc", "id")`. */
export function order<Row = Record<string, unknown>>(...terms: OrderTerm<NoInfer<Row>>[]): { order: string } {
  if (terms.length === 0 || terms.some((term: unknown) => typeof term !== "string" || term === "")) {
    throw new TypeError('order() has no column: write order("id"), or leave it out');
  }
  const wrong = terms.find((term) => term.includes(","));
  if (wrong !== undefined) {
    throw new TypeError(`${JSON.stringify(wrong)} has a comma: pass each column as an argument of its own, or rename it`);
  }
  return { order: whole(terms.join()) };
}

type OrderTerm<Row> = `${keyof Row & string}${"" | ".asc" | ".desc"}${"" | ".nullsfirst" | ".nullslast"}`;

/** Escapes a text, so that it means itself in a pattern of `like`. */
export function escapeLike(text: string): string {
  return text.replace(/[%*_\\]/g, "\\$&");
}

function group<Row>(word: string, conditions: unknown[]): Group<Row> {
  return new Group(`${word}(${nonEmpty(word, conditions).map(member)})`);
}

function nonEmpty(word: string, conditions: unknown[]): unknown[] {
  if (conditions.length === 0) throw new TypeError(`${word}() has no condition: add one, or leave it out`);
  return conditions;
}

/** A condition as one member of a group. */
function member(condition: unknown): string {
  const all = members(condition);
  return all.length > 1 ? `and(${all})` : all[0]!;
}

function members(condition: unknown): string[] {
  if (condition instanceof Group) return [condition.text];
  const columns = entries(condition, "a condition needs a plain object with columns: write { column: { eq: value } }");
  return columns.flatMap(([column, comparisons]) => {
    if (column === "") throw new TypeError("the name of a column is empty: rename the column");
    const remedy = `${column} needs a plain object with comparisons: write { ${column}: { eq: value } }`;
    return entries(comparisons, remedy).map(([operator, value]) => {
      if (!OPERATORS.includes(operator)) {
        throw new TypeError(`${column}: ${JSON.stringify(operator)} isn't an operator: use not(), or one of ${OPERATORS.join(", ")}`);
      }
      return `${quoted(column)}.${operator}.${written(operator, value, column)}`;
    });
  });
}

/** The members of an object, at least one. None is left out, because more rows would match. */
function entries(value: unknown, remedy: string): [string, unknown][] {
  const isPlain = typeof value === "object" && value !== null && [Object.prototype, null].includes(Object.getPrototypeOf(value));
  const found = isPlain ? Object.entries(value) : [];
  // Symbols and hidden members aren't entries.
  if (found.length === 0 || Reflect.ownKeys(value as object).length !== found.length) throw new TypeError(`${remedy}, or leave it out`);
  return found;
}

function written(operator: string, value: unknown, column: string): string {
  if (operator === "is" && value === null) return "null";
  if (operator === "in") {
    if (!Array.isArray(value)) throw new TypeError(`${column} needs an array after in: write { in: [value] }`);
    // `map` would skip holes.
    return `(${Array.from(value, (item) => quoted(scalar(item, column)))})`;
  }
  return quoted(scalar(value, column));
}

/** A value as in the server's JSON. An undefined one isn't left out, because more rows would match. */
function scalar(value: unknown, column: string): string {
  if (Number.isNaN(value)) throw new TypeError(`${column} can't be compared with NaN: check the number, or write "NaN" for that value of a float`);
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new TypeError(`${column} can't be compared with an invalid date: check the date`);
    return value.toISOString();
  }
  if (["string", "number", "bigint", "boolean"].includes(typeof value)) return String(value);
  const found = value === null ? "null" : typeof value;
  throw new TypeError(`${column} can't be compared with ${found}: leave the comparison out, or write { is: null } for NULL`);
}

function quoted(text: string): string {
  return /^\w+$/.test(text) ? text : `"${whole(text).replace(/["\\]/g, "\\$&")}"`;
}

/** A text without halves of characters (unpaired surrogates), because a URL would replace them. */
function whole(text: string): string {
  if (/\p{Surrogate}/u.test(text)) throw new TypeError(`${JSON.stringify(text)} has half of a character: cut texts between characters`);
  return text;
}
