/** The part of an address that says what is followed, pinned and explained. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { formatReading, initialReading, readReading, requestOf } from "../../src/core/readings";

test("what an address says comes back, and defaults are left out", () => {
  assert.deepEqual(formatReading(initialReading()), []);
  const state = { ...initialReading(), measure: "kl" as const, cell: [3, 14] as [number, number], follow: 296, target: "anger", at: "-1", against: "joy", method: "gradient" as const, head: ["self", 2, 1] as [string, number, number] };
  const notices: string[] = [];
  assert.deepEqual(readReading(new URLSearchParams(formatReading(state)), notices), state);
  assert.deepEqual(notices, []);
  assert.deepEqual(requestOf(state), { target: "anger", at: -1, against: "joy" });
  assert.deepEqual(requestOf(initialReading()), { target: null, at: null, against: null });
});

test("what is not possible is named, and a word stays a word", () => {
  const notices: string[] = [];
  const state = readReading(new URLSearchParams("r.measure=taste&r.cell=x&r.follow=of&r.head=self.1"), notices);
  assert.deepEqual([state.measure, state.cell, state.follow, state.head], ["probability", null, "of", null]);
  assert.match(notices[0], /measure “taste”/);
});
