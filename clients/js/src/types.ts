// Writes TypeScript types of a server's OpenAPI document. They describe the values as this client returns them.
//
// Every text of the document is quoted or in a comment that it can't leave.

/** The most schemas that are written, and the deepest nesting: references could repeat. */
const [MOST_SCHEMAS, DEEPEST] = [1_000_000, 100];
/** The most characters of all types: references could also repeat long texts. */
const MOST_CHARACTERS = 64 << 20;

/** A part of a document. If it has another form than the server's, a TypeError is thrown. */
type Json = Readonly<Record<string, any>>;

/** The types of numbers that can't be read as a `number`. */
interface Numbers {
  int64: string;
  decimal: string;
}

/** The columns of rows have types on the wire, so their values are converted. Those of a body haven't. */
const [ROW, BODY, PARAMETER]: Numbers[] = [
  { int64: "bigint", decimal: "string" },
  { int64: "string", decimal: "string" },
  { int64: "number | bigint", decimal: "number" },
];
/** The values of rows as strings, if the server's settings ask for `numbers = "string"`. */
const INT64_TEXT = "^-?[0-9]+$";

/** Returns a TypeScript module with the types of an OpenAPI document. The same document has the same module. */
export function types(document: unknown): string {
  return new Module(document as Json).write();
}

class Module {
  readonly #names = new Set<string>();
  #schemas = 0;
  #characters = 0;

  constructor(private readonly document: Json) {}

  write(): string {
    const declarations: string[] = [];
    const paths: string[] = [];
    for (const path of Object.keys(this.document.paths ?? {}).sort()) {
      const operation = this.document.paths[path].get;
      if (!operation) continue;
      const members: string[] = [];
      const name = this.#name(path);
      const comment = commented(operation.summary ? `${path}: ${operation.summary}` : path);
      for (const [member, type] of this.#responses(operation)) {
        const declared = `${name}${member === "row" ? "Row" : "Body"}`;
        declarations.push(`${comment}export type ${declared} = ${type};\n`);
        members.push(`    ${member}: ${declared};\n`);
      }
      paths.push(`  ${quoted(path)}: {\n${members.join("")}    params: ${indented(indented(this.#params(operation)))};\n  };\n`);
    }
    const head = "// Written by `rowstream types`, which replaces it.\n";
    const map = `/** Rows, bodies, and parameters of the query, by path. */\nexport type Paths = {\n${paths.join("")}};\n`;
    return [head, ...declarations, map].join("\n");
  }

  /** The type of an endpoint's rows, and of its JSON body if that isn't only a list of them, or one of them. */
  #responses({ responses }: Json): [member: string, type: string][] {
    const content = responses?.["200"]?.content ?? {};
    const ndjson = content["application/x-ndjson"];
    const row = ndjson?.["x-itemSchema"] ?? ndjson?.itemSchema;
    const body = this.#resolve(content["application/json"]?.schema);
    const item = body?.type === "array" ? body.items : body;
    const isList = row?.$ref !== undefined && item?.$ref === row.$ref;
    const found: [string, string][] = [];
    if (row) found.push(["row", this.#type(row, ROW!, 0)]);
    if (body && !isList) found.push(["body", this.#type(body, BODY!, 0)]);
    return found;
  }

  /** The parameters of the query, except control parameters and conditions, which `filter` writes. */
  #params({ parameters }: Json): string {
    const own = (parameters ?? []).map((parameter: Json) => this.#resolve(parameter)).filter(({ in: place, name, schema }: Json) => {
      return place === "query" && !name.startsWith("_") && schema?.type !== "object";
    });
    // A document with two parameters of one name is wrong, but its types can be compiled.
    const unique = new Map<string, Json>(own.map((parameter: Json) => [parameter.name, parameter]));
    const members = [...unique.values()].map(({ name, required, description, schema }) => {
      this.#count(name.length + (description?.length ?? 0));
      // Lists and JSON are texts.
      const type = !schema || schema.type === "array" ? "string" : this.#type(schema, PARAMETER!, 0);
      return { name, isRequired: required, type, description };
    });
    return object(members);
  }

  #count(characters: number): void {
    this.#characters += characters;
    if (this.#characters > MOST_CHARACTERS) {
      throw new RangeError(`the types have more than ${MOST_CHARACTERS} characters; use a token with fewer endpoints`);
    }
  }

  /** The type of a value. */
  #type(reference: Json, numbers: Numbers, depth: number): string {
    this.#schemas += 1;
    if (this.#schemas > MOST_SCHEMAS || depth > DEEPEST) {
      throw new RangeError(`the document has more than ${MOST_SCHEMAS} schemas or ${DEEPEST} levels; use a token with fewer endpoints`);
    }
    const before = this.#characters;
    const type = this.#written(this.#resolve(reference), numbers, depth);
    // It contains the types within it.
    this.#characters = before;
    this.#count(type.length);
    return type;
  }

  #written(schema: Json, numbers: Numbers, depth: number): string {
    const inner = (part: Json) => this.#type(part, numbers, depth + 1);
    if (schema.$ref) return inner(schema);
    if ("const" in schema) return literal(schema.const);
    if (schema.enum) return union(schema.enum.map(literal));
    if (schema.anyOf) return union(schema.anyOf.map(inner));
    if (Array.isArray(schema.type)) return union(schema.type.map((type: string) => inner({ ...schema, type })));
    switch (schema.type) {
      case "object": {
        if (!schema.properties) return "Record<string, unknown>";
        const members = Object.entries<Json>(schema.properties).map(([name, property]) => {
          return { name, isRequired: schema.required?.includes(name), type: inner(property) };
        });
        return object(members);
      }
      case "array":
        if (schema.prefixItems) return `[${schema.prefixItems.map(inner).join(", ")}]`;
        if (schema.maxItems === 0) return "[]";
        return schema.items ? `Array<${inner(schema.items)}>` : "unknown[]";
      case "integer":
        return schema.format === "int64" ? numbers.int64 : "number";
      case "number":
        return schema.format === "decimal" ? numbers.decimal : "number";
      case "string":
        return schema.pattern === INT64_TEXT ? numbers.int64 : "string";
      case "boolean":
      case "null":
        return schema.type;
      default:
        return "unknown";
    }
  }

  /** The part that a reference within the document names, or the part itself. */
  #resolve(part: any): any {
    if (typeof part?.$ref !== "string") return part;
    const names = part.$ref.split("/").slice(1);
    return names.reduce((found: any, name: string) => (Object.hasOwn(found ?? {}, name) ? found[name] : {}), this.document);
  }

  /** The name of a path: `/orders/{id}` is `OrdersById`. Equal names get numbers. */
  #name(path: string): string {
    const words = decoded(path).replaceAll("{", "/by/").match(/[\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}]+/gu) ?? ["root"];
    const joined = words.map((word) => word.replace(/^./u, (first) => first.toUpperCase())).join("");
    const name = /^[\p{L}\p{Nl}]/u.test(joined) ? joined : `_${joined}`;
    let unused = name;
    for (let number = 2; this.#names.has(unused); number += 1) unused = `${name}_${number}`;
    this.#names.add(unused);
    return unused;
  }
}

interface Member {
  name: string;
  isRequired: boolean;
  type: string;
  description?: string;
}

function object(members: Member[]): string {
  if (members.length === 0) return "Record<string, never>";
  const lines = members.map(({ name, isRequired, type, description }) => {
    const comment = description ? `  ${commented(description)}` : "";
    const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : quoted(name);
    return `${comment}  ${key}${isRequired ? "" : "?"}: ${indented(type)};\n`;
  });
  return `{\n${lines.join("")}}`;
}

/** The lines of a type one level deeper. No text in it has a line break. */
function indented(type: string): string {
  return type.replaceAll("\n", "\n  ");
}

/** A union without repetitions. A literal is a part of `string`. */
function union(types: string[]): string {
  const all = [...new Set(types)];
  const some = all.includes("string") ? all.filter((type) => !type.startsWith('"')) : all;
  return some.join(" | ") || "never";
}

function literal(value: unknown): string {
  if (typeof value === "string") return quoted(value);
  return value === null || typeof value === "boolean" ? String(value) : typeof value === "number" ? JSON.stringify(value) : "unknown";
}

/** A string in double quotes. */
function quoted(text: string): string {
  return escaped(JSON.stringify(text));
}

/** Escapes invisible characters. */
export function escaped(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (found) => `\\u{${found.codePointAt(0)!.toString(16)}}`);
}

/** A line with a comment, which text can't end. A leading `@` would be an instruction to the compiler. */
function commented(text: string): string {
  const line = text.replace(/[\p{C}\s]+/gu, " ").trim().replaceAll("*/", "*\\/").replace(/^@/, "\\@");
  return `/** ${line} */\n`;
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
