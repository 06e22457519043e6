// The page's data, as `crates/prony-report/src/html/payload.rs` writes it.

export type Unit = "nanos" | "bytes" | "count" | "per_second" | "ratio";

export interface Payload {
  title: string;
  run: number;
  margin: number;
  factors: { name: string; levels: string[]; numbers: number[] | null; varies: boolean }[];
  variants: { name: string; levels: number[]; baseline: boolean; stratum: number }[];
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
  declared: string[];
  metrics: Metric[];
  /** The figure that the limit on memory speaks of. */
  limited: string | null;
  growth: { factor: number; series: [string, number[]][]; fits: Record<string, (Fit | null)[]> }[];
  timelines: {
    quantities: [string, string, string][];
    trials: { trial: number; step: number; samples: number; phases: Phase[]; values: (string | null)[] }[];
    left_out: number;
  };
  throughput: { trial: number; phase: string; step: number; rates: string }[];
  latency: { shares: number[]; curves: LatencyCurve[] };
  samples: Samples[];
  profiles: { variant: number; about: string; missing: string | null; notes: string[]; phases: ProfilePhase[] }[];
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

export interface Metric {
  name: string;
  unit: Unit;
  better: "lower" | "higher" | "neither";
  doc: string;
  values: string | null;
  missing: [string, number[] | null][];
  effects: { relative: boolean; declared: boolean; rows: EffectRow[] } | null;
}

export interface EffectRow {
  variant: number;
  baseline: number | null;
  /** A baseline beside itself: its second label divided by its first. */
  itself: boolean;
  center: number | null;
  low: number | null;
  high: number | null;
  words: string | null;
  aa: [number | null, number | null, number | null] | null;
}

export interface Fit {
  slope: number;
  interval: [number, number];
  scale: number;
  last: number;
  /** Trials of the series, and those of them without a figure, which are not in the fit. */
  trials: number;
  without: number;
  /** The limit on memory, bytes, where the figure is what it holds down. */
  limit: number | null;
  /** Where the line would meet it: extrapolated, not measured. */
  reach: { x: number; low: number; high: number | null; beyond: number } | null;
}

export interface Phase {
  name: string;
  begin: number;
  end: number;
  timed: boolean;
}

export interface LatencyCurve {
  variant: number;
  phase: string;
  operation: string;
  kind: "service" | "intended" | "actual";
  succeeded: number;
  failed: number;
  nanos: number[];
}

export interface Samples {
  phase: string;
  clock: "wall" | "cpu";
  operations: number;
  relative: boolean;
  panels: {
    name: string;
    bins: { low: number; high: number; count: number };
    curves: { variant: number; groups: number; median: number; below: number; shares: number[]; above: number }[];
  }[];
}

/** Little-endian 32-bit floats in base64; not a number where there is no figure. */
export function unpack(text: string): Float32Array {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length >> 2 }, (_, i) => view.getFloat32(4 * i, true));
}

const unpacked = new WeakMap<object, Float32Array>();

/** The metric's figure in each trial. */
export function values(metric: Metric): Float32Array {
  let found = unpacked.get(metric);
  if (!found) {
    found = metric.values === null ? new Float32Array() : unpack(metric.values);
    unpacked.set(metric, found);
  }
  return found;
}

/** Why a trial has no figure. */
export function reason(metric: Metric, trial: number): string {
  const found = metric.missing.find(([, trials]) => trials === null || trials.includes(trial));
  return found ? found[0] : "";
}

/**
 * A trial's figures divided by the geometric mean of its sub-block's baselines; of a baseline beside itself, those of
 * its second label divided by those of its first.
 */
export function ratios(data: Payload, metric: Metric, row: EffectRow): { trial: number; value: number }[] {
  const all = values(metric);
  const { block, sub_block, variant, second } = data.trials;
  const place = (i: number) => `${block[i]} ${sub_block[i]}`;
  const logs = new Map<string, number[]>();
  for (let i = 0; i < all.length; i++) {
    const value = all[i] ?? NaN;
    if (variant[i] !== row.baseline || !(value > 0) || (row.itself && second[i] === 1)) continue;
    const of = logs.get(place(i)) ?? [];
    of.push(Math.log(value));
    logs.set(place(i), of);
  }
  const found: { trial: number; value: number }[] = [];
  for (let i = 0; i < all.length; i++) {
    const value = all[i] ?? NaN;
    const base = logs.get(place(i));
    if (variant[i] !== row.variant || !(value > 0) || !base || (row.itself && second[i] !== 1)) continue;
    found.push({ trial: i, value: value / Math.exp(base.reduce((a, b) => a + b, 0) / base.length) });
  }
  return found;
}

/** The middle value, or the mean of the two middle ones. */
export function median(numbers: number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}
