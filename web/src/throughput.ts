// Operations per second over the time of a phase, variants overlaid.
import * as Plot from "@observablehq/plot";
import { type Chart, figure, legend, section } from "./chart.ts";
import { type Payload, unpack } from "./data.ts";
import { quantity, seconds } from "./format.ts";
import { among } from "./among.ts";
import type { State } from "./state.ts";

type Series = Payload["throughput"][number];

export function throughput(state: State): void {
  const { data } = state;
  if (data.throughput.length === 0) return;
  const phases = [...new Set(data.throughput.map((t) => t.phase))];
  const chosen = among(state, [...new Set(data.throughput.map((t) => data.trials.variant[t.trial]!))]);
  section(
    "throughput",
    state,
    (redraw) => [chosen.control(redraw)],
    () => {
      const charts: Chart[] = [];
      const seen = new Set<number>();
      for (const phase of phases) {
        const first = new Map<number, Series>();
        for (const series of data.throughput.filter((t) => t.phase === phase)) {
          const variant = data.trials.variant[series.trial]!;
          if (chosen.shows(variant) && !first.has(variant)) first.set(variant, series);
        }
        first.forEach((_, variant) => seen.add(variant));
        if ([...first.values()].some((s) => unpack(s.rates).some((r) => r > 0))) charts.push(chart(state, phase, first));
      }
      if (charts.length === 0) return [];
      return [legend(state, [...seen].sort((a, b) => a - b), true), ...charts.map(figure)];
    },
  );
}

function chart(state: State, phase: string, of: Map<number, Series>): Chart {
  const lines = [...of].map(([variant, series]) => ({
    variant,
    points: Array.from(unpack(series.rates), (y, i) => ({ x: (i + 0.5) * series.step, y, variant })),
  }));
  type Point = (typeof lines)[number]["points"][number];
  const points = lines.flatMap((l) => l.points);
  const steps = [...of.values()].map((s) => s.step);
  const show = (v: number) => quantity(v, "per_second");
  const end = Math.max(...lines.map(({ points: own }, i) => own.length * steps[i]!));
  const summary = lines.map(({ variant, points: own }) => ({
    variant,
    mean: own.reduce((s, p) => s + p.y, 0) / own.length,
    low: Math.min(...own.map((p) => p.y)),
    high: Math.max(...own.map((p) => p.y)),
  }));
  return {
    title: `${phase}: operations per second`,
    caption: `One trial of each variant, the one nearest to its median. A step is ${seconds(Math.min(...steps))}${
      Math.max(...steps) > Math.min(...steps) ? ` to ${seconds(Math.max(...steps))}` : ""
    }; the last, cut short, is left out, and so are trials of less than four steps.`,
    alternative: summary.map((s) => `${state.name(s.variant)}: mean ${show(s.mean)}`).join("; "),
    draw: (width) =>
      Plot.plot({
        width,
        height: Math.min(320, Math.max(210, width * 0.28)),
        marginLeft: 64,
        marginRight: 12,
        marginBottom: 32,
        x: { domain: [0, end], label: null, tickFormat: seconds, ticks: Math.max(2, Math.floor(width / 110)) },
        y: { label: null, tickFormat: show, grid: true, ticks: 5, zero: true, nice: true },
        color: { type: "identity" },
        marks: [
          ...lines.map(({ variant, points: own }) =>
            Plot.line(own, {
              x: "x",
              y: "y",
              stroke: state.looks[variant]!.colour,
              strokeWidth: 1.6,
              strokeDasharray: state.looks[variant]!.dash,
            }),
          ),
          Plot.tip(
            points,
            Plot.pointer({
              x: "x",
              y: "y",
              fill: "var(--card)",
              stroke: "var(--line)",
              title: (p: Point) => `${state.name(p.variant)}\n${show(p.y)}\nat ${seconds(p.x)}`,
            }),
          ),
        ],
      }),
    table: () => ({
      heads: ["Variant", "Mean", "Least step", "Largest step"],
      rows: summary.map((s) => [state.name(s.variant), show(s.mean), show(s.low), show(s.high)]),
    }),
  };
}
