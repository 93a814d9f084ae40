/** Why a head is on screen: its share of the output that Attribution explains. */

import { number } from "./format";
import { type Attribution, type AttributionRequest, type Part, requestOf } from "./readings";
import type { Session, State } from "./types";
import { initialState } from "./url-state";

/** A number with its sign: +1.23, −0.5. */
export const signed = (x: number): string => (x > 0 ? "+" : "") + number(x, 3);

/** Heads, those with the largest shares first. */
export const strongestHeads = (found: Attribution): Part[] => found.parts.filter(({ head }) => head !== null).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));

/** The attention map of a part that is a head. */
export function mapOfPart({ maps }: Session, { target: { stream } }: Attribution, { kind }: Part): string {
  return maps.find(({ queries, keys }) => queries === stream && (keys === stream) === (kind === "head"))!.name;
}

/** The state with a head on screen. */
export const headPlace = (session: Session, found: Attribution, part: Part): Pick<State, "map" | "layers" | "heads"> => ({ map: mapOfPart(session, found, part), layers: [part.layer!, part.layer!], heads: [part.head!] });

/** Whether the head on screen is the one that the attribution names: by a link of a row, or since no other was chosen. */
export function followsStrongest(state: State, session: Session): boolean {
  if (state.cause) return state.cause.startsWith("strongest");
  const opened = initialState(session);
  return state.tour === null && (["map", "layers", "heads"] as const).every((name) => String(state[name]) === String(opened[name]));
}

/** What is explained by the head on screen. */
export const causeRequest = ({ reading, cause }: State): AttributionRequest => requestOf({ ...reading, at: reading.at || (cause.split(".")[1] ?? "") });

/** Why the head on screen is there, in a sentence; null where it has no share of the output. */
export function causeSentence(found: Attribution, session: Session, { map, layers: [layer], heads: [head] }: State): string | null {
  const all = strongestHeads(found), place = all.findIndex((part) => part.layer === layer && part.head === head && mapOfPart(session, found, part) === map);
  if (place < 0) return null;
  return `Layer ${layer}, head ${head}: its share of “${found.target.title}” is ${signed(all[place].value)}, ${place ? `number ${place + 1}` : "the largest"} of ${all.length} heads.`;
}
