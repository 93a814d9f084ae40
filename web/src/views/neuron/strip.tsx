/** Strip of a vector: one cell a dimension, coloured by its value, with a bar up for positive and down for negative. */

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Floats } from "../../core/attention";
import { diverging } from "./diverging-colours";

/** Cells in a line of a strip; more dimensions go on in the next line. */
const LINE = 64;
const HEIGHT = 26;

/** Columns and lines of a strip of this many dimensions. */
export function shape(width: number): { columns: number; lines: number } {
  const columns = Math.min(width, LINE);
  return { columns, lines: Math.ceil(width / columns) };
}

/** Height of a strip, in CSS pixels. */
export const heightOf = (width: number) => (shape(width).lines === 1 ? HEIGHT : shape(width).lines * 18);

export interface Rect {
  x: number;
  y: number;
  width: number;
  height: number;
  colour: string;
}

/** The rectangles of a strip in a box from 0, 0: a tinted cell for each number, and its bar. */
export function cells(values: Floats, limit: number, width: number, height: number, dark: boolean, round: (x: number) => number = (x) => x): Rect[] {
  const { columns, lines } = shape(values.length);
  const rects: Rect[] = [];
  values.forEach((value: number, i: number) => {
    const share = limit > 0 ? value / limit : 0;
    const [column, line] = [i % columns, Math.floor(i / columns)];
    const x = round((column * width) / columns);
    const y = round((line * height) / lines);
    const wide = round(((column + 1) * width) / columns) - x;
    const high = round(((line + 1) * height) / lines) - y;
    rects.push({ x, y, width: wide, height: high, colour: diverging(share * 0.3, dark) });
    const bar = Math.min(1, Math.abs(share)) * (high / 2);
    rects.push({ x, y: y + high / 2 - (share > 0 ? bar : 0), width: wide, height: bar, colour: diverging(share, dark) });
  });
  return rects;
}

interface StripProps {
  values: Floats;
  /** The number with the strongest colour. */
  limit: number;
  dark: boolean;
  /** The pointer is on a dimension, or on none. */
  over(dimension: number | null): void;
}

export function Strip({ values, limit, dark, over }: StripProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const height = heightOf(values.length);
  const wide = useRef(0);
  const paint = useRef<() => void>(() => {});
  paint.current = () => {
    const box = canvas.current!;
    const density = window.devicePixelRatio || 1;
    const [width, high] = [Math.round(wide.current * density), Math.round(height * density)];
    if (width === 0) return;
    if (box.width !== width) box.width = width;
    if (box.height !== high) box.height = high;
    const pen = box.getContext("2d")!;
    for (const rect of cells(values, limit, width, high, dark, Math.round)) {
      pen.fillStyle = rect.colour;
      pen.fillRect(rect.x, rect.y, rect.width, rect.height);
    }
  };
  // Other numbers are painted at once, in the width that is known: no strip is laid out again.
  useLayoutEffect(() => paint.current(), [values, limit, dark, height]);
  useLayoutEffect(() => {
    // It reports the size in the frame to come; a hundred strips that asked for theirs would lay the page out a hundred times.
    const watch = new ResizeObserver(([{ contentRect }]) => {
      wide.current = contentRect.width;
      paint.current();
    });
    watch.observe(canvas.current!);
    return () => watch.disconnect();
  }, []);
  const moved = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const { columns, lines } = shape(values.length);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const line = Math.floor(((event.clientY - box.top) / box.height) * lines);
    const dimension = Math.max(0, line) * columns + Math.max(0, column);
    over(dimension < values.length ? dimension : null);
  };
  return (
    <span class="neuron-strip" onPointerMove={moved} onPointerDown={moved} onPointerLeave={() => over(null)}>
      <canvas ref={canvas} aria-hidden="true" style={{ height: `${height}px` }} />
    </span>
  );
}
