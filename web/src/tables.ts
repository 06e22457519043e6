// Makes the tables of the page sortable, and adds buttons that copy them as Markdown.
import { announce, copyButton, h } from "./dom.ts";
import { markdown } from "./format.ts";

/** Adds sorting and copying to every table of results. */
export function tables(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>("table.sortable")) {
    sortable(table);
    const holder = table.closest("figure");
    holder?.querySelector("h3")?.after(copyButton("Copy as Markdown", () => toMarkdown(table)));
  }
}

/** The marks of footnotes in a cell: `1, 2`. */
const marksOf = (cell: Element) => [...cell.querySelectorAll("sup")].map((mark) => mark.textContent ?? "").join(", ");

/** The text of a cell without the marks of its footnotes, which are numbers too. */
function textOf(cell: Element): string {
  const own = cell.cloneNode(true) as Element;
  own.querySelectorAll("sup").forEach((mark) => mark.remove());
  return (own.textContent ?? "").trim();
}

/** The key of a cell: its number where it has one, else its text. */
function key(row: HTMLTableRowElement, column: number): number | string {
  const cell = row.cells[column];
  const value = cell?.dataset["value"];
  if (value !== undefined) return Number(value);
  const text = cell ? textOf(cell) : "";
  const number = Number(text.replace(/[_,\s]/g, ""));
  return text !== "" && Number.isFinite(number) ? number : text;
}

/** Numbers by size, then texts by name, with numbers in names by size too. */
export function compare(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number") return a === b ? 0 : a - b;
  if (typeof a === "number") return -1;
  if (typeof b === "number") return 1;
  return a.localeCompare(b, "en", { numeric: true });
}

function sortable(table: HTMLTableElement): void {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) return;
  heads.forEach((head, column) => {
    const button = h("button", { type: "button", class: "sort" });
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const rising = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => ({ row, at: key(row, column) }));
      // What has no figure stays below in either direction.
      rows.sort((a, b) => {
        const kind = Number(typeof a.at === "string") - Number(typeof b.at === "string");
        const mixed = rows.some((r) => typeof r.at === "number") ? kind : 0;
        return mixed || (rising ? 1 : -1) * compare(a.at, b.at);
      });
      body.append(...rows.map(({ row }) => row));
      announce(`Sorted by ${textOf(button)}, ${rising ? "rising" : "falling"}`);
    });
  });
}

/** The footnotes of a table. One that is shown in parts has them below its last part, which has no footnotes of another table. */
function notesOf(table: HTMLTableElement): Element[] {
  const own = [...new Set([...table.querySelectorAll("sup")].flatMap((mark) => (mark.textContent ?? "").split(", ")))];
  for (let part: Element | null = table.closest("figure"); part; part = part.nextElementSibling) {
    const notes = [...part.querySelectorAll("p.note")];
    // Only those that this part refers to, and those on the whole table.
    if (notes.length > 0) return notes.filter((note) => marksOf(note) === "" || own.includes(marksOf(note)));
    if (own.length === 0) break;
  }
  return [];
}

/** The table as GitHub's Markdown, in the order in which it stands, with its footnotes. */
export function toMarkdown(table: HTMLTableElement): string {
  const line = (cells: string[]) => `| ${cells.join(" | ")} |`;
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
  const marked = (text: string, marks: string) => (marks === "" ? text : `${text} [${marks}]`.trimStart());
  const text = (cell: HTMLTableCellElement) => marked(markdown(textOf(cell)), marksOf(cell));
  const note = (of: Element) => `\n${marksOf(of) === "" ? "" : `[${marksOf(of)}] `}${markdown(textOf(of))}\n`;
  const rule = heads.map((head) => (head.classList.contains("number") ? "--:" : ":--"));
  const rows = [...(table.tBodies[0]?.rows ?? [])].map((row) => line([...row.cells].map(text)));
  return [line(heads.map(text)), line(rule), ...rows, ""].join("\n") + notesOf(table).map(note).join("");
}
