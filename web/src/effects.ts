// Every trial a dot, its variant's interval beside it, ordered by effect.
import * as Plot from "@observablehq/plot";
import { horizontal } from "./axis.ts";
import { type Chart, figure, section } from "./chart.ts";
import { type EffectRow, type Metric, ratios, values } from "./data.ts";
import { choice } from "./dom.ts";
import { interval, quantity } from "./format.ts";
import { first, metricChoice } from "./metrics.ts";
import type { State } from "./state.ts";
import { linearTicks, logTicks } from "./ticks.ts";

interface Dot {
  row: number;
  trial: number;
  value: number;
}

const LANE = 54;

export function effects(state: State): void {
  const candidates = state.data.metrics.filter((m) => m.effects !== null);
  let metric = first(state.data, candidates);
  if (!metric) return;
  let order = "effect";
  section(
    "effects",
    state,
    (redraw) => [
      metricChoice(candidates, metric!, (m) => ((metric = m), redraw())),
      choice(
        "Order",
        [
          { value: "effect", text: "by effect" },
          { value: "file", text: "as in the experiment" },
        ],
        order,
        (value) => ((order = value), redraw()),
      ),
    ],
    () => {
      const found = chart(state, metric!, order === "effect");
      return found ? [figure(found)] : [];
    },
  );
}

function chart(state: State, metric: Metric, sorted: boolean): Chart | null {
  const { relative, declared, rows: all } = metric.effects!;
  const rows = all.filter((row) => state.shows(row.variant));
  if (rows.length === 0) return null;
  // What equal arms look like stands below the effects.
  const effect = (row: EffectRow) => row.center ?? Infinity;
  rows.sort((a, b) => Number(a.itself) - Number(b.itself) || (sorted ? effect(a) - effect(b) : 0));
  const unit = relative ? ("times" as const) : metric.unit;
  const show = (value: number) => quantity(value, unit);
  const dots = rows.flatMap((row, at) => dotsOf(state, metric, relative, row, at));
  const ended = rows.map((row) => endedOf(state, metric, row.variant));
  const what = relative
    ? "Each dot is a trial divided by the baselines of its sub-block (the geometric mean of both)"
    : "Each dot is a trial";
  const bar = declared
    ? "the bar is the interval that the verdict rests on"
    : relative
      ? "the bar is the 95 % interval of the median ratio, uncorrected: no verdict rests on it"
      : "the bar is the 95 % interval of the median (six trials or more)";
  const itself = rows.some((row) => row.itself)
    ? " A baseline beside itself (A/A) shows what equal arms look like: its second run of each sub-block divided by its first."
    : "";
  const better = metric.better === "neither" ? "" : ` ${metric.better === "lower" ? "Less" : "More"} is better.`;
  return {
    title: relative ? `${metric.name} beside the baseline` : metric.name,
    caption: `${metric.doc}. ${what}; ${bar}.${better}${itself}`,
    alternative: rows.map((row) => sentence(state, row, show)).join("; "),
    draw: (width) => draw(state, metric, rows, dots, ended, relative, width),
    table: () => ({
      heads: ["Variant", "Baseline", relative ? "Ratio" : "Median", "Interval", "Trials", "Did not finish", "Verdict", "Baseline against itself"],
      rows: rows.map((row, at) => [
        state.name(row.variant),
        row.baseline === null ? "-" : row.itself ? "itself" : state.name(row.baseline),
        row.center === null ? "-" : show(row.center),
        interval(row.low, row.high, show),
        String(dots.filter((d) => d.row === at).length),
        ended[at] ?? "0",
        row.words ?? "-",
        row.aa === null || row.aa[0] === null ? "-" : `${show(row.aa[0])} (${interval(row.aa[1], row.aa[2], show)}, 95 %)`,
      ]),
    }),
  };
}

function sentence(state: State, row: EffectRow, show: (value: number) => string): string {
  const center = row.center === null ? "no figure" : `${show(row.center)} (${interval(row.low, row.high, show)})`;
  return `${state.name(row.variant)}: ${center}${row.words ? `, ${row.words}` : ""}`;
}

function dotsOf(state: State, metric: Metric, relative: boolean, row: EffectRow, at: number): Dot[] {
  if (relative) return ratios(state.data, metric, row).map((r) => ({ row: at, ...r }));
  const found: Dot[] = [];
  values(metric).forEach((value, trial) => {
    if (state.data.trials.variant[trial] === row.variant && Number.isFinite(value)) found.push({ row: at, trial, value });
  });
  return found;
}

/** `2 out of memory (limit)` for trials that ended before they had the figure. */
function endedOf(state: State, metric: Metric, variant: number): string | null {
  const { trials } = state.data;
  const counts = new Map<string, number>();
  const figures = values(metric);
  trials.variant.forEach((v, trial) => {
    const outcome = trials.outcomes[trials.outcome[trial]!]!;
    if (v !== variant || outcome === "ok" || Number.isFinite(figures[trial] ?? NaN)) return;
    counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  });
  return counts.size ? [...counts].map(([outcome, n]) => `${n} ${outcome}`).join(", ") : null;
}

function draw(
  state: State,
  metric: Metric,
  rows: EffectRow[],
  dots: Dot[],
  ended: (string | null)[],
  relative: boolean,
  width: number,
): Element {
  const look = (row: EffectRow) => state.looks[row.variant]!;
  // Five heights in turn by block, so that equal trials do not hide each other.
  const height = (dot: Dot) => dot.row - 0.02 + 0.07 * ((state.data.trials.block[dot.trial]! % 5) - 2);
  const { trials, margin } = state.data;
  const unit = relative ? ("times" as const) : metric.unit;
  const show = (value: number) => quantity(value, unit);
  const title = (dot: Dot) => {
    const figure = quantity(values(metric)[dot.trial]!, metric.unit);
    const outcome = trials.outcomes[trials.outcome[dot.trial]!];
    return [
      state.name(rows[dot.row]!.variant),
      relative ? `${show(dot.value)} the baseline (${figure})` : figure,
      `block ${trials.block[dot.trial]! + 1}, trial ${trials.position[dot.trial]! + 1}`,
      ...(outcome === "ok" ? [] : [`later ${outcome}`]),
    ].join("\n");
  };
  const all = [...dots.map((d) => d.value), ...rows.flatMap((r) => [r.center, r.low, r.high]), relative ? 1 : null];
  const known = all.filter((v): v is number => v !== null && v > 0 && Number.isFinite(v));
  const low = Math.min(...known, Infinity);
  const high = Math.max(...known, 0);
  const log = relative || (low > 0 && high / low > 30);
  const pad = log ? Math.max((high / low) ** 0.04, 1.005) : 1;
  const domain: [number, number] =
    known.length === 0 ? [0.5, 2] : log ? [low / pad, high * pad] : [Math.min(0, low), high * 1.04];
  const most = Math.max(2, Math.floor(width / 90));
  const bars = rows.map((row, at) => ({ row, at })).filter(({ row }) => row.center !== null);
  return Plot.plot({
    width,
    height: rows.length * LANE + 48,
    marginLeft: 8,
    marginRight: 14,
    marginTop: 8,
    marginBottom: 40,
    x: {
      type: log ? "log" : "linear",
      domain,
      axis: null,
    },
    y: { domain: [rows.length - 0.35, -0.62], axis: null },
    marks: [
      ...horizontal(log ? logTicks(...domain, most) : linearTicks(...domain, most), show, relative ? "times the baseline" : null),
      relative
        ? Plot.rectX([0], {
            x1: Math.max(1 / (1 + margin), domain[0]),
            x2: Math.min(1 + margin, domain[1]),
            fill: "var(--band)",
          })
        : null,
      relative ? Plot.ruleX([1], { stroke: "var(--fg)", strokeWidth: 1.5 }) : null,
      Plot.text(rows, {
        frameAnchor: "left",
        y: (_, i: number) => i - 0.44,
        text: (row: EffectRow) => state.name(row.variant) + (row.words ? ` \u2013 ${row.words}` : ""),
        fill: "var(--fg)",
        fontWeight: 600,
        fontSize: 12,
        textOverflow: "ellipsis",
        lineWidth: (width - 30) / 13.5,
        stroke: "var(--bg)",
        strokeWidth: 4,
      }),
      Plot.dot(dots, {
        x: "value",
        y: height,
        r: dots.length > 600 ? 2 : 3.2,
        fill: (d: Dot) => look(rows[d.row]!).colour,
        fillOpacity: 0.55,
        symbol: (d: Dot) => look(rows[d.row]!).symbol,
      }),
      Plot.link(bars, {
        x1: ({ row }: { row: EffectRow }) => Math.max(row.low ?? domain[0], domain[0]),
        x2: ({ row }: { row: EffectRow }) => Math.min(row.high ?? domain[1], domain[1]),
        y1: (b: { at: number }) => b.at + 0.27,
        y2: (b: { at: number }) => b.at + 0.27,
        stroke: ({ row }: { row: EffectRow }) => look(row).colour,
        strokeWidth: 5,
        strokeOpacity: 0.85,
        filter: ({ row }: { row: EffectRow }) => row.low !== null || row.high !== null,
      }),
      Plot.dot(bars, {
        x: ({ row }: { row: EffectRow }) => row.center!,
        y: (b: { at: number }) => b.at + 0.27,
        r: 5,
        fill: "var(--bg)",
        stroke: ({ row }: { row: EffectRow }) => look(row).colour,
        strokeWidth: 2.5,
        title: ({ row }: { row: EffectRow }) => sentence(state, row, show),
      }),
      Plot.text(
        ended.flatMap((text, at) => (text === null ? [] : [{ text, at }])),
        {
          frameAnchor: "right",
          y: (e: { at: number }) => e.at - 0.14,
          text: (e: { text: string }) => `\u2715 ${e.text}`,
          fill: "var(--bad)",
          fontWeight: 600,
          stroke: "var(--bg)",
          strokeWidth: 4,
        },
      ),
      Plot.tip(dots, Plot.pointer({ x: "value", y: height, title, fill: "var(--card)", stroke: "var(--line)" })),
    ],
    symbol: { type: "identity" },
    color: { type: "identity" },
  });
}
