/** Figure of the token tree: beams side by side, branches where they leave, the text on screen as a thick line. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { number, percent, visible } from "../../core/format";
import type { Leaf, TreeNode } from "../../core/types";
import { moveFocus } from "../../ui/roving-tabindex";
import { entries } from "./entries";
import { lanes } from "./lanes";
import type { GenerationStore } from "./generation-store";
import { parts } from "./token-text";
import { logprobColour } from "./token-colours";

/** Sizes, in pixels: of a lane, of a node, between steps, of a letter. */
export const [LANE, HEIGHT, GAP, LETTER, PAD] = [34, 24, 22, 7.3, 14];
const [LEAST, MOST] = [26, 128];

export interface PlacedNode {
  node: TreeNode;
  text: string;
  x: number;
  y: number;
  width: number;
  /** It has ended, as the search holds it. */
  end: Leaf | undefined;
  /** Its number among the texts, from 1. */
  rank: number;
  /** Nothing carries it on, and it did not end. */
  dead: boolean;
}

export interface Drawing {
  placed: Map<number, PlacedNode>;
  /** Where each step begins. */
  columns: number[];
  width: number;
  height: number;
}

/** Where everything is. */
export function drawing(store: GenerationStore): Drawing {
  const { tree } = store;
  const levels = tree.levels();
  const lane = lanes(levels);
  const ends = new Map(tree.ended.map((pathText) => [pathText.node, pathText]));
  const ranks = new Map(entries(tree).map(({ node }, at) => [node, at + 1]));
  const live = new Set(tree.live.map(({ node }) => node));
  const placed = new Map<number, PlacedNode>();
  const columns: number[] = [];
  let [x, deepest] = [GAP, 0];
  for (const level of levels) {
    columns.push(x);
    const widths = level.map((node) => Math.min(Math.max(label(node).length * LETTER + PAD, LEAST), MOST));
    for (const [at, node] of level.entries()) {
      const end = ends.get(node.id);
      const row = lane.get(node.id)!;
      deepest = Math.max(deepest, row);
      const dead = !end && !live.has(node.id) && tree.children(node.id).length === 0;
      placed.set(node.id, { node, text: label(node), x, y: row * LANE + LANE / 2 + 18, width: widths[at], end, rank: ranks.get(node.id) ?? 0, dead });
    }
    x += Math.max(...widths) + GAP;
  }
  return { placed, columns, width: x, height: (deepest + 1) * LANE + 22 };
}

/** Of each step the band of the picture that it is in, and where that band begins: as many steps side by side as there is room for. */
export function bandsOf(columns: number[], width: number, room: number): { band: number; start: number }[] {
  let [band, start] = [0, 0];
  return columns.map((x, step) => {
    if (step && (columns[step + 1] ?? width) - start > room) [band, start] = [band + 1, x - GAP];
    return { band, start };
  });
}

const label = (node: TreeNode): string => parts(node.text, node.piece, node.special).body;

/** A line from a node to the one it carries on. */
export function edge(from: { x: number; y: number; width: number } | undefined, to: PlacedNode): string {
  const [x0, y0] = from ? [from.x + from.width, from.y] : [4, LANE / 2 + 18];
  const bend = Math.min((to.x - x0) / 2, GAP);
  return y0 === to.y ? `M${x0} ${y0}H${to.x}` : `M${x0} ${y0}H${to.x - 2 * bend}C${to.x - bend} ${y0} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}

export function TreeFigure({ store }: { store: GenerationStore }) {
  const version = store.version.value;
  const picture = useMemo(() => drawing(store), [store, store.tree, version]);
  const scroller = useRef<HTMLDivElement>(null);
  const path = store.path.value;
  const on = new Set(path.map(({ id }) => id));
  const selected = store.selectedNode;
  const { placed, columns, width, height } = picture;
  const dark = store.props.dark.value;

  // A tree that grows is followed; so is the step that is looked at in the text.
  useEffect(() => {
    const element = scroller.current;
    if (element && store.busy.peek() && store.props.state.peek().generation.at === null) element.scrollLeft = element.scrollWidth;
  }, [picture]);
  useEffect(() => {
    const element = scroller.current;
    const at = selected && placed.get(selected.id);
    if (!element || !at || element.contains(document.activeElement) || element.matches(":hover")) return;
    if (at.x < element.scrollLeft || at.x + at.width > element.scrollLeft + element.clientWidth) element.scrollLeft = at.x - element.clientWidth / 2;
  }, [selected?.id, store.busy.value]);

  const edges = [...placed.values()].sort((a, b) => Number(on.has(a.node.id)) - Number(on.has(b.node.id)));
  const focusable = selected?.id ?? path.at(-1)?.id;
  return (
    <div class="gen-tree" ref={scroller} onKeyDown={moveFocus}>
      <div style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {columns.map((x, at) => ((at + 1) % 5 === 0 || at === 0) && <text key={at} x={x + 2} y={11}>{at + 1}</text>)}
          <circle cx={4} cy={LANE / 2 + 18} r={4} />
          {edges.map((to) => <path key={to.node.id} d={edge(placed.get(to.node.parent), to)} class={on.has(to.node.id) ? "on" : to.dead ? "dead" : undefined} />)}
        </svg>
        <div role="listbox" aria-label="Tree of what was written, step by step" aria-orientation="horizontal">
          {[...placed.values()].map((one) => (
            <Chip key={one.node.id} one={one} store={store} on={on.has(one.node.id)} selected={one.node.id === selected?.id} focusable={one.node.id === focusable} dark={dark} />
          ))}
        </div>
      </div>
    </div>
  );
}

interface ChipProps {
  one: PlacedNode;
  store: GenerationStore;
  on: boolean;
  selected: boolean;
  focusable: boolean;
  dark: boolean;
}

function Chip({ one, store, on, selected, focusable, dark }: ChipProps) {
  const { node, end, rank, dead } = one;
  const score = end?.score ?? node.total;
  const says = [
    `step ${node.depth}, ${visible(node.text || node.piece)}: ${percent(Math.exp(node.logprob))}`,
    `score ${number(score)}`,
    end && `text ${rank} ends here${end.returned ? ", given back" : ""}`,
    dead && !store.busy.value && "not carried on",
    node.chosen === "hand" && "chosen by hand",
  ].filter(Boolean).join(", ");
  const point = () => (on ? (store.hoveredStep.value = node.depth) : undefined);
  const leave = () => (store.hoveredStep.value = null);
  const open = () => {
    store.show(node.id, node.depth);
    store.props.say(`${says}. The text: ${store.tree.text(store.path.peek()).trim()}`);
  };
  return (
    <span
      role="option" data-cell tabIndex={focusable ? 0 : -1} aria-selected={on} aria-label={says} title={says}
      class={["gen-chip", "token", on && "on", selected && "gen-looked", dead && "dead", end && "end", node.chosen === "hand" && "gen-hand"].filter(Boolean).join(" ")}
      style={{ left: `${one.x}px`, top: `${one.y - HEIGHT / 2}px`, width: `${one.width}px`, height: `${HEIGHT}px`, "--shade": logprobColour(node.logprob, dark) }}
      onPointerEnter={point} onPointerLeave={leave} onFocus={point} onBlur={leave} onClick={open}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        open();
      }}
    >
      <span>{one.text}</span>
      {end && <b data-returned={end.returned ? "" : undefined}>{rank}</b>}
    </span>
  );
}
