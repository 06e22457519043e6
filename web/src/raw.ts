// The embedded data as files.
import { type Payload, reason, unpack, values } from "./data.ts";
import { download, h } from "./dom.ts";
import { csv } from "./format.ts";

/** One row a trial, one column a figure; a figure that is missing says why. */
export function trialsCsv(data: Payload): string {
  const { trials } = data;
  const factors = data.factors;
  const heads = [
    "trial", "block", "variant", "label", ...factors.map((f) => f.name), "outcome", "ended_in", "seed",
    ...data.metrics.map((m) => `${m.name} [${m.unit}]`),
  ];
  const columns = data.metrics.map((m) => values(m));
  const rows = trials.variant.map((variant, i) => [
    trials.position[i]! + 1,
    trials.block[i]! + 1,
    data.variants[variant]!.name,
    trials.second[i] ? "A2" : "A",
    ...factors.map((f, at) => f.levels[data.variants[variant]!.levels[at]!]!),
    trials.outcomes[trials.outcome[i]!]!,
    trials.phase[i] ?? "",
    trials.seed[i]!,
    ...data.metrics.map((m, at) => {
      const value = columns[at]![i];
      // Seven digits are kept; more would be invented by the conversion to 64 bits.
      return value !== undefined && Number.isFinite(value) ? Number(value.toPrecision(7)) : `missing: ${reason(m, i)}`;
    }),
  ]);
  return [heads, ...rows].map((row) => row.map(csv).join(",")).join("\r\n") + "\r\n";
}

/** The timelines in the page, one row a step. */
export function timelinesCsv(data: Payload): string {
  const { quantities, trials } = data.timelines;
  const heads = ["trial", "variant", "seconds", ...quantities.map(([name, , unit]) => `${name} [${unit}]`)];
  const rows: (string | number | null)[][] = [heads];
  for (const of of trials) {
    const columns = of.values.map((v) => (v === null ? null : unpack(v)));
    const length = Math.max(...columns.map((c) => c?.length ?? 0));
    for (let i = 0; i < length; i++) {
      const cells = columns.map((c) => (c && Number.isFinite(c[i]!) ? Number(c[i]!.toPrecision(7)) : null));
      const at = Number(((i + 0.5) * of.step).toPrecision(7));
      rows.push([data.trials.position[of.trial]! + 1, data.variants[data.trials.variant[of.trial]!]!.name, at, ...cells]);
    }
  }
  return rows.map((row) => row.map(csv).join(",")).join("\r\n") + "\r\n";
}

export function raw(data: Payload, json: string): void {
  const body = document.querySelector("#raw .body");
  if (!body) return;
  const button = (label: string, name: string, type: string, text: () => string) => {
    const element = h("button", { type: "button" }, label);
    element.addEventListener("click", () => download(name, type, text()));
    return element;
  };
  body.append(
    h(
      "p",
      { class: "fine" },
      "What this page holds, as files: figures to seven digits, timelines in steps. Every sample as it was taken is in " +
        `the results database: \`prony report ${data.run} --format csv --what series\`.`.replaceAll("`", ""),
    ),
    h(
      "div",
      { class: "controls" },
      button("Trials (CSV)", `run-${data.run}-trials.csv`, "text/csv", () => trialsCsv(data)),
      data.timelines.trials.length
        ? button("Timelines (CSV)", `run-${data.run}-timelines.csv`, "text/csv", () => timelinesCsv(data))
        : null,
      button("Everything (JSON)", `run-${data.run}.json`, "application/json", () => json),
    ),
  );
}
