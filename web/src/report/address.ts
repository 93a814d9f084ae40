/** What is chosen on a page, in the fragment of its address: `#true=joy&cells=predicted`. */

import { setFragment } from "../core/browser";

const pairs = (): URLSearchParams => new URLSearchParams(location.hash.slice(1));

export const written = (name: string): string | null => pairs().get(name);

/** Write values into the address, which is that of a report; empty ones are taken out of it. */
export function write(values: Record<string, string>): void {
  if (!document.getElementById("report")) return; // a report within the explorer, whose address it is
  const all = pairs();
  for (const [name, value] of Object.entries(values)) {
    if (value) all.set(name, value);
    else all.delete(name);
  }
  setFragment("replaceState", all.toString());
}

/** Go to a part of the page; the address has it, and what else is chosen, so that the way back and a reload lead here. */
export function go(part: string): void {
  const all = pairs(), there = all.get("part") === part;
  all.set("part", part);
  setFragment(there ? "replaceState" : "pushState", all.toString());
  reach();
}

/** Bring the part of the address into sight; without one, what is said of its step. */
export function reach(): void {
  const part = written("part");
  if (part !== null) document.getElementById(`part-${part}`)?.scrollIntoView();
  else document.querySelector(".series-told:not(:empty)")?.scrollIntoView({ block: "center" });
}
