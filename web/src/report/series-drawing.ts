/** What a chart of series is made of: the same shapes are painted on its canvas and written as elements of an SVG. */

/** A line, an area or a mark by its path, or a text; in pixels of the chart. */
export type Shape =
  | { d: string; stroke?: string; fill?: string; width?: number; dash?: number[]; opacity?: number }
  | { text: string; x: number; y: number; colour: string; anchor?: "middle" | "end"; upwards?: boolean };

/** Paths of marks around a point, none of which is another: the second channel next to the colour of a line. */
const MARKS: ((x: number, y: number, r: number) => string)[] = [
  (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`,
  (x, y, r) => `M${x - 0.9 * r} ${y - 0.9 * r}h${1.8 * r}v${1.8 * r}h${-1.8 * r}z`,
  (x, y, r) => `M${x} ${y - 1.25 * r}l${1.2 * r} ${2.1 * r}h${-2.4 * r}z`,
  (x, y, r) => `M${x} ${y - 1.35 * r}l${1.2 * r} ${1.35 * r} ${-1.2 * r} ${1.35 * r} ${-1.2 * r} ${-1.35 * r}z`,
  (x, y, r) => `M${x} ${y + 1.25 * r}l${1.2 * r} ${-2.1 * r}h${-2.4 * r}z`,
];
/** Of lines that share a colour: the first eight are whole, the next ones are not. */
const DASHES = [[], [2, 3], [10, 3, 2, 3]];
const BASELINE = [6, 4];
const LABEL = 13; // pixels from one name to the next

export const markOf = (index: number, x: number, y: number, r: number): string => MARKS[index % MARKS.length](x, y, r);

export const dashOf = (index: number, dashed: boolean, colours: number): number[] =>
  dashed ? BASELINE : DASHES[Math.floor(index / colours) % DASHES.length];

/** Where names at the ends of lines are: near to their ends, each with room of its own, between two heights. */
export function spread(ends: number[], top: number, bottom: number): number[] {
  const order = ends.map((_, i) => i).sort((a, b) => ends[a] - ends[b]), places = [...ends];
  let free = top;
  for (const i of order) free = (places[i] = Math.max(places[i], free)) + LABEL;
  let most = bottom;
  for (const i of order.reverse()) most = (places[i] = Math.min(places[i], most)) - LABEL;
  return places;
}

export function paintShapes(pen: CanvasRenderingContext2D, shapes: Shape[], font: string): void {
  for (const shape of shapes) {
    pen.save();
    if ("d" in shape) {
      const path = new Path2D(shape.d);
      pen.globalAlpha = shape.opacity ?? 1;
      if (shape.fill) (pen.fillStyle = shape.fill), pen.fill(path);
      if (shape.stroke) [pen.strokeStyle, pen.lineWidth] = [shape.stroke, shape.width ?? 1], pen.setLineDash(shape.dash ?? []), pen.stroke(path);
    } else {
      [pen.font, pen.fillStyle, pen.textAlign, pen.textBaseline] = [font, shape.colour, shape.anchor === "middle" ? "center" : shape.anchor ?? "start", "middle"];
      pen.fillText(shape.text, shape.x, shape.y);
    }
    pen.restore();
  }
}

const escaped = (text: string): string => text.replace(/[&<>"]/g, (letter) => `&#${letter.charCodeAt(0)};`);
const short = (x: number): string => String(Math.round(x * 100) / 100);

export function svgOf(shapes: Shape[], size: number): string {
  const each = shapes.map((shape) => {
    if ("d" in shape) {
      const dash = shape.dash?.length ? ` stroke-dasharray="${shape.dash.join(" ")}"` : "";
      const line = shape.stroke ? ` stroke="${shape.stroke}" stroke-width="${shape.width ?? 1}"${dash}` : "";
      return `<path d="${shape.d.replace(/\d+\.\d{3,}/g, (x) => short(Number(x)))}" fill="${shape.fill ?? "none"}"${line}${shape.opacity === undefined ? "" : ` opacity="${shape.opacity}"`}/>`;
    }
    const turned = shape.upwards ? ` transform="rotate(-90 ${short(shape.x)} ${short(shape.y)})"` : "";
    return `<text x="${short(shape.x)}" y="${short(shape.y)}" dy="0.35em" fill="${shape.colour}" text-anchor="${shape.anchor ?? "start"}"${turned}>${escaped(shape.text)}</text>`;
  });
  return `<g font-size="${size}" stroke-linejoin="round">${each.join("")}</g>`;
}
