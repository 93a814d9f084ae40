/** Controller of the heat map: viewport, pointer, selected head, and the rows and tiles that have been loaded. */

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import { number, rank, visible } from "../../core/format";
import { type Mask, maskOf, visibleKeys } from "../../core/mask";
import { mapOf } from "../../core/url-state";
import { overviewKey } from "../../core/store";
import { type AttentionMap, type Overview, errorHandler, type Row, type Token, type ViewProps } from "../../core/types";
import { fit, isWhole, scaleOf, visibleRange, type Size, type View } from "./geometry";
import { RequestPool } from "./request-pool";
import { NUMBERED } from "./layout";
import { type HeadOf, Tiles } from "./tiles";
import * as views from "../../core/views";

export interface Cell {
  row: number;
  column: number;
}

/** One cell in exact numbers. */
export interface Reading extends Cell {
  p: number;
  score: number;
  rank: number;
  of: number;
  hidden: boolean;
}

/** A row under a moving pointer is asked for once the pointer has stayed on it this long, in ms. */
const REST = 12;
/** A change of view by a button or a key takes this long, in ms. */
const GLIDE = 160;

export class HeatmapController {
  readonly map: AttentionMap;
  readonly queries: Token[];
  readonly keys: Token[];
  readonly matrix: Size;
  readonly view = signal<View>({ x: 0, y: 0, cell: { width: 1, height: 1 } });
  readonly plot = signal<Size>({ width: 0, height: 0 });
  /** Screen pixels a CSS pixel. */
  readonly density = signal(1);
  readonly hover = signal<(Cell & { x: number; y: number }) | null>(null);
  /** Where the keyboard is. */
  readonly cursor = signal<Cell>({ row: 0, column: 0 });
  readonly focused = signal(false);
  /** A cell that is to be read out once its numbers are here. */
  readonly announced = signal<Cell | null>(null);
  /** Counts arrivals: effects that draw read it. */
  readonly version = signal(0);
  /** Why numbers of the picture are missing, where they do not come. */
  readonly absent = signal<string | null>(null);
  readonly head: ReadonlySignal<HeadOf>;
  readonly overview: ReadonlySignal<Overview | undefined>;
  /** Is all of the matrix on screen? */
  readonly whole = computed(() => isWhole(this.view.value, this.plot.value, this.matrix));
  readonly tiles: Tiles;
  readonly #rows: RequestPool<HeadOf & { query: number }, Row>;
  #rest = 0;
  #glide = 0;
  /** Where a movement under way is going. */
  #aim: View | null = null;

  constructor(readonly props: ViewProps, map: string) {
    const { session, state, transport } = props;
    this.map = mapOf(session, map);
    this.queries = session.streams[this.map.queries];
    this.keys = session.streams[this.map.keys];
    this.matrix = { width: this.keys.length, height: this.queries.length };
    const first = this.queries.findIndex((token) => !token.special);
    this.cursor.value = { row: Math.max(0, first), column: 0 };
    this.head = computed(() => ({ map: this.map.name, layer: state.value.layers[0], head: state.value.heads[0], companding: state.value.companding, dark: props.dark.value }));
    this.overview = computed(() => props.overviews.value.get(overviewKey(this.map.name, this.head.value.layer)));
    const arrived = () => void this.version.value++;
    const refused = errorHandler(this.absent, props.refuse);
    this.tiles = new Tiles(transport, session, arrived, refused);
    this.#rows = new RequestPool({
      key: ({ map: name, layer, head, query }) => `${name}/${layer}/${head}/${query}`,
      ask: ({ map: name, layer, head, query }, abort) => views.row(transport, session, name, layer, head, query, abort),
      cached: 256,
      parallel: 3,
      arrived,
      handleError: refused,
    });
  }

  /** The probability that has the strongest colour. */
  top(): number {
    return this.tiles.top(this.head.value, this.overview.value);
  }

  /** The place of a probability on the scale of colours, in [0, 1]. */
  share(p: number): number {
    const share = Math.min(1, p / (this.top() || 1));
    return this.head.value.companding === "sqrt" ? Math.sqrt(share) : share;
  }

  /** Is the head's thumbnail all that there is to draw? */
  isThumbnail(): boolean {
    void this.version.value;
    const overview = this.overview.value;
    return overview !== undefined && this.tiles.patches(this.head.value, overview, this.view.value, this.density.value, this.plot.value, this.matrix).length === 1;
  }

  row(query: number): Row | undefined {
    return this.#rows.get({ ...this.head.value, query });
  }

  /** The query whose strongest keys are listed: the pinned one, else where the keyboard is. */
  subject(): number {
    return this.props.state.value.query ?? this.cursor.value.row;
  }

  read({ row, column }: Cell): Reading | null {
    const exact = this.row(row);
    if (!exact) return null;
    const [from, to] = visibleKeys(this.mask, this.matrix.height, this.matrix.width, row);
    const hidden = column < from || column >= to;
    return { row, column, p: exact.probs[column], score: exact.scores[column], rank: rank(exact.probs, column), of: to - from, hidden };
  }

  /** "from sat to cat, 0.4100, rank 1 of 12" */
  sentence(cell: Reading): string {
    const pair = `from ${visible(this.queries[cell.row].text)} to ${visible(this.keys[cell.column].text)}`;
    return cell.hidden ? `${pair}: hidden by the mask` : `${pair}, ${number(cell.p)}, rank ${cell.rank} of ${cell.of}`;
  }

  /** What the layer on screen hides. */
  get mask(): Mask {
    return maskOf(this.map, this.head.value.layer);
  }

  /** "layer 4 · head 11", and which map where there are several. */
  sentenceOfHead(): string {
    const { layer, head } = this.head.value;
    return `${this.props.session.maps.length > 1 ? `${this.map.name} · ` : ""}layer ${layer} · head ${head}`;
  }

  /** Ask for what is on screen; called when the view, the head or the pointer has changed. */
  want(): void {
    const { view, plot, density, hover, head } = this;
    if (plot.value.width === 0) return;
    this.tiles.want(head.value, view.value, density.value, plot.value, this.matrix);
    const queries = [hover.value?.row, this.cursor.value.row, this.subject()];
    if (scaleOf(view.value) >= NUMBERED) {
      const { top, bottom } = visibleRange(view.value, plot.value, this.matrix);
      for (let row = top; row < bottom; row++) queries.push(row);
    }
    const rows = queries.filter((query) => query !== undefined).map((query) => ({ ...head.value, query }));
    clearTimeout(this.#rest);
    this.#rest = window.setTimeout(() => this.#rows.want(rows), REST);
  }

  reset(): void {
    this.go(fit(this.plot.value, this.matrix));
  }

  /** The view, or the one that a movement under way will end in. */
  aim(): View {
    return this.#aim ?? this.view.peek();
  }

  /** Change the view, in a short movement where the person likes movement. */
  go(to: View): void {
    cancelAnimationFrame(this.#glide);
    this.#aim = to;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.move(to);
      return;
    }
    const from = this.view.value;
    const start = performance.now();
    const step = (now: number) => {
      const t = Math.max(0, Math.min(1, (now - start) / GLIDE));
      const ease = t * (2 - t);
      this.view.value = t === 1 ? to : between(from, to, ease);
      if (t < 1) this.#glide = requestAnimationFrame(step);
      else this.#aim = null;
    };
    this.#glide = requestAnimationFrame(step);
  }

  /** A movement by hand ends one under way. */
  move(to: View): void {
    cancelAnimationFrame(this.#glide);
    this.#aim = null;
    this.view.value = to;
  }

  close(): void {
    clearTimeout(this.#rest);
    cancelAnimationFrame(this.#glide);
    this.tiles.close();
    this.#rows.close();
  }
}

/** A view on the way: zooming is even when cells grow by equal factors, and the corner follows so that a cell moves straight. */
function between(from: View, to: View, ease: number): View {
  const along = (a: number, b: number, sideA: number, sideB: number): [number, number] => {
    const side = sideA * (sideB / sideA) ** ease;
    const share = sideA === sideB ? ease : (1 / side - 1 / sideA) / (1 / sideB - 1 / sideA);
    return [a + (b - a) * share, side];
  };
  const [x, width] = along(from.x, to.x, from.cell.width, to.cell.width);
  const [y, height] = along(from.y, to.y, from.cell.height, to.cell.height);
  return { x, y, cell: { width, height } };
}
