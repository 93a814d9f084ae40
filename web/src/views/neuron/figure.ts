/** Figure of the neuron view for export. */

import type { Figure } from "../../core/figure";
import { number, visible } from "../../core/format";
import { largest, products, sum, whyHidden } from "./arithmetic";
import { cells, heightOf } from "./strip";
import type { Numbers, NeuronController } from "./neuron-controller";

const COLUMNS = { key: 8, k: 130, product: 350, dot: 640, score: 720, bar: 740, p: 900, v: 920 };
const STRIP = 200;

export function neuronFigure(controller: NeuronController, { row, k, v }: Numbers, caption: string[], element: Element): Figure {
  const style = getComputedStyle(element);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const [ink, soft, accent] = [colour("--ink"), colour("--ink-2"), colour("--accent")];
  const dark = controller.props.dark.value;
  const page = controller.page.value.filter((key) => k.has(key));
  const high = heightOf(row.q.length);
  const step = high + 6;
  const shapes: Figure["shapes"] = [];
  const text = (x: number, y: number, content: string, more: { colour?: string; end?: boolean; strong?: boolean } = {}) =>
    shapes.push({ kind: "text", x, y: y + high / 2, text: content, colour: ink, ...more });
  const strip = (x: number, y: number, values: Float32Array | Float64Array, most: number) => {
    for (const rect of cells(values, most, STRIP, high, dark)) shapes.push({ kind: "rect", ...rect, x: rect.x + x, y: rect.y + y });
  };
  const most = scales({ row, k, v }, page);
  let y = 4;
  text(COLUMNS.key, y, "key", { colour: soft });
  text(COLUMNS.k, y, "k", { colour: soft });
  text(COLUMNS.product, y, "q ∘ k", { colour: soft });
  text(COLUMNS.dot, y, "q · k", { colour: soft, end: true });
  text(COLUMNS.score, y, "score", { colour: soft, end: true });
  text(COLUMNS.p, y, "softmax", { colour: soft, end: true });
  text(COLUMNS.v, y, "v", { colour: soft });
  y += step;
  text(COLUMNS.key, y, `q: ${visible(controller.queries[row.query].text)}`, { colour: accent, strong: true });
  strip(COLUMNS.k, y, row.q, most.q);
  y += step;
  const top = Math.max(...row.probs) || 1;
  for (const key of page) {
    const parts = products(row.q, k.get(key)!);
    const hidden = whyHidden(controller.mask, controller.queries.length, controller.keys.length, row.query, key);
    text(COLUMNS.key, y, `${key} ${visible(controller.keys[key].text).slice(0, 14)}`, { colour: hidden ? soft : ink });
    strip(COLUMNS.k, y, k.get(key)!, most.k);
    strip(COLUMNS.product, y, parts, most.product);
    text(COLUMNS.dot, y, number(sum(parts)), { end: true, colour: hidden ? soft : ink });
    text(COLUMNS.score, y, hidden ? "hidden" : number(row.scores[key]), { end: true, colour: hidden ? soft : ink });
    shapes.push({ kind: "rect", x: COLUMNS.bar, y: y + high / 2 - 6, width: (90 * row.probs[key]) / top, height: 12, colour: accent });
    text(COLUMNS.p, y, hidden ?? number(row.probs[key]), { end: true, colour: hidden ? soft : ink });
    strip(COLUMNS.v, y, v.get(key)!, most.v);
    y += step;
  }
  text(COLUMNS.p, y, "z = Σ p · v", { end: true, strong: true });
  strip(COLUMNS.v, y, row.z, most.v);
  y += step + 4;
  for (const line of caption) {
    text(COLUMNS.key, y, line, { colour: soft });
    y += 18;
  }
  return { width: COLUMNS.v + STRIP + 8, height: y + high / 2, shapes };
}

/** The numbers with the strongest colours, the same for every key on screen. */
export function scales({ row, k, v }: Numbers, page: number[]): { q: number; k: number; product: number; v: number } {
  const most = { q: largest(row.q), k: 0, product: 0, v: largest(row.z) };
  for (const key of page) {
    const [at, value] = [k.get(key), v.get(key)];
    if (!at || !value) continue;
    most.k = Math.max(most.k, largest(at));
    most.product = Math.max(most.product, largest(products(row.q, at)));
    most.v = Math.max(most.v, largest(value));
  }
  return most;
}
