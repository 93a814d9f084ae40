import { initialEmbedding } from "../src/core/embedding-state";
import assert from "node:assert/strict";
import { test } from "node:test";
import { signal } from "@preact/signals";
import { percent } from "../src/core/format";
import { initialReading } from "../src/core/readings";
import { initialPatch } from "../src/core/patching";
import { type Lines, type LinesQuery, UserError, type Session, type State, type Token, type Transport, type ViewProps } from "../src/core/types";
import { between, column, middle, nearest } from "../src/views/head/columns";
import { type Theme, captionOf, pageOf, sceneOf, tableOf } from "../src/views/head/layout";
import { visibleLinks, linksOf, otherOf } from "../src/views/head/links";
import { Loader } from "../src/views/head/loader";
import { HeadController } from "../src/views/head/head-controller";
import { curvesOf, svg } from "../src/views/head/scene";
import type { BinaryFrame } from "../src/core/binary-frame";

const token = (text: string, segment: number | null): Token => ({ text, piece: text, id: 0, segment, special: segment === null, continues: false, span: null });
const tokens = [token("[CLS]", null), token("time", 0), token("<script>", 0), token("[SEP]", null), token("fruit", 1), token("[SEP]", null)];
const session: Session = {
  id: "s", texts: ["a", "b"], text_hash: "t", fields: ["text"], lookups: ["text"], nbytes: 0, seconds: 0, command: "look", look: "look",
  views: ["model", "head", "matrix", "neuron", "embedding"], reports: {},
  model: { name: "m", family: "bert", task: "encode", revision: "r", dtype: "float32", levels: null, parameters: 1, max_tokens: null, modality: null, can_generate: false, can_transcribe: false, predicts: null, reads: false, can_compare: false, mask_token: null, corpus: null, against: null, precisions: [], is_encoder_decoder: false },
  streams: { text: tokens },
  how_to_read: {}, glossary: {},
  opening: { view: "model", findings: [], short: false, answer: null },
  maps: [{ name: "self", title: "self-attention", layers: 2, heads: 3, kv_heads: 3, head_width: 1, queries: "text", keys: "text", causal: false, windows: [], rotary_bases: [], biased: false, paths: ["blocks.0.attn", "blocks.1.attn", "blocks.2.attn", "blocks.3.attn"] }],
};
const T = tokens.length;

/** Head h gives key k, of six, the share (k + 1 + h) / sum. */
const share = (head: number, key: number) => (key + 1 + head) / (21 + 6 * head);

/** The strongest keys as a server would give them. */
function answer(query: LinesQuery): Lines {
  const members = query.heads.map((head): [number, number] => [query.layers[0], head]);
  const allowed = tokens.flatMap((each, key) => (!query.keys || query.keys.includes(each.special ? "special" : String(each.segment)) ? [key] : []));
  const count = Math.min(query.count, allowed.length);
  const rows = query.rows[1] - query.rows[0];
  const shares = query.mix === "each" ? query.heads.map((head) => (key: number) => share(head, key)) : [(key: number) => Math.max(...query.heads.map((head) => share(head, key)))];
  const [keys, probs, other] = [new Uint32Array(shares.length * rows * count), new Float32Array(shares.length * rows * count), new Float32Array(shares.length * rows)];
  shares.forEach((of, lane) => {
    const sorted = [...allowed].sort((a, b) => of(b) - of(a)).slice(0, count);
    for (let row = 0; row < rows; row++) {
      keys.set(sorted, (lane * rows + row) * count);
      probs.set(sorted.map(of), (lane * rows + row) * count);
      other[lane * rows + row] = tokens.reduce((sum, _, key) => sum + (sorted.includes(key) ? 0 : of(key)), 0);
    }
  });
  return { query, members: query.mix === "each" ? members : [], maps: shares.length, count, keys, probs, other };
}

const start: State = {
  view: "head", map: "self", layers: [0, 0], heads: [0], mix: "each", query: null, key: null, from: "", to: "", special: true, sort: "layer", companding: "linear",
  generation: { options: {}, path: [], at: null, shades: "chance" }, patch: initialPatch(), off: [], reading: initialReading(), sound: { word: null, head: 0 }, similarity: { words: true, row: null, column: null }, search: { by: "layer", layer: null, neuron: 0 },
  embedding: initialEmbedding(), cause: "", row: null, tour: null, chosen: {},
};

/** Links as a transport has them; layers come half open. */
function linesFrame(query: LinesQuery, answer: (query: LinesQuery) => Lines): BinaryFrame {
  const { members, maps, count, keys, probs, other } = answer({ ...query, layers: [query.layers[0], query.layers[1] - 1] });
  return { kind: "lines", header: { members }, arrays: { keys, probs, other }, shapes: { keys: [maps, query.rows[1] - query.rows[0], count] } };
}

function picture(change: Partial<State> = {}, transport: Partial<Transport> = {}) {
  const state = signal({ ...start, ...change });
  const refused: unknown[] = [];
  const props = {
    transport: {
      host: "server",
      view: async (name: string, _: Session, request: object): Promise<BinaryFrame> => {
        if (name === "lines") return linesFrame(request as LinesQuery, answer);
        const probs = Float64Array.from({ length: T }, (_, key) => share((request as { head: number }).head, key));
        return { kind: name, header: {}, arrays: { probs, scores: probs.map(Math.log) }, shapes: {} };
      },
      ...transport,
    },
    session, state, set: (more: Partial<State>) => (state.value = { ...state.value, ...more }), dark: signal(false), overviews: signal(new Map()),
    say: () => {}, refuse: (error: unknown) => refused.push(error), exports: () => {},
  } as unknown as ViewProps;
  const found = new HeadController(props);
  found.size.value = { width: 800, height: 400 };
  found.room.value = 400;
  return { found, state, refused, stop: found.start() };
}

const failed = (error: unknown) => {
  throw error;
};
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));
const theme: Theme = { panel: "#fff", ink: "#000", ink2: "#222", ink3: "#777", accent: "#08f", sans: "Sans", mono: "Mono" };
(globalThis as { window?: unknown }).window ??= globalThis; // timers, as the browser has them

test("a column: the texts stand apart, each with its letter; what the tokenizer adds stands with the text before it", () => {
  const found = column(tokens, true, 10);
  assert.deepEqual(found.tops, [9, 19, 29, 39, 58, 68]);
  assert.deepEqual(found.marks, [{ top: 0, letter: "A" }, { top: 49, letter: "B" }]);
  assert.equal(found.height, 78);
  assert.equal(middle(found, 4), 63);
});

test("a column without special tokens closes up, and one text has no letter", () => {
  const found = column(tokens, false, 10);
  assert.deepEqual(found.tokens, [1, 2, 4]);
  assert.deepEqual([...found.positions], [-1, 0, 1, -1, 2, -1]);
  assert.equal(middle(found, 0), null);
  assert.deepEqual(column([token("a", 0), token("b", 0)], true, 10).marks, []);
});

test("what is on screen of a long column, and the token at a height", () => {
  const long = column(Array.from({ length: 4096 }, () => token("x", 0)), true, 20);
  assert.deepEqual(between(long, 40010, 40090), [2000, 2005]);
  assert.deepEqual(between(long, 0, 20), [0, 1]);
  assert.equal(nearest(long, 40030), 2001);
  assert.equal(nearest(long, 1e9), 4095);
  assert.equal(nearest(column([], true, 20), 0), null);
});

test("links: the strongest first; what a mask hides is none", () => {
  const lines: Lines = {
    query: { map: "self", layers: [0, 0], heads: [0, 1], mix: "each", rows: [3, 5], count: 2 }, members: [[0, 0], [0, 1]], maps: 2, count: 2,
    keys: Uint32Array.of(1, 0, 2, 3, 4, 5, 0, 0), probs: Float32Array.of(0.75, 0.25, 0.5, 0.25, 0.5, 0.125, 1, 0), other: Float32Array.of(0, 0.25, 0.375, 0),
  };
  const chunks = new Map([[3, lines]]);
  assert.deepEqual(linksOf(lines, 1, 1), [{ query: 4, key: 0, lane: 1, prob: 1 }]);
  const drawn = visibleLinks(chunks, [3, 4, 9], 0.25, 100);
  assert.deepEqual(drawn.links.map((link) => link.prob), [0.25, 0.25, 0.5, 0.5, 0.75, 1]);
  assert.deepEqual([drawn.hidden, drawn.strongest], [1, 0.125]);
  const few = visibleLinks(chunks, [3, 4], 0, 2);
  assert.deepEqual([few.links.map((link) => link.prob), few.hidden, few.strongest], [[0.75, 1], 5, 0.5]);
  assert.equal(otherOf(chunks, 3), (0 + 0.375) / 2);
  assert.equal(otherOf(chunks, 9), 0);
});

test("the loader asks for whole chunks, none twice, and no more rows than one answer holds", async () => {
  const asked: [number, number][] = [];
  const transport = { view: async (_: string, __: Session, query: LinesQuery) => (asked.push(query.rows), linesFrame(query, answer)) } as unknown as Transport;
  const loader = new Loader(transport, session, failed);
  const what = { map: "self", layers: [0, 0] as [number, number], heads: [0], mix: "each" as const, count: 2 };
  loader.want(what, [70, 1, 2], 100);
  await settled();
  loader.want(what, [3, 99], 100);
  await settled();
  assert.deepEqual(asked, [[64, 100], [0, 64]]);
  assert.equal(Loader.size({ ...what, layers: [0, 11], heads: [...Array(12).keys()] }), 16);
});

test("the loader drops what nobody waits for any more", async () => {
  const signals: AbortSignal[] = [];
  const transport = { view: (_: string, __: Session, query: LinesQuery, { signal }: { signal: AbortSignal }) => (signals.push(signal), query.heads[0] === 0 ? new Promise(() => {}) : Promise.resolve(linesFrame(query, answer))) } as unknown as Transport;
  const loader = new Loader(transport, session, failed);
  const what = { map: "self", layers: [0, 0] as [number, number], mix: "each" as const, count: 2 };
  loader.want({ ...what, heads: [0] }, [0], T);
  await settled();
  loader.want({ ...what, heads: [1] }, [0], T);
  await settled();
  assert.deepEqual(signals.map((signal) => signal.aborted), [true, false]);
  assert.deepEqual(loader.loaded.value?.request.heads, [1]);
});

test("a line to a token that is not on screen runs off the edge, with an arrow", () => {
  const far = column(Array.from({ length: 100 }, () => token("x", 0)), true, 20);
  const frame = { width: 500, height: 200, top: 400, left: 100, right: 400, queries: far, keys: far };
  const link = (query: number, key: number) => ({ query, key, lane: 0, prob: 0.5 });
  const curves = curvesOf(frame, [link(25, 26), link(25, 2), link(25, 90), link(2, 25), link(2, 3)], 1, () => ({ lane: 0, colour: "red", stress: "all" }));
  assert.deepEqual(curves.map((curve) => curve.leaves), [0, -1, 1, 0]); // from a token above to another above: not at all
  assert.deepEqual([curves[0].x0, curves[0].y0, curves[0].x1, curves[0].y1], [100, 110, 400, 130]);
  assert.ok(curves[1].x1 < 400 && curves[1].y1 < 10 && curves[2].y1 > 190);
  assert.equal(curves[3].y0, 0);
});

test("a query looked at: its exact number and rank, in one sentence", async () => {
  const { found, stop } = picture();
  await settled();
  found.hover.value = { side: "query", token: 1 };
  await settled();
  assert.equal(found.sentence.value, "layer 0 head 0, from “time” to “[SEP]”, 0.2857, rank 1 of 6");
  found.props.set({ key: 2 });
  assert.equal(found.sentence.value, "layer 0 head 0, from “time” to “<script>”, 0.1429, rank 4 of 6");
  stop();
});

test("a key looked at: who looks at it most", async () => {
  const { found, stop } = picture({ heads: [0, 2] });
  await settled();
  found.hover.value = { side: "key", token: 0 };
  assert.match(found.sentence.value ?? "", /^to “\[CLS\]”: most from “\[CLS\]”, 0\.09091, layer 0 head 2 /);
  assert.ok(found.visibleLinks.value.links.every((link) => link.key === 0));
  assert.equal(found.shares.value?.side, "query");
  stop();
});

test("what is not drawn is never lost: filtered keys and faint links add up to the rest", async () => {
  const { found, state, stop } = picture({ special: false });
  await settled();
  assert.ok(Math.abs(found.leftOut(1) - (1 + 4 + 6) / 21) < 1e-6);
  found.threshold.value = 0.2;
  assert.ok(Math.abs(found.leftOut(1) - (1 + 4 + 6 + 2 + 3) / 21) < 1e-6);
  state.value = { ...state.value, query: 1 };
  await settled();
  const words = sceneOf(found, theme).words.map((word) => word.text);
  assert.deepEqual(words, [`other: ${percent(16 / 21)}`]);
  stop();
});

test("the pair filter: from one text to the other", async () => {
  const { found, stop } = picture({ from: "0", to: "1" });
  found.threshold.value = 0;
  await settled();
  assert.deepEqual([...new Set(found.visibleLinks.value.links.map((link) => `${link.query}→${link.key}`))].sort(), ["1→4", "2→4"]);
  assert.deepEqual([0, 1, 4].map((query) => found.looksFrom(query)), [false, true, false]);
  stop();
});

test("the pair looked at is drawn however faint it is", async () => {
  const { found, stop } = picture({ query: 1, key: 0 });
  found.threshold.value = 0.5;
  await settled();
  assert.deepEqual(found.visibleLinks.value.links.map((link) => link.key), [0]);
  stop();
});

test("heads mixed into one have one colour and no head", async () => {
  const { found, stop } = picture({ heads: [0, 1, 2], mix: "max" });
  await settled();
  assert.equal(found.subject.value, "maximum of 3 heads");
  assert.ok(sceneOf(found, theme).curves.some((curve) => curve.colour === theme.accent));
  stop();
});

test("why lines are not here is said in place; what concerns the whole page is handed on as well", async () => {
  const refusing = (kind: UserError["kind"]) => ({ view: () => Promise.reject(new UserError("no", kind)) });
  const absent = picture({}, refusing("absent"));
  await settled();
  assert.deepEqual([absent.found.absent.value, absent.refused], ["no", []]);
  absent.stop();
  const gone = picture({}, refusing("gone"));
  await settled();
  assert.deepEqual([gone.found.absent.value, gone.refused.length], ["no", 1]);
  assert.deepEqual([gone.found.knows(0), gone.found.complete.value, gone.found.sentence.value], [false, false, null]);
  gone.stop();
});

test("lines of what was chosen before are known as such until the new ones come", async () => {
  const { found, state, stop } = picture();
  assert.equal(found.waiting.value, true);
  await settled();
  assert.deepEqual([found.stale.value, found.waiting.value], [false, false]);
  state.value = { ...state.value, query: 1 };
  assert.equal(found.stale.value, false);
  state.value = { ...state.value, heads: [1] };
  assert.deepEqual([found.stale.value, found.waiting.value], [true, true]);
  await settled();
  assert.deepEqual([found.stale.value, found.waiting.value], [false, false]);
  stop();
});

test("the table: every listed link of the query, and what is not listed", async () => {
  const { found, stop } = picture({ query: 1, special: false });
  await settled();
  const [names, ...rows] = tableOf(found);
  assert.deepEqual(names.at(-1), "probability");
  assert.deepEqual(rows.map((row) => [row[3], row[5], Math.round(Number(row[6]) * 21)]), [["time", "fruit", 5], ["time", "<script>", 3], ["time", "time", 2], ["time", "other", 11]]);
  stop();
});

test("SVG: text stays text, whatever the token says", async () => {
  const { found, stop } = picture({ query: 1 });
  await settled();
  const file = svg(pageOf(found, theme), "#fff", { sans: 'A "B"', mono: "Mono" });
  assert.ok(file.includes("&lt;script&gt;") && !file.includes("<script>"));
  assert.ok(file.includes(captionOf(found)[1]));
  assert.ok((file.match(/<path /g) ?? []).length >= T);
  stop();
});
