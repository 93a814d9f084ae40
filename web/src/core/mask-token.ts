/** Texts with one of their tokens replaced by the mask token of the model. */

import type { Session, Token } from "./types";

/** The texts of the session with the token hidden; null where it is of no text, or is hidden already. */
export function masked(session: Session, { span, segment, special }: Token): string[] | null {
  const name = session.model.mask_token;
  if (!name || special || segment === null || !span || span[0] === span[1] || session.texts[segment] === undefined) return null;
  const characters = Array.from(session.texts[segment]); // offsets count code points
  let [start, end] = span;
  while (start < end && /\s/.test(characters[start])) start++; // some tokens hold the space before them
  const text = [...characters.slice(0, start), name, ...characters.slice(end)].join("");
  return session.texts.map((each, at) => (at === segment ? text : each));
}
