/** Layout of the head view: from the controller to a scene; on screen without the tokens (they are DOM elements), in a file with them. */

import { percent, visible } from "../../core/format";
import { between, middle } from "./columns";
import type { HeadController, Side } from "./head-controller";
import { type Viewport, type Scene, type Words, barsOf, curvesOf, stubOf } from "./scene";

/** Colours and type, as the page has them now. */
export interface Theme {
  panel: string;
  ink: string;
  ink2: string;
  ink3: string;
  accent: string;
  sans: string;
  mono: string;
}

export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return { panel: of("--panel"), ink: of("--ink"), ink2: of("--ink-2"), ink3: of("--ink-3"), accent: of("--accent"), sans: of("--sans"), mono: of("--mono") };
}

/** How wide the two columns are: enough for words, and for numbers on a wide screen. */
export function columnWidth(width: number): number {
  return Math.round(Math.min(Math.max(width * 0.25, 96), 220));
}

/** Free space between a token and the lines. */
const INSET = 4;
/** Free space around a token. */
const PADDING = 7;

export function frameOf(controller: HeadController): Viewport {
  const { width, height } = controller.size.value;
  const column = columnWidth(width);
  return { width, height, top: controller.scroll.value, left: column + INSET, right: width - column - INSET, queries: controller.queries.value, keys: controller.keys.value };
}

/** Lines, bars and stubs of what is on screen. */
export function sceneOf(controller: HeadController, theme: Theme): Scene {
  const frame = frameOf(controller);
  const [query, key] = [controller.query.value, controller.key.value];
  const preview = controller.preview.value;
  const lanes = controller.lanes.value;
  const scene: Scene = { width: frame.width, height: frame.height, curves: [], bars: [], words: [] };
  const colourAt = (lane: number) => controller.colour(controller.mixed.value ? null : ([...lanes.keys()][lane] ?? 0), theme.accent);

  const shares = controller.shares.value;
  if (shares) {
    const column = shares.side === "key" ? frame.keys : frame.queries;
    const [edge, length] = shares.side === "key" ? [frame.right + INSET, columnWidth(frame.width)] : [frame.left - INSET, -columnWidth(frame.width)];
    const [first, end] = between(column, frame.top, frame.top + frame.height);
    for (const token of column.tokens.slice(first, end)) {
      const visible = (shares.of.get(token) ?? []).filter(({ prob }) => prob >= 0.001);
      scene.bars.push(...barsOf(column, token, visible.map(({ lane, prob }) => ({ colour: colourAt(lane), prob })), frame.top, edge, length));
    }
  }
  const marked = query === null ? controller.onScreen.value : [query];
  if (query !== null || key === null) {
    for (const token of marked) {
      const { curves, words } = stubOf(frame, token, controller.leftOut(token), { colour: theme.ink3, rim: theme.panel, label: token === query, links: controller.visibleLinks.value.links });
      scene.curves.push(...curves);
      scene.words.push(...words);
    }
  }
  const links = curvesOf(frame, controller.visibleLinks.value.links, lanes.size, (link) => {
    const head = controller.headOf(link);
    const back = (preview !== null && head !== preview) || (query !== null && key !== null && link.key !== key);
    const stress = back ? "back" : query !== null && key !== null ? "front" : query !== null || key !== null ? "alone" : "all";
    return { lane: lanes.get(head ?? 0) ?? 0, colour: controller.colour(head, theme.accent), stress };
  });
  scene.curves.push(...links);
  return scene;
}

/** The same with the tokens and a line that says what it shows, for a file. */
export function pageOf(controller: HeadController, theme: Theme): Scene {
  return controller.inPicture(() => wholeOf(controller, theme));
}

function wholeOf(controller: HeadController, theme: Theme): Scene {
  const scene = sceneOf(controller, theme);
  const frame = frameOf(controller);
  const lines = captionOf(controller), [first, end] = between(frame.queries, frame.top, frame.top + frame.height);
  if (end - first < frame.queries.tokens.length) lines[0] += ` · tokens ${first} to ${end - 1} of ${frame.queries.tokens.length}`;
  const caption: Words[] = lines.map((text, line) => ({ x: 0, y: 16 * line, text, colour: theme.ink3, size: 11, align: "left" }));
  const legend = legendOf(controller, frame.width, theme.accent);
  const below = [...legend, ...caption.map((word) => ({ ...word, y: word.y + (legend.length ? legend[legend.length - 1].y + 24 : 0) }))];
  const { queries, keys } = controller.map.value;
  const title = (text: string, x: number, align: Words["align"]): Words => ({ x, y: -20, text, colour: theme.ink3, size: 12, align });
  const shares = controller.shares.value;
  const words: Words[] = [
    ...scene.words,
    ...tokenWords(controller, frame, "query", theme),
    ...tokenWords(controller, frame, "key", theme),
    title(queries === keys ? "from" : `from ${queries}`, frame.left - INSET - PADDING, "right"),
    title(queries === keys ? "to" : `to ${keys}`, frame.right + INSET + PADDING, "left"),
    ...(shares ? [title(controller.subject.value, shares.side === "key" ? frame.width : 0, shares.side === "key" ? "right" : "left")] : []),
    ...below.map((word) => ({ ...word, y: word.y + frame.height + 22 })),
  ];
  const [above, foot, side] = [40, below[below.length - 1].y + 40, 24];
  const shift = { x: side, y: above };
  return {
    width: scene.width + 2 * side,
    height: scene.height + above + foot,
    curves: scene.curves.map((curve) => ({ ...curve, x0: curve.x0 + shift.x, x1: curve.x1 + shift.x, y0: curve.y0 + shift.y, y1: curve.y1 + shift.y })),
    bars: scene.bars.map((bar) => ({ ...bar, x: bar.x + shift.x, y: bar.y + shift.y })),
    words: words.map((word) => ({ ...word, x: word.x + shift.x, y: word.y + shift.y })),
  };
}

/** The heads by name, each in its colour; none where they are mixed. */
function legendOf(controller: HeadController, width: number, accent: string): Words[] {
  if (controller.mixed.value) return [];
  const [across, down] = [60, 17];
  const row = Math.max(Math.floor(width / across), 1);
  const heads = [...controller.request.value.heads].sort((a, b) => a - b);
  return heads.map((head, at) => ({ x: across * (at % row), y: down * Math.floor(at / row), text: `head ${head}`, colour: controller.colour(head, accent), size: 13, align: "left" }));
}

function tokenWords(controller: HeadController, frame: Viewport, side: Side, theme: Theme): Words[] {
  const [column, tokens] = side === "query" ? [frame.queries, controller.queryTokens.value] : [frame.keys, controller.keyTokens.value];
  const [edge, align, outer] = side === "query" ? ([frame.left - INSET - PADDING, "right", 0] as const) : ([frame.right + INSET + PADDING, "left", frame.width] as const);
  const [first, end] = between(column, frame.top, frame.top + frame.height);
  const size = column.rowHeight >= 28 ? 15 : 13;
  const words: Words[] = column.marks.map(({ top, letter }) => ({ x: edge, y: top + 0.45 * column.rowHeight - frame.top, text: letter, colour: theme.ink3, size: 11, align }));
  for (const index of column.tokens.slice(first, end)) {
    const y = (middle(column, index) ?? 0) - frame.top;
    const token = tokens[index];
    words.push({ x: edge, y, text: visible(token.text), colour: token.special ? theme.ink3 : theme.ink, size, align });
    const prob = controller.shares.value?.side === side ? controller.numberAt(side, index) : null;
    if (prob !== null) words.push({ x: outer, y, text: percent(prob), colour: theme.ink2, size: 11, align: side === "query" ? "left" : "right", mono: true });
  }
  return words.filter(({ y }) => y > 0 && y < frame.height);
}

/** What is shown, of which model and text, and what is left out. */
export function captionOf(controller: HeadController): string[] {
  const { layers, heads, mix } = controller.request.value;
  const { model, text_hash } = controller.session;
  const which = `${layers[0] === layers[1] ? `layer ${layers[0]}` : `layers ${layers[0]}–${layers[1]}`}, ${heads.length === 1 ? "head" : "heads"} ${heads.join(", ")}`;
  const how = controller.mixed.value ? ` (${mix} of all)` : "";
  const threshold = controller.threshold.value > 0 ? ` · lines below ${percent(controller.threshold.value)} hidden` : "";
  return [`${controller.map.value.title} · ${which}${how}${threshold}`, `${model.name} · ${model.revision} · ${model.dtype} · text ${text_hash}`];
}

/** The links on screen as a table; of a query that is looked at, everything that is listed, and what is not. */
export function tableOf(controller: HeadController): (string | number)[][] {
  const query = controller.query.value;
  const links = query === null ? [...controller.visibleLinks.value.links].reverse() : controller.listed(query);
  const rows = links.map((link): (string | number)[] => {
    const [layer, head] = controller.members.value[link.lane] ?? [controller.request.value.layers.join("–"), controller.request.value.mix];
    return [layer, head, link.query, visible(controller.queryTokens.value[link.query].text), link.key, visible(controller.keyTokens.value[link.key].text), link.prob];
  });
  if (query !== null && links.length) rows.push(["", "", query, visible(controller.queryTokens.value[query].text), "", "other", controller.otherOf(query)]);
  return [["layer", "head", "from", "from token", "to", "to token", "probability"], ...rows];
}
