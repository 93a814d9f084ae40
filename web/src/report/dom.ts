/** JSX as elements of the page: what the reports need of Preact, which is as large as the rest of their program.
 *
 *     <p class="remark">{text}</p>   an element, once; nothing is drawn again by itself
 *
 * web/build.mjs puts it in the place of preact/jsx-runtime in the bundles of reports; types are Preact's.
 */

import type { ComponentChild } from "preact";

const SVG = new Set(["svg", "g", "line", "path", "circle", "rect", "text", "title"]);

type Properties = Record<string, unknown> & { children?: unknown };

function append(into: Element, child: unknown): void {
  if (Array.isArray(child)) for (const each of child) append(into, each);
  else if (child !== null && child !== undefined && typeof child !== "boolean") into.append(child instanceof Node ? child : String(child));
}

export function jsx(type: string | ((properties: Properties) => unknown), properties: Properties): unknown {
  if (typeof type === "function") return type(properties);
  const made = SVG.has(type) ? document.createElementNS("http://www.w3.org/2000/svg", type) : document.createElement(type);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "children" || value === undefined || value === null || value === false) continue;
    if (name === "style") Object.assign(made.style, value);
    else if (typeof value === "function") made.addEventListener(name.slice(2).toLowerCase(), value as EventListener);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  append(made, properties.children);
  return made;
}

export const jsxs = jsx;
export const Fragment = ({ children }: Properties): unknown => children;

/** What JSX made, as the element that it is. */
export const element = <T extends Element = HTMLElement>(made: ComponentChild): T => made as unknown as T;

/** Put what JSX made at the end of an element, in the place of all that is there. */
export function fill(into: Element, made: ComponentChild): void {
  into.replaceChildren();
  append(into, made);
}
