// How variants look: colours of Okabe and Ito with marks and dashes beside them, never colour alone.
import type { Payload } from "./data.ts";

const DASHES = ["", "7 3", "2 3", "9 3 2 3", "14 4"];
const SYMBOLS = ["circle", "triangle", "square", "diamond", "star", "cross", "wye"] as const;

export interface Look {
  colour: string;
  dash: string;
  symbol: (typeof SYMBOLS)[number];
}

/** The look of each variant: baselines in the text's colour, the others by turns. */
export function looks(data: Pick<Payload, "variants">): Look[] {
  let next = 0;
  let baselines = 0;
  return data.variants.map(({ baseline }) => {
    if (baseline) {
      const at = baselines++;
      return { colour: "var(--base)", dash: DASHES[at % DASHES.length]!, symbol: SYMBOLS[at % SYMBOLS.length]! };
    }
    const at = next++;
    return {
      colour: `var(--c${at % 7})`,
      dash: DASHES[(at + Math.floor(at / 7) + 1) % DASHES.length]!,
      symbol: SYMBOLS[(at + Math.floor(at / 7) + 1) % SYMBOLS.length]!,
    };
  });
}
