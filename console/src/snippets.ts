// The same request in other languages. Each of them notices an answer that is not whole.

export interface Snippet {
  name: string;
  text: string;
}

export function snippets(url: URL, headers: Record<string, string>, format: string, hasToken: boolean): Snippet[] {
  const isFramed = format === "ndjson" && url.searchParams.has("_end");
  const all = hasToken ? { Authorization: "Bearer $TOKEN", ...headers } : headers;
  return [
    { name: "curl", text: curl(url, all, format) },
    { name: "JavaScript", text: isFramed ? framedScript(url, all) : script(url, all) },
    { name: "Python", text: isFramed ? framedPython(url, all) : python(url, all) },
  ];
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function curl(url: URL, headers: Record<string, string>, format: string): string {
  const lines = Object.entries(headers).map(([name, value]) =>
    value.includes("$TOKEN") ? `  -H "${name}: ${value}"` : `  -H ${quoted(`${name}: ${value}`)}`,
  );
  const output = format === "arrow" ? ["  -o rows.arrows"] : [];
  // -f: a status of failure is a failure; 18 is its exit status for what is cut.
  return ["curl -fsS --compressed", ...lines, ...output, `  ${quoted(url.href)}`].join(" \\\n");
}

function scriptHeaders(headers: Record<string, string>): string {
  if (Object.keys(headers).length === 0) return "";
  const members = Object.entries(headers).map(([name, value]) =>
    value.includes("$TOKEN")
      ? `${JSON.stringify(name)}: \`${value.replace("$TOKEN", "${token}")}\``
      : `${JSON.stringify(name)}: ${JSON.stringify(value)}`,
  );
  return `, { headers: { ${members.join(", ")} } }`;
}

function script(url: URL, headers: Record<string, string>): string {
  return `const response = await fetch(${JSON.stringify(url.href)}${scriptHeaders(headers)});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws if the answer is cut.
const text = await response.text();`;
}

function framedScript(url: URL, headers: Record<string, string>): string {
  return `const response = await fetch(${JSON.stringify(url.href)}${scriptHeaders(headers)});
if (!response.ok) throw new Error((await response.json()).detail);
const record = \`{"$rowstream":"\${response.headers.get("Rowstream-Tag")}",\`;
let rest = "", end;
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    if (line.startsWith(record)) end = JSON.parse(line).end ?? end;
    else console.log(JSON.parse(line)); // a row
  }
}
if (!end) throw new Error("the answer is not whole");`;
}

function pythonHeaders(headers: Record<string, string>): string {
  if (Object.keys(headers).length === 0) return "";
  const members = Object.entries(headers).map(([name, value]) =>
    value.includes("$TOKEN")
      ? `${JSON.stringify(name)}: f"${value.replace("$TOKEN", "{token}")}"`
      : `${JSON.stringify(name)}: ${JSON.stringify(value)}`,
  );
  return `, headers={${members.join(", ")}}`;
}

function python(url: URL, headers: Record<string, string>): string {
  return `import requests

response = requests.get(${JSON.stringify(url.href)}${pythonHeaders(headers)})
response.raise_for_status()
body = response.content  # it raises if the answer is cut`;
}

function framedPython(url: URL, headers: Record<string, string>): string {
  return `import json, requests

end = None
with requests.get(${JSON.stringify(url.href)}${pythonHeaders(headers)}, stream=True) as response:
    response.raise_for_status()
    record = '{"$rowstream":"%s",' % response.headers["Rowstream-Tag"]
    for line in response.iter_lines():
        text = line.decode()
        if text.startswith(record):
            end = json.loads(text).get("end", end)
        elif text:
            print(json.loads(text))  # a row
if end is None:
    raise EOFError("the answer is not whole")`;
}
