// The embedded data as files.
import { numbers, type Payload, reason } from "./data.ts";
import { download, h, prose } from "./dom.ts";
import { csv } from "./format.ts";

const file = (rows: (string | number | null)[][]) => rows.map((row) => row.map(csv).join(",")).join("\r\n") + "\r\n";

/** One row per trial, one column per metric; a missing value says why. */
export function trialsCsv(data: Payload): string {
  const { trials } = data;
  const factors = data.factors;
  const heads = [
    "trial", "block", "variant", "label", ...factors.map((f) => `factor.${f.name}`), "outcome", "ended_in", "seed",
    ...data.metrics.map((m) => `${m.name} [${m.unit}]`),
  ];
  const columns = data.metrics.map((m) => numbers(data, m.values));
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
  return file([heads, ...rows]);
}

/** The timelines in the page, one row a step. */
export function timelinesCsv(data: Payload): string {
  const charts = (data.sections["timeline"]?.charts ?? []).filter((chart) => chart.column);
  const rows: (string | number | null)[][] = [["trial", "variant", "seconds", ...charts.map((chart) => chart.column!)]];
  const lines = charts.map((chart) => new Map(chart.marks.filter((m) => m.kind === "line").map((m) => [m.of as number, m])));
  const digits = (value: number | undefined) => (Number.isFinite(value) ? Number(value!.toPrecision(7)) : null);
  for (const trial of new Set(lines.flatMap((of) => [...of.keys()]))) {
    const columns = lines.map((of) => numbers(data, of.get(trial)?.y));
    const times = numbers(data, lines.find((of) => of.has(trial))!.get(trial)!.x);
    const names = [data.trials.position[trial]! + 1, data.variants[data.trials.variant[trial]!]!.name];
    times.forEach((time, i) => rows.push([...names, digits(time), ...columns.map((column) => digits(column[i]))]));
  }
  return file(rows);
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
      ...prose(
        "The data of this page as files: values to seven digits, timelines in steps. The results database has every single " +
          `sample: \`prony report ${data.run} --format csv --what series\`.`,
      ),
    ),
    h(
      "div",
      { class: "controls" },
      button("Trials (CSV)", `run-${data.run}-trials.csv`, "text/csv", () => trialsCsv(data)),
      data.sections["timeline"]
        ? button("Timelines (CSV)", `run-${data.run}-timelines.csv`, "text/csv", () => timelinesCsv(data))
        : null,
      button("Everything (JSON)", `run-${data.run}.json`, "application/json", () => json),
    ),
  );
}
