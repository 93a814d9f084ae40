/** Token × token map on a canvas: point for a number, arrow keys move, a click pins. */

import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { nextFrame } from "../../core/frame";
import { number, visible } from "../../core/format";
import type { Similarity } from "../../core/similarity";
import type { Exports } from "../../core/types";
import { diverging } from "../neuron/diverging-colours";
import { paint, toPng, toSvg } from "../../core/figure";
import type { PairProps } from "../similarity";
import { figureOf, gridOf, titledFigureOf } from "./figure";

/** What the map needs of them. */
type MapProps = Pick<PairProps, "shown" | "pinned" | "point" | "pin" | "dark">;

const EXPORT_WIDTH = 1200;
/** Pixels of the screen that what is above the map, and the line at the foot, take. */
const ABOVE = 400;
const STEPS: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function Heatmap({ shown, pinned, point, pin, dark }: MapProps) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useSignal(0);
  useLayoutEffect(() => {
    const measure = () => (width.value = host.current!.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(host.current!);
    return () => observer.disconnect();
  }, []);
  const grid = gridOf(shown, width.value || 320, innerHeight - ABOVE);
  const night = dark.value;
  useEffect(() => {
    const element = canvas.current!;
    return nextFrame(() => {
      const style = getComputedStyle(element);
      const figure = figureOf(shown, grid, style.getPropertyValue("--ink").trim(), night);
      const ratio = window.devicePixelRatio;
      [element.width, element.height] = [Math.ceil(figure.width * ratio), Math.ceil(figure.height * ratio)];
      [element.style.width, element.style.height] = [`${figure.width}px`, `${figure.height}px`];
      const pen = element.getContext("2d")!;
      pen.scale(ratio, ratio);
      paint(pen, figure.shapes, style.getPropertyValue("--sans").trim());
    });
  }, [shown, grid.cell, grid.left, night]);

  const [first, second] = shown.tokens;
  const at = (event: MouseEvent): [number, number] | null => {
    const box = canvas.current!.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top - grid.top) / grid.cell);
    const column = Math.floor((event.clientX - box.left - grid.left) / grid.cell);
    return row >= 0 && column >= 0 && row < first.length && column < second.length ? [row, column] : null;
  };
  const pointAt = (cell: [number, number] | null) => point(cell?.[0] ?? null, cell?.[1] ?? null);
  const [row, column] = [pinned.row, pinned.column];
  const move = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = STEPS[event.key];
    if (event.key === "Enter" && row !== null && column !== null) pin(row, column);
    else if (step) point(clamp((row ?? -step[0]) + step[0], first.length), clamp((column ?? -step[1]) + step[1], second.length));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const value = row !== null && column !== null ? shown.cells[row * second.length + column] : null;
  return (
    <div class="sim-map" ref={host}>
      <p class="sim-exact">{value === null ? <span class="hint">Tap or point at a cell.</span> : <><b class="token">{visible(first[row!].text)}</b> · <b class="token">{visible(second[column!].text)}</b> <span>{number(value, 5)}</span></>}</p>
      <div
        role="application" tabIndex={0} aria-label={`Map of ${first.length} by ${second.length} words; arrow keys move, Enter pins`} class="sim-grid"
        onPointerMove={(event) => pointAt(at(event))} onPointerLeave={() => point(null, null)} onBlur={() => point(null, null)} onKeyDown={move}
        onClick={(event) => {
          const cell = at(event);
          if (cell) pin(...cell);
        }}
      >
        <canvas ref={canvas} aria-hidden="true" />
        {row !== null && column !== null && <i class="sim-here" style={{ left: `${grid.left + grid.cell * column - 1}px`, top: `${grid.top + grid.cell * row - 1}px`, width: `${grid.cell + 1}px`, height: `${grid.cell + 1}px` }} />}
      </div>
    </div>
  );
}

const clamp = (x: number, size: number) => Math.min(Math.max(x, 0), size - 1);

/** Exports of the map as a picture. */
Heatmap.exports = (shown: Similarity, title: string, dark: () => boolean): Pick<Exports, "png" | "svg"> => {
  const style = (name: string) => getComputedStyle(document.querySelector(".sim")!).getPropertyValue(name).trim();
  const figure = () => titledFigureOf(shown, gridOf(shown, EXPORT_WIDTH), title, style("--ink"), dark());
  return { png: () => toPng(figure(), style("--panel"), style("--sans")), svg: () => toSvg(figure(), style("--panel"), style("--sans")) };
};

/** The colours from the least to the largest, as a CSS background. */
Heatmap.gradient = (dark: boolean): string => `linear-gradient(90deg, ${[-1, -0.5, 0, 0.5, 1].map((share) => diverging(share, dark)).join(", ")})`;
