import assert from "node:assert/strict";
import { test } from "node:test";
import { linearTicks, logTicks } from "../../src/ticks.ts";

test("log axes have round marks, not too many", () => {
  assert.deepEqual(logTicks(0.9, 110, 5), [1, 3, 10, 30, 100]);
  assert.deepEqual(logTicks(1, 1e9, 5), [1, 1e2, 1e4, 1e6, 1e8]);
  assert.deepEqual(logTicks(0.15, 1.6, 12), [0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5]);
});

test("a narrow log axis has linear marks", () => {
  assert.deepEqual(logTicks(0.97, 1.04, 4), [0.98, 1, 1.02, 1.04]);
});

test("whatever the range, marks lie within it and are no more than asked for", () => {
  for (let i = 0; i < 400; i++) {
    const low = 10 ** ((i % 20) - 9);
    const high = low * (1.001 + i ** 3 / 1000);
    for (const most of [2, 4, 9]) {
      const ticks = logTicks(low, high, most);
      assert.ok(ticks.length <= most, `${low} ${high} ${most}: ${ticks}`);
      assert.ok(ticks.every((t) => t >= low * 0.999999 && t <= high * 1.000001));
    }
  }
  assert.deepEqual(logTicks(0, 1, 5), []);
});

test("linear marks are multiples of a round step", () => {
  assert.deepEqual(linearTicks(0, 10, 5), [0, 2.5, 5, 7.5, 10]);
  assert.deepEqual(linearTicks(-0.2, 0.2, 5), [-0.2, -0.1, 0, 0.1, 0.2]);
});
