/** Preview of one head: its map with token labels, its statistics, and buttons to the other views. */

import type { ReadonlySignal } from "@preact/signals";
import { capital, number, percent } from "../../core/format";
import type { AttentionMap, ViewName } from "../../core/types";
import { headName, maxEntropy, samplingNote, STATS } from "../../ui/head-stats";
import type { ModelProps } from "../model";
import { type Head, stat, summary } from "./heads";
import { LargeMap } from "./large";
import { explained, Term } from "../../ui/term";

/** Shares told; the table has them all. */
const MOST = 3;

const WAYS: readonly [ViewName, string, string][] = [
  ["head", "Lines", "Which token attends to which, as lines"],
  ["matrix", "Matrix", "The map in full, to zoom into"],
  ["neuron", "Arithmetic", "How the numbers come about"],
];

interface Props extends ModelProps {
  map: AttentionMap;
  heads: Head[];
  focus: ReadonlySignal<[layer: number, head: number]>;
}

export function Preview({ heads, focus, ...rest }: Props) {
  const { map, set } = rest;
  const head = heads[focus.value[0] * map.heads + focus.value[1]];
  if (!head) return null; // between one map and another of fewer heads
  const props = { ...rest, head };
  const { layer, overview } = head;
  const badge = overview && samplingNote(overview);
  return (
    <aside class="preview" aria-label="The head pointed at">
      <header>
        <h2>{headName(layer, head.head)}</h2>
        <p class="summary">{overview ? `${capital(summary(head))}.` : "On its way."}</p>
      </header>
      <LargeMap {...props} />
      <div class="ways">
        {WAYS.map(([view, word, title]) => (
          <button key={view} title={title} onClick={() => set({ view, layers: [layer, layer], heads: [head.head] })}>{word}</button>
        ))}
      </div>
      {overview && <Stats {...props} />}
      {badge && <p class="hint">Numbers {badge}.</p>}
      {map.kv_heads < map.heads && <p class="hint">Keys and values are shared: {map.heads / map.kv_heads} heads use each.</p>}
    </aside>
  );
}

/** The largest shares as bars; then how sharp and how far. */
function Stats({ head, map, session }: ModelProps & { head: Head; map: AttentionMap }) {
  const shares = STATS.filter((each) => each.share).map((each) => ({ each, value: stat(head, each.name) })).filter(({ value }) => !Number.isNaN(value)).sort((a, b) => b.value - a.value).slice(0, MOST);
  const [entropy, most] = [stat(head, "entropy_bits"), maxEntropy(map, head.layer, session)];
  const away = stat(head, "distance"); // NaN, like some shares, where queries and keys are of two sides
  return (
    <>
      <dl class="shares" aria-label="Where its attention goes">
        {shares.map(({ each, value }) => (
          <div key={each.name}>
            <dt>{explained(each.words)}</dt>
            <dd>{percent(value)}<meter min={0} max={1} value={value} aria-hidden="true" /></dd>
          </div>
        ))}
      </dl>
      <p class="hint">
        A token looks at about {number(2 ** entropy, 2)} tokens, of {number(2 ** most, 2)} that it sees on average (<Term of="entropy" /> {number(entropy, 2)} of {number(most, 2)} bits){Number.isNaN(away) ? "" : `, ${number(away, 2)} tokens away`}.
        {" "}A token can count in several of the groups.
      </p>
    </>
  );
}

