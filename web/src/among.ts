// Many variants make a figure unreadable: then it begins with those of one stratum, which are compared with each other.
import { choice } from "./dom.ts";
import type { State } from "./state.ts";

const READABLE = 6;

export interface Among {
  /** The choice of a stratum, where there is one to make. */
  control(redraw: () => void): HTMLElement | null;
  /** Whether the variant is shown, by this choice and by the filters. */
  shows(variant: number): boolean;
}

/** A choice of strata among these variants. */
export function among(state: State, variants: number[]): Among {
  const { data } = state;
  const strata = new Map<number, number[]>();
  for (const variant of [...variants].sort((a, b) => a - b)) {
    const { stratum } = data.variants[variant]!;
    strata.set(stratum, [...(strata.get(stratum) ?? []), variant]);
  }
  const choose = variants.length > READABLE && strata.size > 1;
  const keys = [...strata.keys()];
  const numeric = data.factors.some((f, i) => f.numbers !== null && shared(i));
  // The largest size is the most telling.
  const full = keys.filter((k) => strata.get(k)!.length > 1);
  let chosen: number | null = choose ? ((numeric ? full[full.length - 1] : full[0]) ?? keys[0]!) : null;

  /** Whether a factor is the same within each stratum. */
  function shared(factor: number): boolean {
    return [...strata.values()].every((of) => new Set(of.map((v) => data.variants[v]!.levels[factor])).size === 1);
  }
  const label = (stratum: number) => {
    const variant = data.variants[strata.get(stratum)![0]!]!;
    const parts = data.factors.flatMap((f, i) => (f.varies && shared(i) ? [`${f.name}=${f.levels[variant.levels[i]!]}`] : []));
    return parts.join(", ") || `stratum ${stratum + 1}`;
  };
  return {
    control: (redraw) =>
      choose
        ? choice(
            "Among",
            [...keys.map((k) => ({ value: String(k), text: label(k) })), { value: "", text: "all variants" }],
            String(chosen),
            (value) => ((chosen = value === "" ? null : Number(value)), redraw()),
          )
        : null,
    shows: (variant) => state.shows(variant) && (chosen === null || data.variants[variant]!.stratum === chosen),
  };
}
