// What every page must look like, whatever fonts and browser draw it, as facts about boxes; charts are compared in pictures.test.mjs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { drawAll, on, options } from "./open.mjs";

const PAGES = ["profile", "cache", "sourcing", "hostile", "alone", "failed", "undeclared", "nothing"];
/** A4 without Chromium's margins of 1 cm, at 96 pixels an inch. */
const PAPER = 718;

/** Boxes that reach beyond the window, apart from what scrolls within it. */
function wide() {
  const width = document.documentElement.clientWidth;
  // What a table is made from is to be read without scrolling.
  const scrolls = (e) => e.closest(".scroll, pre, .flame, .hidden, .skip, svg") && !e.matches("caption *");
  const name = (e) => `${e.tagName} ${e.textContent.slice(0, 60)}`;
  const found = [...document.querySelectorAll("body *")].filter((e) => !scrolls(e) && e.getBoundingClientRect().right > width + 1);
  return found.map(name).concat(document.documentElement.scrollWidth > width ? ["the document"] : []);
}

/** Words of texts that stand on two lines although one line has room for them. */
function broken() {
  const found = [];
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const parent = node.parentElement;
    if (parent.closest("svg, pre, select, .flame, .hidden")) continue;
    let block = parent;
    while (getComputedStyle(block).display.startsWith("inline")) block = block.parentElement;
    const boxes = (from, length) => {
      const range = document.createRange();
      range.setStart(node, from);
      range.setEnd(node, from + length);
      return [...range.getClientRects()].filter((box) => box.width > 0);
    };
    for (const token of node.data.matchAll(/\S+/gu)) {
      const width = boxes(token.index, token[0].length).reduce((sum, box) => sum + box.width, 0);
      // What stands directly before or after it in another element belongs to it.
      const run = block.querySelector("wbr") ? [] : block.textContent.split(/\s+/).filter((run) => run.includes(token[0]));
      const longest = Math.max(token[0].length, ...run.map((run) => run.length));
      if ((width * longest) / token[0].length >= block.clientWidth) continue;
      for (const word of token[0].matchAll(/[\p{L}\p{N}]+/gu)) {
        const lines = boxes(token.index + word.index, word[0].length);
        const apart = lines.some((box) => Math.abs(box.top - lines[0].top) > box.height / 2);
        if (apart) found.push(`${word[0]} in ${parent.tagName}`);
      }
    }
  }
  return found;
}

/** Texts of charts that lie on each other or are cut off, and charts in which nothing is drawn. */
function charts() {
  const found = [];
  for (const figure of document.querySelectorAll("figure.chart")) {
    const title = figure.querySelector("h3").textContent;
    const canvas = figure.querySelector(".canvas").getBoundingClientRect();
    const texts = [...figure.querySelectorAll(".canvas text")].filter((text) => !text.closest("[aria-label=tip]"));
    const boxes = texts.map((text) => ({ words: text.textContent, box: text.getBoundingClientRect() })).filter(({ box }) => box.width > 0);
    for (const [at, { words, box }] of boxes.entries()) {
      if (box.left < canvas.left - 1 || box.right > canvas.right + 1) found.push(`${title}: cut off: ${words}`);
      for (const other of boxes.slice(at + 1)) {
        const across = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
        const down = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
        // Boxes are a little higher than their letters.
        if (across > 1 && down > 4) found.push(`${title}: overlap: ${words} and ${other.words}`);
      }
    }
    const marks = figure.querySelectorAll("[aria-label=line] path, [aria-label=dot] *, [aria-label=rect] rect, [aria-label=link] path");
    // The shades of phases and margins are no data.
    const drawn = [...marks].some((mark) => !/--(shade|band)/.test(mark.getAttribute("fill")) && mark.getBoundingClientRect().width > 1);
    if (!drawn) found.push(`${title}: nothing is drawn`);
  }
  return found;
}

/** Texts outside of charts that lie on each other, or are cut off by an element that does not scroll. */
function collisions() {
  const found = [];
  const boxes = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT, (node) =>
    node.data.trim() && !node.parentElement.closest("svg, script, style, select, .flame, .hidden, .skip") ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT,
  );
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    if (!node.parentElement.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const line of range.getClientRects()) {
      let { left, right, top, bottom } = line;
      // What is scrolled out of sight lies on nothing.
      for (let around = node.parentElement; around; around = around.parentElement) {
        const { overflowX, overflowY } = getComputedStyle(around);
        if (overflowX === "visible" && overflowY === "visible") continue;
        const box = around.getBoundingClientRect();
        const hidden = [overflowX === "hidden" && right > box.right + 1, overflowY === "hidden" && bottom > box.bottom + 1];
        if (around !== document.body && hidden.includes(true)) found.push(`cut off: ${node.data.trim().slice(0, 40)}`);
        [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
        [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
      }
      if (right - left > 1 && bottom - top > 1) boxes.push({ node, left, right, top, bottom });
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (const [at, box] of boxes.entries()) {
    for (let next = at + 1; next < boxes.length && boxes[next].top < box.bottom - 4; next++) {
      const other = boxes[next];
      const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
      const down = Math.min(box.bottom, other.bottom) - other.top;
      // Boxes are a little higher than their letters, and the lines of one paragraph may touch.
      if (across > 1 && down > 5) found.push(`overlap: ${box.node.data.trim().slice(0, 40)} and ${other.node.data.trim().slice(0, 40)}`);
    }
  }
  return found;
}

/** The columns of tables that do not stand whole on the paper. */
const cut = () =>
  [...document.querySelectorAll("th, td")]
    .filter((cell) => cell.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map((cell) => cell.textContent);

for (const name of PAGES) {
  for (const width of [360, 800, 1280, 3840]) {
    test(`${name} fits ${width} pixels`, options, () =>
      on(name, { viewport: { width, height: 800 } }, async (page) => {
        await drawAll(page);
        assert.deepEqual(await page.evaluate(wide), []);
        assert.deepEqual(await page.evaluate(broken), []);
        assert.deepEqual(await page.evaluate(charts), []);
        assert.deepEqual(await page.evaluate(collisions), []);
      }),
    );
  }
  test(`${name} is printed whole on A4`, options, () =>
    on(name, { viewport: { width: PAPER, height: 1000 } }, async (page) => {
      await page.emulateMedia({ media: "print" });
      await drawAll(page);
      assert.deepEqual(await page.evaluate(cut), []);
      assert.deepEqual(await page.evaluate(broken), []);
      assert.deepEqual(await page.evaluate(charts), []);
      assert.deepEqual(await page.evaluate(collisions), []);
      assert.deepEqual(await page.evaluate(wide), []);
    }),
  );
}

test("verdicts stand first, then the table that answers, then the figures", options, () =>
  on("cache", {}, async (page) => {
    const ids = await page.$$eval("main > section:not([hidden])", (all) => all.map((section) => section.id));
    assert.deepEqual(ids.slice(0, 3), ["verdicts", "answer", "effects"]);
    assert.equal(await page.locator("#answer table").count(), 1);
  }),
);

test("captions of wide tables are read without scrolling", options, () =>
  on("profile", { viewport: { width: 360, height: 800 } }, async (page) => {
    await drawAll(page);
    const captions = await page.$$eval("#profiles caption", (all) =>
      all.map((caption) => {
        const text = document.createRange();
        text.selectNodeContents(caption.querySelector("span") ?? caption);
        return { table: caption.clientWidth, text: text.getBoundingClientRect().right };
      }),
    );
    assert.ok(captions.some(({ table }) => table > 360), "a table is wider than the window");
    for (const { text } of captions) assert.ok(text <= 360, `${text}`);
  }),
);

test("the longest labels of an axis are not cut off", options, () =>
  on("cache", {}, async (page) => {
    await drawAll(page);
    const labels = page.locator('#timeline [aria-label="y-axis tick label"] text');
    assert.ok((await labels.count()) > 5);
    await labels.evaluateAll((all) => all.forEach((label) => (label.textContent = "12.5\u00a0MB/s")));
    assert.deepEqual(await page.evaluate(charts), []);
  }),
);

test("texts that lie on each other, and texts that are cut off, are found", options, () =>
  on("alone", {}, async (page) => {
    await drawAll(page);
    const after = (style) =>
      page.evaluate((style) => {
        document.querySelector("main h2").style.cssText = style;
      }, style);
    await after("margin-bottom: -2em");
    assert.match((await page.evaluate(collisions)).join(), /^overlap: /);
    await after("width: 1em; overflow: hidden; white-space: nowrap");
    assert.match((await page.evaluate(collisions)).join(), /^cut off: /);
  }),
);
