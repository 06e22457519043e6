import assert from "node:assert/strict";
import { test } from "node:test";
import { ending, type Metric, numbers, type Payload, reason, unpack } from "../../src/data.ts";
import { trialsCsv, timelinesCsv } from "../../src/raw.ts";
import { compare } from "../../src/tables.ts";
import { pack, payload } from "./payload.ts";

function metric(missing: Metric["missing"]): Metric {
  return { name: "write.time", unit: "nanos", values: 0, missing };
}

function of(values: number[], missing: Metric["missing"] = []): Payload {
  return { ...payload([pack(values)]), metrics: [metric(missing)] };
}

test("columns unpack to what was packed", () => {
  assert.deepEqual([...unpack("AACAPwAAwH8AACDA")], [1, NaN, -2.5]);
  const data = payload(["AACAPwAAwH8AACDA", { step: 2, count: 3 }]);
  assert.deepEqual([...numbers(data, 0)], [1, NaN, -2.5]);
  assert.deepEqual(numbers(data, 1), [1, 3, 5], "the middles of steps");
  assert.deepEqual([...numbers(data, undefined), ...numbers(data, null)], []);
});

test("a missing figure has its reason", () => {
  const some = metric([["not permitted", [1]]]);
  assert.deepEqual([reason(some, 1), reason(some, 0)], ["not permitted", ""]);
  const none: Metric = { ...some, values: null, missing: [["not supported", null]] };
  assert.equal(reason(none, 3), "not supported");
});

test("a tip says in which phase a trial failed", () => {
  const data = payload([]);
  assert.deepEqual([ending(data, 0, "write"), ending(data, 4, "write")], ["", "timed out in this phase"]);
  assert.deepEqual([ending(data, 4, "load"), ending(data, 4, undefined)], ["the trial: timed out", "the trial: timed out"]);
});

test("the CSV has a row a trial and says why figures are missing", () => {
  const csv = trialsCsv(of([1.5, 2, NaN, 4, 5], [["not reached", [2]]]));
  const lines = csv.trim().split("\r\n");
  assert.equal(lines.length, 6);
  assert.equal(lines[0], "trial,block,variant,label,factor.store,outcome,ended_in,seed,write.time [nanos]");
  assert.equal(lines[1], "1,1,a,A,a,ok,,18446744073709551615,1.5");
  assert.equal(lines[3], "3,1,'=b,A,'=b,ok,,1,missing: not reached");
});

test("a factor in the CSV has no name of another column", () => {
  const data = { ...payload([]), factors: [{ name: "block", levels: ["a", "b"], varies: true }] };
  const heads = trialsCsv(data).split("\r\n")[0]!.split(",");
  assert.equal(new Set(heads).size, heads.length, heads.join());
});

test("the CSV of timelines has a row a step and a column a quantity", () => {
  const data = payload([{ step: 2, count: 2 }, pack([1, NaN]), pack([7, 8])]);
  const line = (trial: number, y: number) => ({ kind: "line" as const, of: trial, x: 0, y });
  const chart = (column: string, marks: Payload["sections"][string]["charts"][number]["marks"]) => ({
    ...data.sections["any"]!.charts[0]!, column, marks,
  });
  data.sections["timeline"] = {
    controls: [], series: [], legend: true, charts: [chart("cpu [cores]", [line(2, 1)]), chart("anon [bytes]", [line(2, 2), line(0, 2)])],
  };
  assert.deepEqual(timelinesCsv(data).trim().split("\r\n"), [
    "trial,variant,seconds,cpu [cores],anon [bytes]", "3,'=b,1,1,7", "3,'=b,3,,8", "1,a,1,,7", "1,a,3,,8",
  ]);
});

test("numbers sort by size, names by their numbers, figures before texts", () => {
  assert.deepEqual(["b10", 3, "b9", 1].sort(compare), [1, 3, "b9", "b10"]);
});
