// Creates HTML elements; strings are always inserted as text, never as markup.

type Child = Node | string | null;

/** An element with attributes and children. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((c): c is Node | string => c !== null));
  return element;
}

/** A text of which what is between backticks is code. */
export function prose(text: string): Child[] {
  return text.split("`").map((part, at) => (at % 2 === 1 ? h("code", {}, part) : part));
}

/** A labelled choice, where there is more than one option; `change` gets the chosen value. */
export function choice(
  label: string,
  options: { value: string; text: string; group?: string }[],
  chosen: string,
  change: (value: string) => void,
): HTMLElement | null {
  if (options.length < 2) return null;
  const select = h("select");
  const groups = new Map<string, HTMLElement>();
  for (const { value, text, group } of options) {
    const option = h("option", { value, selected: value === chosen }, text);
    if (group === undefined) {
      select.append(option);
      continue;
    }
    let parent = groups.get(group);
    if (!parent) {
      parent = h("optgroup", { label: group });
      groups.set(group, parent);
      select.append(parent);
    }
    parent.append(option);
  }
  select.addEventListener("change", () => change(select.value));
  return h("label", { class: "choice" }, h("span", {}, label), select);
}

/** Says something to those who do not see the page. */
export function announce(text: string): void {
  let region = document.getElementById("status");
  if (!region) {
    region = h("div", { id: "status", role: "status", "aria-live": "polite", class: "hidden" });
    document.body.append(region);
  }
  region.textContent = text;
}

/** Offers a text as a file. */
export function download(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Copies a text; pages opened from a file may have no clipboard, so there is a second way. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h("textarea", { class: "hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

/** A button that copies, and says that it did. */
export function copyButton(label: string, text: () => string): HTMLButtonElement {
  const button = h("button", { type: "button", class: "copy" }, label);
  button.addEventListener("click", async () => {
    const said = (await copy(text())) ? "Copied" : "Could not copy";
    button.textContent = said;
    announce(said);
    setTimeout(() => (button.textContent = label), 2000);
  });
  return button;
}
