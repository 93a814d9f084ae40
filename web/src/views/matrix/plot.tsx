/** Heat map component: two canvases, one for the image and one for the overlay, and their input handlers. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { nextFrame } from "../../core/frame";
import { number, visible } from "../../core/format";
import type { HeatmapController } from "./heatmap-controller";
import { below, type Caption, draw, footer, heat, type Ink, inkOf, svg } from "./draw";
import { clamp, fit, fitCell, type Size } from "./geometry";
import { InputHandlers, type Rectangle } from "./input-handlers";
import { marks } from "./marks";
import { elide, type Gutter, LEAN, type Scene, scene } from "./layout";

/** A cell one has zoomed into, in CSS pixels. */
const ZOOMED = 40;

/** A page narrower than this, in CSS pixels, has the numbers below the map; else next to it, in this many pixels. */
const NARROW = 720;
const ASIDE = 328;

/** The figure as it is now, at any density: what the screen, the PNG and the SVG file show. */
export interface Figure {
  png(caption: Caption): Promise<Blob>;
  svg(caption: Caption): string;
}

export function Plot({ controller, figure: figureRef }: { controller: HeatmapController; figure: { current: Figure | null } }) {
  const { props, matrix } = controller;
  const host = useRef<HTMLDivElement>(null);
  const image = useRef<HTMLCanvasElement>(null);
  const overlay = useRef<HTMLCanvasElement>(null);
  const size = useSignal<Size>({ width: 0, height: 0 });
  const gutter = useSignal<Gutter>({ left: 0, top: 0, right: 0 });
  const ink = useSignal<Ink | null>(null);
  const rectangle = useSignal<Rectangle | null>(null);
  const measured = useMemo(() => labels(controller), [controller]);

  const paper = () => inkOf(host.current!, props.dark.peek());
  /** Whatever is drawn of the map now. */
  const contents = (): Scene =>
    scene({
      view: controller.view.value,
      plot: controller.plot.value,
      matrix,
      mask: controller.mask,
      row: (position) => visible(controller.queries[position].text),
      column: (position) => visible(controller.keys[position].text),
      fit: (text) => measured.fit(text, gutter.value.left - 12),
      exact: (row, column) => controller.row(row)?.probs[column],
      pinned: pinned(),
      share: (p) => controller.share(p),
      dark: props.dark.value,
    });
  const pinned = () => {
    const { query, key } = props.state.value;
    return query === null || key === null ? null : { row: query, column: key };
  };
  const patches = (density: number) => controller.tiles.patches(controller.head.value, controller.overview.value, controller.view.value, density, controller.plot.value, matrix);

  useEffect(() => {
    const lay = () => {
      const box = host.current?.closest(".matrix-body");
      if (!box) return;
      const narrow = box.clientWidth < NARROW;
      const width = narrow ? box.clientWidth : box.clientWidth - ASIDE;
      const font = getComputedStyle(box).fontFamily;
      const room = measured.gutter(font, narrow ? 72 : 120);
      const maximum = window.innerHeight * (narrow ? 0.75 : 0.86); // all of it can be scrolled into sight at once
      const plot = { width: width - room.left - room.right, height: Math.max(280, Math.min(1400, maximum)) - room.top };
      const cell = fitCell(plot, matrix);
      const before = controller.whole.value || controller.plot.peek().width === 0;
      gutter.value = room;
      // A small matrix takes no more room than its whole picture; a long and narrow one as much as it needs to be zoomed into.
      const extent = (cells: number, side: number) => Math.max(Math.ceil(cells * side), Math.min(cells * ZOOMED, 320)) + 1;
      plot.height = Math.min(plot.height, extent(matrix.height, cell.height));
      plot.width = Math.min(plot.width, extent(matrix.width, cell.width));
      size.value = { width: room.left + plot.width + room.right, height: plot.height + room.top + 2 };
      controller.density.value = window.devicePixelRatio || 1;
      controller.plot.value = plot;
      controller.move(before ? fit(plot, matrix) : clamp(controller.view.peek(), plot, matrix));
    };
    lay();
    const watch = new ResizeObserver(lay);
    watch.observe(host.current!.closest(".matrix-body")!);
    window.addEventListener("resize", lay);
    return () => {
      watch.disconnect();
      window.removeEventListener("resize", lay);
    };
  }, [controller]);

  useSignalEffect(() => {
    const dark = props.dark.value;
    // The page's own colours change with its theme in the same turn: read them when that is done.
    return nextFrame(() => host.current && (ink.value = inkOf(host.current, dark)));
  });

  useSignalEffect(() => controller.want());

  // The picture: drawn at most once a frame.
  useSignalEffect(() => {
    void [controller.view.value, controller.plot.value, controller.version.value, controller.head.value, controller.overview.value, size.value, ink.value, controller.density.value];
    return nextFrame(() => {
      const pen = sized(image.current, size.value, controller.density.value);
      if (pen && ink.value) draw(pen, size.value, gutter.value, controller.view.value, patches(controller.density.value), contents(), ink.value);
    });
  });

  // What follows the pointer, the keyboard and the pin.
  useSignalEffect(() => {
    void [controller.view.value, controller.hover.value, controller.cursor.value, rectangle.value, props.state.value.query, props.state.value.key, size.value, ink.value];
    return nextFrame(() => {
      const pen = sized(overlay.current, size.value, controller.density.value);
      if (pen && ink.value) marks(pen, controller, size.value, gutter.value, rectangle.value, (text) => measured.fit(text, 220), ink.value);
    });
  });

  figureRef.current = {
    async png(caption) {
      const { width, height } = size.value;
      const canvas = new OffscreenCanvas(2 * Math.ceil(width), 2 * Math.ceil(height + below(caption)));
      // The two kinds of context differ only in what canvas they belong to.
      const pen = canvas.getContext("2d") as unknown as CanvasRenderingContext2D;
      pen.scale(2, 2);
      draw(pen, { width, height: height + below(caption) }, gutter.value, controller.view.value, patches(2), contents(), paper());
      footer(pen, { width, height }, contents(), gutter.value, caption, paper());
      return canvas.convertToBlob({ type: "image/png" });
    },
    svg(caption) {
      const now = contents();
      const canvas = document.createElement("canvas");
      canvas.width = Math.ceil(2 * now.width);
      canvas.height = Math.ceil(2 * now.height);
      const pen = canvas.getContext("2d")!;
      pen.scale(canvas.width / now.width, canvas.height / now.height);
      heat(pen, controller.view.value, patches(2));
      return svg(size.value, gutter.value, controller.view.value, canvas.toDataURL("image/png"), now, paper(), caption);
    },
  };

  const handlers = useMemo(() => new InputHandlers(controller, gutter, rectangle), [controller]);
  useEffect(() => {
    // Preact listens passively to wheels; this one must be able to keep the page from scrolling.
    const surface = host.current!;
    surface.addEventListener("wheel", handlers.wheel, { passive: false });
    return () => surface.removeEventListener("wheel", handlers.wheel);
  }, [handlers]);

  return (
    <div
      ref={host}
      class={controller.whole.value ? "matrix-plot" : "matrix-plot matrix-zoomed"}
      role="application"
      aria-label={`heat map: ${matrix.height} queries down, ${matrix.width} keys across`}
      aria-describedby="matrix-keys"
      tabIndex={0}
      style={{ width: `${size.value.width}px`, height: `${size.value.height}px` }}
      onPointerDown={handlers.down}
      onPointerMove={handlers.moved}
      onPointerUp={handlers.up}
      onPointerCancel={handlers.cancel}
      onPointerLeave={handlers.leave}
      onDblClick={handlers.double}
      onKeyDown={handlers.key}
      onFocus={() => handlers.focused(true)}
      onBlur={() => handlers.focused(false)}
    >
      <canvas ref={image} aria-hidden="true" />
      <canvas ref={overlay} aria-hidden="true" />
      <Tip controller={controller} gutter={gutter.value} size={size.value} />
    </div>
  );
}

/** The exact value under the pointer, or what the tile says until it has come. */
function Tip({ controller, gutter, size }: { controller: HeatmapController; gutter: Gutter; size: Size }) {
  void controller.version.value;
  const cell = controller.hover.value;
  if (!cell) return null;
  const reading = controller.read(cell);
  const about = reading ? undefined : controller.tiles.about(controller.head.value, cell.row, cell.column);
  const left = gutter.left + cell.x;
  const top = gutter.top + cell.y;
  const flip = left > size.width - 240;
  return (
    <div class={flip ? "matrix-tip matrix-flip" : "matrix-tip"} style={{ transform: `translate(${left}px, ${top}px)` }}>
      <div>
        <p>
          <b>{visible(controller.queries[cell.row].text)}</b> <small>{cell.row}</small> → <b>{visible(controller.keys[cell.column].text)}</b>{" "}
          <small>{cell.column}</small>
        </p>
        {reading?.hidden ? (
          <p>hidden by the mask</p>
        ) : (
          <p>
            <output>{reading ? number(reading.p) : about === undefined ? "…" : `≈ ${number(about, 2)}`}</output>
            {reading && ` rank ${reading.rank} of ${reading.of}`}
          </p>
        )}
        {reading && !reading.hidden && <p class="matrix-score">score {number(reading.score)}</p>}
      </div>
    </div>
  );
}

/** A canvas of the right number of pixels, and its context in CSS pixels. */
function sized(canvas: HTMLCanvasElement | null, { width, height }: Size, density: number): CanvasRenderingContext2D | null {
  if (!canvas || width === 0) return null;
  const [across, down] = [Math.round(width * density), Math.round(height * density)];
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const pen = canvas.getContext("2d");
  pen?.setTransform(density, 0, 0, density, 0, 0);
  return pen;
}

/** How long the labels are, and how to cut them. */
function labels(controller: HeatmapController) {
  const pen = document.createElement("canvas").getContext("2d")!;
  const cut = new Map<string, string>();
  const measure = (text: string) => pen.measureText(text).width;
  return {
    fit(text: string, width: number): string {
      const key = `${width}/${text}`;
      let short = cut.get(key);
      if (short === undefined) cut.set(key, (short = elide(text, width, measure)));
      return short;
    },
    gutter(font: string, maximum: number): Gutter {
      pen.font = `12px ${font}`;
      cut.clear();
      const tokens = new Set([...controller.queries, ...controller.keys].map((token) => visible(token.text)));
      // Where labels are thinned they carry their place: count its digits too.
      const digits = Math.max(controller.queries.length, controller.keys.length) > 30 ? measure(`${controller.keys.length} `) : 0;
      const longest = Math.min(maximum, digits + Math.max(...[...tokens].map(measure)));
      return { left: Math.ceil(longest) + 16, top: Math.ceil(longest * Math.sin(-LEAN)) + 18, right: Math.ceil(longest * Math.cos(LEAN)) };
    },
  };
}
