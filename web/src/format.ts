// Formats numbers for people.
import type { Format } from "./data.ts";

/** Three significant digits without an exponent where that is readable. */
export function digits(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e7 || size < 1e-5) return value.toExponential(2);
  if (size >= 100) return Math.round(value).toString();
  return trim(value.toPrecision(3));
}

function trim(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Near 1, where three digits say nothing, as many decimals as tell a ratio from 1, as `number::ratio` gives them in Rust;
 * at most six, since the page's numbers have 32 bits. */
function ratio(value: number): string {
  if (!(value >= 0.999 && value < 1.0995)) return digits(value);
  const apart = Math.abs(value - 1);
  const places = apart > 0 && apart < 0.0005 ? Math.min(6, -Math.floor(Math.log10(apart))) : 3;
  return trim(value.toFixed(places));
}

function scaled(value: number, steps: [number, string][]): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  // 999.6 us would print as 1000 us.
  const step = steps.find(([by]) => size >= by * 0.9995) ?? steps[steps.length - 1]!;
  return `${digits(value / step[0])}${step[1] ? "\u00a0" + step[1] : ""}`;
}

/** A value with its unit: `1.84 s`, `300 MB`, `12 500 /s`. */
export function quantity(value: number, format: Format): string {
  if (!Number.isFinite(value)) return "-";
  switch (format) {
    case "nanos":
      return scaled(value, [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]]);
    case "seconds":
      return quantity(value * 1e9, "nanos");
    case "bytes":
      return scaled(value, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]);
    case "bytes_per_second":
      return scaled(value, [[1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]);
    case "per_second":
      return scaled(value, [[1e6, "M/s"], [1e3, "k/s"], [1, "/s"]]);
    case "count":
      return scaled(value, [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]]);
    case "times":
      return `${ratio(value)}\u00d7`;
    case "percent":
      return `${digits(value)}\u00a0%`;
    case "percentile":
      // 1e-9 against 99.99000000000001
      return `${trim((Math.round(1e9 * (1 - 1 / value)) / 1e7).toString())}\u00a0%`;
    case "plain":
      return digits(value);
  }
}

/** Seconds: `350 ms`, `12 s`. */
export function seconds(value: number): string {
  return quantity(value, "seconds");
}

/** One field of a CSV file (RFC 4180); texts that a spreadsheet would run are kept from it, by the rule of `no_formula` in
 * Rust: a number is none of them. */
export function csv(field: string | number | null): string {
  if (field === null) return "";
  if (typeof field === "number") return Number.isFinite(field) ? String(field) : "";
  const isNumber = !/\s/.test(field) && Number.isFinite(Number(field));
  const text = /^[=+\-@\t\r\n]/.test(field) && !isNumber ? `'${field}` : field;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A cell of a Markdown table: nothing in it is markup. */
export function markdown(text: string): string {
  return text
    .replace(/\s+/g, " ")
    .trim()
    .replace(/[\\|*_`[\]~#$]/g, (c) => `\\${c}`)
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
}

/** Those of `screen::is_unsafe` in Rust, but for tabs and line feeds. */
const INVISIBLE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;

/** The text with what could turn it around or hide in it spelled out. */
export function visible(text: string): string {
  return text.replace(INVISIBLE, (c) => `\\u{${c.codePointAt(0)!.toString(16)}}`);
}
