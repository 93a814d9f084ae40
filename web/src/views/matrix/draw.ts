/** Drawing of the heat map: on a canvas, and as SVG. */

import { heatColour } from "../../core/palette";
import { scaleOf, type Size, type View } from "./geometry";
import { type Gutter, type Label, LEAN, type Scene } from "./layout";
import type { Patch } from "./tiles";

/** How strong cell borders are: faint where cells are small. */
const borders = ({ cell }: View) => Math.min(0.35, Math.max(cell.width, cell.height) / 80);

/** The page's colours and letters, read once where they change. */
export interface Ink {
  paper: string;
  panel: string;
  ink: string;
  soft: string;
  faint: string;
  line: string;
  accent: string;
  onAccent: string;
  font: string;
  dark: boolean;
}

export function inkOf(element: Element, dark: boolean): Ink {
  const style = getComputedStyle(element);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    paper: value("--paper"),
    panel: value("--panel"),
    ink: value("--ink"),
    soft: value("--ink-2"),
    faint: value("--ink-3"),
    line: value("--line"),
    accent: value("--accent"),
    onAccent: value("--accent-ink"),
    font: style.fontFamily,
    dark,
  };
}

const LABEL = 12;

/** Letters of the numbers in cells, in CSS pixels. */
const numberSize = (view: View) => Math.max(11, Math.min(14, Math.round(scaleOf(view) * 0.27)));

/** What is under a file's picture: the ends of the scale of colours, and lines of text. */
export interface Caption {
  scale: [string, string];
  lines: string[];
}

const ROW = 18;
const BAR = 160;

/** Room that a caption takes. */
export const below = ({ lines }: Caption) => 16 + ROW * (lines.length + 1);

/** Everything that stays while the pointer moves. The context is in CSS pixels, its origin the figure's corner. */
export function draw(pen: CanvasRenderingContext2D, size: Size, gutter: Gutter, view: View, patches: Patch[], scene: Scene, ink: Ink): void {
  pen.clearRect(0, 0, size.width, size.height);
  pen.save();
  pen.translate(gutter.left, gutter.top);
  pen.font = `${LABEL}px ${ink.font}`;
  pen.fillStyle = ink.soft;
  for (const label of scene.rows) rowLabel(pen, label);
  for (const label of scene.columns) columnLabel(pen, label);
  plot(pen, view, patches, scene, ink);
  pen.restore();
}

/** The heat map and what lies on it, the plot's corner at 0, 0. */
function plot(pen: CanvasRenderingContext2D, view: View, patches: Patch[], scene: Scene, ink: Ink): void {
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, scene.width, scene.height);
  pen.clip();
  pen.fillStyle = ink.panel;
  pen.fillRect(0, 0, scene.width, scene.height);
  heat(pen, view, patches);
  hatch(pen, scene, ink);
  pen.beginPath();
  for (const x of scene.across) pen.rect(Math.round(x) - 0.5, 0, 1, scene.height);
  for (const y of scene.down) pen.rect(0, Math.round(y) - 0.5, scene.width, 1);
  pen.fillStyle = ink.paper;
  pen.globalAlpha = borders(view);
  pen.fill();
  pen.globalAlpha = 1;
  pen.font = `${numberSize(view)}px ${ink.font}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  for (const { text, x, y, ink: colour } of scene.numbers) {
    pen.fillStyle = colour;
    pen.globalAlpha = text === ".00" ? 0.6 : 1; // many: they step back
    pen.fillText(text, x, y);
  }
  pen.restore();
  pen.strokeStyle = ink.line;
  pen.strokeRect(-0.5, -0.5, scene.width + 1, scene.height + 1);
}

/** The images alone, coarse ones first. */
export function heat(pen: CanvasRenderingContext2D, view: View, patches: Patch[]): void {
  pen.imageSmoothingEnabled = false;
  for (const { image, from, cells } of patches) {
    const left = (cells.left - view.x) * view.cell.width;
    const top = (cells.top - view.y) * view.cell.height;
    const [width, height] = [(cells.right - cells.left) * view.cell.width, (cells.bottom - cells.top) * view.cell.height];
    pen.drawImage(image, from.x, from.y, from.width, from.height, left, top, width, height);
  }
}

/** What the mask hides is paper with a fine hatch: not a probability of zero. */
function hatch(pen: CanvasRenderingContext2D, scene: Scene, ink: Ink): void {
  for (const outline of scene.hidden) {
    pen.save();
    pen.beginPath();
    for (const [x, y] of outline) pen.lineTo(x, y);
    pen.clip();
    pen.fillStyle = ink.paper;
    pen.fillRect(0, 0, scene.width, scene.height);
    pen.strokeStyle = ink.line;
    pen.beginPath();
    for (let x = -scene.height; x < scene.width; x += 8) {
      pen.moveTo(x, scene.height);
      pen.lineTo(x + scene.height, 0);
    }
    pen.stroke();
    pen.restore();
  }
}

export function rowLabel(pen: CanvasRenderingContext2D, { text, x, y }: Label): void {
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.fillText(text, x, y);
}

export function columnLabel(pen: CanvasRenderingContext2D, { text, x, y }: Label): void {
  pen.save();
  pen.translate(x, y);
  pen.rotate(LEAN);
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillText(text, 0, 0);
  pen.restore();
}

/** A label that stands out, on a plate of its own, for the row or column under the pointer. */
export function plate(pen: CanvasRenderingContext2D, label: Label, side: "row" | "column", ink: Ink): void {
  pen.save();
  pen.font = `600 ${LABEL}px ${ink.font}`;
  pen.translate(label.x, label.y);
  if (side === "column") pen.rotate(LEAN);
  const width = pen.measureText(label.text).width + 10;
  pen.fillStyle = ink.accent;
  pen.beginPath();
  pen.roundRect(side === "row" ? 5 - width : -5, -9, width, 18, 4);
  pen.fill();
  pen.fillStyle = ink.onAccent;
  pen.textAlign = side === "row" ? "right" : "left";
  pen.textBaseline = "middle";
  pen.fillText(label.text, 0, 0);
  pen.restore();
}

/** The caption, the pinned cell's frame and the ground of a PNG file. */
export function footer(pen: CanvasRenderingContext2D, size: Size, { pinned, width, height }: Scene, gutter: Gutter, { scale: [from, to], lines }: Caption, ink: Ink): void {
  if (pinned) {
    pen.save();
    pen.beginPath();
    pen.rect(gutter.left, gutter.top, width, height);
    pen.clip();
    for (const [line, colour] of [[4, ink.paper], [2, ink.accent]] as const) {
      pen.strokeStyle = colour;
      pen.lineWidth = line;
      pen.strokeRect(gutter.left + pinned.x, gutter.top + pinned.y, pinned.width, pinned.height);
    }
    pen.restore();
  }
  pen.font = `${LABEL}px ${ink.font}`;
  pen.textBaseline = "middle";
  pen.fillStyle = ink.soft;
  const y = size.height + 16;
  const left = 8 + pen.measureText(from).width + 8;
  pen.fillText(from, 8, y);
  pen.fillText(to, left + BAR + 8, y);
  lines.forEach((line, i) => pen.fillText(line, 8, y + ROW * (i + 1)));
  for (let i = 0; i < BAR; i++) {
    pen.fillStyle = `rgb(${heatColour(i / BAR, ink.dark).join(" ")})`;
    pen.fillRect(left + i, y - 5, 1, 10);
  }
  pen.globalCompositeOperation = "destination-over";
  pen.fillStyle = ink.paper;
  pen.fillRect(0, 0, size.width + 1, size.height + below({ scale: [from, to], lines }) + 1);
}

const escaped = (text: string) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
const at = (x: number) => String(Math.round(x * 100) / 100);

/** Labels, hatch, borders and numbers as vectors, over the heat map as an image; `caption` is below. */
export function svg(size: Size, gutter: Gutter, view: View, image: string, scene: Scene, ink: Ink, caption: Caption): string {
  const height = size.height + below(caption);
  const text = (x: number, y: number, anchor: string, colour: string, content: string, more = "") =>
    `<text x="${at(x)}" y="${at(y)}" dy="0.35em" text-anchor="${anchor}" fill="${escaped(colour)}"${more}>${escaped(content)}</text>`;
  const framed = ({ x, y, width, height }: { x: number; y: number } & Size, line: number, colour: string) =>
    `<rect clip-path="url(#plot)" x="${at(x)}" y="${at(y)}" width="${at(width)}" height="${at(height)}" fill="none" stroke="${escaped(colour)}" stroke-width="${line}"/>`;
  const rotation = (x: number, y: number) => ` transform="rotate(${at((LEAN * 180) / Math.PI)} ${at(x)} ${at(y)})"`;
  const edges = [
    ...scene.across.map((x) => `M${at(x)} 0V${at(scene.height)}`),
    ...scene.down.map((y) => `M0 ${at(y)}H${at(scene.width)}`),
  ].join("");
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${at(size.width)}" height="${at(height)}" viewBox="0 0 ${at(size.width)} ${at(height)}" font-family="${escaped(ink.font)}" font-size="${LABEL}">`,
    `<rect width="100%" height="100%" fill="${escaped(ink.paper)}"/>`,
    `<defs><pattern id="hidden" width="8" height="8" patternUnits="userSpaceOnUse"><path d="M0 8L8 0" stroke="${escaped(ink.line)}"/></pattern>` +
      `<linearGradient id="scale">${[0, 0.25, 0.5, 0.75, 1].map((t) => `<stop offset="${t}" stop-color="rgb(${heatColour(t, ink.dark).join(",")})"/>`).join("")}</linearGradient>` +
      `<clipPath id="plot"><rect width="${at(scene.width)}" height="${at(scene.height)}"/></clipPath></defs>`,
    `<g transform="translate(${gutter.left} ${gutter.top})">`,
    ...scene.rows.map((label) => text(label.x, label.y, "end", ink.soft, label.text)),
    ...scene.columns.map((label) => text(label.x, label.y, "start", ink.soft, label.text, rotation(label.x, label.y))),
    `<g clip-path="url(#plot)">`,
    `<image width="${at(scene.width)}" height="${at(scene.height)}" href="${image}" style="image-rendering:pixelated"/>`,
    ...scene.hidden.map((outline) => {
      const points = outline.map(([x, y]) => `${at(x)},${at(y)}`).join(" ");
      return `<polygon points="${points}" fill="${escaped(ink.paper)}"/><polygon points="${points}" fill="url(#hidden)"/>`;
    }),
    `<path d="${edges}" stroke="${escaped(ink.paper)}" stroke-opacity="${at(borders(view))}"/>`,
    ...scene.numbers.map((cell) => text(cell.x, cell.y, "middle", cell.ink, cell.text, ` font-size="${numberSize(view)}"`)),
    ...(scene.pinned ? [framed(scene.pinned, 4, ink.paper), framed(scene.pinned, 2, ink.accent)] : []),
    `</g><rect width="${at(scene.width)}" height="${at(scene.height)}" fill="none" stroke="${escaped(ink.line)}"/></g>`,
    `<rect x="28" y="${at(size.height + 11)}" width="${BAR}" height="10" fill="url(#scale)"/>`,
    text(8, size.height + 16, "start", ink.soft, caption.scale[0]),
    text(36 + BAR, size.height + 16, "start", ink.soft, caption.scale[1]),
    ...caption.lines.map((line, i) => text(8, size.height + 16 + ROW * (i + 1), "start", ink.soft, line)),
    `</svg>`,
  ].join("\n");
}
