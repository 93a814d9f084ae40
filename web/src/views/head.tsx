/**
 * The head view: tokens that look on the left, tokens looked at on the right, and a line for each link between them.
 *
 *     time ────┐  ┌─── time          colour = head; thickness and opacity = probability
 *     flies ───┼──┘  · flies         grey = what is not drawn
 */

import { batch, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { percent, plural } from "../core/format";
import { mapOf } from "../core/state";
import type { ViewProps } from "../core/types";
import { middle } from "./head/columns";
import { type Theme, columnWidth, pageOf, sceneOf, tableOf, themeOf } from "./head/compose";
import { Controls } from "./head/controls";
import { Details } from "./head/details";
import { MAPS, Picture, type Side } from "./head/picture";
import { draw, svg } from "./head/scene";
import { Table } from "./head/table";
import { Tokens } from "./head/tokens";
import "./head.css";

/** The least height of the columns on screen, as a share of it on a narrow one, and what is to be seen below them. */
const [LEAST, SHARE, BELOW] = [320, 0.72, 84];
const NARROW = "(max-width: 40rem)";

export function HeadView(props: ViewProps) {
  const { name } = mapOf(props.session, props.state.value.map);
  return <Head key={`${props.session.id}/${name}`} {...props} />;
}

function Head(props: ViewProps) {
  const picture = useMemo(() => new Picture(props), []);
  const tabled = useSignal(false);
  useEffect(() => picture.start(), []);
  useSignalEffect(() => {
    const sentence = picture.sentence.value;
    if (sentence) props.say(sentence);
  });
  return (
    <div class="head">
      <Controls picture={picture} />
      <div class="head-body">
        <div class="head-picture">
          <Stage picture={picture} />
          <p class="head-status">
            <Status picture={picture} />
            <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>data table</button>
          </p>
          {tabled.value && <Table picture={picture} />}
        </div>
        <Details picture={picture} />
      </div>
    </div>
  );
}

/** Columns and lines, in a part of the page that scrolls by itself where the text is long. */
function Stage({ picture }: { picture: Picture }) {
  const scroller = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useSignal<Theme | null>(null);
  const { width, height } = picture.size.value;
  const content = picture.contentHeight.value;

  useLayoutEffect(() => {
    const element = scroller.current!;
    const measure = () => {
      const above = element.getBoundingClientRect().top + window.scrollY;
      batch(() => {
        picture.room.value = Math.max(LEAST, matchMedia(NARROW).matches ? SHARE * window.innerHeight : window.innerHeight - above - BELOW);
        picture.size.value = { width: element.clientWidth, height: Math.min(picture.contentHeight.value, picture.room.value) };
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
    void picture.props.dark.value;
    const frame = requestAnimationFrame(() => {
      if (scroller.current) theme.value = themeOf(scroller.current); // the page has changed its colours by then
    });
    return () => cancelAnimationFrame(frame);
  });

  useSignalEffect(() => {
    if (!theme.value || !picture.size.value.width) return;
    const { sans, mono } = theme.value;
    const scene = sceneOf(picture, theme.value);
    const frame = requestAnimationFrame(() => {
      const element = canvas.current;
      if (!element) return; // an effect ends only after the frame in which its view has gone
      const context = sized(element, scene.width, scene.height, window.devicePixelRatio);
      draw(context, scene, { sans, mono });
    });
    return () => cancelAnimationFrame(frame);
  });

  useSignalEffect(() => {
    const { layers, heads } = picture.asked.value;
    const fonts = () => themeOf(scroller.current!);
    picture.props.exports({
      name: `head-layer${layers[0] === layers[1] ? layers[0] : layers.join("-")}-head${heads.length > 4 ? `s${heads.length}` : heads.join("-")}`,
      png: () => {
        const page = pageOf(picture, fonts());
        const sheet = new OffscreenCanvas(2 * page.width, 2 * page.height);
        const context = sheet.getContext("2d")!;
        context.fillStyle = fonts().panel;
        context.fillRect(0, 0, sheet.width, sheet.height);
        context.scale(2, 2);
        draw(context, page, fonts());
        return sheet.convertToBlob({ type: "image/png" });
      },
      svg: () => svg(pageOf(picture, fonts()), fonts().panel, fonts()),
      table: () => tableOf(picture),
    });
    return () => picture.props.exports(null);
  });

  const reveal = (side: Side, token: number) => {
    const column = side === "query" ? picture.queries.value : picture.keys.value;
    const at = middle(column, token);
    const element = scroller.current!;
    if (at === null) return;
    const [above, below] = [at - 1.5 * column.rowHeight, at + 1.5 * column.rowHeight];
    if (above < element.scrollTop) element.scrollTop = above;
    else if (below > element.scrollTop + height) element.scrollTop = below - height;
  };

  // What is pinned elsewhere, or by a link, comes to the screen; a click here is on the screen already.
  useSignalEffect(() => {
    const { query, key } = picture.props.state.value;
    if (!picture.size.value.height) return;
    if (key !== null && query === null) reveal("key", key);
    if (query !== null) reveal("query", query);
  });

  const { queries, keys } = picture.map.value;
  const one = queries === keys;
  const numbers = (side: Side) => picture.shares.value?.side === side && <small>{picture.subject.value}</small>;
  return (
    <>
      <div class="head-titles" style={{ "--column": `${columnWidth(width)}px` }} aria-hidden="true">
        <span>{numbers("query")}<span>{one ? "looks" : <><b>{queries}</b> looks at</>}</span></span>
        <span><span>{one ? "is looked at" : <b>{keys}</b>}</span>{numbers("key")}</span>
      </div>
      <div
        ref={scroller} class="head-stage" style={{ height: height ? `${height}px` : undefined, "--column": `${columnWidth(width)}px` }} data-tall={picture.rowHeight.value >= 28 ? "" : undefined}
        data-stale={picture.stale.value ? "" : undefined} data-absent={picture.absent.value ? "" : undefined} onScroll={(event) => (picture.scroll.value = event.currentTarget.scrollTop)}
      >
        <div class="head-content" inert={picture.absent.value !== null} style={{ height: `${content}px` }}>
          <canvas ref={canvas} aria-hidden="true" />
          <Tokens picture={picture} side="query" label={one ? "Tokens that look" : `${queries}: tokens that look`} reveal={reveal} />
          <Tokens picture={picture} side="key" label={one ? "Tokens looked at" : `${keys}: tokens looked at`} reveal={reveal} />
        </div>
      </div>
      <Empty picture={picture} />
    </>
  );
}

/** Why there is nothing to see. */
function Empty({ picture }: { picture: Picture }) {
  const absent = picture.absent.value;
  if (absent) {
    const [words, options] = absent.split(picture.session.command);
    return <p class="head-absent" role="status">{words}{options !== undefined && <code>{picture.session.command}{options}</code>}</p>;
  }
  const maps = picture.mapsAsked.value;
  return maps > MAPS ? <p class="head-absent" role="status">{plural(maps, "head")} are more than can be drawn at once ({MAPS}): choose fewer layers or heads.</p> : null;
}

/** How much is drawn, and how much is not. */
function Status({ picture }: { picture: Picture }) {
  const { links, hidden, strongest } = picture.drawn.value;
  const { count } = picture.asked.value;
  if (picture.waiting.value) return <span>fetching lines…</span>;
  const rest = hidden > 0 ? ` · ${plural(hidden, "fainter one")} hidden, the strongest ${percent(strongest)}` : "";
  const listed = count < picture.keyTokens.value.length ? ` · of each token the ${count} strongest` : "";
  return <span>{plural(links.length, "line")}{rest}{listed} · <i class="head-stub" aria-hidden="true" /> not drawn</span>;
}

/** An empty canvas of so many CSS pixels, sharp on this screen. */
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
