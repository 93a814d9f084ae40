/** Light and dark theme: that of the system, until the user chooses one. */

import { computed, effect, signal } from "@preact/signals";
import { chosenTheme, keepTheme, knownTheme, nextOf, showTheme, type Theme } from "../core/theme-choice";

export const theme = signal<Theme>("auto");
const system = signal(false);
export const dark = computed(() => theme.value === "dark" || (theme.value === "auto" && system.value));

/** Begin to follow: what was chosen last, else the system. */
export function followTheme(): void {
  const query = matchMedia("(prefers-color-scheme: dark)");
  system.value = query.matches;
  query.addEventListener("change", () => (system.value = query.matches));
  theme.value = chosenTheme();
  effect(() => showTheme(theme.value));
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
