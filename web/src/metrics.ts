// Choosing a metric.
import type { Metric, Payload } from "./data.ts";
import { choice } from "./dom.ts";

/** What to show first: the primary metric, else a time, else anything. */
export function first(data: Payload, candidates: Metric[]): Metric | undefined {
  return (
    candidates.find((m) => m.name === data.declared[0]) ??
    candidates.find((m) => m.name.endsWith(".time")) ??
    candidates[0]
  );
}

/** A choice among metrics, by phase. */
export function metricChoice(candidates: Metric[], chosen: Metric, change: (metric: Metric) => void): HTMLElement {
  const options = candidates.map((metric) => {
    const group = metric.name.slice(0, Math.max(0, metric.name.indexOf(".")));
    return { value: metric.name, text: metric.name, group };
  });
  return choice("Figure", options, chosen.name, (name) => {
    const found = candidates.find((m) => m.name === name);
    if (found) change(found);
  });
}
