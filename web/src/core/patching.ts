/** Activation patching: requests, results, and their part of the URL; see explorer/patches.py. */

import type { AttentionMap, Session } from "./types";

export const MODES = ["zero", "mean", "swap"] as const;
export const KINDS = ["heads", "residual", "attention", "feed-forward"] as const;
export const DIRECTIONS = ["denoising", "noising"] as const;
export type Mode = (typeof MODES)[number];
export type Kind = (typeof KINDS)[number];
export type Direction = (typeof DIRECTIONS)[number];

/** What is measured, and what is put in the place of a component. */
export interface PatchOptions {
  mode: Mode;
  /** The text whose activations are swapped in. */
  other: string | null;
  direction: Direction;
  align: "strict" | "start" | "end";
  target: string | null;
  against: string | null;
  /** The token at which the prediction is read; null = the next token, or the gap. */
  position: number | null;
}

export type PatchRequest = PatchOptions & { components: string[] };
export type SweepRequest = PatchOptions & { kind: Kind; map: string | null };

/** A class before and after a patch: its logit and its probability, where there is one. */
export interface ClassChange {
  name: string;
  logit_before: number;
  logit_after: number;
  probability_before: number | null;
  probability_after: number | null;
}

/** What a patch changes. */
export interface PatchEffect {
  metric: string;
  before: number | null;
  after: number | null;
  /** 0 = as the corrupt text, 1 = as the clean one. */
  normalised: number | null;
  classes: ClassChange[];
  at: number | null;
}

interface ClassNumbers {
  logit: number;
  probability: number | null;
}

/** The effects of a sweep, as a map. */
export interface Sweep {
  component_kind: Kind;
  map: string;
  mode: Mode;
  direction: Direction;
  metric: string;
  target: string;
  against: string | null;
  before: number;
  /** The metric of the other text. */
  other: number | null;
  rows: string[];
  columns: string[];
  components: (string | null)[][];
  values: (number | null)[][];
  normalised: (number | null)[][] | null;
  at: number | null;
  classes: Record<string, ClassNumbers & { name: string }>;
  /** Of each component, in order, its most likely classes; empty in a large sweep. */
  changes: (ClassNumbers & { number: number })[][];
}

/** The classes of one component of a sweep; null where the sweep is too large to hold them. */
export function changesOf(sweep: Sweep, component: string): ClassChange[] | null {
  const at = sweep.components.flat().filter((each) => each !== null).indexOf(component);
  const changes = sweep.changes[at];
  if (!changes) return null;
  return changes.map(({ number, logit, probability }) => {
    const before = sweep.classes[number];
    return { name: before.name, logit_before: before.logit, logit_after: logit, probability_before: before.probability, probability_after: probability };
  });
}

/** The component that a head is. */
export const headComponent = (map: AttentionMap, layer: number, head: number): string => `${map.paths[layer]}.z[${head}]`;

/** State of the patch view: which sweep, and the cell that is chosen. */
export interface PatchState {
  kind: Kind;
  mode: Mode;
  other: string;
  direction: Direction;
  align: PatchOptions["align"];
  target: string;
  against: string;
  cell: [row: number, column: number] | null;
}

export const initialPatch = (): PatchState => ({ kind: "heads", mode: "zero", other: "", direction: "denoising", align: "strict", target: "", against: "", cell: null });

/** The options of a state. position: of the pinned token, of a model that predicts something at each. */
export function optionsOf(state: PatchState, position: number | null): PatchOptions {
  const { mode, direction, align } = state;
  return { mode, direction, align, other: mode === "swap" ? state.other : null, target: state.target || null, against: state.against || null, position };
}

/** Heads that are switched off, as [map, layer, head]. */
export type Off = [map: string, layer: number, head: number][];

export function formatPatch(state: PatchState, off: Off): [string, string][] {
  const initial = initialPatch();
  const pairs: [string, string][] = (["kind", "mode", "other", "direction", "align", "target", "against"] as const)
    .filter((name) => state[name] !== initial[name])
    .map((name) => [`p.${name}`, state[name]]);
  if (state.cell) pairs.push(["p.cell", state.cell.join(".")]);
  if (off.length) pairs.push(["off", off.map((each) => each.join(".")).join(",")]);
  return pairs;
}

/** Parse the pairs of a link, with a notice for each that is not possible. */
export function readPatch(pairs: URLSearchParams, session: Session, notices: string[]): { patch: PatchState; off: Off } {
  const patch = initialPatch();
  const one = <T extends string>(name: string, allowed: readonly T[], otherwise: T): T => {
    const value = pairs.get(name);
    if (value === null || allowed.includes(value as T)) return (value as T) ?? otherwise;
    notices.push(`this link asks for ${name.slice(2)} “${value}”, which is not here: showing ${otherwise}`);
    return otherwise;
  };
  patch.kind = one("p.kind", KINDS, patch.kind);
  patch.mode = one("p.mode", MODES, patch.mode);
  patch.direction = one("p.direction", DIRECTIONS, patch.direction);
  patch.align = one("p.align", ["strict", "start", "end"], patch.align);
  for (const name of ["other", "target", "against"] as const) patch[name] = pairs.get(`p.${name}`) ?? "";
  const cell = /^(\d{1,4})\.(\d{1,5})$/.exec(pairs.get("p.cell") ?? "");
  if (cell) patch.cell = [Number(cell[1]), Number(cell[2])];
  return { patch, off: readOff(pairs.get("off") ?? "", session, notices) };
}

function readOff(text: string, session: Session, notices: string[]): Off {
  const off: Off = [];
  for (const part of text.split(",").filter(Boolean)) {
    const match = /^(.+)\.(\d{1,4})\.(\d{1,4})$/.exec(part);
    const map = session.maps.find(({ name }) => name === match?.[1]);
    const [layer, head] = [Number(match?.[2]), Number(match?.[3])];
    if (match && map && layer < map.layers && head < map.heads) off.push([map.name, layer, head]);
    else notices.push(`this link switches off “${part}”, which is no head of this model`);
  }
  return off;
}
