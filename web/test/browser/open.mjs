// Opens pages in the system's Chromium and keeps what they try to do.
import { access } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
/** Pages written by `cargo test -p prony --test it report_p`. */
export const pages = process.env.PRONY_PAGES ?? join(here, "../../../target/tmp/pages");
const CANDIDATES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Where Chromium is, if anywhere. */
export async function findChromium() {
  for (const path of [process.env.CHROMIUM, ...CANDIDATES]) {
    if (path && (await access(path).then(() => true, () => false))) return path;
  }
  return null;
}

export function launch(executablePath) {
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
  });
}

/** A page with what went wrong and what was requested. */
export async function open(browser, name, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 900 },
    acceptDownloads: true,
    ...options,
  });
  const page = await context.newPage();
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
  return { page, faults, requests, close: () => context.close() };
}

/** Scrolls through the page, so that every figure is drawn. */
export async function drawAll(page) {
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  await page.waitForTimeout(300);
}
