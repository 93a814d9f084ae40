/** The views of a session, by name: each asks `Transport.view` for its frame, and makes of it what is drawn. */

import { type BinaryFrame, distributionOf, overviewOf } from "./binary-frame";
import type { Contexts, ContextsQuery } from "./contexts";
import { type EmbeddingDescription, embeddingOf, type EmbeddingSource, placesOf } from "./embedding";
import type { Lookup } from "./lookup";
import type { PatchEffect, PatchRequest, Sweep, SweepRequest } from "./patching";
import { type Attribution, attributionOf, type AttributionRequest, type Lens, lensOf, type LensRequest, partOf } from "./readings";
import type { Distribution, Lines, LinesQuery, Neuron, Overview, Progress, Row, Session, Tile, TileQuery, TourStep, Transport } from "./types";

type Numbers = Float32Array | Float64Array;
type Report = (at: Progress) => void;

export async function overview(transport: Transport, session: Session, map: string, layer: number, exact: boolean, signal?: AbortSignal): Promise<Overview> {
  return overviewOf(await transport.view("overview", session, { map, layer, exact }, { signal }));
}

export async function lines(transport: Transport, session: Session, query: LinesQuery, signal?: AbortSignal): Promise<Lines> {
  const layers = [query.layers[0], query.layers[1] + 1];
  const frame = await transport.view("lines", session, { ...query, layers }, { signal });
  return {
    query,
    members: frame.header.members as [number, number][],
    maps: frame.shapes.keys[0],
    count: frame.shapes.keys[2],
    keys: frame.arrays.keys as Uint32Array,
    probs: frame.arrays.probs as Float32Array,
    other: frame.arrays.other as Float32Array,
  };
}

export async function tile(transport: Transport, session: Session, query: TileQuery, signal?: AbortSignal): Promise<Tile> {
  const frame = await transport.view("tile", session, query, { signal });
  const [height, width] = frame.shapes.tile;
  return { query, height, width, values: frame.arrays.tile as Uint8Array, scale: frame.header.scale as number };
}

export async function row(transport: Transport, session: Session, map: string, layer: number, head: number, query: number, signal?: AbortSignal): Promise<Row> {
  const { arrays } = await transport.view("row", session, { map, layer, head, query }, { signal });
  return { map, layer, head, query, scores: arrays.scores as Numbers, probs: arrays.probs as Numbers };
}

export async function neuron(transport: Transport, session: Session, map: string, layer: number, head: number, query: number, keys: [number, number], signal?: AbortSignal): Promise<Neuron> {
  const frame = await transport.view("neuron", session, { map, layer, head, query, keys }, { signal });
  const { scale, score_cap, kv_head, keys: range } = frame.header as Pick<Neuron, "scale" | "score_cap" | "kv_head" | "keys">;
  return { map, layer, head, query, keys: range, scale, score_cap, kv_head, ...(frame.arrays as unknown as Pick<Neuron, "q" | "k" | "v" | "z" | "scores" | "probs" | "bias">) };
}

export async function distribution(transport: Transport, w: string, node: number, signal?: AbortSignal): Promise<Distribution> {
  return distributionOf(await transport.view("distribution", null, { w, node }, { signal }));
}

/** The steps of the tour of this pass. */
export async function tour(transport: Transport, session: Session, signal?: AbortSignal): Promise<TourStep[]> {
  return fieldsOf<{ steps: TourStep[] }>(await transport.view("tour", session, {}, { signal })).steps;
}

/** The embedding look-up of a token. */
export async function lookup(transport: Transport, session: Session, stream: string, token: number, signal?: AbortSignal): Promise<Lookup> {
  return fieldsOf<Lookup>(await transport.view("lookup", session, { stream, token }, { signal }));
}

/** Replace components of the pass: what the prediction becomes. */
export async function patch(transport: Transport, session: Session, request: PatchRequest, signal?: AbortSignal): Promise<PatchEffect> {
  return fieldsOf<PatchEffect>(await transport.view("patch", session, request, { signal }));
}

/** Patch every component of a kind, one after another; progress counts patched passes. */
export async function sweep(transport: Transport, session: Session, request: SweepRequest, progress: Report, signal?: AbortSignal): Promise<Sweep> {
  return fieldsOf<Sweep>(await transport.view("sweep", session, request, { progress, signal }));
}

/** Where in the corpus a layer, a head or a neuron does the same. */
export async function contexts(transport: Transport, session: Session, query: ContextsQuery, signal?: AbortSignal): Promise<Contexts> {
  return fieldsOf<Contexts>(await transport.view("contexts", session, { ...query, head: query.head.split(".").map(Number) }, { signal }));
}

/** The head read at every layer; progress counts layers. A saved page has the columns that were looked at, or all. */
export async function lens(transport: Transport, session: Session, request: LensRequest, progress: Report, signal?: AbortSignal): Promise<Lens> {
  const ask = (fields: LensRequest) => transport.view("lens", session, fields, { progress, signal });
  if (transport.host === "server" || request.count === null) return lensOf(await ask(request));
  return partOf(lensOf(await ask(request).catch(() => ask({ ...request, first: 0, count: null }))), request);
}

/** Which words and parts made an output; progress counts gradients. */
export async function attribution(transport: Transport, session: Session, request: AttributionRequest, progress: Report, signal?: AbortSignal): Promise<Attribution> {
  return attributionOf(await transport.view("attribution", session, request, { progress, signal }));
}

/** The map of embeddings that a server computes. */
export function servedEmbeddings(transport: Transport, session: Session, stream: string): EmbeddingSource {
  return {
    map: async (signal) => {
      const about = fieldsOf<EmbeddingDescription>(await transport.view("embedding", session, { stream }, { signal }));
      return embeddingOf(about, await transport.view("places", session, { stream }, { signal }));
    },
    project: async (request, progress, signal) => placesOf(await transport.view("projection", session, { stream, ...request }, { progress, signal })),
    neighbours: async (point, level, signal) =>
      fieldsOf<{ neighbours: [number, number][] }>(await transport.view("neighbours", session, { stream, point, level }, { signal })).neighbours,
    stored: null,
  };
}

/** What a frame without arrays holds. */
const fieldsOf = <T>(frame: BinaryFrame): T => frame.header as unknown as T;
