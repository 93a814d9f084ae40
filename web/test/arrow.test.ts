import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { arrow } from "../src/core/arrow";

test("a table as an Arrow file begins and ends with its magic, and a multiple of eight bytes are before its end", () => {
  const file = arrow([["token", "share", "rank"], ["<b>", 0.5, 1], ["é", "", 2], ["", -1e300, 3]]);
  const words = (from: number, to: number) => new TextDecoder().decode(file.slice(from, to));
  assert.equal(words(0, 6), "ARROW1");
  assert.equal(words(file.length - 6, file.length), "ARROW1");
  const footer = new DataView(file.buffer).getInt32(file.length - 10, true);
  assert.equal((file.length - 10 - footer) % 8, 0);
  if (process.env.ARROW_FILE) writeFileSync(process.env.ARROW_FILE, file);
});
