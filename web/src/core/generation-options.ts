/** Generation options, and the generation view's part of the URL: options, the branch shown, the pinned step. */

/** Options under the names of `model.generate`; those not named have its defaults. */
export type Options = Record<string, OptionValue>;
export type OptionValue = string | number | boolean;

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

interface Field {
  name: string;
  min: number;
  max: number;
  fallback: number;
  integer: boolean;
}

const field = (name: string, min: number, max: number, fallback: number, integer = true): Field => ({ name, min, max, fallback, integer });

/** The numeric options that the page has controls for; a link may name others, which are passed on. */
export const FIELDS = {
  tokens: field("max_new_tokens", 1, 1024, 40),
  temperature: field("temperature", 0.05, 5, 1, false),
  topK: field("top_k", 0, 1e6, 0),
  topP: field("top_p", 0.01, 1, 1, false),
  seed: field("seed", 0, 2 ** 31 - 1, 0),
  beams: field("num_beams", 2, 32, 4),
};

/** Clamp a number to the range of a field. */
export function within({ min, max, integer }: Field, value: number): number {
  const inside = Math.min(Math.max(value, min), max);
  return integer ? Math.round(inside) : inside;
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

const SAMPLING = ["do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "seed"];
const BEAMS = ["num_beams", "num_beam_groups", "diversity_penalty", "length_penalty", "early_stopping", "num_return_sequences"];

/** Options for another method: what only the one before uses is left out. */
export function withMethod(options: Options, method: Method): Options {
  const dropped = method === "greedy" ? [...SAMPLING, ...BEAMS] : method === "sample" ? BEAMS : SAMPLING;
  const remaining = Object.fromEntries(Object.entries(options).filter(([name]) => !dropped.includes(name)));
  if (method === "sample") return { ...remaining, do_sample: true };
  return method === "beams" ? { ...remaining, num_beams: valueOf(FIELDS.beams, options) } : remaining;
}

/** Options with one of them changed; what is as it would be anyway is left out. */
export function withValue(options: Options, { name, fallback }: Field, value: number): Options {
  const { [name]: _, ...rest } = options;
  return value === fallback && name !== "num_beams" && name !== "seed" ? rest : { ...rest, [name]: value };
}

const OPTION = "g.";

export function formatPairs({ options, path, at, shades }: GenerationState): [string, string][] {
  const pairs: [string, string][] = Object.entries(options).map(([name, value]) => [OPTION + name, String(value)]);
  if (path.length) pairs.push(["path", path.join(".")]);
  if (at !== null) pairs.push(["at", String(at)]);
  if (shades !== "chance") pairs.push(["shades", shades]);
  return pairs;
}

/** What an address says of a writing; a sentence for each thing that cannot be so. */
export function readPairs(pairs: URLSearchParams, notices: string[]): GenerationState {
  const state = initialGeneration();
  for (const [pair, text] of pairs) if (pair.startsWith(OPTION)) state.options[pair.slice(OPTION.length)] = optionOf(text);
  for (const option of Object.values(FIELDS)) {
    const requested = state.options[option.name];
    if (requested === undefined) continue;
    const value = typeof requested === "number" ? within(option, requested) : option.fallback;
    if (value === requested || (option === FIELDS.beams && requested === 1)) continue;
    notices.push(`this link asks for ${option.name} ${requested}: taking ${value}`);
    state.options[option.name] = value;
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

/** JSON without the quotes of strings. */
function optionOf(text: string): OptionValue {
  if (text === "true" || text === "false") return text === "true";
  return text.trim() !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
}
