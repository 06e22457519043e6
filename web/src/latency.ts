// Latency percentile curves: intended solid, actual dashed.
import * as Plot from "@observablehq/plot";
import { horizontal, vertical } from "./axis.ts";
import { type Chart, figure, legend, section } from "./chart.ts";
import type { LatencyCurve } from "./data.ts";
import { percentile, quantity } from "./format.ts";
import { among } from "./among.ts";
import type { State } from "./state.ts";
import { logTicks } from "./ticks.ts";

const KINDS: Record<LatencyCurve["kind"], string> = {
  service: "service time: from the start of the operation",
  intended: "from the intended start",
  actual: "from the actual start",
};
const NAMED = [0.5, 0.9, 0.99, 0.999, 0.9999];

export function latency(state: State): void {
  const { curves } = state.data.latency;
  if (curves.length === 0) return;
  const chosen = among(state, [...new Set(curves.map((c) => c.variant))]);
  section(
    "latency",
    state,
    (redraw) => [chosen.control(redraw)],
    () => {
      const shown = curves.filter((c) => chosen.shows(c.variant) && c.nanos.length > 0);
      const groups = new Map<string, LatencyCurve[]>();
      for (const curve of shown) {
        const key = `${curve.phase}: ${curve.operation}`;
        groups.set(key, [...(groups.get(key) ?? []), curve]);
      }
      const variants = [...new Set(shown.map((c) => c.variant))].sort((a, b) => a - b);
      if (variants.length === 0) return [];
      return [legend(state, variants, true), ...[...groups].map(([title, of]) => figure(chart(state, title, of)))];
    },
  );
}

function chart(state: State, title: string, curves: LatencyCurve[]): Chart {
  const { shares } = state.data.latency;
  const show = (v: number) => quantity(v, "nanos");
  const kinds = [...new Set(curves.map((c) => c.kind))];
  const failed = curves.reduce((sum, c) => sum + c.failed, 0);
  const beyond = (at: number) => 1 / (1 - shares[at]!);
  const points = curves.flatMap((c) =>
    c.nanos.map((y, i) => ({ x: beyond(i), y: Math.max(y, 1), variant: c.variant, kind: c.kind })),
  );
  type Point = (typeof points)[number];
  const ys = points.map((p) => p.y);
  const farthest = Math.max(...points.map((p) => p.x));
  const at = (curve: LatencyCurve, share: number) => {
    const index = shares.findIndex((s) => s >= share - 1e-9);
    const nanos = curve.nanos[index];
    return nanos === undefined ? "-" : show(nanos);
  };
  const dashed = kinds.includes("intended") && kinds.includes("actual") ? " Solid: intended; dashed: actual." : "";
  const infinite = failed ? ` ${failed} operations failed; they count as infinitely slow, and curves end before them.` : "";
  const name = (c: LatencyCurve) => state.name(c.variant) + (kinds.length > 1 ? ` (${c.kind})` : "");
  return {
    title,
    caption:
      `Latency ${kinds.map((k) => KINDS[k]).join(", and ")}. All trials of a variant pooled: the shape, not a test. ` +
      `Curves end where fewer than ten operations lie beyond.${dashed}${infinite}`,
    alternative: curves.map((c) => `${name(c)}: median ${at(c, 0.5)}, 99 % ${at(c, 0.99)}`).join("; "),
    draw: (width) =>
      Plot.plot({
        width,
        height: Math.min(420, Math.max(260, width * 0.36)),
        marginLeft: 64,
        marginRight: 22,
        marginBottom: 42,
        x: {
          type: "log",
          axis: null,
        },
        y: { type: "log", axis: null },
        color: { type: "identity" },
        marks: [
          ...horizontal(
            [1, 2, 10, 100, 1e3, 1e4, 1e5, 1e6].filter((t) => t <= farthest * 1.01 && (width > 420 || t !== 2)),
            percentile,
            "share of operations at or below",
          ),
          ...vertical(logTicks(Math.min(...ys), Math.max(...ys), 8), show),
          ...curves.map((c) => {
            const { colour, dash } = state.looks[c.variant]!;
            const own = points.filter((p) => p.variant === c.variant && p.kind === c.kind);
            const stroke = kinds.length > 1 ? (c.kind === "actual" ? "4 4" : "") : dash;
            return Plot.line(own, { x: "x", y: "y", stroke: colour, strokeWidth: 2, strokeDasharray: stroke });
          }),
          Plot.tip(
            points,
            Plot.pointer({
              x: "x",
              y: "y",
              fill: "var(--card)",
              stroke: "var(--line)",
              title: (p: Point) => `${state.name(p.variant)}${kinds.length > 1 ? ` (${p.kind})` : ""}\n${percentile(p.x)}: ${show(p.y)}`,
            }),
          ),
        ],
      }),
    table: () => ({
      heads: ["Variant", "Operations", "Failed", ...NAMED.map((s) => percentile(1 / (1 - s)))],
      rows: curves.map((c) => [name(c), String(c.succeeded), String(c.failed), ...NAMED.map((s) => at(c, s))]),
    }),
  };
}
