// The report's page: charts drawn from the embedded data, tables that can be sorted, files to download.
import { drawAll, drawNear } from "./chart.ts";
import { inflated, type Payload } from "./data.ts";
import { h } from "./dom.ts";
import { visible } from "./format.ts";
import { filters, navigation, source, theme, unfold } from "./page.ts";
import { profiles } from "./profiles.ts";
import { raw } from "./raw.ts";
import { charts } from "./scene.ts";
import { State } from "./state.ts";
import { tables } from "./tables.ts";

/** Draws what the data describe. */
function show(json: string): void {
  // Characters that turn text around or hide in it are spelled out on the page; the download keeps them.
  const data = JSON.parse(json, (_, value: unknown) => (typeof value === "string" ? visible(value) : value)) as Payload;
  const state = new State(data);
  for (const id of Object.keys(data.sections)) charts(id, state);
  profiles(state);
  filters(state);
  raw(data, json);
  drawNear();
}

theme();
tables();
source();
addEventListener("beforeprint", () => {
  drawAll();
  unfold();
});
inflated(document.getElementById("data")?.textContent ?? "")
  .then(show)
  .catch((error: unknown) => {
    const note = h("p", { class: "note", role: "alert" }, `This browser cannot draw the charts: ${String(error)}`);
    document.getElementById("findings")?.before(note);
    throw error;
  })
  .finally(navigation);
