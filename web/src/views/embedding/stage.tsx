/** The stage: points on a canvas, and above them rings, names, a trail and the lasso; pointer and keyboard. */

import { useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { inside, nearestPoint, normalised, type Places, towards } from "../../core/embedding";
import { headColour } from "../../core/palette";
import { visible } from "../../core/format";
import { type Ink, inkOf } from "../matrix/draw";
import type { EmbeddingController } from "./controller";
import { type Camera, type Looks, type PointRenderer, rendererOf } from "./points";

const MOVE = 700; // ms from one level to the next
const REACH = 14; // px
const NAMED = 60; // this many points carry their names
const MARGIN = 34;

/** Radius times two of a point, in px. */
export const sizeOf = (points: number) => (points <= 60 ? 13 : points <= 1000 ? 8 : points <= 10_000 ? 5 : points <= 20_000 ? 3.5 : 2);

/** Colours and shapes of the points by class; those that are hidden, or outside the selection, are faint. */
export function looksOf(controller: EmbeddingController): Looks {
  const { of } = controller.classes.value;
  const dark = controller.props.dark.value;
  const palette = controller.classes.value.names.map((_, at) => (headColour(at, dark).match(/\d+/g) ?? []).map(Number));
  const [colours, shapes] = [new Uint8Array(4 * of.length), new Uint8Array(of.length)];
  const hidden = controller.hidden.value;
  const chosen = controller.selection.value.length ? new Set(controller.selection.value) : null;
  for (let i = 0; i < of.length; i++) {
    colours.set(palette[of[i]], 4 * i);
    colours[4 * i + 3] = hidden.has(of[i]) ? 0 : chosen && !chosen.has(i) ? 60 : 225;
    shapes[i] = of[i] % 4;
  }
  return { colours, shapes };
}

class Stage {
  readonly camera: Camera = { scale: 1, x: 0, y: 0 };
  readonly renderer: PointRenderer;
  private readonly pen: CanvasRenderingContext2D;
  private width = 1;
  private height = 1;
  private from: Places | null = null;
  private to: Places | null = null;
  private began = -1e9;
  private waiting = 0;
  private lasso: [number, number][] = [];
  /** Durations of the last frames, in ms, for those who measure. */
  readonly frames: number[] = [];

  constructor(readonly host: HTMLElement, readonly canvas: HTMLCanvasElement, overlay: HTMLCanvasElement, readonly controller: EmbeddingController) {
    this.renderer = rendererOf(canvas, new URLSearchParams(location.search).get("renderer"));
    this.pen = overlay.getContext("2d")!;
  }

  resize(): void {
    const { clientWidth, clientHeight } = this.host;
    const ratio = window.devicePixelRatio || 1;
    const before = this.fit();
    [this.width, this.height] = [Math.max(clientWidth, 1), Math.max(clientHeight, 1)];
    this.renderer.resize(this.width, this.height, ratio);
    this.pen.canvas.width = Math.round(this.width * ratio);
    this.pen.canvas.height = Math.round(this.height * ratio);
    this.camera.scale *= this.fit() / before;
    this.request();
  }

  reset(): void {
    Object.assign(this.camera, { scale: this.fit(), x: 0, y: 0 });
    this.request();
  }

  /** Go to other places: at once where there were none, or where movement is not wanted. */
  go(places: Places): void {
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.from = this.to && this.to.length === places.length && !still ? this.current() : places;
    if (!this.to) this.reset();
    this.to = places;
    this.began = this.from === places ? -1e9 : performance.now();
    this.renderer.move(this.from, this.to);
    this.request();
  }

  request(): void {
    this.waiting ||= requestAnimationFrame((now) => this.frame(now));
  }

  screen(x: number, y: number): [number, number] {
    const { camera } = this;
    return [this.width / 2 + (x + camera.x) * camera.scale, this.height / 2 - (y + camera.y) * camera.scale];
  }

  place(x: number, y: number): [number, number] {
    const { camera } = this;
    return [(x - this.width / 2) / camera.scale - camera.x, -(y - this.height / 2) / camera.scale - camera.y];
  }

  pick(x: number, y: number): number {
    if (!this.to) return -1;
    const point = nearestPoint(this.shown(), ...this.place(x, y), REACH / this.camera.scale);
    return point;
  }

  next(from: number, dx: number, dy: number): number {
    return this.to ? towards(this.shown(), from, dx, dy) : from;
  }

  zoom(factor: number, x = this.width / 2, y = this.height / 2): void {
    const [px, py] = this.place(x, y);
    const { camera } = this;
    camera.scale = Math.min(Math.max(camera.scale * factor, this.fit() / 4), this.fit() * 4000);
    camera.x = (x - this.width / 2) / camera.scale - px;
    camera.y = -(y - this.height / 2) / camera.scale - py;
    this.request();
  }

  pan(dx: number, dy: number): void {
    this.camera.x += dx / this.camera.scale;
    this.camera.y -= dy / this.camera.scale;
    this.request();
  }

  draw(at: [number, number]): void {
    this.lasso.push(at);
    this.request();
  }

  /** End the lasso; gives the points inside. */
  close(): number[] {
    const polygon = this.lasso.map(([x, y]) => this.place(x, y));
    this.lasso = [];
    this.request();
    const hidden = this.controller.hidden.peek();
    const { of } = this.controller.classes.peek();
    return this.to && polygon.length > 2 ? inside(this.to, polygon).filter((point) => !hidden.has(of[point])) : [];
  }

  destroy(): void {
    cancelAnimationFrame(this.waiting);
    this.renderer.destroy();
  }

  /** Places with the points of hidden classes out of reach. */
  private shown(): Places {
    const hidden = this.controller.hidden.peek();
    if (!hidden.size) return this.to!;
    const { of } = this.controller.classes.peek();
    return this.to!.map((value, at) => (hidden.has(of[at >> 1]) ? NaN : value));
  }

  private fit = () => Math.max(Math.min(this.width, this.height) / 2 - MARGIN, 20);

  private share(now: number): number {
    const t = Math.min(Math.max((now - this.began) / MOVE, 0), 1);
    return t * t * (3 - 2 * t);
  }

  private current(): Places {
    const t = this.share(performance.now());
    return t >= 1 ? this.to! : this.to!.map((value, at) => this.from![at] + t * (value - this.from![at]));
  }

  private frame(now: number): void {
    this.waiting = 0;
    if (!this.to) return;
    const start = performance.now();
    const t = this.share(now);
    this.renderer.draw(this.camera, t, sizeOf(this.to.length / 2));
    this.over(t);
    this.host.dataset.moving = t < 1 ? "1" : "";
    this.frames.push(performance.now() - start);
    if (this.frames.length > 600) this.frames.shift();
    if (t < 1) this.request();
  }

  private over(t: number): void {
    const { pen, controller } = this;
    const ratio = window.devicePixelRatio || 1;
    const ink = inkOf(this.host, controller.props.dark.peek());
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, this.width, this.height);
    const now = t >= 1 ? this.to! : this.to!.map((value, at) => this.from![at] + t * (value - this.from![at]));
    const at = (point: number) => this.screen(now[2 * point], now[2 * point + 1]);
    const pinned = controller.pinned;
    if (pinned !== null && t >= 1) this.trail(pinned, ink);
    this.names(at, ink);
    const near = controller.neighbours.peek();
    if (near && near.point === pinned) for (const [other] of near.list.slice(0, 5)) this.ring(at(other), 1.5, ink.soft, ink);
    if (pinned !== null) this.ring(at(pinned), 3, ink.accent, ink);
    const hovered = controller.hovered.peek();
    if (hovered >= 0) this.ring(at(hovered), 2, ink.ink, ink);
    if (this.lasso.length > 1) {
      pen.beginPath();
      this.lasso.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.setLineDash([5, 4]);
      pen.strokeStyle = ink.accent;
      pen.lineWidth = 2;
      pen.stroke();
      pen.setLineDash([]);
    }
  }

  private ring([x, y]: [number, number], width: number, colour: string, ink: Ink): void {
    const { pen } = this;
    const r = sizeOf(this.to!.length / 2) / 2 + 3;
    for (const [style, line] of [[ink.panel, width + 2], [colour, width]] as const) {
      pen.beginPath();
      pen.arc(x, y, r, 0, 2 * Math.PI);
      pen.strokeStyle = style;
      pen.lineWidth = line;
      pen.stroke();
    }
  }

  /** The way of a point through the levels, by PCA, whose places lie on each other. */
  private trail(point: number, ink: Ink): void {
    const { pen, controller } = this;
    const map = controller.map.peek();
    if (!map || map.levels.length < 2 || controller.state.peek().method !== "pca") return;
    const level = controller.level.peek();
    const way = map.pca.slice(0, level + 1).map((places) => normalisedPoint(places, point)).map(([x, y]) => this.screen(x, y));
    pen.beginPath();
    way.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.strokeStyle = ink.soft;
    pen.lineWidth = 1.5;
    pen.stroke();
    pen.fillStyle = ink.soft;
    for (const [x, y] of way.slice(0, -1)) pen.fillRect(x - 2, y - 2, 4, 4);
    pen.font = `11px ${ink.font}`;
    pen.fillText("0", way[0][0] + 5, way[0][1] - 5);
  }

  /** Names of few points, or of those that are pinned and pointed at, which come first: each to the right, to the left, above or below, where there is room. */
  private names(at: (point: number) => [number, number], ink: Ink): void {
    const { pen, controller } = this;
    const map = controller.map.peek()!;
    const hidden = controller.hidden.peek();
    const taken: [number, number, number][] = [];
    const near = controller.neighbours.peek();
    const first = [controller.hovered.peek(), controller.pinned ?? -1].filter((point) => point >= 0);
    const others = map.points <= NAMED ? [...(near?.list.map(([point]) => point) ?? []), ...Array.from({ length: map.points }, (_, point) => point)] : [];
    pen.font = `12px ${ink.font}`;
    pen.textBaseline = "middle";
    for (const i of new Set([...first, ...others])) {
      if (hidden.has(controller.classes.peek().of[i])) continue;
      const name = nameOf(controller, i);
      const width = pen.measureText(name).width;
      const [px, py] = at(i);
      const r = sizeOf(map.points) / 2 + 7;
      const around = [[px + r, py], [px - r - width, py], [px - width / 2, py - r - 3], [px - width / 2, py + r + 3]];
      const free = around.find(([x, y]) => x > 2 && x + width < this.width - 4 && y > 8 && y < this.height - 8 && !taken.some(([left, top, wide]) => Math.abs(top - y) < 13 && x < left + wide && left < x + width));
      if (!free && !first.includes(i)) continue;
      const [x, y] = free ?? around[0];
      taken.push([x, y, width]);
      pen.lineWidth = 3;
      pen.strokeStyle = ink.panel;
      pen.strokeText(name, x, y);
      pen.fillStyle = ink.soft;
      pen.fillText(name, x, y);
    }
  }
}

const middles = new WeakMap<Places, Places>();
function normalisedPoint(places: Places, point: number): [number, number] {
  let whole = middles.get(places);
  if (!whole) middles.set(places, (whole = normalised(places)));
  return [whole[2 * point], whole[2 * point + 1]];
}

/** A point's name on the stage: its token, the words about the occurrence, or its number. */
export function nameOf({ map }: EmbeddingController, point: number): string {
  const about = map.peek()!;
  const [start, end] = about.spans?.[point] ?? [0, 0];
  const text = about.texts[point];
  if (about.kind === "tokens") return visible(text.slice(start, end));
  if (about.kind !== "words") return about.keys[point];
  const words = (part: string) => part.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
  const before = words(text.slice(0, start)).at(-1) ?? "";
  const after = words(text.slice(end))[0] ?? "";
  return `${before} · ${after}`.slice(0, 28);
}

const STEPS: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

export function StageView({ controller }: { controller: EmbeddingController }) {
  const host = useRef<HTMLDivElement>(null);
  const stage = useRef<Stage | null>(null);
  useEffect(() => {
    const [canvas, overlay] = host.current!.querySelectorAll("canvas");
    const made = (stage.current = new Stage(host.current!, canvas, overlay, controller));
    host.current!.dataset.renderer = made.renderer.kind;
    (host.current as unknown as { stage: Stage }).stage = made;
    const box = host.current!;
    const watch = new ResizeObserver(() => {
      // It ends where the window does, whatever is above it, such as a step of the tour.
      box.style.setProperty("--above", `${Math.round(box.getBoundingClientRect().top + scrollY)}px`);
      made.resize();
    });
    for (const each of [box, document.body]) watch.observe(each);
    const lost = (event: Event) => event.preventDefault();
    canvas.addEventListener("webglcontextlost", lost);
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      made.zoom(Math.exp(-event.deltaY * 0.0015), event.offsetX, event.offsetY);
    };
    host.current!.addEventListener("wheel", wheel, { passive: false });
    return () => {
      watch.disconnect();
      made.destroy();
      stage.current = null;
    };
  }, [controller]);
  useSignalEffect(() => {
    stage.current?.renderer.looks(looksOf(controller));
    stage.current?.request();
  });
  useSignalEffect(() => {
    const places = controller.places.value;
    if (places) stage.current?.go(places);
  });
  useSignalEffect(() => {
    void [controller.hovered.value, controller.state.value.point, controller.neighbours.value, controller.lassoing.value];
    stage.current?.request();
  });
  const handlers = useMemo(() => pointer(stage, controller), [controller]);
  const pressed = (event: KeyboardEvent) => {
    const made = stage.current;
    if (!made || event.ctrlKey || event.metaKey || event.altKey || !controller.places.peek()) return;
    const here = controller.hovered.peek() >= 0 ? controller.hovered.peek() : (controller.pinned ?? -1);
    const step = STEPS[event.key];
    if (step) {
      const point = here < 0 ? 0 : made.next(here, ...step);
      controller.hovered.value = point;
      controller.props.say(controller.sentence(point));
    } else if (event.key === "Enter" && here >= 0) controller.pin(here);
    else if (event.key === "+" || event.key === "=") made.zoom(1.4);
    else if (event.key === "-") made.zoom(1 / 1.4);
    else if (event.key === "0") made.reset();
    else if (event.key === "Escape") {
      controller.pin(null);
      controller.select([]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="map-stage" ref={host} tabIndex={0} role="application" data-lasso={controller.lassoing.value ? "" : undefined}
      aria-label="Map of points: arrow keys go to the next point, Enter pins it, plus and minus zoom, 0 shows all, Escape unpins"
      onKeyDown={pressed} onDblClick={() => stage.current?.reset()} {...handlers}
    >
      <canvas aria-hidden="true" />
      <canvas aria-hidden="true" />
    </div>
  );
}

/** Drag pans, with the lasso or Shift it draws; a click pins. */
function pointer(stage: { current: Stage | null }, controller: EmbeddingController) {
  let last: [number, number] | null = null;
  let moved = 0;
  let lasso = false;
  const at = (event: PointerEvent): [number, number] => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  return {
    onPointerDown: (event: PointerEvent) => {
      if (event.button) return;
      (event.currentTarget as HTMLElement).setPointerCapture(event.pointerId);
      [last, moved, lasso] = [at(event), 0, controller.lassoing.peek() || event.shiftKey];
    },
    onPointerMove: (event: PointerEvent) => {
      const made = stage.current;
      if (!made) return;
      const here = at(event);
      if (!last) {
        const point = made.pick(...here);
        if (point !== controller.hovered.peek()) controller.hovered.value = point;
        return;
      }
      moved += Math.abs(here[0] - last[0]) + Math.abs(here[1] - last[1]);
      if (lasso) made.draw(here);
      else made.pan(here[0] - last[0], here[1] - last[1]);
      last = here;
    },
    onPointerUp: (event: PointerEvent) => {
      const made = stage.current;
      if (!made || !last) return;
      last = null;
      if (moved < 5) {
        made.close();
        const point = made.pick(...at(event));
        controller.pin(point < 0 ? null : point);
      } else if (lasso) controller.select(made.close());
    },
    onPointerCancel: () => (last = null),
    onPointerLeave: () => {
      if (!last) controller.hovered.value = -1;
    },
  };
}
