/** The attribution that is computed or there, and sentences about it. */

import { computed, type Signal, signal } from "@preact/signals";
import { number, percent } from "../../core/format";
import { type Attribution, type AttributionRequest, type Part, type ReadingState, requestOf } from "../../core/readings";
import { type Progress, saidInPlace, type ViewProps } from "../../core/types";
import { mapOf } from "../../core/url-state";
import * as views from "../../core/views";
import { followsStrongest, headPlace, mapOfPart, strongestHeads } from "../../core/cause";

/** Gradients of the first answer; by how much its words may miss the change of the logit; and of all, the most. */
const [FIRST, GAP, MOST] = [16, 0.01, 512];
/** Texts that are run in the time of a gradient. */
const GRADIENT = 3;
/** Words for an output that a sentence names. */
const NAMED = 3;
/** Seconds that one waits for an exact answer without being asked. */
const PATIENCE = 15;

/** A word: its tokens, and the sum over them. */
export interface Word {
  text: string;
  value: number;
  stream: string;
  first: number;
  special: boolean;
}

export class AttributionController {
  readonly found: Signal<Attribution | null> = signal(null);
  readonly progress: Signal<Progress | null> = signal(null);
  readonly problem: Signal<string | null> = signal(null);
  /** A first answer is on screen, from few gradients: how many seconds an exact one takes at most. */
  readonly wait: Signal<number | null> = signal(null);
  /** The reader has stopped it. */
  readonly stopped: Signal<boolean> = signal(false);
  readonly state = computed(() => this.props.state.value.reading);
  readonly request = computed(() => requestOf({ ...this.state.value, at: this.state.value.at || this.usual }));
  /** The head whose words are shown, where this model has it. */
  readonly head = computed(() => {
    const [head, found] = [this.state.value.head, this.found.value];
    return head && found?.parts.some((part) => part.head === head[2] && part.layer === head[1] && this.mapOf(part) === head[0]) ? head : null;
  });
  private running = new AbortController();

  constructor(readonly props: ViewProps) {}

  /**
   * The token where the output is read if none is named: of a model that writes, the one that is pinned in another view;
   * of an encoder-decoder, the one that the page's answer is about.
   */
  get usual(): string {
    const { session: { maps, model, opening, streams }, state, transport } = this.props;
    const { map, query, reading, tour } = state.value;
    const stream = "target" in streams ? "target" : Object.keys(streams)[0];
    const writes = model.predicts === "token" && maps.some((each) => each.causal && each.queries === stream && each.keys === stream);
    if (!writes || reading.target) return "";
    // A lesson pins what it tells of, and ends with the answer.
    if (transport.host !== "page" && tour === null && query !== null && mapOf(this.props.session, map).queries === stream) return String(query);
    return "target" in streams ? String(opening.answer?.choices[0]?.at ?? "") : "";
  }

  /** What is asked one after another: what is exact, which is soon there; then the words, from few gradients. */
  get first(): AttributionRequest[] {
    return [0, FIRST].map((steps) => ({ ...this.request.peek(), steps }));
  }

  set(change: Partial<ReadingState>): void {
    this.props.set({ reading: { ...this.state.peek(), ...change } });
  }

  /** Explain another output; the head on screen is the strongest of it, where it was there for its share of this one. */
  explain(change: Partial<ReadingState>): void {
    const { cause } = this.props.state.peek();
    this.props.set({ reading: { ...this.state.peek(), ...change, head: null, follow: change.target || null, cell: null }, cause: cause && "strongest" });
  }

  /** The words that a head read, which is then the one on screen in the views of one head; null = all words again. */
  choose(part: Part | null): void {
    this.set({ head: part && [this.mapOf(part), part.layer!, part.head!] });
    const shown = part ?? strongestHeads(this.found.peek()!)[0];
    this.show(shown, part ? "chosen" : "strongest");
  }

  /** Have a head on screen in the views of one head. */
  private show(part: Part, kind: "strongest" | "chosen"): void {
    this.props.set({ ...headPlace(this.props.session, this.found.peek()!, part), cause: this.state.peek().at || !this.usual ? kind : `${kind}.${this.usual}` });
  }

  async load(): Promise<void> {
    this.stop();
    const { signal } = (this.running = new AbortController());
    this.problem.value = null;
    this.stopped.value = false;
    this.wait.value = null;
    if (this.props.transport.host === "page") return void (await this.ask(this.request.peek(), signal));
    for (const request of this.first) if (!(await this.ask(request, signal))) return;
    const found = this.found.peek()!;
    if (found.gap === null || found.gap <= GAP) return;
    this.wait.value = (found.seconds / FIRST) * (found.texts ? FIRST + found.texts / GRADIENT : MOST);
    if (this.wait.value <= PATIENCE) await this.refine();
  }

  /** What it takes for an exact answer, after a first one. */
  async refine(): Promise<void> {
    this.stop();
    const { signal } = (this.running = new AbortController());
    if (await this.ask(this.request.peek(), signal)) this.wait.value = null;
  }

  /** The attribution as it is asked for, on screen; null where there is none. */
  private async ask(request: AttributionRequest, signal: AbortSignal): Promise<Attribution | null> {
    this.progress.value = { done: 0, of: 0 };
    try {
      const found = await views.attribution(this.props.transport, this.props.session, request, (at) => !signal.aborted && (this.progress.value = at), signal);
      if (signal.aborted) return null;
      this.found.value = found;
      const [strongest] = strongestHeads(found);
      if (strongest && followsStrongest(this.props.state.peek(), this.props.session)) this.show(strongest, "strongest");
      this.props.say(this.finding());
      return found;
    } catch (error) {
      if (signal.aborted) return null;
      this.problem.value = saidInPlace(error, this.props.refuse);
      return null;
    } finally {
      if (!signal.aborted) this.progress.value = null;
    }
  }

  /** Stop as the reader asks. */
  interrupt(): void {
    this.stop();
    this.stopped.value = this.wait.peek() === null;
  }

  stop(): void {
    this.running.abort();
    this.progress.value = null;
  }

  /** The attention map of a part that is a head. */
  mapOf(part: Part): string {
    return mapOfPart(this.props.session, this.found.value!, part);
  }

  /** The words are not known well enough to be coloured. */
  rough(found: Attribution): boolean {
    return found.rough && !this.head.value && this.state.value.method === "shares";
  }

  /** What colours the words: by stream, a number for each token; not a number where it is not known well enough. */
  values(found: Attribution): Record<string, Float32Array> {
    const head = this.head.value;
    if (this.rough(found)) return Object.fromEntries(Object.entries(found.gradient).map(([stream, values]) => [stream, values.map(() => NaN)]));
    if (!head) return this.state.value.method === "shares" ? found.shares : found.gradient;
    const [name, layer, number] = head;
    const map = this.props.session.maps.find((each) => each.name === name)!;
    const keys = this.props.session.streams[map.keys].length;
    const from = (layer * map.heads + number) * keys;
    return { [map.keys]: found.heads[name].subarray(from, from + keys) };
  }

  /** The words that speak most for the output and most against it; null where none is to be named, or a head's are on screen. */
  strongestWords(found: Attribution): { for: Word[]; against: Word[] } | null {
    if (this.head.value || found.rough || this.state.value.method !== "shares") return null;
    const { streams } = this.props.session;
    const words = Object.entries(found.shares).filter(([stream]) => streams[stream]).flatMap(([stream, values]) => this.words(stream, values).filter(({ special }) => !special));
    const least = Math.max(...words.map(({ value }) => Math.abs(value)), 0) / 20;
    const ranked = words.filter(({ value }) => Math.abs(value) > least).sort((a, b) => b.value - a.value);
    const [own, other] = [ranked.filter(({ value }) => value > 0), ranked.filter(({ value }) => value < 0).reverse()];
    return { for: own.slice(0, NAMED), against: other.slice(0, 1) };
  }

  /** Is it the word that the output follows? */
  isBefore(word: Word, { target: { follows, position, stream } }: Attribution): boolean {
    const begins = position === null ? -1 : this.props.session.streams[stream].findLastIndex(({ continues }, at) => at <= position && !continues);
    return follows && word.stream === stream && word.first === begins;
  }

  /** What to ask for an output by; two tokens may have one name, with the space before a word and without it. */
  target(name: string): string {
    const { position } = this.found.value!.target;
    return this.props.session.opening.answer?.choices.find((choice) => choice.name === name && choice.at === position)?.target ?? name;
  }

  /** Can the output be compared with another one? A saved page has what was asked for, or made of defaults. */
  holds(against: string): boolean {
    const { session, transport } = this.props;
    return transport.host === "server" || Boolean(session.readings?.some(({ view, request }) => view === "attribution" && request.against === against));
  }

  words(stream: string, values: Float32Array): Word[] {
    const tokens = this.props.session.streams[stream];
    const words: Word[] = [];
    tokens.forEach((token, at) => {
      const last = words.at(-1);
      if (token.continues && last) [last.text, last.value] = [last.text + token.text, last.value + values[at]];
      else words.push({ text: token.text, value: values[at], stream, first: at, special: token.special });
    });
    return words;
  }

  /** Sums over the heads of each layer: of attention, cross-attention, feed-forward. */
  layers(found: Attribution): { layer: number; sums: [kind: string, value: number][] }[] {
    const count = Math.max(...found.parts.map((part) => part.layer ?? -1)) + 1;
    return Array.from({ length: count }, (_, layer) => {
      const here = found.parts.filter((part) => part.layer === layer);
      const sum = (...kinds: string[]) => here.filter((part) => kinds.includes(part.kind)).reduce((all, part) => all + part.value, 0);
      const sums: [string, number][] = [["attention", sum("head", "attention bias")]];
      if (here.some((part) => part.kind === "cross head")) sums.push(["cross-attention", sum("cross head")]);
      sums.push(["feed-forward", sum("feed-forward", "convolution")]);
      return { layer, sums };
    });
  }

  strongest(found: Attribution, count: number): Part[] {
    return [...found.parts].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, count);
  }

  finding(found: Attribution = this.found.peek()!): string {
    const { title, against, score, probability, doubt } = found.target;
    return [`${title}: ${against === null ? "logit" : "difference of logits"} ${number(score)}, ${percent(probability)}.`, doubt, found.finding].filter(Boolean).join(" ");
  }
}

export const partName = ({ kind, layer, head }: Part): string => `${layer === null ? "" : `layer ${layer} `}${kind}${head === null ? "" : ` ${head}`}`;
