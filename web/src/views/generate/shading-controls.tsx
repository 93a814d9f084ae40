/** Shading of the tokens, and its legend: by probability, or by the attention of the selected step. */

import { percent } from "../../core/format";
import type { Shades } from "../../core/generation-options";
import { Icon } from "../../ui/icons";
import { Segments } from "../../ui/segments";
import type { GenerationStore } from "./generation-store";
import { parts } from "./token-text";
import { logprobColour, attentionColour, MARKS, markText } from "./token-colours";

export function ShadesBar({ store }: { store: GenerationStore }) {
  const { state } = store.props;
  const { shades } = state.value.generation;
  const choose = (next: Shades) => store.updateState({ shades: next });
  return (
    <div class="gen-shades">
      <Segments
        legend="Words are shaded by" name="shades" values={["chance", "mean"] as const} value={shades === "chance" ? shades : "mean"} set={choose}
        text={(name) => (name === "chance" ? "how likely it was" : "where it looked")}
      />
      {shades === "chance" ? <ProbabilityLegend dark={store.props.dark.value} /> : <AttentionLegend store={store} />}
    </div>
  );
}

function ProbabilityLegend({ dark }: { dark: boolean }) {
  return (
    <p class="gen-legend" title="How likely the model held the token that was written">
      {MARKS.map((p) => <span key={p} style={{ background: logprobColour(Math.log(p), dark) }}>{markText(p)}</span>)}
    </p>
  );
}

/** Which layer and head, what comes of it in words, and the way to the head view. */
function AttentionLegend({ store }: { store: GenerationStore }) {
  const { attention, props } = store;
  const { state, set } = props;
  const { layers: [layer], heads: [head], generation: trace } = state.value;
  const map = attention.map.value;
  if (!map) return <p class="hint">{attention.progress.value ?? "Nothing is written yet."}</p>;
  const numbers = (size: number) => Array.from({ length: size }, (_, at) => at);
  const choose = (value: string) => {
    if (value === "mean") store.updateState({ shades: "mean" });
    else set({ heads: [Number(value)], generation: { ...state.peek().generation, shades: "head" } });
  };
  return (
    <>
      {attention.maps.value.length > 1 && (
        <label class="gen-field">
          at
          <select value={map.name} onChange={(event) => set({ map: event.currentTarget.value })}>
            {attention.maps.value.map((each) => <option key={each.name} value={each.name}>{each.keys === each.queries ? "what is written" : "what was read"}</option>)}
          </select>
        </label>
      )}
      <label class="gen-field">
        layer
        <select value={Math.min(layer, map.layers - 1)} onChange={(event) => set({ layers: [Number(event.currentTarget.value), Number(event.currentTarget.value)] })}>
          {numbers(map.layers).map((at) => <option key={at} value={at}>{at}</option>)}
        </select>
      </label>
      <label class="gen-field">
        head
        <select value={trace.shades === "mean" ? "mean" : String(Math.min(head, map.heads - 1))} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="mean">mean of all</option>
          {numbers(map.heads).map((at) => <option key={at} value={at}>{at}</option>)}
        </select>
      </label>
      <button class="gen-to-head" disabled={!attention.session.value} onClick={() => void store.openHead()}>Head view<Icon name="next" /></button>
      <Strongest store={store} />
    </>
  );
}

/** The words that got most, with their shares: what the shades say, in numbers. */
function Strongest({ store }: { store: GenerationStore }) {
  const { attention } = store;
  const shares = attention.probs.value;
  const node = store.selectedNode;
  if (attention.progress.value) return <p class="gen-said hint" role="status">{attention.progress.value}…</p>;
  if (!shares || !node) return <p class="gen-said hint">Tap or point at a word, or pin one, to see where the model looked when it wrote it.</p>;
  const keys = Array.from(shares, (share, key) => ({ share, key })).sort((a, b) => b.share - a.share).slice(0, 4).filter(({ share }) => share >= 0.005);
  const dark = store.props.dark.value;
  return (
    <p class="gen-said">
      When it wrote <b class="token">{parts(node.text, node.piece, node.special).body}</b> it looked at{" "}
      {keys.map(({ share, key }, at) => {
        const token = attention.keys.value[key];
        return (
          <span key={key}>
            {at > 0 && ", "}
            <b class="token gen-key" style={{ background: attentionColour(share, shares[keys[0].key], dark) }}>{token ? parts(token.text, token.piece, token.special).body : key}</b> {percent(share)}
          </span>
        );
      })}
    </p>
  );
}
