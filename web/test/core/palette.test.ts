import assert from "node:assert/strict";
import { test } from "node:test";
import { colours, pooled } from "../../src/core/heatmap";
import { inkOn } from "../../src/views/matrix/layout";
import { blues, cividis, headColour, heatColour, lut, shade } from "../../src/core/palette";

/** WCAG 2: relative luminance of a colour with channels from 0 to 255. */
function luminance(colour: number[]): number {
  const [r, g, b] = colour.map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: number[], b: number[]): number {
  const [light, dark] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

const channels = (text: string) => text.match(/\d+/g)!.map(Number);

test("cividis has its published ends, and gets lighter all the way", () => {
  assert.deepEqual(cividis(0), [0x00, 0x22, 0x4e]);
  assert.deepEqual(cividis(1), [0xfe, 0xe8, 0x38]);
  assert.deepEqual(cividis(-1), cividis(0));
  for (let byte = 1; byte < 256; byte++) {
    assert.ok(luminance(cividis(byte / 255)) >= luminance(cividis((byte - 1) / 255)) - 1e-3, `byte ${byte}`);
  }
});

test("the blues of a light page begin light, and get darker all the way", () => {
  assert.ok(contrast(blues(0), [255, 255, 255]) < 1.15 && contrast(blues(1), blues(0)) > 7);
  for (let byte = 1; byte < 256; byte++) {
    const [before, after] = [blues((byte - 1) / 255), blues(byte / 255)];
    assert.ok(luminance(after) <= luminance(before), `byte ${byte}`);
  }
});

test("the tables hold the same colours", () => {
  for (const dark of [false, true]) {
    assert.equal(lut(dark).length, 1024);
    assert.deepEqual([...lut(dark).subarray(4 * 77, 4 * 78)], [...heatColour(77 / 255, dark), 255]);
  }
});

test("a number in a cell can be read on every colour", () => {
  for (const dark of [false, true])
    for (let byte = 0; byte < 256; byte++) {
      const ink = inkOn(byte / 255, dark) === "#ffffff" ? [255, 255, 255] : [16, 19, 26];
      assert.ok(contrast(heatColour(byte / 255, dark), ink) >= 4.1, `byte ${byte}, dark ${dark}`);
    }
});

test("every head's colour stands out from the panel, and no two of a round are alike", () => {
  for (const [dark, panel] of [[false, [255, 255, 255]], [true, [19, 26, 34]]] as [boolean, number[]][]) {
    const seen = Array.from({ length: 36 }, (_, head) => channels(headColour(head, dark)));
    for (const [head, colour] of seen.entries()) assert.ok(contrast(colour, panel) >= 3, `head ${head}, dark ${dark}: ${contrast(colour, panel)}`);
    for (let a = 0; a < 12; a++) {
      for (let b = 0; b < a; b++) assert.ok(Math.hypot(...seen[a].map((c, i) => c - seen[b][i])) > 25, `heads ${a} and ${b}, dark ${dark}`);
    }
  }
});

test("bytes become pixels; sqrt lifts the faint ones; max is the brightest", () => {
  const plain = colours(Uint8Array.of(0, 64, 255), { dark: true });
  assert.deepEqual([...plain.subarray(0, 4)], [...cividis(0), 255]);
  assert.deepEqual([...plain.subarray(4, 8)], [...cividis(64 / 255), 255]);
  const root = colours(Uint8Array.of(64), { dark: true, companding: "sqrt" });
  assert.deepEqual([...root], [...cividis(Math.round(255 * Math.sqrt(64 / 255)) / 255), 255]);
  assert.deepEqual([...colours(Uint8Array.of(64), { dark: true, max: 64 })], [...cividis(1), 255]);
});

test("pooling keeps the largest of each block; those at the far edges are smaller", () => {
  const map = { values: Uint8Array.of(1, 9, 3, 4, 5, 6, 7, 8, 2, 0), height: 2, width: 5 };
  assert.deepEqual(pooled(map, { height: 1, width: 2 }), { values: Uint8Array.of(9, 4, 5, 7, 8, 0), height: 2, width: 3 });
  assert.deepEqual(pooled(map, { height: 2, width: 4 }), { values: Uint8Array.of(9, 5), height: 1, width: 2 });
  assert.equal(pooled(map, { height: 1, width: 1 }), map);
});

test("ink can be read on every shade; shades begin as the panel, get farther from it in even steps", () => {
  for (const [dark, ink, panel] of [[false, [15, 28, 43], [255, 255, 255]], [true, [233, 239, 245], [19, 26, 34]]] as [boolean, number[], number[]][]) {
    for (const hue of [55, 215]) {
      const shades = Array.from({ length: 11 }, (_, at) => channels(shade(at / 10, hue, dark)));
      assert.ok(contrast(shades[0], panel) < 1.06, `${shades[0]}`);
      for (const [at, colour] of shades.entries()) {
        assert.ok(contrast(colour, ink) >= 4.5, `${at}, hue ${hue}, dark ${dark}: ${contrast(colour, ink)}`);
        if (at) assert.ok(contrast(colour, panel) > contrast(shades[at - 1], panel));
      }
    }
  }
});
