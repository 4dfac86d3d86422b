// Writes the console as the server has it: `node build.mjs [FOLDER]`, into `src/respond/console/` unless
// another folder is named. The same sources and packages give the same bytes: a test compares.
import { createHash } from "node:crypto";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../src/respond/console"));
// Tests have the packages in a folder of their own.
const packages = process.env.CONSOLE_PACKAGES ?? join(here, "node_modules");
const esbuild = createRequire(pathToFileURL(join(packages, "_")))("esbuild");

const built = await esbuild.build({
  entryPoints: { console: join(here, "src/app.ts"), style: join(here, "src/style.css") },
  tsconfig: join(here, "tsconfig.json"),
  absWorkingDir: here,
  nodePaths: [packages],
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022", "chrome123", "firefox120", "safari17.5"],
  legalComments: "eof",
  charset: "utf8",
  write: false,
  outdir: out,
});
await mkdir(out, { recursive: true });
let page = await readFile(join(here, "src/index.html"), "utf8");
for (const { path, contents, text } of built.outputFiles) {
  const name = path.slice(out.length + 1);
  // Named by their contents, they may be kept for good.
  const version = createHash("sha256").update(contents).digest("hex").slice(0, 16);
  page = page.replace(`"${name}"`, `"./${name}?v=${version}"`);
  await writeFile(join(out, name), text);
}
await writeFile(join(out, "index.html"), page);
