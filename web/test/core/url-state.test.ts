import assert from "node:assert/strict";
import { test } from "node:test";
import { initialState, packTexts, pairsOf, parseState, clampState, unpackTexts, formatState, windowOf } from "../../src/core/url-state";
import type { State } from "../../src/core/types";
import { pair, two } from "../sessions";

const session = pair();
const at = (change: Partial<State>): State => ({ ...initialState(session), ...change });

test("a state survives being written and read", () => {
  const state = at({
    view: "head", layers: [1, 3], heads: [3, 1], query: 4, key: 0, from: "0", to: "1", special: false, mix: "mean", sort: "previous", companding: "sqrt",
  });
  const text = formatState(state, null);
  assert.equal(text, "v=1&view=head&map=self&l=1-3&h=3,1&mix=mean&q=4&k=0&from=0&to=1&sp=0&sort=previous&comp=sqrt");
  assert.deepEqual(parseState(pairsOf(`#${text}`), session), { state, notices: [] });
});

test("a link holds the word and the head of a transcript, and the window whose pass is on screen", () => {
  const state = at({ view: "matrix", sound: { word: 9, head: 2 } });
  const text = formatState(state, null, 3);
  assert.equal(text, "v=1&view=matrix&map=self&l=0&h=0&word=9&aligned=2&win=3");
  assert.deepEqual(parseState(pairsOf(text), session), { state, notices: [] });
  assert.equal(windowOf(pairsOf(text)), 3);
  for (const other of ["v=1", "v=1&win=-1", "v=1&win=x", "v=1&win="]) assert.equal(windowOf(pairsOf(other)), null, other);
  assert.deepEqual(parseState(pairsOf("v=1&view=model&word=x&aligned=1e9"), session).state.sound, { word: null, head: 0 });
});

test("a link holds the row that the text is of, and the way back to it, which stays on this server", () => {
  const row = { row: "val.csv: line 2", true: "a & b", said: "joy", doubt: "", changed: true, back: "/run/a%20b#true=joy&at=3" };
  const text = formatState(at({ row }), null);
  assert.deepEqual(parseState(pairsOf(text), session), { state: at({ row }), notices: [] });
  for (const back of ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
    assert.equal(parseState(new URLSearchParams({ v: "1", row: "x", back }), session).state.row?.back, "", back);
  assert.equal(parseState(new URLSearchParams({ v: "1", row: "x", back: "../errors.html#at=3" }), session).state.row?.back, "../errors.html#at=3");
  assert.equal(parseState(pairsOf("v=1&back=/"), session).state.row, null);
});

test("a view that the model does not have is said", () => {
  const { state, notices } = parseState(pairsOf("v=1&view=sound"), session);
  assert.equal(state.view, "model");
  assert.match(notices[0], /the view “sound”, which is not here/);
});

test("a page of some views alone shows one of them, whatever view a link asks for", () => {
  const alone = { ...session, views: ["lens", "masks"] };
  for (const view of ["attribution", "nonsense", "generate"]) {
    const { state, notices } = parseState(pairsOf(`v=1&view=${view}`), alone);
    assert.equal(state.view, "lens");
    assert.deepEqual(notices, [`this link asks for the view “${view}”, which is not here: showing lens`]);
  }
  assert.equal(parseState(pairsOf("v=1&l=1"), alone).state.view, "lens");
});

test("an empty fragment opens the model view, and says nothing", () => {
  assert.deepEqual(parseState(pairsOf(""), session), { state: initialState(session), notices: [] });
});

test("without a link the page opens with the head that the session names; a link that names a place wins", () => {
  const opening = { view: "generate", findings: [{ map: "cross", layer: 1, head: 1, sentence: "In order.", short: "in order", query: 1, key: 0 }], short: false, answer: null };
  const both = { ...two(), opening };
  const read = (fragment: string) => parseState(pairsOf(fragment), both).state;
  for (const fragment of ["", "v=1", "v=1&theme=dark"]) assert.deepEqual(read(fragment), initialState(both), fragment);
  const place = ({ view, layers, heads, query, key }: State) => [view, layers, heads, query, key];
  assert.deepEqual(place(initialState(both)), ["generate", [1, 1], [1], null, null]);
  assert.deepEqual(place(initialState({ ...both, opening: { ...opening, view: "model" } })), ["model", [1, 1], [1], 1, 0], "its tokens are pinned among all heads");
  for (const [fragment, view, map, layer, head] of [
    ["v=1&view=head", "head", "cross", 1, 1], ["v=1&l=0", "model", "cross", 0, 0], ["v=1&map=encoder", "model", "encoder", 0, 0], ["v=1&q=1", "model", "cross", 1, 1],
  ] as const) {
    const state = read(fragment);
    assert.deepEqual([state.view, state.map, state.layers, state.heads], [view, map, [layer, layer], [head]], fragment);
  }
});

const asked: [string, Partial<State>, RegExp][] = [
  ["v=1&view=head&l=40&h=0", { view: "head", layers: [3, 3] }, /asks for layer 40; the model has layers 0 to 3: showing layer 3/],
  ["v=1&l=x", {}, /asks for layer x/],
  ["v=1&l=0&h=1,99", { heads: [1, 3] }, /asks for head 99; a layer has heads 0 to 3: showing head 3/],
  ["v=1&view=matrx", {}, /the view “matrx”, which is not here: showing model/],
  ["v=1&map=cross", {}, /the attention map “cross”, which is not here: showing self/],
  ["v=1&q=77", {}, /asks for token 77; the text has tokens 0 to 5: none is pinned/],
  ["v=1&from=9", {}, /tokens from text “9”, which is not here: showing all tokens/],
  ["v=9&view=head", {}, /version 9, and this page reads version 1/],
];
for (const [fragment, shown, said] of asked) {
  test(`a link to what is not there shows the nearest and says so: ${fragment}`, () => {
    const { state, notices } = parseState(pairsOf(fragment), session);
    assert.deepEqual(state, at(shown));
    assert.equal(notices.length, 1);
    assert.match(notices[0], said);
  });
}

test("layers the wrong way round are put right", () => {
  assert.deepEqual(parseState(pairsOf("v=1&l=3-1"), session).state.layers, [1, 3]);
});

test("another map keeps what it has, and drops what it does not have", () => {
  const both = two();
  const state = clampState({ ...initialState(both), map: "cross", layers: [3, 3], heads: [3, 0], query: 5, key: 1 }, both);
  assert.deepEqual([state.layers, state.heads, state.query, state.key], [[1, 1], [1, 0], null, 1]);
});

test("texts survive a link, whatever they say; a broken one is null", async () => {
  const texts = ["Zeit & «Glas» <script>", "絵文字 🙂\n" + "long ".repeat(500)];
  const packed = await packTexts(texts);
  assert.match(packed, /^[\w-]+$/);
  assert.ok(packed.length < 300);
  assert.deepEqual(await unpackTexts(packed), texts);
  assert.equal(await unpackTexts(packed.slice(0, 20)), null);
  assert.equal(await unpackTexts("%%"), null);
});

test("a link never holds a key", () => {
  assert.doesNotMatch(formatState(parseState(pairsOf("token=secret&v=1&view=head"), session).state, null), /secret|token/);
});
