// Axes whose every mark is labelled: Plot leaves out labels of logarithmic axes that it thinks too near.
import * as Plot from "@observablehq/plot";

const grid = { stroke: "var(--fg)", strokeOpacity: 0.12 };

/** A horizontal axis with these marks, and the grid above it. The scale itself has `axis: null`. */
export function horizontal(ticks: number[], show: (value: number) => string, label: string | null): Plot.Markish[] {
  return [
    Plot.gridX(ticks, grid),
    Plot.axisX(ticks, { text: (v: number) => show(v), label: null, anchor: "bottom" }),
    label === null
      ? null
      : Plot.text([label], { text: (t: string) => t, frameAnchor: "bottom-right", dy: 36, fill: "var(--soft)" }),
  ];
}

/** A vertical axis with these marks, and its grid. The scale itself has `axis: null`. */
export function vertical(ticks: number[], show: (value: number) => string): Plot.Markish[] {
  return [Plot.gridY(ticks, grid), Plot.axisY(ticks, { text: (v: number) => show(v), label: null, anchor: "left" })];
}
