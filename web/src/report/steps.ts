/** A bundle of its own, of pages whose charts lead from a step to the rows of the model that was kept of it. */

import "./steps.css";
import { go } from "./address";
import { number } from "./scales";
import type { SavedModel } from "./types";

const SNAP = 0.015; // of the range: a click this near to what is kept is meant for it
const TOLD = 3; // models of which a click tells at most

/** What a click at x means: what is kept nearby, else x itself. */
export function savedAt(kept: SavedModel[], x: number, range: number): number {
  const places = kept.flatMap(({ at, states, removed }) => [at, ...states, ...removed]).sort((a, b) => Math.abs(a - x) - Math.abs(b - x));
  return places.length && Math.abs(places[0] - x) <= SNAP * range ? places[0] : x;
}

/** What is kept of x, in words before the way to the rows of a model. */
export function toldOf({ at, rows, states, removed, group }: SavedModel, x: number, label: string): { words: string; link: string } {
  const own = group ? `${group}: ` : "", what = at === x ? `the model of ${label} ${number(x)} was kept` : states.includes(x) ? `of ${label} ${number(x)} a training state is kept, to resume from: checkpoints/step-${String(x).padStart(8, "0")}` : removed.includes(x) ? `the checkpoint of ${label} ${number(x)} was removed when newer ones were saved (training.keep)` : `no model was kept of ${label} ${number(x)}`;
  return { words: own + (rows ? what : `${what}; no rows were evaluated, which "glassformer evaluate RUN" does`), link: rows && (at === x ? "Its rows" : `Rows of ${label} ${number(at)}`) };
}

/** Say which models were kept of an x, with the way to their rows. Returns: what the click meant. */
function tell(place: HTMLElement, saved: SavedModel[], x: number, range: number, label: string): number {
  const at = savedAt(saved, x, range);
  const first = [...saved].sort((a, b) => Number(b.at === at) - Number(a.at === at)).slice(0, TOLD);
  place.replaceChildren(...first.map((model) => {
    const { words, link } = toldOf(model, at, label), said = document.createElement("span");
    said.textContent = `${words}. `;
    if (!link) return said;
    const here = model.rows.startsWith("#"), way = document.createElement(here ? "button" : "a");
    way.textContent = link;
    if (here) way.addEventListener("click", () => go(model.rows.slice(1)));
    else way.setAttribute("href", model.rows);
    said.append(way);
    return said;
  }));
  return at;
}

globalThis.glassformerSteps = tell;
