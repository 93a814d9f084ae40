/** Similarity view: two texts, each encoded by itself, and what each pair of their words adds to the cosine. */

import { useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { number, visible } from "../core/format";
import { shade } from "../core/palette";
import { byWords, largestOf, sharesOf, type Similarity, similarityOf, type SimilarityState } from "../core/similarity";
import type { ViewProps } from "../core/types";
import { useAnswer } from "../ui/answer";
import { DataTable } from "../ui/data-table";
import { moveFocus } from "../ui/roving-tabindex";
import { Segments } from "../ui/segments";
import { Heatmap } from "./similarity/heatmap";
import "./similarity.css";
import type { ViewModule } from "../ui/view-module";

/** Hues of what adds and what takes away; they are those of the map. */
const [ADDS, TAKES] = [55, 255];
const [LISTED, TABLED] = [12, 500];
const MEASURES = { cosine: "cosine", dot: "dot product" };

export function SimilarityView(props: ViewProps) {
  if (props.session.texts.length !== 2) return <p class="sim-absent" role="status">A similarity is that of two texts: write a second one above, and run.</p>;
  return <Asked {...props} />;
}

function Asked(props: ViewProps) {
  const [frame, otherwise] = useAnswer(props, "similarity", {}, "Encoding both texts…");
  const explained = useMemo(() => frame && similarityOf(frame), [frame]);
  return explained ? <Explained {...props} explained={explained} /> : otherwise;
}

export interface PairProps extends ViewProps {
  /** Whole words, or tokens. */
  shown: Similarity;
  /** The pinned pair, and where the pointer is. */
  pinned: SimilarityState;
  point(row: number | null, column: number | null): void;
  pin(row: number | null, column: number | null): void;
}

function Explained(props: ViewProps & { explained: Similarity }) {
  const { explained, state, set, say, exports, dark } = props;
  const tabled = useSignal(false);
  const hovered = useSignal<[row: number | null, column: number | null]>([null, null]);
  const shown = useComputed(() => (state.value.similarity.words ? byWords(explained) : explained)).value;
  const pinned = clamped(state.value.similarity, shown);
  const [row, column] = [hovered.value[0] ?? pinned.row, hovered.value[1] ?? pinned.column];
  const change = (some: Partial<SimilarityState>) => set({ similarity: { ...state.peek().similarity, ...some } });
  const point = (r: number | null, c: number | null) => (hovered.value = [r, c]);
  const pin = (r: number | null, c: number | null) => {
    change(pinned.row === r && pinned.column === c ? { row: null, column: null } : { row: r, column: c });
    if (r !== null && c !== null) say(sentence(shown, r, c));
  };
  useSignalEffect(() => {
    const [r, c] = hovered.value;
    if (r !== null && c !== null) say(sentence(shown, r, c));
  });
  useEffect(() => {
    exports({
      name: "similarity",
      finding: () => findingOf(shown),
      ...Heatmap.exports(shown, findingOf(shown), () => dark.peek()),
      table: () => [["first", "second", "of the sum"], ...bestPairs(shown, Infinity).map(([r, c, x]) => [shown.tokens[0][r].text, shown.tokens[1][c].text, x])],
    });
    return () => exports(null);
  }, [shown]);
  const pair: PairProps = { ...props, shown, pinned: { ...pinned, row, column }, point, pin };
  return (
    <div class="sim">
      <header class="sim-head one-row">
        <p><b class="sim-sum">{number(explained.similarity, 4)}</b> {MEASURES[explained.measure]}, the sum of {shown.cells.length} cells</p>
        <Segments
          legend="Parts of the texts" name="parts" values={[true, false]} value={pinned.words} set={(words) => change({ words, row: null, column: null })}
          text={(words) => (words ? "words" : "tokens")}
        />
        <Scale most={largestOf(shown.cells)} dark={dark.value} />
        <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
      </header>
      {explained.notes.length > 0 && <p class="hint">{explained.notes.join("; ")}.</p>}
      <div class="sim-body" style={{ "--columns": shown.tokens[1].length }}>
        <section class="sim-card sim-texts" aria-label="The texts">
          <Words {...pair} side={0} />
          <Words {...pair} side={1} />
          <p class="hint">{(row === null) !== (column === null) ? "Shaded: what each word adds together with the chosen one." : "Shaded: each word's share of the similarity."}</p>
        </section>
        <section class="sim-card sim-mapped" aria-label="The map"><Heatmap {...pair} /></section>
        <Pairs {...pair} />
      </div>
      {tabled.value && <Table shown={shown} />}
    </div>
  );
}

/** A text whose words carry their share; with a word of the other text chosen, what they add together with that one. */
function Words({ shown, side, pinned, pin, point, dark }: PairProps & { side: 0 | 1 }) {
  const [own, other] = side === 0 ? [pinned.row, pinned.column] : [pinned.column, pinned.row];
  const partner = own === null ? other : null;
  const columns = shown.tokens[1].length;
  const cell = (at: number) => shown.cells[side === 0 ? at * columns + partner! : partner! * columns + at];
  const values = partner === null ? sharesOf(shown)[side] : Float64Array.from(shown.tokens[side], (_, at) => cell(at));
  const most = partner === null ? Math.max(...sharesOf(shown).map(largestOf)) : largestOf(values);
  const place = (at: number): [number | null, number | null] => (side === 0 ? [at, null] : [null, at]);
  return (
    <div class="sim-words" role="listbox" aria-label={side === 0 ? "First text" : "Second text"} aria-orientation="horizontal" onKeyDown={moveFocus} onPointerLeave={() => point(null, null)}>
      <span class="sim-side" aria-hidden="true">{side === 0 ? "A" : "B"}</span>
      {shown.tokens[side].map((token, at) => (
        <span
          key={at} role="option" data-cell aria-selected={own === at} tabIndex={at === (own ?? 0) ? 0 : -1} class={token.special ? "special" : undefined}
          aria-label={`${visible(token.text)}: ${number(values[at], 3)}`} title={number(values[at], 4)}
          style={{ background: shade(Math.abs(values[at]) / (most || 1), values[at] < 0 ? TAKES : ADDS, dark.value) }}
          onPointerEnter={() => point(...place(at))} onClick={() => pin(...place(at))}
          onKeyDown={(event) => {
            if (event.key !== "Enter" && event.key !== " ") return;
            event.preventDefault();
            pin(...place(at));
          }}
        >
          {visible(token.text)}<small>{signed(values[at])}</small>
        </span>
      ))}
    </div>
  );
}

/** The pairs that count most. */
function Pairs({ shown, pinned, pin, point }: PairProps) {
  const most = largestOf(shown.cells) || 1;
  return (
    <section class="sim-card sim-pairs" aria-label="Pairs that count most">
      <h3>Pairs that count most</h3>
      <ol>
        {bestPairs(shown, LISTED).map(([row, column, value]) => (
          <li key={`${row},${column}`} data-on={pinned.row === row && pinned.column === column ? "" : undefined} style={{ "--share": Math.abs(value) / most, "--hue": `var(${value < 0 ? "--sim-takes" : "--sim-adds"})` }}>
            <button class="quiet" onClick={() => pin(row, column)} onPointerEnter={() => point(row, column)} onPointerLeave={() => point(null, null)}>{pairName(shown, row, column)}</button>
            <span>{signed(value)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Table({ shown }: { shown: Similarity }) {
  const pairs = bestPairs(shown, TABLED);
  const [first, second] = shown.tokens;
  const rows = pairs.map(([row, column, value]) => [first[row].text, second[column].text, value, `${number((100 * value) / shown.similarity, 3)}%`]);
  const caption = rows.length < shown.cells.length ? `The ${rows.length} largest of ${shown.cells.length} cells` : "Every cell, the largest first";
  return <DataTable caption={caption} rows={[["first text", "second text", "of the sum", "share"], ...rows]} heading={0} />;
}

function Scale({ most, dark }: { most: number; dark: boolean }) {
  return (
    <span class="sim-scale" aria-label={`colours from ${signed(-most)}, blue, to ${signed(most)}, orange`} role="img">
      {signed(-most)}<i style={{ background: Heatmap.gradient(dark) }} />{signed(most)}
    </span>
  );
}

const clamped = (state: SimilarityState, { tokens: [first, second] }: Similarity): SimilarityState => ({
  ...state,
  row: state.row !== null && state.row < first.length ? state.row : null,
  column: state.column !== null && state.column < second.length ? state.column : null,
});

const signed = (x: number): string => `${x > 0 ? "+" : ""}${number(x, 3)}`;

const pairName = ({ tokens: [first, second] }: Similarity, row: number, column: number): string => `${visible(first[row].text)} · ${visible(second[column].text)}`;

/** Pairs with the largest absolute numbers: row, column, number. */
function bestPairs({ cells, tokens: [, second] }: Similarity, count: number): [number, number, number][] {
  const order = Array.from(cells.keys()).sort((a, b) => Math.abs(cells[b]) - Math.abs(cells[a]));
  return order.slice(0, count).map((at) => [Math.floor(at / second.length), at % second.length, cells[at]]);
}

/** The similarity, and the pair of words that adds most to it. */
function findingOf(shown: Similarity): string {
  const [first, second] = shown.tokens;
  const best = bestPairs(shown, Infinity).find(([row, column, value]) => value > 0 && !first[row].special && !second[column].special);
  const whole = `The ${MEASURES[shown.measure]} of the two texts is ${number(shown.similarity, 3)}`;
  if (!best) return `${whole}: no pair of words adds to it.`;
  const [row, column, value] = best;
  return `${whole}: “${visible(first[row].text)}” and “${visible(second[column].text)}” add most, ${signed(value)}.`;
}

/** For the live region. */
function sentence(shown: Similarity, row: number, column: number): string {
  const value = shown.cells[row * shown.tokens[1].length + column];
  let rank = 1;
  for (const other of shown.cells) if (Math.abs(other) > Math.abs(value)) rank++;
  return `${pairName(shown, row, column)}: ${number(value, 4)} of ${number(shown.similarity, 4)}, rank ${rank} of ${shown.cells.length}`;
}

export const view: ViewModule = {
  name: "similarity", title: "Similarity", alone: true, fresh: true,
  sentence: "What each pair of words adds to the similarity of the two texts: orange adds, blue subtracts, and all cells sum to it. Point for the exact number.",
  Component: SimilarityView,
};
