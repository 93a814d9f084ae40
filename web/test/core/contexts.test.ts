import assert from "node:assert/strict";
import { test } from "node:test";
import { type ContextsQuery, parametersOf, readSearch, sameQuery, searchPairs } from "../../src/core/contexts";

test("a search goes through a link", () => {
  const state = { by: "neuron", layer: 3, neuron: 17 } as const;
  assert.deepEqual(readSearch(new URLSearchParams(searchPairs(state))), state);
  assert.deepEqual(readSearch(new URLSearchParams("by=magic&cl=x")), { by: "layer", layer: null, neuron: 0 });
});

test("what is not asked is not sent, and the order of what is does not matter", () => {
  const query: ContextsQuery = { by: "layer", layer: 6, number: null, token: 2, head: "4.9", count: 20 };
  assert.deepEqual(parametersOf(query), { by: "layer", layer: "6", token: "2", head: "4.9", count: "20" });
  assert.ok(sameQuery(query, { count: 20, head: "4.9", token: 2, number: null, layer: 6, by: "layer" }));
  assert.ok(!sameQuery(query, { ...query, token: 3 }));
});
