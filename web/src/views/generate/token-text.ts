/** Text layout of tokens: no white space is lost, and every token has something to point at. */

import { visible } from "../../core/format";
import type { Token } from "../../core/types";

/** A token's text as white space before, a body that can be pointed at, and white space that has to stay white space. */
export function parts(text: string, piece: string, special: boolean): { before: string; body: string; after: string } {
  if (special) return { before: " ", body: piece, after: "" };
  const body = text.trimStart();
  if (body.trim() === "") return { before: "", body: text === "" ? "·" : visible(text), after: text.replace(/[^\n]/g, "") };
  const end = body.trimEnd();
  return { before: text.slice(0, text.length - body.length), body: end, after: body.slice(end.length) };
}

/** What is in a text before each of its tokens, whose own text has lost it: white space, or nothing. */
export function gaps(tokens: readonly Token[], text: string): string[] {
  const within = text.toLowerCase();
  let at = 0;
  return tokens.map((token, index) => {
    const start = token.special ? -1 : within.indexOf(token.text.toLowerCase(), at);
    if (start < 0 || text.slice(at, start).trim() !== "") return index && !token.continues ? " " : "";
    const before = text.slice(at, start);
    at = start + token.text.length;
    return index ? before || (tokens[index - 1].special ? " " : "") : before;
  });
}
