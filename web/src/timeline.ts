// CPU, memory and I/O over time, variants overlaid, phases shaded.
import * as Plot from "@observablehq/plot";
import { type Chart, figure, legend, section } from "./chart.ts";
import { type Payload, type Phase, unpack } from "./data.ts";
import { choice } from "./dom.ts";
import { digits, quantity, seconds } from "./format.ts";
import { among } from "./among.ts";
import type { State } from "./state.ts";

type Trial = Payload["timelines"]["trials"][number];

interface Point {
  x: number;
  y: number;
  variant: number;
}

export function timeline(state: State): void {
  const { data } = state;
  const all = data.timelines.trials;
  if (all.length === 0) return;
  const rounds = byVariant(state, all);
  const deepest = Math.max(...[...rounds.values()].map((trials) => trials.length));
  const phases = [...new Set(all.flatMap((t) => t.phases.map((p) => p.name)))];
  const chosen = among(state, [...rounds.keys()]);
  let round = 0;
  let align = "";
  let shaded = "";
  section(
    "timeline",
    state,
    (redraw) => [
      chosen.control(redraw),
      deepest < 2
        ? null
        : choice(
            "Trials",
            Array.from({ length: Math.min(deepest, 30) }, (_, i) => ({
              value: String(i),
              text: i === 0 ? "nearest to the median" : `${i + 1}${i === 1 ? "nd" : i === 2 ? "rd" : "th"} nearest`,
            })),
            "0",
            (value) => ((round = Number(value)), redraw()),
          ),
      phases.length < 2
        ? null
        : choice(
            "Zero is",
            [{ value: "", text: "the first phase's begin" }].concat(
              phases.map((p) => ({ value: p, text: `begin of ${p}` })),
            ),
            "",
            (value) => ((align = value), redraw()),
          ),
      choice(
        "Shade phases of",
        [
          { value: "", text: "the first shown" },
          ...[...rounds.keys()].map((v) => ({ value: String(v), text: state.name(v) })),
        ],
        "",
        (value) => ((shaded = value), redraw()),
      ),
    ],
    () => {
      const variants = [...rounds.keys()].filter((v) => chosen.shows(v));
      if (variants.length === 0) return [];
      const trials = variants.map((v) => rounds.get(v)![Math.min(round, rounds.get(v)!.length - 1)]!);
      const focus = trials.find((t) => String(data.trials.variant[t.trial]) === shaded) ?? trials[0]!;
      const zero = (t: Trial) => t.phases.find((p) => p.name === align)?.begin ?? 0;
      const panels = data.timelines.quantities.map((_, at) => panel(state, trials, focus, zero, at));
      return [
        legend(state, variants, true),
        figure(ribbons(state, trials, zero)),
        ...panels.filter((p): p is Chart => p !== null).map(figure),
      ];
    },
  );
}

function byVariant(state: State, all: Trial[]): Map<number, Trial[]> {
  const found = new Map<number, Trial[]>();
  for (const trial of all) {
    const variant = state.data.trials.variant[trial.trial]!;
    found.set(variant, [...(found.get(variant) ?? []), trial]);
  }
  return new Map([...found].sort(([a], [b]) => a - b));
}

function variantOf(state: State, trial: Trial): number {
  return state.data.trials.variant[trial.trial]!;
}

function extent(trials: Trial[], zero: (t: Trial) => number): [number, number] {
  // Four characters hold three bytes, and a number has four of them.
  const span = (t: Trial) => t.step * Math.max(1, ...t.values.map((v) => (v ? Math.floor((v.length * 3) / 16) : 0)));
  const ends = trials.map((t) => Math.max(span(t), ...t.phases.map((p) => p.end)) - zero(t));
  return [Math.min(...trials.map((t) => -zero(t))), Math.max(...ends)];
}

/** The phases of each variant as bars above each other. */
function ribbons(state: State, trials: Trial[], zero: (t: Trial) => number): Chart {
  const { left_out } = state.data.timelines;
  const rest = left_out ? ` The timelines of ${left_out} more trials are in the database, not in this page.` : "";
  return {
    title: "Phases",
    caption: `One trial of each variant: by default the one nearest to its variant's median.${rest}`,
    alternative: trials
      .map((t) => `${state.name(variantOf(state, t))}: ${t.phases.map((p) => `${p.name} ${seconds(p.end - p.begin)}`).join(", ")}`)
      .join("; "),
    draw: (width) => {
      const bars = trials.flatMap((t, row) =>
        t.phases.map((p, at) => ({ ...p, row, at, variant: variantOf(state, t), x1: p.begin - zero(t), x2: p.end - zero(t) })),
      );
      type Bar = (typeof bars)[number];
      const [low, high] = extent(trials, zero);
      const wide = (b: Bar) => ((b.x2 - b.x1) / (high - low)) * (width - 20) > b.name.length * 6.6 + 8;
      return Plot.plot({
        width,
        height: trials.length * 38 + 34,
        marginLeft: 8,
        marginRight: 12,
        marginTop: 2,
        marginBottom: 26,
        x: { domain: [low, high], label: null, tickFormat: seconds, ticks: Math.max(2, Math.floor(width / 110)) },
        y: { axis: null, domain: [trials.length, 0] },
        color: { type: "identity" },
        marks: [
          Plot.text(trials, {
            frameAnchor: "left",
            y: (_, i: number) => i + 0.2,
            text: (t: Trial) => state.name(variantOf(state, t)),
            fontWeight: 600,
            fill: "var(--fg)",
          }),
          Plot.rect(bars, {
            x1: "x1",
            x2: "x2",
            y1: (b: Bar) => b.row + 0.42,
            y2: (b: Bar) => b.row + 0.94,
            fill: (b: Bar) => state.looks[b.variant]!.colour,
            fillOpacity: (b: Bar) => (b.at % 2 ? 0.22 : 0.42),
            inset: 0.5,
            rx: 2,
          }),
          Plot.text(bars.filter(wide), {
            x: (b: Bar) => (b.x1 + b.x2) / 2,
            y: (b: Bar) => b.row + 0.68,
            text: "name",
            fill: "var(--fg)",
          }),
          Plot.tip(
            bars,
            Plot.pointer({
              x: (b: Bar) => (b.x1 + b.x2) / 2,
              y: (b: Bar) => b.row + 0.68,
              fill: "var(--card)",
              stroke: "var(--line)",
              title: (b: Bar) =>
                `${state.name(b.variant)}\n${b.name}: ${seconds(b.end - b.begin)}${b.timed ? "" : ", not timed"}`,
            }),
          ),
        ],
      });
    },
    table: () => ({
      heads: ["Variant", "Trial", "Phase", "Begin", "Duration"],
      rows: trials.flatMap((t) =>
        t.phases.map((p: Phase) => [
          state.name(variantOf(state, t)),
          String(state.data.trials.position[t.trial]! + 1),
          p.name,
          seconds(p.begin - zero(t)),
          seconds(p.end - p.begin),
        ]),
      ),
    }),
  };
}

function pointsOf(state: State, trial: Trial, zero: number, quantityAt: number): Point[] {
  const packed = trial.values[quantityAt];
  if (!packed) return [];
  const variant = variantOf(state, trial);
  return Array.from(unpack(packed), (y, i) => ({ x: (i + 0.5) * trial.step - zero, y, variant }));
}

const HOW: Record<string, string> = {
  cpu: "Mean over each step.",
  anon: "Largest sample of each step, summed over processes; peaks are sampled.",
  file: "Largest sample of each step, summed over processes: pages that several map are counted for each.",
  read: "Mean over each step, as the kernel counts it for the processes.",
  written: "Mean over each step, as the kernel counts it for the processes; what is written back later is nobody's.",
};

function panel(state: State, trials: Trial[], focus: Trial, zero: (t: Trial) => number, at: number): Chart | null {
  const [key, title, unit] = state.data.timelines.quantities[at]!;
  const points = trials.flatMap((t) => pointsOf(state, t, zero(t), at));
  if (!points.some((p) => Number.isFinite(p.y))) return null;
  const show = (value: number) => quantity(value, unit as "cores" | "bytes" | "bytes/s");
  const steps = trials.map((t) => t.step);
  const each = Math.min(...steps) === Math.max(...steps) ? seconds(steps[0]!) : `${seconds(Math.min(...steps))} to ${seconds(Math.max(...steps))}`;
  const phases = focus.phases.map((p, i) => ({ ...p, i, x1: p.begin - zero(focus), x2: p.end - zero(focus) }));
  const peaks = trials.map((t) => {
    const own = points.filter((p) => p.variant === variantOf(state, t) && Number.isFinite(p.y));
    return { variant: variantOf(state, t), peak: Math.max(...own.map((p) => p.y)), mean: own.reduce((s, p) => s + p.y, 0) / own.length };
  });
  return {
    title: unit === "cores" ? `${title}, cores` : title,
    caption: `${HOW[key] ?? ""} A step is ${each}. Shaded: the phases of ${state.name(variantOf(state, focus))}.`,
    alternative: peaks.map((p) => `${state.name(p.variant)}: mean ${show(p.mean)}, largest ${show(p.peak)}`).join("; "),
    draw: (width) => {
      const [low, high] = extent(trials, zero);
      return Plot.plot({
        width,
        height: Math.min(300, Math.max(190, width * 0.24)),
        marginLeft: 64,
        marginRight: 12,
        marginTop: 18,
        marginBottom: 30,
        x: { domain: [low, high], label: null, tickFormat: seconds, ticks: Math.max(2, Math.floor(width / 110)) },
        y: { label: null, tickFormat: unit === "cores" ? digits : show, ticks: 4, grid: true, zero: true, nice: true },
        color: { type: "identity" },
        marks: [
          Plot.rectX(phases, { x1: "x1", x2: "x2", fill: (p: { i: number }) => (p.i % 2 ? "var(--shade2)" : "var(--shade1)") }),
          Plot.text(
            phases.filter((p) => ((p.x2 - p.x1) / (high - low)) * (width - 76) > p.name.length * 6.4),
            { x: (p: { x1: number; x2: number }) => (p.x1 + p.x2) / 2, frameAnchor: "top", dy: -13, text: "name", fill: "var(--soft)" },
          ),
          ...trials.map((t) => {
            const variant = variantOf(state, t);
            const own = points.filter((p) => p.variant === variant);
            const { colour, dash } = state.looks[variant]!;
            return Plot.line(own, { x: "x", y: "y", stroke: colour, strokeWidth: 1.6, strokeDasharray: dash, curve: "linear" });
          }),
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
      });
    },
    table: () => ({
      heads: ["Variant", "Mean over time", "Largest"],
      rows: peaks.map((p) => [state.name(p.variant), show(p.mean), show(p.peak)]),
    }),
  };
}
