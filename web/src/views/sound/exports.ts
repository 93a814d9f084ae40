/** Exports of the sound view: words, spectrogram and attention of the part on screen as SVG and PNG; all words as a table. */

import { clock, number } from "../../core/format";
import type { Exports } from "../../core/types";
import { type Figure, toPng, toSvg } from "../../core/figure";
import { headName } from "./heads";
import { wordRows } from "./panels";
import type { Player } from "./player";

const [MARGIN, WIDTH, MEL, ROW, LANES, LANE] = [24, 1200, 130, 18, 3, 18];

/** `told`: what the page opens with, as long as no word is chosen. */
export function exportsOf(player: Player, host: () => Element, told?: string): Exports {
  const style = () => getComputedStyle(host());
  const colour = (name: string) => style().getPropertyValue(name).trim();
  const figure = () => figureOf(player, host(), colour);
  return {
    get name() {
      return `sound-${player.transcript.name.replace(/\.\w+$/, "")}`;
    },
    location: "transcript",
    finding: () => {
      const { words } = player.transcript;
      const at = player.word.peek();
      if (at === null) return words.length ? told ?? `“${player.transcript.text.slice(0, 160)}”` : "No speech was heard.";
      return `“${words[at].word.trim()}” was heard from ${clock(words[at].start)} to ${clock(words[at].end)}, with probability ${number(words[at].probability, 3)}`;
    },
    png: () => toPng(figure(), colour("--panel"), style().fontFamily),
    svg: () => toSvg(figure(), colour("--panel"), style().fontFamily),
    table: () => wordRows(player.transcript),
  };
}

function figureOf(player: Player, host: Element, colour: (name: string) => string): Figure {
  const { transcript } = player;
  const [ink, soft, accent, path] = ["--ink", "--ink-2", "--accent", "--path"].map(colour);
  const stretch = player.stretches[player.stretch.peek()];
  const scale = WIDTH / Math.max(stretch.end - stretch.start, 0.1);
  const x = (time: number) => MARGIN + (time - stretch.start) * scale;
  const shapes: Figure["shapes"] = [];
  let y = MARGIN;
  transcript.words.filter(({ start }) => start >= stretch.start - 1e-6 && start < stretch.end).forEach(({ word, start }, at) => {
    const lane = at % LANES;
    shapes.push({ kind: "text", x: x(start), y: y + lane * LANE + 8, text: word.trim(), colour: ink });
    shapes.push({ kind: "rect", x: x(start), y: y + lane * LANE + 16, width: 1, height: (LANES - lane) * LANE - 14, colour: soft });
  });
  y += LANES * LANE + 4;
  const mel = host.querySelector<HTMLCanvasElement>(".sound-mel");
  if (mel) shapes.push({ kind: "image", x: MARGIN, y, width: WIDTH, height: MEL, canvas: mel });
  y += MEL + 4;
  for (let time = Math.ceil(stretch.start); time < stretch.end; time += stretch.end - stretch.start > 16 ? 5 : 1) {
    shapes.push({ kind: "text", x: x(time), y: y + 8, text: clock(time, 0), colour: soft });
  }
  y += 24;
  const alignment = player.alignment.peek();
  const weights = host.querySelector<HTMLCanvasElement>(".sound-weights");
  const head = Math.min(player.head.peek(), (alignment?.heads.length ?? 1) - 1);
  if (alignment && weights) {
    const { paths, texts, begin, rate, heads } = alignment;
    shapes.push({ kind: "image", x: x(begin), y, width: (heads[head].width / rate) * scale, height: texts.length * ROW, canvas: weights });
    texts.forEach((text, at) => {
      const [from, to] = [x(paths[head][at]), x(paths[head][at + 1])];
      shapes.push({ kind: "rect", x: from, y: y + (at + 0.5) * ROW - 1, width: Math.max(to - from, 1), height: 2, colour: path });
      shapes.push({ kind: "rect", x: to - 1, y: y + (at + 0.5) * ROW, width: 2, height: ROW, colour: path });
      const before = from > MARGIN + 8 * text.length;
      shapes.push({ kind: "text", x: before ? from - 6 : to + 6, y: y + (at + 0.5) * ROW, text, colour: ink, end: before });
    });
    y += texts.length * ROW + 16;
    const pairs = transcript.heads!.pairs;
    shapes.push({ kind: "text", x: MARGIN, y, text: `cross-attention: ${head ? headName(pairs[head - 1]) : `the mean of ${pairs.length} alignment heads`}`, colour: accent });
    y += 20;
  }
  const { name, revision, dtype } = transcript.model;
  shapes.push({ kind: "text", x: MARGIN, y, text: `${transcript.name} · ${name} · ${revision} · ${dtype}`, colour: soft });
  return { width: WIDTH + 2 * MARGIN, height: y + MARGIN, shapes };
}
