// Opens pages in the system's Chromium and keeps what they try to do.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { access } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
/** Pages written by `cargo test -p prony --test it report_p`. */
const pages = process.env.PRONY_PAGES ?? join(here, "../../../target/tmp/pages");
const CANDIDATES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Where Chromium is, if anywhere. */
async function findChromium() {
  for (const path of [process.env.CHROMIUM, ...CANDIDATES]) {
    if (path && (await access(path).then(() => true, () => false))) return path;
  }
  return null;
}

function launch(executablePath) {
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
  });
}

/** A page with what went wrong and what was requested. */
async function open(browser, name, options, first) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    acceptDownloads: true,
    ...options,
  });
  const page = await context.newPage();
  if (first) await page.addInitScript(first);
  const faults = [];
  const requests = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) faults.push(message.text());
  });
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(pathToFileURL(join(pages, `${name}.html`)).href);
  // The last thing that the script does when it has read the page's data.
  await page.locator("#nav a").first().waitFor();
  return { page, faults, requests, close: () => context.close() };
}

/** Scrolls through the page, so that every figure is drawn. */
export async function drawAll(page) {
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.waitForTimeout(300);
}

const path = await findChromium();
if (!path && process.env.PRONY_REQUIRE_ALL === "1") throw new Error("no Chromium, and PRONY_REQUIRE_ALL is 1");
if (!path) console.error("SKIPPED: no Chromium found; set CHROMIUM to its path, or install it");
export const options = path ? {} : { skip: "no Chromium" };

let browser;
before(async () => {
  if (!path) return;
  if (!(await access(join(pages, "cache.html")).then(() => true, () => false))) {
    const made = spawnSync("cargo", ["test", "-p", "prony", "--test", "it", "report_p"], { stdio: "inherit" });
    assert.equal(made.status, 0, "`cargo test -p prony --test it report_p` writes the pages");
  }
  browser = await launch(path);
});
after(() => browser?.close());

/**
 * Opens a page, hands it over, and checks that nothing went wrong and nothing was requested. `first` runs in the page
 * before its own script.
 */
export async function on(name, settings, body, first) {
  const opened = await open(browser, name, settings, first);
  try {
    await body(opened.page);
    assert.deepEqual(opened.faults, [], "console errors");
    assert.equal(opened.requests.length, 1, `requests: ${opened.requests}`);
  } finally {
    await opened.close();
  }
}
