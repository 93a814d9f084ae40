/** URL fragment state: versioned pairs, `v=1&view=head&map=self&l=5-7&h=3,7&q=12`. */

import { initialGeneration, readPairs, formatPairs } from "./generation-options";
import { formatPatch, initialPatch, readPatch } from "./patching";
import { initialSearch, readSearch, searchPairs } from "./contexts";
import { initialSimilarity, readSimilarity, similarityPairs } from "./similarity";
import { formatEmbedding, initialEmbedding, readEmbedding } from "./embedding-state";
import { placeOf } from "./findings";
import { formatReading, initialReading, readReading } from "./readings";
import { typeOf } from "./tokens";
import type { AttentionMap, Companding, Mix, RowLabel, Session, State } from "./types";

export const VERSION = "1";
export const SORTS = ["layer", "kind", "alike", "entropy_bits", "previous", "first", "special", "distance"] as const;
const MIXES: readonly Mix[] = ["each", "mean", "max", "weights", "written"];
const COMPANDINGS: readonly Companding[] = ["linear", "sqrt"];

/** The key-value pairs of a fragment, unchecked. */
export type Pairs = URLSearchParams;

export const pairsOf = (fragment: string): Pairs => new URLSearchParams(fragment.replace(/^#/, ""));

/** Pairs of a link that choose what is on screen: with any of them, it is the link that says where the page opens. */
const PLACES = ["view", "map", "l", "h", "q", "k", "from", "to", "sort"];

/** Initial state of a session without a link: the view of its opening, and the first finding; its tokens are pinned where all heads are shown. */
export function initialState({ maps, views, opening: { view: opening, findings } }: Session): State {
  const view = views.includes(opening) ? opening : views[0];
  const place = findings.length ? placeOf(findings[0]) : { map: maps[0].name, layers: [0, 0] as [number, number], heads: [0], query: null, key: null };
  if (view !== "model") place.query = place.key = null;
  return {
    view, ...place, mix: "each",
    from: "", to: "", special: true, sort: "layer", companding: "linear",
    generation: initialGeneration(), patch: initialPatch(), off: [], reading: initialReading(), sound: { word: null, head: 0 },
    similarity: initialSimilarity(), search: initialSearch(),
    embedding: initialEmbedding(), cause: "", row: null, tour: null, chosen: {},
  };
}

/**
 * Serialise the state as a fragment without "#"; defaults are left out, but for the view, the map, the layers and the heads.
 *
 * @param window Of a session over a part of a recording, its number.
 */
export function formatState(state: State, texts: string | null, window: number | null = null): string {
  const pairs: [string, string][] = [
    ["v", VERSION],
    ["view", state.view],
    ["map", state.map],
    ["l", state.layers[0] === state.layers[1] ? String(state.layers[0]) : state.layers.join("-")],
    ["h", state.heads.join(",")],
  ];
  if (state.mix !== "each") pairs.push(["mix", state.mix]);
  if (state.query !== null) pairs.push(["q", String(state.query)]);
  if (state.key !== null) pairs.push(["k", String(state.key)]);
  if (state.from) pairs.push(["from", state.from]);
  if (state.to) pairs.push(["to", state.to]);
  if (!state.special) pairs.push(["sp", "0"]);
  if (state.sort !== "layer") pairs.push(["sort", state.sort]);
  if (state.companding !== "linear") pairs.push(["comp", state.companding]);
  pairs.push(...formatPairs(state.generation), ...formatPatch(state.patch, state.off), ...formatReading(state.reading));
  if (state.sound.word !== null) pairs.push(["word", String(state.sound.word)]);
  if (state.sound.head) pairs.push(["aligned", String(state.sound.head)]);
  pairs.push(...similarityPairs(state.similarity), ...searchPairs(state.search));
  pairs.push(...formatEmbedding(state.embedding));
  if (state.cause) pairs.push(["why", state.cause]);
  for (const [name, value] of Object.entries(state.row ?? {})) if (value) pairs.push([name, String(value)]);
  if (state.tour !== null) pairs.push(["tour", String(state.tour)]);
  for (const [name, value] of Object.entries(state.chosen)) pairs.push([`c.${name}`, value]);
  if (window !== null) pairs.push(["win", String(window)]);
  if (texts) pairs.push(["x", texts]);
  return pairs.map(([name, value]) => `${name}=${encodeURIComponent(value).replace(/%2C/g, ",")}`).join("&");
}

/** Parse a fragment: the nearest state that the session allows, and a notice for each value that it does not. */
export function parseState(pairs: Pairs, session: Session): { state: State; notices: string[] } {
  const notices: string[] = [];
  const state = initialState(session);
  state.tour = wholeNumber(pairs.get("tour"));
  const version = pairs.get("v");
  if (version === null) return { state, notices };
  if (version !== VERSION) {
    notices.push(`this link is of version ${version}, and this page reads version ${VERSION}: showing what the page opens with`);
    return { state, notices };
  }
  const placed = PLACES.some((name) => pairs.has(name));
  if (placed && session.views.includes("model")) state.view = "model"; // a page of some views alone may lack it
  state.view = choice(pairs, "view", session.views, state.view, notices);
  const opened = state.map;
  state.map = choice(pairs, "map", session.maps.map((map) => map.name), state.map, notices);
  state.mix = choice(pairs, "mix", MIXES, state.mix, notices);
  state.sort = choice(pairs, "sort", SORTS, "layer", notices);
  state.companding = choice(pairs, "comp", COMPANDINGS, state.companding, notices);
  state.special = pairs.get("sp") !== "0";
  const map = mapOf(session, state.map);
  if (pairs.has("l") || pairs.has("h") || state.map !== opened) {
    const [first, last = first] = (pairs.get("l") ?? "0").split("-").map((text) => nearest(text, map.layers, "layer", "the model", notices));
    state.layers = [Math.min(first, last), Math.max(first, last)];
    const heads = (pairs.get("h") ?? "0").split(",").map((text) => nearest(text, map.heads, "head", "a layer", notices));
    state.heads = [...new Set(heads)];
  }
  const types = [...new Set(Object.values(session.streams).flat().map(typeOf))];
  state.from = choice(pairs, "from", ["", ...types], "", notices);
  state.to = choice(pairs, "to", ["", ...types], "", notices);
  if (placed) {
    state.query = token(pairs.get("q"), session.streams[map.queries].length, notices);
    state.key = token(pairs.get("k"), session.streams[map.keys].length, notices);
  }
  state.generation = readPairs(pairs, notices);
  Object.assign(state, readPatch(pairs, session, notices));
  state.reading = readReading(pairs, notices);
  state.sound = { word: wholeNumber(pairs.get("word")), head: wholeNumber(pairs.get("aligned")) ?? 0 };
  state.similarity = readSimilarity(pairs);
  state.search = readSearch(pairs);
  state.embedding = readEmbedding(pairs, notices);
  state.row = readRow(pairs);
  state.cause = pairs.get("why") ?? (!placed && state.row?.said ? "strongest" : "");
  for (const [name, value] of pairs) if (name.startsWith("c.")) state.chosen[name.slice(2)] = value;
  return { state, notices: [...new Set(notices)] };
}


/** The row that a link leads from; the way back is a path of this server, or of files next to each other. */
export function readRow(pairs: Pairs): RowLabel | null {
  const [row, label, said, doubt, back] = ["row", "true", "said", "doubt", "back"].map((name) => pairs.get(name) ?? "");
  return row || label ? { row, true: label, said, doubt, changed: pairs.get("changed") === "true", back: /^(\/(?![\/\\])|\.\.\/)/.test(back) ? back : "" } : null;
}

export function mapOf(session: Session, name: string): AttentionMap {
  return session.maps.find((map) => map.name === name) ?? session.maps[0];
}

/** Clamp layers, heads and tokens to those that the (new) map has. */
export function clampState(state: State, session: Session): State {
  const map = mapOf(session, state.map);
  const within = (at: number, size: number) => Math.min(Math.max(at, 0), size - 1);
  const inside = (at: number | null, size: number) => (at !== null && at < size ? at : null);
  const heads = [...new Set(state.heads.map((head) => within(head, map.heads)))];
  const layers = state.layers.map((layer) => within(layer, map.layers)) as [number, number];
  return {
    ...state,
    map: map.name,
    layers: layers[0] <= layers[1] ? layers : [layers[1], layers[0]],
    heads: heads.length ? heads : [0],
    off: state.off.filter(([name, layer, head]) => session.maps.some((each) => each.name === name && layer < each.layers && head < each.heads)),
    query: inside(state.query, session.streams[map.queries].length),
    key: inside(state.key, session.streams[map.keys].length),
  };
}

function choice<T extends string>(pairs: Pairs, name: string, allowed: readonly T[], otherwise: T, notices: string[]): T {
  const requested = pairs.get(name);
  if (requested === null || allowed.includes(requested as T)) return (requested as T) ?? otherwise;
  notices.push(`this link asks for ${NAMES[name]} “${requested}”, which is not here: showing ${SHOWN[otherwise] ?? otherwise}`);
  return otherwise;
}

const NAMES: Record<string, string> = {
  view: "the view", map: "the attention map", mix: "the mix", sort: "the order", comp: "the scale", from: "tokens from text", to: "tokens of text",
};
const SHOWN: Record<string, string> = { "": "all tokens", layer: "heads by layer" };

/** The window of a recording whose session a link shows; null = it shows that of its texts. */
export const windowOf = (pairs: Pairs): number | null => wholeNumber(pairs.get("win"));

/** A number of a transcript, which is not there yet to say whether it has this many words or windows; null = none. */
const wholeNumber = (text: string | null) => (text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null);

function nearest(text: string, size: number, what: string, where: string, notices: string[]): number {
  const requested = /^\d+$/.test(text) ? Number(text) : NaN;
  if (requested < size) return requested;
  const shown = Number.isNaN(requested) ? 0 : size - 1;
  notices.push(`this link asks for ${what} ${text || "nothing"}; ${where} has ${what}s 0 to ${size - 1}: showing ${what} ${shown}`);
  return shown;
}

function token(text: string | null, size: number, notices: string[]): number | null {
  if (text === null) return null;
  const requested = /^\d+$/.test(text) ? Number(text) : NaN;
  if (requested < size) return requested;
  notices.push(`this link asks for token ${text}; the text has tokens 0 to ${size - 1}: none is pinned`);
  return null;
}

/** Encode texts for a link: deflated, then base64url. */
export async function packTexts(texts: string[]): Promise<string> {
  const packed = await through(new TextEncoder().encode(JSON.stringify(texts)), new CompressionStream("deflate"));
  return btoa(Array.from(packed, (byte) => String.fromCharCode(byte)).join("")).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** Decode the texts of a link; null where they are invalid. */
export async function unpackTexts(packed: string): Promise<string[] | null> {
  try {
    const bytes = Uint8Array.from(atob(packed.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
    const texts: unknown = JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate"))));
    return Array.isArray(texts) && texts.every((text) => typeof text === "string") ? texts : null;
  } catch {
    return null; // cut short or changed on its way: the page says so and opens with its own text
  }
}

async function through(bytes: Uint8Array<ArrayBuffer>, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}
