// The same request in other languages. Each of them notices an answer that is not whole.

import type { Asked } from "./run.js";

export interface Snippet {
  name: string;
  text: string;
}

/** The parameters that our clients set themselves. */
const CLIENTS = ["_format", "_end", "_follow"];

/** Snippets of a request to an endpoint with these formats. */
export function snippets(asked: Asked, formats: string[], hasToken: boolean): Snippet[] {
  const read = reader(asked, formats);
  return [
    { name: "curl", text: curl(asked, hasToken) },
    { name: "JavaScript", text: read ? client(read, asked, hasToken) : script(asked, hasToken) },
    { name: "Python", text: read ? pythonClient(read, asked, hasToken) : python(asked, hasToken) },
  ];
}

/** The function of our clients that reads the same rows, if the endpoint has the format that it asks for. */
function reader(asked: Asked, formats: string[]): "rows" | "follow" | undefined {
  if (asked.reads === "text" || asked.reads === "bytes") return undefined;
  if (isTail(asked)) return formats.includes("sse") ? "follow" : undefined;
  return formats.includes("ndjson") ? "rows" : undefined;
}

const isTail = ({ url }: Asked): boolean => url.searchParams.has("_follow");

function clientUrl({ url }: Asked): string {
  const own = new URL(url);
  for (const name of CLIENTS) own.searchParams.delete(name);
  return JSON.stringify(own.href);
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function curl({ url, headers, reads }: Asked, hasToken: boolean): string {
  const token = hasToken ? ['  -H "Authorization: Bearer $TOKEN"'] : [];
  const lines = Object.entries(headers).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`);
  const output = reads === "bytes" ? ["  -o rows.arrows"] : [];
  // -f: a status of failure is a failure; 18 is its exit status for what is cut.
  return ["curl -fsS --compressed", ...token, ...lines, ...output, `  ${quoted(url.href)}`].join(" \\\n");
}

/** Members of an object, as JavaScript and Python write them. */
function members(headers: Record<string, string>): string[] {
  return Object.entries(headers).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`);
}

function client(read: string, asked: Asked, hasToken: boolean): string {
  const headers = members(asked.headers);
  const options = [
    ...(hasToken ? ["token: process.env.TOKEN"] : []),
    ...(headers.length ? [`headers: { ${headers.join(", ")} }`] : []),
  ];
  const list = options.length ? `, { ${options.join(", ")} }` : "";
  return `import { ${read} } from "rowstream"; // npm install rowstream

// It resumes cuts, and throws if a row is missing.
for await (const row of ${read}(${clientUrl(asked)}${list})) {
  console.log(row);
}`;
}

function script(asked: Asked, hasToken: boolean): string {
  const { url, headers } = asked;
  const all = [...(hasToken ? ['"Authorization": `Bearer ${process.env.TOKEN}`'] : []), ...members(headers)];
  const list = all.length ? `, { headers: { ${all.join(", ")} } }` : "";
  // A live tail has no end to wait for.
  const read = isTail(asked)
    ? "for await (const text of response.body.pipeThrough(new TextDecoderStream())) process.stdout.write(text);"
    : "const text = await response.text();";
  return `const response = await fetch(${JSON.stringify(url.href)}${list});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws if the answer is cut.
${read}`;
}

function pythonClient(read: string, asked: Asked, hasToken: boolean): string {
  const headers = members(asked.headers);
  const options = [
    ...(hasToken ? ['token=os.environ["TOKEN"]'] : []),
    ...(headers.length ? [`headers={${headers.join(", ")}}`] : []),
  ];
  return `${hasToken ? "import os\n\n" : ""}import rowstream  # pip install rowstream

# It resumes cuts, and raises if a row is missing.
for row in rowstream.${read}(${[clientUrl(asked), ...options].join(", ")}):
    print(row)`;
}

function python(asked: Asked, hasToken: boolean): string {
  const { url, headers } = asked;
  const all = [...(hasToken ? ['"Authorization": f"Bearer {os.environ[\'TOKEN\']}"'] : []), ...members(headers)];
  const options = [
    JSON.stringify(url.href),
    ...(all.length ? [`headers={${all.join(", ")}}`] : []),
    ...(isTail(asked) ? ["stream=True"] : []),
  ];
  const read = isTail(asked)
    ? "for line in response.iter_lines():  # it raises if the answer is cut\n    print(line.decode())"
    : "body = response.content  # it raises if the answer is cut";
  return `${hasToken ? "import os\n\n" : ""}import requests

response = requests.get(${options.join(", ")})
response.raise_for_status()
${read}`;
}
