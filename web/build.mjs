// Builds the report's script and style sheet into the crate that embeds them. The same sources and
// lock file give the same bytes; `--check` compares instead of writing.
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const assets = join(here, "../crates/prony/src/report/html/assets");

const shared = { bundle: true, minify: true, write: false, charset: "ascii", target: ["es2022"], logLevel: "warning" };
const script = await build({
  ...shared,
  absWorkingDir: here,
  entryPoints: ["src/main.ts"],
  format: "iife",
  legalComments: "eof",
});
const style = await build({ ...shared, absWorkingDir: here, entryPoints: ["src/app.css"] });

// What the bundled libraries ask to be kept with them; their files carry no such comments.
const licences = await Promise.all(
  [["Observable Plot", "@observablehq/plot"], ["D3", "d3"]].map(async ([name, module]) => {
    const text = await readFile(join(here, "node_modules", module, "LICENSE"), "utf8");
    return `${name}\n\n${text.trim().replaceAll("*/", "* /")}`;
  }),
);
const code = `/*!\n${licences.join("\n\n")}\n*/\n${script.outputFiles[0].text}`;
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
