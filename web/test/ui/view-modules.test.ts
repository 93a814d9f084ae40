import assert from "node:assert/strict";
import { test } from "node:test";
import { MODULES } from "virtual:views";

test("every file of a view is a module of the page: its tab, a sentence and a component", () => {
  assert.ok(["model", "head", "lens", "sound"].every((name) => name in MODULES));
  for (const [name, view] of Object.entries(MODULES)) {
    assert.equal(view.name, name);
    assert.match(view.title, /^[A-Z]\w+$/);
    assert.match(view.sentence, /^[A-Z].*\.$|^[A-Z].* one\.$/);
    assert.equal(typeof view.Component, "function");
  }
});
