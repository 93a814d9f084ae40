/** Heat maps on a canvas: one pixel a cell; CSS scales them, with `image-rendering: pixelated`. */

import { lut } from "./palette";
import type { Companding } from "./types";

export interface PaintOptions {
  /** Is the page dark? */
  dark: boolean;
  /** How a byte becomes a colour: "sqrt" lifts faint cells out of the ground. Bytes that are roots already are painted "linear". */
  companding?: Companding;
  /** The byte that gets the strongest colour. */
  max?: number;
}

/** Values in colours, as pixels: red, green, blue, alpha. */
export function colours(values: Uint8Array, options: PaintOptions): Uint8ClampedArray<ArrayBuffer> {
  const { dark, companding = "linear", max = 255 } = options;
  const table = lut(dark);
  const at = new Uint16Array(256);
  for (let byte = 0; byte < 256; byte++) {
    const share = Math.min(byte / Math.max(max, 1), 1);
    at[byte] = 4 * Math.round(255 * (companding === "sqrt" ? Math.sqrt(share) : share));
  }
  const pixels = new Uint8ClampedArray(values.length * 4);
  for (let i = 0; i < values.length; i++) {
    const colour = at[values[i]];
    pixels[4 * i] = table[colour];
    pixels[4 * i + 1] = table[colour + 1];
    pixels[4 * i + 2] = table[colour + 2];
    pixels[4 * i + 3] = 255;
  }
  return pixels;
}

/** A map of bytes, [height, width]. */
export interface Bytes {
  values: Uint8Array;
  height: number;
  width: number;
}

/** The largest of every `pool.height` × `pool.width` values; at the far edges of fewer. */
export function pooled(map: Bytes, pool: { height: number; width: number }): Bytes {
  if (pool.height === 1 && pool.width === 1) return map;
  const [height, width] = [Math.ceil(map.height / pool.height), Math.ceil(map.width / pool.width)];
  const values = new Uint8Array(height * width);
  for (let row = 0; row < map.height; row++) {
    const to = Math.floor(row / pool.height) * width;
    for (let column = 0; column < map.width; column++) {
      const at = to + Math.floor(column / pool.width);
      values[at] = Math.max(values[at], map.values[row * map.width + column]);
    }
  }
  return { values, height, width };
}

/** Paint values [height, width] on a canvas, which takes their size. */
export function paintMap(canvas: HTMLCanvasElement, values: Uint8Array, height: number, width: number, options: PaintOptions): void {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  const context = canvas.getContext("2d");
  if (!context || !height || !width) return;
  context.putImageData(new ImageData(colours(values, options), width, height), 0, 0);
}
