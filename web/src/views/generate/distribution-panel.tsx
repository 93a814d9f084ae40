/** Next-token distribution at a step: most probable tokens as bars, sampling sliders, and branching to another token. */

import { useMemo } from "preact/hooks";
import { count, number, percent, plural, visible } from "../../core/format";
import { moreOptions, withMethod } from "../../core/generation-options";
import { moveFocus } from "../../ui/roving-tabindex";
import { rankText } from "./text-view";
import { type SortedDistribution, type GenerationStore, samplingOf } from "./generation-store";
import { parts } from "./token-text";
import { choices, type Sampling, shaped } from "./sampling";
import { Term } from "../../ui/term";

/** Tokens that are listed. */
const MAX_ROWS = 15;

interface Row {
  token: number;
  text: string;
  /** As the model has it, and as the sliders leave it; null while that is not known. */
  p: number;
  shaped: number | null;
  rank: number;
}

export function ChoiceCard({ store }: { store: GenerationStore }) {
  const step = store.step.value;
  const node = store.selectedNode;
  const chances = store.distribution.value;
  const shape = store.sampling.value;
  const rank = useMemo(() => chances && shaped(chances.sorted, shape), [chances, shape]);
  const before = store.parentNode.value;
  const rough = before === null ? undefined : store.tree.choices.get(before);
  const rows: Row[] = chances && rank
    ? rowsOf(chances, rank.probs, node?.token)
    : (rough?.top ?? []).map(({ token, text, logprob }, at) => ({ token, text, p: Math.exp(logprob), shaped: null, rank: at + 1 }));
  if (step === 0 && rows.length === 0) return <section class="gen-card"><h3>The choice</h3><p class="hint">Nothing is written yet.</p></section>;
  const top = Math.max(...rows.map(({ p, shaped: left }) => Math.max(p, left ?? 0)), 1e-9);
  const options = store.trace.value?.options ?? {};
  const others = [...(moreOptions("sample").get("Sampling") ?? [])].map(({ name }) => name).filter((name) => options.do_sample === true && typeof options[name] === "number").map((name) => `${name} ${options[name]}`);
  const pinned = store.props.state.value.generation.at !== null;
  return (
    <section class="gen-card" aria-label="The choice at this step">
      <header>
        <h3>{step === 0 ? "What could come first" : <>Step {step} <span class="token">{parts(node!.text, node!.piece, node!.special).body}</span></>}</h3>
        {node && <p>{percent(Math.exp(node.logprob))}, {rankText(node.rank)}{node.chosen === "hand" ? ", chosen by hand" : ""}</p>}
        {pinned && <button class="quiet" onClick={() => store.pin(null)}>unpin</button>}
      </header>
      <Sliders store={store} />
      {rank && (
        <p class="gen-facts">
          <b>{count(rank.allowed)}</b> of {count(chances!.vocabulary)} left · <Term of="entropy" /> <b>{number(rank.entropy, 3)}</b> bits · like <b>{number(choices(rank.entropy), 3)}</b> equal choices
          {others.length > 0 && <> · {others.join(", ")} shaped the draw too, and has no slider here</>}
          {chances!.ruled && <> · rules have spoken first: bans, penalties, or forced tokens</>}
        </p>
      )}
      <ol class="gen-bars" onKeyDown={moveFocus}>
        {rows.map((row) => <Bar key={row.token} row={row} top={top} written={row.token === node?.token} first={row.token === (node ?? rows[0]).token} store={store} />)}
      </ol>
      {chances && rank && <Rest rows={rows} chances={chances} shaped={rank.probs} />}
    </section>
  );
}

/** One token: what the model gives it as an outline, what the sliders leave of it filled; it can be taken instead. Arrow keys go from one to the next. */
function Bar({ row, top, written, first, store }: { row: Row; top: number; written: boolean; first: boolean; store: GenerationStore }) {
  const { token, text, p, rank } = row;
  const left = row.shaped ?? p;
  const cut = row.shaped === 0;
  const step = store.step.value;
  const says = `${visible(text)}: ${percent(p)}${row.shaped === null ? "" : cut ? ", cut" : `, now ${percent(left)}`}`;
  return (
    <li>
      <button
        class="gen-bar" data-cell tabIndex={first ? 0 : -1} data-cut={cut ? "" : undefined} aria-current={written ? "true" : undefined} aria-disabled={written}
        aria-label={written ? `${says}; written here` : `${says}; write on with it`} title={`${number(left, 6)}${written ? ", written here" : `: write on from here with “${visible(text)}”`}`}
        onClick={() => written || void store.branch(step, token)}
      >
        <span class="token">{rank > MAX_ROWS && <small>{rank}</small>}{visible(text)}{written && <i aria-hidden="true">✓</i>}</span>
        <span class="gen-scale" aria-hidden="true"><i style={{ width: `${(100 * left) / top}%` }} /><u style={{ width: `${(100 * p) / top}%` }} /></span>
        <span class="gen-number">{cut ? "cut" : percent(left)}</span>
      </button>
    </li>
  );
}

function Rest({ rows, chances, shaped: probs }: { rows: Row[]; chances: SortedDistribution; shaped: Float64Array }) {
  const others = chances.vocabulary - rows.length;
  if (others <= 0) return null;
  const all = probs.reduce((sum, p, at) => sum + p * chances.sorted.counts[at], 0);
  const listed = rows.reduce((sum, row) => sum + (row.shaped ?? 0), 0);
  return <p class="gen-rest hint"><span>{plural(others, "other token")}</span><span>{percent(Math.max(all - listed, 0))}</span></p>;
}

/** The first tokens in the model's own order, and the written one wherever it is. */
function rowsOf({ ids, logprobs, tokens, sorted }: SortedDistribution, probs: Float64Array, written: number | undefined): Row[] {
  const at = new Map(Array.from(sorted.order, (from, index) => [from, index]));
  const row = (from: number): Row => ({
    token: ids[from], text: tokens[from]?.[0] || tokens[from]?.[1] || `#${ids[from]}`, p: Math.exp(logprobs[from]), shaped: probs[at.get(from)!], rank: from + 1,
  });
  const rows = Array.from({ length: Math.min(MAX_ROWS, ids.length) }, (_, from) => row(from));
  const from = written === undefined ? -1 : ids.indexOf(written);
  return from >= MAX_ROWS ? [...rows, row(from)] : rows;
}

/** Marks of the slider for top-k; the last is all. */
const TOP_KS = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 40, 50, 100, 200, 500, 1000, 0];
const PRESETS: readonly [string, Sampling, string][] = [
  ["T → 0", { temperature: 0, topK: 0, topP: 1 }, "Greedy: always the likeliest"],
  ["T = 1", { temperature: 1, topK: 0, topP: 1 }, "The model's own chances"],
  ["0.7 / 0.9", { temperature: 0.7, topK: 0, topP: 0.9 }, "Temperature 0.7, top-p 0.9"],
];

function Sliders({ store }: { store: GenerationStore }) {
  const shape = store.sampling.value;
  const set = (change: Partial<Sampling>) => (store.sampling.value = { ...shape, ...change });
  const like = (other: Sampling) => other.temperature === shape.temperature && other.topK === shape.topK && other.topP === shape.topP;
  const nearest = TOP_KS.findIndex((k) => k === 0 || k >= shape.topK);
  const at = shape.topK === 0 ? TOP_KS.length - 1 : nearest;
  const written = store.trace.value && samplingOf(store.trace.value.options);
  const again = () => {
    store.options.value = withMethod(store.options.peek(), "sample");
    void store.restart();
  };
  return (
    <fieldset class="gen-sliders">
      <legend class="unseen">Shape the choice</legend>
      <div class="gen-presets">
        <Term of="temperature">T</Term>
        {PRESETS.map(([name, preset, title]) => <button key={name} type="button" aria-pressed={like(preset)} title={title} onClick={() => set(preset)}>{name}</button>)}
        {written && !PRESETS.some(([, preset]) => equal(preset, written)) && <button type="button" aria-pressed={like(written)} onClick={() => set(written)}>as written</button>}
        {store.props.transport.host === "server" && <button type="button" class="gen-again" disabled={store.busy.value} title="Draw another text with these settings" onClick={again}>Write with these</button>}
      </div>
      <label>
        <span>temperature</span>
        <input type="range" min="0" max="2" step="0.05" value={shape.temperature} onInput={(event) => set({ temperature: Number(event.currentTarget.value) })} />
        <output>{shape.temperature === 0 ? "0, greedy" : shape.temperature.toFixed(2)}</output>
      </label>
      <label>
        <span>top-k</span>
        <input
          type="range" min="0" max={TOP_KS.length - 1} step="1" value={at} aria-valuetext={shape.topK ? String(shape.topK) : "all"}
          onInput={(event) => set({ topK: TOP_KS[Number(event.currentTarget.value)] })}
        />
        <output>{shape.topK || "all"}</output>
      </label>
      <label>
        <span>top-p</span>
        <input type="range" min="0.05" max="1" step="0.01" value={shape.topP} onInput={(event) => set({ topP: Number(event.currentTarget.value) })} />
        <output>{shape.topP === 1 ? "all" : shape.topP.toFixed(2)}</output>
      </label>
    </fieldset>
  );
}

const equal = (a: Sampling, b: Sampling): boolean => a.temperature === b.temperature && a.topK === b.topK && a.topP === b.topP;
