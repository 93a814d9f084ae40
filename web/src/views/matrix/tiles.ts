/** Tiles of a head as images, coloured relative to the largest probability loaded so far. */

import { colours, pooled } from "../../core/heatmap";
import type { Overview, Tile, TileQuery, Transport, Session } from "../../core/types";
import { cellsOf, type Cells, levelFor, parent, pooling, visibleRange, type Size, type TileAt, tilesFor, topLevel, type View } from "./geometry";
import { RequestPool } from "./request-pool";
import * as views from "../../core/views";

/** A piece of an image, and the cells that it shows. */
export interface Patch {
  image: HTMLCanvasElement;
  /** In the image's pixels. */
  from: { x: number; y: number; width: number; height: number };
  cells: Cells;
}

/** One head, how its bytes are spread over the probabilities, and on what page. */
export type HeadOf = Pick<TileQuery, "map" | "layer" | "head" | "companding"> & { dark: boolean };

interface Image {
  canvas: HTMLCanvasElement;
  /** The probability whose colour was the strongest when it was painted. */
  top: number;
  dark: boolean;
  /** How many of the tile's pixels were painted as one. */
  pool: Size;
}

export class Tiles {
  readonly #pool: RequestPool<TileQuery, Tile>;
  readonly #images = new WeakMap<Tile, Image>();
  #under: { overview: Overview; key: string; image: HTMLCanvasElement } | null = null;
  /** The largest scale seen of a head. */
  readonly #tops = new Map<string, number>();

  constructor(transport: Transport, session: Session, arrived: () => void, refused: (error: unknown) => void) {
    this.#pool = new RequestPool({
      key: (query) => Object.values(query).join("/"),
      ask: (query, signal) => views.tile(transport, session, query, signal),
      cached: 128,
      parallel: 4,
      arrived: (query, tile) => {
        const head = name(query);
        this.#tops.set(head, Math.max(this.#tops.get(head) ?? 0, tile.scale));
        arrived();
      },
      handleError: refused,
    });
  }

  /** The probability that gets the strongest colour: the largest known of this head. */
  top(head: HeadOf, overview: Overview | undefined): number {
    return Math.max(this.#tops.get(name(head)) ?? 0, overview?.scale[head.head] ?? 0);
  }

  /** Ask for the tiles on screen; those that are not any more are called off. */
  want(head: HeadOf, view: View, density: number, plot: Size, matrix: Size): void {
    const level = levelFor(view, density, plot, matrix);
    this.#pool.want(tilesFor(visibleRange(view, plot, matrix), level).map((tile) => query(head, tile)));
  }

  /** What can be drawn now: the thumbnail under everything, then for each place the finest that has come. */
  patches(head: HeadOf, overview: Overview | undefined, view: View, density: number, plot: Size, matrix: Size): Patch[] {
    const top = this.top(head, overview);
    const patches: Patch[] = [];
    if (overview) patches.push(this.#thumbnail(head, overview, top, matrix));
    for (const tile of tilesFor(visibleRange(view, plot, matrix), levelFor(view, density, plot, matrix))) {
      const patch = this.#finest(head, tile, top, matrix, (level) => pooling(view, density, level));
      if (patch) patches.push(patch);
    }
    return patches;
  }

  /** The probability of a cell as the tiles know it: right to 1/255 of their scale. */
  about(head: HeadOf, row: number, column: number): number | undefined {
    const tile = this.#pool.get(query(head, { level: 0, row: row >> 8, column: column >> 8 }));
    if (!tile) return undefined;
    const share = tile.values[(row & 255) * tile.width + (column & 255)] / 255;
    return (head.companding === "sqrt" ? share * share : share) * tile.scale;
  }

  close(): void {
    this.#pool.close();
  }

  /** A tile, or the part of the nearest coarser one that shows the same cells. */
  #finest(head: HeadOf, tile: TileAt, top: number, matrix: Size, poolAt: (level: number) => Size): Patch | null {
    const cells = cellsOf(tile, matrix);
    for (let at = tile; at.level <= topLevel(matrix); at = parent(at)) {
      const cached = this.#pool.get(query(head, at));
      if (!cached) continue;
      const origin = cellsOf(at, matrix);
      const pool = poolAt(at.level);
      const [across, down] = [pool.width * 2 ** at.level, pool.height * 2 ** at.level];
      const from = {
        x: (cells.left - origin.left) / across,
        y: (cells.top - origin.top) / down,
        width: (cells.right - cells.left) / across,
        height: (cells.bottom - cells.top) / down,
      };
      return { image: this.#image(cached, head, top, pool), from, cells };
    }
    return null;
  }

  #thumbnail(head: HeadOf, overview: Overview, top: number, matrix: Size): Patch {
    const { height, width, bins, thumbnails, scale } = overview;
    const key = `${name(head)}/${head.companding}/${head.dark}/${top}`;
    if (this.#under?.overview !== overview || this.#under.key !== key) {
      const bytes = thumbnails.subarray(head.head * height * width, (head.head + 1) * height * width);
      const spread = head.companding === "sqrt" ? bytes.map((byte) => Math.round(Math.sqrt(byte * 255))) : bytes;
      this.#under = { overview, key, image: paint(document.createElement("canvas"), spread, height, width, scale[head.head] / top, head) };
    }
    return {
      image: this.#under.image,
      // The last pixel may stand for fewer tokens than the others.
      from: { x: 0, y: 0, width: matrix.width / bins[1], height: matrix.height / bins[0] },
      cells: { left: 0, top: 0, right: matrix.width, bottom: matrix.height },
    };
  }

  /** A tile in colours; painted again when a larger probability has been seen, or the screen has room for more or fewer pixels. */
  #image(tile: Tile, head: HeadOf, top: number, pool: Size): HTMLCanvasElement {
    const cached = this.#images.get(tile);
    if (cached && cached.top === top && cached.dark === head.dark && cached.pool.width === pool.width && cached.pool.height === pool.height) return cached.canvas;
    const { values, height, width } = pooled(tile, pool);
    const canvas = paint(cached?.canvas ?? document.createElement("canvas"), values, height, width, tile.scale / top, head);
    this.#images.set(tile, { canvas, top, dark: head.dark, pool });
    return canvas;
  }
}

/** Bytes as colours: 255 gets the colour of `ratio`, the share of the head's largest probability that it stands for. */
function paint(canvas: HTMLCanvasElement, values: Uint8Array, height: number, width: number, ratio: number, { companding, dark }: HeadOf): HTMLCanvasElement {
  const share = Number.isFinite(ratio) ? ratio : 0; // a head that sees nothing at all has no largest probability
  canvas.width = width;
  canvas.height = height;
  const pixels = colours(values, { dark, max: 255 / (companding === "sqrt" ? Math.sqrt(share) : share) });
  canvas.getContext("2d")!.putImageData(new ImageData(pixels, width, height), 0, 0);
  return canvas;
}

const name = (head: Omit<HeadOf, "dark">) => `${head.map}/${head.layer}/${head.head}`;

const query = (head: HeadOf, tile: TileAt): TileQuery => ({
  map: head.map,
  layer: head.layer,
  head: head.head,
  level: tile.level,
  row: tile.row,
  column: tile.column,
  companding: head.companding,
});
