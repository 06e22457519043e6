import assert from "node:assert/strict";
import { test } from "node:test";
import type { Chart, Control, Mark, Payload, Section } from "../../src/data.ts";
import { hideOutside } from "../../src/draw.ts";
import { Scene } from "../../src/scene.ts";
import { State } from "../../src/state.ts";
import { chart, pack, payload } from "./payload.ts";

function scene(data: Payload, section: Partial<Section>): Scene {
  return new Scene(new State(data), { controls: [], series: [], legend: true, charts: [], ...section });
}

const on = (...marks: Mark[]): Chart => ({ ...chart, marks });
const control = (does: Control["does"], options: Control["options"]): Control => ({ label: does, does, options, chosen: 0 });
const xs = (of: Scene) => of.charts().map(({ marks }) => marks.map(({ points }) => points.map((p) => p.x)));

test("points of trials stand for their variants and go with them", () => {
  const data = payload([pack([1, 2, 3, 4, 5])]);
  const of = scene(data, { charts: [on({ kind: "dots", of: "trials", x: 0 })] });
  assert.deepEqual(xs(of), [[[1, 2, 3, 4, 5]]]);
  assert.deepEqual(of.charts()[0]!.marks[0]!.points.map((p) => [p.trial, p.series!.name]), [[0, "a"], [1, "a"], [2, "=b"], [3, "a"], [4, "=b"]]);
  of.state.set(0, 0, false);
  assert.deepEqual(xs(of), [[[3, 5]]]);
  of.state.set(0, 1, false);
  assert.deepEqual(xs(of), [], "nothing is left to draw");
});

test("figures are divided by the number of their group", () => {
  const data = payload([pack([2, 8, 12, 5, 100]), pack([NaN, 0, 0, NaN, 1]), pack([4, 50])]);
  const of = scene(data, { charts: [on({ kind: "dots", of: "trials", x: 0, over: { groups: 1, numbers: 2 } })] });
  assert.deepEqual(xs(of), [[[NaN, 2, 3, NaN, 2]]]);
});

test("what several variants have together stays while one of them is shown", () => {
  const data = payload([pack([1, 2])]);
  const of = scene(data, { charts: [on({ kind: "line", of: [0, 1], x: 0 }, { kind: "line", of: { each: [0, 1] }, x: 0 })] });
  of.state.set(0, 0, false);
  assert.deepEqual(xs(of), [[[1, 2], [2]]]);
});

test("a choice shows the charts and marks that name it", () => {
  const data = payload([pack([1]), pack([2])]);
  const marks: Mark[] = [
    { kind: "line", of: 0, x: 0, when: [[1, 0, 0]] },
    { kind: "line", of: 0, x: 1, when: [[1, 1, 29]] },
  ];
  const options = [{ text: "first" }, { text: "second" }, { text: "third" }];
  const charts = [{ ...on(...marks), when: [[0, 0, 0] as [number, number, number]] }];
  const of = scene(data, { controls: [control("select", options), control("select", options)], charts });
  assert.deepEqual(xs(of), [[[1]]]);
  of.chosen[1] = 2;
  assert.deepEqual(xs(of), [[[2]]], "a variant with two trials shows its last");
  of.chosen[0] = 1;
  assert.deepEqual(xs(of), []);
});

test("a choice restricts variants, and the legend names those that are left", () => {
  const data = payload([pack([1, 2, 3, 4, 5])]);
  const options = [{ text: "b", variants: [1] }, { text: "all variants" }];
  const of = scene(data, { controls: [control("restrict", options)], charts: [on({ kind: "dots", of: "trials", x: 0 })] });
  const names = () => of.legend(of.charts().flatMap(({ marks }) => marks)).map((s) => s.name);
  assert.deepEqual(names(), ["=b"]);
  of.chosen[0] = 1;
  assert.deepEqual(names(), ["a", "=b"]);
});

test("zero moves with the choice", () => {
  const data = payload([pack([10, 20]), pack([0, 4])]);
  const of = scene(data, {
    controls: [control("shift", [{ text: "begin" }, { text: "later" }])],
    charts: [on({ kind: "bars", of: 2, x: 0, x2: 0, shifts: 1 })],
  });
  of.chosen[0] = 1;
  assert.deepEqual(of.charts()[0]!.marks[0]!.points.map((p) => [p.x, p.x2]), [[6, 6], [16, 16]]);
});

test("what a shift moves before a logarithmic axis has neither place nor height", () => {
  const data = payload([pack([1, 2.05, 2.1, 5]), pack([9, 8, 7, 6]), pack([1.5, 3, 4, 6]), pack([0, 2])]);
  const of = scene(data, {
    controls: [{ ...control("shift", [{ text: "begin" }, { text: "later" }]), chosen: 1 }],
    charts: [on({ kind: "line", of: 2, x: 0, y: 1, shifts: 3 }, { kind: "bars", of: 2, x: 0, x2: 2, y: 1, shifts: 3 })],
  });
  const { marks } = of.charts()[0]!;
  // The axis begins at a tenth, of which 32 bits make a little less.
  hideOutside({ ...chart, x: { format: "seconds", scale: "between", low: 0.1 + 1e-7, high: 5 } }, marks);
  const [line, bars] = marks.map(({ points }) => points.map((p) => [Math.round(p.x * 100) / 100, p.y]));
  assert.deepEqual(line, [[NaN, NaN], [NaN, NaN], [0.1, 7], [3, 6]]);
  assert.deepEqual(bars!.map(([, y]) => y), [9, 8, 7, 6], "bars begin with the axis");
});

test("the bands of one variant are drawn, and the caption names it", () => {
  const data = payload([pack([1]), pack([2]), pack([3])]);
  const bands = (of: Mark["of"], x: number): Mark => ({ kind: "bands", of, x });
  const caption = [{ text: "Shaded: a.", variants: [0], shaded: true }, { text: "Shaded: b.", variants: [1], shaded: true }, { text: "Always." }];
  const of = scene(data, {
    controls: [control("shade", [{ text: "the first shown" }, { text: "b", variants: [1] }])],
    charts: [{ ...on(bands(null, 0), bands(0, 1), bands(2, 2)), caption }],
  });
  const both = () => of.charts().map(({ chart: c, marks }) => [marks.map((m) => m.points[0]!.x), of.figure(c, marks).caption])[0];
  assert.deepEqual(both(), [[1, 2], "Shaded: a. Always."]);
  of.chosen[0] = 1;
  assert.deepEqual(both(), [[1, 3], "Shaded: b. Always."]);
  of.chosen[0] = 0;
  of.state.set(0, 0, false);
  assert.deepEqual(both(), [[1, 3], "Shaded: b. Always."], "the first is filtered out");
});

test("lanes stand by rank or as they come, and what is last stays last", () => {
  const lane = (rank: number | null, last = false, variant = 1) => ({ variant, rank, last });
  const lanes = [lane(0, true), lane(3), lane(null), lane(2, false, 0), lane(1)];
  const of = scene(payload([]), { controls: [control("order", [{ text: "by effect" }, { text: "as it comes" }])] });
  const c: Chart = { ...chart, y: { format: "plain", scale: "lanes", lanes } };
  assert.deepEqual(of.lanes(c), [4, 3, 1, 2, 0]);
  of.chosen[0] = 1;
  assert.deepEqual(of.lanes(c), [1, 2, 3, 4, 0]);
  of.state.set(0, 0, false);
  assert.deepEqual(of.lanes(c), [1, 2, 4, 0]);
});

test("rows of a table stand in the order of the lanes", () => {
  const lanes = [{ variant: 0, rank: 0, last: true }, { variant: 1, rank: 1 }];
  const rows = [0, 1].map((variant) => ({ cells: [String(variant)], variant }));
  const c: Chart = { ...chart, y: { format: "plain", scale: "lanes", lanes }, table: { heads: ["Variant", "n"], rows } };
  assert.deepEqual(scene(payload([]), {}).figure(c, []).table().rows, [["=b", "1"], ["a", "0"]]);
});

test("a series is that of the chosen factor", () => {
  const named = (name: string, at: number) => ({
    name, colour: 0, dash: 0, symbol: 0, baseline: false, variants: [0, 1], when: [[0, at, at] as [number, number, number]],
  });
  const of = scene(payload([pack([1])]), {
    controls: [control("select", [{ text: "x" }, { text: "y" }])],
    series: [named("by x", 0), named("by y", 1)],
    charts: [on({ kind: "line", of: 0, x: 0 })],
  });
  of.chosen[0] = 1;
  assert.equal(of.charts()[0]!.marks[0]!.points[0]!.series!.name, "by y");
});

test("a figure says in words what its table says", () => {
  const rows = [
    { cells: ["1 s", "-"], variant: 0 },
    { cells: ["2 s", "none"], variant: 1 },
    { cells: ["9 s", "none"], variant: 1, when: [[0, 1, 1] as [number, number, number]] },
  ];
  const c: Chart = { ...chart, table: { heads: ["Variant", "median", "ended"], rows } };
  const of = scene(payload([]), { controls: [control("select", [{ text: "x" }, { text: "y" }])] });
  const figure = of.figure(c, []);
  assert.equal(figure.alternative, "a: median 1 s; =b: median 2 s, ended none");
  assert.deepEqual(figure.table().rows.length, 2);
  of.state.set(0, 1, false);
  assert.equal(of.figure(c, []).alternative, "a: median 1 s");
});
