/**
 * Scene graph of the head view: curves between tokens, bars behind tokens, a stub for what is not drawn.
 *
 * A scene is plain numbers; it is drawn on a canvas, on screen or for a file, and written as SVG, from the same numbers.
 */

import { percent } from "../../core/format";
import { type Column, middle } from "./columns";
import type { Link } from "./links";

export interface Curve {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
  colour: string;
  /** 0 to 1 */
  alpha: number;
  width: number;
  /** It leaves the picture: −1 above, 1 below, 0 not at all. */
  leaves: -1 | 0 | 1;
}

export interface Bar {
  x: number;
  y: number;
  width: number;
  height: number;
  colour: string;
}

export interface Words {
  x: number;
  y: number;
  text: string;
  colour: string;
  size: number;
  align: "left" | "right" | "center";
  mono?: boolean;
  /** A rim in this colour, so that it can be read on lines. */
  rim?: string;
}

export interface Scene {
  width: number;
  height: number;
  curves: Curve[];
  bars: Bar[];
  words: Words[];
}

/** Where things are: the part of the columns on screen, and the free space between them. */
export interface Viewport {
  width: number;
  height: number;
  /** How far the columns are scrolled. */
  top: number;
  /** The inner edges of the two columns. */
  left: number;
  right: number;
  queries: Column;
  keys: Column;
}

/** The longest a stub is, where nothing of a query is drawn. */
const STUB = 34;
/** How far apart, at most, the lines of two maps between the same tokens run. */
const SPREAD = 1.8;
/** How opaque a line is: many faint ones must not cover the strong. */
const OPACITY: Record<Emphasis, (prob: number) => number> = {
  all: (prob) => 0.1 + 0.9 * prob ** 0.75,
  alone: (prob) => 0.2 + 0.8 * prob ** 0.5,
  front: (prob) => 0.85 + 0.15 * prob,
  back: (prob) => 0.05 + 0.2 * prob,
};
const thickness = (prob: number) => 0.7 + 3.3 * prob;
/** How wide the link looked at is at least. */
const LEAST = 1.8;

/** How a link is drawn: its place among the maps that share a pair, and whether it stands back or out. */
export interface CurveStyle {
  lane: number;
  colour: string;
  stress: Emphasis;
}

/** Among all lines, alone with those of one token, the one link that is looked at, or behind it. */
export type Emphasis = "all" | "alone" | "front" | "back";

/** A curve for each link; those to tokens that are not on screen run off the edge. `lanes`: how many maps share a pair. */
export function curvesOf(frame: Viewport, links: Link[], lanes: number, look: (link: Link) => CurveStyle): Curve[] {
  const curves: Curve[] = [];
  const spread = Math.min(SPREAD, (0.55 * frame.queries.rowHeight) / lanes);
  const span = frame.right - frame.left;
  for (const link of links) {
    const from = middle(frame.queries, link.query);
    const to = middle(frame.keys, link.key);
    if (from === null || to === null) continue;
    const { lane, colour, stress } = look(link);
    const alpha = OPACITY[stress](link.prob);
    const width = Math.max(thickness(link.prob), stress === "front" ? LEAST : 0);
    const aside = (lane - (lanes - 1) / 2) * spread;
    const curve: Curve = { x0: frame.left, y0: from - frame.top + aside, x1: frame.right, y1: to - frame.top + aside, colour, alpha, width, leaves: 0 };
    if (curve.y1 < 0 || curve.y1 > frame.height) {
      // The farther the token, the nearer to the column that looks does its line leave.
      const beyond = (curve.y1 < 0 ? -curve.y1 : curve.y1 - frame.height) / frame.height;
      curve.leaves = curve.y1 < 0 ? -1 : 1;
      curve.x1 = frame.left + span * (0.35 + 0.55 / (1 + beyond)) + aside;
      curve.y1 = curve.leaves < 0 ? 7 : frame.height - 7;
    }
    if (curve.y0 < 0 || curve.y0 > frame.height) {
      const above = curve.y0 < 0;
      if (curve.leaves === (above ? -1 : 1)) continue; // both its tokens are on the same side of the screen
      curve.x0 = frame.left + span * 0.1 + aside;
      curve.y0 = above ? 0 : frame.height;
    }
    curves.push(curve);
  }
  return curves;
}

/** Bars behind a token, one a head, one below the other: as long as the head's probability. `edge` is where they begin. */
export function barsOf(column: Column, token: number, shares: { colour: string; prob: number }[], top: number, edge: number, length: number): Bar[] {
  const centre = middle(column, token);
  if (centre === null) return [];
  const height = (column.rowHeight - 4) / shares.length;
  const start = centre - top - (column.rowHeight - 4) / 2;
  return shares.map(({ colour, prob }, i) => {
    const width = Math.abs(length) * prob;
    return { x: length < 0 ? edge - width : edge, y: start + i * height, width, height: Math.max(height - (height > 3 ? 1 : 0), 0.75), colour };
  });
}

/** The grey mark at a query: as long as what of it is not drawn; a label makes it stand out. It is where fewer lines are. */
export function stubOf(frame: Viewport, query: number, other: number, look: { colour: string; rim: string; label: boolean; links: Link[] }): { curves: Curve[]; words: Words[] } {
  const row = middle(frame.queries, query);
  if (row === null || other < 0.0005) return { curves: [], words: [] };
  const down = look.links.reduce((sum, { query: from, key, prob }) => sum + (from === query ? prob * Math.sign((middle(frame.keys, key) ?? row) - row) : 0), 0);
  const y = row - frame.top + (down > 0 ? -0.36 : 0.36) * frame.queries.rowHeight;
  const end = frame.left + STUB * Math.min(other, 1);
  const { colour, rim, label } = look;
  const stub: Curve = { x0: frame.left, y0: y, x1: end, y1: y, colour, alpha: label ? 1 : 0.35, width: label ? 4 : 2, leaves: 0 };
  const words: Words[] = label ? [{ x: end + 8, y, text: `other: ${percent(other)}`, colour, size: 12, align: "left", rim }] : [];
  return { curves: [stub], words };
}

/** Draw a scene; faint curves lie below strong ones. Curves similar in colour and strength are one stroke. */
export function draw(context: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D, scene: Scene, fonts: { sans: string; mono: string }): void {
  for (const bar of scene.bars) {
    context.fillStyle = bar.colour;
    context.globalAlpha = BAR_ALPHA;
    context.fillRect(bar.x, bar.y, bar.width, bar.height);
  }
  context.lineCap = "round";
  for (const group of grouped(scene.curves)) {
    const [{ colour, alpha, width }] = group;
    context.globalAlpha = alpha;
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = width;
    context.beginPath();
    for (const curve of group) {
      const bend = (curve.x0 + curve.x1) / 2;
      context.moveTo(curve.x0, curve.y0);
      context.bezierCurveTo(curve.leaves ? curve.x1 : bend, curve.y0, curve.leaves ? curve.x1 : bend, curve.y1, curve.x1, curve.y1);
    }
    context.stroke();
    context.beginPath();
    for (const { x1, y1, leaves } of group) {
      if (!leaves) continue;
      context.moveTo(x1 - 3.5, y1);
      context.lineTo(x1 + 3.5, y1);
      context.lineTo(x1, y1 + 6 * leaves);
    }
    context.fill();
  }
  context.globalAlpha = 1;
  context.textBaseline = "middle";
  for (const { x, y, text, colour, size, align, mono, rim } of scene.words) {
    context.font = `${size}px ${mono ? fonts.mono : fonts.sans}`;
    context.textAlign = align;
    if (rim) {
      context.strokeStyle = rim;
      context.lineWidth = RIM;
      context.lineJoin = "round";
      context.strokeText(text, x, y);
    }
    context.fillStyle = colour;
    context.fillText(text, x, y);
  }
}

const BAR_ALPHA = 0.3;
const RIM = 4;
/** Steps of opacity on the canvas: more than an eye tells apart. */
const STEPS = 24;

function grouped(curves: Curve[]): Curve[][] {
  const groups = new Map<string, Curve[]>();
  for (const curve of curves) {
    const step = Math.round(curve.alpha * STEPS);
    const key = `${String(step).padStart(2, "0")} ${curve.width.toFixed(0)} ${curve.colour}`;
    const group = groups.get(key);
    if (group) group.push(curve);
    else groups.set(key, [curve]);
  }
  return [...groups.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, group]) => group);
}

/** A scene as an SVG file: paths and text. */
export function svg(scene: Scene, background: string, fonts: { sans: string; mono: string }): string {
  const n = (value: number) => String(Math.round(value * 100) / 100);
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${n(scene.width)}" height="${n(scene.height)}" viewBox="0 0 ${n(scene.width)} ${n(scene.height)}">`,
    `<rect width="100%" height="100%" fill="${escaped(background)}"/>`,
    ...scene.bars.map((bar) => `<rect x="${n(bar.x)}" y="${n(bar.y)}" width="${n(bar.width)}" height="${n(bar.height)}" fill="${escaped(bar.colour)}" fill-opacity="${BAR_ALPHA}"/>`),
    `<g fill="none" stroke-linecap="round">`,
    ...[...scene.curves].sort((a, b) => a.alpha - b.alpha).map(({ x0, y0, x1, y1, colour, alpha, width, leaves }) => {
      const bend = n(leaves ? x1 : (x0 + x1) / 2);
      const arrow = leaves ? `M${n(x1 - 3.5)} ${n(y1)}h7L${n(x1)} ${n(y1 + 6 * leaves)}z` : "";
      return `<path d="M${n(x0)} ${n(y0)}C${bend} ${n(y0)} ${bend} ${n(y1)} ${n(x1)} ${n(y1)}${arrow}" stroke="${escaped(colour)}" stroke-opacity="${n(alpha)}" stroke-width="${n(width)}"/>`;
    }),
    "</g>",
    ...scene.words.map(({ x, y, text, colour, size, align, mono, rim }) => {
      const anchor = { left: "start", right: "end", center: "middle" }[align];
      const family = escaped(mono ? fonts.mono : fonts.sans);
      const edge = rim ? ` stroke="${escaped(rim)}" stroke-width="${RIM}" stroke-linejoin="round" paint-order="stroke"` : "";
      return `<text x="${n(x)}" y="${n(y)}" fill="${escaped(colour)}"${edge} font-size="${size}" font-family="${family}" text-anchor="${anchor}" dominant-baseline="central" xml:space="preserve">${escaped(text)}</text>`;
    }),
    "</svg>",
  ];
  return parts.join("\n");
}

/** A token may be `<script>`, or hold a control character that no XML file may. */
function escaped(text: string): string {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd")
    .replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");
}
