/** The lens as a drawing and as a table. */

import type { Figure } from "../../core/figure";
import { visible } from "../../core/format";
import { shade } from "../../core/palette";
import { cellAt, type Lens } from "../../core/readings";
import type { LensController } from "./lens-controller";

const CELL = { width: 76, height: 24 };
const LEFT = 120;
const TOP = 30;
const HUE = 258;
const INK = "#10202c";

/** Columns side by side; more of them are below. */
const BAND = 12;

const short = (text: string) => (text.length > 10 ? `${text.slice(0, 9)}…` : text);

/** The columns on screen, in the colours of white paper, above a line about where they come from. */
export function lensFigure(controller: LensController, lens: Lens, source: string): Figure {
  const labels = lens.columns === "text";
  const columns = controller.columns(lens);
  const heading = (column: number) => (labels ? lens.outputs.get(column) ?? String(column) : visible(lens.names[column]));
  const band = TOP + lens.rows.length * CELL.height + 12;
  const height = Math.ceil(columns.length / BAND) * band + 22;
  const shapes: Figure["shapes"] = [];
  const text = (x: number, y: number, words: string, more: { end?: boolean; middle?: boolean; size?: number }) => shapes.push({ kind: "text", x, y, text: words, colour: INK, size: 12, ...more });
  for (let from = 0; from < columns.length; from += BAND) {
    const top = TOP + (from / BAND) * band, side = columns.slice(from, from + BAND);
    side.forEach((column, at) => text(LEFT + (at + 0.5) * CELL.width, top - 14, short(heading(column)), { middle: true }));
    lens.rows.forEach((name, row) => {
      const y = top + row * CELL.height;
      text(LEFT - 8, y + CELL.height / 2, name, { end: true });
      side.forEach((column, at) => {
        const { text: output, share } = controller.shown(lens, [row, column]);
        const x = LEFT + at * CELL.width;
        shapes.push({ kind: "rect", x, y, width: CELL.width - 1, height: CELL.height - 1, colour: shade(share, HUE, false) });
        text(x + CELL.width / 2, y + CELL.height / 2, short(output), { middle: true });
      });
    });
  }
  text(8, height - 14, source, { size: 10 });
  return { width: LEFT + Math.min(columns.length, BAND) * CELL.width + 8, height, shapes };
}

export function tableOf(controller: LensController, lens: Lens): (string | number)[][] {
  if (lens.columns === "text") {
    return [
      ["layer", "label", "probability", "rank"],
      ...lens.rows.flatMap((name, row) => Array.from({ length: lens.choices }, (_, column) => {
        const { text, logprob, rank } = controller.label(lens, [row, column]);
        return [name, text, Math.exp(logprob), rank];
      })),
    ];
  }
  return [
    ["layer", "position", "token", "most likely", "probability", "entropy (bits)", "KL (bits)", "target rank", "target probability"],
    ...lens.rows.flatMap((name, row) => controller.columns(lens).map((column) => {
      const at = cellAt(lens, row, column);
      const [best] = controller.top(lens, [row, column]);
      return [name, column, lens.names[column], best.text, Math.exp(best.logprob), lens.entropy[at], lens.kl[at], lens.ranks[at], Math.exp(lens.target_logprobs[at])];
    })),
  ];
}
