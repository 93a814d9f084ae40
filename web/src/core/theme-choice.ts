/** The choice of a theme: that of the system, until the user chooses light or dark. */

import { storeItem, storedItem } from "./browser";

export type Theme = "auto" | "light" | "dark";

const NAME = "glassformer-theme";
const THEMES: readonly Theme[] = ["auto", "light", "dark"];

export const knownTheme = (text: string | null): Theme => THEMES.find((theme) => theme === text) ?? "auto";

/** That of the notebook whose cell the page is in, else what was chosen last. */
export const chosenTheme = (): Theme => knownTheme(document.documentElement.dataset.theme ?? storedItem("localStorage", NAME));

export const keepTheme = (theme: Theme): void => storeItem("localStorage", NAME, theme);

/** The next of auto, light and dark. */
export const nextOf = (theme: Theme): Theme => THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];

/** From now on tell when the page goes onto paper, and when it comes back to the screen. */
export function followPaper(turn: (paper: boolean) => void): void {
  const media = matchMedia("print");
  let paper = false;
  const tell = (now: boolean) => now !== paper && turn((paper = now));
  media.addEventListener("change", () => tell(media.matches));
  addEventListener("beforeprint", () => tell(true)); // before the page is laid out for paper, while canvases can be drawn
  addEventListener("afterprint", () => tell(false));
}

/** Show the page in it. */
export function showTheme(theme: Theme): void {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

/** End the transitions of colours that a change of the theme has begun. */
const settle = (): void => document.getAnimations().forEach((each) => each instanceof CSSTransition && each.finish());

/** Make a picture in the light theme, whatever that of the page is: it goes into a paper or onto a slide. Nothing is painted in between. */
export function inLight<T>(make: () => T): T {
  const before = document.documentElement.dataset.theme as Theme | undefined;
  try {
    showTheme("light");
    settle();
    return make();
  } finally {
    showTheme(before ?? "auto");
    settle();
  }
}
