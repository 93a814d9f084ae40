/** Exports of the embeddings view: picture, drawing, and table of the points. */

import { number } from "../../core/format";
import { METHOD_NAMES } from "../../core/embedding-state";
import { headColour } from "../../core/palette";
import type { Exports } from "../../core/types";
import type { EmbeddingController } from "./controller";
import { CanvasPoints, corners } from "./points";
import { looksOf, sizeOf } from "./stage";

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

export function exportsOf(controller: EmbeddingController, host: () => Element): Exports {
  const titled = () => {
    const map = controller.map.peek()!;
    return `${map.title}, ${METHOD_NAMES[controller.state.peek().method]} of ${map.levels[controller.level.peek()]}`;
  };
  return {
    get name() {
      return `embeddings-${controller.state.peek().method}-level${controller.level.peek()}`;
    },
    finding: () => controller.map.peek()!.study?.sentences[0] ?? controller.map.peek()!.findings[controller.level.value],
    png: () => png(controller, host()),
    svg: () => svg(controller, titled()),
    table: () => rowsOf(controller, chosen(controller)),
  };
}

async function png(controller: EmbeddingController, host: Element): Promise<Blob> {
  const canvas = document.createElement("canvas");
  const points = new CanvasPoints(canvas);
  const places = controller.places.peek()!;
  points.resize(SIDE, SIDE, 2);
  points.move(places, places);
  points.looks(looksOf(controller));
  points.draw({ scale: SIDE / 2 - 40, x: 0, y: 0 }, 1, sizeOf(places.length / 2));
  const pen = canvas.getContext("2d")!;
  pen.globalCompositeOperation = "destination-over";
  pen.fillStyle = getComputedStyle(host).getPropertyValue("--panel");
  pen.fillRect(0, 0, SIDE, SIDE);
  return new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("no picture"))), "image/png"));
}

function svg(controller: EmbeddingController, title: string): string {
  const { of } = controller.classes.peek();
  const places = controller.places.peek()!;
  const dark = controller.props.dark.peek();
  const hidden = controller.hidden.peek();
  const r = sizeOf(of.length) / 2;
  const at = (value: number, sign: number) => (SIDE / 2 + sign * value * (SIDE / 2 - 40)).toFixed(1);
  const marks = of.map((group, i) => {
    if (hidden.has(group)) return "";
    const [x, y] = [at(places[2 * i], 1), at(places[2 * i + 1], -1)];
    const path = corners(group % 4, r);
    const colour = `fill="${headColour(group, dark)}" transform="translate(${x} ${y})"`;
    return path.length ? `<polygon points="${path.map(([dx, dy]) => `${number(dx, 3).replace("−", "-")},${number(dy, 3).replace("−", "-")}`).join(" ")}" ${colour}/>` : `<circle r="${r}" ${colour}/>`;
  });
  const escaped = title.replace(/[&<>]/g, (letter) => `&#${letter.charCodeAt(0)};`);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${SIDE} ${SIDE}"><title>${escaped}</title>${marks.join("")}</svg>`;
}
