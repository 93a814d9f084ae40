/** Model view: every head of an attention map, by layer or sorted by a statistic, with a preview of one. */

import type { ComponentChildren } from "preact";
import { useComputed, useSignal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { isAt, placeOf } from "../core/findings";
import { mapOf } from "../core/url-state";
import type { ViewProps } from "../core/types";
import { Sentence } from "../ui/found";
import { type HeadActions, withHead } from "../ui/head-cell";
import { ORDERS, samplingNote } from "../ui/head-stats";
import { Intro } from "../ui/intro";
import { Because } from "./head/because";
import "./model.css";
import { modelExports } from "./model/exports";
import { HeadGrid } from "./model/grid";
import { arranged, existing, type Head, heads } from "./model/heads";
import { HeadGroups, HeadList } from "./model/list";
import { Preview } from "./model/preview";
import { HeadTable } from "./model/table";
import type { ViewModule } from "../ui/view-module";

/** With more heads a layer than this, the squares get the larger part of the screen. */
const ROOMY = 16;

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
  const order = useMemo(() => arranged(all, sort), [all, sort]);
  useEffect(() => {
    exports(modelExports(session, map, order.heads, sort));
    return () => exports(null);
  }, [session, map, order]);

  const actions: HeadActions = useMemo(() => ({
    point: (layer, head) => void (pointed.value = [layer, head]),
    open: (layer, head) => set({ view: "head", layers: [layer, layer], heads: [head] }),
    add: (layer, head) => {
      const together = withHead(state.value, layer, head);
      set(together);
      say(`Heads on screen: ${together.heads.join(", ")}, of layers ${together.layers.join(" to ")}.`);
    },
  }), [set, say]);
  const cells = { state, focus, actions };
  return (
    <div class="model-view">
      <Lead {...props} />
      <Because {...props} />
      <div class="model-body" data-wide={asTable.value || map.heads > ROOMY ? "" : undefined}>
        <Preview {...props} map={map} heads={all} focus={focus} />
        <section class="all-heads" aria-label="All heads">
          <div class="controls">
            <Intro view="model" session={session} />
            {choice}
            <label>
              <span>Order</span>
              <select aria-label="Order" value={sort} onChange={(event) => set({ sort: event.currentTarget.value })}>
                {ORDERS.map((order) => <option key={order.name} value={order.name}>{order.words}</option>)}
              </select>
            </label>
            <button aria-pressed={asTable.value} onClick={() => (asTable.value = !asTable.value)}>Table</button>
            <Sample {...props} all={all} />
            {pins}
          </div>
          {asTable.value ? (
            <HeadTable heads={existing(all)} actions={actions} />
          ) : sort === "layer" ? (
            <HeadGrid map={map} heads={all} cells={cells} />
          ) : order.groups ? (
            <HeadGroups key={sort} order={order} cells={cells} />
          ) : (
            <HeadList key={sort} order={order} cells={cells} />
          )}
        </section>
      </div>
    </div>
  );
}

/** What a head does in this text, in words; and buttons for the other findings. */
function Lead({ session, state, set }: ViewProps) {
  const { findings } = session.opening;
  if (!findings.length) return <div class="lead"><Sentence text={nothing(session)} /></div>;
  const shown = findings.find((finding) => isAt(state.value, finding));
  return (
    <div class="lead">
      <Sentence text={(shown ?? findings[0]).sentence} />
      <div class="findings one-row" role="group" aria-label="Findings">
        {findings.map((finding) => <button key={finding.sentence} title={finding.sentence} aria-pressed={finding === shown} onClick={() => set(placeOf(finding))}>{finding.short}</button>)}
      </div>
    </div>
  );
}

/** Why no head is told of. */
function nothing({ opening }: ViewProps["session"]): string {
  return opening.short ? "In so short a text no head stands out: choose one, or give a longer text." : "No head stands out here: choose one.";
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
  name: "model", title: "Model", leads: true, alone: true, squares: true,
  sentence: "Each square is one attention head: row = the token that attends, column = the token it attends to; a stronger colour is more attention. Click one.",
  Component: ModelView,
};
