// How variants look: colours of Okabe and Ito with marks and dashes beside them, never colour alone.
import type { Payload } from "./data.ts";

const COLOURS = 7;
const DASHES = ["", "9 4", "3 3", "12 3 3 3", "18 5"];
const SYMBOLS = ["circle", "triangle", "square", "diamond", "star", "cross", "wye"] as const;

export interface Look {
  colour: string;
  dash: string;
  symbol: (typeof SYMBOLS)[number];
}

/**
 * The look of each variant. The colour tells the levels of one factor apart: of those in which variants are compared,
 * the one with the most levels that colours suffice for; dashes and marks tell apart what shares a colour. The level of the baselines has
 * the text's colour.
 */
export function looks(data: Pick<Payload, "variants" | "factors">): Look[] {
  const { variants, factors } = data;
  const used = (factor: number) => [...new Set(variants.map((v) => v.levels[factor]!))];
  const varying = factors.map((f, i) => ({ i, levels: f.varies ? used(i) : [] }));
  const suited = varying.filter((f) => f.levels.length > 1 && f.levels.length <= COLOURS + 1);
  const compared = (factor: number) =>
    variants.some((a) => variants.some((b) => a.stratum === b.stratum && a.levels[factor] !== b.levels[factor]));
  suited.sort((a, b) => Number(compared(b.i)) - Number(compared(a.i)) || b.levels.length - a.levels.length);
  const of = suited[0];
  const bases = of ? new Set(variants.filter((v) => v.baseline).map((v) => v.levels[of.i])) : new Set();
  const baseLevel = bases.size === 1 ? [...bases][0] : undefined;
  const coloured = (of?.levels ?? []).filter((l) => l !== baseLevel).sort((a, b) => a - b);
  const seen = new Map<string, number>();
  return variants.map((variant, i) => {
    const level = of ? variant.levels[of.i]! : i;
    const at = of ? coloured.indexOf(level) : i;
    const base = of ? level === baseLevel : variant.baseline;
    const colour = base ? "var(--base)" : `var(--c${at % COLOURS})`;
    const nth = seen.get(colour) ?? 0;
    seen.set(colour, nth + 1);
    const mark = of ? (at + 1 + nth) % SYMBOLS.length : i % SYMBOLS.length;
    return { colour, dash: DASHES[nth % DASHES.length]!, symbol: SYMBOLS[mark]! };
  });
}
