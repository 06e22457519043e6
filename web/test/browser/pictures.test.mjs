// Charts are compared with stored pictures. Fonts and smoothing of edges differ between machines: texts are hidden, and a
// picture is reduced to a coarse grid of brightness before it is compared. PRONY_BLESS=1 stores what is drawn.
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { deflateSync, inflateSync } from "node:zlib";
import { drawAll, on, options } from "./open.mjs";

const STORED = join(dirname(fileURLToPath(import.meta.url)), "pictures.json");
/** Pages whose data are the same in every run of the tests. */
const PAGES = ["cache", "sourcing"];
/** Windows, and A4 without Chromium's margins of 1 cm at 96 pixels an inch. */
const VIEWS = [
  { name: "360", width: 360, media: "screen" },
  { name: "1280", width: 1280, media: "screen" },
  { name: "A4", width: 718, media: "print" },
];
const [ACROSS, DOWN] = [48, 24];
/** A cell of the grid differs if its brightness, of 255, does by more than this. */
const STEP = 12;
/** So many of a picture's cells may differ. */
const MOST = 3;

const bless = process.env.PRONY_BLESS === "1";
const stored = await readFile(STORED, "utf8").then(JSON.parse, () => ({}));

/** The brightness of each cell of a picture, computed by a page without a content security policy. */
async function grid(page, png) {
  const blank = await page.context().newPage();
  const cells = await blank.evaluate(
    async ([source, across, down]) => {
      const image = new Image();
      image.src = source;
      await image.decode();
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.width, image.height];
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      const { data } = context.getImageData(0, 0, image.width, image.height);
      const sums = new Array(across * down).fill(0);
      const counts = new Array(across * down).fill(0);
      for (let y = 0; y < image.height; y++) {
        for (let x = 0; x < image.width; x++) {
          const cell = Math.floor((y * down) / image.height) * across + Math.floor((x * across) / image.width);
          const at = 4 * (y * image.width + x);
          sums[cell] += (data[at] + data[at + 1] + data[at + 2]) / 3;
          counts[cell]++;
        }
      }
      return sums.map((sum, cell) => Math.round(sum / counts[cell]));
    },
    [`data:image/png;base64,${png.toString("base64")}`, ACROSS, DOWN],
  );
  await blank.close();
  return cells;
}

/** Each chart of a page, or the first few, by its title, reduced. */
async function pictures(page, most = Infinity) {
  await drawAll(page);
  const found = {};
  for (const figure of (await page.locator("figure.chart").all()).slice(0, most)) {
    const title = await figure.locator("h3").first().textContent();
    const drawn = figure.locator(".canvas svg").first();
    if (!(await drawn.isVisible())) continue;
    // Where it stands in the page depends on the height of texts: half a pixel changes how lines are smoothed.
    const clip = await drawn.evaluate((svg) => {
      svg.querySelectorAll("text").forEach((text) => (text.style.visibility = "hidden"));
      const { width, height } = svg.getBoundingClientRect();
      svg.style.cssText += "; position: fixed; left: 0; top: 0; z-index: 9; background: white";
      return { x: 0, y: 0, width: Math.round(width), height: Math.round(height) };
    });
    found[title] = await grid(page, await page.screenshot({ clip }));
    await drawn.evaluate((svg) => ["position", "left", "top", "z-index", "background"].forEach((key) => svg.style.removeProperty(key)));
  }
  return found;
}

const packed = (cells) => deflateSync(Buffer.from(cells)).toString("base64");
const unpacked = (text) => [...inflateSync(Buffer.from(text, "base64"))];
const differing = (a, b) => a.filter((value, cell) => Math.abs(value - b[cell]) > STEP).length;

for (const name of PAGES) {
  for (const view of VIEWS) {
    const key = `${name} ${view.name}`;
    test(`${key} looks as stored`, options, () =>
      on(name, { viewport: { width: view.width, height: 1000 } }, async (page) => {
        await page.emulateMedia({ media: view.media });
        const found = await pictures(page);
        if (bless) {
          stored[key] = Object.fromEntries(Object.entries(found).map(([title, cells]) => [title, packed(cells)]));
          await writeFile(STORED, `${JSON.stringify(stored, null, 1)}\n`);
          return;
        }
        assert.deepEqual(Object.keys(found), Object.keys(stored[key] ?? {}), "the charts");
        for (const [title, cells] of Object.entries(found)) {
          const n = differing(cells, unpacked(stored[key][title]));
          assert.ok(n <= MOST, `${title}: ${n} of ${ACROSS * DOWN} cells differ; PRONY_BLESS=1 stores what is drawn`);
        }
      }),
    );
  }
}

test("a chart that lacks its intervals or is shifted does not look as stored", { skip: bless || options.skip }, () =>
  on("cache", { viewport: { width: 1280, height: 1000 } }, async (page) => {
    const before = await pictures(page, 2);
    const worst = async (change) => {
      await page.evaluate(change);
      const after = await pictures(page, 2);
      return Math.max(...Object.keys(before).map((title) => differing(before[title], after[title])));
    };
    assert.equal(await worst(() => {}), 0, "the same page twice");
    const shift = () => document.querySelectorAll(".canvas svg").forEach((svg) => (svg.style.transform = "translate(12px, 6px)"));
    assert.ok((await worst(shift)) > MOST, "shifted");
    const hide = () => {
      document.querySelectorAll(".canvas svg").forEach((svg) => svg.style.removeProperty("transform"));
      document.querySelectorAll(".canvas [aria-label=link]").forEach((g) => (g.style.display = "none"));
    };
    assert.ok((await worst(hide)) > MOST, "without intervals");
  }),
);
