/**
 * Difference view: this pass next to another, of another model, precision or text.
 *
 *     levels × tokens    how far vectors are apart, and where they first part
 *     layers × heads     how much attention a head moves ── one is chosen ──> queries × keys: more here, less there
 */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { BinaryFrame } from "../core/binary-frame";
import { PAPER, SANS, toPng, toSvg } from "../core/figure";
import { percent, plural, visible } from "../core/format";
import { heatColour } from "../core/palette";
import type { Session, ViewProps } from "../core/types";
import { useAnswer } from "../ui/answer";
import { DataTable } from "../ui/data-table";
import { type CellPlace, HeatMap, heatMapFigure, type Matrix, stacked } from "../ui/heat-map";
import { Segments, useChoice } from "../ui/segments";
import type { ViewModule, WorkProps } from "../ui/view-module";
import "./difference.css";
import { diverging } from "./neuron/diverging-colours";

const THRESHOLDS = ["1%", "0.1%", "10%"] as const;
const MEASURES = ["distance", "length"] as const;
const [INK, PICTURE, LISTED] = ["#10202c", 900, 6];

type Pair = [own: string, other: string];

/** As inspect/difference.py describes it. */
interface Difference {
  names: [string, string];
  queries: Pair[];
  keys: Pair[];
  left_out: [number, number];
  levels: string[];
  bins: [number, number];
  /** [levels, queries] */
  distance: Float32Array;
  length: Float32Array;
  /** [layers, heads] */
  heads: Float32Array;
  layers: number;
  /** Of a head: [n, m]. */
  shift(layer: number, head: number): { values: Float32Array; height: number; width: number };
}

function differenceOf({ header, arrays, shapes }: BinaryFrame): Difference {
  const [layers, heads, height, width] = shapes.shifts;
  const scale = arrays.scale as Float32Array;
  const size = height * width;
  const shift = (layer: number, head: number) => {
    const at = layer * heads + head;
    const bytes = (arrays.shifts as Uint8Array).subarray(at * size, (at + 1) * size);
    return { values: Float32Array.from(bytes, (byte) => ((byte - 127) / 127) * scale[at]), height, width };
  };
  return { ...(header as unknown as Difference), distance: arrays.distance as Float32Array, length: arrays.length as Float32Array, heads: arrays.heads as Float32Array, layers, shift };
}

/** A pair of tokens as one word, or as two where they differ. */
const named = ([own, other]: Pair): string => (own === other ? own : `${visible(own)} / ${visible(other)}`);
/** Of the tokens of a bin the first, and how many more. */
const binned = (pairs: Pair[], size: number, count: number): string[] => Array.from({ length: count }, (_, at) => named(pairs[at * size]));
const signedPercent = (x: number): string => (x < 0 ? `−${percent(-x)}` : `+${percent(x)}`).replace(/^[+−](?=0%$|<)/, "");
const largest = (values: ArrayLike<number>): number => Array.prototype.reduce.call(values, (most: unknown, x: unknown) => Math.max(most as number, Math.abs(x as number)), 0) as number;
const largestAt = (values: ArrayLike<number>): number => {
  let best = 0;
  for (let at = 1; at < values.length; at++) if (Math.abs(values[at]) > Math.abs(values[best])) best = at;
  return best;
};

/** The first level with a vector further apart than the threshold, and its token with the largest distance. */
function parting({ distance, levels, queries }: Difference, threshold: number): CellPlace | null {
  for (let level = 0; level < levels.length; level++) {
    const row = distance.subarray(level * queries.length, (level + 1) * queries.length);
    const at = largestAt(row);
    if (row[at] > threshold) return [level, at];
  }
  return null;
}

/** What the model itself is compared with, if not a precision or a text. */
const [MODEL, TEXT] = ["", "text"];

function DifferenceView(props: WorkProps) {
  const { session, state, set, transport } = props;
  const { against, precisions, modality } = session.model;
  const other = state.value.chosen.other ?? "";
  const precision = state.value.chosen.precision ?? "";
  const [writing, setWriting] = useState(other !== "" || (against === null && precision === ""));
  const compare = (by: { other?: string; precision?: string }) => {
    const { other: _, precision: __, ...rest } = state.peek().chosen;
    set({ chosen: { ...rest, ...by } });
  };
  const choose = (each: string) => {
    setWriting(each === TEXT);
    if (each !== TEXT) compare(each === MODEL ? {} : { precision: each });
  };
  const choices = [...(against === null ? [] : [MODEL]), ...precisions.filter((each) => each !== against), ...(modality === null ? [TEXT] : [])];
  const several = session.maps.length > 1;
  const asked = other !== "" || precision !== "" || against !== null || transport.host === "page";
  return (
    <div class="diff">
      {transport.host === "server" && (
        <div class="diff-tools">
          {choices.length > 1 && (
            <div class="diff-choice"><span aria-hidden="true">compare with</span><Segments legend="Compare with" name="with" values={choices} value={writing ? TEXT : precision} set={choose}
              text={(each) => (each === MODEL ? against : each === TEXT ? "another text" : each)} /></div>
          )}
          {writing && modality === null && <OtherText key={other} chosen={other} compare={(text) => compare(text ? { other: text } : {})} />}
          {several && props.choice}
        </div>
      )}
      {asked
        ? <Answered {...props} other={other || null} precision={precision || null} map={several ? state.value.map : null} />
        : <Nothing session={session} compare={(text) => compare({ other: text })} />}
    </div>
  );
}

/** Texts to compare with at once, by what a button calls them: of a pair each alone; of one text its words in reverse. */
function suggestions([text, second]: string[]): [name: string, text: string][] {
  if (second) return [["the first text alone", text], ["the second text alone", second]];
  const reversed = text.trim().split(/\s+/).reverse().join(" ");
  return reversed === text.trim() ? [] : [["the same words in reverse", reversed]];
}

/** Before there is another pass: what to compare with. */
function Nothing({ session, compare }: { session: Session; compare(other: string): void }) {
  const { precisions, modality } = session.model;
  const offered = modality === null ? suggestions(session.texts) : [];
  return (
    <div class="diff-empty">
      {precisions.length > 0 && <p>Choose a precision: what do its rounded weights change, layer by layer and head by head?</p>}
      {modality === null && <p>Write another text, such as this one with one word changed.{offered.length > 0 && " Or compare with"}</p>}
      {offered.length > 0 && <p>{offered.map(([name, text]) => <button key={name} title={text} onClick={() => compare(text)}>{name}</button>)}</p>}
    </div>
  );
}

function OtherText({ chosen, compare }: { chosen: string; compare(other: string): void }) {
  const [draft, setDraft] = useState(chosen);
  return (
    <form onSubmit={(event) => (event.preventDefault(), compare(draft.trim()))}>
      <label><span>other text</span><input type="text" value={draft} spellcheck={false} placeholder="A text of as many tokens" onInput={(event) => setDraft(event.currentTarget.value)} /></label>
      <button class="primary">Compare</button>
    </form>
  );
}

function Answered(props: WorkProps & { other: string | null; precision: string | null; map: string | null }) {
  const [frame, otherwise] = useAnswer(props, "difference", { other: props.other, precision: props.precision, map: props.map }, "Comparing every layer…");
  const shown = useMemo(() => frame && differenceOf(frame), [frame]);
  return shown ? <Shown {...props} shown={shown} /> : <>{otherwise}</>;
}

/** Levels × tokens: how far vectors are apart, or how much longer they are. */
function vectorMatrix(shown: Difference, measure: (typeof MEASURES)[number]): Matrix {
  const values = shown[measure];
  const most = largest(values) || 1;
  return {
    rows: shown.levels, columns: shown.queries.map(named), values,
    colour: (x, dark) => (measure === "length" ? diverging(x / most, dark) : `rgb(${heatColour(x / most, dark).join(", ")})`),
    written: (x) => (Math.abs(x) < 5e-4 ? "0%" : measure === "length" ? signedPercent(x) : percent(x)),
  };
}

function headMatrix({ heads, layers }: Difference): Matrix {
  const most = largest(heads) || 1;
  const names = (count: number) => Array.from({ length: count }, (_, at) => String(at));
  return { rows: names(layers).map((name) => `layer ${name}`), columns: names(heads.length / layers), values: heads, colour: (x, dark) => `rgb(${heatColour(x / most, dark).join(", ")})`, written: percent };
}

function shiftMatrix(shown: Difference, [layer, head]: CellPlace): Matrix {
  const { values, height, width } = shown.shift(layer, head);
  const most = largest(values) || 1;
  return { rows: binned(shown.queries, shown.bins[0], height), columns: binned(shown.keys, shown.bins[1], width), values, colour: (x, dark) => diverging(x / most, dark), square: true };
}

function Shown(props: ViewProps & { shown: Difference; other: string | null }) {
  const { shown, state, set, say, dark, exports, session } = props;
  const [threshold, setThreshold] = useChoice(props, "threshold", THRESHOLDS);
  const [measure, setMeasure] = useChoice(props, "measure", MEASURES);
  const cell = useSignal<CellPlace | null>(null);
  const pointed = useSignal<CellPlace | null>(null);
  const pointedHead = useSignal<CellPlace | null>(null);
  const moved = useSignal<CellPlace | null>(null);
  const tabled = useSignal(false);
  const heads = shown.heads.length / shown.layers;
  const asked = (state.value.chosen.head ?? "").split(".").map(Number);
  const strongest = largestAt(shown.heads);
  const head: CellPlace = asked.length === 2 && asked[0] < shown.layers && asked[1] < heads ? [asked[0], asked[1]] : [Math.floor(strongest / heads), strongest % heads];
  const first = parting(shown, parseFloat(threshold) / 100);
  const vectors = useMemo(() => vectorMatrix(shown, measure), [shown, measure]);
  const grid = useMemo(() => headMatrix(shown), [shown]);
  const map = useMemo(() => shiftMatrix(shown, head), [shown, head.join()]);
  const rows = useMemo(() => tableOf(shown), [shown]);
  const [a, b] = props.other ? ["this text", "the other text"] : shown.names;
  const at = ([row, column]: CellPlace) => row * shown.queries.length + column;
  const vectorText = (place: CellPlace) => `${vectors.rows[place[0]]}, ${named(shown.queries[place[1]])}: ${percent(shown.distance[at(place)])} apart, length ${signedPercent(shown.length[at(place)])}`;
  const headText = ([layer, number]: CellPlace) => `layer ${layer}, head ${number}: ${percent(shown.heads[layer * heads + number])} of its attention moved`;
  const moveText = ([row, column]: CellPlace) => `${visible(map.rows[row])} → ${visible(map.columns[column])}: ${signedPercent(map.values[row * map.columns.length + column])}`;
  const sentence = first
    ? `${props.other ? "The texts part" : `${b} parts from ${a}`} at ${first[0] ? "" : "the "}${shown.levels[first[0]]}, at “${named(shown.queries[first[1]])}”: its vector is ${percent(shown.distance[at(first)])} of its length away.`
    : `No vector of ${b} is more than ${threshold} of its length away from that of ${a}; the largest distance is ${percent(largest(shown.distance))}.`;
  const choose = (place: CellPlace) => {
    set({ chosen: { ...state.peek().chosen, head: place.join(".") }, layers: [place[0], place[0]], heads: [place[1]] });
    say(headText(place));
  };
  useEffect(() => say(sentence), [sentence]);
  useEffect(() => {
    const figure = () => stacked([
      [measure === "length" ? `Length of vectors, ${b} − ${a}` : `Distance of vectors, ${a} and ${b}`, heatMapFigure(vectors, PICTURE, INK, false)],
      ["Attention moved", heatMapFigure(grid, PICTURE, INK, false)],
      [`Layer ${head[0]}, head ${head[1]}: where to`, heatMapFigure(map, PICTURE, INK, false)],
    ], INK, `${session.model.name} · ${session.model.revision} · text ${session.text_hash}`);
    exports({ name: "difference", finding: () => sentence, png: () => toPng(figure(), PAPER, SANS), svg: () => toSvg(figure(), PAPER, SANS), table: () => rows });
    return () => exports(null);
  }, [vectors, map, sentence]);
  const pairs = Array.from(map.values, (value, index) => [Math.abs(value), index]).sort((x, y) => y[0] - x[0]).slice(0, LISTED).map(([, index]) => index);
  const night = dark.value;
  const told = (matrix: { value: CellPlace | null }, text: (place: CellPlace) => string) => (place: CellPlace | null) => {
    matrix.value = place;
    if (place) say(text(place));
  };
  return (
    <>
      <div class="diff-head">
        <div class="diff-choice"><span aria-hidden="true">parted: further apart than</span><Segments legend="Parted: further apart than" name="threshold" values={THRESHOLDS} value={threshold} set={setThreshold} /></div>
      </div>
      <div class="diff-body">
        <section class="diff-card" aria-label="Vectors">
          <header><h3>Vectors, level by level</h3><Segments legend="What of the vectors" name="measure" values={MEASURES} value={measure} set={setMeasure} /></header>
          <HeatMap matrix={vectors} label={`Vectors: ${shown.levels.length} levels, ${plural(shown.queries.length, "token")}`} dark={night} pinned={cell.value ?? first} point={told(pointed, vectorText)} pin={(place) => (cell.value = place.join() === cell.value?.join() ? null : place)} />
          <p class="diff-exact">{pointed.value ?? cell.value ?? first ? vectorText((pointed.value ?? cell.value ?? first)!) : "Tap or point at a cell."}</p>
          <Legend most={largest(shown[measure])} signed={measure === "length"} dark={night} />
        </section>
        <section class="diff-card" aria-label="Heads">
          <header><h3>Heads: attention moved</h3></header>
          <HeatMap matrix={grid} label={`Heads: ${shown.layers} layers, ${heads} heads`} dark={night} pinned={head} point={told(pointedHead, headText)} pin={choose} />
          <p class="diff-exact">{headText(pointedHead.value ?? head)}</p>
          <Legend most={largest(shown.heads)} signed={false} dark={night} />
        </section>
        <section class="diff-card" aria-label="Where attention moves">
          <header><h3>Layer {head[0]}, head {head[1]}: where to</h3></header>
          <HeatMap matrix={map} label={`Attention moved by layer ${head[0]}, head ${head[1]}: ${map.rows.length} × ${map.columns.length}`} dark={night} pinned={null} point={told(moved, moveText)} />
          <p class="diff-exact">{moved.value ? moveText(moved.value) : "Tap or point at a cell."}</p>
          <Legend most={largest(map.values)} signed dark={night} />
        </section>
        <section class="diff-card" aria-label="Largest changes">
          <header><h3>Largest changes of this head</h3></header>
          <ol class="diff-list">{pairs.map((index) => <li key={index}>{moveText([Math.floor(index / map.columns.length), index % map.columns.length])}</li>)}</ol>
          <p class="hint">
            Orange: {b} attends more; blue: less{shown.bins[0] * shown.bins[1] > 1 && `; a cell is ${shown.bins.join(" × ")} tokens, with the largest change`}.
            {shown.left_out.some((each) => each > 0) && ` Without a pair: ${plural(shown.left_out[0], "token")} of the first text, ${shown.left_out[1]} of the second.`}
          </p>
          <p class="hint"><button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button></p>
        </section>
      </div>
      {tabled.value && <DataTable caption={`${rows.length - 1} vectors and heads`} rows={rows} />}
    </>
  );
}

function Legend({ most, signed, dark }: { most: number; signed: boolean; dark: boolean }) {
  const stops = signed ? [-1, -0.5, 0, 0.5, 1].map((t) => diverging(t, dark)) : [0, 0.25, 0.5, 0.75, 1].map((t) => `rgb(${heatColour(t, dark).join(", ")})`);
  const low = signed ? signedPercent(-most) : "0%";
  return <p class="diff-legend"><span class="unseen">Colours from </span>{low}<i aria-hidden="true" style={{ background: `linear-gradient(90deg, ${stops.join(", ")})` }} /><span class="unseen"> to </span>{signed ? signedPercent(most) : percent(most)}</p>;
}

function tableOf({ levels, queries, distance, length, heads, layers }: Difference): (string | number)[][] {
  const rows: (string | number)[][] = [["where", "what", "difference", "length"]];
  levels.forEach((level, row) => queries.forEach((pair, column) => rows.push([level, named(pair), distance[row * queries.length + column], length[row * queries.length + column]])));
  heads.forEach((value, at) => rows.push([`layer ${Math.floor(at / (heads.length / layers))}`, `head ${at % (heads.length / layers)}`, value, ""]));
  return rows;
}

export const view: ViewModule = {
  name: "difference", title: "Difference", alone: true, fresh: true,
  sentence: "This pass next to another, of another model, precision or text: where vectors part, which heads differ, and where their attention goes instead.",
  Component: DifferenceView,
};
