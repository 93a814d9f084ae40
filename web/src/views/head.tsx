/**
 * Head view: query tokens on the left, key tokens on the right, and a line for each attention link between them.
 *
 *     time ────┐  ┌─── time          colour = head; thickness and opacity = probability
 *     flies ───┼──┘  · flies         grey = what is not drawn
 */

import { batch, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { nextFrame } from "../core/frame";
import { percent, plural } from "../core/format";
import { sessionKey } from "../core/store";
import { mapOf } from "../core/url-state";
import type { ViewProps } from "../core/types";
import { middle } from "./head/columns";
import { type Theme, columnWidth, pageOf, sceneOf, tableOf, themeOf } from "./head/layout";
import { Controls } from "./head/controls";
import { Details } from "./head/details";
import { MAPS, HeadController, type Side } from "./head/head-controller";
import { draw, svg } from "./head/scene";
import { Table } from "./head/table";
import { Tokens } from "./head/tokens";
import "./head.css";
import { explained } from "./head/because";
import type { ViewModule } from "../ui/view-module";
import { Told } from "../ui/command";
import { Term } from "../ui/term";

/** The least height of the columns on screen, as a share of it on a narrow one, and what is to be seen below them. */
const [LEAST, SHARE, BELOW] = [320, 0.72, 84];
const NARROW = "(max-width: 40rem)";

export function HeadView(props: ViewProps) {
  const { name } = mapOf(props.session, props.state.value.map);
  return <Head key={`${sessionKey(props.session)}/${name}`} {...props} />;
}

function Head(props: ViewProps) {
  const controller = useMemo(() => new HeadController(props), []);
  const tabled = useSignal(false);
  useEffect(() => controller.start(), []);
  useSignalEffect(() => {
    const sentence = controller.sentence.value;
    if (sentence) props.say(sentence);
  });
  return (
    <div class="head">
      <Controls controller={controller} />
      <div class="head-body">
        <div class="head-picture">
          <Stage controller={controller} />
          <p class="head-status">
            <Status controller={controller} />
            <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
          </p>
          {tabled.value && <Table controller={controller} />}
        </div>
        <Details controller={controller} />
      </div>
    </div>
  );
}

/** Columns and lines, in a part of the page that scrolls by itself where the text is long. */
function Stage({ controller }: { controller: HeadController }) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useSignal<Theme | null>(null);
  const { width, height } = controller.size.value;
  const content = controller.contentHeight.value;

  useLayoutEffect(() => {
    const element = scroller.current!;
    const measure = () => {
      const above = element.getBoundingClientRect().top + window.scrollY;
      batch(() => {
        controller.room.value = Math.max(LEAST, matchMedia(NARROW).matches ? SHARE * window.innerHeight : window.innerHeight - above - BELOW);
        controller.size.value = { width: element.clientWidth, height: Math.min(controller.contentHeight.value, controller.room.value) };
      });
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    observer.observe(document.body);
    window.addEventListener("resize", measure);
    return () => {
      observer.disconnect();
      window.removeEventListener("resize", measure);
    };
  }, [content]);

  useSignalEffect(() => {
    void controller.props.dark.value;
    return nextFrame(() => {
      if (scroller.current) theme.value = themeOf(scroller.current); // the page has changed its colours by then
    });
  });

  useSignalEffect(() => {
    if (!theme.value || !controller.size.value.width) return;
    const { sans, mono } = theme.value;
    const scene = sceneOf(controller, theme.value);
    return nextFrame(() => {
      const element = canvas.current;
      if (!element) return; // an effect ends only after the frame in which its view has gone
      const context = sized(element, scene.width, scene.height, window.devicePixelRatio);
      draw(context, scene, { sans, mono });
    });
  });

  useSignalEffect(() => {
    if (controller.absent.value) return; // there is nothing to save
    const { layers, heads } = controller.request.value;
    const fonts = () => themeOf(scroller.current!);
    controller.props.exports({
      name: `head-layer${layers[0] === layers[1] ? layers[0] : layers.join("-")}-head${heads.length > 4 ? `s${heads.length}` : heads.join("-")}`,
      png: () => {
        const page = pageOf(controller, fonts());
        const sheet = new OffscreenCanvas(2 * page.width, 2 * page.height);
        const context = sheet.getContext("2d")!;
        context.fillStyle = fonts().panel;
        context.fillRect(0, 0, sheet.width, sheet.height);
        context.scale(2, 2);
        draw(context, page, fonts());
        return sheet.convertToBlob({ type: "image/png" });
      },
      svg: () => svg(pageOf(controller, fonts()), fonts().panel, fonts()),
      table: () => tableOf(controller),
    });
    return () => controller.props.exports(null);
  });

  const reveal = (side: Side, token: number) => {
    const column = side === "query" ? controller.queries.value : controller.keys.value;
    const at = middle(column, token);
    const element = scroller.current!;
    if (at === null) return;
    const [above, below] = [at - 1.5 * column.rowHeight, at + 1.5 * column.rowHeight];
    if (above < element.scrollTop) element.scrollTop = above;
    else if (below > element.scrollTop + height) element.scrollTop = below - height;
  };

  // What is pinned elsewhere, or by a link, comes to the screen; a click here is on the screen already.
  useSignalEffect(() => {
    const { query, key } = controller.props.state.value;
    if (!controller.size.value.height) return;
    if (key !== null && query === null) reveal("key", key);
    if (query !== null) reveal("query", query);
  });

  const { queries, keys } = controller.map.value;
  const one = queries === keys;
  const numbers = (side: Side) => controller.shares.value?.side === side && <small>{controller.subject.value}</small>;
  return (
    <>
      <div class="head-titles" style={{ "--column": `${columnWidth(width)}px` }} aria-hidden="true">
        <span>{numbers("query")}<span>from{one ? "" : <> <b>{queries}</b></>}</span></span>
        <span><span>to{one ? "" : <> <b>{keys}</b></>}</span>{numbers("key")}</span>
      </div>
      <div
        ref={scroller} class="head-stage" style={{ height: height ? `${height}px` : undefined, "--column": `${columnWidth(width)}px` }} data-tall={controller.rowHeight.value >= 28 ? "" : undefined}
        data-stale={controller.stale.value ? "" : undefined} data-absent={controller.absent.value ? "" : undefined} tabIndex={controller.absent.value ? 0 : undefined} onScroll={(event) => (controller.scroll.value = event.currentTarget.scrollTop)}
      >
        <div class="head-content" inert={controller.absent.value !== null} style={{ height: `${content}px` }}>
          <canvas ref={canvas} aria-hidden="true" />
          <Tokens controller={controller} side="query" label={one ? "Tokens that look" : `${queries}: tokens that look`} reveal={reveal} />
          <Tokens controller={controller} side="key" label={one ? "Tokens looked at" : `${keys}: tokens looked at`} reveal={reveal} />
        </div>
      </div>
      <Empty controller={controller} />
    </>
  );
}

/** Why there is nothing to see. */
function Empty({ controller }: { controller: HeadController }) {
  const absent = controller.absent.value;
  if (absent) return <p class="head-absent" role="status"><Told text={absent} /></p>;
  if (controller.weightless.value) return <p class="head-absent" role="status">All weights are 0: give one head at least a weight.</p>;
  const maps = controller.mapCount.value;
  return maps > MAPS ? <p class="head-absent" role="status">{plural(maps, "head")} are more than can be drawn at once ({MAPS}): choose fewer layers or heads.</p> : null;
}

/** How much is drawn, and how much is not. */
function Status({ controller }: { controller: HeadController }) {
  const { links, hidden, strongest } = controller.visibleLinks.value;
  const { count } = controller.request.value;
  if (controller.absent.value) return <span />;
  if (controller.waiting.value) return <span>fetching lines…</span>;
  const rest = hidden > 0 ? ` · ${plural(hidden, "fainter one")} hidden, the strongest ${percent(strongest)}` : "";
  const listed = count < controller.keyTokens.value.length ? ` · of each token the ${count} strongest` : "";
  return <span>{plural(links.length, "line")}{rest}{listed} · <i class="head-stub" aria-hidden="true" /> <Term of="other">other: not drawn</Term></span>;
}

/** An empty canvas of this many CSS pixels, sharp on this screen. */
function sized(element: HTMLCanvasElement, width: number, height: number, ratio: number): CanvasRenderingContext2D {
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (element.width !== w) element.width = w;
  if (element.height !== h) element.height = h;
  element.style.width = `${width}px`;
  element.style.height = `${height}px`;
  element.style.marginBottom = `${-height}px`;
  const context = element.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export const view: ViewModule = {
  name: "head", title: "Head", squares: true,
  sentence: "Each line goes from a token that attends, on the left, to one that it attends to, on the right; a stronger line is more attention. Tap or point at a word; click to pin it.",
  Component: explained(HeadView),
};
