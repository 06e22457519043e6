// A chart on the page: drawn when it is scrolled near, redrawn when its width changes, with a table of the same values.
import { h, prose } from "./dom.ts";
import type { Series } from "./data.ts";
import { colour, dash } from "./draw.ts";
import type { State } from "./state.ts";

export interface Figure {
  title: string;
  /** One sentence: what is drawn, and what was left out. */
  caption: string;
  /** What it shows in words, for those who do not see it. */
  alternative: string;
  draw(width: number): Element;
  table(): { heads: string[]; rows: string[][] };
}

/** How far below and above the window figures are drawn, pixels. */
const MARGIN = 400;
const pending = new Map<Element, () => void>();
const observer =
  typeof IntersectionObserver === "undefined"
    ? null
    : new IntersectionObserver(
        (entries) => {
          for (const entry of entries) if (entry.isIntersecting) flush(entry.target);
        },
        { rootMargin: `${MARGIN}px` },
      );

function flush(target: Element): void {
  const draw = pending.get(target);
  pending.delete(target);
  observer?.unobserve(target);
  draw?.();
}

/** Draws what is near the window now: an observer answers with the next frame, and a screenshot of the page may have no more. */
export function drawNear(): void {
  for (const target of [...pending.keys()]) {
    const { top, bottom } = target.getBoundingClientRect();
    if (top < innerHeight + MARGIN && bottom > -MARGIN) flush(target);
  }
}

/** Draws whatever was not near yet: a printed page has everything. */
export function drawAll(): void {
  for (const target of [...pending.keys()]) flush(target);
}

/** The figure's element. */
export function figure(chart: Figure): HTMLElement {
  const canvas = h("div", { class: "canvas", role: "img", "aria-label": `${chart.title}. ${chart.alternative}` });
  const rows = h("div", { class: "scroll" });
  const details = h("details", { class: "alternative" }, h("summary", {}, "As a table"), rows);
  details.addEventListener("toggle", () => {
    if (details.open && !rows.hasChildNodes()) rows.append(plainTable(chart));
  });
  const element = h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("h3", {}, chart.title), h("p", { class: "fine" }, ...prose(chart.caption))),
    canvas,
    details,
  );
  let width = 0;
  const draw = () => {
    const now = Math.floor(canvas.clientWidth);
    if (now === 0 || now === width) return;
    width = now;
    canvas.replaceChildren(chart.draw(now));
  };
  const whenNear = () => {
    draw();
    new ResizeObserver(draw).observe(canvas);
  };
  if (observer) {
    pending.set(canvas, whenNear);
    observer.observe(canvas);
  } else {
    requestAnimationFrame(whenNear);
  }
  return element;
}

function plainTable(chart: Figure): HTMLElement {
  const { heads, rows } = chart.table();
  return h(
    "table",
    {},
    h("thead", {}, h("tr", {}, ...heads.map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map((cell) => h("td", {}, cell))))),
  );
}

const SVG = "http://www.w3.org/2000/svg";

/** The names of series with their colour and dash. */
export function legend(all: Series[]): HTMLElement {
  const item = (series: Series) => {
    const swatch = document.createElementNS(SVG, "svg");
    swatch.setAttribute("width", "34");
    swatch.setAttribute("height", "12");
    swatch.setAttribute("aria-hidden", "true");
    const line = document.createElementNS(SVG, "line");
    const at = { x1: "1", x2: "33", y1: "6", y2: "6", "stroke-width": "2.5", "stroke-dasharray": dash(series) };
    for (const [name, value] of Object.entries(at)) line.setAttribute(name, value);
    line.setAttribute("style", `stroke:${colour(series)}`);
    swatch.append(line);
    return h("li", {}, swatch, h("span", {}, series.name + (series.baseline ? " (baseline)" : "")));
  };
  return h("ul", { class: "legend", "aria-label": "Series" }, ...all.map(item));
}

/** A section's controls and what is drawn below them; `content` runs again whenever something changes. */
export function section(
  id: string,
  state: State,
  controls: (redraw: () => void) => (HTMLElement | null)[],
  content: () => HTMLElement[],
): void {
  const root = document.getElementById(id);
  const body = root?.querySelector<HTMLElement>(".body");
  if (!root || !body) return;
  root.hidden = false;
  const below = h("div");
  const redraw = () => {
    for (const canvas of below.querySelectorAll(".canvas")) pending.delete(canvas);
    const found = content();
    below.replaceChildren(...(found.length ? found : [h("p", {}, "Nothing to show with these filters.")]));
  };
  const shown = controls(redraw).filter((c): c is HTMLElement => c !== null);
  if (shown.length) body.append(h("div", { class: "controls" }, ...shown));
  body.append(below);
  redraw();
  state.changed(redraw);
}
