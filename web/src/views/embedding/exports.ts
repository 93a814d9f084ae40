/** Exports of the embeddings view: picture, drawing, and table of the points. */

import { type Figure, fitted, inLines, lengthOf, PAPER, SANS, toPng, toSvg } from "../../core/figure";
import { count, visible } from "../../core/format";
import { METHOD_NAMES } from "../../core/embedding-state";
import { headColour } from "../../core/palette";
import type { Exports } from "../../core/types";
import type { EmbeddingController } from "./controller";
import { corners } from "./points";
import { nameOf, sizeOf } from "./stage";

const SIDE = 900;

/** Columns and rows of points: number, key, classes, place, text. */
export function rowsOf(controller: EmbeddingController, points: number[]): (string | number)[][] {
  const map = controller.map.peek()!;
  const places = controller.places.peek();
  const classes = Object.entries(map.classes);
  return [
    ["point", "key", ...classes.map(([name]) => name), "x", "y", "text"],
    ...points.map((i) => [i, map.keys[i], ...classes.map(([, { names, of }]) => names[of[i]]), places?.[2 * i] ?? "", places?.[2 * i + 1] ?? "", map.texts[i]]),
  ];
}

export const chosen = (controller: EmbeddingController): number[] =>
  controller.selection.peek().length ? controller.selection.peek() : Array.from({ length: controller.map.peek()?.points ?? 0 }, (_, i) => i);

export function exportsOf(controller: EmbeddingController): Exports {
  const titled = () => {
    const map = controller.map.peek()!;
    return `${map.title}, ${METHOD_NAMES[controller.state.peek().method]} of ${map.levels[controller.level.peek()]}`;
  };
  return {
    get name() {
      return `embeddings-${controller.state.peek().method}-level${controller.level.peek()}`;
    },
    finding: () => controller.map.peek()!.study?.sentences[0] ?? controller.map.peek()!.findings[controller.level.value],
    png: () => toPng(figureOf(controller, titled()), PAPER, SANS),
    svg: () => toSvg(figureOf(controller, titled()), PAPER, SANS),
    table: () => rowsOf(controller, chosen(controller)),
  };
}

/** Points of at most this many are written next to; and classes that are named below. */
const [NAMED, LISTED] = [60, 24];
const [PLOT, ROOM, LINE, INK, SOFT] = [860, 40, 20, "#0f1c2b", "#41526a"];

/** A mark of a class, its middle at 0. */
function mark(group: number, r: number): string {
  const path = corners(group % 4, r);
  return path.length ? `M${path.map(([x, y]) => `${x.toFixed(2)} ${y.toFixed(2)}`).join("L")}Z` : `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
}

/** The map as it is on screen: its title, the points, of few their names, and the classes with their colours. */
export function figureOf(controller: EmbeddingController, title: string): Figure {
  const places = controller.places.peek()!, { names, of } = controller.classes.peek(), hidden = controller.hidden.peek();
  const r = sizeOf(of.length) / 2, lines = inLines(title, SIDE - 2 * ROOM), top = ROOM + lines.length * LINE, shapes: Figure["shapes"] = [];
  lines.forEach((text, at) => shapes.push({ kind: "text", x: ROOM, y: ROOM / 2 + 10 + at * LINE, text, colour: INK, strong: true }));
  const points = of.flatMap((group, i) => (hidden.has(group) ? [] : [{ group, text: nameOf(controller, i), x: SIDE / 2 + places[2 * i] * (PLOT / 2 - ROOM), y: top + PLOT / 2 - places[2 * i + 1] * (PLOT / 2 - ROOM) }]));
  for (const { group, x, y } of points) shapes.push({ kind: "path", d: mark(group, r), x, y, colour: headColour(group, false), filled: true });
  const named = points.length > NAMED ? [] : points, taken = named.map(({ x, y }): [x: number, y: number, width: number] => [x - r, y, 2 * r]);
  for (const { text, x, y } of named) {
    const words = fitted(visible(text), 120, 11), width = lengthOf(words, 11), left = x + r + 3 + width > SIDE ? x - r - 3 - width : x + r + 3;
    if (taken.some(([a, b, wide]) => Math.abs(b - y) < 12 && left < a + wide && a < left + width)) continue; // over another
    taken.push([left, y, width]);
    shapes.push({ kind: "text", x: left, y, text: words, colour: SOFT, size: 11 });
  }
  let [x, y] = [ROOM, top + PLOT];
  const shown = names.flatMap((name, group) => (hidden.has(group) ? [] : [{ name, group }]));
  for (const { name, group } of shown.slice(0, LISTED)) {
    const text = fitted(name, 180), width = lengthOf(text) + 30;
    if (x + width > SIDE - ROOM) [x, y] = [ROOM, y + LINE];
    shapes.push({ kind: "path", d: mark(group, 5), x: x + 6, y, colour: headColour(group, false), filled: true }, { kind: "text", x: x + 16, y, text, colour: SOFT });
    x += width;
  }
  if (shown.length) y += LINE + 4;
  const { model, text_hash } = controller.props.session;
  shapes.push({ kind: "text", x: ROOM, y, text: `${model.name} · ${model.revision} · ${count(of.length)} points · text ${text_hash}`, colour: SOFT, size: 10 });
  return { width: SIDE, height: y + 24, shapes };
}
