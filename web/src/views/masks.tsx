/**
 * Masks view: which token may attend to which, and how positions enter, at any size; and the model's own.
 *
 *     all of them, small ── one is chosen ──> large: row = the token that attends, column = the one attended to
 */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { PAPER, SANS, toPng, toSvg } from "../core/figure";
import { capital, count, number, percent } from "../core/format";
import { heatColour } from "../core/palette";
import type { ViewProps } from "../core/types";
import { useAnswer } from "../ui/answer";
import { DataTable } from "../ui/data-table";
import { type CellPlace, HeatMap, heatMapFigure, type Matrix, stacked } from "../ui/heat-map";
import type { ViewModule } from "../ui/view-module";
import "./masks.css";
import { diverging } from "./neuron/diverging-colours";

/** Numbers of the request, with their defaults: see MasksRequest in explorer/requests.py. */
const NUMBERS: Record<string, number> = { tokens: 20, window: 3, texts: 3, padding: 4, reading: 2, random: 3, block: 2, seed: 0, layer: 0, head: 0, heads: 8, width: 32 };
/** Numbers that count tokens, of which there are no more than all. */
const COUNTS = ["texts", "padding", "reading", "random"];
const GROUPS = { model: "This model", mask: "Masks", position: "Positions" } as const;
const WORDS: Record<string, string> = { reading: "global tokens", random: "random tokens", block: "tokens of a block", padding: "padding", heads: "heads", width: "width" };
const [INK, PICTURE, TABLED] = ["#10202c", 900, 400];

interface Pattern {
  group: keyof typeof GROUPS;
  name: string;
  rule: string;
  mask: boolean;
  pairs: number | null;
  /** Rows and columns of the matrix in a cell. */
  step: [number, number];
  /** Numbers that it depends on, besides `tokens`. */
  options: string[];
  values: Float32Array;
  height: number;
  width: number;
}

const keyOf = ({ group, name }: Pattern) => (group === "model" ? `own ${name}` : name);

function colourOf({ mask, values }: Pattern): Matrix["colour"] {
  if (mask) return (x, dark) => `rgb(${heatColour(0.68 * x, dark).join(", ")})`;
  let [low, high] = [0, 1e-9];
  for (const x of values) [low, high] = [Math.min(low, x), Math.max(high, x)];
  const most = Math.max(-low, high);
  return low < 0 ? (x, dark) => diverging(x / most, dark) : (x, dark) => `rgb(${heatColour(x / high, dark).join(", ")})`;
}

const squareOf = ({ height, width }: Pattern) => height === width;
const places = (size: number, step: number) => Array.from({ length: size }, (_, at) => String(at * step));

function matrixOf(pattern: Pattern): Matrix {
  const { values, height, width, step, mask } = pattern;
  return {
    rows: places(height, step[0]), columns: places(width, step[1]), values, colour: colourOf(pattern), square: squareOf(pattern) || width > 24,
    written: mask ? undefined : (x) => (Number.isInteger(x) ? String(x).replace("-", "−") : number(x, 2)), hatched: mask ? (x) => x === 0 : undefined,
  };
}

/** Of a pattern of the model, that its size is as the numbers are set, and not that of the text. */
function sizeOf({ group, options }: Pattern, value: (name: string) => number, streams: unknown[][]): string {
  if (group !== "model") return "";
  const padded = options.includes("padding") && value("padding") > 0;
  const own = streams.length === 1 ? `; this text has ${count(streams[0].length)}${padded ? ", and no padding" : ""}` : "";
  return ` of ${count(value("tokens"))} tokens${padded ? `, ${count(value("padding"))} of them padding` : ""}, as set below${own}`;
}

function sentenceOf({ mask, values, height, width, step, name }: Pattern, [row, column]: CellPlace): string {
  const [t, s, value] = [row * step[0], column * step[1], values[row * width + column]];
  if (mask && step[0] * step[1] > 1) return `tokens from ${t}, to tokens from ${s}: ${percent(value)} of the pairs attend`;
  if (mask) return `token ${t} ${value ? "may attend" : "may not attend"} to token ${s}`;
  if (height === width && /bias$|buckets|ALiBi/.test(name)) return `token ${t} to token ${s}: ${number(value)}`;
  return `position ${t}, number ${s}: ${number(value)}`;
}

function MasksView(props: ViewProps) {
  const { state, set } = props;
  const { chosen } = state.value;
  const given = (name: string) => (/^\d{1,6}$/.test(chosen[name] ?? "") ? Number(chosen[name]) : NUMBERS[name]);
  const wanted = (name: string) => (COUNTS.includes(name) && !(name in chosen) ? Math.min(given(name), given("tokens")) : given(name));
  const request = Object.fromEntries(Object.keys(NUMBERS).map((name) => [name, wanted(name)] as const).filter(([name, value]) => value !== NUMBERS[name]));
  const [frame, otherwise] = useAnswer(props, "masks", request, "Drawing…");
  const last = useRef<Pattern[]>([]);
  const patterns = useMemo(() => frame && (frame.header.patterns as Pattern[]).map((each, at) => {
    const [height, width] = frame.shapes[at];
    return { ...each, values: frame.arrays[at] as Float32Array, height, width };
  }), [frame]);
  if (patterns) last.current = patterns;
  const all = last.current;
  const shown = all.find((each) => keyOf(each) === chosen.pattern) ?? all[0];
  const change = (name: string, value: string) => {
    const { [name]: _, ...rest } = state.peek().chosen;
    set({ chosen: value === String(NUMBERS[name]) ? rest : { ...rest, [name]: value } });
  };
  if (!shown) return otherwise;
  return (
    <div class="masks">
      <Gallery {...props} all={all} shown={shown} choose={(each) => set({ chosen: { ...state.peek().chosen, pattern: keyOf(each) } })} />
      <section class="masks-card" aria-label={shown.name}>
        <Numbers shown={shown} value={(name) => chosen[name] ?? String(NUMBERS[name])} change={change} />
        {otherwise}
        <Large {...props} shown={shown} size={sizeOf(shown, wanted, Object.values(props.session.streams))} />
      </section>
    </div>
  );
}

/** The sizes of what is chosen. */
function Numbers({ shown, value, change }: { shown: Pattern; value(name: string): string; change(name: string, value: string): void }) {
  return (
    <div class="masks-numbers">
      {["tokens", ...shown.options].map((name) => (
        <label key={name}><span>{WORDS[name] ?? name}</span><input type="number" min={0} max={4096} value={value(name)} onChange={(event) => change(name, event.currentTarget.value)} /></label>
      ))}
    </div>
  );
}

function Gallery({ all, shown, choose, dark }: ViewProps & { all: Pattern[]; shown: Pattern; choose(pattern: Pattern): void }) {
  return (
    <div class="masks-gallery">
      {(Object.keys(GROUPS) as (keyof typeof GROUPS)[]).map((group) => (
        <section key={group} aria-label={GROUPS[group]}>
          <h3>{GROUPS[group]}</h3>
          <div>
            {all.filter((each) => each.group === group).map((each) => (
              <button key={keyOf(each)} class="masks-small" aria-pressed={keyOf(each) === keyOf(shown)} title={each.rule} onClick={() => choose(each)}>
                <Small pattern={each} dark={dark.value} />
                {each.name}
              </button>
            ))}
          </div>
        </section>
      ))}
    </div>
  );
}

function Small({ pattern, dark }: { pattern: Pattern; dark: boolean }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const { values, height, width } = pattern;
    const element = canvas.current!;
    [element.width, element.height] = [width, height];
    const colour = colourOf(pattern);
    const pixels = new ImageData(width, height);
    values.forEach((value, at) => pixels.data.set([...(colour(value, dark).match(/\d+/g) ?? []).map(Number), 255], 4 * at));
    element.getContext("2d")!.putImageData(pixels, 0, 0);
  }, [pattern, dark]);
  return <canvas ref={canvas} aria-hidden="true" />;
}

function Large({ shown, size, dark, say, exports, session }: ViewProps & { shown: Pattern; size: string }) {
  const pointed = useSignal<CellPlace | null>(null);
  const tabled = useSignal(false);
  const matrix = useMemo(() => matrixOf(shown), [shown]);
  const { name, rule, pairs, step, height, width } = shown;
  const cells = height * step[0] * width * step[1];
  const whole = step[0] * step[1] === 1;
  const facts = pairs === null ? rule : `${rule}. ${count(pairs)}${whole ? ` of ${count(cells)}` : ""} pairs attend${whole ? `: ${percent(pairs / cells)}` : ""}.`;
  const rows = useMemo(() => {
    const written: (string | number)[][] = [[shown.mask ? "attends" : "row", shown.mask ? "to" : "column", "value"]];
    matrix.rows.forEach((t, row) => matrix.columns.forEach((s, column) => written.push([t, s, shown.values[row * width + column]])));
    return written;
  }, [shown]);
  useEffect(() => {
    const figure = () => stacked([[`${name}: ${rule}`, heatMapFigure(matrix, PICTURE, INK, false)]], INK, shown.group === "model" ? `${session.model.name} · ${session.model.revision}` : "");
    exports({ name: `mask-${name.replaceAll(" ", "-")}`, finding: () => `${capital(name)}${size}: ${facts}`, png: () => toPng(figure(), PAPER, SANS), svg: () => toSvg(figure(), PAPER, SANS), table: () => rows });
    return () => exports(null);
  }, [matrix, size]);
  useEffect(() => {
    pointed.value = null;
  }, [shown]);
  return (
    <>
      <h3>{shown.group === "model" ? `This model: ${name}` : name}</h3>
      {!whole && <p class="hint">Of {step.join(" × ")} a cell shows {shown.mask ? "the share that attends" : "the first"}.</p>}
      <HeatMap key={keyOf(shown)} matrix={matrix} label={`${name}: ${height} × ${width}`} dark={dark.value} pinned={null} point={(place) => {
        pointed.value = place;
        if (place) say(sentenceOf(shown, place));
      }} />
      <p class="masks-exact">{pointed.value ? sentenceOf(shown, pointed.value) : shown.mask ? "Row: the token that attends; column: the one attended to. Hatched: hidden. Tap or point at a cell." : "Tap or point at a cell."}</p>
      <p class="hint"><button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button></p>
      {tabled.value && <DataTable caption={rows.length > TABLED + 1 ? `${TABLED} of ${count(rows.length - 1)} cells; all of them in the CSV file` : `${count(rows.length - 1)} cells`} rows={rows.slice(0, TABLED + 1)} />}
    </>
  );
}

export const view: ViewModule = {
  name: "masks", title: "Masks", alone: true,
  sentence: "Which token may attend to which, and how positions enter: the model's own, and every other kind, at any size. Choose one.",
  Component: MasksView,
};
