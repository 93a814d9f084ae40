/** The lens as a drawing and as a table. */

import { visible } from "../../core/format";
import { shade } from "../../core/palette";
import type { Lens } from "../../core/readings";
import { LensController, PAGE } from "./lens-controller";

const CELL = { width: 76, height: 24 };
const LEFT = 120;
const TOP = 30;
const HUE = 230;

interface Text { x: number; y: number; text: string; anchor: "start" | "middle" | "end" }
interface Box { x: number; y: number; fill: string }

export interface Picture {
  width: number;
  height: number;
  boxes: Box[];
  texts: Text[];
  table: (string | number)[][];
}

const short = (text: string) => (text.length > 10 ? `${text.slice(0, 9)}…` : text);

/** The columns on screen, in the colours of white paper. */
export function lensPicture(controller: LensController, lens: Lens): Picture {
  const labels = lens.columns === "text";
  const width = controller.width(lens);
  const first = labels ? 0 : controller.page.peek() * PAGE;
  const columns = Array.from({ length: Math.min(width - first, PAGE) }, (_, at) => first + at);
  const heading = (column: number) => (labels ? lens.outputs.get(column) ?? String(column) : visible(lens.names[column]));
  const boxes: Box[] = [];
  const texts: Text[] = columns.map((column, at) => ({ x: LEFT + (at + 0.5) * CELL.width, y: TOP - 10, text: short(heading(column)), anchor: "middle" }));
  lens.rows.forEach((name, row) => {
    texts.push({ x: LEFT - 8, y: TOP + row * CELL.height + 16, text: name, anchor: "end" });
    columns.forEach((column, at) => {
      const { text, share } = controller.shown(lens, [row, column]);
      boxes.push({ x: LEFT + at * CELL.width, y: TOP + row * CELL.height, fill: shade(share, HUE, false) });
      texts.push({ x: LEFT + (at + 0.5) * CELL.width, y: TOP + row * CELL.height + 16, text: short(text), anchor: "middle" });
    });
  });
  return { width: LEFT + columns.length * CELL.width + 8, height: TOP + lens.rows.length * CELL.height + 34, boxes, texts, table: tableOf(controller, lens) };
}

function tableOf(controller: LensController, lens: Lens): (string | number)[][] {
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
    ["layer", "position", "token", "most likely", "probability", "entropy", "KL", "target rank", "target probability"],
    ...lens.rows.flatMap((name, row) => lens.names.map((token, column) => {
      const at = row * lens.names.length + column;
      const [best] = controller.top(lens, [row, column]);
      return [name, column, token, best.text, Math.exp(best.logprob), lens.entropy[at], lens.kl[at], lens.ranks[at], Math.exp(lens.target_logprobs[at])];
    })),
  ];
}

const escape = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");
const FONT = "Inter, ui-sans-serif, system-ui, sans-serif";

export function toSvg({ width, height, boxes, texts }: Picture, source: string): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family='${FONT}' font-size="12" fill="#10202c">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    ...boxes.map(({ x, y, fill }) => `<rect x="${x}" y="${y}" width="${CELL.width - 1}" height="${CELL.height - 1}" fill="${fill}"/>`),
    ...texts.map(({ x, y, text, anchor }) => `<text x="${x}" y="${y}" text-anchor="${anchor}">${escape(text)}</text>`),
    `<text x="8" y="${height - 10}" font-size="10">${escape(source)}</text>`,
    "</svg>",
  ].join("\n");
}

export function toPng({ width, height, boxes, texts }: Picture, source: string): Promise<Blob> {
  const sheet = new OffscreenCanvas(2 * width, 2 * height);
  const pen = sheet.getContext("2d")!;
  pen.scale(2, 2);
  pen.fillStyle = "#fff";
  pen.fillRect(0, 0, width, height);
  for (const { x, y, fill } of boxes) {
    pen.fillStyle = fill;
    pen.fillRect(x, y, CELL.width - 1, CELL.height - 1);
  }
  pen.fillStyle = "#10202c";
  pen.font = `12px ${FONT}`;
  for (const { x, y, text, anchor } of texts) {
    pen.textAlign = anchor === "middle" ? "center" : anchor;
    pen.fillText(text, x, y);
  }
  pen.textAlign = "start";
  pen.font = `10px ${FONT}`;
  pen.fillText(source, 8, height - 10);
  return sheet.convertToBlob({ type: "image/png" });
}
