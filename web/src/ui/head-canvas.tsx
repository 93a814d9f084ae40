/** Thumbnails of all heads of a grid or a list, on one canvas behind its cells: a thousand canvases would take 50 ms of every frame. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { paintMap } from "../core/heatmap";
import type { Overview } from "../core/types";
import { dark } from "./theme";

/** Pixels of a canvas, at most: of more, those of a screen of high density share one. */
const MOST = 2 ** 24;

/** The thumbnails of a layer below one another, in the colours of a ground. */
const strips = new WeakMap<Overview, { dark: boolean; canvas: HTMLCanvasElement }>();

function strip(overview: Overview): HTMLCanvasElement {
  const known = strips.get(overview);
  if (known?.dark === dark.value) return known.canvas;
  const canvas = document.createElement("canvas");
  paintMap(canvas, overview.thumbnails, overview.heads * overview.height, overview.width, { dark: dark.value });
  strips.set(overview, { dark: dark.value, canvas });
  return canvas;
}

/**
 * The canvas of the cells that stand beside it in its parent; `data-empty` until all of them are painted.
 *
 * @param overviewOf That of a layer, once it has come.
 */
export function HeadCanvas({ overviewOf }: { overviewOf(layer: number): Overview | undefined }) {
  const ref = useRef<HTMLCanvasElement>(null);
  const night = dark.value, ground = useRef(night);
  useLayoutEffect(() => {
    const canvas = ref.current!;
    const host = canvas.parentElement!;
    // It reports in the frame to come, when all is laid out: once, however many overviews have come by then.
    const draw = () => paint(canvas, [...host.querySelectorAll<HTMLElement>("[data-cell]")], overviewOf);
    if (ground.current !== night) draw(); // at once: while the page goes onto paper no frame comes
    ground.current = night;
    const watch = new ResizeObserver(draw);
    watch.observe(host);
    return () => watch.disconnect();
  });
  return <canvas ref={ref} class="head-canvas" aria-hidden="true" width={1} height={1} data-empty="" />;
}

function paint(canvas: HTMLCanvasElement, cells: HTMLElement[], overviewOf: (layer: number) => Overview | undefined): void {
  const { left, top } = canvas.getBoundingClientRect();
  const boxes = cells.map((cell) => cell.firstElementChild!.getBoundingClientRect());
  const [width, height] = boxes.reduce(([w, h], box) => [Math.max(w, box.right - left), Math.max(h, box.bottom - top)], [0, 0]);
  if (!width || !height) return;
  const ratio = Math.min(window.devicePixelRatio || 1, Math.sqrt(MOST / (width * height)));
  canvas.width = Math.ceil(width * ratio);
  canvas.height = Math.ceil(height * ratio);
  canvas.style.width = `${canvas.width / ratio}px`;
  const pen = canvas.getContext("2d")!;
  pen.imageSmoothingEnabled = false;
  let painted = 0;
  cells.forEach((cell, at) => {
    const [layer, head] = cell.dataset.cell!.split(".").map(Number);
    const overview = overviewOf(layer);
    if (!overview) return;
    const [x, y] = [Math.round((boxes[at].left - left) * ratio), Math.round((boxes[at].top - top) * ratio)];
    const [right, bottom] = [Math.round((boxes[at].right - left) * ratio), Math.round((boxes[at].bottom - top) * ratio)];
    pen.drawImage(strip(overview), 0, head * overview.height, overview.width, overview.height, x, y, right - x, bottom - y);
    painted++;
  });
  canvas.dataset.painted = String(painted);
  canvas.toggleAttribute("data-empty", painted < cells.length);
}
