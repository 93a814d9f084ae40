/** HTTP transport to the local server: binary frames by GET, forward passes by POST, each with the access token. */

import { distributionOf, type BinaryFrame, type FrameKind, overviewOf, readFrame } from "./binary-frame";
import type { PatchEffect, PatchRequest, Sweep, SweepRequest } from "./patching";
import { type Contexts, type ContextsQuery, parametersOf } from "./contexts";
import { type Similarity, similarityOf } from "./similarity";
import { type EmbeddingDescription, embeddingOf, type EmbeddingSource, placesOf } from "./embedding";
import type { Lookup } from "./lookup";
import { LRUCache } from "./lru-cache";
import { type Attribution, attributionOf, type AttributionRequest, type Lens, lensOf, type LensRequest } from "./readings";
import { type Description, type Transcript, transcriptOf } from "./transcript";
import { UserError, nullToMinusInfinity } from "./types";
import type { Distribution, Lines, LinesQuery, Neuron, Overview, Progress, Row, Session, Tile, TileQuery, Transport, TraceLine, GenerationRequest, PageLocation } from "./types";

type Numbers = Float32Array | Float64Array;

export class HttpTransport implements Transport {
  readonly host = "server";
  private readonly readings = new LRUCache<BinaryFrame>(32e6);

  private readonly sweeps = new LRUCache<Sweep>(32);

  constructor(private readonly token: string | null) {}

  async run(texts: string[] | null, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session> {
    return this.pass("/api/runs", texts ? { texts } : {}, progress, signal);
  }

  async overview(session: Session, map: string, layer: number, exact: boolean, signal?: AbortSignal): Promise<Overview> {
    return overviewOf(await this.frame("overview", session, { map, layer, exact: exact ? 1 : 0 }, signal));
  }

  async lines(session: Session, query: LinesQuery, signal?: AbortSignal): Promise<Lines> {
    const { map, layers, heads, mix, rows, count, keys } = query;
    const parameters = { map, layers: `${layers[0]}:${layers[1] + 1}`, heads: heads.join(","), mix, rows: rows.join(":"), count };
    const frame = await this.frame("lines", session, keys ? { ...parameters, keys: keys.join(",") } : parameters, signal);
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

  async tile(session: Session, query: TileQuery, signal?: AbortSignal): Promise<Tile> {
    const frame = await this.frame("tile", session, { ...query }, signal);
    const [height, width] = frame.shapes.tile;
    return { query, height, width, values: frame.arrays.tile as Uint8Array, scale: frame.header.scale as number };
  }

  async row(session: Session, map: string, layer: number, head: number, query: number, signal?: AbortSignal): Promise<Row> {
    const { arrays } = await this.frame("row", session, { map, layer, head, query }, signal);
    return { map, layer, head, query, scores: arrays.scores as Numbers, probs: arrays.probs as Numbers };
  }

  async neuron(session: Session, map: string, layer: number, head: number, query: number, keys: [number, number], signal?: AbortSignal): Promise<Neuron> {
    const frame = await this.frame("neuron", session, { map, layer, head, query, keys: keys.join(":") }, signal);
    const { scale, score_cap, kv_head, keys: keyRange } = frame.header as Pick<Neuron, "scale" | "score_cap" | "kv_head" | "keys">;
    return { map, layer, head, query, keys: keyRange, scale, score_cap, kv_head, ...(frame.arrays as unknown as Pick<Neuron, "q" | "k" | "v" | "z" | "scores" | "probs" | "bias">) };
  }

  async write(request: GenerationRequest, onLine: (line: TraceLine) => void, signal?: AbortSignal): Promise<void> {
    let finished = false;
    for await (const line of lines(await this.post("/api/write", request, signal))) {
      const message = JSON.parse(line, nullToMinusInfinity) as TraceLine & { error?: string };
      if (message.error) throw new UserError(message.error, "request");
      onLine(message);
      finished ||= "ready" in message;
    }
    if (!finished) throw new UserError(SERVER_GONE, "unreachable");
  }

  async stop(w: string): Promise<void> {
    await (await this.post("/api/stop", { w })).text();
  }

  async distribution(w: string, node: number, signal?: AbortSignal): Promise<Distribution> {
    const answer = await this.call(`/api/distribution?${new URLSearchParams({ w, node: String(node) })}`, { signal });
    return distributionOf(readFrame(await answer.arrayBuffer().catch(unreachable), "distribution"));
  }

  async attend(w: string, node: number, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session> {
    return this.pass("/api/attend", { w, node }, progress, signal);
  }

  async transcribe(_: Session, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Transcript> {
    const about = await this.pass<Description>("/api/transcribe", {}, progress, signal);
    return transcriptOf(about, async (kind, window) => {
      const answer = await this.call(`/api/${kind}${kind === "alignment" ? `?window=${window}` : ""}`, { signal });
      return readFrame(await answer.arrayBuffer().catch(unreachable), kind);
    });
  }

  async recording(): Promise<Blob> {
    return (await this.call("/api/recording")).blob();
  }

  async listen(window: number, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session> {
    return this.pass("/api/listen", { window }, progress, signal);
  }

  async patch(session: Session, request: PatchRequest, signal?: AbortSignal): Promise<PatchEffect> {
    return (await (await this.post("/api/patch", { s: session.id, ...request }, signal)).json()) as PatchEffect;
  }

  async sweep(session: Session, request: SweepRequest, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Sweep> {
    const key = JSON.stringify([session.id, request]);
    const cached = this.sweeps.get(key);
    if (cached) return cached;
    const sweep = await this.pass<Sweep>("/api/sweep", { s: session.id, ...request }, progress, signal);
    this.sweeps.set(key, sweep);
    return sweep;
  }

  async lookup(session: Session, stream: string, token: number, signal?: AbortSignal): Promise<Lookup> {
    const answer = await this.call(`/api/lookup?${new URLSearchParams({ s: session.id, stream, token: String(token) })}`, { signal });
    return (await answer.json().catch(unreachable)) as Lookup;
  }

  async similarity(session: Session, signal?: AbortSignal): Promise<Similarity> {
    return similarityOf(await this.frame("similarity", session, {}, signal));
  }

  async contexts(session: Session, query: ContextsQuery, signal?: AbortSignal): Promise<Contexts> {
    const answer = await this.call(`/api/contexts?${new URLSearchParams({ s: session.id, ...parametersOf(query) })}`, { signal });
    return (await answer.json().catch(unreachable)) as Contexts;
  }

  embeddings(session: Session, stream: string): EmbeddingSource {
    const about = { s: session.id, stream };
    const get = (path: string, parameters: object = {}, signal?: AbortSignal) =>
      this.call(`/api/embedding${path}?${new URLSearchParams(Object.entries({ ...about, ...parameters }).map(([name, value]) => [name, String(value)]))}`, { signal });
    const frame = async (answer: Response) => readFrame(await answer.arrayBuffer().catch(unreachable), "embedding");
    return {
      map: async (signal) => embeddingOf((await (await get("", {}, signal)).json()) as EmbeddingDescription, await frame(await get("/places", {}, signal))),
      project: async (request, progress, signal) => {
        const { id } = await this.pass<{ id: string }>("/api/embedding/project", { ...about, ...request }, progress, signal);
        return placesOf(await frame(await this.call(`/api/embedding/projection?id=${id}`, { signal })));
      },
      neighbours: async (point, level, signal) => (await get("/neighbours", { point, level }, signal)).json() as Promise<[number, number][]>,
      stored: null,
    };
  }

  async lens(session: Session, request: LensRequest, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Lens> {
    return this.reading("lens", session, request, progress, lensOf, signal);
  }

  async attribution(session: Session, request: AttributionRequest, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Attribution> {
    return this.reading("attribution", session, request, progress, attributionOf, signal);
  }

  /** Compute a lens or an attribution, or take it from the last ones. */
  private async reading<T>(kind: "lens" | "attribution", session: Session, request: object, progress: (at: Progress) => void, parse: (frame: BinaryFrame) => T, signal?: AbortSignal): Promise<T> {
    const name = JSON.stringify([kind, session.id, request]);
    let frame = this.readings.get(name);
    if (!frame) {
      const { key } = await this.pass<{ key: string }>(`/api/${kind}`, { s: session.id, ...request }, progress, signal);
      const answer = await this.call(`/api/reading?${new URLSearchParams({ s: session.id, key })}`, { signal });
      frame = readFrame(await answer.arrayBuffer().catch(unreachable), kind);
      this.readings.set(name, frame, Object.values(frame.arrays).reduce((sum, array) => sum + array.byteLength, 0));
    }
    return parse(frame);
  }

  async page(session: Session, location?: PageLocation): Promise<Blob> {
    if (location === "transcript") return (await this.call("/api/transcript")).blob();
    const parameters: Record<string, string> = location && "w" in location ? { w: location.w, node: String(location.node) } : { s: session.id, ...(location && parametersOf(location)) };
    return (await this.call(`/api/page?${new URLSearchParams(parameters)}`)).blob();
  }

  /** Run a forward pass, or a transcription: progress line by line, and what it gave in the end. */
  private async pass<T = Session>(path: string, parameters: object, progress: (at: Progress) => void, signal?: AbortSignal): Promise<T> {
    let ready: T | undefined;
    for await (const line of lines(await this.post(path, parameters, signal))) {
      const message = JSON.parse(line) as Partial<Progress> & { ready?: T; error?: string };
      if (message.error) throw new UserError(message.error, "request");
      if (message.ready) ready = message.ready; // and read on: a stream left before its end counts as a failed call
      else progress({ done: message.done ?? 0, of: message.of ?? 1 });
    }
    if (ready) return ready;
    throw new UserError(SERVER_GONE, "unreachable");
  }

  private post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
    return this.call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  }

  private async frame(kind: FrameKind, session: Session, parameters: Record<string, string | number>, signal?: AbortSignal): Promise<BinaryFrame> {
    const pairs = Object.entries({ s: session.id, ...parameters }).map(([name, value]) => [name, String(value)]);
    const answer = await this.call(`/api/${kind}?${new URLSearchParams(pairs)}`, { signal });
    return readFrame(await answer.arrayBuffer().catch(unreachable), kind);
  }

  private async call(path: string, options: RequestInit = {}): Promise<Response> {
    const headers = { ...options.headers, ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) };
    const answer = await fetch(path, { ...options, headers, cache: "no-store" }).catch(unreachable);
    if (!answer.ok) throw await errorOf(answer);
    return answer;
  }
}

const SERVER_GONE = "The program that serves this page has ended.";

/** A request without a response: aborted, or the server is gone. */
function unreachable(error: unknown): never {
  if (error instanceof DOMException && error.name === "AbortError") throw error;
  throw new UserError(SERVER_GONE, "unreachable");
}

async function errorOf(answer: Response): Promise<UserError> {
  if (answer.status === 401) return new UserError("This page has no key to the program that serves it: open the address that the program printed.", "token");
  const body = await answer.text();
  let message = `The program answered with ${answer.status}.`;
  if (answer.headers.get("Content-Type")?.startsWith("application/json")) message = (JSON.parse(body) as { error?: string }).error ?? message;
  return new UserError(message, answer.status === 410 ? "gone" : "request");
}

/** The lines of a response as they arrive. */
async function* lines(answer: Response): AsyncGenerator<string> {
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(unreachable);
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    yield* parts.filter((part) => part.trim() !== "");
  }
  if (rest.trim() !== "") yield rest;
}
