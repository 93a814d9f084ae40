/** Exports of the model view: the grid of heads as PNG, SVG and table. */

import { colours } from "../../core/heatmap";
import type { AttentionMap, Exports, Session } from "../../core/types";
import { headBytes } from "../../ui/thumbnail";
import { samplingNote, STATS } from "../../ui/head-stats";
import { type Head, stat, summary } from "./heads";

const CELL = 64;
const GAP = 6;
const LEFT = 44;
const TOP = 56;
const FOOT = 30;
const FONT = "Inter, ui-sans-serif, system-ui, sans-serif";

interface Placed {
  one: Head;
  x: number;
  y: number;
}

export function modelExports(session: Session, map: AttentionMap, heads: Head[], sort: string): Exports {
  const columns = map.heads;
  const pitch = { x: CELL + GAP, y: CELL + (sort === "layer" ? GAP : 20) };
  const width = LEFT + columns * pitch.x + GAP;
  const height = TOP + Math.ceil(heads.length / columns) * pitch.y + FOOT;
  const placed: Placed[] = heads.map((one, at) => ({ one, x: LEFT + (at % columns) * pitch.x, y: TOP + Math.floor(at / columns) * pitch.y }));
  const labels = [
    { x: LEFT, y: 24, text: `${session.model.name}: ${map.title}`, size: 15 },
    { x: LEFT, y: height - 10, text: provenance(session, heads), size: 10 },
    ...(sort === "layer" ? axes(map, pitch.x, pitch.y) : placed.map(({ one, x, y }) => ({ x, y: y + CELL + 12, text: `${one.layer}·${one.head}`, size: 10 }))),
  ];

  const render = (scale: number): HTMLCanvasElement => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width * scale, height * scale];
    const context = canvas.getContext("2d")!;
    context.scale(scale, scale);
    context.imageSmoothingEnabled = false;
    context.fillStyle = "#fff";
    context.fillRect(0, 0, width, height);
    for (const { one, x, y } of placed) {
      const small = tile(one);
      if (small) context.drawImage(small, x, y, CELL, CELL);
    }
    context.fillStyle = "#10202c";
    for (const { x, y, text, size } of labels) {
      context.font = `${size}px ${FONT}`;
      context.fillText(text, x, y);
    }
    return canvas;
  };
  return {
    name: `model-${map.name}`,
    png: () => new Promise((resolve, reject) => render(2).toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser could not make a picture of this size."))))),
    svg: () =>
      [
        `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family='${FONT}' fill="#10202c">`,
        `<rect width="100%" height="100%" fill="#fff"/>`,
        ...placed.map(({ one, x, y }) => {
          const small = tile(one);
          return small ? `<image x="${x}" y="${y}" width="${CELL}" height="${CELL}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${small.toDataURL()}"/>` : "";
        }),
        ...labels.map(({ x, y, text, size }) => `<text x="${x}" y="${y}" font-size="${size}">${escape(text)}</text>`),
        "</svg>",
      ].join("\n"),
    table: () => [
      ["layer", "head", ...STATS.map((each) => each.name), "rows_used", "rows_total", "summary"],
      ...heads.map((one) => [one.layer, one.head, ...STATS.map((each) => stat(one, each.name)), one.overview?.rows_used ?? 0, one.overview?.rows_total ?? 0, summary(one)]),
    ],
  };
}

function axes(map: AttentionMap, x: number, y: number) {
  const heads = Array.from({ length: map.heads }, (_, head) => ({ x: LEFT + head * x, y: TOP - 8, text: head === 0 ? "head 0" : String(head), size: 10 }));
  const layers = Array.from({ length: map.layers }, (_, layer) => ({ x: 8, y: TOP + layer * y + CELL / 2 + 4, text: layer === 0 ? "layer 0" : String(layer), size: 10 }));
  return [...heads, ...layers];
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

/** A head's thumbnail on a canvas of its own, in the colours of the white ground. */
function tile({ overview, head }: Head): HTMLCanvasElement | null {
  if (!overview) return null;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [overview.width, overview.height];
  canvas.getContext("2d")!.putImageData(new ImageData(colours(headBytes(overview, head), { dark: false }), overview.width, overview.height), 0, 0);
  return canvas;
}

const escape = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
