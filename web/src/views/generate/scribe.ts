/** What the generation view knows: the tree that is written, the text of it on screen, the place looked at, and what it asks for. */

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { FIELDS, methodOf, type Options, valueOf, withMethod, type WritingState } from "../../core/recipe";
import { type Distribution, Refusal, type Session, type TreeNode, type ViewProps, type Writing, type WritingLine, type WritingOrder } from "../../core/types";
import { Pool } from "../matrix/pool";
import { Gaze } from "./gaze";
import { type Shape, type Sorted, sorted } from "./shaping";
import { WritingTree } from "./tree";

/** A distribution, and its tokens in order. */
export interface Chances extends Distribution {
  sorted: Sorted;
}

export class Scribe {
  /** What is written now; a new one for each start. */
  tree = new WritingTree();
  /** Its facts; null until the first answer. */
  readonly writing: Signal<Writing | null> = signal(null);
  readonly busy = signal(false);
  /** Why there is nothing, or no more; a sentence. */
  readonly problem: Signal<string | null> = signal(null);
  /** Why this page cannot do what was asked: with the command that can. */
  readonly absent: Signal<string | null> = signal(null);
  /** How long the last writing took, in seconds. */
  readonly seconds: Signal<number | null> = signal(null);
  /** What the controls say; written with when the button is pressed. */
  readonly wanted: Signal<Options>;
  /** What the sliders say. */
  readonly shape: Signal<Shape>;
  /** The step under the pointer or the focus, counted from 1. */
  readonly pointed: Signal<number | null> = signal(null);
  /** The text on screen, from the first token to its last. */
  readonly path: ReadonlySignal<TreeNode[]>;
  /** The step looked at: pointed at, pinned, or the last; 0 where nothing is written. */
  readonly step: ReadonlySignal<number>;
  /** What could have stood there. */
  readonly chances: ReadonlySignal<Chances | null>;
  readonly gaze: Gaze;
  /** Moves on whenever the tree has grown. */
  readonly news = signal(0);
  /** The node through which the text on screen goes; null = what the method wrote first. */
  private readonly through: Signal<number | null> = signal(null);
  private readonly held: Pool<{ w: string; node: number }, Chances>;
  private ending = new AbortController();
  private paint = 0;

  /** `linked`: the path and the step in the address are of this text, not of one before. */
  constructor(readonly props: ViewProps, readonly session: Session, private readonly linked: boolean) {
    const { state, transport } = props;
    const options = state.peek().writing.options;
    this.wanted = signal({ ...options });
    this.shape = signal(shapeOf(options));
    this.path = computed(() => {
      void this.news.value;
      return this.tree.path(this.tree.leaf(this.through.value ?? this.tree.first));
    });
    this.step = computed(() => Math.min(this.pointed.value ?? state.value.writing.at ?? this.path.value.length, this.path.value.length));
    this.held = new Pool({
      key: ({ w, node }) => `${w}/${node}`,
      ask: async ({ w, node }, abort) => {
        const found = await transport.distribution(w, node, abort);
        return { ...found, sorted: sorted(found) };
      },
      kept: 24,
      parallel: 2,
      arrived: () => this.news.value++,
      refused: (error) => this.refused(error),
    });
    this.chances = computed(() => {
      void this.news.value;
      const [writing, node] = [this.writing.value, this.before.value];
      return writing && node !== null ? (this.held.get({ w: writing.id, node }) ?? null) : null;
    });
    this.gaze = new Gaze(this);
  }

  /** The node behind which the step looked at was chosen; null where nothing is written. */
  readonly before: ReadonlySignal<number | null> = computed(() => {
    const step = this.step.value;
    if (step === 0) return this.tree.choices.has(0) ? 0 : null;
    return this.path.value[step - 1].parent;
  });

  /** The node looked at. */
  get looked(): TreeNode | null {
    return this.path.value[this.step.value - 1] ?? null;
  }

  /** When it first comes on screen, write as the address says. */
  begin(): void {
    if (this.writing.peek() || this.busy.peek() || this.problem.peek() || this.absent.peek()) return;
    if (!this.linked) this.note({ path: [], at: null });
    void this.write(this.props.state.peek().writing.path);
  }

  /** Write from the prompt as the controls and the sliders say. */
  async again(): Promise<void> {
    const wanted = this.wanted.peek();
    const { temperature, topK, topP } = this.shape.peek();
    if (methodOf(wanted) === "sample") this.wanted.value = temperature === 0 ? withMethod(wanted, "greedy") : { ...wanted, temperature, top_k: topK, top_p: topP };
    this.note({ options: this.wanted.peek(), path: [], at: null });
    await this.write([]);
  }

  /** Write from the prompt with the options wanted, then along a path that a link names. */
  private async write(path: readonly number[]): Promise<void> {
    const { props, session } = this;
    const options = this.wanted.peek();
    this.halt();
    batch(() => {
      this.tree = new WritingTree();
      this.writing.value = null;
      this.through.value = null;
      this.pointed.value = null;
      this.absent.value = null;
      this.gaze.forget();
    });
    const own = props.transport.host === "page" || session.model.opens !== null;
    await this.follow({ prompt: own ? null : session.texts[0], options });
    if (path.length && this.writing.peek() && !this.problem.peek()) await this.along(path);
  }

  /** Show the text through a node, and pin a step of it. */
  show(node: number, at: number | null = null): void {
    const { tree } = this;
    this.absent.value = null;
    this.through.value = tree.leaf(node) === tree.leaf(tree.first) ? null : node;
    this.pointed.value = null;
    this.news.value++;
    this.link(at);
  }

  /** Say another token at a step, and write on from there; where that was done before, show it. */
  async branch(step: number, token: number): Promise<void> {
    const parent = step === 0 ? 0 : this.path.peek()[step - 1].parent;
    const there = this.tree.child(parent, token);
    if (there !== undefined) this.show(there, Math.max(step, 1));
    else await this.grow(parent, [token], Math.max(step, 1));
  }

  /** Can it go on behind its last token? It cannot where the model ended it. */
  get open(): boolean {
    const last = this.path.value.at(-1);
    const end = this.tree.ended.find(({ node }) => node === last?.id);
    return this.props.transport.host === "server" && !this.busy.value && (end?.reason === "max_new_tokens" || end?.reason === "interrupted");
  }

  /** Write on behind the last token. */
  async more(): Promise<void> {
    const last = this.path.peek().at(-1);
    if (last) await this.grow(last.id, [], null);
  }

  /** Take a branch away. */
  remove(node: TreeNode): void {
    this.tree.hide(node.id);
    if (this.path.peek().some(({ id }) => id === node.id)) this.show(node.parent === 0 ? this.tree.first : node.parent, null);
    this.news.value++;
    this.props.say(`The branch “${node.text.trim()}” at step ${node.depth} is gone.`);
  }

  /** End the writing; what is there stays. */
  stop(): void {
    const writing = this.writing.peek();
    if (!writing) this.halt();
    else void this.props.transport.stop(writing.id).catch((error) => this.refused(error));
  }

  /** The pass over the text on screen, in the head view, at the place looked at. */
  async openHead(): Promise<void> {
    const { gaze, props } = this;
    const [map, query] = [gaze.map.peek(), gaze.place.peek()];
    const session = await gaze.pass();
    const { shades } = props.state.peek().writing;
    if (!session || !map) return;
    const all = { mix: "mean" as const, heads: Array.from({ length: map.heads }, (_, head) => head) };
    props.adopt(session, { view: "head", map: map.name, query, key: null, ...(shades === "mean" ? all : { mix: "each" }) });
  }

  pin(at: number | null): void {
    this.absent.value = null;
    this.link(at);
    const node = at === null ? null : this.path.peek()[at - 1];
    if (node) this.props.say(`Pinned step ${at}, “${node.text.trim()}”.`);
  }

  /** Ask for the numbers of the place looked at. */
  want(): void {
    const [writing, node] = [this.writing.value, this.before.value];
    this.held.want(writing && node !== null && !this.busy.value ? [{ w: writing.id, node }] : []);
  }

  close(): void {
    this.halt();
    this.held.close();
    this.gaze.close();
  }

  private halt(): void {
    this.ending.abort();
    this.ending = new AbortController();
    this.busy.value = false;
  }

  private async along(path: readonly number[]): Promise<void> {
    const { node, rest } = this.tree.find(path);
    const { at } = this.props.state.peek().writing;
    if (rest.length) await this.grow(node, rest, at);
    else this.show(node, at);
  }

  /** Write on from a node, these tokens first; then pin a step. */
  private async grow(node: number, tokens: number[], at: number | null): Promise<void> {
    const writing = this.writing.peek();
    if (!writing) return;
    if (this.busy.peek()) this.halt();
    await this.follow({ w: writing.id, node, tokens }, at);
  }

  /** Hear a stream to its end. */
  private async follow(order: WritingOrder, at: number | null = null): Promise<void> {
    const { signal } = this.ending;
    const first = !("w" in order);
    const tree = this.tree;
    batch(() => {
      this.busy.value = true;
      this.problem.value = null;
      this.seconds.value = null;
    });
    const heard = (line: WritingLine) => {
      if (signal.aborted) return;
      if ("writing" in line) {
        this.writing.value = line.writing;
        if (first && methodOf(line.writing.options) === "sample") this.shape.value = shapeOf(line.writing.options);
      } else if ("ready" in line) {
        tree.close(line.ready, first);
        this.seconds.value = line.ready.seconds;
      } else {
        tree.add(line.step, first);
        const begun = first || !order.tokens.length ? null : tree.find([...tree.path(order.node).map(({ token }) => token), ...order.tokens]);
        if (begun?.rest.length === 0) this.through.value = begun.node;
      }
      this.soon();
    };
    try {
      await this.props.transport.write(order, heard, signal);
      if (signal.aborted) return;
      this.news.value++;
      if (first) this.settle();
      else this.link(at);
      this.props.say(`Written: ${beginning(tree.text(this.path.peek()).trim())}`);
    } catch (error) {
      if (!signal.aborted) this.refused(error, true);
    } finally {
      if (!signal.aborted) this.busy.value = false;
      this.news.value++;
    }
  }

  /** What holds is what a link names: a seed that was drawn among it. */
  private settle(): void {
    const { options } = this.writing.peek()!;
    const asked = this.wanted.peek();
    if (methodOf(asked) === "sample" && typeof options.seed === "number") this.note({ options: { ...asked, seed: options.seed } });
  }

  /** The tree grows faster than a screen is drawn. */
  private soon(): void {
    this.paint ||= requestAnimationFrame(() => {
      this.paint = 0;
      this.news.value++;
    });
  }

  /** The address names the text on screen: of a branch what leads to it, for the rest is written again as it was. */
  private link(at: number | null): void {
    const path = this.through.peek() === null ? [] : this.path.peek();
    const byHand = path.findLastIndex(({ chosen }) => chosen === "hand");
    this.note({ path: path.slice(0, byHand < 0 ? path.length : byHand + 1).map(({ token }) => token), at });
  }

  /** Change what the address says of the writing. */
  note(change: Partial<WritingState>): void {
    this.props.set({ writing: { ...this.props.state.peek().writing, ...change } });
  }

  refused(error: unknown, asked = false): void {
    if (error instanceof Refusal && error.kind === "absent") this.absent.value = error.message;
    else if (error instanceof Refusal && (error.kind === "gone" || (asked && error.kind === "request"))) this.problem.value = error.message;
    else this.props.refuse(error);
  }
}

/** As much of a text as a line holds. */
const beginning = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

/** Where sliders stand when a text is written with these options. */
export function shapeOf(options: Options): Shape {
  return { temperature: valueOf(FIELDS.temperature, options), topK: valueOf(FIELDS.topK, options), topP: valueOf(FIELDS.topP, options) };
}
