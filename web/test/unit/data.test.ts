import assert from "node:assert/strict";
import { test } from "node:test";
import { type Metric, type Payload, median, ratios, reason, unpack, values } from "../../src/data.ts";
import { looks } from "../../src/look.ts";
import { trialsCsv } from "../../src/raw.ts";
import { compare } from "../../src/tables.ts";

const pack = (numbers: number[]) => Buffer.from(Float32Array.from(numbers).buffer).toString("base64");

function metric(numbers: number[], missing: Metric["missing"] = []): Metric {
  return { name: "write.time", unit: "nanos", better: "lower", doc: "", values: pack(numbers), missing, effects: null };
}

function payload(metrics: Metric[]): Payload {
  return {
    title: "t",
    run: 1,
    margin: 0.03,
    factors: [{ name: "store", levels: ["a", "=b"], numbers: null, varies: true }],
    variants: [
      { name: "a", levels: [0], baseline: true, stratum: 0 },
      { name: "=b", levels: [1], baseline: false, stratum: 0 },
    ],
    trials: {
      position: [0, 1, 2, 3, 4],
      block: [0, 0, 0, 1, 1],
      sub_block: [0, 0, 0, 0, 1],
      variant: [0, 0, 1, 0, 1],
      second: [0, 1, 0, 0, 0],
      outcome: [0, 0, 0, 0, 1],
      outcomes: ["ok", "timed out"],
      phase: [null, null, null, null, "write"],
      after: pack([1, 1, 1, 1, 1]),
      seed: ["18446744073709551615", "1", "1", "1", "1"],
      started: [0, 0, 0, 0, 0],
    },
    declared: ["write.time"],
    metrics,
    limited: null,
    growth: [],
    timelines: { quantities: [], trials: [], left_out: 0 },
    throughput: [],
    latency: { shares: [], curves: [] },
    samples: [],
    profiles: [],
  };
}

test("columns unpack to what was packed", () => {
  assert.deepEqual([...unpack("AACAPwAAwH8AACDA")], [1, NaN, -2.5]);
});

test("a trial is divided by the baselines of its own sub-block", () => {
  const time = metric([2, 8, 12, 5, 100]);
  const row = { variant: 1, baseline: 0, itself: false, center: null, low: null, high: null, words: null, aa: null };
  const found = ratios(payload([time]), time, row);
  assert.equal(found.length, 1, "the last trial has no baseline in its sub-block");
  assert.equal(found[0]?.trial, 2);
  assert.ok(Math.abs(found[0]!.value - 3) < 1e-6);
});

test("a baseline beside itself is its second run divided by its first", () => {
  const time = metric([2, 8, 12, 5, 100]);
  const row = { variant: 0, baseline: 0, itself: true, center: null, low: null, high: null, words: null, aa: null };
  const found = ratios(payload([time]), time, row);
  assert.deepEqual(found.map((r) => r.trial), [1], "in the second block it ran once");
  assert.ok(Math.abs(found[0]!.value - 4) < 1e-6);
});

test("a missing figure has its reason", () => {
  const some = metric([1, NaN, 1, 1, 1], [["not permitted", [1]]]);
  assert.deepEqual([reason(some, 1), reason(some, 0)], ["not permitted", ""]);
  const none: Metric = { ...some, values: null, missing: [["not supported", null]] };
  assert.deepEqual([values(none).length, reason(none, 3)], [0, "not supported"]);
});

test("medians are medians", () => {
  assert.deepEqual([median([3, 1, 2]), median([4, 1, 2, 3]), median([])], [2, 2.5, NaN]);
});

test("the CSV has a row a trial and says why figures are missing", () => {
  const csv = trialsCsv(payload([metric([1.5, 2, NaN, 4, 5], [["not reached", [2]]])]));
  const lines = csv.trim().split("\r\n");
  assert.equal(lines.length, 6);
  assert.equal(lines[0], "trial,block,variant,label,store,outcome,ended_in,seed,write.time [nanos]");
  assert.equal(lines[1], "1,1,a,A,a,ok,,18446744073709551615,1.5");
  assert.equal(lines[3], "3,1,'=b,A,'=b,ok,,1,missing: not reached");
});

test("numbers sort by size, names by their numbers, figures before texts", () => {
  assert.deepEqual(["b10", 3, "b9", 1].sort(compare), [1, 3, "b9", "b10"]);
});

test("no two of many variants look alike, and baselines are told apart", () => {
  const levels = ["a", "b", "c", "d", "e"];
  const variants = levels.flatMap((_, store) =>
    [0, 1].map((mode) => ({ name: "", levels: [store, mode], baseline: store === 0, stratum: mode })),
  );
  const factors = [
    { name: "store", levels, numbers: null, varies: true },
    { name: "mode", levels: ["x", "y"], numbers: null, varies: true },
  ];
  const all = looks({ variants, factors });
  assert.equal(new Set(all.map((l) => l.colour + l.dash)).size, 10);
  assert.deepEqual(all.map((l) => l.colour === "var(--base)"), variants.map((v) => v.baseline));
});
