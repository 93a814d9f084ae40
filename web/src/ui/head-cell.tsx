/** Grid cell of one attention head, above its thumbnail: hover or focus previews it, click or Enter opens it, with Shift adds it. */

import { type ReadonlySignal, useComputed } from "@preact/signals";
import type { Overview, State } from "../core/types";
import { headName } from "./head-stats";

/** What cells do; one object for as long as they are on screen, so that a cell is drawn again only when it changes itself. */
export interface HeadActions {
  point?(layer: number, head: number): void;
  open(layer: number, head: number): void;
  add(layer: number, head: number): void;
}

interface Props {
  layer: number;
  head: number;
  overview: Overview | undefined;
  role: "gridcell" | "option";
  state: ReadonlySignal<State>;
  /** The head pointed at: its cell has the place in the tab order. */
  focus: ReadonlySignal<[layer: number, head: number]>;
  actions: HeadActions;
}

export function HeadCell({ layer, head, overview, role, state, focus, actions }: Props) {
  // Thousands of cells: what changes with the pointer goes to the element itself, past the component.
  const tab = useComputed(() => (focus.value[0] === layer && focus.value[1] === head ? 0 : -1));
  const here = useComputed(() => (tab.value === 0 ? "" : undefined));
  const chosen = useComputed(() => {
    const { layers, heads } = state.value;
    return layer >= layers[0] && layer <= layers[1] && heads.includes(head) ? "true" : "false";
  });
  if (overview && head >= overview.heads) return <div role={role} />; // of a layer with fewer heads than others
  const point = () => actions.point?.(layer, head);
  const choose = (event: MouseEvent | KeyboardEvent) => (event.shiftKey ? actions.add : actions.open)(layer, head);
  return (
    <div
      class="cell" role={role} data-cell={`${layer}.${head}`} data-empty={overview ? undefined : ""} tabIndex={tab} data-here={here} aria-selected={chosen} title={headName(layer, head)}
      aria-label={`${headName(layer, head)}: ${overview?.summaries[head] ?? "on its way"}`}
      onPointerEnter={point} onFocus={point} onClick={choose}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose(event);
      }}
    >
      <i aria-hidden="true" />
    </div>
  );
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
