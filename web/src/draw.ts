// Draws any chart with Observable Plot.
import * as Plot from "@observablehq/plot";
import { type Axis, type Chart, ending, type Lane, type Mark, type Series } from "./data.ts";
import { quantity } from "./format.ts";
import type { Point, Scene, Shown } from "./scene.ts";
import { linearTicks, logTicks } from "./ticks.ts";

const DASHES = ["", "9 4", "3 3", "12 3 3 3", "18 5"];
const SYMBOLS = ["circle", "triangle", "square", "diamond", "star", "cross", "wye"] as const;
/** What text is drawn on, so that it is legible on lines. */
const HALO = { stroke: "var(--bg)", strokeWidth: 4 };

export const colour = (series: Series | null) =>
  series === null ? "var(--fg)" : series.colour === null ? "var(--base)" : `var(--c${series.colour})`;
export const dash = (series: Series) => DASHES[series.dash % DASHES.length]!;
const ink = (p: Point) => colour(p.series);
const symbol = (p: Point) => SYMBOLS[(p.series?.symbol ?? 0) % SYMBOLS.length]!;

/** What marks are drawn on. */
interface Frame {
  chart: Chart;
  width: number;
  /** Where the scale begins across, in pixels. */
  left: number;
  x: [number, number];
  y: [number, number];
  /** The width of a range of values in pixels. */
  span(from: number, to: number): number;
  /** The place of a point up. */
  place(p: Point): number;
}

/** The picture of a chart. */
export function draw(scene: Scene, chart: Chart, marks: Shown[], width: number): Element {
  const lanes = chart.y.lanes ? scene.lanes(chart) : null;
  hideOutside(chart, marks);
  // Charts below each other share an axis of time: the room for labels is that of the longest, 12.5 MB/s.
  const margin = lanes ? { left: 8, right: 14, top: 8, bottom: 40 } : { left: 72, right: 20, top: 18, bottom: 42 };
  const x = domain(chart.x, across(scene, marks), false);
  const y: [number, number] = lanes
    ? [lanes.length, 0]
    : domain(chart.y, marks.flatMap((of) => of.points.map((p) => p.y)), marks.some((of) => of.mark.kind === "ends"));
  const inner = width - margin.left - margin.right;
  const frame: Frame = {
    chart,
    width,
    left: margin.left,
    x,
    y,
    span: (from, to) => (inner * (isLog(chart.x) ? Math.log(to / from) / Math.log(x[1] / x[0]) : (to - from) / (x[1] - x[0]))),
    place: (p) => (lanes ? placeOf(lanes, p.y) : p.y),
  };
  return Plot.plot({
    width,
    height: margin.top + margin.bottom + (lanes ? lanes.length * chart.height : chart.height * Math.min(1150, Math.max(740, width)) - 60),
    marginLeft: margin.left,
    marginRight: margin.right,
    marginTop: margin.top,
    marginBottom: margin.bottom,
    x: { type: isLog(chart.x) ? "log" : "linear", domain: x, axis: null },
    y: { type: isLog(chart.y) ? "log" : "linear", domain: y, axis: null },
    color: { type: "identity" },
    symbol: { type: "identity" },
    marks: [
      ...horizontal(frame),
      ...(lanes ? [] : vertical(chart.y, y)),
      ...marks.flatMap((of) => drawn(of, frame)),
      // Above rules and bands, which would cross the letters.
      ...(lanes ? headings(scene, frame, lanes) : []),
      tip(scene, frame, marks),
    ],
  });
}

/** Takes their place from points before a logarithmic axis: where another begin is zero, lines begin before it. Points that do
 * not end on it either have no height then, since the scale up would have to hold what nobody sees. */
export function hideOutside(chart: Chart, marks: Shown[]): void {
  // The point with which an axis begins has 32 bits, and may lie a little before it.
  const least = 0.999 * (chart.x.low ?? 0);
  for (const { mark, points } of marks) {
    for (const p of points) {
      if (isLog(chart.x) && (p.x <= 0 || p.x < least)) {
        p.x = NaN;
        if (mark.x2 === undefined) p.y = NaN;
      }
      if (isLog(chart.y) && p.y <= 0) p.y = NaN;
    }
  }
}

/** Not a number where the lane is not shown, so that nothing is drawn there. */
function placeOf(lanes: number[], y: number): number {
  const at = lanes.indexOf(Math.floor(y));
  return at < 0 ? NaN : at + (y % 1);
}

const isLog = (axis: Axis) => axis.scale === "log" || axis.scale === "between";

/** The places across that the scale has to hold: all but those of nobody's bands. Steps reach to their ends. */
function across(scene: Scene, marks: Shown[]): number[] {
  return marks.flatMap(({ mark, points }) => {
    if (mark.kind === "bands" && mark.of === null) return [];
    const column = mark.x === undefined ? "" : scene.state.data.columns[mark.x]!;
    const ends = typeof column === "string" ? [] : points.flatMap((p) => [p.x - column.step / 2, p.x + column.step / 2]);
    return points.flatMap((p) => [p.x, p.x2, mark.kind === "intervals" ? p.z : NaN]).concat(ends);
  });
}

/** The ends of a scale, with room for a line of text at the upper one. */
function domain(axis: Axis, values: number[], room: boolean): [number, number] {
  if (axis.scale === "between") return [axis.low!, axis.high!];
  const log = axis.scale === "log";
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (!Number.isFinite(value) || (log && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) [low, high] = [0.5, 2];
  if (!log) return [Math.min(0, low), high > 0 ? high * (axis.scale === "time" ? 1 : 1.05) : 1];
  if (room) high *= Math.max(high / low, 2) ** 0.16;
  const pad = Math.max((high / low) ** 0.04, 1.02);
  return [low / pad, high * pad];
}

const ticksOf = (axis: Axis, [low, high]: [number, number], most: number) =>
  isLog(axis) ? logTicks(low, high, most) : linearTicks(low, high, most);
const grid = { stroke: "var(--fg)", strokeOpacity: 0.12 };

/** Axes whose every mark is labelled: Plot leaves out labels of logarithmic axes that it thinks too near. */
function horizontal({ chart: { x: axis }, x, width, left, span }: Frame): Plot.Markish[] {
  const texts = new Map(axis.ticks);
  const ticks = axis.ticks ? [...texts.keys()] : ticksOf(axis, x, Math.max(2, Math.floor(width / 90)));
  const show = (value: number) => texts.get(value) ?? quantity(value, axis.format);
  // A text that would lie on the one before it, or not wholly in the picture, is left out.
  let last = NaN;
  const legible = ticks.filter((tick) => {
    const [at, room] = [left + span(x[0], tick), show(tick).length * 6.5];
    if (span(last, tick) < room || at < room / 2 || at > width - room / 2) return false;
    last = tick;
    return true;
  });
  return [
    Plot.gridX(ticks, grid),
    Plot.axisX(legible, { text: show, label: null, anchor: "bottom" }),
    axis.label ? Plot.text([axis.label], { text: (t: string) => t, frameAnchor: "bottom-right", dy: 36, fill: "var(--soft)" }) : null,
  ];
}

function vertical(axis: Axis, ends: [number, number]): Plot.Markish[] {
  const ticks = ticksOf(axis, ends, isLog(axis) ? 8 : 7);
  return [Plot.gridY(ticks, grid), Plot.axisY(ticks, { text: (v: number) => quantity(v, axis.format), label: null, anchor: "left" })];
}

/** What stands at the top of each lane. */
function headings(scene: Scene, { chart, width }: Frame, lanes: number[]): Plot.Markish[] {
  const text = ({ variant, words }: Lane) => scene.name(variant) + (words ? ` \u2013 ${words}` : "");
  return [
    Plot.text(lanes, {
      frameAnchor: "left",
      y: (_, i: number) => i + 7 / chart.height,
      text: (lane: number) => text(chart.y.lanes![lane]!),
      fill: "var(--fg)",
      fontWeight: 600,
      fontSize: 12,
      textOverflow: "ellipsis",
      lineWidth: (width - 30) / 13.5,
      ...HALO,
    }),
  ];
}

/** Where a point begins across: what lies before a logarithmic axis begins with it. */
const from = (p: Point, ends: [number, number]) => within(Number.isNaN(p.x) ? ends[0] : p.x, ends);
const within = (value: number, [low, high]: [number, number]) => Math.min(high, Math.max(low, value));

function drawn({ mark, points }: Shown, frame: Frame): Plot.Markish[] {
  const { place: y, x: ends, width } = frame;
  const at = { x: "x", y } as const;
  switch (mark.kind) {
    case "line":
    case "area":
      return lines(mark, points, frame);
    case "dots":
      return [Plot.dot(points, { ...at, r: points.length > 600 ? 2 : 3.3, fill: ink, fillOpacity: 0.55, symbol })];
    case "intervals":
      return [
        Plot.link(points, {
          x1: (p: Point) => from(p, ends),
          x2: (p: Point) => within(Number.isNaN(p.x2) ? ends[1] : p.x2, ends),
          y1: y,
          y2: y,
          stroke: ink,
          strokeWidth: 5,
          strokeOpacity: 0.85,
          filter: (p: Point) => Number.isFinite(p.x) || Number.isFinite(p.x2),
        }),
        Plot.dot(points, { x: "z", y, r: 5, fill: "var(--bg)", stroke: ink, strokeWidth: 2.5 }),
      ];
    case "bars":
      return [
        Plot.rect(points, {
          x1: (p: Point) => from(p, ends),
          x2: "x2",
          filter: (p: Point) => p.x2 > ends[0],
          y1: y,
          y2: (p: Point) => y(p) + 0.94 - (p.y % 1),
          fill: ink,
          fillOpacity: (_, i: number) => (i % 2 ? 0.22 : 0.42),
          inset: 0.5,
          rx: 2,
        }),
        named(points, frame, { y: (p: Point) => y(p) + (0.94 - (p.y % 1)) / 2, fill: "var(--fg)" }),
      ];
    case "bands":
      return [
        Plot.rectX(points, {
          x1: (p: Point) => from(p, ends),
          x2: (p: Point) => within(p.x2, ends),
          filter: (p: Point) => p.x2 > ends[0],
          fill: (_, i: number) => (mark.of === null ? "var(--band)" : i % 2 ? "var(--shade2)" : "var(--shade1)"),
        }),
        named(points, frame, { frameAnchor: "top", dy: -13, fill: "var(--soft)" }),
      ];
    case "rules":
      return [Plot.ruleX(points, { x: "x", stroke: ink, ...(mark.of === null ? { strokeWidth: 1.5 } : { strokeDasharray: "1 3" }) })];
    case "limits":
      return [
        Plot.ruleY(points, { y, stroke: "var(--bad)", strokeDasharray: "8 3", strokeWidth: 1.4 }),
        Plot.text(points, { y, frameAnchor: "left", dx: 6, dy: -8, text: "text", textAnchor: "start", fill: "var(--bad)", fontWeight: 600, ...HALO }),
      ];
    case "rings":
      return [
        Plot.dot(points, { ...at, r: 5, stroke: ink, fill: "var(--bg)", strokeWidth: 2 }),
        // On a narrow screen the caption alone says it: the words would lie on each other.
        Plot.text(width < 560 ? [] : points, { ...at, dy: 14, dx: -8, text: "text", textAnchor: "end", fill: ink, ...HALO }),
      ];
    case "ends":
      return endings(points, frame);
  }
}

const middle = (axis: Axis, low: number, high: number) => (isLog(axis) ? Math.sqrt(low * high) : (low + high) / 2);

/** Texts in the middle of what they name, where there is room. */
function named(points: Point[], { chart, span, x: ends }: Frame, how: Plot.TextOptions): Plot.Markish {
  const wide = (p: Point) => span(from(p, ends), within(p.x2, ends)) > p.text.length * 6.5;
  const x = (p: Point) => middle(chart.x, from(p, ends), within(p.x2, ends));
  return Plot.text(points.filter((p) => p.text !== "" && wide(p)), { x, text: "text", ...how });
}

const STROKES: Record<string, Plot.LineOptions> = {
  solid: { strokeDasharray: "" },
  dashed: { strokeDasharray: "4 4" },
  fit: { strokeDasharray: "5 4", strokeOpacity: 0.75, strokeWidth: 1.4 },
  beyond: { strokeDasharray: "1 5", strokeWidth: 2.2, strokeLinecap: "round" },
};

/** A line for each series; what has `x2` is steps, with their area. */
function lines(mark: Mark, points: Point[], { place: y }: Frame): Plot.Markish[] {
  return [...new Set(points.map((p) => p.series))].flatMap((series) => {
    const own = points.filter((p) => p.series === series);
    const path = mark.kind === "area" ? own.flatMap((p) => [p, { ...p, x: p.x2 }]) : own;
    const stroke = { stroke: colour(series), strokeWidth: 1.8, strokeDasharray: series ? dash(series) : "" };
    return [
      mark.kind === "area" ? Plot.areaY(path, { x: "x", y1: 0, y2: y, fill: colour(series), fillOpacity: 0.1 }) : null,
      Plot.line(path, { x: "x", y, ...stroke, ...(mark.stroke ? STROKES[mark.stroke] : {}) }),
    ];
  });
}

/** What did not finish: at the right of a lane, or at the top, a line for each series. */
function endings(points: Point[], { chart, left, x, span, place }: Frame): Plot.Markish[] {
  const text = { text: (p: Point) => `\u2715 ${p.text}`, fontWeight: 600, ...HALO } as const;
  if (chart.y.lanes) return [Plot.text(points, { ...text, textAnchor: "end", frameAnchor: "right", y: place, fill: "var(--bad)" })];
  // To the left of the first values there is no room: the number of trials was cut off.
  const fits = (p: Point) => left + span(x[0], p.x) > (p.text.length + 2) * 7;
  return [...new Set(points.map((p) => p.series))].flatMap((series, at) =>
    (["end", "start"] as const).map((textAnchor) =>
      Plot.text(
        points.filter((p) => p.series === series && fits(p) === (textAnchor === "end")),
        { ...text, textAnchor, x: "x", frameAnchor: "top", lineAnchor: "top", dy: 15 * at, fill: ink },
      ),
    ),
  );
}

/** What is said of the point nearest to the pointer. */
function tip(scene: Scene, { chart, place, x: ends }: Frame, marks: Shown[]): Plot.Markish {
  const all = marks.flatMap(({ mark, points }) => points.filter((p) => p.tip !== "").map((p) => ({ ...p, mark })));
  const { trials } = scene.state.data;
  const title = (p: Point & { mark: Mark }) => {
    const parts: Record<string, string> = {
      "{x}": quantity(p.x, chart.x.format),
      "{x2}": quantity(p.x2, chart.x.format),
      "{y}": quantity(p.y, chart.y.format),
      "{z}": quantity(p.z, p.mark.z_format ?? "plain"),
    };
    const lines = [p.series?.name ?? "", p.tip.replace(/\{(x2?|y|z)\}/g, (part) => parts[part]!)];
    if (p.trial !== null) {
      lines.push(`block ${trials.block[p.trial]! + 1}, trial ${trials.position[p.trial]! + 1}`);
      const ended = ending(scene.state.data, p.trial, chart.phase);
      if (ended !== "") lines.push(ended);
    }
    return lines.join("\n");
  };
  const x = (p: Point) => (Number.isNaN(p.x2) ? p.x : middle(chart.x, from(p, ends), p.x2));
  return Plot.tip(all, Plot.pointer({ x, y: place, title, fill: "var(--card)", stroke: "var(--line)" }));
}
