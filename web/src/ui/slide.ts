/** What is on screen as a slide: one finding in words above the picture, and below it where it comes from. */

import { overviewKey, type Store } from "../core/store";
import { capital } from "../core/format";
import type { Exports, Session } from "../core/types";
import { headName } from "./head-stats";

const MARGIN = 56;
const MIN_WIDTH = 1200;
const HEADLINE = 40;
const SOURCE = 22;
const LONGEST = 160;

/** The finding of the present view: the view's own, else what the head in focus does, in the words of the page. */
export function finding(store: Store, { opening }: Session, shown: Exports): string {
  if (shown.finding) return shown.finding();
  const { map, layers, heads: [head], query, key } = store.state.value;
  const pinned = (token: number | null, its: number | null) => token === null || token === its;
  const found = opening.findings.find((each) => each.map === map && each.layer === layers[0] && each.head === head && pinned(query, each.query) && pinned(key, each.key));
  if (found) return found.sentence;
  const summary = store.overviews.value.get(overviewKey(map, layers[0]))?.summaries[head];
  return summary ? `${capital(headName(layers[0], head))}: ${summary}` : capital(headName(layers[0], head));
}

/** The texts, in one line; the picture itself says of which model it is. */
export function source({ texts }: Session): string {
  const words = texts.map((text) => `“${beginning(text)}”`).join(" · ");
  return `${words} · Glassformer`;
}

/** The slide, in pixels of the picture, on white like it. Throws where the browser cannot make one of this size. */
export async function slide(picture: Blob, headline: string, below: string): Promise<Blob> {
  const image = await createImageBitmap(picture);
  const width = Math.max(image.width + 2 * MARGIN, MIN_WIDTH);
  const family = getComputedStyle(document.body).fontFamily;
  const fonts = { head: `600 ${HEADLINE}px ${family}`, foot: `${SOURCE}px ${family}` };
  const pen = context(1, 1);
  const lines = { head: wrapped(pen, fonts.head, headline, width - 2 * MARGIN), foot: wrapped(pen, fonts.foot, below, width - 2 * MARGIN) };
  const top = MARGIN + lines.head.length * HEADLINE * 1.3 + MARGIN / 2;
  const foot = top + image.height + MARGIN / 2;
  const made = context(width, Math.ceil(foot + lines.foot.length * SOURCE * 1.4 + MARGIN / 2));
  made.fillStyle = "#fff";
  made.fillRect(0, 0, made.canvas.width, made.canvas.height);
  made.drawImage(image, Math.round((width - image.width) / 2), Math.round(top));
  made.textBaseline = "top";
  made.fillStyle = "#0f1c2b";
  made.font = fonts.head;
  lines.head.forEach((line, at) => made.fillText(line, MARGIN, MARGIN + at * HEADLINE * 1.3));
  made.fillStyle = "#41526a";
  made.font = fonts.foot;
  lines.foot.forEach((line, at) => made.fillText(line, MARGIN, foot + at * SOURCE * 1.4));
  return made.canvas.convertToBlob({ type: "image/png" });
}

function context(width: number, height: number): OffscreenCanvasRenderingContext2D {
  const made = new OffscreenCanvas(width, height).getContext("2d");
  if (!made) throw new Error("The browser could not make a picture of this size.");
  return made;
}

/** Words in lines that are as wide as there is room; a longer word is alone. */
function wrapped(pen: OffscreenCanvasRenderingContext2D, font: string, text: string, room: number): string[] {
  pen.font = font;
  const lines: string[] = [];
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && pen.measureText(longer).width <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

const beginning = (text: string) => (text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text);
