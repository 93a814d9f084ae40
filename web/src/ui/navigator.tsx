/** Head navigator: a small grid of every head of the map next to the other views. */

import { useComputed } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { mapOf } from "../core/url-state";
import { overviewKey, type Store } from "../core/store";
import type { AttentionMap, Session } from "../core/types";
import { HeadCanvas } from "./head-canvas";
import { type HeadActions, HeadCell, useHeadCells, withHead } from "./head-cell";
import { Icon } from "./icons";
import { Segments } from "./segments";
import { headName } from "./head-stats";

export function Navigator({ store, session }: { store: Store; session: Session }) {
  const { map: name, layers, heads } = store.state.value;
  const map = mapOf(session, name);
  const [layer, head] = [layers[0], heads[0]];
  const actions: HeadActions = useMemo(() => ({
    open: (to, which) => {
      store.set({ layers: [to, to], heads: [which] });
      store.say(`${headName(to, which)}: ${store.overviews.value.get(overviewKey(map.name, to))?.summaries[which] ?? ""}`);
    },
    add: (to, which) => store.set(withHead(store.state.value, to, which)),
  }), [store, map]);
  return (
    <nav class="navigator" aria-label="Layers and heads">
      <MapChoice store={store} session={session} />
      <div class="steppers">
        <Stepper what="layer" keys="[ ]" at={layer} size={map.layers} go={(to) => actions.open(to, head)} />
        <Stepper what="head" keys=", ." at={head} size={map.heads} go={(to) => actions.open(layer, to)} />
      </div>
      <details open={matchMedia("(min-width: 60rem)").matches}>
        <summary>All {map.layers * map.heads} heads</summary>
        <Grid store={store} map={map} actions={actions} />
      </details>
    </nav>
  );
}

function Grid({ store, map, actions }: { store: Store; map: AttentionMap; actions: HeadActions }) {
  const focus = useComputed<[number, number]>(() => [store.state.value.layers[0], store.state.value.heads[0]]);
  const overviews = store.overviews.value;
  const cells = useHeadCells({ state: store.state, focus, actions });
  return (
    <div class="heads" role="grid" aria-label="All heads: rows are layers, columns are heads" {...cells}>
      <HeadCanvas overviewOf={(layer) => overviews.get(overviewKey(map.name, layer))} />
      {Array.from({ length: map.layers }, (_, layer) => (
        <div role="row" key={layer}>
          <span role="rowheader" aria-label={`layer ${layer}`}>{layer}</span>
          {Array.from({ length: map.heads }, (_, head) => (
            <HeadCell key={head} role="gridcell" layer={layer} head={head} overview={overviews.get(overviewKey(map.name, layer))} />
          ))}
        </div>
      ))}
    </div>
  );
}

/** Which attention of the network: only where there is more than one. */
export function MapChoice({ store, session }: { store: Store; session: Session }) {
  if (session.maps.length < 2) return null;
  return (
    <Segments
      legend="Attention map" name="map" values={session.maps.map((map) => map.name)} value={store.state.value.map} set={(map) => store.set({ map, query: null, key: null })}
      titled={(name) => mapOf(session, name).title}
    />
  );
}

function Stepper({ what, keys, at, size, go }: { what: string; keys: string; at: number; size: number; go(to: number): void }) {
  return (
    <div class="stepper" role="group" aria-label={what}>
      <button class="quiet" disabled={at === 0} onClick={() => go(at - 1)} aria-label={`Previous ${what}`} title={`Previous ${what} (${keys[0]})`}><Icon name="previous" /></button>
      <span>{what} <b>{at}</b></span>
      <button class="quiet" disabled={at === size - 1} onClick={() => go(at + 1)} aria-label={`Next ${what}`} title={`Next ${what} (${keys[2]})`}><Icon name="next" /></button>
    </div>
  );
}
