// Theme, navigation, filters.
import { copyButton, h } from "./dom.ts";
import type { State } from "./state.ts";

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

/** A button that goes through the system's theme, light and dark. */
export function theme(): void {
  const button = document.getElementById("theme");
  if (!button) return;
  let now: Theme = "system";
  const show = () => {
    if (now === "system") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = now;
    button.textContent = `Theme: ${now}`;
  };
  button.hidden = false;
  button.addEventListener("click", () => {
    now = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]!;
    show();
  });
  show();
}

/** Links to the sections that are there. */
export function navigation(): void {
  const nav = document.getElementById("nav");
  if (!nav) return;
  for (const section of document.querySelectorAll<HTMLElement>("main > section")) {
    const heading = section.querySelector("h2")?.textContent;
    if (!section.hidden && heading) nav.append(h("a", { href: `#${section.id}` }, heading));
  }
}

/** Opens the folded verdicts, and filters that leave something out: paper has no pointer. */
export function unfold(): void {
  for (const inside of document.querySelectorAll("details.more, .filters input:not(:checked)")) inside.closest("details")!.open = true;
}

/** A button beside the experiment's text. */
export function source(): void {
  const code = document.getElementById("source");
  code?.closest("pre")?.before(copyButton("Copy the experiment", () => code.textContent ?? ""));
}

/** Check boxes for the levels of each factor that varies. */
export function filters(state: State): void {
  const varying = state.data.factors.map((f, i) => ({ ...f, i })).filter((f) => f.varies);
  const before = document.getElementById("effects");
  if (varying.length === 0 || !before) return;
  const group = (factor: (typeof varying)[number]) => {
    const boxes = factor.levels.map((label, level) => {
      const box = h("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => state.set(factor.i, level, box.checked));
      return h("label", {}, box, h("span", {}, label));
    });
    return h("fieldset", {}, h("legend", {}, factor.name), ...boxes);
  };
  before.before(
    h(
      "details",
      { class: "filters" },
      h("summary", {}, "Filter what the charts show"),
      h("div", { class: "boxes" }, ...varying.map(group)),
    ),
  );
}

