// The page's data, as `crates/prony-report/src/html/payload.rs` writes it.

export interface Payload {
  title: string;
  run: number;
  factors: { name: string; levels: string[]; varies: boolean }[];
  variants: (Series & { levels: number[] })[];
  trials: {
    position: number[];
    block: number[];
    sub_block: number[];
    variant: number[];
    second: number[];
    outcome: number[];
    outcomes: string[];
    phase: (string | null)[];
    after: string;
    seed: string[];
    started: number[];
  };
  metrics: Metric[];
  sections: Record<string, Section>;
  /** 32-bit floats in base64, or the middles of equal steps from 0 on. */
  columns: (string | { step: number; count: number })[];
  profiles: { variant: number; about: string; missing: string | null; notes: string[]; phases: ProfilePhase[] }[];
}

export interface Metric {
  name: string;
  unit: string;
  values: Column | null;
  missing: [string, number[] | null][];
}

/** The place of a column. */
export type Column = number;
/** A control, and the first and the last of its options under which something is shown. */
export type When = [number, number, number];
export type Format =
  "nanos" | "seconds" | "bytes" | "bytes_per_second" | "per_second" | "count" | "times" | "percent" | "percentile" | "plain";

/** Charts that belong together; what each part means is said in `crates/prony-report/src/plot/chart.rs`. */
export interface Section {
  controls: Control[];
  /** Empty where each variant is a series of its own. */
  series: Series[];
  legend: boolean;
  charts: Chart[];
}

export interface Series {
  name: string;
  /** `null` for the colour of text. */
  colour: number | null;
  dash: number;
  symbol: number;
  baseline: boolean;
  variants: number[];
  when?: When[];
}

export interface Control {
  label: string;
  does: "select" | "restrict" | "order" | "shift" | "shade";
  options: { text: string; group?: string; variants?: number[] }[];
  chosen: number;
}

export interface Chart {
  title: string;
  column?: string;
  phase?: string;
  caption: { text: string; variants?: number[]; shaded?: boolean }[];
  x: Axis;
  y: Axis;
  height: number;
  marks: Mark[];
  table: { heads: string[]; rows: { cells: string[]; variant: number; when?: When[] }[] };
  when?: When[];
}

export interface Axis {
  label?: string;
  format: Format;
  scale: "amount" | "time" | "times" | "log" | "between" | "lanes";
  low?: number;
  high?: number;
  lanes?: Lane[];
  lines?: { variant: number; first: number; longest: number }[];
  ticks?: [number, string][];
}

export interface Lane {
  words?: string;
  variant: number;
  rank: number | null;
  last?: boolean;
}

export interface Mark {
  kind: "line" | "area" | "dots" | "intervals" | "bars" | "bands" | "rules" | "limits" | "rings" | "ends";
  /** Nobody's, each trial's, one trial's, some variants' together, or one variant's for each point. */
  of: null | "trials" | number | number[] | { each: number[] };
  x?: Column;
  over?: { groups: Column; numbers: Column };
  x2?: Column;
  y?: Column;
  z?: Column;
  z_format?: Format;
  text?: string[];
  tip?: string;
  tips?: string[];
  stroke?: "solid" | "dashed" | "fit" | "beyond";
  when?: When[];
  shifts?: Column;
}

/** One phase of a profile; times are shares of `busy`, which is in seconds. */
export interface ProfilePhase {
  phase: string;
  overhead: string;
  amount: string;
  busy: number;
  names: { text: string; package: number | null; place: string }[];
  packages: string[];
  /** Index of the name, own and total share. */
  functions: [number, number, number][];
  more: number;
  by_package: [number, number, number][];
  /** Index of the caller or -1, index of the name, own and total share; callers first. */
  calls: [number, number, number, number][];
  left_out: number;
  smallest: number;
}

const bytesOf = (base64: string) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

/** The text that was written as DEFLATE in base64; it rejects where the browser cannot inflate. */
export async function inflated(text: string): Promise<string> {
  return new Response(new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
}

/** Little-endian 32-bit floats in base64; not a number where there is no figure. */
export function unpack(text: string): Float32Array {
  const bytes = bytesOf(text);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length >> 2 }, (_, i) => view.getFloat32(4 * i, true));
}

const unpacked = new WeakMap<Payload, Map<Column, Float32Array | number[]>>();

/** The numbers of a column; none where there is no column. */
export function numbers(data: Payload, id: Column | null | undefined): Float32Array | number[] {
  if (id === null || id === undefined) return [];
  const known = unpacked.get(data) ?? new Map<Column, Float32Array | number[]>();
  unpacked.set(data, known);
  let found = known.get(id);
  if (!found) {
    const column = data.columns[id]!;
    found = typeof column === "string" ? unpack(column) : Array.from({ length: column.count }, (_, i) => (i + 0.5) * column.step);
    known.set(id, found);
  }
  return found;
}

/** Why a trial has no value. */
export function reason(metric: Metric, trial: number): string {
  const found = metric.missing.find(([, trials]) => trials === null || trials.includes(trial));
  return found ? found[0] : "";
}

/** How a trial ended, unless it ended well: in the phase that a chart shows or elsewhere. */
export function ending({ trials }: Payload, trial: number, phase: string | undefined): string {
  const outcome = trials.outcomes[trials.outcome[trial]!]!;
  if (outcome === "ok") return "";
  return phase !== undefined && trials.phase[trial] === phase ? `${outcome} in this phase` : `the trial: ${outcome}`;
}
