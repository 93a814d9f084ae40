/** A map of embeddings: points, their texts and classes, their places at every level; see explorer/embedding_page.py. */

import type { BinaryFrame } from "./binary-frame";
import type { ProjectionMethod } from "./embedding-state";
import { type Progress, type Session, UserError } from "./types";

export interface Classes {
  /** The most frequent first. */
  names: string[];
  /** The class of each point. */
  of: number[];
}

/** Figures of a study of the points: similarities of all pairs, by level, and clusters. */
export interface Study {
  sentences: string[];
  /** Of all pairs, where these are few. */
  cosine: number[][] | null;
  /** Mean cosine similarity by level; null = not defined. */
  curve: Record<string, (number | null)[]>;
}

export interface EmbeddingDescription {
  id: string;
  kind: "words" | "texts" | "tokens" | "vectors";
  title: string;
  word: string | null;
  levels: string[];
  points: number;
  /** More than points: these are a sample. */
  total: number;
  texts: string[];
  /** Where the word is in each text. */
  spans: [number, number][] | null;
  keys: string[];
  /** The share of the variance that the two components of each level explain. */
  explained: [number, number][];
  /** That the vectors were scaled to length 1 before they were mapped, and why; empty where they were not. */
  scaled: string;
  /** What each level shows, in a sentence. */
  findings: string[];
  classes: Record<string, Classes>;
  study: Study | null;
  /** In a standalone page: the projections that it holds, "tsne/6". */
  projections?: string[];
}

/** Places of one level: x and y of each point. */
export type Places = Float32Array;

export interface EmbeddingMap extends EmbeddingDescription {
  /** Principal components of each level. */
  pca: Places[];
  /** Of tokens, the length of each vector at each level, as it is. */
  lengths?: Float32Array;
}

export interface ProjectionRequest {
  method: ProjectionMethod;
  levels: number[];
  perplexity: number;
  neighbours: number;
  min_dist: number;
  seed: number;
}

/** Where a map comes from: the server, or the page itself. */
export interface EmbeddingSource {
  map(signal?: AbortSignal): Promise<EmbeddingMap>;
  /** Places at each of the levels; progress is in steps. */
  project(request: ProjectionRequest, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Places[]>;
  /** The nearest points by cosine similarity, and how similar they are. */
  neighbours(point: number, level: number, signal?: AbortSignal): Promise<[number, number][]>;
  /** The projections that there are, where no other can be computed. */
  readonly stored: ((map: EmbeddingMap) => string[]) | null;
}

export const embeddingOf = (about: EmbeddingDescription, frame: BinaryFrame): EmbeddingMap => ({ ...about, pca: placesOf(frame), lengths: frame.arrays.lengths as Float32Array | undefined });

export function placesOf({ arrays, shapes }: BinaryFrame): Places[] {
  const [levels, points] = shapes.places;
  return Array.from({ length: levels }, (_, level) => (arrays.places as Float32Array).subarray(level * points * 2, (level + 1) * points * 2));
}

/** The map that a standalone page holds, as JSON and frames. */
export function inlineEmbeddings(
  block: Element | null, frame: (name: string) => Promise<BinaryFrame | null>, unpack: (block: Element) => Promise<ArrayBuffer>, session: Session,
): EmbeddingSource {
  const absent = (what: string, how: string) => new UserError(`${what} is not in this page. To have it: ${how}`, "absent");
  let about: EmbeddingDescription | undefined;
  return {
    map: async () => {
      const pca = await frame("pca");
      if (!block || !pca) throw absent("The map of embeddings", `${session.look} --view embedding`);
      about = JSON.parse(new TextDecoder().decode(await unpack(block))) as EmbeddingDescription;
      return embeddingOf(about, pca);
    },
    project: async ({ method, levels }) => {
      const frames = await Promise.all(levels.map((level) => frame(`${method}/${level}`)));
      return frames.map((each) => {
        if (!each) throw absent("This projection", about?.kind === "tokens" ? `${session.look} --view embedding` : `${session.command.replace(/ --html[= ]\S+/, "")} --serve`);
        return placesOf(each)[0];
      });
    },
    neighbours: async (point, level) => {
      const stored = await frame(`neighbours/${level}`);
      if (!stored) throw absent("The list of neighbours at this level", session.command);
      const k = stored.shapes.nearest[1];
      const [nearest, cosine] = [stored.arrays.nearest, stored.arrays.cosine].map((array) => array.subarray(point * k, (point + 1) * k));
      return Array.from(nearest, (other, at) => [other, cosine[at]] as [number, number]);
    },
    stored: (map) => map.projections ?? [],
  };
}

/** A level's places about their middle, within ±1 on the wider side; what is drawn is the same size at every level. */
export function normalised(places: Places): Places {
  const points = places.length / 2;
  const [low, high] = [[Infinity, Infinity], [-Infinity, -Infinity]];
  for (let i = 0; i < points; i++) {
    for (const axis of [0, 1]) {
      low[axis] = Math.min(low[axis], places[2 * i + axis]);
      high[axis] = Math.max(high[axis], places[2 * i + axis]);
    }
  }
  const half = Math.max(high[0] - low[0], high[1] - low[1]) / 2 || 1;
  const result = new Float32Array(places.length);
  for (let i = 0; i < points; i++) for (const axis of [0, 1]) result[2 * i + axis] = (places[2 * i + axis] - (low[axis] + high[axis]) / 2) / half;
  return result;
}

/** Which point it is, in the words of a reader: a token of a text, an occurrence in a sentence. */
export function pointName({ kind, keys, texts, spans }: EmbeddingDescription, point: number): string {
  const [text, token] = keys[point].split(":");
  if (kind === "words") return `sentence ${text}, token ${token}`;
  if (kind !== "tokens") return `point ${text}`;
  const several = keys.some((key) => !key.startsWith("0:"));
  return `“${texts[point].slice(...spans![point])}”, token ${token}${several ? ` of text ${Number(text) + 1}` : ""}`;
}

/** The point next to a place, within a distance; −1 where there is none. */
export function nearestPoint(places: Places, x: number, y: number, within: number): number {
  let [best, least] = [-1, within * within];
  for (let i = 0; 2 * i < places.length; i++) {
    const [dx, dy] = [places[2 * i] - x, places[2 * i + 1] - y];
    const square = dx * dx + dy * dy;
    if (square < least) [best, least] = [i, square];
  }
  return best;
}

/** The nearest point in a direction, at most 60° off it; points at the same place count too. The point itself where there is none. */
export function towards(places: Places, from: number, dx: number, dy: number): number {
  let [best, least] = [from, Infinity];
  for (let i = 0; 2 * i < places.length; i++) {
    const [x, y] = [places[2 * i] - places[2 * from], places[2 * i + 1] - places[2 * from + 1]];
    const along = x * dx + y * dy;
    const across = Math.abs(x * dy - y * dx);
    if (i === from || along <= 0 || across > 1.73 * along) continue;
    if (along + 2 * across < least) [best, least] = [i, along + 2 * across];
  }
  return best;
}

/** The points inside a polygon, by crossings of a ray. */
export function inside(places: Places, polygon: [number, number][]): number[] {
  const chosen: number[] = [];
  for (let i = 0; 2 * i < places.length; i++) {
    const [x, y] = [places[2 * i], places[2 * i + 1]];
    let within = false;
    for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
      const [[ax, ay], [bx, by]] = [polygon[a], polygon[b]];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) within = !within;
    }
    if (within) chosen.push(i);
  }
  return chosen;
}

/** A hexagon of a hex-bin plot: its middle, and how many points it holds. */
export interface Hexagon {
  x: number;
  y: number;
  count: number;
}

/**
 * Points counted in hexagons (Carr et al. 1987): of two interleaved grids of rectangles, the one with the nearer middle.
 *
 * @param radius From the middle of a hexagon to its corners.
 */
export function hexbins(places: Places, points: Iterable<number>, radius: number): Hexagon[] {
  const [dx, dy] = [radius * Math.sqrt(3), radius * 1.5];
  const bins = new Map<string, Hexagon>();
  for (const i of points) {
    const [px, py] = [places[2 * i] / dx, places[2 * i + 1] / dy];
    let row = Math.round(py);
    let column = Math.round(px - (row & 1) / 2);
    const off = py - row;
    if (Math.abs(off) * 3 > 1) {
      const [x, other] = [px - column - (row & 1) / 2, row + (off < 0 ? -1 : 1)];
      const beside = Math.round(px - (other & 1) / 2);
      const [x2, off2] = [px - beside - (other & 1) / 2, py - other];
      if (x * x * dx * dx + off * off * dy * dy > x2 * x2 * dx * dx + off2 * off2 * dy * dy) [row, column] = [other, beside];
    }
    const key = `${row},${column}`;
    const bin = bins.get(key);
    if (bin) bin.count++;
    else bins.set(key, { x: (column + (row & 1) / 2) * dx, y: row * dy, count: 1 });
  }
  return [...bins.values()];
}
