/** The tree of what was written: beams side by side as they live and end, branches where they leave, the text on screen as a thick line. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { number, percent, visible } from "../../core/format";
import type { Place, TreeNode } from "../../core/types";
import { rove } from "../../ui/roving";
import { entries } from "./entries";
import { lanes } from "./lanes";
import type { Scribe } from "./scribe";
import { parts } from "./spelling";
import { chanceColour } from "./surprise";

/** Sizes, in pixels: of a lane, of a node, between steps, of a letter. */
export const [LANE, HEIGHT, GAP, LETTER, PAD] = [34, 24, 22, 7.3, 14];
const [LEAST, MOST] = [26, 128];

export interface Drawn {
  node: TreeNode;
  text: string;
  x: number;
  y: number;
  width: number;
  /** It has ended, as the search holds it. */
  end: Place | undefined;
  /** Its number among the texts, from 1. */
  rank: number;
  /** Nothing carries it on, and it did not end. */
  dead: boolean;
}

export interface Drawing {
  drawn: Map<number, Drawn>;
  /** Where each step begins. */
  columns: number[];
  width: number;
  height: number;
}

/** Where everything stands. */
export function drawing(scribe: Scribe): Drawing {
  const { tree } = scribe;
  const levels = tree.levels();
  const lane = lanes(levels);
  const ends = new Map(tree.ended.map((place) => [place.node, place]));
  const ranks = new Map(entries(tree).map(({ node }, at) => [node, at + 1]));
  const live = new Set(tree.live.map(({ node }) => node));
  const drawn = new Map<number, Drawn>();
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
      drawn.set(node.id, { node, text: label(node), x, y: row * LANE + LANE / 2 + 18, width: widths[at], end, rank: ranks.get(node.id) ?? 0, dead });
    }
    x += Math.max(...widths) + GAP;
  }
  return { drawn, columns, width: x, height: (deepest + 1) * LANE + 22 };
}

const label = (node: TreeNode): string => parts(node.text, node.piece, node.special).body;

/** A line from a node to the one it carries on. */
export function edge(from: { x: number; y: number; width: number } | undefined, to: Drawn): string {
  const [x0, y0] = from ? [from.x + from.width, from.y] : [4, LANE / 2 + 18];
  const bend = Math.min((to.x - x0) / 2, GAP);
  return y0 === to.y ? `M${x0} ${y0}H${to.x}` : `M${x0} ${y0}H${to.x - 2 * bend}C${to.x - bend} ${y0} ${to.x - bend} ${to.y} ${to.x} ${to.y}`;
}

export function TreePicture({ scribe }: { scribe: Scribe }) {
  const news = scribe.news.value;
  const picture = useMemo(() => drawing(scribe), [scribe, scribe.tree, news]);
  const scroller = useRef<HTMLDivElement>(null);
  const path = scribe.path.value;
  const on = new Set(path.map(({ id }) => id));
  const looked = scribe.looked;
  const { drawn, columns, width, height } = picture;
  const dark = scribe.props.dark.value;

  // A tree that grows is followed; so is the step that is looked at in the text.
  useEffect(() => {
    const element = scroller.current;
    if (element && scribe.busy.peek() && scribe.props.state.peek().writing.at === null) element.scrollLeft = element.scrollWidth;
  }, [picture]);
  useEffect(() => {
    const element = scroller.current;
    const at = looked && drawn.get(looked.id);
    if (!element || !at || element.contains(document.activeElement) || element.matches(":hover")) return;
    if (at.x < element.scrollLeft || at.x + at.width > element.scrollLeft + element.clientWidth) element.scrollLeft = at.x - element.clientWidth / 2;
  }, [looked?.id, scribe.busy.value]);

  const edges = [...drawn.values()].sort((a, b) => Number(on.has(a.node.id)) - Number(on.has(b.node.id)));
  const focusable = looked?.id ?? path.at(-1)?.id;
  return (
    <div class="gen-tree" ref={scroller} onKeyDown={rove}>
      <div style={{ width: `${width}px`, height: `${height}px` }}>
        <svg width={width} height={height} aria-hidden="true">
          {columns.map((x, at) => ((at + 1) % 5 === 0 || at === 0) && <text key={at} x={x + 2} y={11}>{at + 1}</text>)}
          <circle cx={4} cy={LANE / 2 + 18} r={4} />
          {edges.map((to) => <path key={to.node.id} d={edge(drawn.get(to.node.parent), to)} class={on.has(to.node.id) ? "on" : to.dead ? "dead" : undefined} />)}
        </svg>
        <div role="listbox" aria-label="Tree of what was written, step by step" aria-orientation="horizontal">
          {[...drawn.values()].map((one) => (
            <Chip key={one.node.id} one={one} scribe={scribe} on={on.has(one.node.id)} looked={one.node.id === looked?.id} focusable={one.node.id === focusable} dark={dark} />
          ))}
        </div>
      </div>
    </div>
  );
}

interface ChipProps {
  one: Drawn;
  scribe: Scribe;
  on: boolean;
  looked: boolean;
  focusable: boolean;
  dark: boolean;
}

function Chip({ one, scribe, on, looked, focusable, dark }: ChipProps) {
  const { node, end, rank, dead } = one;
  const score = end?.score ?? node.total;
  const says = [
    `step ${node.depth}, ${visible(node.text || node.piece)}: ${percent(Math.exp(node.logprob))}`,
    `score ${number(score)}`,
    end && `text ${rank} ends here${end.returned ? ", given back" : ""}`,
    dead && !scribe.busy.value && "not carried on",
    node.chosen === "hand" && "chosen by hand",
  ].filter(Boolean).join(", ");
  const point = () => (on ? (scribe.pointed.value = node.depth) : undefined);
  const leave = () => (scribe.pointed.value = null);
  const open = () => {
    scribe.show(node.id, node.depth);
    scribe.props.say(`${says}. The text: ${scribe.tree.text(scribe.path.peek()).trim()}`);
  };
  return (
    <span
      role="option" data-cell tabIndex={focusable ? 0 : -1} aria-selected={on} aria-label={says} title={says}
      class={["gen-chip", "token", on && "on", looked && "gen-looked", dead && "dead", end && "end", node.chosen === "hand" && "gen-hand"].filter(Boolean).join(" ")}
      style={{ left: `${one.x}px`, top: `${one.y - HEIGHT / 2}px`, width: `${one.width}px`, height: `${HEIGHT}px`, "--shade": chanceColour(node.logprob, dark) }}
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
