/** Pointer, wheel and keyboard input handlers of the heat map. */

import type { HeatmapController } from "./heatmap-controller";
import { cellAt, pan, reveal, type View, zoom, zoomTo } from "./geometry";
import type { Gutter } from "./layout";

/** Movements shorter than this, in pixels, are clicks. */
const STILL = 5;

/** Two clicks within this many ms may be a double click. */
const DOUBLE = 600;

/** Drawn with the pointer, in the plot's pixels. */
export interface Rectangle {
  x0: number;
  y0: number;
  x1: number;
  y1: number;
}

export class InputHandlers {
  #pointers = new Map<number, { x: number; y: number }>();
  #start: { x: number; y: number; pan: boolean } | null = null;
  #moved = false;
  /** What was pinned before the last click, or before the first of two quick ones. */
  #before: { query: number | null; key: number | null; at: number } = { query: null, key: null, at: 0 };

  constructor(
    private readonly controller: HeatmapController,
    private readonly gutter: { peek(): Gutter },
    private readonly rectangle: { value: Rectangle | null },
  ) {}

  /** Where the pointer is in the plot. */
  #at(event: MouseEvent): { x: number; y: number } {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return { x: event.clientX - box.left - this.gutter.peek().left, y: event.clientY - box.top - this.gutter.peek().top };
  }

  #zoom(factor: number, x: number, y: number): void {
    const { controller } = this;
    controller.move(zoom(controller.view.peek(), factor, x, y, controller.plot.peek(), controller.matrix));
  }

  #pan(x: number, y: number): void {
    const { controller } = this;
    controller.move(pan(controller.view.peek(), x, y, controller.plot.peek(), controller.matrix));
  }

  wheel = (event: WheelEvent): void => {
    if (event.deltaY >= 0 && this.controller.whole.value) return; // nothing to zoom out of: the page scrolls
    event.preventDefault();
    const { x, y } = this.#at(event);
    if (event.shiftKey) return this.#pan(-event.deltaY - event.deltaX, 0);
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.#zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.002)), x, y);
  };

  down = (event: PointerEvent): void => {
    const at = this.#at(event);
    (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, at);
    this.#moved = this.#pointers.size > 1;
    this.#start = { ...at, pan: event.shiftKey || event.button === 1 || event.pointerType === "touch" };
    if (event.button === 1) event.preventDefault();
  };

  moved = (event: PointerEvent): void => {
    const at = this.#at(event);
    const before = this.#pointers.get(event.pointerId);
    if (!before || !this.#start) return this.#hover(at);
    const others = [...this.#pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    this.#pointers.set(event.pointerId, at);
    if (others.length) {
      const [other] = others; // the point between two fingers moves half as far as one of them
      this.#pan((at.x - before.x) / 2, (at.y - before.y) / 2);
      const apart = (point: { x: number; y: number }) => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
      this.#zoom(apart(at) / apart(before), (at.x + other.x) / 2, (at.y + other.y) / 2);
      return;
    }
    if (!this.#moved && Math.hypot(at.x - this.#start.x, at.y - this.#start.y) < STILL) return;
    this.#moved = true;
    this.controller.hover.value = null;
    if (this.#start.pan) this.#pan(at.x - before.x, at.y - before.y);
    else this.rectangle.value = { x0: this.#start.x, y0: this.#start.y, x1: at.x, y1: at.y };
  };

  up = (event: PointerEvent): void => {
    const at = this.#at(event);
    this.#pointers.delete(event.pointerId);
    const dragged = this.rectangle.value;
    if (dragged) {
      const { controller } = this;
      const { x, y, cell } = controller.view.peek();
      const cells = {
        left: Math.floor(x + Math.min(dragged.x0, dragged.x1) / cell.width),
        right: Math.ceil(x + Math.max(dragged.x0, dragged.x1) / cell.width),
        top: Math.floor(y + Math.min(dragged.y0, dragged.y1) / cell.height),
        bottom: Math.ceil(y + Math.max(dragged.y0, dragged.y1) / cell.height),
      };
      controller.go(zoomTo(cells, controller.plot.peek(), controller.matrix));
    } else if (!this.#moved && event.button === 0) this.#pin(at);
    this.rectangle.value = null;
    if (this.#pointers.size === 0) this.#start = null;
  };

  cancel = (event: PointerEvent): void => {
    this.#pointers.delete(event.pointerId);
    this.#start = null;
    this.rectangle.value = null;
  };

  leave = (): void => {
    this.controller.hover.value = null;
  };

  double = (): void => {
    const { query, key } = this.#before;
    this.controller.props.set({ query, key }); // the two clicks of it pinned nothing
    this.controller.reset();
  };

  focused = (on: boolean): void => {
    this.controller.focused.value = on && (document.activeElement?.matches(":focus-visible") ?? false);
  };

  key = (event: KeyboardEvent): void => {
    const { controller } = this;
    const { row, column } = controller.cursor.peek();
    const { width, height } = controller.matrix;
    const page = Math.max(1, Math.floor(controller.plot.peek().height / controller.view.peek().cell.height) - 1);
    const far = event.ctrlKey || event.metaKey;
    if (event.altKey || (far && !["Home", "End"].includes(event.key))) return;
    const to: Record<string, [number, number]> = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageUp: [row - page, column],
      PageDown: [row + page, column],
      Home: [far ? 0 : row, 0],
      End: [far ? height - 1 : row, width - 1],
    };
    const plot = controller.plot.peek();
    const visible = (view: View) => reveal(view, controller.cursor.peek().row, controller.cursor.peek().column, plot, controller.matrix);
    const zoomed = (factor: number) => {
      const from = controller.aim();
      const [x, y] = [(column + 0.5 - from.x) * from.cell.width, (row + 0.5 - from.y) * from.cell.height];
      return visible(zoom(from, factor, x, y, plot, controller.matrix));
    };
    if (to[event.key]) {
      const [r, c] = to[event.key];
      controller.cursor.value = { row: Math.max(0, Math.min(height - 1, r)), column: Math.max(0, Math.min(width - 1, c)) };
      controller.move(visible(controller.aim()));
      controller.focused.value = true;
      controller.announced.value = controller.cursor.value;
    } else if (event.key === "+" || event.key === "=") controller.go(zoomed(2));
    else if (event.key === "-") controller.go(zoomed(0.5));
    else if (event.key === "0") controller.reset();
    else if (event.key === "Enter" || event.key === " ") {
      controller.props.set({ query: row, key: column });
      controller.announced.value = { row, column };
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  #hover({ x, y }: { x: number; y: number }): void {
    const { controller } = this;
    const plot = controller.plot.peek();
    const cell = x >= 0 && y >= 0 && x < plot.width && y < plot.height ? cellAt(controller.view.peek(), x, y, controller.matrix) : null;
    controller.hover.value = cell && { ...cell, x, y };
  }

  /** Pin the cell, or outside the plot the query or the key of a label; what is pinned already is let go. */
  #pin({ x, y }: { x: number; y: number }): void {
    const { controller } = this;
    const { query, key } = controller.props.state.peek();
    const now = performance.now();
    if (now - this.#before.at > DOUBLE) this.#before = { query, key, at: now };
    const plot = controller.plot.peek();
    const cell = x < plot.width && y < plot.height ? cellAt(controller.view.peek(), Math.max(0, x), Math.max(0, y), controller.matrix) : null;
    if (!cell || (x < 0 && y < 0)) return;
    const target = { query: y < 0 ? query : cell.row, key: x < 0 ? key : cell.column };
    const again = target.query === query && target.key === key;
    controller.cursor.value = cell;
    controller.props.set(again ? { query: null, key: null } : target);
  }
}
