/** A matrix as a heat map on a canvas: names of its rows and columns, a pointer, arrow keys; and the same as a figure. */

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { nextFrame } from "../core/frame";
import { type Figure, fitted, inLines, lengthOf, paint } from "../core/figure";
import { visible } from "../core/format";
import "./heat-map.css";

export type CellPlace = [row: number, column: number];

export interface Matrix {
  rows: readonly string[];
  columns: readonly string[];
  /** Row by row; NaN where there is no cell. */
  values: ArrayLike<number>;
  /** As "rgb(r, g, b)" or "rgb(r g b)". */
  colour(value: number, dark: boolean): string;
  /** A number in its cell, where there is room. */
  written?(value: number): string;
  /** Cells as high as they are wide. */
  square?: boolean;
  /** Pixels that a cell is wide, at least; by default 5. */
  least?: number;
  /** Of a cell that is hatched, such as one that a mask hides. */
  hatched?(value: number): boolean;
}

interface Props {
  matrix: Matrix;
  /** What it shows, for screen readers. */
  label: string;
  dark: boolean;
  pinned: CellPlace | null;
  /** The cell below the pointer, or with the focus; null = none. */
  point(cell: CellPlace | null): void;
  pin?(cell: CellPlace): void;
}

const [LEAST, MOST, SQUARE, ROOMY, NAMES, TEXT] = [5, 64, 44, 40, 112, 12];
/** Height that a map of squares has room for, in pixels. */
const ROOM = 560;

interface Layout { left: number; top: number; width: number; height: number; cell: { width: number; height: number }; upright: boolean }

function layoutOf({ rows, columns, square, least = LEAST }: Matrix, room: number): Layout {
  const longest = (names: readonly string[]) => Math.max(0, ...names.map((name) => lengthOf(visible(name), TEXT)));
  const left = Math.min(longest(rows) + 12, NAMES);
  const width = Math.min(Math.max((room - left - 2) / Math.max(columns.length, 1), least), square ? Math.max(Math.min(SQUARE, ROOM / Math.max(rows.length, 1)), least) : MOST);
  const height = square ? width : Math.min(Math.max(width * 0.62, 18), 34);
  const upright = longest(columns) + 6 <= width;
  const top = upright ? 22 : Math.min(longest(columns) + 12, NAMES);
  return { left, top, cell: { width, height }, upright, width: left + width * columns.length + 2, height: top + height * rows.length + 2 };
}

/** The heat map as shapes. */
export function heatMapFigure(matrix: Matrix, room: number, ink: string, dark: boolean): Figure {
  const layout = layoutOf(matrix, room);
  const { left, top, cell, upright, width, height } = layout;
  const { rows, columns, values } = matrix;
  const gap = cell.width >= 16 ? 1 : 0;
  const shapes: Figure["shapes"] = [];
  const every = (size: number) => Math.max(1, Math.ceil(13 / size));
  rows.forEach((name, row) => row % every(cell.height) === 0 && shapes.push({ kind: "text", x: left - 6, y: top + (row + 0.5) * cell.height, text: fitted(visible(name), left - 8, TEXT), colour: ink, size: TEXT, end: true }));
  columns.forEach((name, column) => {
    if (column % every(cell.width)) return;
    const x = left + (column + 0.5) * cell.width;
    shapes.push({ kind: "text", x, y: upright ? top - 10 : top - 6, text: fitted(visible(name), upright ? cell.width : top - 10, TEXT), colour: ink, size: TEXT, upwards: !upright, middle: upright });
  });
  rows.forEach((_, row) => columns.forEach((__, column) => {
    const value = values[row * columns.length + column];
    if (Number.isNaN(value)) return;
    const [x, y, colour] = [left + column * cell.width, top + row * cell.height, matrix.colour(value, dark)];
    shapes.push({ kind: "rect", x, y, width: cell.width - gap, height: cell.height - gap, colour });
    if (matrix.hatched?.(value) && cell.width >= 8) shapes.push({ kind: "path", d: `M0 ${cell.height - gap}L${cell.width - gap} 0`, x, y, colour: dark ? "#566472" : "#b4bfca" });
    const text = cell.width >= ROOMY && matrix.written?.(value);
    if (text && lengthOf(text, 11) < cell.width) shapes.push({ kind: "text", x: x + cell.width / 2, y: y + cell.height / 2, text, colour: inkOn(colour), size: 11, middle: true });
  }));
  return { width, height, shapes };
}

/** Ink that can be read on a colour. */
function inkOn(colour: string): string {
  const [red, green, blue] = (colour.match(/\d+/g) ?? []).map(Number);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 135 ? "#10202c" : "#ffffff";
}

const STEPS: Record<string, CellPlace> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function HeatMap({ matrix, label, dark, pinned, point, pin }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const room = useSignal(0);
  const here = useSignal<CellPlace | null>(null);
  const layout = layoutOf(matrix, room.value || 320);
  const { left, top, cell } = layout;
  const [height, width] = [matrix.rows.length, matrix.columns.length];

  useLayoutEffect(() => {
    const measure = () => (room.value = host.current!.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (!room.value) return;
    return nextFrame(() => {
      const element = canvas.current;
      if (!element) return;
      const style = getComputedStyle(element);
      const figure = heatMapFigure(matrix, room.value, style.getPropertyValue("--ink-2").trim(), dark);
      const ratio = window.devicePixelRatio;
      [element.width, element.height] = [Math.ceil(figure.width * ratio), Math.ceil(figure.height * ratio)];
      [element.style.width, element.style.height] = [`${figure.width}px`, `${figure.height}px`];
      const pen = element.getContext("2d")!;
      pen.scale(ratio, ratio);
      paint(pen, figure.shapes, style.fontFamily);
    });
  }, [matrix, room.value, dark]);

  const move = (to: CellPlace | null) => {
    if (to?.join() === here.value?.join()) return;
    here.value = to;
    point(to);
  };
  const at = (event: MouseEvent): CellPlace | null => {
    const box = canvas.current!.getBoundingClientRect();
    const [row, column] = [Math.floor((event.clientY - box.top - top) / cell.height), Math.floor((event.clientX - box.left - left) / cell.width)];
    return row >= 0 && column >= 0 && row < height && column < width ? [row, column] : null;
  };
  const keys = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = STEPS[event.key];
    const from = here.value ?? pinned;
    if (step) {
      const [row, column] = from ? [from[0] + step[0], from[1] + step[1]] : [0, 0];
      move([Math.min(Math.max(row, 0), height - 1), Math.min(Math.max(column, 0), width - 1)]);
      reveal(host.current!, left + here.value![1] * cell.width, cell.width);
    } else if ((event.key === "Enter" || event.key === " ") && from && pin) pin(from);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const mark = (place: CellPlace | null, name: string) => place && (
    <i class={name} style={{ left: `${left + place[1] * cell.width - 1}px`, top: `${top + place[0] * cell.height - 1}px`, width: `${cell.width + 1}px`, height: `${cell.height + 1}px` }} />
  );
  return (
    <div
      ref={host} class="heat-map" role="application" aria-roledescription="heat map" tabIndex={0} aria-label={`${label}; arrow keys move${pin ? ", Enter chooses" : ""}`}
      onPointerMove={(event) => move(at(event))} onPointerLeave={() => move(null)} onBlur={() => move(null)} onKeyDown={keys} style={{ cursor: pin ? "pointer" : "crosshair" }}
      onClick={(event) => {
        const place = at(event);
        if (place && pin) pin(place);
        else move(place);
      }}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {mark(pinned, "heat-map-pinned")}
      {mark(here.value, "heat-map-here")}
    </div>
  );
}

/** Scroll sideways so that a cell is on screen. */
function reveal(host: HTMLElement, x: number, width: number): void {
  if (x < host.scrollLeft) host.scrollLeft = x - width;
  else if (x + width > host.scrollLeft + host.clientWidth) host.scrollLeft = x + 2 * width - host.clientWidth;
}

/** Figures below each other, each with a caption above it. */
export function stacked(parts: readonly (readonly [caption: string, figure: Figure])[], ink: string, foot: string): Figure {
  const shapes: Figure["shapes"] = [];
  const width = Math.max(lengthOf(foot, 10) + 16, ...parts.map(([, figure]) => figure.width + 16));
  let y = 8;
  for (const [caption, figure] of parts) {
    for (const line of inLines(caption, width - 16)) {
      shapes.push({ kind: "text", x: 8, y: y + 10, text: line, colour: ink, strong: true });
      y += 18;
    }
    y += 10;
    for (const shape of figure.shapes) shapes.push({ ...shape, x: shape.x + 8, y: shape.y + y });
    y += figure.height + 12;
  }
  shapes.push({ kind: "text", x: 8, y: y + 8, text: foot, colour: ink, size: 10 });
  return { width, height: y + 22, shapes };
}
