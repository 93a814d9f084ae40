/** Light and dark theme: that of the system, until the user chooses one; on paper it is light. */

import { batch, computed, effect, signal } from "@preact/signals";
import { options } from "preact";
import { onPaper } from "../core/frame";
import { chosenTheme, followPaper, inLight, keepTheme, knownTheme, nextOf, showTheme, type Theme } from "../core/theme-choice";

export const theme = signal<Theme>("auto");
const system = signal(false);
const paper = signal(false);
export const dark = computed(() => !paper.value && (theme.value === "dark" || (theme.value === "auto" && system.value)));

/** Make a picture of a view, which is light in each theme. */
export const pictured = <T>(make: () => T): T => batch(() => {
  const before = paper.peek();
  paper.value = true;
  try {
    return inLight(make);
  } finally {
    paper.value = before;
  }
});

/** Begin to follow: what was chosen last, else the system. */
export function followTheme(): void {
  const query = matchMedia("(prefers-color-scheme: dark)");
  system.value = query.matches;
  query.addEventListener("change", () => (system.value = query.matches));
  theme.value = chosenTheme();
  followPaper((now) => {
    onPaper(now);
    if (now) options.requestAnimationFrame = queueMicrotask; // of Preact, for effects
    else delete options.requestAnimationFrame;
    paper.value = now;
  });
  effect(() => showTheme(paper.value ? "light" : theme.value));
}

/** Choose a theme, by its name in a link or on the command line; it is remembered. */
export function chooseTheme(name: string): void {
  theme.value = knownTheme(name);
  keepTheme(theme.value);
}

/** The next of auto, light and dark. */
export function nextTheme(): void {
  chooseTheme(nextOf(theme.value));
}
