/** Status bar: legend, live region, and provenance of the numbers. */

import { bytes, count, number, precision } from "../core/format";
import { mapOf } from "../core/url-state";
import { MODULES } from "virtual:views";
import { overviewKey, type Store } from "../core/store";
import type { Session } from "../core/types";
import { Legend } from "./legend";
import { exactLayers, samplingNote } from "./head-stats";

export function Status({ store, session }: { store: Store; session: Session }) {
  const { model, text_hash } = session;
  const map = mapOf(session, store.state.value.map);
  const tokens = Object.entries(session.streams).map(([name, side]) => `${count(side.length)} ${name === "text" ? "" : `${name} `}tokens`);
  const facts = [
    `${model.name} · ${model.revision}`, precision(model), `text ${text_hash.slice(0, 12)}`, tokens.join(", "),
    store.transport.host === "server" ? `Python keeps ${bytes(session.nbytes)}` : `in this file, ${exactLayers(map, session.exact_layers?.[map.name] ?? [])}`,
    `pass ${number(session.seconds, 2)} s`,
    ...approximations(store, session),
  ];
  return (
    <footer class="status">
      {MODULES[store.state.value.view].squares && <Legend />}
      <p class="said" aria-live="polite">{store.announcement.value}</p>
      <p class="provenance">{facts.map((fact) => <span key={fact}>{fact}</span>)}</p>
    </footer>
  );
}

/** What is on screen and not exact. */
function approximations(store: Store, session: Session): string[] {
  const { map: name, layers } = store.state.value;
  const overview = store.overviews.value.get(overviewKey(name, layers[0]));
  if (!overview) return [];
  const [rows, columns] = overview.bins;
  const sampling = rows > 1 || columns > 1 ? [`thumbnails: the largest of each ${rows} × ${columns} tokens`] : [];
  const samples = Array.from({ length: mapOf(session, name).layers }, (_, layer) => store.overviews.value.get(overviewKey(name, layer)));
  const one = samples.map((each) => each && samplingNote(each)).find(Boolean);
  return one ? [...sampling, one] : sampling;
}
