/** Exports of the model view: the grid of heads as PNG, SVG and table. */

import { type Figure, PAPER, SANS, toPng, toSvg } from "../../core/figure";
import { paintMap } from "../../core/heatmap";
import type { AttentionMap, Exports, Session } from "../../core/types";
import { headBytes } from "./thumbnail";
import { samplingNote, STATS } from "../../ui/head-stats";
import { arranged, type Head, kindOf, stat, summary } from "./heads";

const CELL = 64;
const GAP = 6;
const LEFT = 44;
const TOP = 56;
const FOOT = 30;
const INK = "#10202c";

export function modelExports(session: Session, map: AttentionMap, heads: Head[], sort: string): Exports {
  const figure = () => figureOf(session, map, heads, sort);
  return {
    name: `model-${map.name}`,
    png: () => toPng(figure(), PAPER, SANS),
    svg: () => toSvg(figure(), PAPER, SANS),
    table: () => tableOf(heads),
  };
}

/** Heads with their groups: by what they do, and by maps that look alike, named as on screen. */
export function tableOf(heads: readonly Head[]): (string | number)[][] {
  const alike = new Map(arranged(heads, "alike").groups!.flatMap(({ name, heads: members, values }) => members.map((head, at): [Head, string[]] => [head, [name, values[at]]])));
  return [
    ["layer", "head", ...STATS.map((each) => each.name), "rows_used", "rows_total", "summary", "does", "does_value", "group", "similarity"],
    ...heads.map((one) => [
      one.layer, one.head, ...STATS.map((each) => stat(one, each.name)), one.overview?.rows_used ?? 0, one.overview?.rows_total ?? 0, summary(one),
      ...(kindOf(one) ?? ["on its way", ""]), ...(alike.get(one) ?? ["on its way", ""]),
    ]),
  ];
}

function figureOf(session: Session, map: AttentionMap, heads: Head[], sort: string): Figure {
  const columns = map.heads;
  const byLayer = sort === "layer";
  const pitch = { x: CELL + GAP, y: CELL + (byLayer ? GAP : 20) };
  const rows = byLayer ? map.layers : Math.ceil(heads.length / columns);
  const height = TOP + rows * pitch.y + FOOT;
  const shapes: Figure["shapes"] = [];
  const label = (x: number, y: number, text: string, size = 10) => shapes.push({ kind: "text", x, y, text, size, colour: INK });
  label(LEFT, 20, `${session.model.name}: ${map.title}`, 15);
  label(LEFT, height - 13, provenance(session, heads));
  if (byLayer) {
    for (let head = 0; head < map.heads; head++) label(LEFT + head * pitch.x, TOP - 11, head ? String(head) : "head 0");
    for (let layer = 0; layer < map.layers; layer++) label(8, TOP + layer * pitch.y + CELL / 2, layer ? String(layer) : "layer 0");
  }
  heads.forEach((one, at) => {
    const [row, column] = byLayer ? [one.layer, one.head] : [Math.floor(at / columns), at % columns];
    const [x, y] = [LEFT + column * pitch.x, TOP + row * pitch.y];
    const canvas = tile(one);
    if (canvas) shapes.push({ kind: "image", x, y, width: CELL, height: CELL, canvas });
    if (!byLayer) label(x, y + CELL + 9, `${one.layer}·${one.head}`);
  });
  return { width: LEFT + columns * pitch.x + GAP, height, shapes };
}

/** Where the picture comes from, and what in it is approximate. */
function provenance({ model, text_hash }: Session, heads: Head[]): string {
  const facts = [`${model.name} ${model.revision}`, model.dtype, `text ${text_hash.slice(0, 12)}`, "colours: 0 to the largest of each head"];
  const overview = heads.find((one) => one.overview)?.overview;
  const sampling = heads.map((one) => one.overview && samplingNote(one.overview)).find(Boolean);
  if (overview && Math.max(...overview.bins) > 1) facts.push(`a pixel is the largest of ${overview.bins.join(" × ")} tokens`);
  if (sampling) facts.push(sampling);
  return ["glassformer", ...facts].join(" · ");
}

/** A head's thumbnail on a canvas of its own, in the colours of the white ground; null until its overview has come. */
function tile({ overview, head }: Head): HTMLCanvasElement | null {
  if (!overview) return null;
  const canvas = document.createElement("canvas");
  paintMap(canvas, headBytes(overview, head), overview.height, overview.width, { dark: false });
  return canvas;
}
