// Converts the values of rows by the types of their columns.

/** A column of the rows, or of a list in them. */
export interface Column {
  readonly name: string;
  readonly type: string;
  /** The columns of a list. */
  readonly columns?: readonly Column[];
}

/** Functions that convert values, by the types of the wire. They don't get NULLs. */
export type Converters = Readonly<Record<string, (value: any) => unknown>>;

type Row = Record<string, unknown>;

/** Integers of 64 bits are strings, because we ask for these. SQLite's columns have other values, too. */
export const EXACT: Converters = {
  int64: (value: unknown) => {
    const isWhole = typeof value === "string" ? /^-?\d+$/.test(value) : Number.isSafeInteger(value);
    return isWhole ? BigInt(value as string | number) : value;
  },
};

/** The same for requests of another form of numbers. */
export const UNSURE: Converters = {
  int64: (value: unknown) => {
    if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value as number) <= 2 ** 63) {
      throw new RangeError(`${value} may have lost digits: remove _numbers from the parameters`);
    }
    return EXACT.int64!(value);
  },
};

/** Returns a function that converts the rows with these columns in place, if any value is converted. */
export function converter(columns: readonly Column[], converters: Converters): ((row: Row) => void) | undefined {
  const steps: [name: string, convert: (value: unknown) => unknown][] = [];
  for (const { name, type, columns: inner } of columns) {
    const nested = inner && converter(inner, converters);
    if (nested) {
      steps.push([name, (list) => {
        (list as Row[]).forEach(nested);
        return list;
      }]);
    }
    const own = Object.hasOwn(converters, type) ? converters[type] : undefined;
    if (own) steps.push([name, own]);
  }
  if (steps.length === 0) return undefined;
  // A row may leave out a NULL, but it inherits members such as `constructor`.
  const isInherited = steps.some(([name]) => name in Object.prototype);
  return (row) => {
    for (const [name, convert] of steps) {
      const value = isInherited && !Object.hasOwn(row, name) ? undefined : row[name];
      if (value !== null && value !== undefined) row[name] = convert(value);
    }
  };
}
