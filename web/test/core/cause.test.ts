/** The head that a page opens on for a row: the one with the largest share of the output, and why. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { causeRequest, causeSentence, followsStrongest, mapOfPart, strongestHeads } from "../../src/core/cause";
import type { Attribution, Part } from "../../src/core/readings";
import { formatState, initialState, pairsOf, parseState } from "../../src/core/url-state";
import type { Session, State } from "../../src/core/types";
import { pair, two } from "../sessions";

const part = (kind: Part["kind"], value: number, layer: number | null = null, head: number | null = null): Part => ({ kind, value, layer, head });
const found = (stream: string, ...parts: Part[]) => ({ target: { title: "joy rather than anger", stream }, parts }) as unknown as Attribution;
const session: Session = { ...pair(), views: ["model", "head", "attribution", "lens"] };
const at = (change: Partial<State>): State => ({ ...initialState(session), ...change });

test("the strongest head is the one with the largest share, for or against, and no other part", () => {
  const heads = strongestHeads(found("text", part("embedding", 9), part("head", 1, 0, 2), part("head", -3, 2, 1), part("feed-forward", 7, 1)));
  assert.deepEqual(heads.map(({ layer, head }) => [layer, head]), [[2, 1], [0, 2]]);
});

test("why a head is on screen is said with its share and its place among all", () => {
  const shares = found("text", part("head", 1.5, 0, 2), part("head", -3, 2, 1), part("head", 0.25, 0, 0));
  const says = (layer: number, head: number) => causeSentence(shares, session, at({ layers: [layer, layer], heads: [head] }));
  assert.equal(says(2, 1), "Layer 2, head 1: its share of “joy rather than anger” is −3.00, the largest of 3 heads.");
  assert.equal(says(0, 0), "Layer 0, head 0: its share of “joy rather than anger” is +0.250, number 3 of 3 heads.");
  assert.equal(says(3, 3), null);
});

test("a head of cross-attention is of the map from target to source", () => {
  assert.equal(mapOfPart(two(), found("target"), part("cross head", 1, 0, 0)), "cross");
  assert.equal(mapOfPart(two(), found("source"), part("head", 1, 0, 0)), "encoder");
});

test("the head on screen is the strongest until the reader chooses one", () => {
  assert.ok(followsStrongest(at({}), session));
  assert.ok(followsStrongest(at({ layers: [2, 2], cause: "strongest" }), session));
  assert.ok(!followsStrongest(at({ layers: [2, 2] }), session));
  assert.ok(!followsStrongest(at({ cause: "chosen" }), session));
  assert.ok(!followsStrongest(at({ tour: 2 }), session), "a lesson pins what it tells of");
});

test("the link of a row has the head that explains it, and an address keeps why a head is there", () => {
  const row = "v=1&row=val.csv&true=anger&said=joy";
  assert.deepEqual(parseState(pairsOf(row), session).state.cause, "strongest");
  assert.equal(parseState(pairsOf(`${row}&view=head&l=1&h=2`), session).state.cause, "", "a link that names a head");
  const state = at({ layers: [2, 2], cause: "chosen.4" });
  assert.deepEqual(parseState(pairsOf(formatState(state, null)), session), { state, notices: [] });
  assert.deepEqual(causeRequest(state), { target: null, at: 4, against: null });
});
