// The page in a real browser: it loads, answers, and asks the network for nothing.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import { drawAll, on, options } from "./open.mjs";

test("every figure is drawn and has a table that says the same", options, () =>
  on("cache", {}, async (page) => {
    await drawAll(page);
    const sections = await page.$$eval("section.plot:not([hidden])", (all) => all.map((s) => s.id));
    assert.deepEqual(sections, ["effects", "timeline", "throughput", "samples"]);
    for (const canvas of await page.$$(".canvas")) {
      assert.ok(await canvas.$("svg"), "a figure is empty");
      assert.ok(((await canvas.getAttribute("aria-label")) ?? "").length > 20, "a figure says nothing in words");
    }
    await page.locator("#effects summary").click();
    // The table is made when its summary has opened, which is told by an event of its own.
    await page.locator("#effects .alternative tbody tr").first().waitFor({ state: "attached" });
    // Eight comparisons and two baselines beside themselves.
    const rows = await page.locator("#effects .alternative tbody tr").allInnerTexts();
    assert.equal(rows.length, 10);
    assert.equal(rows.filter((row) => /A\/A check/.test(row)).length, 2);
    assert.match(rows[9], /A\/A/, "the A/A check stands below the effects");
  }),
);

// Charts were missing in most screenshots that `chromium --headless --screenshot` took of a page.
test("figures near the window are drawn before the next frame", options, () =>
  on("cache", { viewport: { width: 1280, height: 2600 } }, async (page) => {
    const drawn = await page.$$eval(".canvas", (all) =>
      all.filter((canvas) => canvas.getBoundingClientRect().top < innerHeight).map((canvas) => canvas.querySelector("svg") !== null),
    );
    assert.ok(drawn.length > 0 && !drawn.includes(false), `${drawn}`);
  }, () => {
    globalThis.IntersectionObserver = class {
      observe() {}
      unobserve() {}
    };
  }),
);

test("growth shows what ran out of memory", options, () =>
  on("sourcing", {}, async (page) => {
    await drawAll(page);
    await page.locator("#growth select").first().selectOption("source.rss.peak");
    await drawAll(page);
    assert.match(await page.locator("#growth .canvas").first().innerHTML(), /✕ 16 out of memory \(limit\)/);
    const captions = (await page.locator("#growth figcaption").allInnerTexts()).join(" ");
    assert.match(captions, /source\.anon\.max against documents/, "limited memory stands below what was chosen");
    assert.match(captions, /left out, since they have no value: 16 of 80 trials/);
    assert.match(captions, /extrapolated, not measured: it would reach the memory limit of 16\.00\sGB at about/);
    assert.match((await page.locator("#growth .canvas").last().textContent()) ?? "", /limit 16\sGB/);
    assert.match(await page.locator("#latency figcaption").first().innerText(), /Solid: intended; dashed: actual/);
  }),
);

test("a trial under the pointer says what it is", options, () =>
  on("cache", {}, async (page) => {
    await drawAll(page);
    const canvas = page.locator("#effects .canvas");
    await canvas.scrollIntoViewIfNeeded();
    const dot = canvas.locator("svg g[aria-label=dot] path").first();
    await dot.hover({ force: true });
    await page.waitForTimeout(100);
    assert.match((await canvas.locator("g[aria-label=tip]").textContent()) ?? "", /block \d+, trial \d+/);
    const memory = page.locator("#timeline figure", { hasText: "Anonymous memory" }).locator(".canvas");
    await memory.scrollIntoViewIfNeeded();
    await memory.hover();
    await page.waitForTimeout(100);
    assert.match((await memory.locator("g[aria-label=tip]").textContent()) ?? "", /B.*at .*block \d+, trial \d+/s);
  }),
);

test("filters take variants out of the figures", options, () =>
  on("cache", {}, async (page) => {
    await page.locator(".filters summary").click();
    await page.getByRole("checkbox", { name: "redb" }).uncheck();
    await page.getByRole("checkbox", { name: "single" }).uncheck();
    await drawAll(page);
    await page.locator("#effects summary").click();
    // The table is made when its summary has opened, which is told by an event of its own.
    await page.locator("#effects .alternative tbody tr").first().waitFor({ state: "attached" });
    // Three comparisons, and the baseline of what is left beside itself.
    assert.equal(await page.locator("#effects .alternative tbody tr").count(), 4);
    for (const name of ["lmdb-sync", "lmdb-nometasync", "lmdb-nosync", "sqlite-wal"]) {
      await page.getByRole("checkbox", { name, exact: true }).uncheck();
    }
    assert.match(await page.locator("#effects").innerText(), /Nothing to show with these filters/);
  }),
);

test("paper says which variants the charts leave out", options, () =>
  on("cache", {}, async (page) => {
    await page.emulateMedia({ media: "print" });
    await drawAll(page);
    const among = page.locator("#timeline .choice", { hasText: "Among" });
    assert.ok(await among.isVisible(), "variants are restricted");
    assert.equal(await among.locator("select").evaluate((select) => getComputedStyle(select).borderTopWidth), "0px");
    assert.ok(await page.locator("#raw .controls").isHidden());
    assert.ok(await page.locator(".filters").isHidden(), "nothing is filtered out");
    await page.getByRole("checkbox", { name: "redb", includeHidden: true }).evaluate((box) => box.click());
    await drawAll(page);
    assert.ok(await page.getByRole("checkbox", { name: "redb" }).isVisible());
  }),
);

test("tables sort by figures and copy as Markdown", options, () =>
  on("cache", { permissions: ["clipboard-read", "clipboard-write"] }, async (page) => {
    const figures = () =>
      page.locator("#tables table.sortable").first().locator("tbody tr").evaluateAll((rows) =>
        rows.map((r) => Number([...r.cells].find((c) => c.dataset.value)?.dataset.value)),
      );
    const head = page.locator("#tables th.number button.sort").first();
    await head.focus();
    await page.keyboard.press("Enter");
    const rising = await figures();
    assert.ok(rising.length > 2 && rising.every((v, i) => i === 0 || rising[i - 1] <= v), `${rising}`);
    await page.keyboard.press("Enter");
    assert.deepEqual(await figures(), [...rising].reverse());
    assert.equal(await page.locator("#tables th[aria-sort=descending]").count(), 1);
    await page.getByRole("button", { name: "Copy as Markdown" }).first().click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText()).catch(() => null);
    if (copied !== null) assert.match(copied, /^\| store/);
  }),
);

test("marks of footnotes are no part of figures", options, () =>
  on("marked", { permissions: ["clipboard-read", "clipboard-write"] }, async (page) => {
    const figure = page.locator("#tables figure.table", { hasText: "infinite (4 of 6)" }).first();
    const p99 = figure.getByRole("button", { name: /latency\.p99/ });
    const stores = () => figure.locator("tbody tr").evaluateAll((rows) => rows.map((row) => row.cells[0].innerText));
    // A missing value was the digit of its footnote, or -1.
    await p99.press("Enter");
    assert.deepEqual(await stores(), ["a", "b", "c"]);
    await p99.press("Enter");
    assert.deepEqual(await stores(), ["b", "a", "c"], "what is missing stays last");
    await figure.getByRole("button", { name: "Copy as Markdown" }).click();
    await page.getByRole("button", { name: "Copied" }).waitFor();
    const copied = await page.evaluate(() => navigator.clipboard.readText()).catch(() => null);
    if (copied === null) return;
    const marks = [...copied.matchAll(/^\|.* \[(\d+)\] \|/gm)].map((row) => row[1]);
    assert.equal(marks.length, 2, copied);
    for (const mark of marks) assert.match(copied, new RegExp(`^\\[${mark}\\] \\w`, "m"), "its text stands below");
    assert.match(copied, /\| - \[\d+\] \|/);
    assert.match(copied, /^\[\d+\] infinite, since 20 of 1500 operations failed/m);
  }),
);

test("raw data are offered as files", options, () =>
  on("cache", {}, async (page) => {
    const file = async (name) => {
      const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name }).click()]);
      return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
    };
    const trials = await file("Trials (CSV)");
    assert.equal(trials.name, "run-1-trials.csv");
    assert.equal(trials.text.trim().split("\r\n").length, 1 + 144);
    assert.match(trials.text, /write\.time \[nanos\]/);
    assert.equal(JSON.parse((await file("Everything (JSON)")).text).title, "What durability costs a cache");
    assert.match((await file("Timelines (CSV)")).text, /anon \[bytes\]/);
  }),
);

test("the theme follows the system and the button", options, () =>
  on("cache", { colorScheme: "dark" }, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await background();
    const button = page.locator("#theme");
    await button.click();
    const light = await background();
    assert.notEqual(dark, light);
    assert.equal(light, "rgb(255, 255, 255)");
    await button.click();
    assert.equal(await background(), dark);
    assert.equal(await button.innerText(), "Theme: dark");
  }),
);

test("names from outside do nothing", options, () =>
  on("hostile", {}, async (page) => {
    await drawAll(page);
    for (const summary of await page.$$("summary")) await summary.click();
    await page.waitForTimeout(200);
    assert.equal(await page.evaluate(() => globalThis.hit), undefined);
    assert.equal(await page.locator("img").count(), 0);
    assert.match(await page.title(), /^<\/script><img src=x/);
    assert.ok(!(await page.evaluate(() => document.body.innerText)).includes("\u202e"));
  }),
);

test("a flame graph is walked by keyboard and filled by a call", options, () =>
  on("profile", {}, async (page) => {
    const section = page.locator("#profiles");
    await section.scrollIntoViewIfNeeded();
    assert.match(await section.innerText(), /V8's own profiler every 250/);
    assert.match(await section.innerText(), /times the wall time and .* times the CPU time of the median of \d+ trials/);
    const said = () => section.locator(".flame-said").innerText();
    const width = async (name) => (await section.locator(".flame > div", { hasText: name }).first().boundingBox())?.width ?? 0;
    const before = await width("transform");
    await section.locator('.flame [tabindex="0"]').focus();
    // Everything, the thread, build, source, transform.
    for (let depth = 0; depth < 4; depth++) await page.keyboard.press("ArrowDown");
    assert.match(await said(), /transform \(.*: 2[34]\S*\s% total/);
    await page.keyboard.press("ArrowRight");
    assert.match(await said(), /writeBatch .*lmdb/);
    await page.keyboard.press("ArrowLeft");
    await page.keyboard.press("Enter");
    assert.ok((await width("transform")) > 1.9 * before, "it fills the width");
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), "transform");
    await page.keyboard.press("Escape");
    assert.ok(Math.abs((await width("transform")) - before) < 2);
    await section.locator(".flame > div", { hasText: "writeBatch" }).first().hover();
    assert.match(await said(), /writeBatch/);
    assert.match(await section.locator(".profile-functions tbody tr").first().innerText(), /transform/);
    assert.ok((await section.locator(".profile-packages tbody tr").count()) >= 4);
    assert.equal(await page.evaluate(() => globalThis.hit), undefined);
    assert.equal(await page.locator("img").count(), 0, "names are text");
  }),
);

test("a variant without a profile says why", options, () =>
  on("profile", {}, async (page) => {
    const section = page.locator("#profiles");
    await section.locator("select").first().selectOption({ index: 1 });
    assert.match(await section.innerText(), /There is no profile: not permitted: perf_event_paranoid is 3/);
    assert.equal(await section.locator(".flame").count(), 0);
  }),
);

test("every control is reached by keyboard and has a name", options, () =>
  on("cache", {}, async (page) => {
    const nameless = await page.$$eval("button, select, input, summary, a", (all) =>
      all.filter((e) => !(e.textContent?.trim() || e.getAttribute("aria-label") || e.closest("label")?.textContent?.trim())).length,
    );
    assert.equal(nameless, 0);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement?.className), "skip");
  }),
);
