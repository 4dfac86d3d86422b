// The public names.

export { type Body, stream } from "./body.js";
export { IncompleteStream, RowstreamError } from "./errors.js";
export { and, type Comparisons, type Condition, escapeLike, filter, not, or, order } from "./filter.js";
export { follow, type Options, type Rows, rows } from "./rows.js";
export type { RequestOptions } from "./request.js";
export type { Column, Converters } from "./values.js";
