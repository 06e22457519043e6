// The report's page: figures drawn from the embedded data, tables that sort, files to download.
import { drawAll } from "./chart.ts";
import type { Payload } from "./data.ts";
import { visible } from "./format.ts";
import { filters, navigation, source, theme, unfold } from "./page.ts";
import { profiles } from "./profiles.ts";
import { raw } from "./raw.ts";
import { charts } from "./scene.ts";
import { State } from "./state.ts";
import { tables } from "./tables.ts";

const json = document.getElementById("data")?.textContent ?? "{}";
// Characters that turn text around or hide in it are spelled out on the page; the download keeps them.
const data = JSON.parse(json, (_, value: unknown) => (typeof value === "string" ? visible(value) : value)) as Payload;
const state = new State(data);

theme();
tables();
for (const id of Object.keys(data.sections)) charts(id, state);
profiles(state);
filters(state);
source();
raw(data, json);
navigation();
addEventListener("beforeprint", () => {
  drawAll();
  unfold();
});
