/** What the shades of the words tell, and their legend: chances, or where the step looked at looked. */

import { percent } from "../../core/format";
import type { Shades } from "../../core/recipe";
import { Icon } from "../../ui/icons";
import type { Scribe } from "./scribe";
import { parts } from "./spelling";
import { chanceColour, gazeColour, MARKS, markText } from "./surprise";

export function ShadesBar({ scribe }: { scribe: Scribe }) {
  const { state } = scribe.props;
  const { shades } = state.value.writing;
  const choose = (next: Shades) => scribe.note({ shades: next });
  const kinds: [string, boolean, Shades][] = [["how likely it was", shades === "chance", "chance"], ["where it looked", shades !== "chance", "mean"]];
  return (
    <div class="gen-shades">
      <fieldset class="segments">
        <legend class="unseen">Words are shaded by</legend>
        {kinds.map(([name, on, next]) => (
          <label key={next}>
            <input type="radio" name="shades" checked={on} onChange={() => choose(next)} />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      {shades === "chance" ? <Chances dark={scribe.props.dark.value} /> : <Look scribe={scribe} />}
    </div>
  );
}

function Chances({ dark }: { dark: boolean }) {
  return (
    <p class="gen-legend" title="How likely the model held the token that was written">
      {MARKS.map((p) => <span key={p} style={{ background: chanceColour(Math.log(p), dark) }}>{markText(p)}</span>)}
    </p>
  );
}

/** Which layer and head, what comes of it in words, and the way to the head view. */
function Look({ scribe }: { scribe: Scribe }) {
  const { gaze, props } = scribe;
  const { state, set } = props;
  const { layers: [layer], heads: [head], writing } = state.value;
  const map = gaze.map.value;
  if (!map) return <p class="hint">{gaze.running.value ?? "Nothing is written yet."}</p>;
  const numbers = (size: number) => Array.from({ length: size }, (_, at) => at);
  const choose = (value: string) => {
    if (value === "mean") scribe.note({ shades: "mean" });
    else set({ heads: [Number(value)], writing: { ...state.peek().writing, shades: "head" } });
  };
  return (
    <>
      {gaze.maps.value.length > 1 && (
        <label class="gen-field">
          at
          <select value={map.name} onChange={(event) => set({ map: event.currentTarget.value })}>
            {gaze.maps.value.map((each) => <option key={each.name} value={each.name}>{each.keys === each.queries ? "what is written" : "what was read"}</option>)}
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
        <select value={writing.shades === "mean" ? "mean" : String(Math.min(head, map.heads - 1))} onChange={(event) => choose(event.currentTarget.value)}>
          <option value="mean">mean of all</option>
          {numbers(map.heads).map((at) => <option key={at} value={at}>{at}</option>)}
        </select>
      </label>
      <button class="gen-to-head" disabled={!gaze.session.value} onClick={() => void scribe.openHead()}>Head view<Icon name="next" /></button>
      <Strongest scribe={scribe} />
    </>
  );
}

/** The words that got most, with their shares: what the shades say, in numbers. */
function Strongest({ scribe }: { scribe: Scribe }) {
  const { gaze } = scribe;
  const shares = gaze.shares.value;
  const node = scribe.looked;
  if (gaze.running.value) return <p class="gen-said hint" role="status">{gaze.running.value}…</p>;
  if (!shares || !node) return <p class="gen-said hint">Point at a word, or pin one, to see where the model looked when it wrote it.</p>;
  const keys = Array.from(shares, (share, key) => ({ share, key })).sort((a, b) => b.share - a.share).slice(0, 4).filter(({ share }) => share >= 0.005);
  const dark = scribe.props.dark.value;
  return (
    <p class="gen-said">
      When it wrote <b class="token">{parts(node.text, node.piece, node.special).body}</b> it looked at{" "}
      {keys.map(({ share, key }, at) => {
        const token = gaze.keys.value[key];
        return (
          <span key={key}>
            {at > 0 && ", "}
            <b class="token gen-key" style={{ background: gazeColour(share, shares[keys[0].key], dark) }}>{token ? parts(token.text, token.piece, token.special).body : key}</b> {percent(share)}
          </span>
        );
      })}
    </p>
  );
}
