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

/** Comparisons by column, or a group of conditions. */
export type Condition<Row> = { readonly [Column in keyof Row]?: Comparisons<Row[Column]> } | Group<Row>;

class Group<Row> {
  /** Only for the compiler: conditions on other rows don't fit. */
  declare readonly row?: Row;

  constructor(readonly text: string) {}
}

/** The parameters for rows that meet all conditions: `rows(url, { params: filter<Order>({ id: { gte: 5n } }) })`. */
export function filter<Row = Record<string, unknown>>(...conditions: Condition<NoInfer<Row>>[]): { and?: string } {
  const all = conditions.flatMap(members);
  return all.length > 0 ? { and: `(${all})` } : {};
}

/** Is true if one of the conditions is. */
export function or<Row = Record<string, unknown>>(...conditions: Condition<NoInfer<Row>>[]): Group<Row> {
  return group("or", conditions.map(member));
}

/** Is true if all of the conditions are. */
export function and<Row = Record<string, unknown>>(...conditions: Condition<NoInfer<Row>>[]): Group<Row> {
  return group("and", conditions.map(member));
}

/** Is true if the condition isn't. A comparison with NULL is neither. */
export function not<Row = Record<string, unknown>>(condition: Condition<NoInfer<Row>>): Group<Row> {
  const text = member(condition);
  // The server bounds the nesting of brackets.
  return new Group(/^(and|or)\(/.test(text) ? `not.${text}` : `not.and(${text})`);
}

/** The parameter for rows in this order: `order<Order>("total.desc", "id")`. */
export function order<Row = Record<string, unknown>>(...terms: OrderTerm<NoInfer<Row>>[]): { order: string } {
  const wrong = terms.find((term) => term.includes(","));
  if (wrong !== undefined) {
    throw new TypeError(`${JSON.stringify(wrong)} has a comma: pass each column as an argument of its own, or rename it`);
  }
  return { order: terms.join() };
}

type OrderTerm<Row> = `${keyof Row & string}${"" | ".asc" | ".desc"}${"" | ".nullsfirst" | ".nullslast"}`;

/** Escapes a text, so that it means itself in a pattern of `like`. */
export function escapeLike(text: string): string {
  return text.replace(/[%*_\\]/g, "\\$&");
}

function group<Row>(word: string, texts: string[]): Group<Row> {
  if (texts.length === 0) throw new TypeError(`${word}() has no condition: add one, or leave it out`);
  return new Group(`${word}(${texts})`);
}

/** A condition as one member of a group. */
function member(condition: unknown): string {
  const all = members(condition);
  if (all.length === 0) throw new TypeError("a condition is empty, so all rows meet it: leave it out");
  return all.length > 1 ? `and(${all})` : all[0]!;
}

function members(condition: unknown): string[] {
  if (condition instanceof Group) return [condition.text];
  return Object.entries(condition as object).flatMap(([column, comparisons]) => {
    if (column === "") throw new TypeError("the name of a column is empty: rename the column");
    if (typeof comparisons !== "object" || comparisons === null) {
      throw new TypeError(`${column} has no comparison: write { ${column}: { eq: value } }, or leave it out`);
    }
    return Object.entries(comparisons).map(([operator, value]) => {
      return `${quoted(column)}.${operator}.${written(operator, value, column)}`;
    });
  });
}

function written(operator: string, value: unknown, column: string): string {
  if (operator === "is" && value === null) return "null";
  if (operator === "in") {
    if (!Array.isArray(value)) throw new TypeError(`${column} needs an array after in: write { in: [value] }`);
    return `(${value.map((item) => quoted(scalar(item, column)))})`;
  }
  return quoted(scalar(value, column));
}

/** A value as in the server's JSON. An undefined one isn't left out, because more rows would match. */
function scalar(value: unknown, column: string): string {
  if (value instanceof Date) return value.toISOString();
  if (["string", "number", "bigint", "boolean"].includes(typeof value)) return String(value);
  const found = value === null ? "null" : typeof value;
  throw new TypeError(`${column} can't be compared with ${found}: leave the comparison out, or write { is: null } for NULL`);
}

function quoted(text: string): string {
  return /^\w+$/.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`;
}
