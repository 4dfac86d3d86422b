// The public names.

export { IncompleteStream, RowstreamError } from "./errors.js";
export { follow, type Options, type Rows, rows } from "./rows.js";
export type { Column, Converters } from "./values.js";
