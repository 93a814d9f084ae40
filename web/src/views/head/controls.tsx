/** Controls of the head view: heads, layers, mixing, token filter, threshold. */

import { useState } from "preact/hooks";
import { percent, plural } from "../../core/format";
import type { Mix } from "../../core/types";
import { Segments } from "../../ui/segments";
import type { HeadController } from "./head-controller";

const MIXES: Record<Mix, string> = {
  each: "Every head has lines of its own",
  mean: "The mean of all heads chosen, as one",
  max: "The strongest of all heads chosen, as one",
  weights: "The mean of all heads chosen, each with a weight that you choose",
  written: "The mean of all heads chosen, each with the length of what it writes at the token that looks",
};
const NAMES: Partial<Record<Mix, string>> = { weights: "own weights" };

/** Marks of the threshold's slider: finer where links are faint. */
const THRESHOLDS = [0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9];

export function Controls({ controller }: { controller: HeadController }) {
  const [open, setOpen] = useState(false);
  const { heads, layers } = controller.props.state.value;
  const which = `${layers[0] === layers[1] ? `layer ${layers[0]}` : `layers ${layers[0]}–${layers[1]}`}, ${heads.length === 1 ? `head ${heads[0]}` : plural(heads.length, "head")}`;
  return (
    <div class="head-controls" data-open={open ? "" : undefined}>
      <button class="head-disclose" aria-expanded={open} aria-controls="head-filters" onClick={() => setOpen(!open)}>
        Heads and filters <small>{which}</small>
      </button>
      <div id="head-filters">
        <div class="head-row">
          <Heads controller={controller} />
          <input
            type="search" aria-label="Highlight tokens that contain" placeholder="Highlight…" value={controller.search.value} spellcheck={false}
            onInput={(event) => (controller.search.value = event.currentTarget.value)}
          />
        </div>
        <div class="head-row">
          <Layers controller={controller} />
          <Mixing controller={controller} />
          <Pairs controller={controller} />
          <Threshold controller={controller} />
        </div>
        {controller.mixed.value && controller.request.value.mix === "weights" && <Weights controller={controller} />}
      </div>
    </div>
  );
}

function Heads({ controller }: { controller: HeadController }) {
  const { state, set, say, overviews } = controller.props;
  const { heads, layers, off } = state.value;
  const { name, heads: count } = controller.map.value;
  const isOff = (head: number) => off.some((each) => each[0] === name && each[1] === layers[0] && each[2] === head);
  const all = Array.from({ length: count }, (_, head) => head);
  const summaries = overviews.value.get(`${name}/${layers[0]}`)?.summaries;
  const only = (head: number) => set({ heads: [head] });
  const toggle = (head: number) => {
    if (!heads.includes(head)) set({ heads: [...heads, head] });
    else if (heads.length > 1) set({ heads: heads.filter((other) => other !== head) });
    else say("One head at least stays chosen.");
  };
  return (
    <div class="head-chips" role="group" aria-label="Heads drawn">
      <span class="head-label">Heads</span>
      {all.map((head) => (
        <button
          key={head} class="head-chip" aria-pressed={heads.includes(head)} aria-label={`head ${head}${isOff(head) ? ", switched off" : ""}`} data-off={isOff(head) ? "" : undefined} style={{ "--hue": controller.colour(head, "var(--accent)") }}
          title={`head ${head}${summaries?.[head] ? `: ${summaries[head]}` : ""} (double-click: only this head)`}
          onClick={(event) => (event.shiftKey ? only(head) : toggle(head))} onDblClick={() => only(head)}
          onPointerEnter={() => (controller.preview.value = heads.includes(head) ? head : null)} onPointerLeave={() => (controller.preview.value = null)}
        >
          {head}
        </button>
      ))}
      <button class="quiet" disabled={heads.length === count} onClick={() => set({ heads: [...heads, ...all.filter((head) => !heads.includes(head))] })}>all</button>
      <button class="quiet" disabled={heads.length === 1} onClick={() => only(heads[0])}>only head {heads[0]}</button>
    </div>
  );
}

/** A slider with two ends: the first layer and the last. */
function Layers({ controller }: { controller: HeadController }) {
  const { state, set } = controller.props;
  const [first, last] = state.value.layers;
  const top = controller.map.value.layers - 1;
  if (top === 0) return null;
  const end = (name: string, value: number, change: (value: number) => [number, number]) => (
    <input
      type="range" min={0} max={top} value={value} aria-label={name} aria-valuetext={`layer ${value}`}
      onInput={(event) => set({ layers: change(Number(event.currentTarget.value)) })}
    />
  );
  return (
    <div class="head-layers" role="group" aria-label="Layers drawn" style={{ "--first": first / top, "--last": last / top }}>
      <span class="head-label">{first === last ? <>Layer <b>{first}</b></> : <>Layers <b>{first}–{last}</b></>}</span>
      <span class="head-range" data-end={first === last && first === top ? "" : undefined}>
        {end("first layer", first, (value) => [Math.min(value, last), last])}
        {end("last layer", last, (value) => [first, Math.max(value, first)])}
      </span>
    </div>
  );
}

function Mixing({ controller }: { controller: HeadController }) {
  const { state, set } = controller.props;
  const single = controller.mapCount.value < 2;
  return (
    <Segments
      legend="How heads are shown together" name="mix" values={Object.keys(MIXES) as Mix[]} value={state.value.mix} set={(mix) => set({ mix })}
      text={(mix) => NAMES[mix] ?? mix} titled={(mix) => MIXES[mix]} disabled={single} title={single ? "Choose more than one head to mix them" : undefined}
    />
  );
}

/** A slider for each head that is mixed; what it counts of all of them next to it. */
function Weights({ controller }: { controller: HeadController }) {
  const weights = controller.weights.value;
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const heads = controller.request.value.heads.map((head, at) => ({ head, weight: weights[at] })).sort((a, b) => a.head - b.head);
  return (
    <div class="head-weights" role="group" aria-label="Weights of the heads">
      {heads.map(({ head, weight }) => (
        <label key={head}>
          <span class="head-label">head {head} <b>{total ? percent(weight / total) : "–"}</b></span>
          <input type="range" min={0} max={1} step={0.05} value={weight} aria-label={`weight of head ${head}`} onInput={(event) => controller.weigh(head, Number(event.currentTarget.value))} />
        </label>
      ))}
      <button class="quiet" disabled={weights.every((weight) => weight === 1)} onClick={() => heads.forEach(({ head }) => controller.weigh(head, 1))}>all equal</button>
    </div>
  );
}

/** From which text to which: only where there is more than one; and whether special tokens are there at all. */
function Pairs({ controller }: { controller: HeadController }) {
  const { state, set } = controller.props;
  const { from, to, special } = state.value;
  const { queries, keys } = controller.map.value;
  const texts = (side: string) => [...new Set(controller.session.streams[side].flatMap((token) => (token.special || token.segment === null ? [] : [String(token.segment)])))];
  const [out, into] = [texts(queries), texts(keys)];
  const letter = (type: string) => (type === "special" ? "special" : type === "" ? "any" : String.fromCharCode(65 + Number(type)));
  const pairs = queries === keys && out.length > 1 ? out.flatMap((a) => into.map((b) => [a, b])) : [];
  const chosen = `${from},${to}`;
  const custom = chosen !== "," && !pairs.some((pair) => pair.join() === chosen);
  const anySpecial = [queries, keys].some((side) => controller.session.streams[side].some((token) => token.special));
  return (
    <>
      {(pairs.length > 0 || custom) && (
        <label class="head-field">
          <span class="head-label">Pairs</span>
          <select value={chosen} onChange={(event) => {
            const [from, to] = event.currentTarget.value.split(",");
            set({ from, to });
          }}>
            <option value=",">any</option>
            {pairs.map(([a, b]) => <option key={`${a},${b}`} value={`${a},${b}`}>{letter(a)} → {letter(b)}</option>)}
            {custom && <option value={chosen}>{letter(from)} → {letter(to)}</option>}
          </select>
        </label>
      )}
      {anySpecial && (
        <label class="head-field">
          <input type="checkbox" checked={special} onChange={(event) => set({ special: event.currentTarget.checked })} />
          <span>special tokens</span>
        </label>
      )}
    </>
  );
}

function Threshold({ controller }: { controller: HeadController }) {
  const value = controller.threshold.value;
  const words = value === 0 ? "hide none" : `hide below ${percent(value)}`;
  return (
    <label class="head-field">
      <span class="head-label head-threshold">{words}</span>
      <input
        type="range" min={0} max={THRESHOLDS.length - 1} value={THRESHOLDS.indexOf(value)} aria-label="Hide links that are fainter than" aria-valuetext={words}
        onInput={(event) => (controller.threshold.value = THRESHOLDS[Number(event.currentTarget.value)])}
      />
    </label>
  );
}
