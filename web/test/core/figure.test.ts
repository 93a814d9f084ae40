import assert from "node:assert/strict";
import test from "node:test";
import { type Figure, fitted, inLines, lengthOf, toSvg } from "../../src/core/figure";

test("a text is as long as its letters, and is cut where there is no room", () => {
  assert.ok(lengthOf("ROMEO", 12) > 42); // what a browser measures in Inter
  assert.ok(lengthOf("ROMEO") > lengthOf("romeo") && lengthOf("東京") > lengthOf("to"));
  assert.equal(fitted("ROMEO", 60, 12), "ROMEO");
  assert.equal(fitted("ROMEO", 40, 12), "RO…");
  assert.equal(fitted("ROMEO", 0, 12), "R…");
  assert.deepEqual(inLines("time flies like an arrow", 80), ["time flies", "like an", "arrow"]);
  assert.deepEqual(inLines("unbreakable", 10), ["unbreakable"]);
});

test("a figure as SVG: its words stay words", () => {
  const figure: Figure = { width: 90, height: 20, shapes: [
    { kind: "rect", x: 1, y: 2, width: 3, height: 4, colour: "#123456" },
    { kind: "text", x: 5, y: 6, text: "<b>", colour: "red", size: 11, middle: true, upwards: true },
  ] };
  const svg = toSvg(figure, "#fff", "sans-serif");
  for (const part of ['<rect x="1" y="2" width="3" height="4" fill="#123456"/>', 'font-size="11" text-anchor="middle" transform="rotate(-90 5 6)"', ">&#60;b&#62;</text>"]) assert.ok(svg.includes(part), part);
});
