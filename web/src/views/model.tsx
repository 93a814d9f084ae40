/** Model view: every head of an attention map, by layer or sorted by a statistic, with a preview of one. */

import type { ComponentChildren } from "preact";
import { useComputed, useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { mapOf } from "../core/url-state";
import type { ViewProps } from "../core/types";
import { type HeadActions, withHead } from "../ui/head-cell";
import { ORDERS, samplingNote } from "../ui/head-stats";
import { Intro } from "../ui/intro";
import "./model.css";
import { modelExports } from "./model/exports";
import { HeadGrid } from "./model/grid";
import { type Head, heads, ordered } from "./model/heads";
import { HeadList } from "./model/list";
import { Preview } from "./model/preview";
import { HeadTable } from "./model/table";
import type { ViewModule } from "../ui/view-module";

export interface ModelProps extends ViewProps {
  /** Compute every row of what is drawn from a sample. */
  refine(): void;
  refining: ReadonlySignal<boolean>;
}

/** `choice` of the map and `pins`: what other views have too. */
export function ModelView({ choice, pins, ...props }: ModelProps & { choice: ComponentChildren; pins: ComponentChildren }) {
  const { session, state, set, overviews, say, exports } = props;
  const { map: name, sort, layers, heads: chosen } = state.value;
  const map = mapOf(session, name);
  const pointed = useSignal<[number, number] | null>(null);
  const asTable = useSignal(false);
  // Whoever moves by key or link moves the preview too.
  useEffect(() => void (pointed.value = null), [layers[0], chosen[0], name, session]);
  const focus = useComputed<[number, number]>(() => pointed.value ?? [state.value.layers[0], state.value.heads[0]]);

  const all = useMemo(() => heads(map, overviews.value), [map, overviews.value]);
  const list = useMemo(() => (sort === "layer" ? all : ordered(all, sort)), [all, sort]);
  useEffect(() => {
    exports(modelExports(session, map, list, sort));
    return () => exports(null);
  }, [session, map, list]);

  const actions: HeadActions = useMemo(() => ({
    point: (layer, head) => void (pointed.value = [layer, head]),
    open: (layer, head) => set({ view: "head", layers: [layer, layer], heads: [head] }),
    add: (layer, head) => {
      const together = withHead(state.value, layer, head);
      set(together);
      say(`Heads on screen: ${together.heads.join(", ")}, of layers ${together.layers.join(" to ")}.`);
    },
  }), [set, say]);
  const shown = { state, focus, actions };
  return (
    <div class="model-view">
      <div class="lead">
        <Lead {...props} />
        {pins}
      </div>
      <div class="controls">
        <Intro view="model" />
        {choice}
        <label>
          <span>Order</span>
          <select aria-label="Order" value={sort} onChange={(event) => set({ sort: event.currentTarget.value })}>
            {ORDERS.map((order) => <option key={order.name} value={order.name}>{order.words}</option>)}
          </select>
        </label>
        <button aria-pressed={asTable.value} onClick={() => (asTable.value = !asTable.value)}>Table</button>
        <Sample {...props} all={all} />
      </div>
      <div class="model-body">
        {asTable.value ? (
          <HeadTable heads={all} actions={actions} />
        ) : sort === "layer" ? (
          <HeadGrid map={map} heads={all} {...shown} />
        ) : (
          <HeadList heads={list} sort={sort} {...shown} />
        )}
        <Preview {...props} map={map} heads={all} focus={focus} />
      </div>
    </div>
  );
}

/** The pattern of the head that the session opens with, in words. */
function Lead({ session: { opening }, state, set }: ViewProps) {
  const { map, layers, heads: [head] } = state.value;
  if (opening.map !== map) return null;
  const { layer } = opening;
  const elsewhere = layers[0] !== layer || head !== opening.head;
  return (
    <p>
      {opening.sentence} {elsewhere && <button class="link" onClick={() => set({ layers: [layer, layer], heads: [opening.head] })}>Show it</button>}
    </p>
  );
}

/** Says that rows were sampled, and computes the others when asked. */
function Sample({ all, refine, refining }: ModelProps & { all: Head[] }) {
  const samples = all.filter((head) => head.overview && samplingNote(head.overview));
  if (!samples.length) return null;
  const layers = new Set(samples.map((head) => head.layer)).size;
  return (
    <button class="badge" onClick={refine} disabled={refining.value}>
      {samplingNote(samples[0].overview!)}: {refining.value ? `computing the others, ${layers} layer${layers === 1 ? "" : "s"} to go` : "compute them all"}
    </button>
  );
}

export const view: ViewModule = {
  name: "model", title: "Model", alone: true, squares: true,
  sentence: "Each square is one attention head: row = the token that attends, column = the token it attends to; a stronger colour is more attention. Click one.",
  Component: ModelView,
};
