// A figure against a numeric factor, on log axes, with the fitted power law and what did not finish.
import * as Plot from "@observablehq/plot";
import { horizontal, vertical } from "./axis.ts";
import { type Chart, figure, section } from "./chart.ts";
import { type Fit, median, type Metric, type Payload, values } from "./data.ts";
import { choice, h } from "./dom.ts";
import { digits, quantity } from "./format.ts";
import { first, metricChoice } from "./metrics.ts";
import type { State } from "./state.ts";
import { logTicks } from "./ticks.ts";

interface Point {
  x: number;
  y: number;
  trial: number;
  series: number;
}

interface End {
  x: number;
  series: number;
  text: string;
}

type Growth = Payload["growth"][number];

export function growth(state: State): void {
  const { data } = state;
  let of = data.growth[0];
  const candidates = () => data.metrics.filter((m) => of !== undefined && of.fits[m.name] !== undefined);
  let metric = first(data, candidates());
  if (!of || !metric) return;
  section(
    "growth",
    state,
    (redraw) => [
      metricChoice(candidates(), metric!, (m) => ((metric = m), redraw())),
      data.growth.length < 2
        ? null
        : choice(
            "Against",
            data.growth.map((g, i) => ({ value: String(i), text: data.factors[g.factor]!.name })),
            "0",
            (value) => ((of = data.growth[Number(value)]), redraw()),
          ),
    ],
    () => {
      // Where memory is limited, its growth towards the limit stands below whatever was chosen.
      const memory = data.metrics.find((m) => m.name === data.limited && m !== metric);
      const found = [metric!, memory].flatMap((m) => (m && of!.fits[m.name] ? [chart(state, m, of!)] : []));
      const charts = found.filter((c): c is Chart => c !== null);
      return charts.length ? [legendOf(state, of!), ...charts.map(figure)] : [];
    },
  );
}

/** A series looks like the first of its variants. */
function lookOf(state: State, of: Growth, series: number) {
  const variants = of.series[series]![1];
  return state.looks[variants[0]!]!;
}

function colourOf(of: Growth, series: number): string {
  return of.series.length === 1 ? "var(--c0)" : series === 0 ? "var(--base)" : `var(--c${(series - 1) % 7})`;
}

function legendOf(state: State, of: Growth): HTMLElement {
  const item = (series: number) =>
    h(
      "li",
      {},
      h("span", { class: "swatch", style: `background:${colourOf(of, series)}`, "aria-hidden": "true" }),
      of.series[series]![0] || state.data.title,
    );
  const shown = of.series.map((_, i) => i).filter((i) => of.series[i]![1].some((v) => state.shows(v)));
  return h("ul", { class: "legend", "aria-label": "Series" }, ...shown.map(item));
}

function gather(state: State, metric: Metric, of: Growth): { points: Point[]; ends: End[]; zeros: number } {
  const { trials, factors, variants } = state.data;
  const numbers = factors[of.factor]!.numbers!;
  const figures = values(metric);
  const points: Point[] = [];
  let zeros = 0;
  const counts = new Map<string, { x: number; series: number; outcome: string; n: number }>();
  of.series.forEach(([, members], series) => {
    const member = new Set(members.filter((v) => state.shows(v)));
    trials.variant.forEach((variant, trial) => {
      if (!member.has(variant)) return;
      const x = numbers[variants[variant]!.levels[of.factor]!]!;
      const y = figures[trial] ?? NaN;
      const outcome = trials.outcomes[trials.outcome[trial]!]!;
      if (y > 0) points.push({ x, y, trial, series });
      else if (!Number.isNaN(y)) zeros++;
      else if (outcome !== "ok") {
        const key = `${series} ${x} ${outcome}`;
        const so_far = counts.get(key) ?? { x, series, outcome, n: 0 };
        so_far.n++;
        counts.set(key, so_far);
      }
    });
  });
  const ends = [...counts.values()].map(({ x, series, outcome, n }) => ({ x, series, text: `${n} ${outcome}` }));
  return { points, ends, zeros };
}

function chart(state: State, metric: Metric, of: Growth): Chart | null {
  const { points, ends, zeros } = gather(state, metric, of);
  if (points.length === 0) return null;
  const factor = state.data.factors[of.factor]!.name;
  const fits = of.fits[metric.name]!.map((fit, series) => ({ fit, series })).filter(
    (f): f is { fit: Fit; series: number } => f.fit !== null && points.some((p) => p.series === f.series),
  );
  const name = (series: number) => of.series[series]![0] || metric.name;
  const say = ({ fit, series }: { fit: Fit; series: number }) =>
    `${name(series)} grows as ${factor} to the power of ${digits(fit.slope)} (${digits(fit.interval[0])} to ` +
    `${digits(fit.interval[1])}; ${digits(fit.last)} between the two largest)` +
    (fit.without > 0 ? `, without ${fit.without} of ${fit.trials} trials that have no figure` : "");
  const reached = fits.flatMap((f) => (f.fit.reach && f.fit.limit ? [`${name(f.series)}: ${reach(f.fit, factor)}`] : []));
  const dots = reached.length ? ` Dots go on beyond what was measured. ${reached.join(". ")}.` : "";
  const marks = ends.length ? " Crosses at the top are trials that did not finish." : "";
  const none = zeros ? ` Not drawn: ${zeros} figures that are not above 0; their series have no power law.` : "";
  return {
    title: `${metric.name} against ${factor}`,
    caption: `Both axes are logarithmic. Lines join medians; dashes are the fitted power law.${marks}${none} ${fits.map(say).join(". ")}.${dots}`,
    alternative: [...fits.map(say), ...reached].join("; "),
    draw: (width) => draw(state, metric, of, points, ends, fits, width),
    table: () => ({
      heads: ["Series", factor, "Median", "Trials", "Did not finish"],
      rows: groups(points).map(({ series, x, ys }) => [
        name(series),
        String(x),
        quantity(median(ys), metric.unit),
        String(ys.length),
        ends.find((e) => e.series === series && e.x === x)?.text ?? "0",
      ]).concat(
        ends
          .filter((e) => !points.some((p) => p.series === e.series && p.x === e.x))
          .map((e) => [name(e.series), String(e.x), "-", "0", e.text]),
      ),
    }),
  };
}

/** No bound farther than so many times the largest measured value is stated: as in the text report. */
const FARTHEST = 100;

/** Where the fit would meet the limit, in words that say that nothing of it was measured. */
function reach(fit: Fit, factor: string): string {
  const { x, low, high, beyond } = fit.reach!;
  const about = (n: number) => quantity(Number(n.toPrecision(2)), "count");
  return (
    `extrapolated, not measured: it would meet the limit of ${quantity(fit.limit!, "bytes")} at about ${about(x)} ${factor} ` +
    `(${about(low)} to ${high === null ? `beyond ${FARTHEST} times the largest measured` : about(high)}), ${digits(Number(beyond.toPrecision(2)))} times the largest measured`
  );
}

/** The largest value at which a series has a figure. */
function last(points: Point[], series: number): number {
  return Math.max(...points.filter((p) => p.series === series).map((p) => p.x));
}

function groups(points: Point[]): { series: number; x: number; ys: number[] }[] {
  const found = new Map<string, { series: number; x: number; ys: number[] }>();
  for (const { series, x, y } of points) {
    const key = `${series} ${x}`;
    const group = found.get(key) ?? { series, x, ys: [] };
    group.ys.push(y);
    found.set(key, group);
  }
  return [...found.values()].sort((a, b) => a.series - b.series || a.x - b.x);
}

function draw(
  state: State,
  metric: Metric,
  of: Growth,
  points: Point[],
  ends: End[],
  fits: { fit: Fit; series: number }[],
  width: number,
): Element {
  const factor = state.data.factors[of.factor]!.name;
  const reached = fits.flatMap(({ fit, series }) => (fit.reach && fit.limit ? [{ series, x: fit.reach.x, y: fit.limit }] : []));
  const limits = [...new Set(fits.flatMap(({ fit, series }) => (fit.limit && (fit.reach || ends.some((e) => e.series === series)) ? [fit.limit] : [])))];
  const measured = points.map((p) => p.x);
  const xs = [...measured, ...ends.map((e) => e.x), ...reached.map((r) => r.x)];
  const [low, high] = [Math.min(...xs), Math.max(...xs)];
  const medians = groups(points).map(({ series, x, ys }) => ({ series, x, y: median(ys) }));
  // The line is dashed as far as a series was measured, and dotted where it is extrapolated.
  const lines = fits.flatMap(({ fit, series }) =>
    [low, last(points, series)].map((x) => ({ series, x, y: fit.scale * x ** fit.slope })),
  );
  const beyond = fits.flatMap(({ fit, series }) => {
    const from = last(points, series);
    return fit.reach && fit.limit
      ? [{ series, x: from, y: fit.scale * from ** fit.slope }, { series, x: fit.reach.x, y: fit.limit }]
      : [];
  });
  const ys = [...points.map((p) => p.y), ...limits];
  const room = Math.max(Math.max(...ys) / Math.min(...ys), 2) ** (ends.length ? 0.16 : 0.05);
  const colour = (d: { series: number }) => colourOf(of, d.series);
  const order = [...new Set(ends.map((e) => e.series))];
  return Plot.plot({
    width,
    height: Math.min(520, Math.max(300, width * 0.5)),
    marginLeft: 64,
    marginRight: 20,
    marginBottom: 42,
    marginTop: 16,
    x: {
      type: "log",
      domain: [low / 1.15, high * 1.15],
      axis: null,
    },
    y: {
      type: "log",
      domain: [Math.min(...ys) / 1.15, Math.max(...ys) * room],
      axis: null,
    },
    color: { type: "identity" },
    symbol: { type: "identity" },
    marks: [
      ...horizontal(logTicks(low / 1.15, high * 1.15, Math.floor(width / 80)), (v) => quantity(v, "count"), factor),
      ...vertical(logTicks(Math.min(...ys) / 1.15, Math.max(...ys) * room, 8), (v) => quantity(v, metric.unit)),
      Plot.line(lines, { x: "x", y: "y", z: "series", stroke: colour, strokeDasharray: "5 4", strokeOpacity: 0.75, clip: true }),
      Plot.line(beyond, { x: "x", y: "y", z: "series", stroke: colour, strokeDasharray: "1 5", strokeWidth: 2.2, strokeLinecap: "round" }),
      Plot.ruleY(limits, { stroke: "var(--bad)", strokeDasharray: "8 3", strokeWidth: 1.4 }),
      Plot.text(limits, {
        frameAnchor: "left",
        y: (v: number) => v,
        dx: 6,
        dy: -8,
        text: (v: number) => `limit ${quantity(v, metric.unit)}`,
        textAnchor: "start",
        fill: "var(--bad)",
        fontWeight: 600,
        stroke: "var(--bg)",
        strokeWidth: 4,
      }),
      Plot.dot(reached, { x: "x", y: "y", r: 5, stroke: colour, fill: "var(--bg)", strokeWidth: 2 }),
      // On a narrow screen the caption alone says it: the words would lie on each other.
      Plot.text(width < 560 ? [] : reached, {
        x: "x",
        y: "y",
        dy: 14,
        dx: -8,
        text: () => "extrapolated",
        textAnchor: "end",
        fill: colour,
        stroke: "var(--bg)",
        strokeWidth: 4,
      }),
      Plot.line(medians, { x: "x", y: "y", z: "series", stroke: colour, strokeWidth: 2 }),
      Plot.dot(points, {
        x: "x",
        y: "y",
        fill: colour,
        fillOpacity: 0.55,
        r: 3.5,
        symbol: (d: Point) => lookOf(state, of, d.series).symbol,
      }),
      Plot.text(ends, {
        x: "x",
        frameAnchor: "top",
        text: (e: End) => `\u2715 ${e.text}`,
        textAnchor: "end",
        lineAnchor: "top",
        fill: colour,
        fontWeight: 600,
        stroke: "var(--bg)",
        strokeWidth: 4,
        filter: (e: End) => order.indexOf(e.series) === 0,
      }),
      ...order.slice(1).map((series, at) =>
        Plot.text(
          ends.filter((e) => e.series === series),
          {
            x: "x",
            frameAnchor: "top",
            dy: 15 * (at + 1),
            text: (e: End) => `\u2715 ${e.text}`,
            textAnchor: "end",
            lineAnchor: "top",
            fill: colour,
            fontWeight: 600,
            stroke: "var(--bg)",
            strokeWidth: 4,
          },
        ),
      ),
      Plot.tip(
        points,
        Plot.pointer({
          x: "x",
          y: "y",
          fill: "var(--card)",
          stroke: "var(--line)",
          title: (p: Point) =>
            `${of.series[p.series]![0] || metric.name}\n${factor} ${p.x}\n${quantity(p.y, metric.unit)}\nblock ${
              state.data.trials.block[p.trial]! + 1
            }`,
        }),
      ),
    ],
  });
}
