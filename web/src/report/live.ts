/** A bundle of its own, of a page that is served and can change: newer reports are drawn in the place of those that are there.
 *
 *     follow ──every few seconds──> the same (304) or newer ones ──> renew
 */

import { sentence } from "../core/format";
import type { Live, PackedPage } from "./types";

/** Between two looks at what trainings write, in ms; and how many times as long as an answer took. */
const EVERY = 5_000, TIMES = 10;

let pressed = false;

function button(words: string, act: () => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.textContent = words;
  made.addEventListener("click", act);
  return made;
}

/** Draw newer reports; what is scrolled, open and in focus stays so. */
function renew({ place, draw }: Live, page: PackedPage): void {
  const all = <T extends Element>(what: string) => [...place.querySelectorAll<T>(what)];
  const label = (each: Element) => each.ariaLabel ?? each.textContent;
  const boxes = all(".sheet").map((each) => [each.scrollLeft, each.scrollTop]), open = all<HTMLDetailsElement>("details").map((each) => each.open);
  const active = document.activeElement, [across, down] = [scrollX, scrollY];
  draw(page);
  all<HTMLDetailsElement>("details").forEach((each, i) => (each.open = open[i] ?? each.open));
  all(".sheet").forEach((each, i) => boxes[i] && each.scrollTo(boxes[i][0], boxes[i][1]));
  if (active && active !== document.body) {
    const again = all<HTMLElement>(active.tagName).find((each) => label(each) === label(active));
    again?.focus({ preventScroll: true });
    if (again instanceof HTMLInputElement && again.type === "search") again.setSelectionRange((active as HTMLInputElement).selectionStart, (active as HTMLInputElement).selectionEnd);
  }
  scrollTo(across, down);
}

/** Look again in a while, where there may be something new. */
function follow(live: Live, tag: string | null, took = 0): void {
  if (tag) setTimeout(() => void look(live, tag), Math.max(EVERY, TIMES * took));
}

async function look(live: Live, tag: string): Promise<void> {
  const { tell } = live, begun = performance.now();
  if (document.hidden || pressed) return follow(live, tag);
  try {
    const answer = await live.ask(tag);
    if (answer.status === 304) tell();
    else {
      const told = (await answer.json()) as PackedPage & { error?: string };
      if (!answer.ok) tell(sentence(told.error ?? answer.statusText));
      else {
        tag = answer.headers.get("etag") ?? "";
        tell();
        // Corrections and choices of rows are work of a person, which is not drawn over by itself.
        if (told.reports.some(({ browser }) => browser)) tell("There are newer results.", button("Show them", () => (tell(), renew(live, told))));
        else renew(live, told);
      }
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // what fetch says of a server that is gone
    live.lost();
  }
  follow(live, tag, performance.now() - begun);
}

for (const [name, down] of [["pointerdown", true], ["pointerup", false], ["pointercancel", false]] as const) addEventListener(name, () => (pressed = down), true);
globalThis.glassformerLive = follow;
