/** A bundle of its own: a card of the page as a picture (PNG), a drawing (SVG) and a table (CSV), handed to the person.
 *
 *     a card, as it is laid out ──drawingOf──> SVG ──> PNG
 *
 * Texts, boxes and drawings are written where the browser has put them, so a file is what is on screen: rows in their
 * order, lines that are shown, all of a table that scrolls. What is on a canvas is given as a drawing.
 */

import { download } from "../core/browser";
import { csv, distinct } from "../core/csv";
import { inLight } from "../core/theme-choice";
import { element } from "./dom";
import "./save.css";
import { plainRows } from "./spreadsheet";
import type { MakeSaves } from "./types";

const NAMESPACE = "http://www.w3.org/2000/svg";
const LEFT_OUT = ".saves, .more, .unseen, .pager, .look, .series-head button, details:not([open]), button[type], script, noscript";
/** What a drawing of the page has of its style sheet; colours are written as others read them. */
const STYLE = ["fill-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity", "visibility", "vector-effect", "paint-order", "stroke-linejoin", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];
const SCALE = 2; // pixels of a picture for one of the page

type Values = Record<string, string | number>;

const made = (name: string, values: Values): SVGElement => {
  const node = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(values)) node.setAttribute(key, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  return node;
};

/** The name of a file, of the words of a title. */
export const fileName = (title: string, ending: string): string => `${title.toLowerCase().match(/[\p{L}\p{N}]+/gu)?.join("-").slice(0, 60) ?? "report"}.${ending}`;

/** A colour, whatever its notation, as #rrggbb and its opacity. */
const known = new Map<string, [string, number]>();
function paint(colour: string): [colour: string, opacity: number] {
  if (!known.has(colour)) {
    const pen = new OffscreenCanvas(1, 1).getContext("2d")!;
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    known.set(colour, [`#${[red, green, blue].map((x) => x.toString(16).padStart(2, "0")).join("")}`, alpha / 255]);
  }
  return known.get(colour)!;
}

/** A card as one SVG, of texts and shapes; `vector`: what is on its canvas. */
function drawingOf(card: HTMLElement, vector?: () => string): SVGElement {
  const origin = card.getBoundingClientRect(), inside: SVGElement[] = [];
  let { width, height } = origin;
  const add = (name: string, values: Values): SVGElement => {
    const node = made(name, values);
    inside.push(node);
    return node;
  };
  const placeOf = (box: DOMRect) => {
    const [x, y] = [box.left - origin.left, box.top - origin.top];
    [width, height] = [Math.max(width, x + box.width), Math.max(height, y + box.height)];
    return { x, y, width: box.width, height: box.height };
  };

  /** A text in a box of its width; where that is 0, as wide as it is. */
  function write(text: string, { x, y, width: wide, height: tall }: { x: number; y: number; width: number; height: number }, style: CSSStyleDeclaration): void {
    const size = parseFloat(style.fontSize), [fill, opacity] = paint(style.color);
    const given = { x, y: y + tall / 2 + size * 0.35, fill, "font-size": size, "font-weight": style.fontWeight, "font-style": style.fontStyle, ...(wide ? { textLength: wide, lengthAdjust: "spacingAndGlyphs" } : {}) };
    add("text", { ...given, ...(opacity < 1 ? { "fill-opacity": opacity } : {}) }).textContent = style.textTransform === "uppercase" ? text.toUpperCase() : text;
  }

  /** A text line by line: words next to each other are one. */
  function writeLines(node: Text): void {
    const parent = node.parentElement!, style = getComputedStyle(parent), range = document.createRange();
    if (style.visibility !== "visible") return;
    const lines: { text: string; box: DOMRect }[] = [];
    const take = (word: string, from: number, gap: string): void => {
      range.setStart(node, from);
      range.setEnd(node, from + word.length);
      const rects = range.getClientRects(), box = rects[0], last = lines.at(-1);
      if (rects.length > 1 && word.length > 1) {
        let at = from;
        for (const letter of word) (take(letter, at, ""), (at += letter.length));
      } else if (box && last && Math.abs(box.top - last.box.top) < 2 && box.left >= last.box.right - 1)
        [last.text, last.box] = [last.text + gap + word, new DOMRect(last.box.left, box.top, box.right - last.box.left, box.height)];
      else if (box?.width) lines.push({ text: word, box });
    };
    for (const { 0: word, index } of node.data.matchAll(/\S+/g)) take(word, index, " ");
    const room = style.textOverflow === "ellipsis" ? parent.clientWidth / parent.scrollWidth : 1;
    for (const { text, box } of lines) {
      if (room >= 1) write(text, placeOf(box), style);
      else write(`${text.slice(0, Math.max(Math.floor(text.length * room) - 1, 1))}…`, { ...placeOf(box), width: parent.clientWidth }, style);
    }
  }

  /** The background and the borders of an element. */
  function writeBox(node: Element, style: CSSStyleDeclaration): void {
    const box = placeOf(node.getBoundingClientRect()), [fill, opacity] = paint(style.backgroundColor), { x, y } = box;
    const sides = ["top", "right", "bottom", "left"].map((side) => parseFloat(style.getPropertyValue(`border-${side}-width`)));
    const [stroke, visible] = paint(style.borderTopColor), radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, box.height / 2);
    const round = style.borderTopLeftRadius.endsWith("%") ? box.height / 2 : radius;
    if (opacity > 0) add("rect", { ...box, rx: round, fill, "fill-opacity": opacity });
    if (visible === 0) return;
    if (sides.every((side) => side > 0)) add("rect", { x: x + sides[0] / 2, y: y + sides[0] / 2, width: Math.max(box.width - sides[0], 0), height: Math.max(box.height - sides[0], 0), rx: round, fill: "none", stroke, "stroke-width": sides[0], "stroke-opacity": visible });
    else if (sides[0] > 0) add("rect", { x, y, width: box.width, height: sides[0], fill: stroke, "fill-opacity": visible });
  }

  /** A drawing of the page, with what it has of the style sheet. */
  function copy(svg: SVGSVGElement): void {
    const own = svg.cloneNode(true) as SVGSVGElement;
    const pairs = [svg, own].map((root) => [root, ...root.querySelectorAll("*")]);
    pairs[0].forEach((each, i) => {
      const style = getComputedStyle(each), target = pairs[1][i];
      for (const { name } of [...target.attributes]) if (/^(class|role|tabindex|aria-|data-)/.test(name)) target.removeAttribute(name);
      for (const name of STYLE) target.setAttribute(name, style.getPropertyValue(name));
      for (const name of ["fill", "stroke"]) {
        const colour = style.getPropertyValue(name), [solid, opacity] = colour === "none" ? [colour, 1] : paint(colour);
        target.setAttribute(name, solid);
        if (opacity < 1) target.setAttribute(`${name}-opacity`, String(opacity * (name === "fill" ? Number(style.fillOpacity) : 1)));
      }
    });
    for (const [name, value] of Object.entries({ ...placeOf(svg.getBoundingClientRect()), overflow: "visible" })) own.setAttribute(name, String(value));
    inside.push(own);
  }

  function visit(node: Node): void {
    if (node instanceof Text) return writeLines(node);
    if (!(node instanceof Element) || node.matches(LEFT_OUT) || !node.checkVisibility()) return;
    if (node instanceof SVGSVGElement) return copy(node);
    if (node.matches(".uplot")) {
      const { x, y } = placeOf(node.getBoundingClientRect());
      add("g", { transform: `translate(${x} ${y})` }).innerHTML = vector?.() ?? "";
      return;
    }
    const style = getComputedStyle(node);
    if (style.visibility === "visible") writeBox(node, style);
    if (node instanceof HTMLSelectElement || node instanceof HTMLInputElement) {
      const box = placeOf(node.getBoundingClientRect()), value = node instanceof HTMLSelectElement ? node.selectedOptions[0]?.text ?? "" : node.value;
      if (value) write(value, { ...box, x: box.x + parseFloat(style.paddingLeft), width: 0 }, style);
    } else node.childNodes.forEach(visit);
  }
  visit(card);

  [width, height] = [width, height].map(Math.ceil); // whole pixels: a picture has no edge that is clear
  const out = made("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": getComputedStyle(card).fontFamily });
  out.append(made("rect", { width: "100%", height: "100%", fill: "#fff" }), ...inside);
  return out;
}

async function pictureOf(drawing: SVGElement): Promise<Blob> {
  const image = new Image(), [width, height] = ["width", "height"].map((name) => SCALE * Number(drawing.getAttribute(name)));
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(drawing))}`;
  await image.decode();
  const canvas = new OffscreenCanvas(Math.ceil(width), Math.ceil(height));
  canvas.getContext("2d")!.drawImage(image, 0, 0, width, height);
  return canvas.convertToBlob({ type: "image/png" });
}

/** The three buttons of a card. Files of cards that have one title, such as a chart and its table, are numbered. */
const saves: MakeSaves = (title, rows, vector) => {
  const named = (ending: string): string => {
    const at = [...document.querySelectorAll<HTMLElement>(".saves")].filter((each) => each.dataset.title === title).indexOf(group);
    return fileName(at > 0 ? `${title} ${at + 1}` : title, ending);
  };
  const draw = () => {
    const card = group.closest<HTMLElement>(".card, .browser")!;
    const heading = element<HTMLElement>(<h2>{title}</h2>), named = [...card.querySelectorAll("h2")].some((each) => each.checkVisibility());
    if (!named && group.parentElement!.matches(".card-head")) group.before(heading); // elsewhere it is that of the page
    else if (!named) card.prepend(heading);
    card.classList.add("saving");
    card.dispatchEvent(new Event("saving"));
    const beyond = Math.max(0, ...[...card.querySelectorAll(".sheet")].map((sheet) => sheet.scrollWidth - sheet.clientWidth));
    if (beyond > 0) card.style.minWidth = `${card.offsetWidth + beyond}px`; // its frame is around all of a table that scrolls
    const drawing = inLight(() => drawingOf(card, vector));
    card.style.minWidth = "";
    card.classList.remove("saving");
    heading.remove();
    card.dispatchEvent(new Event("saved"));
    return drawing;
  };
  const svg = () => download(named("svg"), new Blob([new XMLSerializer().serializeToString(draw())], { type: "image/svg+xml" }));
  const png = async () => download(named("png"), await pictureOf(draw()));
  const sheet = () => {
    const given = rows(), [headings, ...cells] = Array.isArray(given) ? given : plainRows(given);
    download(named("csv"), new Blob([csv([distinct(headings.map(String)), ...cells])], { type: "text/csv" }));
  };
  const button = (name: string, words: string, act: () => unknown) => <button type="button" title={words} aria-label={`${title}: ${words}`} onClick={() => void act()}>{name}</button>;
  const group: HTMLElement = element(
    <span class="saves" data-title={title}>
      {button("PNG", "save as a picture", png)}
      {button("SVG", "save as a drawing", svg)}
      {button("CSV", "save for a spreadsheet", sheet)}
    </span>,
  );
  return group;
};

globalThis.glassformerSaves = saves;
