// Builds the report's script and style sheet into the crate that embeds them. The same sources and
// lock file give the same bytes; `--check` compares instead of writing.
import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "../crates/prony-report/src/html/assets");

const shared = { bundle: true, minify: true, write: false, charset: "ascii", target: ["es2022"], logLevel: "warning" };
const script = await build({
  ...shared,
  absWorkingDir: here,
  entryPoints: ["src/main.ts"],
  format: "iife",
  legalComments: "eof",
  metafile: true,
});
const style = await build({ ...shared, absWorkingDir: here, entryPoints: ["src/app.css"] });

// What the bundled libraries ask to be kept with them: their files carry no such comments.
const bundled = Object.keys(script.metafile.inputs)
  .map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1])
  .filter((name) => name !== undefined);
const licences = new Map();
for (const name of [...new Set(bundled)].sort()) {
  const folder = join(here, "node_modules", name);
  const file = (await readdir(folder)).find((entry) => /^licen[sc]e/i.test(entry));
  if (!file) throw new Error(`\`${name}\` has no licence file`);
  const text = (await readFile(join(folder, file), "utf8")).trim().replaceAll("\r", "").replaceAll("*/", "* /");
  licences.set(text, [...(licences.get(text) ?? []), name]);
}
const notice = [...licences].map(([text, names]) => `${names.join(", ")}:\n\n${text}`).join("\n\n");
const code = `/*!\n${notice}\n*/\n${script.outputFiles[0].text}`;
if (/<\/script|<!--/i.test(code)) throw new Error("the script would end its own element");

const files = {
  "app.js": code,
  "app.css": style.outputFiles[0].text,
  // The page's policy names the script by this; the element holds the file's bytes and nothing else.
  "app.js.sha256": createHash("sha256").update(code).digest("base64") + "\n",
};

let differs = false;
for (const [name, text] of Object.entries(files)) {
  const path = join(assets, name);
  const before = await readFile(path, "utf8").catch(() => "");
  if (before === text) continue;
  differs = true;
  if (!process.argv.includes("--check")) await writeFile(path, text);
  console.log(`${name}: ${text.length} bytes${process.argv.includes("--check") ? ", differs from what is checked in" : ""}`);
}
if (differs && process.argv.includes("--check")) {
  console.error("hint: run `npm run build` in `web/` and commit the result");
  process.exitCode = 1;
}
