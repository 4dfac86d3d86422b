// The endpoints, as the server's OpenAPI document has them.

export interface Schema {
  type?: string | string[];
  format?: string;
  enum?: unknown[];
  default?: unknown;
  minimum?: number;
  maximum?: number;
  items?: Schema;
  properties?: Record<string, Schema>;
  anyOf?: Schema[];
  description?: string;
  $ref?: string;
}

export interface Param {
  name: string;
  in: "path" | "query" | "header";
  required?: boolean;
  description?: string;
  schema: Schema;
}

export interface Endpoint {
  /** As a URL has it: `/sales%20by%20day`. */
  path: string;
  /** As people read it: `/sales by day`. */
  name: string;
  summary: string;
  params: Param[];
  /** The control parameters that the form has. */
  options: Param[];
  /** Of the control parameters, those that it knows. */
  controls: Set<string>;
  /** Names of formats, without pages; empty where an upstream's answer is passed as it comes. */
  formats: string[];
  /** True if browsers get a page that sorts, filters and links the rows. */
  hasPage: boolean;
  columns: { name: string; schema: Schema }[];
  needsToken: boolean;
  /** True if browsers can ask for a name and a password instead of the token. */
  takesPassword: boolean;
}

interface Operation {
  summary?: string;
  description?: string;
  parameters?: (Param | { $ref: string })[];
  responses: Record<string, { content?: Record<string, { schema?: Schema; "x-itemSchema"?: Schema }> }>;
  security?: Record<string, unknown>[];
}

export interface Document {
  paths: Record<string, { get?: Operation }>;
  components?: Record<string, Record<string, unknown>>;
}

/** The format of pages for browsers. */
export const PAGE = "html";

/** The name of a parameter for people. That of all conditions isn't in the URL. */
export function labelOf({ name, schema }: Param): string {
  return schema.type === "object" ? name.replace(/^_/, "") : name;
}

/** True if some endpoints may need a token. */
export function takesTokens(document: Document): boolean {
  return Object.keys(document.components?.securitySchemes ?? {}).length > 0;
}

/** Control parameters that the console sets itself. */
const OWN = ["_format", "_end", "_follow", "_explain", "_download", "_sign", "_signature"];

const { compare } = new Intl.Collator("en", { numeric: true });
/** Tabs sort before all else, so `/x/{id}` follows `/x`. */
const order = ({ name }: Endpoint) => name.replaceAll("/", "\t");

/** The endpoints by their names, with numbers by their values. */
export function readEndpoints(document: Document): Endpoint[] {
  return Object.entries(document.paths)
    .filter((entry): entry is [string, { get: Operation }] => entry[1].get !== undefined)
    .map(([path, { get }]) => readEndpoint(document, path, get))
    .sort((one, other) => compare(order(one), order(other)));
}

/** A path for people. */
export function readable(path: string): string {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

function readEndpoint(document: Document, path: string, operation: Operation): Endpoint {
  const params = (operation.parameters ?? []).map((param) => {
    const resolved = resolve<Param>(document, param);
    // One that holds JSON has a media type in the place of a schema.
    if (!resolved.schema) return { ...resolved, schema: { format: "json" } };
    if (resolved.schema.type !== "object") return resolved;
    return { ...resolved, schema: { ...resolved.schema, format: "conditions" } };
  });
  const format = params.find((param) => param.name === "_format");
  const formats = (format?.schema.enum ?? []).map(String);
  const row = operation.responses["200"]?.content?.["application/x-ndjson"]?.["x-itemSchema"];
  const properties = row ? resolve<Schema>(document, row).properties : undefined;
  return {
    path,
    name: readable(path),
    summary: operation.summary ?? "",
    params: params.filter((param) => !isControl(param)),
    options: params.filter((param) => isControl(param) && !OWN.includes(param.name)),
    controls: new Set(params.map((param) => param.name).filter((name) => name.startsWith("_"))),
    formats: formats.filter((name) => name !== PAGE),
    hasPage: formats.includes(PAGE),
    columns: Object.entries(properties ?? {}).map(([name, schema]) => ({
      name,
      schema: resolve<Schema>(document, schema),
    })),
    needsToken: (operation.security ?? []).some((scheme) => Object.keys(scheme).length > 0),
    takesPassword: (operation.security ?? []).some((scheme) => "basic" in scheme),
  };
}

/** Control parameters begin with `_`. So does the name of all conditions, which isn't in the URL. */
function isControl({ name, schema }: Param): boolean {
  return name.startsWith("_") && schema.type !== "object";
}

function resolve<T>(document: Document, value: T | { $ref: string }): T {
  const ref = (value as { $ref?: string }).$ref;
  if (!ref) return value as T;
  let found: unknown = document;
  for (const step of ref.slice(2).split("/")) found = (found as Record<string, unknown>)[step];
  return found as T;
}

/** The book's names of JSON Schema's types and formats. */
const TYPES: Record<string, string> = {
  string: "text",
  date: "date",
  "date-time": "timestamp",
  "date-time-local": "timestamp without zone",
  "time-local": "time",
  duration: "duration",
  uuid: "uuid",
  json: "json",
  conditions: "conditions",
};

/** The name of a type, as endpoint files have it. */
export function typeName({ type, format = "", items, anyOf }: Schema): string {
  // The others are "null", and texts such as "NaN" that JSON has no number for.
  if (anyOf) return typeName(anyOf[0]!);
  const own = [type ?? "any"].flat()[0]!;
  if (own === "array") return items ? `${typeName(items)}[]` : "list";
  return TYPES[format] ?? TYPES[own] ?? own;
}
