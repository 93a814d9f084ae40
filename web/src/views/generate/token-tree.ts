/** Token tree of a generation: every token a node, node 0 the prompt; choosing another token begins a branch. */

import type { Choice, Leaf, TreeNode, TraceResult, TraceStep } from "../../core/types";

export class TokenTree {
  readonly nodes = new Map<number, TreeNode>();
  readonly choices = new Map<number, Choice>();
  live: Leaf[] = [];
  /** All texts that have come to an end, the best first. */
  ended: Leaf[] = [];
  /** Where the first writing ends, or has come to. */
  first = 0;
  private readonly below = new Map<number, number[]>();
  private readonly hidden = new Set<number>();
  /** What the writing under way has told to have ended. */
  private readonly own = new Set<number>();

  /** A step; `first`: of the first writing, not of a branch. */
  add({ nodes, choices, live, ended }: TraceStep, first: boolean): void {
    for (const node of nodes) {
      this.nodes.set(node.id, node);
      this.below.set(node.parent, [...(this.below.get(node.parent) ?? []), node.id]);
    }
    for (const choice of choices) this.choices.set(choice.at, choice);
    this.live = live;
    this.finish(ended);
    const best = live[0] ?? ended[0];
    if (first && best) this.first = best.node;
  }

  close({ answers, ended }: TraceResult, first: boolean): void {
    this.live = [];
    this.finish(ended, answers.length > 0);
    if (first && answers[0]) this.first = answers[0].node;
  }

  /** A branch tells only of its own; what ended before stays. */
  private finish(ended: Leaf[], whole = false): void {
    const orderIds = new Set(ended.map(({ node }) => node));
    // Of beams one may leave the pool again: what this search told before and tells no more is gone.
    const before = this.ended.filter(({ node }) => !orderIds.has(node) && !this.own.has(node));
    this.ended = [...ended, ...before].filter(({ node }) => this.children(node).length === 0); // where somebody wrote on is no end
    for (const { node } of ended) this.own.add(node);
    if (whole) this.own.clear();
  }

  children(id: number): number[] {
    return (this.below.get(id) ?? []).filter((child) => !this.hidden.has(child));
  }

  /** From the first token to this one. */
  path(id: number): TreeNode[] {
    const match: TreeNode[] = [];
    for (let node = this.nodes.get(id); node; node = this.nodes.get(node.parent)) match.push(node);
    return match.reverse();
  }

  isOn(id: number, leaf: number): boolean {
    for (let at: number | undefined = leaf; at !== undefined; at = this.nodes.get(at)?.parent) if (at === id) return true;
    return false;
  }

  /** Where the text through this token ends: as it is carried on now, as it ended best, else along its first children. */
  leaf(id: number): number {
    const known = [{ node: this.first }, ...this.live, ...this.ended].find(({ node }) => this.isOn(id, node) && this.isShown(node) && this.children(node).length === 0);
    if (known) return known.node;
    let at = id;
    for (let next = this.children(at)[0]; next !== undefined; next = this.children(at)[0]) at = next;
    return at;
  }

  /** How far these tokens lead from the prompt, and those that lead beyond. */
  find(tokens: readonly number[]): { node: number; rest: number[] } {
    let node = 0;
    for (const [at, token] of tokens.entries()) {
      const next = this.child(node, token);
      if (next === undefined) return { node, rest: tokens.slice(at) };
      node = next;
    }
    return { node, rest: [] };
  }

  /** The child that says a token; one that was put away comes back. */
  child(id: number, token: number): number | undefined {
    const match = (this.below.get(id) ?? []).find((child) => this.nodes.get(child)!.token === token);
    if (match !== undefined) this.hidden.delete(match);
    return match;
  }

  /** Put a branch away. */
  hide(id: number): void {
    this.hidden.add(id);
  }

  isShown(leaf: number): boolean {
    return !this.path(leaf).some(({ id }) => this.hidden.has(id));
  }

  /** Every node on screen, by depth from 1; those that came first come first. */
  levels(): TreeNode[][] {
    const levels: TreeNode[][] = [];
    for (let level = this.children(0); level.length; level = level.flatMap((id) => this.children(id))) levels.push(level.map((id) => this.nodes.get(id)!));
    return levels;
  }

  /** The first nodes of branches that a person took, in the order of the text: where another token stood, or was still to come. */
  branches(): TreeNode[] {
    const byHand = [...this.nodes.values()].filter(({ id, parent, chosen }) => {
      const before = this.nodes.get(parent);
      return chosen === "hand" && !(before?.chosen === "hand" && this.below.get(parent)![0] === id);
    });
    return byHand.filter(({ id }) => this.isShown(id)).sort((a, b) => a.depth - b.depth || a.id - b.id);
  }

  text(path: readonly TreeNode[]): string {
    return path.map(({ text }) => text).join("");
  }
}
