import assert from "node:assert/strict";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { InlineTransport, hasInline } from "../src/core/inline-transport";
import { LRUCache } from "../src/core/lru-cache";
import { UserError, type Session, type TraceLine, type Token } from "../src/core/types";
import * as views from "../src/core/views";

const T = 6;
const token = (text: string, segment: number | null): Token => ({ text, piece: text, id: 0, segment, special: segment === null, continues: false, span: null });
const session: Session = {
  id: "s", texts: ["a b", "c"], text_hash: "t", fields: ["text"], lookups: ["text"], nbytes: 0, seconds: 0, command: "glassformer look m 'a b' c --html page.html", look: "glassformer look m 'a b' c",
  views: ["model", "head", "matrix", "neuron", "embedding"], reports: {},
  model: { name: "m", family: "bert", task: "encode", revision: "r", dtype: "float32", levels: null, parameters: 1, max_tokens: null, modality: null, can_generate: false, can_transcribe: false, predicts: null, reads: false, can_compare: false, mask_token: null, corpus: null, against: null, precisions: [], is_encoder_decoder: false },
  streams: { text: [token("[CLS]", null), token("a", 0), token("b", 0), token("[SEP]", null), token("c", 1), token("[SEP]", null)] },
  maps: [
    { name: "self", title: "self-attention", layers: 2, heads: 2, kv_heads: 1, head_width: 1, queries: "text", keys: "text", causal: true, windows: [], rotary_bases: [], biased: false, paths: ["blocks.0.attn", "blocks.1.attn", "blocks.2.attn", "blocks.3.attn"] },
  ],
  how_to_read: {}, glossary: {},
  opening: { view: "model", findings: [], short: false, answer: null },
  exact_layers: { self: [0] },
};

/** A frame as Python writes it. */
function frame(kind: string, header: object, arrays: Record<string, Float32Array | Float64Array | Uint8Array>, shapes: Record<string, number[]>): Buffer {
  const names = { Float32Array: "f32", Float64Array: "f64", Uint8Array: "u8" } as Record<string, string>;
  const described = Object.entries(arrays).map(([name, array]) => ({ name, dtype: names[array.constructor.name], shape: shapes[name] }));
  const json = Buffer.from(JSON.stringify({ ...header, frame: kind, arrays: described }));
  const padded = (bytes: Buffer) => Buffer.concat([bytes, Buffer.alloc((8 - (bytes.length % 8)) % 8)]);
  const body = Buffer.concat(Object.values(arrays).map((array) => padded(Buffer.from(array.buffer, array.byteOffset, array.byteLength))));
  const prefix = Buffer.alloc(16);
  prefix.write("GLAS");
  prefix.writeUInt16LE(2, 4);
  prefix.writeUInt16LE(0, 6);
  prefix.writeUInt32LE(json.length, 8);
  prefix.writeUInt32LE(body.length, 12);
  return Buffer.concat([padded(Buffer.concat([prefix, json])), body]);
}

/** As much of a document as the transport reads. */
function documentOf(blocks: Record<string, Buffer>, of: Session | null, written: object | null = null): Document {
  const block = (bytes: Buffer, key: string) => ({ textContent: `\n${deflateSync(bytes).toString("base64")}\n`, getAttribute: () => key });
  const frames = Object.entries(blocks).map(([key, bytes]) => block(bytes, key));
  const head = of && block(Buffer.from(JSON.stringify(of)), "");
  const json = (id: string, value: object) => ({ [id]: block(Buffer.from(JSON.stringify(value)), "") });
  const named: Record<string, unknown> = { session: head, ...(written && { ...json("trace", written), ...json("written", attended) }) };
  return { querySelectorAll: () => frames, getElementById: (id: string) => named[id] ?? null } as unknown as Document;
}

/** Two heads that share one key: head 0 scores every key alike; head 1 scores key j with log(j + 1). */
function layer(Type: { from(numbers: number[]): Float32Array | Float64Array } = Float64Array): Buffer {
  const q = Type.from([...Array(T).fill(0), ...Array(T).fill(1)]);
  const k = Type.from(Array.from({ length: T }, (_, key) => Math.log(key + 1)));
  const v = Type.from(Array.from({ length: T }, (_, key) => key));
  const written = Type.from([...Array(T).fill(1), ...Array(T).fill(3)]);
  return frame("layer", { map: "self", layer: 0, scale: 1, score_cap: null }, { q, k, v, written }, { q: [2, T, 1], k: [1, T, 1], v: [1, T, 1], written: [2, T] });
}

const page = () => new InlineTransport(documentOf({ "layer/self/0": layer() }, session));
const near = (found: number, wanted: number, within = 1e-12) => assert.ok(Math.abs(found - wanted) < within, `${found}, not ${wanted}`);
const refused = (kind: string, words: RegExp) => (error: unknown) => error instanceof UserError && error.kind === kind && words.test(error.message);

test("a page says whether it holds a session, and gives it", async () => {
  assert.equal(hasInline(documentOf({}, null)), false);
  assert.equal(hasInline(documentOf({}, session)), true);
  assert.deepEqual(await page().run(null), session);
  assert.deepEqual(await page().run(["a b", "c"]), session);
});

test("another text, or a layer that is not there, is refused with the command that helps", async () => {
  await assert.rejects(page().run(["other"]), refused("absent", /This page holds one text.*glassformer look m 'a b' c/));
  await assert.rejects(views.row(page(), session, "self", 1, 0, 0), refused("absent", /Layer 1 is not.*layer 0.*glassformer look m 'a b' c --html page.html --layers 0,1$/));
});

test("an overview comes out of its block", async () => {
  const block = frame(
    "overview",
    { map: "self", layer: 1, bins: [1, 1], rows_used: 2, rows_total: 2, stats: ["first", "next"], summaries: ["x", "y"], kinds: [], metrics: {} },
    { thumbnails: Uint8Array.of(1, 2, 3, 4), scale: Float32Array.of(1, 0.5), stats: Float32Array.of(1, 2, 3, 4) },
    { thumbnails: [2, 1, 2], scale: [2], stats: [2, 2] },
  );
  const found = await views.overview(new InlineTransport(documentOf({ "overview/self/1": block }, session)), session, "self", 1, true);
  assert.deepEqual([found.heads, found.height, found.width], [2, 1, 2]);
  assert.deepEqual([...found.stats.next], [2, 4]);
});

test("a row: exact scores and probabilities", async () => {
  const row = await views.row(page(), session, "self", 0, 1, 2);
  [1 / 6, 2 / 6, 3 / 6, 0, 0, 0].forEach((p, key) => near(row.probs[key], p));
  assert.equal(row.scores[3], -Infinity);
  near(row.scores[2], Math.log(3));
});

test("single precision stays within the promise", async () => {
  const single = new InlineTransport(documentOf({ "layer/self/0": layer(Float32Array) }, session));
  const row = await views.row(single, session, "self", 0, 1, 5);
  for (let key = 0; key < T; key++) near(row.probs[key], (key + 1) / 21, 5e-6);
});

test("lines: the strongest keys of each query for each head, and the rest", async () => {
  const found = await views.lines(page(), session, { map: "self", layers: [0, 0], heads: [1, 0], mix: "each", rows: [1, 3], count: 2 });
  assert.deepEqual(found.members, [[0, 1], [0, 0]]);
  assert.deepEqual([found.maps, found.count], [2, 2]);
  assert.deepEqual([...found.keys], [1, 0, 2, 1, 0, 1, 0, 1]);
  [2 / 3, 1 / 3, 3 / 6, 2 / 6].forEach((p, i) => near(found.probs[i], p, 1e-7));
  [0, 1 / 6, 0, 1 / 3].forEach((p, i) => near(found.other[i], p, 1e-7));
});

test("lines: heads mixed by weights, and by what they write", async () => {
  const asked = { map: "self", layers: [0, 0] as [number, number], heads: [0, 1], rows: [2, 3] as [number, number], count: 1 };
  const weighted = await views.lines(page(), session, { ...asked, mix: "weights", weights: [1, 0.25] });
  near(weighted.probs[0], (1 / 3 + 0.25 * (3 / 6)) / 1.25, 1e-7);
  const written = await views.lines(page(), session, { ...asked, mix: "written" });
  near(written.probs[0], (1 / 3 + 3 * (3 / 6)) / 4, 1e-7);
});

test("lines: heads mixed into one map", async () => {
  const asked = { map: "self", layers: [0, 0] as [number, number], heads: [0, 1], rows: [2, 3] as [number, number], count: 1 };
  const mean = await views.lines(page(), session, { ...asked, mix: "mean" });
  assert.deepEqual([mean.maps, mean.members, [...mean.keys]], [1, [], [2]]);
  near(mean.probs[0], (1 / 3 + 1 / 2) / 2, 1e-7);
  near(mean.other[0], 1 - (1 / 3 + 1 / 2) / 2, 1e-7);
  const max = await views.lines(page(), session, { ...asked, mix: "max" });
  near(max.probs[0], 1 / 2, 1e-7);
  near(max.other[0], 2 / 3, 1e-7); // the largest of each key: 1/3, 1/3, 1/2
});

test("lines: only keys of the types asked for; the others count as the rest", async () => {
  const found = await views.lines(page(), session, { map: "self", layers: [0, 0], heads: [0], mix: "each", rows: [5, 6], count: 4, keys: ["0"] });
  assert.deepEqual([...found.keys.subarray(0, 2)], [1, 2]);
  assert.deepEqual([...found.probs.subarray(2)], [0, 0]);
  near(found.other[0], 4 / 6, 1e-7);
});

test("a tile: pooled by maximum, against its own", async () => {
  const tile = await views.tile(page(), session, { map: "self", layer: 0, head: 1, level: 1, row: 0, column: 0, companding: "linear" });
  assert.deepEqual([tile.height, tile.width], [3, 3]);
  assert.equal(tile.scale, 1); // the first query has itself alone
  near(tile.values[8] / 255, 5 / 15, 1 / 255); // the largest of 4/15, 5/15 and 5/21, 6/21
  assert.equal(tile.values[2], 0);
  const outside = { map: "self", layer: 0, head: 0, level: 0, row: 1, column: 0, companding: "linear" } as const;
  await assert.rejects(views.tile(page(), session, outside), refused("request", /no tile/));
});

test("a neuron: everything that makes a row", async () => {
  const found = await views.neuron(page(), session, "self", 0, 1, 1, [1, 3]);
  assert.deepEqual([[...found.q], found.kv_head, found.scale, [...found.v]], [[1], 0, 1, [1, 2]]);
  near(found.k[1], Math.log(3));
  near(found.z[0], 2 / 3); // 1/3 · 0 + 2/3 · 1
  assert.equal(found.bias, undefined);
});

test("called off: nothing more is computed", async () => {
  const signal = AbortSignal.abort();
  await assert.rejects(views.lines(page(), session, { map: "self", layers: [0, 0], heads: [0], mix: "each", rows: [0, 1], count: 1 }, signal), { name: "AbortError" });
});

test("what was not used for longest is let go of first", () => {
  const kept = new LRUCache<string>(10);
  kept.set("a", "A", 4);
  kept.set("b", "B", 4);
  kept.get("a");
  kept.set("c", "C", 4);
  assert.deepEqual(["a", "b", "c"].map((key) => kept.get(key)), ["A", undefined, "C"]);
  kept.set("large", "L", 40);
  assert.deepEqual(["a", "c", "large"].map((key) => kept.get(key)), [undefined, undefined, "L"]);
  kept.set("d", "D", 10);
  assert.deepEqual([kept.get("large"), kept.get("d")], [undefined, "D"]);
});

const node = (id: number, parent: number) => ({ id, parent, depth: id, token: id, text: "x", piece: "x", special: false, logprob: null, filtered_logprob: -1, total: -1, rank: 1, chosen: "method" });
const written = {
  trace: { id: "w", options: { num_beams: 2 } }, steps: [{ nodes: [node(1, 0), node(2, 1), node(3, 1)], choices: [], live: [], ended: [] }],
  ready: null, node: 2, command: "glassformer look m 'a b' --view generate",
};
const attended = { ...session, id: "written", generated: { w: "w", node: 2, stream: "text", prefix_length: 1 } };
const writer = (of: object | null = written, blocks: Record<string, Buffer> = {}) =>
  new InlineTransport(documentOf(blocks, session, of));

test("what was written is heard again; one that was saved in the middle ends where its pass does", async () => {
  const heard: TraceLine[] = [];
  await writer().write({ prompt: null, options: {} }, (line) => heard.push(line));
  assert.deepEqual(heard.map((line) => Object.keys(line)[0]), ["trace", "step", "ready"]);
  assert.ok("step" in heard[1] && heard[1].step.nodes[0].logprob === -Infinity);
  assert.ok("ready" in heard[2] && heard[2].ready.answers[0].node === 2);
});

test("writing on, writing otherwise, and a page that holds no writing are refused with the command", async () => {
  const words = /glassformer look m 'a b' --view generate$/;
  await assert.rejects(writer().write({ w: "w", node: 1, tokens: [5] }, () => {}), refused("absent", words));
  await assert.rejects(writer().write({ prompt: null, options: { num_beams: 3 } }, () => {}), refused("absent", words));
  await assert.rejects(writer(null).write({ prompt: null, options: {} }, () => {}), refused("absent", /glassformer look m 'a b' c --view generate --html page.html$/));
});

test("its pass serves the nodes on the path that it read, and its distributions those that are held", async () => {
  const held = frame("overview", { written: true }, {}, {});
  const page = writer(written, { "written/overview/self/0": held, "overview/self/0": frame("overview", { written: false }, {}, {}) });
  const own = await page.attend("w", 1);
  assert.notEqual(own.id, session.id);
  const overview = async (of: Session) => (await page.view("overview", of, { map: "self", layer: 0 })).header.written;
  assert.deepEqual([await overview(own), await overview(session)], [true, false]);
  await assert.rejects(writer().attend("w", 3), refused("absent", /holds one writing/));
  const block = frame("distribution", { node: 1, vocabulary: 9, tokens: [["a", "a"]] }, { logprobs: Float32Array.of(-0.5), rest_logprobs: Float32Array.of(-3) }, { logprobs: [1], rest_logprobs: [1] });
  const found = await views.distribution(writer(written, { "distribution/1": block }), "w", 1);
  assert.deepEqual([found.node, found.vocabulary, found.logprobs[0], found.rest_logprobs[0], found.tokens], [1, 9, -0.5, -3, [["a", "a"]]]);
  await assert.rejects(views.distribution(writer(), "w", 1), refused("absent", /holds one writing/));
});

test("what was said is on a page of its own, whose command is told", async () => {
  const sound = { ...session, look: "glassformer look m clip.wav" };
  await assert.rejects(page().transcribe(sound), refused("absent", /glassformer transcribe m clip\.wav --html page\.html$/));
  await assert.rejects(page().recording(), refused("absent", /no sound/));
});

test("a look-up is that of the token's id; of a token that the page lacks it is refused with the command", async () => {
  const stored = { text: [{ id: 0, vocabulary: 9, width: 2, rows: { 0: [0.5, 1], 1: [2, 3] }, equal: true, equal_gradients: true }] };
  const holding = (blocks: object) => {
    const holder = documentOf({}, session);
    const own = { textContent: deflateSync(Buffer.from(JSON.stringify(blocks))).toString("base64") };
    return new InlineTransport({ ...holder, getElementById: (id: string) => (id === "lookups" ? own : holder.getElementById(id)) } as unknown as Document);
  };
  assert.deepEqual(await views.lookup(holding(stored), session, "text", 2), stored.text[0]);
  await assert.rejects(views.lookup(holding({ text: [] }), session, "text", 2), refused("absent", /glassformer look m 'a b' c --view head$/));
  await assert.rejects(views.lookup(page(), session, "text", 2), refused("absent", /no look-up of this token/));
});
