/** Figures: shapes that are painted on a canvas, or written as SVG or PNG. */

/** Text is with its middle at y and begins at x, ends there (`end`), or has its middle there (`middle`). */
interface Text {
  kind: "text";
  x: number;
  y: number;
  text: string;
  colour: string;
  size?: number;
  end?: boolean;
  middle?: boolean;
  strong?: boolean;
  /** Is it written upwards? */
  upwards?: boolean;
}

type Shape =
  | { kind: "rect"; x: number; y: number; width: number; height: number; colour: string }
  | { kind: "image"; x: number; y: number; width: number; height: number; canvas: HTMLCanvasElement; colour?: string }
  | { kind: "path"; d: string; x: number; y: number; colour: string; filled?: boolean }
  | Text;

export interface Figure {
  width: number;
  height: number;
  shapes: Shape[];
}

const SIZE = 13;
/** What a figure is drawn on, and its letters, where it does not follow the page. */
export const PAPER = "#fff";
export const SANS = "Inter, ui-sans-serif, system-ui, sans-serif";

/** At most this many pixels of a line of text, from its letters: capitals are wider than others, and signs of East Asia square. */
export const lengthOf = (text: string, size = SIZE): number =>
  size * Array.from(text).reduce((sum, letter) => sum + (letter >= "\u2e80" ? 1.05 : /[A-Z@%&mw—…]/.test(letter) ? 0.85 : 0.58), 0);

/** A text, or so much of its beginning that it fits into this many pixels. */
export function fitted(text: string, room: number, size = SIZE): string {
  if (lengthOf(text, size) <= room) return text;
  const letters = Array.from(text);
  while (letters.length > 1 && lengthOf(`${letters.join("")}…`, size) > room) letters.pop();
  return `${letters.join("")}…`;
}

/** A text in lines of so many pixels, between its words. */
export function inLines(text: string, room: number, size = SIZE): string[] {
  const written = [""];
  for (const word of text.split(" ")) {
    const longer = `${written.at(-1)} ${word}`.trim();
    if (lengthOf(longer, size) <= room) written[written.length - 1] = longer;
    else written.push(word);
  }
  return written.filter(Boolean);
}

const escaped = (text: string) => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
const at = (x: number) => String(Math.round(x * 100) / 100);

export function toSvg({ width, height, shapes }: Figure, paper: string, font: string): string {
  const elements = shapes.map((shape) =>
    shape.kind === "rect"
      ? `<rect x="${at(shape.x)}" y="${at(shape.y)}" width="${at(shape.width)}" height="${at(shape.height)}" fill="${escaped(shape.colour)}"/>`
      : shape.kind === "image"
      ? `<image x="${at(shape.x)}" y="${at(shape.y)}" width="${at(shape.width)}" height="${at(shape.height)}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${shape.canvas.toDataURL()}"/>`
      : shape.kind === "path"
      ? `<path d="${shape.d}" transform="translate(${at(shape.x)} ${at(shape.y)})" ${shape.filled ? `fill="${escaped(shape.colour)}"` : `fill="none" stroke="${escaped(shape.colour)}"`} shape-rendering="auto"/>`
      : `<text x="${at(shape.x)}" y="${at(shape.y)}" dy="0.35em" fill="${escaped(shape.colour)}"${shape.size ? ` font-size="${shape.size}"` : ""}${shape.end || shape.middle ? ` text-anchor="${shape.end ? "end" : "middle"}"` : ""}${shape.strong ? ' font-weight="600"' : ""}${shape.upwards ? ` transform="rotate(-90 ${at(shape.x)} ${at(shape.y)})"` : ""}>${escaped(shape.text)}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${at(width)}" height="${at(height)}" viewBox="0 0 ${at(width)} ${at(height)}" font-family="${escaped(font)}" font-size="${SIZE}" shape-rendering="crispEdges">`,
    `<rect width="100%" height="100%" fill="${escaped(paper)}"/>`,
    ...elements,
    "</svg>",
  ].join("\n");
}

export function toPng({ width, height, shapes }: Figure, paper: string, font: string): Promise<Blob> {
  const canvas = new OffscreenCanvas(Math.ceil(2 * width), Math.ceil(2 * height));
  const pen = canvas.getContext("2d")!;
  pen.fillStyle = paper;
  pen.fillRect(0, 0, canvas.width, canvas.height); // whole pixels: no edge is clear
  pen.scale(2, 2);
  paint(pen, shapes, font);
  return canvas.convertToBlob({ type: "image/png" });
}

/** Draw the shapes of a figure. */
export function paint(pen: CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D, shapes: Shape[], font: string): void {
  pen.textBaseline = "middle";
  for (const shape of shapes) {
    if (shape.kind === "image") {
      pen.imageSmoothingEnabled = false;
      pen.drawImage(shape.canvas, shape.x, shape.y, shape.width, shape.height);
      continue;
    }
    pen.fillStyle = pen.strokeStyle = shape.colour;
    if (shape.kind === "path") {
      pen.translate(shape.x, shape.y);
      if (shape.filled) pen.fill(new Path2D(shape.d));
      else pen.stroke(new Path2D(shape.d));
      pen.translate(-shape.x, -shape.y);
    } else if (shape.kind === "rect") pen.fillRect(shape.x, shape.y, shape.width, shape.height);
    else {
      pen.font = `${shape.strong ? "600 " : ""}${shape.size ?? SIZE}px ${font}`;
      pen.textAlign = shape.end ? "right" : shape.middle ? "center" : "left";
      pen.save();
      pen.translate(shape.x, shape.y);
      if (shape.upwards) pen.rotate(-Math.PI / 2);
      pen.fillText(shape.text, 0, 0);
      pen.restore();
    }
  }
}
