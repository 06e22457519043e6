// Chooses the tick values of a logarithmic axis.

const SETS = [
  [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8],
  [1, 1.5, 2, 3, 5, 7],
  [1, 2, 5],
  [1, 3],
  [1],
];

/** At most `most` round values from `low` to `high` (both above zero), as evenly as round values allow. */
export function logTicks(low: number, high: number, most: number): number[] {
  if (!(low > 0) || !(high > low)) return [];
  if (high / low < 2.2) return linearTicks(low, high, most);
  // Two marks far apart are better than those of a linear axis, which all lie at the upper end.
  for (const least of [Math.min(3, most), 2]) {
    for (const set of SETS) {
      const found = within(set, low, high);
      if (found.length <= most && found.length >= least) return found;
    }
  }
  const decades = within([1], low, high);
  if (decades.length <= most) return linearTicks(low, high, most);
  const each = Math.ceil(decades.length / most);
  return decades.filter((_, i) => i % each === 0);
}

function within(set: number[], low: number, high: number): number[] {
  const found: number[] = [];
  for (let decade = Math.floor(Math.log10(low)); decade <= Math.ceil(Math.log10(high)); decade++) {
    for (const factor of set) {
      const value = Number(`${factor}e${decade}`);
      if (value >= low && value <= high) found.push(value);
    }
  }
  return found;
}

/** At most `most` multiples of 1, 2, 2.5 or 5 times a power of ten, of no more digits than are shown: labels differ. */
export function linearTicks(low: number, high: number, most: number): number[] {
  const rough = (high - low) / Math.max(1, most);
  const power = Math.floor(Math.log10(rough));
  const candidates = [1, 2, 2.5, 5, 10, 20, 50, 100].map((n) => Number(`${n}e${power}`));
  for (const step of candidates) {
    const first = Math.ceil(low / step);
    const last = Math.floor(high / step);
    if (last - first + 1 > most) continue;
    const ticks = Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
    if (ticks.every((tick) => Number(tick.toPrecision(3)) === tick)) return ticks;
  }
  return [];
}
