/** The attribution as a picture, a drawing and a table. */

import { useSignalEffect } from "@preact/signals";
import { visible } from "../../core/format";
import type { Attribution } from "../../core/readings";
import { diverging } from "../neuron/diverging-colours";
import { type AttributionController, partName, signed } from "./attribution-controller";

const WIDTH = 900;
const CELL = 22;
const FONT = "Inter, ui-sans-serif, system-ui, sans-serif";

interface Shape { x: number; y: number; width: number; height: number; fill: string }
interface Text { x: number; y: number; text: string; size: number }

export function tableOf(controller: AttributionController, found: Attribution): (string | number)[][] {
  const rows: (string | number)[][] = [["what", "name", "value"]];
  for (const [kind, values] of [["integrated gradients", found.integrated], ["gradient × input", found.gradient]] as const) {
    for (const [stream, each] of Object.entries(values)) for (const [at, value] of each.entries()) rows.push([kind, `${stream} ${at} ${controller.props.session.streams[stream][at].text}`, value]);
  }
  for (const part of found.parts) rows.push(["direct logit attribution", partName(part), part.value]);
  return rows;
}

/** Words as boxes in lines, and below them the heads as a map. */
function drawing(controller: AttributionController, found: Attribution): { height: number; shapes: Shape[]; texts: Text[] } {
  const shapes: Shape[] = [];
  const texts: Text[] = [{ x: 16, y: 30, text: `Why ${found.target.title}`, size: 18 }];
  const streams = Object.entries(controller.values(found)).map(([stream, values]) => controller.words(controller.props.session.streams[stream], values));
  const most = Math.max(...streams.flat().map((word) => Math.abs(word.value)), 1e-9);
  let [x, y] = [16, 50];
  for (const words of streams) {
    for (const word of words) {
      const text = visible(word.text);
      const width = Math.max(text.length * 8 + 12, 44);
      if (x + width > WIDTH - 16) [x, y] = [16, y + 44];
      shapes.push({ x, y, width: width - 4, height: 38, fill: diverging((0.6 * word.value) / most, false) });
      texts.push({ x: x + 5, y: y + 17, text, size: 14 }, { x: x + 5, y: y + 32, text: signed(word.value), size: 10 });
      x += width;
    }
    [x, y] = [16, y + 56];
  }
  const heads = found.parts.filter((part) => part.head !== null);
  const strongest = Math.max(...heads.map((part) => Math.abs(part.value)), 1e-9);
  let left = 60;
  for (const kind of new Set(heads.map((part) => part.kind))) {
    const own = heads.filter((part) => part.kind === kind);
    texts.push({ x: left, y: y + 12, text: `each ${kind}'s share: layers × heads`, size: 12 });
    for (const part of own) shapes.push({ x: left + part.head! * CELL, y: y + 20 + part.layer! * CELL, width: CELL - 1, height: CELL - 1, fill: diverging(part.value / strongest, false) });
    left += (Math.max(...own.map((part) => part.head!)) + 2) * CELL + 60;
  }
  const bottom = y + 20 + (Math.max(...heads.map((part) => part.layer!), 0) + 1) * CELL + 20;
  const { model, text_hash } = controller.props.session;
  texts.push({ x: 16, y: bottom + 10, text: `${model.name} · ${model.revision} · text ${text_hash} · ${found.notes[0]}`, size: 10 });
  return { height: bottom + 24, shapes, texts };
}

const escape = (text: string) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

export function useExports(controller: AttributionController): void {
  const { props } = controller;
  useSignalEffect(() => {
    const found = controller.found.value;
    if (!found) return props.exports(null);
    props.exports({
      name: "attribution",
      finding: () => controller.finding(),
      png: () => {
        const { height, shapes, texts } = drawing(controller, found);
        const sheet = new OffscreenCanvas(2 * WIDTH, 2 * height);
        const pen = sheet.getContext("2d")!;
        pen.scale(2, 2);
        pen.fillStyle = "#fff";
        pen.fillRect(0, 0, WIDTH, height);
        for (const { x, y, width, height: tall, fill } of shapes) {
          pen.fillStyle = fill;
          pen.fillRect(x, y, width, tall);
        }
        pen.fillStyle = "#10202c";
        for (const { x, y, text, size } of texts) {
          pen.font = `${size}px ${FONT}`;
          pen.fillText(text, x, y);
        }
        return sheet.convertToBlob({ type: "image/png" });
      },
      svg: () => {
        const { height, shapes, texts } = drawing(controller, found);
        return [
          `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" font-family='${FONT}' fill="#10202c">`,
          `<rect width="100%" height="100%" fill="#fff"/>`,
          ...shapes.map(({ x, y, width, height: tall, fill }) => `<rect x="${x}" y="${y}" width="${width}" height="${tall}" fill="${fill}"/>`),
          ...texts.map(({ x, y, text, size }) => `<text x="${x}" y="${y}" font-size="${size}">${escape(text)}</text>`),
          "</svg>",
        ].join("\n");
      },
      table: () => tableOf(controller, found),
    });
    return () => props.exports(null);
  });
}
