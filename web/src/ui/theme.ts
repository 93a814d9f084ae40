/** Light and dark theme: that of the system, until the user chooses one. */

import { computed, effect, signal } from "@preact/signals";
import { storeItem, storedItem } from "../core/browser";

export type Theme = "auto" | "light" | "dark";

const NAME = "glassformer-theme";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

const known = (text: string | null): Theme => THEMES.find((theme) => theme === text) ?? "auto";

export const theme = signal<Theme>("auto");
const system = signal(false);
export const dark = computed(() => theme.value === "dark" || (theme.value === "auto" && system.value));

/** Begin to follow: what was chosen last, else the system. */
export function followTheme(): void {
  const query = matchMedia("(prefers-color-scheme: dark)");
  system.value = query.matches;
  query.addEventListener("change", () => (system.value = query.matches));
  theme.value = known(storedItem("localStorage", NAME));
  effect(() => {
    if (theme.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
  });
}

/** Choose a theme, by its name in a link or on the command line; it is remembered. */
export function chooseTheme(name: string): void {
  theme.value = known(name);
  storeItem("localStorage", NAME, theme.value);
}

/** The next of auto, light and dark. */
export function nextTheme(): void {
  chooseTheme(THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length]);
}
