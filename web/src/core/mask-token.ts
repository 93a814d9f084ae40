/** Texts with one of their tokens replaced by the mask token of the model. */

import type { Session, Token } from "./types";

/** The texts of the session with the token hidden; null where it is of no text, or is hidden already. */
export function masked(session: Session, token: Token): string[] | null {
  const { span, special } = token;
  const name = session.model.mask_token;
  // The target of an encoder-decoder is its second text, where it was given: the model's own is none that could be changed.
  const of = session.streams.target?.includes(token) ? 1 : token.segment;
  if (!name || special || of === null || !span || span[0] === span[1] || session.texts[of] === undefined) return null;
  const characters = Array.from(session.texts[of]); // offsets count code points
  let [start, end] = span;
  while (start < end && /\s/.test(characters[start])) start++; // some tokens hold the space before them
  const text = [...characters.slice(0, start), name, ...characters.slice(end)].join("");
  return session.texts.map((each, at) => (at === of ? text : each));
}
