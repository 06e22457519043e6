import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProfilePhase } from "../../src/data.ts";
import { across, colour, layout, sentence } from "../../src/flame.ts";

const PHASE: ProfilePhase = {
  phase: "source",
  overhead: "",
  amount: "",
  busy: 2,
  names: [
    { text: "main", package: 0, place: "build.js:1" },
    { text: "walk", package: 0, place: "build.js:9" },
    { text: "put", package: 1, place: "lmdb/index.js:3" },
    { text: "w [7]", package: null, place: "" },
  ],
  packages: ["the program", "lmdb"],
  functions: [],
  more: 0,
  by_package: [
    [1, 0.6, 0.6],
    [0, 0.4, 0.9],
  ],
  // main calls walk, which calls itself, and put; a second root.
  calls: [
    [-1, 0, 0.1, 0.9],
    [0, 1, 0.05, 0.2],
    [0, 2, 0.6, 0.6],
    [1, 1, 0.15, 0.15],
    [-1, 2, 0.1, 0.1],
  ],
  left_out: 0,
  smallest: 0.001,
};

const near = (a: number, b: number) => assert.ok(Math.abs(a - b) < 1e-9, `${a} ${b}`);

test("a call is as wide as its share and lies below its caller", () => {
  const root = layout(PHASE.calls);
  for (const node of root.descendants()) {
    near(node.x1 - node.x0, node.data.index < 0 ? 1 : node.data.total);
    near(node.y0, node.depth);
    if (node.parent) assert.ok(node.x0 >= node.parent.x0 - 1e-9 && node.x1 <= node.parent.x1 + 1e-9);
  }
  const main = root.children![0]!;
  assert.deepEqual(main.children!.map((c) => c.data.index), [2, 1], "the widest first");
  near(main.x1 - main.children![1]!.x1, 0.1);
});

test("time of roots that are left out is blank", () => {
  const root = layout([[-1, 0, 0.1, 0.293], [-1, 1, 0.2, 0.34]]);
  near(root.children![1]!.x1 - root.children![1]!.x0, 0.293);
  near(root.children![1]!.x1, 0.633);
  assert.equal(sentence(PHASE, root.data), "everything: 100\u00a0% total, 0\u00a0% self");
});

test("zooming fills the width with a call and hides what is beside it", () => {
  const root = layout(PHASE.calls);
  const main = root.children![0]!;
  const [put, walk] = main.children!;
  near(across(put!, root)!.width, 0.6);
  const zoomed = across(put!, put!)!;
  near(zoomed.left, 0);
  near(zoomed.width, 1);
  near(across(main, put!)!.width, 1);
  assert.equal(across(walk!, put!), null);
});

test("an empty phase has a picture of nothing", () => {
  assert.equal(layout([]).descendants().length, 1);
});

test("packages have colours by their time, threads none", () => {
  assert.match(colour(PHASE, 2), /--c0/);
  assert.match(colour(PHASE, 0), /--c1/);
  assert.equal(colour(PHASE, 3), "var(--panel)");
});

test("a call is described in words", () => {
  const put = layout(PHASE.calls).descendants().find((n) => n.data.index === 2)!;
  assert.equal(sentence(PHASE, put.data), "put (lmdb/index.js:3, lmdb): 60\u00a0% total, 60\u00a0% self");
});
