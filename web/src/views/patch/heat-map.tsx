/** The heat map of a sweep on a canvas: pointer and keyboard. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { nextFrame } from "../../core/frame";
import { paint } from "../../core/figure";
import type { Sweep } from "../../core/patching";
import { cellAt, figureOf, geometryOf, type Ink } from "./geometry";
import type { PatchController } from "./patch-controller";

/** The page's own colours. */
export function inkOf(element: Element, dark: boolean): Ink {
  const style = getComputedStyle(element);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return { ink: value("--ink"), soft: value("--ink-2"), panel: value("--panel"), line: value("--line"), dark, font: style.fontFamily };
}

const STEPS: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

export function HeatMap({ controller, sweep }: { controller: PatchController; sweep: Sweep }) {
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const room = useSignal(0);
  const geometry = geometryOf(sweep, room.value);

  useLayoutEffect(() => {
    const measure = () => (room.value = host.current?.clientWidth ?? 0);
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(host.current!);
    return () => watch.disconnect();
  }, []);

  useSignalEffect(() => {
    const dark = controller.props.dark.value;
    const marks = [controller.pinned.value, controller.pointed.value];
    const shown = controller.sweep.value;
    const laid = shown && geometryOf(shown, room.value);
    return nextFrame(() => {
      const element = canvas.current;
      if (!element || !laid || !room.value) return;
      const ratio = window.devicePixelRatio || 1;
      [element.width, element.height] = [Math.round(laid.width * ratio), Math.round(laid.height * ratio)];
      [element.style.width, element.style.height] = [`${laid.width}px`, `${laid.height}px`];
      const pen = element.getContext("2d")!;
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      const ink = inkOf(element, dark);
      paint(pen, figureOf(shown, laid, ink).shapes, ink.font);
      pen.lineWidth = 2;
      pen.strokeStyle = ink.ink;
      for (const mark of marks) if (mark) pen.strokeRect(laid.left + mark[1] * laid.cell.width, mark[0] * laid.cell.height, laid.cell.width - 1, laid.cell.height - 1);
    });
  });

  const at = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return cellAt(geometry, sweep, event.clientX - box.left, event.clientY - box.top);
  };
  const keys = (event: KeyboardEvent) => {
    const cell = controller.cell.value ?? [0, 0];
    const step = STEPS[event.key];
    if (step) {
      const clamp = (value: number, size: number) => Math.min(Math.max(value, 0), size - 1);
      const next: [number, number] = [clamp(cell[0] + step[0], sweep.rows.length), clamp(cell[1] + step[1], sweep.columns.length)];
      if (sweep.components[next[0]][next[1]] !== null) controller.pointed.value = next;
      reveal(host.current!, geometry.left + next[1] * geometry.cell.width, geometry.cell.width);
    } else if (event.key === "Enter" || event.key === " ") controller.pin(controller.cell.value);
    else if (event.key === "Escape" && (controller.pointed.value || controller.pinned.value)) {
      controller.pointed.value = null;
      if (controller.pinned.value) controller.pin(null);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      ref={host} class="patch-map" role="application" aria-roledescription="heat map" tabIndex={0}
      aria-label={`Heat map of ${sweep.rows.length} × ${sweep.columns.length} patches; arrow keys move`} onKeyDown={keys}
      onPointerMove={(event) => (controller.pointed.value = at(event))} onPointerLeave={() => (controller.pointed.value = null)}
      onClick={(event) => at(event) && controller.pin(at(event))} onBlur={() => (controller.pointed.value = null)}
    >
      <canvas ref={canvas} aria-hidden="true" />
    </div>
  );
}

/** Scroll sideways so that a cell is on screen. */
function reveal(host: HTMLElement, x: number, width: number): void {
  if (x < host.scrollLeft) host.scrollLeft = x - width;
  else if (x + width > host.scrollLeft + host.clientWidth) host.scrollLeft = x + 2 * width - host.clientWidth;
}
