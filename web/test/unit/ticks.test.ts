import assert from "node:assert/strict";
import { test } from "node:test";
import { quantity } from "../../src/format.ts";
import { linearTicks, logTicks } from "../../src/ticks.ts";

test("log axes have round marks, not too many", () => {
  assert.deepEqual(logTicks(0.9, 110, 5), [1, 3, 10, 30, 100]);
  assert.deepEqual(logTicks(1, 1e9, 5), [1, 1e2, 1e4, 1e6, 1e8]);
  assert.deepEqual(logTicks(0.15, 1.6, 12), [0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.2, 1.5]);
});

test("a log axis with room for few labels has powers of ten", () => {
  // 10 ms to 2.6 s had 1 s and 2 s alone.
  assert.deepEqual(logTicks(0.0101, 2.6, 3), [0.1, 1]);
});

test("a narrow log axis has linear marks", () => {
  assert.deepEqual(logTicks(0.97, 1.04, 4), [0.98, 1, 1.02, 1.04]);
});

test("labels of a narrow log axis differ", () => {
  // 1 GB to 1.001 GB was labelled 1 GB, 1 GB, 1.01 GB, 1.01 GB.
  assert.deepEqual(logTicks(0.98e9, 1.02e9, 8), [0.98e9, 0.99e9, 1e9, 1.01e9, 1.02e9]);
  for (let low = 1; low < 10; low *= 1.013) {
    for (const most of [2, 3, 4, 8, 14, 19, 42]) {
      const texts = logTicks(1e6 * low, 1.0404e6 * low, most).map((v) => quantity(v, "bytes"));
      assert.ok(texts.length > 0 && new Set(texts).size === texts.length, `${low} ${most}: ${texts}`);
    }
  }
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
