import assert from "node:assert/strict";
import { test } from "node:test";
import { csv, digits, markdown, quantity, seconds, visible } from "../../src/format.ts";

test("numbers have three digits", () => {
  assert.deepEqual([0, 1.2345, 12.3456, 123.456, 12345, 0.00123, 1e-9, NaN].map(digits), [
    "0", "1.23", "12.3", "123", "12345", "0.00123", "1.00e-9", "-",
  ]);
});

test("quantities have their unit", () => {
  assert.equal(quantity(1.5e9, "nanos"), "1.5\u00a0s");
  assert.equal(quantity(999_600, "nanos"), "1\u00a0ms");
  assert.equal(quantity(3e8, "bytes"), "300\u00a0MB");
  assert.equal(quantity(2_500, "count"), "2.5\u00a0k");
  assert.equal(quantity(0, "bytes_per_second"), "0");
  assert.equal(seconds(0.05), "50\u00a0ms");
});

test("ratios near 1 are told from it", () => {
  assert.deepEqual([1, 1.0003, 0.9996, 1.0041, 2, 0.5, 12.34, 0.99999994].map((v) => quantity(v, "times")), [
    "1\u00d7", "1.0003\u00d7", "0.9996\u00d7", "1.004\u00d7", "2\u00d7", "0.5\u00d7", "12.3\u00d7", "1\u00d7",
  ]);
});

test("percentiles are named", () => {
  assert.deepEqual([1, 2, 10, 100, 1000, 1e6].map((v) => quantity(v, "percentile")), ["0\u00a0%", "50\u00a0%", "90\u00a0%", "99\u00a0%", "99.9\u00a0%", "99.9999\u00a0%"]);
});

test("CSV keeps commas, quotes and lines, and runs nothing", () => {
  assert.equal(csv('a,"b"\nc'), '"a,""b""\nc"');
  assert.equal(csv("=HYPERLINK(1)"), "'=HYPERLINK(1)");
  assert.equal(csv("@x"), "'@x");
  assert.deepEqual(["-5", "+2.5e3", "-x", "-", "-inf", "-5 ", "\t5"].map(csv), ["-5", "+2.5e3", "'-x", "'-", "'-inf", "'-5 ", "'\t5"]);
  assert.equal(csv("\n=1"), '"\'\n=1"');
  assert.deepEqual([csv(1.5), csv(NaN), csv(null)], ["1.5", "", ""]);
});

test("Markdown takes nothing for markup", () => {
  assert.equal(markdown("a|b*c\n <i>&[x]"), "a\\|b\\*c &lt;i&gt;&amp;\\[x\\]");
});

test("what hides or turns text around is spelled out", () => {
  assert.equal(visible("a\u202eb\u0000\nc"), "a\\u{202e}b\\u{0}\nc");
  // What Rust's `screen::is_unsafe` has: an Arabic mark, a separator, deprecated marks, annotations, tags; no emoji.
  const hidden = [0x61c, 0x180e, 0x206a, 0x206f, 0xfff9, 0xfffb, 0xe0000, 0xe0041, 0xe007f];
  for (const code of hidden) assert.equal(visible(`a${String.fromCodePoint(code)}`), `a\\u{${code.toString(16)}}`);
  assert.equal(visible("\u061b\u{1f980}\u{e0080}"), "\u061b\u{1f980}\u{e0080}");
});
