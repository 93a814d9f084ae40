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
