/** Pictures of a sound on a canvas that shows a stretch of time: waveform, spectrogram, codes. */

import { type Codes, peaks, shadeOf, type Sound } from "../../core/listening";
import { type Bytes, paintMap } from "../../core/heatmap";
import { codeColour } from "../../core/palette";

/** What a canvas shows: from a time on, `scale` pixels a second. */
export interface Stage {
  canvas: HTMLCanvasElement;
  from: number;
  scale: number;
  width: number;
  height: number;
  dark: boolean;
}

/** A place in the codes. */
export interface Token {
  book: number;
  frame: number;
}

/** Narrowest and lowest cell in which the number of a code is written, and the narrowest with a gap next to it. */
const [WRITTEN, LOW, GAPPED] = [25, 11, 4];

/** The canvas in the pixels of the screen, cleared; coordinates are those of the page. */
function prepared({ canvas, width, height }: Stage): { paint: CanvasRenderingContext2D; ratio: number; colour: (name: string) => string } {
  const ratio = window.devicePixelRatio || 1;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  const paint = canvas.getContext("2d")!;
  paint.setTransform(ratio, 0, 0, ratio, 0, 0);
  const style = getComputedStyle(canvas);
  return { paint, ratio, colour: (name) => style.getPropertyValue(name).trim() };
}

/** `top`: the loudest sample of all that are compared, which reaches the edge. */
export function drawWave(stage: Stage, { samples, rate, seconds }: Sound, heard: boolean, top: number): void {
  const { from, scale, width, height } = stage;
  const { paint, ratio, colour } = prepared(stage);
  const columns = Math.round(Math.min(width, (seconds - from) * scale) * ratio);
  paint.fillStyle = colour("--line");
  paint.fillRect(0, height / 2 - 0.5, columns / ratio, 1);
  if (columns <= 0) return;
  const { low, high } = peaks(samples, from * rate, rate / scale / ratio, columns);
  paint.fillStyle = colour(heard ? "--accent" : "--edge");
  const half = height / 2 - 1;
  for (let at = 0; at < columns; at++) {
    const upper = half * (1 - high[at] / top) + 1;
    paint.fillRect(at / ratio, upper, 1 / ratio, Math.max((half * (high[at] - low[at])) / top, 1 / ratio));
  }
}

/** Spectrograms as pictures of a pixel a cell: one for each theme. */
const pictures = { light: new WeakMap<Uint8Array, HTMLCanvasElement>(), dark: new WeakMap<Uint8Array, HTMLCanvasElement>() };

export function drawMel(stage: Stage, { mel, seconds }: Sound): void {
  const { from, scale, width, height, dark } = stage;
  const { paint } = prepared(stage);
  const known = pictures[dark ? "dark" : "light"];
  let picture = known.get(mel.values);
  if (!picture) {
    picture = document.createElement("canvas");
    paintMap(picture, mel.values, mel.height, mel.width, { dark });
    known.set(mel.values, picture);
  }
  const shown = Math.min(width / scale, seconds - from);
  if (shown <= 0) return;
  paint.imageSmoothingEnabled = true;
  paint.imageSmoothingQuality = "high";
  paint.save();
  paint.translate(0, height);
  paint.scale(1, -1); // low tones are in the first row, and at the bottom
  paint.drawImage(picture, from * mel.rate, 0, Math.max(shown * mel.rate, 0.01), mel.height, 0, 0, shown * scale, height);
  paint.restore();
}

/** Maps of attention as pictures, by theme. */
const attentions = { light: new WeakMap<Bytes, HTMLCanvasElement>(), dark: new WeakMap<Bytes, HTMLCanvasElement>() };

/** Rows of a map of attention, `first` up to `last`, over the height of the stage; columns on the axis of time. */
export function drawAttention(stage: Stage, map: Bytes, rate: number, first: number, last: number): void {
  const { from, scale, width, height, dark } = stage;
  const { paint } = prepared(stage);
  const known = attentions[dark ? "dark" : "light"];
  let picture = known.get(map);
  if (!picture) {
    picture = document.createElement("canvas");
    paintMap(picture, map.values, map.height, map.width, { dark });
    known.set(map, picture);
  }
  paint.imageSmoothingEnabled = false;
  paint.drawImage(picture, from * rate, first, (width / scale) * rate, last - first, 0, 0, width, height);
}

/** Codes as cells in colours, with their numbers where there is room; the chosen one and what is like it stand out. */
export function drawCodes(stage: Stage, codes: Codes, seconds: number, chosen: { book: number; code: number } | null, focus: Token | null): void {
  const { from, scale, width, height, dark } = stage;
  const { paint, ratio, colour } = prepared(stage);
  const { values, books, frames, rate } = codes;
  const row = height / books;
  const cell = scale / rate;
  const end = Math.min(width, (seconds - from) * scale);
  const step = Math.max(cell, 1 / ratio); // where a frame is narrower than a pixel, one of its frames
  const first = Math.max(Math.floor(from * rate), 0);
  const gap = cell >= GAPPED ? 1 : 0;
  for (let x = (first / rate - from) * scale; x < end; x += step) {
    const frame = Math.min(Math.floor((from + x / scale) * rate + 1e-6), frames - 1);
    if (frame < 0) continue;
    for (let book = 0; book < books; book++) {
      const code = values[book * frames + frame];
      const shade = shadeOf(codes, book, code);
      const strength = chosen === null || chosen.book !== book ? 1 : likeness(codes, chosen, code);
      paint.fillStyle = `rgb(${codeColour(book, shade, dark).join(" ")} / ${strength})`;
      paint.fillRect(x, book * row, Math.min(step, end - x) - gap, row - 1);
    }
  }
  if (cell >= WRITTEN && row >= LOW) writeCodes(paint, stage, codes, end);
  if (focus) {
    paint.strokeStyle = colour("--ink");
    paint.lineWidth = 2;
    const wide = Math.max(cell, 5);
    paint.strokeRect((focus.frame / rate - from) * scale + (cell - wide) / 2, focus.book * row, wide, row - 1);
  }
}

/** How strongly a code is shown compared with the chosen one of its codebook: the same in full, others the more the more they are similar. */
function likeness(codes: Codes, chosen: { book: number; code: number }, code: number): number {
  if (code === chosen.code) return 1;
  const apart = codes.shades ? Math.abs(shadeOf(codes, chosen.book, code) - shadeOf(codes, chosen.book, chosen.code)) : 1;
  return 0.22 + 0.55 * Math.max(1 - apart / 0.12, 0);
}

function writeCodes(paint: CanvasRenderingContext2D, { from, scale, dark }: Stage, codes: Codes, end: number): void {
  const { values, books, frames, rate } = codes;
  const row = paint.canvas.height / paint.getTransform().d / books;
  paint.font = `${Math.min(row - 2, 11)}px ui-monospace, Menlo, Consolas, monospace`;
  paint.textAlign = "center";
  paint.textBaseline = "middle";
  for (let frame = Math.max(Math.floor(from * rate), 0); frame < frames && (frame / rate - from) * scale < end; frame++) {
    for (let book = 0; book < books; book++) {
      const code = values[book * frames + frame];
      const [red, green, blue] = codeColour(book, shadeOf(codes, book, code), dark);
      paint.fillStyle = 0.299 * red + 0.587 * green + 0.114 * blue > 135 ? "#06131f" : "#ffffff";
      paint.fillText(String(code), ((frame + 0.5) / rate - from) * scale, (book + 0.5) * row);
    }
  }
}
