/**
 * Route view: what the vector of a token is made of after each layer.
 *
 *     layers × parts     there before, each head, feed-forward, biases: shares that add up to 100%
 *     layers × tokens    what the heads brought, by the token that they read
 */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { PAPER, SANS, toPng, toSvg } from "../core/figure";
import { count, number, visible } from "../core/format";
import type { ViewProps } from "../core/types";
import { mapOf } from "../core/url-state";
import { useAnswer } from "../ui/answer";
import { DataTable } from "../ui/data-table";
import { type CellPlace, HeatMap, heatMapFigure, type Matrix, stacked } from "../ui/heat-map";
import type { ViewModule } from "../ui/view-module";
import { diverging } from "./neuron/diverging-colours";
import "./route.css";

/** A report as it travels: see inspect/route.py. */
interface Route {
  stream: string; token: number; names: string[]; parts: string[]; map: string; finding: string; gap: number;
  shares: Float32Array; tokens: Float32Array; lengths: Float32Array; turned: Float32Array; layers: number;
}

/** Columns of the map of tokens, at most: of a longer text, those that gave most. */
const TOKENS = 64;
const [INK, PICTURE] = ["#10202c", 900];
const signed = (share: number) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(Math.abs(share) < 0.0995 ? 1 : 0)}%`;

function RouteView(props: ViewProps) {
  const { session, state, set } = props;
  const asked = state.value.chosen.stream;
  const streams = Object.keys(session.streams);
  const stream = asked !== undefined && streams.includes(asked) ? asked : null;
  const own = session.maps.filter(({ queries }) => queries === (stream ?? streams.at(-1)));
  const here = own.some(({ name }) => name === mapOf(session, state.value.map).name);
  const token = here ? state.value.query : null;
  const [frame, otherwise] = useAnswer(props, "route", { token, stream }, "Following the token…");
  // What is on screen stays until the next answer is there: what has the focus must not vanish.
  const last = useRef<Route | null>(null);
  const answer = useMemo(() => frame && ({ ...frame.header, ...frame.arrays, layers: frame.shapes.shares[0] }) as unknown as Route, [frame]);
  if (answer) last.current = answer;
  const shown = last.current;
  const follow = (at: number) => set({ query: at, ...(here ? {} : { map: own[0]?.name ?? state.peek().map }) });
  return (
    <div class="route">
      <div class="route-tools">
        {streams.length > 1 && (
          <label>stream
            <select aria-label="Stream to follow" value={shown?.stream ?? stream ?? streams.at(-1)} onChange={(event) => set({ query: null, chosen: { ...state.peek().chosen, stream: event.currentTarget.value } })}>{streams.map((name) => <option key={name}>{name}</option>)}</select>
          </label>
        )}
        {shown && (
          <label>token
            <select aria-label="Token to follow" value={shown.token} onChange={(event) => follow(Number(event.currentTarget.value))}>{shown.names.map((name, at) => <option key={at} value={at}>{at} {visible(name)}</option>)}</select>
          </label>
        )}
        {otherwise}
      </div>
      {shown && <Shown {...props} shown={shown} />}
    </div>
  );
}

const layerNames = ({ layers }: Route) => Array.from({ length: layers }, (_, at) => `layer ${at}`);

/** The largest number of a list, without its sign; of `before` everything else is small. */
const largest = (values: ArrayLike<number>) => Array.from(values).reduce((most, x) => Math.max(most, Math.abs(x)), 1e-9);

function partsMatrix(shown: Route): Matrix {
  const { shares, parts } = shown;
  const most = largest(shares.filter((_, at) => at % parts.length !== 0));
  return { rows: layerNames(shown), columns: parts, values: shares, colour: (x, dark) => diverging(x / most, dark), written: signed };
}

/** Which tokens have a column, in their order. */
function columnsOf({ tokens, names, layers }: Route): number[] {
  const sums = names.map((_, at) => [Array.from({ length: layers }, (_, layer) => Math.abs(tokens[layer * names.length + at])).reduce((a, b) => a + b, 0), at]);
  return sums.sort((a, b) => b[0] - a[0]).slice(0, TOKENS).map(([, at]) => at).sort((a, b) => a - b);
}

function tokensMatrix(shown: Route, columns: number[]): Matrix {
  const values = Float32Array.from({ length: shown.layers * columns.length }, (_, at) => shown.tokens[Math.floor(at / columns.length) * shown.names.length + columns[at % columns.length]]);
  const most = largest(values);
  return { rows: layerNames(shown), columns: columns.map((at) => shown.names[at]), values, colour: (x, dark) => diverging(x / most, dark), written: signed };
}

function tableOf({ layers, parts, names, shares, tokens, lengths, turned }: Route): (string | number)[][] {
  const rows: (string | number)[][] = [["layer", "length", "cosine with before", ...parts, ...names.map((name, at) => `token ${at} ${visible(name)}`)]];
  for (let layer = 0; layer < layers; layer++) rows.push([layer, lengths[layer + 1], turned[layer], ...shares.subarray(layer * parts.length, (layer + 1) * parts.length), ...tokens.subarray(layer * names.length, (layer + 1) * names.length)]);
  return rows;
}

function Shown(props: ViewProps & { shown: Route }) {
  const { shown, set, say, dark, exports, session } = props;
  const { parts, names, shares, lengths, turned, token, finding, gap } = shown;
  const part = useSignal<CellPlace | null>(null);
  const read = useSignal<CellPlace | null>(null);
  const tabled = useSignal(false);
  const columns = useMemo(() => columnsOf(shown), [shown]);
  const byPart = useMemo(() => partsMatrix(shown), [shown]);
  const byToken = useMemo(() => tokensMatrix(shown, columns), [shown]);
  const rows = useMemo(() => tableOf(shown), [shown]);
  const partText = ([layer, at]: CellPlace) => `layer ${layer}, ${parts[at]}: ${signed(shares[layer * parts.length + at])} of the vector, whose length is ${number(lengths[layer + 1], 3)} (before ${number(lengths[layer], 3)}, cosine ${number(turned[layer], 2)})`;
  const tokenText = ([layer, at]: CellPlace) => `layer ${layer}, heads that read ${visible(names[columns[at]])}: ${signed(byToken.values[layer * columns.length + at])} of the vector`;
  const headOf = ([, at]: CellPlace) => /^head (\d+)$/.exec(parts[at])?.[1];
  const open = (place: CellPlace) => {
    const head = headOf(place);
    if (head !== undefined) set({ view: "head", map: shown.map, layers: [place[0], place[0]], heads: [Number(head)], query: token, key: null });
  };
  useEffect(() => {
    [part.value, read.value] = [null, null];
    const figure = () => stacked([
      [finding, heatMapFigure(byPart, PICTURE, INK, false)],
      ["What the heads brought, by the token that they read", heatMapFigure(byToken, PICTURE, INK, false)],
    ], INK, `${session.model.name} · ${session.model.revision} · text ${session.text_hash}`);
    exports({ name: `route-token${token}`, finding: () => finding, png: () => toPng(figure(), PAPER, SANS), svg: () => toSvg(figure(), PAPER, SANS), table: () => rows });
    return () => exports(null);
  }, [shown]);
  const told = (into: { value: CellPlace | null }, text: (place: CellPlace) => string) => (place: CellPlace | null) => {
    into.value = place;
    if (place) say(text(place));
  };
  return (
    <>
      <section class="route-card" aria-label="Parts">
        <h3>What the vector is made of after each layer</h3>
        <HeatMap key={`${shown.stream}/${token}`} matrix={byPart} label="layers × parts" dark={dark.value} pinned={null} point={told(part, partText)} pin={open} />
        <p class="route-exact">{part.value ? partText(part.value) : "Each row adds up to 100%: orange points along the vector, blue against it. A click on a head opens it."}</p>
      </section>
      <section class="route-card" aria-label="Tokens">
        <h3>What the heads brought, by the token that they read{columns.length < names.length && <small> the {columns.length} of {count(names.length)} tokens that gave most</small>}</h3>
        <HeatMap key={`${shown.stream}/${token}/tokens`} matrix={byToken} label="layers × tokens" dark={dark.value} pinned={null} point={told(read, tokenText)} />
        <p class="route-exact">{read.value ? tokenText(read.value) : "The tokens of a row add up to its heads."}</p>
      </section>
      {gap > 0.01 && <p class="hint">The numbers of this precision add up to within {signed(gap).slice(1)}.</p>}
      <p class="hint"><button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button></p>
      {tabled.value && <DataTable caption={`Shares of the vector of ${visible(names[token])}, layer by layer`} rows={rows.map((row) => row.slice(0, 3 + parts.length))} />}
    </>
  );
}

export const view: ViewModule = {
  name: "route", title: "Route", alone: true, fresh: true,
  sentence: "One token's way through the layers: what its vector is made of after each, by head, by feed-forward layer, and by the token that was read.",
  Component: RouteView,
};
