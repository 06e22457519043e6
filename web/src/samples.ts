// Frequency curves of groups of operations, as ratio to the baseline, in panels that lie apart.
import * as Plot from "@observablehq/plot";
import { horizontal } from "./axis.ts";
import { type Chart, figure, legend, section } from "./chart.ts";
import type { Samples } from "./data.ts";
import { choice } from "./dom.ts";
import { digits, quantity } from "./format.ts";
import { type Among, among } from "./among.ts";
import type { State } from "./state.ts";
import { logTicks } from "./ticks.ts";

export function samples(state: State): void {
  const all = state.data.samples;
  if (all.length === 0) return;
  const clocks = [...new Set(all.map((s) => s.clock))];
  let clock = clocks.includes("wall") ? "wall" : clocks[0]!;
  const chosen = among(state, [...new Set(all.flatMap((s) => s.panels.flatMap((p) => p.curves.map((c) => c.variant))))]);
  section(
    "samples",
    state,
    (redraw) => [
      chosen.control(redraw),
      clocks.length < 2
        ? null
        : choice(
            "Clock",
            clocks.map((c) => ({ value: c, text: c === "wall" ? "wall time" : "CPU time" })),
            clock,
            (value) => ((clock = value as Samples["clock"]), redraw()),
          ),
    ],
    () => {
      const shown = all.filter((s) => s.clock === clock);
      const variants = [...new Set(shown.flatMap((s) => s.panels.flatMap((p) => p.curves.map((c) => c.variant))))]
        .filter((v) => chosen.shows(v))
        .sort((a, b) => a - b);
      if (variants.length === 0) return [];
      const charts = shown.flatMap((s) => s.panels.map((p) => chart(state, chosen, s, p)));
      return [legend(state, variants, true), ...charts.filter((c): c is Chart => c !== null).map(figure)];
    },
  );
}

function chart(state: State, chosen: Among, of: Samples, panel: Samples["panels"][number]): Chart | null {
  const curves = panel.curves.filter((c) => chosen.shows(c.variant));
  if (curves.length === 0) return null;
  const show = (v: number) => quantity(v, of.relative ? "times" : "nanos");
  const { low, high, count } = panel.bins;
  const edge = (i: number) => low * (high / low) ** (i / count);
  const lines = curves.map((c) => ({
    variant: c.variant,
    points: c.shares.map((share, i) => ({ x: edge(i + 0.5), from: edge(i), to: edge(i + 1), y: 100 * share, variant: c.variant })),
  }));
  type Point = (typeof lines)[number]["points"][number];
  const points = lines.flatMap((l) => l.points);
  const outside = Math.max(...curves.map((c) => c.below + c.above));
  const rest = outside > 0 ? ` Up to ${digits(100 * outside)} % of a variant's groups lie outside the axis.` : "";
  const clock = of.clock === "wall" ? "Wall time" : "CPU time";
  const reference = of.relative ? "divided by the median of the baseline" : "as it was; there is no baseline";
  return {
    title: `${of.phase}${panel.name ? `, the ${panel.name}` : ""}`,
    caption:
      `${clock} of each group of ${of.operations} operation${of.operations === 1 ? "" : "s"}, ${reference}: share of the groups in each of ` +
      `${count} equal bins of the logarithm. All trials of a variant pooled: the shape, not a test.${rest}`,
    alternative: curves.map((c) => `${state.name(c.variant)}: median ${show(c.median)}`).join("; "),
    draw: (width) =>
      Plot.plot({
        width,
        height: Math.min(300, Math.max(200, width * 0.26)),
        marginLeft: 50,
        marginRight: 16,
        marginBottom: 40,
        x: {
          type: "log",
          domain: [low, high],
          axis: null,
        },
        y: { label: null, tickFormat: (v: number) => `${digits(v)}\u00a0%`, ticks: 4, grid: true, zero: true },
        color: { type: "identity" },
        marks: [
          ...horizontal(
            logTicks(low, high, Math.floor(width / 80)),
            show,
            of.relative ? "times the baseline's median" : "time of a group",
          ),
          ...lines.flatMap(({ variant, points: own }) => {
            const { colour, dash } = state.looks[variant]!;
            return [
              Plot.areaY(own, { x: "x", y: "y", fill: colour, fillOpacity: 0.1, curve: "step" }),
              Plot.line(own, { x: "x", y: "y", stroke: colour, strokeWidth: 1.8, strokeDasharray: dash, curve: "step" }),
            ];
          }),
          Plot.tickX(curves, {
            x: "median",
            insetTop: 0,
            stroke: (c: { variant: number }) => state.looks[c.variant]!.colour,
            strokeWidth: 1,
            strokeDasharray: "1 3",
          }),
          Plot.tip(
            points,
            Plot.pointer({
              x: "x",
              y: "y",
              fill: "var(--card)",
              stroke: "var(--line)",
              title: (p: Point) => `${state.name(p.variant)}\n${show(p.from)} to ${show(p.to)}: ${digits(p.y)} %`,
            }),
          ),
        ],
      }),
    table: () => ({
      heads: ["Variant", "Groups", "Median", "Outside the axis"],
      rows: curves.map((c) => [
        state.name(c.variant),
        String(c.groups),
        show(c.median),
        `${digits(100 * (c.below + c.above))} %`,
      ]),
    }),
  };
}
