/** State of the generation view: the token tree, the text on screen, the selected step, and its requests. */

import { visible } from "../../core/format";
import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { FIELDS, methodOf, type Options, valueOf, withMethod, type GenerationState } from "../../core/generation-options";
import { type Distribution, UserError, type Session, type TreeNode, type ViewProps, type GenerationTrace, type TraceLine, type GenerationRequest } from "../../core/types";
import { RequestPool } from "../matrix/request-pool";
import { AttentionRowStore } from "./attention-row-store";
import { type Sampling, type Sorted, sorted } from "./sampling";
import { TokenTree } from "./token-tree";
import * as views from "../../core/views";

/** A next-token distribution, with its tokens sorted. */
export interface SortedDistribution extends Distribution {
  sorted: Sorted;
}

export class GenerationStore {
  /** The token tree; a new one for each start. */
  tree = new TokenTree();
  /** The generation trace; null until the first line of the stream. */
  readonly trace: Signal<GenerationTrace | null> = signal(null);
  readonly busy = signal(false);
  /** Why generation failed or stopped; a sentence. */
  readonly problem: Signal<string | null> = signal(null);
  /** Why a standalone page cannot do what was requested, with the command that can. */
  readonly unavailable: Signal<string | null> = signal(null);
  /** Duration of the last generation, in seconds. */
  readonly seconds: Signal<number | null> = signal(null);
  /** Options set in the controls; used when the button is pressed. */
  readonly options: Signal<Options>;
  /** Sampling options set by the sliders. */
  readonly sampling: Signal<Sampling>;
  /** The step under the pointer or the focus, counted from 1. */
  readonly hoveredStep: Signal<number | null> = signal(null);
  /** The text on screen, from the first token to its last. */
  readonly path: ReadonlySignal<TreeNode[]>;
  /** The selected step: hovered, pinned, or the first, which is what the model says after the text of the reader; 0 where nothing has been generated. */
  readonly step: ReadonlySignal<number>;
  /** The next-token distribution at the selected step. */
  readonly distribution: ReadonlySignal<SortedDistribution | null>;
  readonly attention: AttentionRowStore;
  /** Counts changes of the tree: a computed signal that reads it is recomputed. */
  readonly version = signal(0);
  /** A node on the branch on screen; null = the first text of the decoding method. */
  private readonly branchNode: Signal<number | null> = signal(null);
  private readonly distributions: RequestPool<{ w: string; node: number }, SortedDistribution>;
  private abortController = new AbortController();
  private readonly unfollow: () => void;
  private animationFrame = 0;

  /** `fromLink`: the path and the step in the URL belong to this text, not to an earlier one. */
  constructor(readonly props: ViewProps, readonly session: Session, private readonly fromLink: boolean) {
    const { state, transport } = props;
    const options = state.peek().generation.options;
    this.options = signal({ ...options });
    this.sampling = signal(samplingOf(options));
    this.path = computed(() => {
      void this.version.value;
      return this.tree.path(this.tree.leaf(this.branchNode.value ?? this.tree.first));
    });
    this.step = computed(() => Math.min(this.hoveredStep.value ?? state.value.generation.at ?? 1, this.path.value.length));
    // A step of a lesson has options of its own: the controls follow where the address changes.
    let before = JSON.stringify(options);
    this.unfollow = effect(() => {
      const { options } = state.value.generation;
      const now = JSON.stringify(options);
      const changed = now !== before && now !== JSON.stringify(this.options.peek());
      before = now;
      if (!changed) return;
      batch(() => {
        this.options.value = { ...options };
        this.sampling.value = samplingOf(options);
      });
    });
    this.distributions = new RequestPool({
      key: ({ w, node }) => `${w}/${node}`,
      ask: async ({ w, node }, abort) => {
        const answer = await views.distribution(transport, w, node, abort);
        return { ...answer, sorted: sorted(answer) };
      },
      cached: 24,
      parallel: 2,
      arrived: () => this.version.value++,
      handleError: (error) => this.handleError(error),
    });
    this.distribution = computed(() => {
      void this.version.value;
      const [trace, node] = [this.trace.value, this.parentNode.value];
      return trace && node !== null ? (this.distributions.get({ w: trace.id, node }) ?? null) : null;
    });
    this.attention = new AttentionRowStore(this);
  }

  /** The parent of the selected node; null where nothing has been generated. */
  readonly parentNode: ReadonlySignal<number | null> = computed(() => {
    const step = this.step.value;
    if (step === 0) return this.tree.choices.has(0) ? 0 : null;
    return this.path.value[step - 1].parent;
  });

  /** The selected node. */
  get selectedNode(): TreeNode | null {
    return this.path.value[this.step.value - 1] ?? null;
  }

  /** Generate as the URL says, when the view first comes on screen. */
  startOnce(): void {
    if (this.trace.peek() || this.busy.peek() || this.problem.peek() || this.unavailable.peek()) return;
    if (!this.fromLink) this.updateState({ path: [], at: null });
    void this.write(this.props.state.peek().generation.path);
  }

  /** Generate from the prompt with the options of the controls and the sliders. */
  async restart(): Promise<void> {
    const options = this.options.peek();
    const { temperature, topK, topP } = this.sampling.peek();
    if (methodOf(options) === "sample") this.options.value = temperature === 0 ? withMethod(options, "greedy") : { ...options, temperature, top_k: topK, top_p: topP };
    this.updateState({ options: this.options.peek(), path: [], at: null });
    await this.write([]);
  }

  /** Generate from the prompt, then follow the path that a link names. */
  private async write(path: readonly number[]): Promise<void> {
    const { props, session } = this;
    const options = this.options.peek();
    this.abort();
    batch(() => {
      this.tree = new TokenTree();
      this.trace.value = null;
      this.branchNode.value = null;
      this.hoveredStep.value = null;
      this.unavailable.value = null;
      this.attention.reset();
    });
    const inPage = props.transport.host === "page";
    const told = inPage && props.state.peek().tour !== null; // a step of a lesson moves the sliders over the text that the page holds
    await this.consumeStream({ prompt: inPage || session.model.modality !== null ? null : session.texts[0], options: told ? {} : options });
    if (path.length && this.trace.peek() && !this.problem.peek()) await this.followPath(path);
  }

  /** Show the text through a node, and pin a step of it. */
  show(node: number, at: number | null = null): void {
    const { tree } = this;
    this.unavailable.value = null;
    this.branchNode.value = tree.leaf(node) === tree.leaf(tree.first) ? null : node;
    this.hoveredStep.value = null;
    this.version.value++;
    this.link(at);
  }

  /** Branch: choose another token at a step and generate from there; an existing branch is shown. */
  async branch(step: number, token: number): Promise<void> {
    const parent = step === 0 ? 0 : this.path.peek()[step - 1].parent;
    const known = this.tree.child(parent, token);
    if (known !== undefined) this.show(known, Math.max(step, 1));
    else await this.grow(parent, [token], Math.max(step, 1));
  }

  /** Can generation continue after the last token? Not where the model ended the text. */
  get open(): boolean {
    const last = this.path.value.at(-1);
    const end = this.tree.ended.find(({ node }) => node === last?.id);
    return this.props.transport.host === "server" && !this.busy.value && (end?.reason === "max_new_tokens" || end?.reason === "interrupted");
  }

  /** Continue generation after the last token. */
  async extend(): Promise<void> {
    const last = this.path.peek().at(-1);
    if (last) await this.grow(last.id, [], null);
  }

  /** Remove a branch. */
  remove(node: TreeNode): void {
    this.tree.hide(node.id);
    if (this.path.peek().some(({ id }) => id === node.id)) this.show(node.parent === 0 ? this.tree.first : node.parent, null);
    this.version.value++;
    this.props.say(`The branch “${node.text.trim()}” at step ${node.depth} is gone.`);
  }

  /** Stop generation; the text so far stays. */
  stop(): void {
    const trace = this.trace.peek();
    if (!trace) this.abort();
    else void this.props.transport.stop(trace.id).catch((error) => this.handleError(error));
  }

  /** Open the session over the text on screen in the head view, at the selected step. */
  async openHead(): Promise<void> {
    const { attention, props } = this;
    const [map, query] = [attention.map.peek(), attention.row.peek()];
    const session = await attention.pass();
    const { shades } = props.state.peek().generation;
    if (!session || !map) return;
    const all = { mix: "mean" as const, heads: Array.from({ length: map.heads }, (_, head) => head) };
    props.adopt(session, { view: "head", map: map.name, query, key: null, ...(shades === "mean" ? all : { mix: "each" }) });
  }

  pin(at: number | null): void {
    this.unavailable.value = null;
    this.link(at);
    const node = at === null ? null : this.path.peek()[at - 1];
    if (node) this.props.say(`Pinned step ${at}, “${visible(node.text.trim() || node.text || node.piece)}”.`);
  }

  /** Load the distribution at the selected step. */
  loadDistribution(): void {
    const [trace, node] = [this.trace.value, this.parentNode.value];
    this.distributions.want(trace && node !== null && !this.busy.value ? [{ w: trace.id, node }] : []);
  }

  close(): void {
    this.unfollow();
    this.abort();
    this.distributions.close();
    this.attention.close();
  }

  private abort(): void {
    this.abortController.abort();
    this.abortController = new AbortController();
    this.busy.value = false;
  }

  private async followPath(path: readonly number[]): Promise<void> {
    const { node, rest } = this.tree.find(path);
    const { at } = this.props.state.peek().generation;
    if (rest.length) await this.grow(node, rest, at);
    else this.show(node, at);
  }

  /** Generate from a node, with forced tokens first; then pin a step. */
  private async grow(node: number, tokens: number[], at: number | null): Promise<void> {
    const trace = this.trace.peek();
    if (!trace) return;
    if (this.busy.peek()) this.abort();
    await this.consumeStream({ w: trace.id, node, tokens }, at);
  }

  /** Consume the stream of a generation. */
  private async consumeStream(request: GenerationRequest, at: number | null = null): Promise<void> {
    const { signal } = this.abortController;
    const first = !("w" in request);
    const tree = this.tree;
    batch(() => {
      this.busy.value = true;
      this.problem.value = null;
      this.seconds.value = null;
    });
    const onLine = (line: TraceLine) => {
      if (signal.aborted) return;
      if ("trace" in line) {
        this.trace.value = line.trace;
        if (first && methodOf(line.trace.options) === "sample") this.sampling.value = samplingOf(line.trace.options);
      } else if ("ready" in line) {
        tree.close(line.ready, first);
        this.seconds.value = line.ready.seconds;
      } else {
        tree.add(line.step, first);
        const branchStart = first || !request.tokens.length ? null : tree.find([...tree.path(request.node).map(({ token }) => token), ...request.tokens]);
        if (branchStart?.rest.length === 0) this.branchNode.value = branchStart.node;
      }
      this.scheduleUpdate();
    };
    try {
      await this.props.transport.write(request, onLine, signal);
      if (signal.aborted) return;
      this.version.value++;
      if (first) this.storeSeed();
      else this.link(at);
      if (this.props.state.peek().view === "generate") this.props.say(`Written: ${beginning(tree.text(this.path.peek()).trim())}`);
    } catch (error) {
      if (!signal.aborted) this.handleError(error, true);
    } finally {
      if (!signal.aborted) this.busy.value = false;
      this.version.value++;
    }
  }

  /** Put the seed that the server chose into the URL, so that a link reproduces the text. */
  private storeSeed(): void {
    const { options } = this.trace.peek()!;
    const requested = this.options.peek();
    if (methodOf(requested) === "sample" && typeof options.seed === "number") this.updateState({ options: { ...requested, seed: options.seed } });
  }

  /** Update the signals once a frame: tokens may arrive faster than the screen is drawn. */
  private scheduleUpdate(): void {
    this.animationFrame ||= requestAnimationFrame(() => {
      this.animationFrame = 0;
      this.version.value++;
    });
  }

  /** Put the branch on screen into the URL: the path up to the last token chosen by hand; the rest is generated again. */
  private link(at: number | null): void {
    const path = this.branchNode.peek() === null ? [] : this.path.peek();
    const byHand = path.findLastIndex(({ chosen }) => chosen === "hand");
    this.updateState({ path: path.slice(0, byHand < 0 ? path.length : byHand + 1).map(({ token }) => token), at });
  }

  /** Change the generation part of the URL state. */
  updateState(change: Partial<GenerationState>): void {
    this.props.set({ generation: { ...this.props.state.peek().generation, ...change } });
  }

  handleError(error: unknown, requested = false): void {
    if (error instanceof UserError && (error.kind === "gone" || (requested && error.kind === "request"))) this.problem.value = error.message;
    else if (error instanceof UserError && error.kind === "absent") this.unavailable.value = error.message;
    else this.props.refuse(error);
  }
}

/** The beginning of a text, one line long. */
const beginning = (text: string): string => (text.length > 60 ? `${text.slice(0, 60)}…` : text);

/** Sampling options as slider values. */
export function samplingOf(options: Options): Sampling {
  return { temperature: valueOf(FIELDS.temperature, options), topK: valueOf(FIELDS.topK, options), topP: valueOf(FIELDS.topP, options) };
}
