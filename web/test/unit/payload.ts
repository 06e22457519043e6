// A page's data with two variants, five trials and an empty chart.
import type { Chart, Payload, Series } from "../../src/data.ts";

export const pack = (numbers: number[]) => Buffer.from(Float32Array.from(numbers).buffer).toString("base64");

export const chart: Chart = {
  title: "c",
  caption: [],
  x: { format: "plain", scale: "amount" },
  y: { format: "plain", scale: "amount" },
  height: 0.3,
  marks: [],
  table: { heads: [], rows: [] },
};

const variant = (name: string, at: number): Series => ({
  name, colour: at === 0 ? null : at - 1, dash: 0, symbol: at, baseline: at === 0, variants: [at],
});

export function payload(columns: Payload["columns"]): Payload {
  return {
    title: "t",
    run: 1,
    factors: [{ name: "store", levels: ["a", "=b"], varies: true }],
    variants: [{ ...variant("a", 0), levels: [0] }, { ...variant("=b", 1), levels: [1] }],
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
    metrics: [],
    sections: { any: { controls: [], series: [], legend: false, charts: [chart] } },
    columns,
    profiles: [],
  };
}
