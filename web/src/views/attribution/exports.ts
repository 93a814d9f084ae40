/** The attribution as a picture, a drawing and a table. */

import { useSignalEffect } from "@preact/signals";
import { type Figure, lengthOf, PAPER, SANS, toPng, toSvg } from "../../core/figure";
import { visible } from "../../core/format";
import type { Attribution } from "../../core/readings";
import { signed } from "../../core/cause";
import { diverging } from "../neuron/diverging-colours";
import { type AttributionController, partName } from "./attribution-controller";

const WIDTH = 900;
const CELL = 22;
const INK = "#10202c";

export function tableOf(controller: AttributionController, found: Attribution): (string | number)[][] {
  const rows: (string | number)[][] = [["what", "name", "value"]];
  for (const [kind, values] of [[found.method, found.shares], ["gradient × input", found.gradient]] as const) {
    for (const [stream, each] of Object.entries(values)) for (const [at, value] of each.entries()) rows.push([kind, `${stream} ${at} ${controller.props.session.streams[stream][at].text}`, value]);
  }
  for (const part of found.parts) rows.push(["direct logit attribution", partName(part), part.value]);
  return rows;
}

/** Words as boxes in lines, and below them the heads as a map. */
function drawing(controller: AttributionController, found: Attribution): Figure {
  const shapes: Figure["shapes"] = [];
  const write = (x: number, y: number, text: string, size: number) => shapes.push({ kind: "text", x, y, text, size, colour: INK });
  write(16, 24, `Why ${found.target.title}`, 18);
  const streams = Object.entries(controller.values(found)).map(([stream, values]) => controller.words(stream, values));
  const rough = controller.rough(found);
  const most = rough ? 1 : Math.max(...streams.flat().map((word) => Math.abs(word.value)), 1e-9);
  let [x, y] = [16, 50];
  for (const words of streams) {
    for (const word of words) {
      const text = visible(word.text);
      const value = rough ? "?" : signed(word.value);
      const width = Math.max(lengthOf(text, 14), lengthOf(value, 10)) + 14;
      if (x + width > WIDTH - 16) [x, y] = [16, y + 44];
      shapes.push({ kind: "rect", x, y, width: width - 4, height: 38, colour: rough ? "#eef0f2" : diverging((0.6 * word.value) / most, false) });
      write(x + 5, y + 13, text, 14);
      write(x + 5, y + 29, value, 10);
      x += width;
    }
    [x, y] = [16, y + 56];
  }
  const heads = found.parts.filter((part) => part.head !== null);
  const strongest = Math.max(...heads.map((part) => Math.abs(part.value)), 1e-9);
  let left = 60;
  for (const kind of new Set(heads.map((part) => part.kind))) {
    const own = heads.filter((part) => part.kind === kind);
    write(left, y + 8, `each ${kind}'s share: layers × heads`, 12);
    for (const part of own) shapes.push({ kind: "rect", x: left + part.head! * CELL, y: y + 20 + part.layer! * CELL, width: CELL - 1, height: CELL - 1, colour: diverging(part.value / strongest, false) });
    left += (Math.max(...own.map((part) => part.head!)) + 2) * CELL + 60;
  }
  const bottom = y + 20 + (Math.max(...heads.map((part) => part.layer!), 0) + 1) * CELL + 20;
  const { model, text_hash } = controller.props.session;
  write(16, bottom + 7, `${model.name} · ${model.revision} · text ${text_hash} · ${found.notes[0]}`, 10);
  return { width: WIDTH, height: bottom + 24, shapes };
}

export function useExports(controller: AttributionController): void {
  const { props } = controller;
  useSignalEffect(() => {
    const found = controller.found.value;
    if (!found) return props.exports(null);
    props.exports({
      name: "attribution",
      finding: () => controller.finding(found),
      png: () => toPng(drawing(controller, found), PAPER, SANS),
      svg: () => toSvg(drawing(controller, found), PAPER, SANS),
      table: () => tableOf(controller, found),
    });
    return () => props.exports(null);
  });
}
