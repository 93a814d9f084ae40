/** Contexts view: where in an indexed corpus a layer, a head or a neuron does the same as at the pinned token. */

import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import type { Contexts, ContextsQuery, CorpusFacts, SearchBy, SearchState } from "../core/contexts";
import { count, number, plural, visible } from "../core/format";
import { mapOf } from "../core/url-state";
import type { State, ViewProps } from "../core/types";
import { moveFocus } from "../ui/roving-tabindex";
import { Segments } from "../ui/segments";
import { Counts, exportsOf, Matches, Table } from "./contexts/matches";
import "./contexts.css";
import * as views from "../core/views";
import type { ViewModule } from "../ui/view-module";
import { Told } from "../ui/command";

const COUNT = 20;
const NAMES: Record<SearchBy, string> = { layer: "layer's vector", head: "head's output", neuron: "neuron" };

export function ContextsView(props: ViewProps) {
  const { session, state, set, transport, say, exports } = props;
  const corpus = session.model.corpus!;
  const result = useSignal<Contexts | null>(null);
  const problem = useSignal<string | null>(null);
  const busy = useSignal(false);
  const tabled = useSignal(false);
  const query = useComputed(() => queryOf(state.value, corpus));
  useSignalEffect(() => {
    const asked = query.value;
    const request = new AbortController();
    problem.value = null;
    if (!asked) {
      result.value = null;
      return;
    }
    busy.value = true;
    views.contexts(transport, session, asked, request.signal)
      .then(
        (answer) => {
          result.value = answer;
          say(answer.matches.length ? `${plural(answer.matches.length, "context")}, the nearest ${number(answer.matches[0].score, 3)}` : "The corpus has no such context.");
        },
        (error: Error) => {
          if (request.signal.aborted) return;
          result.value = null;
          problem.value = error.message;
        },
      )
      .finally(() => !request.signal.aborted && (busy.value = false));
    return () => request.abort();
  });
  useSignalEffect(() => {
    const [shown, asked] = [result.value, query.value];
    exports(shown && asked ? exportsOf(shown, asked, titleOf(asked, props)) : null);
    return () => exports(null);
  });
  const change = (some: Partial<SearchState>) => set({ search: { ...state.peek().search, ...some } });
  const matches = result.value?.matches ?? [];
  return (
    <div class="ctx" data-busy={busy.value ? "" : undefined}>
      <div class="ctx-controls">
        <Segments
          legend="Search by" name="by" values={Object.keys(NAMES) as SearchBy[]} value={state.value.search.by} set={(by) => change({ by, layer: null })} text={(by) => NAMES[by]}
        />
        <Which {...props} corpus={corpus} change={change} />
        <label class="ctx-field" title="Special tokens gather what a head has no use for">
          <input type="checkbox" checked={state.value.special} onChange={(event) => set({ special: event.currentTarget.checked })} /> special tokens
        </label>
        <span class="hint">{count(corpus.tokens)} tokens of {corpus.source}</span>
      </div>
      {state.value.search.by !== "neuron" && <Tokens {...props} />}
      {problem.value && <p class="ctx-absent" role="status"><Told text={problem.value} /></p>}
      {!query.value && !problem.value && <p class="ctx-absent" role="status">{hintOf(state.value, corpus)}</p>}
      {result.value && (
        <div class="ctx-body">
          <section class="ctx-card" aria-label="Nearest contexts">
            <header>
              <h3>{titleOf(query.value, props)}</h3>
              <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
            </header>
            {matches.length ? <Matches matches={matches} special={state.value.special} dark={props.dark.value} /> : <p class="hint">The corpus has no such context.</p>}
          </section>
          <Counts counts={result.value.counts} of={matches.length} />
        </div>
      )}
      {tabled.value && result.value && <Table matches={matches} />}
    </div>
  );
}

/** What to search by: the layer, the head in focus, or a neuron, as far as the index holds them. */
function Which({ corpus, state, set, change }: ViewProps & { corpus: CorpusFacts; change(some: Partial<SearchState>): void }) {
  const { search, layers: [layer], heads: [head] } = state.value;
  if (search.by === "head") {
    return (
      <label class="ctx-field">
        head
        <select value={`${layer}.${head}`} onChange={(event) => {
          const [l, h] = event.currentTarget.value.split(".").map(Number);
          set({ layers: [l, l], heads: [h] });
        }}>
          {!corpus.heads.some(([l, h]) => l === layer && h === head) && <option value={`${layer}.${head}`}>{layer}.{head} (not indexed)</option>}
          {corpus.heads.map(([l, h]) => <option key={`${l}.${h}`} value={`${l}.${h}`}>{l}.{h}</option>)}
        </select>
      </label>
    );
  }
  const layers = search.by === "layer" ? corpus.layers : corpus.neurons;
  const chosen = layerOf(search, layers, layer);
  return (
    <>
      <label class="ctx-field">
        layer
        <select value={chosen ?? ""} disabled={!layers.length} onChange={(event) => change({ layer: Number(event.currentTarget.value) })}>
          {layers.map((each) => <option key={each} value={each}>{each}{search.by === "layer" && each === 0 ? " (embeddings)" : ""}</option>)}
        </select>
      </label>
      {search.by === "neuron" && (
        <label class="ctx-field">
          neuron
          <input type="number" min={0} max={corpus.neuron_width - 1} value={search.neuron} onChange={(event) => change({ neuron: Math.min(Math.max(Math.round(event.currentTarget.valueAsNumber) || 0, 0), corpus.neuron_width - 1) })} />
        </label>
      )}
    </>
  );
}

/** The tokens of the text: the one that is searched by is pinned. */
function Tokens({ session, state, set }: ViewProps) {
  const { query } = state.value;
  const tokens = session.streams[mapOf(session, state.value.map).queries];
  return (
    <div class="ctx-tokens" role="listbox" aria-label="Token to search by" aria-orientation="horizontal" onKeyDown={moveFocus}>
      {tokens.map((token, at) => (
        <span
          key={at} role="option" data-cell aria-selected={query === at} tabIndex={at === (query ?? 0) ? 0 : -1} class={token.special ? "special" : undefined}
          onClick={() => set({ query: at })}
          onKeyDown={(event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            set({ query: at });
          }}
        >
          {visible(token.text)}
        </span>
      ))}
    </div>
  );
}

/** The layer that is asked for, or the one in the index nearest to the output of the layer in focus. */
function layerOf(search: SearchState, layers: number[], focus: number): number | null {
  if (search.layer !== null && layers.includes(search.layer)) return search.layer;
  const target = search.by === "layer" ? focus + 1 : focus;
  return layers.length ? layers.reduce((best, each) => (Math.abs(each - target) < Math.abs(best - target) ? each : best)) : null;
}

/** The query; null while there is nothing to search by. */
function queryOf({ search, layers: [focus], heads: [head], query: token }: State, corpus: CorpusFacts): ContextsQuery | null {
  const shared = { head: `${focus}.${head}`, count: COUNT };
  if (search.by === "head") {
    return token === null || !corpus.heads.some(([l, h]) => l === focus && h === head) ? null : { by: "head", layer: focus, number: head, token, ...shared };
  }
  const layer = layerOf(search, search.by === "layer" ? corpus.layers : corpus.neurons, focus);
  if (layer === null || (search.by === "layer" && token === null)) return null;
  return search.by === "layer" ? { by: "layer", layer, number: null, token, ...shared } : { by: "neuron", layer, number: search.neuron, token: null, ...shared };
}

function hintOf({ search, layers: [layer], heads: [head] }: State, corpus: CorpusFacts): string {
  if (search.by === "layer") return corpus.layers.length ? "Choose the token to search by." : "The index holds no layer: glassformer corpus index … --layers";
  if (search.by === "neuron") return "The index holds no neurons: glassformer corpus index … --neurons";
  if (corpus.heads.some(([l, h]) => l === layer && h === head)) return "Choose the token to search by.";
  return corpus.heads.length ? `Head ${layer}.${head} is not in the index: choose one that is.` : "The index holds no head: glassformer corpus index … --heads 4.9";
}

function titleOf(query: ContextsQuery | null, { session, state }: ViewProps): string {
  if (!query) return "";
  if (query.by === "neuron") return `Neuron ${query.number} of layer ${query.layer}: where it is most active`;
  const token = session.streams[mapOf(session, state.peek().map).queries][query.token!];
  return `“${visible(token.text)}” by ${query.by === "layer" ? `the state of layer ${query.layer}` : `the output of head ${query.layer}.${query.number}`}`;
}

export const view: ViewModule = {
  name: "contexts", title: "Contexts", fresh: true,
  sentence: "Where else in the corpus a layer, a head or a neuron does the same: the nearest places first, shaded by where the head looks from there.",
  Component: (props) => props.session.model.corpus && <ContextsView {...props} />,
};
