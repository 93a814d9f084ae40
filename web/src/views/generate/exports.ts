/** Exports of the generation view: text, distribution and token tree as SVG and PNG. */

import { number, percent, plural, visible } from "../../core/format";
import type { Exports } from "../../core/types";
import { type Figure, toPng, toSvg } from "../../core/figure";
import { bandsOf, drawing, edge, HEIGHT, LETTER, type PlacedNode } from "./tree-figure";
import type { GenerationStore } from "./generation-store";
import { parts } from "./token-text";
import { logprobColour, MARKS, markText } from "./token-colours";
import { tableOf } from "./table";

const [WIDTH, MARGIN, LINE] = [1000, 24, 30];
/** Between bands of steps; and for the score after a last token. */
const [BETWEEN, END] = [16, 80];

export function exportsOf(store: GenerationStore, host: () => Element): Exports {
  const style = () => getComputedStyle(host());
  const paper = () => style().getPropertyValue("--panel").trim();
  const mono = () => style().getPropertyValue("--mono").trim();
  return {
    get name() {
      return `generation-${store.trace.peek()?.id ?? "empty"}`;
    },
    get location() {
      const [trace, leaf] = [store.trace.peek(), store.path.peek().at(-1)];
      return trace && leaf ? { w: trace.id, node: leaf.id } : undefined;
    },
    finding: () => {
      const path = store.path.value;
      if (!path.length) return "Nothing is written yet.";
      const least = path.reduce((a, b) => (b.logprob < a.logprob ? b : a));
      const perplexity = Math.exp(-path.reduce((sum, { logprob }) => sum + logprob, 0) / path.length);
      return `${store.props.session.model.name} wrote ${plural(path.length, "token")} with a perplexity of ${number(perplexity, 3)}; least likely was “${visible(least.text || least.piece)}”, ${percent(Math.exp(least.logprob))}.`;
    },
    png: () => toPng(treeFigureOf(store, style()), paper(), mono()),
    svg: () => toSvg(treeFigureOf(store, style()), paper(), mono()),
    table: () => tableOf(store),
  };
}

function treeFigureOf(store: GenerationStore, style: CSSStyleDeclaration): Figure {
  const [ink, soft, accent] = ["--ink", "--ink-2", "--accent"].map((name) => style.getPropertyValue(name).trim());
  const dark = store.props.dark.peek();
  const shapes: Figure["shapes"] = [];
  let [x, y] = [MARGIN, MARGIN];
  const word = (text: string, fill: string | null, colour: string) => {
    const width = text.length * LETTER + 6;
    if (x + width > WIDTH - MARGIN) [x, y] = [MARGIN, y + LINE];
    if (fill) shapes.push({ kind: "rect", x, y, width, height: HEIGHT, colour: fill });
    shapes.push({ kind: "text", x: x + 3, y: y + HEIGHT / 2, text, colour });
    x += width + 4;
  };
  for (const text of (store.trace.peek()?.prompt ?? "").split(/\s+/).filter(Boolean)) word(text, null, soft);
  for (const node of store.path.peek()) word(parts(node.text, node.piece, node.special).body, logprobColour(node.logprob, dark), ink);
  [x, y] = [MARGIN, y + LINE + 8];
  for (const mark of MARKS) word(markText(mark), logprobColour(Math.log(mark), dark), ink);
  y += LINE + 16;

  const tree = drawing(store), bands = bandsOf(tree.columns, tree.width, WIDTH - 2 * MARGIN - END);
  const inBand = (one: PlacedNode) => ({ ...one, x: one.x - bands[one.node.depth - 1].start, y: one.y + bands[one.node.depth - 1].band * (tree.height + BETWEEN) });
  for (const one of tree.placed.values()) {
    const here = inBand(one), before = tree.placed.get(one.node.parent), { node, text, x: left, y: middle, width, end, rank } = here;
    const broken = before && bands[before.node.depth - 1].band < bands[node.depth - 1].band; // its line begins at the edge of its band
    const from = before && (broken ? { x: 0, y: before.y + here.y - one.y, width: 4 } : inBand(before));
    shapes.push({ kind: "path", d: edge(from, here), x: MARGIN, y, colour: soft });
    shapes.push({ kind: "rect", x: MARGIN + left, y: y + middle - HEIGHT / 2, width, height: HEIGHT, colour: logprobColour(node.logprob, dark) });
    shapes.push({ kind: "text", x: MARGIN + left + 5, y: y + middle, text: text.slice(0, Math.floor((width - 8) / LETTER)), colour: ink });
    if (end) shapes.push({ kind: "text", x: MARGIN + left + width + 4, y: y + middle, text: `${rank}: ${number(end.score, 3)}`, colour: accent, strong: true });
  }
  y += ((bands.at(-1)?.band ?? 0) + 1) * (tree.height + BETWEEN);
  const selected = store.selectedNode;
  const choice = selected && store.tree.choices.get(selected.parent);
  if (selected && choice) {
    shapes.push({ kind: "text", x: MARGIN, y: y + 8, text: `step ${selected.depth}: ${parts(selected.text, selected.piece, selected.special).body}`, colour: ink, strong: true });
    y += 24;
    for (const { text, logprob } of choice.top) {
      shapes.push({ kind: "text", x: MARGIN + 130, y: y + 8, text: text.slice(0, 16), colour: ink, end: true });
      shapes.push({ kind: "rect", x: MARGIN + 140, y, width: 360 * Math.exp(logprob), height: 16, colour: accent });
      shapes.push({ kind: "text", x: MARGIN + 146 + 360 * Math.exp(logprob), y: y + 8, text: percent(Math.exp(logprob)), colour: soft });
      y += 20;
    }
    y += 12;
  }
  const { model, text_hash } = store.session;
  shapes.push({ kind: "text", x: MARGIN, y: y + 8, text: `${model.name} · ${model.revision} · ${model.dtype} · text ${text_hash}`, colour: soft });
  return { width: WIDTH, height: y + 32, shapes };
}
