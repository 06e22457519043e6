// Determines what a section shows, from its controls, the filters and the initial choice.
import { type Figure, figure, legend, section } from "./chart.ts";
import { type Axis, type Chart, type Lane, type Mark, numbers, type Section, type Series, type When } from "./data.ts";
import { choice } from "./dom.ts";
import { draw } from "./draw.ts";
import type { State } from "./state.ts";

/** A point of a mark; what it lacks is not a number. */
export interface Point {
  x: number;
  x2: number;
  y: number;
  z: number;
  series: Series | null;
  text: string;
  /** What is said of it in its own words. */
  tip: string;
  trial: number | null;
}

/** A mark with the points that are shown. */
export interface Shown {
  mark: Mark;
  points: Point[];
}

/** Draws a section's charts into its element, with its controls above them. */
export function charts(id: string, state: State): void {
  const scene = new Scene(state, state.data.sections[id]!);
  section(
    id,
    state,
    (redraw) =>
      scene.section.controls.map((control, at) => {
        const options = control.options.map(({ text, group }, i) => ({ value: String(i), text, ...(group ? { group } : {}) }));
        const change = (value: string) => ((scene.chosen[at] = Number(value)), redraw());
        return choice(control.label, options, String(control.chosen), change);
      }),
    () => {
      const shown = scene.charts();
      if (shown.length === 0) return [];
      const figures = shown.map(({ chart, marks }) => figure(scene.figure(chart, marks)));
      return scene.section.legend ? [legend(scene.legend(shown.flatMap((s) => s.marks))), ...figures] : figures;
    },
  );
}

export class Scene {
  /** The chosen option of each control. */
  readonly chosen: number[];
  private readonly series: Series[];

  constructor(
    readonly state: State,
    readonly section: Section,
  ) {
    this.chosen = section.controls.map((control) => control.chosen);
    this.series = section.series.length ? section.series : state.data.variants;
  }

  private isChosen(when: When[] = []): boolean {
    return when.every(([control, first, last]) => this.chosen[control]! >= first && this.chosen[control]! <= last);
  }

  /** The place and the variants of the option chosen in the control that does this. */
  private option(does: Section["controls"][number]["does"]): { at: number; variants: number[] } {
    const control = this.section.controls.findIndex((c) => c.does === does);
    const at = this.chosen[control] ?? 0;
    return { at, variants: this.section.controls[control]?.options[at]?.variants ?? [] };
  }

  private shows(variant: number): boolean {
    const { variants } = this.option("restrict");
    return this.state.shows(variant) && (variants.length === 0 || variants.includes(variant));
  }

  /** The charts that have something to show, with their marks. */
  charts(): { chart: Chart; marks: Shown[] }[] {
    return this.section.charts
      .filter((chart) => this.isChosen(chart.when))
      .map((chart) => ({ ...chart, x: this.drawn(chart.x) }))
      .map((chart) => ({ chart, marks: this.marks(chart) }))
      .filter(({ marks }) => marks.some(({ points }) => points.some((p) => p.series !== null)));
  }

  /** An axis of time is logarithmic where the variants that are drawn differ tenfold. */
  private drawn(axis: Axis): Axis {
    if (axis.scale !== "times") return axis;
    const lines = axis.lines!.filter((line) => this.shows(line.variant));
    const [low, high] = [Math.min(...lines.map((l) => l.first)), Math.max(...lines.map((l) => l.longest))];
    const apart = lines.some((line) => high >= 10 * line.longest);
    return apart ? { ...axis, label: "logarithmic", scale: "between", low, high } : { ...axis, scale: "time" };
  }

  private marks(chart: Chart): Shown[] {
    const shown = chart.marks
      .filter((mark) => this.isChosen(mark.when))
      .map((mark) => ({ mark, points: this.points(mark) }))
      .filter(({ points }) => points.length > 0);
    // Bands of several variants would lie on each other: those of the chosen one, or else of the first.
    const bands = shown.filter(({ mark }) => mark.kind === "bands" && mark.of !== null);
    const { variants } = this.option("shade");
    const shaded = bands.find(({ mark }) => variants.includes(this.variant(mark, 0)!)) ?? bands[0];
    return shown.filter((of) => !bands.includes(of) || of === shaded);
  }

  private points(mark: Mark): Point[] {
    const { data } = this.state;
    const [x, x2, y, z] = [mark.x, mark.x2, mark.y, mark.z].map((id) => numbers(data, id));
    const [groups, bases] = [mark.over?.groups, mark.over?.numbers].map((id) => numbers(data, id));
    const shift = numbers(data, mark.shifts)[this.option("shift").at] ?? 0;
    const found: Point[] = [];
    for (let at = 0; at < Math.max(x!.length, y!.length); at++) {
      const variant = this.variant(mark, at);
      if (mark.of !== null && (variant === undefined || !this.shows(variant))) continue;
      const base = mark.over ? (bases![groups![at]!] ?? NaN) : 1;
      found.push({
        x: (x![at] ?? NaN) / base - shift,
        x2: (x2![at] ?? NaN) - shift,
        y: y![at] ?? NaN,
        z: z![at] ?? NaN,
        series: variant === undefined ? null : this.seriesOf(variant),
        text: mark.text?.[at] ?? "",
        tip: mark.tips?.[at] ?? mark.tip ?? "",
        trial: mark.of === "trials" ? at : typeof mark.of === "number" ? mark.of : null,
      });
    }
    return found;
  }

  /** The variant of a mark's point: of several the first that is shown. */
  private variant({ of }: Mark, at: number): number | undefined {
    const { variant } = this.state.data.trials;
    if (of === null) return undefined;
    if (of === "trials") return variant[at];
    if (typeof of === "number") return variant[of];
    return Array.isArray(of) ? of.find((v) => this.shows(v)) : of.each[at];
  }

  private seriesOf(variant: number): Series | null {
    return this.series.find((s) => s.variants.includes(variant) && this.isChosen(s.when)) ?? null;
  }

  /** What the series of a variant is called. */
  name(variant: number): string {
    return this.seriesOf(variant)?.name ?? "";
  }

  /** The series of these marks, in order. */
  legend(marks: Shown[]): Series[] {
    const drawn = new Set(marks.flatMap(({ points }) => points.map((p) => p.series)));
    return this.series.filter((series) => drawn.has(series));
  }

  /** The numbers of the lanes that are shown, in the order in which they stand. */
  lanes(chart: Chart): number[] {
    const lanes = chart.y.lanes ?? [];
    const ranked = this.option("order").at === 0;
    const rank = (lane: Lane) => (ranked ? (lane.rank ?? Infinity) : 0);
    const order = (a: number, b: number) => {
      const [first, second] = [lanes[a]!, lanes[b]!];
      const [low, high] = [rank(first), rank(second)];
      return Number(first.last ?? false) - Number(second.last ?? false) || (low === high ? 0 : low - high);
    };
    return [...lanes.keys()].filter((at) => this.shows(lanes[at]!.variant)).sort(order);
  }

  figure(chart: Chart, marks: Shown[]): Figure {
    const shaded = marks.find(({ mark }) => mark.kind === "bands" && mark.of !== null);
    const variant = shaded && this.variant(shaded.mark, 0);
    const said = chart.caption.filter(({ shaded: alone, variants }) =>
      alone ? variants!.includes(variant ?? -1) : !variants || variants.some((v) => this.shows(v)),
    );
    const { heads } = chart.table;
    // Rows stand in the order of the lanes.
    const order = this.lanes(chart).map((lane) => chart.y.lanes![lane]!.variant);
    const rows = chart.table.rows
      .filter((row) => this.shows(row.variant) && this.isChosen(row.when))
      .sort((a, b) => order.indexOf(a.variant) - order.indexOf(b.variant))
      .map((row) => [this.name(row.variant), ...row.cells]);
    const words = (cells: string[]) => cells.flatMap((cell, i) => (i === 0 || cell === "-" ? [] : [`${heads[i]} ${cell}`]));
    return {
      title: chart.title,
      caption: said.map(({ text }) => text).join(" "),
      alternative: rows.map((cells) => `${cells[0]}: ${words(cells).join(", ")}`).join("; "),
      draw: (width) => draw(this, chart, marks, width),
      table: () => ({ heads, rows }),
    };
  }
}
