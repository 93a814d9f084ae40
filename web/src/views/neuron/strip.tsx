/** Strip of a vector: one cell a dimension, coloured by its value, with a bar up for positive and down for negative. */

import { type ComponentChildren, createContext } from "preact";
import { useContext, useLayoutEffect, useMemo, useRef } from "preact/hooks";
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

interface Painted {
  values: Floats;
  /** The number with the strongest colour. */
  limit: number;
  /** Pale, as what is masked. */
  pale: boolean;
}

/** Strips further apart than this, in CSS pixels, are on different canvases: between them is the computation of a cell. */
const APART = 200;

/**
 * Strips that share a canvas: of a hundred canvases a browser paints, copies and composes a hundred at each frame.
 *
 *     Strip ──its place, its numbers──> Sheet ──one canvas below all──> frame
 */
class Strips {
  readonly #strips = new Map<HTMLElement, Painted>();
  #waiting = false;
  dark = false;
  /** What the canvases are in, once it has its size. */
  holder: HTMLElement | null = null;

  set(place: HTMLElement, strip: Painted): void {
    this.#strips.set(place, strip);
    this.changed();
  }

  remove(place: HTMLElement): void {
    this.#strips.delete(place);
  }

  /** Paint once, when all strips of this drawing have their numbers. */
  changed(): void {
    if (this.#waiting || !this.holder) return;
    this.#waiting = true;
    queueMicrotask(() => {
      this.#waiting = false;
      this.paint();
    });
  }

  paint(): void {
    const { holder, dark } = this;
    if (!holder) return;
    const density = window.devicePixelRatio || 1;
    const origin = holder.getBoundingClientRect();
    const placed = [...this.#strips].map(([place, strip]) => {
      const { left, top } = place.getBoundingClientRect();
      return { ...strip, x: left - origin.left + place.clientLeft, y: top - origin.top + place.clientTop, width: place.clientWidth, height: place.clientHeight };
    }).filter(({ width }) => width > 0).sort((a, b) => a.y - b.y);
    const groups: (typeof placed)[] = [];
    for (const strip of placed) {
      const last = groups.at(-1)?.at(-1);
      if (last && strip.y - last.y <= APART) groups.at(-1)!.push(strip);
      else groups.push([strip]);
    }
    while (holder.childElementCount > groups.length) holder.lastElementChild!.remove();
    while (holder.childElementCount < groups.length) holder.append(document.createElement("canvas"));
    groups.forEach((group, at) => {
      const canvas = holder.children[at] as HTMLCanvasElement;
      const from = Math.floor(group[0].y);
      const high = Math.ceil(group.at(-1)!.y + group.at(-1)!.height) - from;
      const size = [Math.round(origin.width * density), Math.round(high * density)];
      if (canvas.width !== size[0]) canvas.width = size[0];
      if (canvas.height !== size[1]) canvas.height = size[1];
      canvas.style.top = `${from}px`;
      canvas.style.height = `${high}px`;
      const pen = canvas.getContext("2d")!;
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, size[0], size[1]);
      for (const { values, limit, pale, x, y, width, height } of group) {
        pen.setTransform(1, 0, 0, 1, Math.round(x * density), Math.round((y - from) * density));
        pen.globalAlpha = pale ? 0.35 : 1;
        for (const rect of cells(values, limit, Math.round(width * density), Math.round(height * density), dark, Math.round)) {
          pen.fillStyle = rect.colour;
          pen.fillRect(rect.x, rect.y, rect.width, rect.height);
        }
      }
    });
  }
}

const Shared = createContext(new Strips());

/** Draws the strips within it. */
export function Sheet({ dark, children }: { dark: boolean; children: ComponentChildren }) {
  const strips = useMemo(() => new Strips(), []);
  const holder = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => {
      strips.holder = holder.current;
      strips.paint();
    });
    watch.observe(holder.current!);
    return () => watch.disconnect();
  }, [strips]);
  useLayoutEffect(() => {
    strips.dark = dark;
    strips.changed();
  }, [dark]);
  return (
    <div class="neuron-sheet">
      <div ref={holder} aria-hidden="true" />
      <Shared.Provider value={strips}>{children}</Shared.Provider>
    </div>
  );
}

interface StripProps {
  values: Floats;
  limit: number;
  pale?: boolean;
  /** The pointer is on a dimension, or on none. */
  over(dimension: number | null): void;
}

/** A strip's place, on a `Sheet`. */
export function Strip({ values, limit, pale = false, over }: StripProps) {
  const place = useRef<HTMLSpanElement>(null);
  const strips = useContext(Shared);
  useLayoutEffect(() => strips.set(place.current!, { values, limit, pale }), [strips, values, limit, pale]);
  useLayoutEffect(() => {
    const own = place.current!;
    return () => strips.remove(own);
  }, [strips]);
  const moved = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const { columns, lines } = shape(values.length);
    const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
    const line = Math.floor(((event.clientY - box.top) / box.height) * lines);
    const dimension = Math.max(0, line) * columns + Math.max(0, column);
    over(dimension < values.length ? dimension : null);
  };
  return <span ref={place} class="neuron-strip" style={{ height: `${heightOf(values.length)}px` }} onPointerMove={moved} onPointerDown={moved} onPointerLeave={() => over(null)} />;
}
