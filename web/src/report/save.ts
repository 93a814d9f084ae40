/** A chart as a PNG and a table as a CSV, handed to the person. */

import { download } from "../core/browser";
import { csv } from "../core/csv";

const PAD = 16;
const TITLE = 26;
const LINE = 20;
/** What a picture of SVG needs of the style of the page. */
const STYLE = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity", "visibility", "vector-effect", "paint-order",
  "font-family", "font-size", "text-anchor", "dominant-baseline",
];

export interface LegendEntry {
  name: string;
  colour: string;
}

/** The name of a file, of the words of a title. */
export const fileName = (title: string, ending: string): string => `${title.toLowerCase().match(/[\p{L}\p{N}]+/gu)?.join("-").slice(0, 60) ?? "report"}.${ending}`;

export const saveRows = (title: string, rows: (string | number)[][]): void => download(fileName(title, "csv"), new Blob([csv(rows)], { type: "text/csv" }));

/** What is drawn, under its title and its legend, on the colour of its card. */
export function savePicture(figure: HTMLElement, title: string, legend: LegendEntry[], drawn: CanvasImageSource, width: number, height: number): void {
  const { backgroundColor, color, fontFamily } = getComputedStyle(figure);
  const canvas = document.createElement("canvas"), ctx = canvas.getContext("2d")!, ratio = Math.max(devicePixelRatio, 1);
  const small = `12.5px ${fontFamily}`;
  ctx.font = small;
  let across = 0, lines = legend.length > 0 ? 1 : 0;
  const places = legend.map(({ name }) => {
    const wide = ctx.measureText(name).width + 32;
    if (across > 0 && across + wide > width) [across, lines] = [0, lines + 1];
    across += wide;
    return [PAD + across - wide, PAD + TITLE + lines * LINE - 6];
  });
  const top = PAD + TITLE + lines * LINE + 6;
  [canvas.width, canvas.height] = [(width + 2 * PAD) * ratio, (top + height + PAD) * ratio];
  ctx.scale(ratio, ratio);
  const write = (text: string, font: string, x: number, y: number) => {
    [ctx.font, ctx.fillStyle] = [font, color];
    ctx.fillText(text, x, y);
  };
  ctx.fillStyle = backgroundColor;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  write(title, `600 15px ${fontFamily}`, PAD, PAD + 14);
  legend.forEach(({ name, colour }, i) => {
    const [x, y] = places[i];
    ctx.fillStyle = colour;
    ctx.fillRect(x, y - 9, 10, 10);
    write(name, small, x + 16, y);
  });
  ctx.drawImage(drawn, PAD, top, width, height);
  canvas.toBlob((blob) => blob && download(fileName(title, "png"), blob));
}

/** An SVG of the page as an image of its own, with room around it for what is written outside of it. */
export async function imageOf(svg: SVGSVGElement, [above, right, below, left]: number[]): Promise<{ image: HTMLImageElement; width: number; height: number }> {
  const { clientWidth: inner, clientHeight: tall } = svg, copy = svg.cloneNode(true) as SVGSVGElement;
  const [own, copied] = [svg, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  own.forEach((each, i) => {
    const style = getComputedStyle(each);
    for (const name of STYLE) copied[i].setAttribute(name, style.getPropertyValue(name));
  });
  const frame = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const [width, height] = [left + inner + right, above + tall + below];
  for (const [name, value] of Object.entries({ width, height })) frame.setAttribute(name, String(value));
  for (const [name, value] of Object.entries({ x: left, y: above, width: inner, height: tall, overflow: "visible" })) copy.setAttribute(name, String(value));
  frame.append(copy);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(frame))}`;
  await image.decode();
  return { image, width, height };
}
