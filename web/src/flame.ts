// A flame graph that grows downwards: each call is as wide as its share of the time and stands below its caller.
import { hierarchy, type HierarchyRectangularNode, partition } from "d3-hierarchy";
import type { ProfilePhase } from "./data.ts";
import { h } from "./dom.ts";
import { quantity } from "./format.ts";

export interface Call {
  /** Index among the phase's calls; -1 for all of them together. */
  index: number;
  name: number;
  own: number;
  total: number;
  children: Call[];
}
type Placed = HierarchyRectangularNode<Call>;

/** Narrower calls are not drawn until one zooms in: a share of the shown width. */
const NARROWEST = 0.0008;

/** The calls as rectangles: across from 0 to 1, and a row for each depth. A call leaves free what it spends itself. */
export function layout(calls: ProfilePhase["calls"]): Placed {
  const all: Call = { index: -1, name: -1, own: 0, total: 1, children: [] };
  const made: Call[] = [];
  calls.forEach(([parent, name, own, total], index) => {
    const call: Call = { index, name, own, total, children: [] };
    made.push(call);
    (parent < 0 ? all : made[parent]!).children.push(call);
  });
  // Not the sum alone: of one thread, calls without a caller are left out as well, and the others are no wider for it.
  all.total = Math.max(1, all.children.reduce((sum, call) => sum + call.total, 0));
  // Each call has a width of its own; it is more than that of what it calls.
  const root = hierarchy(all).each((node) => ((node as { value?: number }).value = node.data.total));
  root.sort((a, b) => b.data.total - a.data.total || a.data.index - b.data.index);
  return partition<Call>().size([1, root.height + 1])(root);
}

/** Where a call lies when another fills the width; null where it is out of sight. */
export function across(call: Placed, zoomed: Placed): { left: number; width: number } | null {
  const scale = 1 / (zoomed.x1 - zoomed.x0);
  const left = Math.max(0, (call.x0 - zoomed.x0) * scale);
  const width = Math.min(1, (call.x1 - zoomed.x0) * scale) - left;
  return width < NARROWEST ? null : { left, width };
}

export const percent = (share: number) => quantity(100 * share, "percent");

/** What is said of a call. */
export function sentence(phase: ProfilePhase, call: Call): string {
  const { text, place, packed } = named(phase, call);
  const from = [place, packed].filter((part) => part !== "").join(", ");
  return `${text}${from ? ` (${from})` : ""}: ${percent(call.total)} total, ${percent(call.own)} self`;
}

export function named(phase: ProfilePhase, call: Call): { text: string; place: string; packed: string } {
  const name = phase.names[call.name];
  if (!name) return { text: "everything", place: "", packed: "" };
  return { text: name.text, place: name.place, packed: name.package === null ? "" : phase.packages[name.package]! };
}

/** The colour of a package; those with more time come first. */
export function colour(phase: ProfilePhase, name: number): string {
  const of = phase.names[name]?.package ?? null;
  const rank = of === null ? -1 : phase.by_package.findIndex(([which]) => which === of);
  return rank < 0 ? "var(--panel)" : `color-mix(in srgb, var(--c${rank % 7}) ${rank < 7 ? 38 : 20}%, var(--card))`;
}

/** The picture: a tree that is walked with the arrow keys; Enter fills the width with a call, Escape shows all. */
export function flame(phase: ProfilePhase): HTMLElement {
  const root = layout(phase.calls);
  const nodes = root.descendants();
  const details = h("p", { class: "fine flame-said", "aria-hidden": "true" });
  const tree = h("div", { class: "flame", role: "tree", "aria-label": "Flame graph: calls below their callers" });
  const elements = new Map<Placed, HTMLElement>();
  let zoomed = root;
  let current = root;

  const say = (node: Placed) => (details.textContent = sentence(phase, node.data));
  const focus = (node: Placed | null | undefined) => {
    const element = node && elements.get(node);
    if (!node || !element) return;
    elements.get(current)?.setAttribute("tabindex", "-1");
    current = node;
    element.setAttribute("tabindex", "0");
    element.focus();
  };
  const zoom = (node: Placed) => {
    zoomed = node;
    draw();
    focus(node);
  };
  const beside = (node: Placed, step: number) => {
    const row = (node.parent?.children ?? []).filter((other) => elements.has(other));
    return row[row.indexOf(node) + step];
  };
  const make = (node: Placed, place: { left: number; width: number }) => {
    const element = h(
      "div",
      { role: "treeitem", "aria-level": String(node.depth + 1), "aria-label": sentence(phase, node.data), tabindex: "-1" },
      h("span", {}, named(phase, node.data).text),
    );
    const { style } = element;
    [style.left, style.width] = [`${100 * place.left}%`, `${100 * place.width}%`];
    style.top = `${node.depth * 1.35}rem`;
    style.background = colour(phase, node.data.name);
    element.classList.toggle("around", node.depth < zoomed.depth);
    element.addEventListener("click", () => zoom(node));
    element.addEventListener("pointerenter", () => say(node));
    element.addEventListener("focus", () => say(node));
    elements.set(node, element);
    return element;
  };
  const draw = () => {
    elements.clear();
    const shown = nodes.flatMap((node) => {
      const place = across(node, zoomed);
      return place ? [make(node, place)] : [];
    });
    const deepest = Math.max(...[...elements.keys()].map((node) => node.depth));
    tree.style.height = `${(deepest + 1) * 1.35}rem`;
    tree.replaceChildren(...shown);
    (elements.get(current) ?? elements.get(zoomed))?.setAttribute("tabindex", "0");
  };
  tree.addEventListener("keydown", (event) => {
    const acts: Record<string, () => void> = {
      ArrowDown: () => focus(current.children?.find((child) => elements.has(child))),
      ArrowUp: () => focus(current.parent),
      ArrowRight: () => focus(beside(current, 1)),
      ArrowLeft: () => focus(beside(current, -1)),
      Enter: () => zoom(current),
      " ": () => zoom(current),
      Escape: () => zoom(root),
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  draw();
  say(root);
  return h("div", { class: "flame-frame" }, details, tree);
}
