// The profiles on the page: for each profiled variant and phase its functions, packages and flame graph.
import { section } from "./chart.ts";
import type { Payload, ProfilePhase } from "./data.ts";
import { choice, h } from "./dom.ts";
import { colour, flame, percent } from "./flame.ts";
import { seconds } from "./format.ts";
import type { State } from "./state.ts";

type Profile = Payload["profiles"][number];

export function profiles(state: State): void {
  const all = state.data.profiles;
  if (all.length === 0) return;
  let variant = (all.find((p) => p.phases.length > 0) ?? all[0]!).variant;
  const phases = [...new Set(all.flatMap((p) => p.phases.map((of) => of.phase)))];
  let phase = longest(all.find((p) => p.variant === variant)!) ?? "";
  section(
    "profiles",
    state,
    (redraw) => {
      const variants = all.map((p) => ({ value: String(p.variant), text: state.name(p.variant) }));
      const names = phases.map((name) => ({ value: name, text: name }));
      return [
        choice("Variant", variants, String(variant), (value) => ((variant = Number(value)), redraw())),
        choice("Phase", names, phase, (value) => ((phase = value), redraw())),
      ];
    },
    () => {
      const shown = all.find((p) => p.variant === variant);
      return shown && state.shows(variant) ? [about(shown), ...content(shown, phase)] : [];
    },
  );
}

/** The phase in which the most time was sampled. */
function longest(profile: Profile): string | undefined {
  return [...profile.phases].sort((a, b) => b.busy - a.busy)[0]?.phase;
}

function about(profile: Profile): HTMLElement {
  const text = profile.missing === null ? `${profile.about}.` : `There is no profile: ${profile.missing}.`;
  const notes = profile.notes.map((note) => h("li", {}, note));
  const extra = "One extra trial was profiled; nothing else on this page includes that trial.";
  return h("div", { class: "fine" }, h("p", {}, `${text} ${profile.missing === null ? extra : ""}`), notes.length ? h("ul", {}, ...notes) : null);
}

function content(profile: Profile, name: string): HTMLElement[] {
  const phase = profile.phases.find((of) => of.phase === name);
  if (!phase) return profile.missing === null ? [h("p", {}, `The profiled trial has no phase ${name}.`)] : [];
  const head = h("div", {}, h("h3", {}, phase.phase), h("p", { class: "fine" }, `${phase.overhead}. ${phase.amount}.`));
  if (phase.calls.length === 0) return [head];
  return [head, picture(phase), functions(phase), packages(phase)];
}

function picture(phase: ProfilePhase): HTMLElement {
  const least = percent(phase.smallest);
  const left = phase.left_out === 0 ? "" : ` ${phase.left_out} calls below ${least} or very deep are left out; their time is part of their callers' time, or blank where they have no caller.`;
  const caption =
    `The width of a function call is its share of ${seconds(phase.busy)}; the calls that it made are below it. Click a call, or press ` +
    `Enter, to zoom in; press Escape to show all calls; the arrow keys move between calls.${left}`;
  return h("figure", {}, h("figcaption", {}, h("p", { class: "fine" }, caption)), flame(phase));
}

function functions(phase: ProfilePhase): HTMLElement {
  const rows = phase.functions.map(([name, own, total]) => {
    const { text, place, package: of } = phase.names[name]!;
    return [own, total, text, place, of === null ? "" : phase.packages[of]!] as const;
  });
  const more = phase.more === 0 ? "" : ` ${phase.more} more functions have less.`;
  return table(phase, "profile-functions", `Functions by self time (without the functions that they call).${more}`, ["Function", "Place", "Package"], rows);
}

function packages(phase: ProfilePhase): HTMLElement {
  const rows = phase.by_package.map(([of, own, total]) => [own, total, phase.packages[of]!] as const);
  return table(phase, "profile-packages", "Packages.", ["Package"], rows, (row) => {
    const name = phase.names.findIndex((n) => n.package === phase.by_package[row]![0]);
    return colour(phase, name);
  });
}

function table(
  phase: ProfilePhase,
  kind: string,
  caption: string,
  heads: string[],
  rows: (readonly [number, number, ...string[]])[],
  swatch?: (row: number) => string,
): HTMLElement {
  const number = (text: string) => h("th", { scope: "col", class: "number" }, text);
  const time = (share: number) => [
    h("td", { class: "number" }, seconds(share * phase.busy)),
    h("td", { class: "number" }, percent(share)),
  ];
  const row = ([own, total, ...texts]: (typeof rows)[number], at: number) => {
    const cells = texts.map((text) => h("td", {}, text));
    if (swatch && cells[0]) cells[0].style.boxShadow = `inset 0.5rem 0 ${swatch(at)}`;
    return h("tr", {}, ...time(own), ...time(total), ...cells);
  };
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      { class: kind },
      h("caption", { class: "fine" }, h("span", {}, caption)),
      h("thead", {}, h("tr", {}, number("Self"), number(""), number("Total"), number(""), ...heads.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, ...rows.map(row)),
    ),
  );
}
