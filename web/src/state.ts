// The variants that the filters let through. Sections redraw when this set changes.
import type { Payload } from "./data.ts";

export class State {
  /** Factor -> levels that are hidden. */
  private readonly hidden = new Map<number, Set<number>>();
  private readonly listeners: (() => void)[] = [];

  constructor(readonly data: Payload) {}

  /** Whether the filters let a variant through. */
  shows(variant: number): boolean {
    const { levels } = this.data.variants[variant]!;
    return levels.every((level, factor) => !this.hidden.get(factor)?.has(level));
  }

  set(factor: number, level: number, shown: boolean): void {
    const levels = this.hidden.get(factor) ?? new Set();
    if (shown) levels.delete(level);
    else levels.add(level);
    this.hidden.set(factor, levels);
    this.listeners.forEach((listener) => listener());
  }

  changed(listener: () => void): void {
    this.listeners.push(listener);
  }

  name(variant: number): string {
    return this.data.variants[variant]!.name;
  }
}
