/**
 * Cells of attention heads, above their thumbnails: hover or focus previews one, click or Enter opens it, with Shift adds it.
 *
 *     <div {...useHeadCells(shown)}>  listens, and marks the cells on screen
 *       <HeadCell …/>                 draws one, once: there may be thousands, so a cell has no listener and no signal
 */

import { type ReadonlySignal, useSignalEffect } from "@preact/signals";
import { Component, type RefObject } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Overview, State } from "../core/types";
import { headName } from "./head-stats";
import { moveFocus } from "./roving-tabindex";

/** What cells do. */
export interface HeadActions {
  point?(layer: number, head: number): void;
  open(layer: number, head: number): void;
  add(layer: number, head: number): void;
}

export interface HeadCells {
  state: ReadonlySignal<State>;
  /** The head pointed at: its cell has the place in the tab order. */
  focus: ReadonlySignal<[layer: number, head: number]>;
  actions: HeadActions;
}

interface Listeners {
  ref: RefObject<HTMLDivElement | null>;
  onPointerOver(event: Event): void;
  onFocusIn(event: Event): void;
  onClick(event: MouseEvent): void;
  onKeyDown(event: KeyboardEvent): void;
}

/** What the element around cells needs. */
export function useHeadCells({ state, focus, actions }: HeadCells): Listeners {
  const ref = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => mark(ref.current!, state.peek(), focus.peek())); // cells that are new
  useSignalEffect(() => mark(ref.current, state.value, focus.value));
  const point = ({ target }: Event) => {
    const at = headOf(target);
    if (at) actions.point?.(...at);
  };
  const choose = (event: MouseEvent | KeyboardEvent) => {
    const at = headOf(event.target);
    if (at) (event.shiftKey ? actions.add : actions.open)(...at);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== "Enter" && event.key !== " ") return moveFocus(event);
    event.preventDefault();
    choose(event);
  };
  return { ref, onPointerOver: point, onFocusIn: point, onClick: choose, onKeyDown };
}

/** The head of the cell that something happened in. */
function headOf(target: EventTarget | null): [layer: number, head: number] | null {
  const cell = (target as Element | null)?.closest<HTMLElement>("[data-cell]");
  if (!cell) return null;
  const [layer, head] = cell.dataset.cell!.split(".").map(Number);
  return [layer, head];
}

/** Mark the cells of the heads on screen, and the one pointed at. */
function mark(host: HTMLElement | null, { layers: [first, last], heads }: State, [layer, head]: readonly [number, number]): void {
  const cells = [...(host?.querySelectorAll<HTMLElement>("[data-cell]") ?? [])];
  const pointed = `${layer}.${head}`;
  const here = cells.find((cell) => cell.dataset.cell === pointed);
  const stop = here ?? cells[0]; // of the cells one can be reached by the tab key
  const chosen = new Set<string>();
  for (let at = first; at <= last; at++) for (const each of heads) chosen.add(`${at}.${each}`);
  for (const cell of cells) {
    const selected = String(chosen.has(cell.dataset.cell!));
    if (cell.getAttribute("aria-selected") !== selected) cell.setAttribute("aria-selected", selected);
    if ((cell.tabIndex === 0) !== (cell === stop)) cell.tabIndex = cell === stop ? 0 : -1;
    if (cell.hasAttribute("data-here") !== (cell === here)) cell.toggleAttribute("data-here", cell === here);
  }
}

interface Props {
  layer: number;
  head: number;
  overview: Overview | undefined;
  role: "gridcell" | "option";
}

export class HeadCell extends Component<Props> {
  override shouldComponentUpdate({ overview, layer, head }: Props): boolean {
    return overview !== this.props.overview || layer !== this.props.layer || head !== this.props.head;
  }

  override render({ layer, head, overview, role }: Props) {
    if (overview && head >= overview.heads) return <div role={role} />; // of a layer with fewer heads than others
    const name = headName(layer, head);
    return (
      <div
        class="cell" role={role} data-cell={`${layer}.${head}`} data-empty={overview ? undefined : ""} tabIndex={-1} aria-selected="false" title={name}
        aria-label={`${name}: ${overview?.summaries[head] ?? "on its way"}`}
      >
        <i aria-hidden="true" />
      </div>
    );
  }
}

/** The state with a head added to those on screen, or taken away; the range of layers grows to hold it. */
export function withHead({ layers: [first, last], heads }: State, layer: number, head: number): Pick<State, "layers" | "heads"> {
  const rest = heads.filter((each) => each !== head);
  const inside = layer >= first && layer <= last;
  return {
    layers: [Math.min(first, layer), Math.max(last, layer)],
    heads: inside && rest.length < heads.length && rest.length > 0 ? rest : [head, ...rest],
  };
}
