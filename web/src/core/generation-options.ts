/** Generation options, and the generation view's part of the URL: options, the branch shown, the pinned step. */

import { GROUPS } from "virtual:generation-options";

/** Options under the names of `model.generate`; those not named have its defaults. */
export type Options = Record<string, OptionValue>;
export type OptionValue = string | number | boolean | string[];

export type Method = "greedy" | "sample" | "beams";
export const METHODS: readonly Method[] = ["greedy", "sample", "beams"];

/** What the words' shades tell: how likely each was, or where the pinned one looked (all heads' mean, or one head). */
export type Shades = "chance" | "mean" | "head";
export const SHADES: readonly Shades[] = ["chance", "mean", "head"];

export interface GenerationState {
  options: Options;
  /** Token ids from the prompt to the last one on screen; empty = what the method wrote. */
  path: number[];
  /** Which of them is pinned, counted from 1. */
  at: number | null;
  shades: Shades;
}

export const initialGeneration = (): GenerationState => ({ options: {}, path: [], at: null, shades: "chance" });

/** An option that the page may set, as the library has it. */
export interface Option {
  name: string;
  group: string;
  description: string;
  kind: "number" | "boolean" | "text" | "texts" | "choice";
  /** Of a number. */
  integer: boolean;
  min: number;
  max: number;
  /** Bounds that are no values themselves. */
  above: number;
  below: number;
  /** Of a choice. */
  choices: OptionValue[];
  fallback: number | boolean | null;
}

const DEFAULTS = { kind: "number" as const, integer: false, min: -Infinity, max: Infinity, above: -Infinity, below: Infinity, choices: [], fallback: null };

/** Every option that the page may set, of the library's JSON schema, by heading. */
export const OPTIONS: readonly Option[] = Object.entries(GROUPS).flatMap(([group, options]) => options.map((option) => ({ ...DEFAULTS, group, ...option })));
const BY_NAME = new Map(OPTIONS.map((option) => [option.name, option]));

/** A number that has a control or a slider of its own, and what it is without being set. */
export interface Field extends Option {
  fallback: number;
}

function field(name: string, fallback?: number, min = -Infinity): Field {
  const option = BY_NAME.get(name)!;
  return { ...option, min: Math.max(option.min, min), fallback: fallback ?? (option.fallback as number) };
}

/** The options with controls of their own; sliders rest where they change nothing, and one beam is greedy search. */
export const FIELDS = {
  tokens: field("max_new_tokens"),
  temperature: field("temperature", 1),
  topK: field("top_k", 0),
  topP: field("top_p", 1),
  seed: field("seed", 0),
  beams: field("num_beams", 4, 2),
};

/** The nearest to a number, as text, that an option takes; null where there is none. */
export function within({ min, max, above, below, integer }: Option, text: string): number | null {
  const value = text.trim() ? Number(text) : NaN;
  const inside = Math.min(Math.max(integer ? Math.round(value) : value, min), max);
  return inside > above && inside < below ? inside : null;
}

/** A field's value among options. */
export function valueOf({ name, fallback }: Field, options: Options): number {
  const value = options[name];
  return typeof value === "number" ? value : fallback;
}

export function methodOf(options: Options): Method {
  if (typeof options.num_beams === "number" && options.num_beams > 1) return "beams";
  return options.do_sample === true ? "sample" : "greedy";
}

/** Headings of options that one method alone has; of several answers, only several beams are drawn here. */
const ALONE: Record<string, Method> = { Sampling: "sample", "Beam search": "beams" };
const belongs = ({ name, group }: Option, method: Method): boolean => (ALONE[group] ?? method) === method && (name !== "num_return_sequences" || method === "beams");

/** Options without a control of their own that a method has, by heading. */
export function moreOptions(method: Method): Map<string, Option[]> {
  const own = new Set(["do_sample", ...Object.values(FIELDS).map(({ name }) => name)]);
  const groups = new Map<string, Option[]>();
  for (const option of OPTIONS) if (!own.has(option.name) && belongs(option, method)) groups.set(option.group, [...(groups.get(option.group) ?? []), option]);
  return groups;
}

/** Options for another method: what only the one before uses is left out. */
export function withMethod(options: Options, method: Method): Options {
  const remaining = Object.fromEntries(Object.entries(options).filter(([name]) => belongs(BY_NAME.get(name)!, method)));
  if (method === "sample") return { ...remaining, do_sample: true };
  return method === "beams" ? { ...remaining, num_beams: valueOf(FIELDS.beams, options) } : remaining;
}

/** Options with one of them changed; what is as it would be anyway is left out, and so is what is null. */
export function withValue(options: Options, { name, fallback }: Option, value: OptionValue | null): Options {
  const { [name]: _, ...rest } = options;
  return value === null || (value === fallback && name !== "num_beams" && name !== "seed") ? rest : { ...rest, [name]: value };
}

const OPTION = "g.";

export function formatPairs({ options, path, at, shades }: GenerationState): [string, string][] {
  const pairs: [string, string][] = Object.entries(options).map(([name, value]) => [OPTION + name, Array.isArray(value) ? JSON.stringify(value) : String(value)]);
  if (path.length) pairs.push(["path", path.join(".")]);
  if (at !== null) pairs.push(["at", String(at)]);
  if (shades !== "chance") pairs.push(["shades", shades]);
  return pairs;
}

/** What an address says of a writing; a sentence for each thing that cannot be so. */
export function readPairs(pairs: URLSearchParams, notices: string[]): GenerationState {
  const state = initialGeneration();
  for (const [pair, text] of pairs) {
    if (!pair.startsWith(OPTION)) continue;
    const name = pair.slice(OPTION.length);
    const option = BY_NAME.get(name);
    const value = option && valueIn(option, text);
    if (value !== undefined && value !== null) state.options[name] = value;
    if (value === undefined || value === null) notices.push(`this link asks for ${name} ${text}, which ${option ? "it cannot be" : "is no option here"}: leaving it out`);
    else if (typeof value === "number" && value !== Number(text)) notices.push(`this link asks for ${name} ${text}: taking ${value}`);
  }
  const path = pairs.get("path");
  if (path && /^\d{1,8}(\.\d{1,8})*$/.test(path)) state.path = path.split(".").map(Number);
  else if (path) notices.push("the branch in this link cannot be read: showing the text without it");
  const at = pairs.get("at");
  if (at !== null && /^[1-9]\d{0,5}$/.test(at)) state.at = Number(at);
  const shades = pairs.get("shades") as Shades | null;
  if (shades !== null && SHADES.includes(shades)) state.shades = shades;
  else if (shades !== null) notices.push(`this link asks for shades “${shades}”, which are not here: showing how likely each word was`);
  return state;
}

/** The value of an option in a link; of a number the nearest that is allowed, null where there is none. */
function valueIn(option: Option, text: string): OptionValue | null {
  if (option.kind === "number") return within(option, text);
  if (option.kind === "texts" && text.startsWith("[")) {
    try {
      const texts: unknown = JSON.parse(text);
      return Array.isArray(texts) && texts.every((each) => typeof each === "string") ? texts : null;
    } catch {
      return text; // a text that begins with a bracket
    }
  }
  if (option.kind === "boolean" || option.kind === "choice") return (option.kind === "boolean" ? [true, false] : option.choices).find((each) => String(each) === text) ?? null;
  return text;
}
