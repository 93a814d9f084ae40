/**
 * Architecture view: the tree of modules with repeats folded and what each costs, and a weight as tiles and a histogram.
 *
 *     a weight of the tree ── chosen ──> its tiles (means, blue below zero, orange above) and how its numbers lie
 */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Figure, fitted, PAPER, SANS, toPng, toSvg } from "../core/figure";
import { bytes, count, number, percent } from "../core/format";
import { heatColour } from "../core/palette";
import type { ViewProps } from "../core/types";
import { useAnswer } from "../ui/answer";
import { DataTable } from "../ui/data-table";
import { type CellPlace, HeatMap, heatMapFigure, type Matrix, stacked } from "../ui/heat-map";
import { Segments, useChoice } from "../ui/segments";
import type { ViewModule } from "../ui/view-module";
import "./architecture.css";
import { diverging } from "./neuron/diverging-colours";
import { INK, ON_PAPER, shapesOf, SIZE } from "./quantisation/charts";

/** A report as it travels: see inspect/architecture.py. */
interface Part { name: string; path: string; depth: number; repeats: number; shape: string; parameters: number; bytes: number; flops: number; activations: number | null; zeros: number | null; weights: string[] }
interface Weight { name: string; shape: number[]; stored: string; step: [number, number]; count: number; zeros: number; bad: number; mean: number | null; std: number | null; least: number | null; most: number | null; edges: number[]; counts: number[] }
interface Architecture { texts: string; finding: string; parts: Part[] }
interface Tiles { weight: Weight; tiles: Float32Array; empty: Float32Array; height: number; width: number }

const PICTURE = 900;
/** A share of zeros from which modules have a column of it. */
const SOME_ZEROS = 0.01;
const written = (x: number | null) => number(x ?? NaN);
const leafOf = (name: string) => name.slice(name.lastIndexOf(".") + 1);

/** Flops as 1.2M, 3.4G. */
function amount(x: number): string {
  const unit = ["", "k", "M", "G", "T", "P"].findIndex((_, at) => x < 1000 ** (at + 1));
  return unit < 1 ? count(x) : `${number(x / 1000 ** unit, 3)}${"kMGTP"[unit - 1]}`;
}

/** The numbers of a folded step of a path: "0-2,5" → 0, 1, 2, 5. */
const numbersOf = (range: string) => range.split(",").flatMap((part) => {
  const [first, last = first] = part.split("-").map(Number);
  return Array.from({ length: last - first + 1 }, (_, at) => first + at);
});

/** The folded steps of a path, with the numbers that each stands for. */
const foldsOf = (part: Part) => part.path.split(".").flatMap((step, at) => (/^\d.*[-,]/.test(step) ? [{ at, numbers: numbersOf(step) }] : []));

/** Is a weight on the line that is named by another, of the first of the repeated modules? */
function stands(part: Part, named: string, name: string): boolean {
  const [first, steps] = [named.split("."), name.split(".")];
  for (const { at, numbers } of foldsOf(part)) if (numbers.includes(Number(steps[at]))) steps[at] = first[at];
  return steps.join(".") === named;
}

function ArchitectureView(props: ViewProps) {
  const { state, set } = props;
  const parameter = state.value.chosen.parameter;
  const [tree, counting] = useAnswer(props, "architecture", {}, "Counting…");
  const [frame, otherwise] = useAnswer(props, "weight", { parameter: parameter ?? null }, "Reading the weight…");
  // What is on screen stays until the next answer is there: what has the focus must not vanish.
  const last = useRef<Tiles | null>(null);
  const answer = useMemo(() => {
    if (!frame) return null;
    const [height, width] = frame.shapes.tiles;
    return { weight: frame.header.weight as Weight, tiles: frame.arrays.tiles as Float32Array, empty: frame.arrays.zero_tiles as Float32Array, height, width };
  }, [frame]);
  if (answer) last.current = answer;
  const first = useRef<string | null>(null);
  if (answer && !parameter) first.current = answer.weight.name;
  const shown = last.current;
  const choose = (name: string | null) => {
    const { parameter: _, ...others } = state.peek().chosen;
    set({ chosen: name === null || name === first.current ? others : { ...others, parameter: name } });
  };
  if (!tree) return <div class="arch">{counting}</div>;
  const model = tree.header as unknown as Architecture;
  return (
    <div class="arch">
      <div class="arch-body">
        <Tree model={model} chosen={shown?.weight.name ?? null} choose={choose} />
        <section class="arch-card" aria-label="Weight">
          {otherwise}
          {shown ? <Numbers {...props} model={model} shown={shown} choose={choose} /> : parameter && <p><button onClick={() => choose(null)}>Show the first weight</button></p>}
        </section>
      </div>
    </div>
  );
}

function Tree({ model: { parts, texts }, chosen, choose }: { model: Architecture; chosen: string | null; choose(name: string): void }) {
  const [{ parameters, flops }] = parts;
  const zeros = parts.some((part) => (part.zeros ?? 0) >= SOME_ZEROS);
  return (
    <section class="arch-card" aria-label="Modules">
      <div class="arch-scroll" tabIndex={0} role="region" aria-label="table of modules">
        <table>
          <thead><tr><th scope="col">module</th><th scope="col">parameters</th><th scope="col">weights</th><th scope="col">memory</th><th scope="col">FLOPs</th><th scope="col">activations</th>{zeros && <th scope="col">zeros</th>}</tr></thead>
          <tbody>
            {parts.map((part, row) => {
              const times = foldsOf(part).reduce((all, { numbers }) => all * numbers.length, 1);
              const isOn = (name: string) => chosen !== null && stands(part, name, chosen);
              return (
                <tr key={row} data-on={part.weights.some(isOn) ? "" : undefined} data-weight={part.weights.length ? "" : undefined} onClick={(event) => part.weights.length && !(event.target as Element).closest("button") && choose(part.weights[0])}>
                  <th scope="row" style={{ "--depth": part.depth }} title={part.path}>{part.name}{part.repeats > 1 && <b> × {part.repeats}</b>}</th>
                  <td class="figure">{part.parameters > 0 && <>{count(part.parameters)}<Bar share={part.parameters * times / parameters} /></>}</td>
                  <td>
                    {part.weights.map((name) => <button key={name} aria-pressed={isOn(name)} title={name} onClick={() => choose(name)}>{leafOf(name)}</button>)}
                    <span>{part.shape}</span>
                  </td>
                  <td class="figure">{part.bytes > 0 && bytes(part.bytes)}</td>
                  <td class="figure">{part.flops > 0 && <>{amount(part.flops)}<Bar share={part.flops * times / flops} /></>}</td>
                  <td class="figure">{part.activations !== null && part.activations > 0 && bytes(part.activations)}</td>
                  {zeros && <td class="figure">{part.zeros !== null && <>{percent(part.zeros)}<Bar share={part.zeros} /></>}</td>}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      <p class="hint">Numbers below × N are those of one; bars are shares of the whole model, of all N{zeros && "; zeros: the share of a module's numbers that are exactly 0"}. FLOPs and activations: of {texts}; activations are what a training step keeps.</p>
    </section>
  );
}

const Bar = ({ share }: { share: number }) => <i class="arch-bar" style={{ "--share": share }} title={percent(Math.min(share, 1))} />;

function matrixOf({ tiles, empty, height, width, weight: { step } }: Tiles, zeros: boolean): Matrix {
  let most = 1e-30;
  for (const x of tiles) if (Math.abs(x) > most) most = Math.abs(x);
  const places = (size: number, each: number) => Array.from({ length: size }, (_, at) => String(at * each));
  const shape = { rows: places(height, step[0]), columns: places(width, step[1]), square: width > 16 && height > 1, least: 1.5 };
  if (zeros) return { ...shape, values: empty, colour: (x, dark) => `rgb(${heatColour(x, dark).join(", ")})`, written: (x) => percent(x) };
  return { ...shape, values: tiles, colour: (x, dark) => diverging(x / most, dark), written: (x) => number(x, 2) };
}

function histogramOf({ weight: { edges, counts } }: Tiles) {
  const [low, high] = [edges[0], edges.at(-1)!];
  const inside = low < 0 && high > 0;
  return { title: "numbers", bars: counts, ends: [number(low, 2), inside ? "0" : "", number(high, 2)] as [string, string, string], place: inside ? -low / (high - low) : 0.5, label: `${number(low, 3)} to ${number(high, 3)}` };
}

function factsOf({ count: of, zeros, bad, mean, std, least, most, stored }: Weight): [string, string][] {
  const facts: [string, string][] = [["stored as", stored], ["mean", written(mean)], ["standard deviation", written(std)], ["from", written(least)], ["to", written(most)], ["zeros", `${count(zeros)} (${percent(zeros / of)})`]];
  return bad ? [...facts, ["NaN or infinite", count(bad)]] : facts;
}

function Numbers(props: ViewProps & { model: Architecture; shown: Tiles; choose(name: string): void }) {
  const { model: { parts, finding }, shown, choose, dark, say, exports, session: { model } } = props;
  const { weight, height, width } = shown;
  const [scale, setScale] = useChoice(props, "height", ["linear", "log"]);
  const pointed = useSignal<CellPlace | null>(null);
  const tabled = useSignal(false);
  const [what, setWhat] = useChoice(props, "tiles", ["means", "zeros"]);
  const zeros = what === "zeros" && weight.zeros > 0;
  const matrix = useMemo(() => matrixOf(shown, zeros), [shown, zeros]);
  const chart = histogramOf(shown);
  const [rows, columns] = weight.step;
  const sentence = ([row, column]: CellPlace) => {
    const span = (at: number, step: number) => (step === 1 ? `${at}` : `${at * step}–${at * step + step - 1}`);
    const at = row * width + column;
    return `rows ${span(row, rows)}, columns ${span(column, columns)}: ${zeros ? `${percent(shown.empty[at])} zeros` : number(shown.tiles[at])}`;
  };
  const table = useMemo(() => [
    ["module", "repeats", "shape", "parameters", "memory", "activations", "FLOPs", "zeros"],
    ...parts.map((part) => [part.path || part.name, part.repeats, part.shape, part.parameters, part.bytes, part.activations ?? "", part.flops, part.zeros ?? ""]),
  ], [parts]);
  useEffect(() => {
    pointed.value = null;
    const histogram = (): Figure => ({ ...SIZE, shapes: shapesOf(chart, scale === "log", ON_PAPER) });
    const figure = () => stacked([
      [finding, treeFigure(parts)],
      [`${weight.name}: ${weight.shape.join(" × ")}`, heatMapFigure(matrix, PICTURE, INK, false)],
      [factsOf(weight).map(([name, text]) => `${name} ${text}`).join(" · "), histogram()],
    ], INK, `${model.name} · ${model.revision}`);
    exports({ name: `architecture-${weight.name}`, finding: () => finding, png: () => toPng(figure(), PAPER, SANS), svg: () => toSvg(figure(), PAPER, SANS), table: () => table });
    return () => exports(null);
  }, [matrix, scale]);
  const line = parts.find((part) => part.weights.some((name) => stands(part, name, weight.name)));
  return (
    <>
      <h3>{weight.name} <small>{weight.shape.map(count).join(" × ")}</small></h3>
      {line && foldsOf(line).map(({ at, numbers }) => {
        const names = weight.name.split(".");
        return numbers.includes(Number(names[at])) && (
          <label class="arch-twin" key={at}><span aria-hidden="true">{names.slice(0, at).join(".")}</span>
            <select aria-label={`number in ${names.slice(0, at).join(".")}`} value={names[at]} onChange={(event) => choose([...names.slice(0, at), event.currentTarget.value, ...names.slice(at + 1)].join("."))}>
              {numbers.map((n) => <option key={n}>{n}</option>)}
            </select>
          </label>
        );
      })}
      <dl class="arch-facts">{factsOf(weight).map(([name, text]) => <div key={name}><dt>{name}</dt><dd>{text}</dd></div>)}</dl>
      {weight.zeros > 0 && <Segments legend="What a tile shows" name="tiles" values={["means", "zeros"] as const} value={what} set={setWhat} />}
      <HeatMap key={`${weight.name} ${zeros}`} matrix={matrix} label={`${weight.name}: ${height} × ${width} tiles`} dark={dark.value} pinned={null} point={(place) => {
        pointed.value = place;
        if (place) say(sentence(place));
      }} />
      <p class="arch-exact">{pointed.value ? sentence(pointed.value) : rows * columns > 1 ? `A tile is the ${zeros ? "share of zeros" : "mean"} of ${rows} × ${columns} numbers. Tap or point at one.` : "Tap or point at a number."}</p>
      <header class="arch-head"><h3>How its numbers lie</h3><Segments legend="Heights" name="height" values={["linear", "log"] as const} value={scale} set={setScale} /></header>
      <svg class="arch-chart" viewBox={`0 0 ${SIZE.width} ${SIZE.height}`} role="img" aria-label={`histogram from ${chart.label}`}>
        {shapesOf(chart, scale === "log", { bar: "var(--accent)", line: "var(--warn)", ink: "var(--ink-2)" }).map((shape, key) => (shape.kind === "rect"
          ? <rect key={key} x={shape.x} y={shape.y} width={shape.width} height={shape.height} fill={shape.colour} />
          : shape.kind === "text" && <text key={key} x={shape.x} y={shape.y} dy=".35em" text-anchor={shape.end ? "end" : shape.middle ? "middle" : "start"}>{shape.text}</text>))}
      </svg>
      <p class="hint"><button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button></p>
      {tabled.value && <DataTable caption={`${weight.counts.length} bins of ${count(weight.count - weight.bad)} numbers`} rows={[["from", "to", "numbers"], ...weight.counts.map((n, at) => [weight.edges[at], weight.edges[at + 1], n])]} />}
    </>
  );
}

/** The tree as text, for a picture. */
function treeFigure(parts: Part[]): Figure {
  const shapes: Figure["shapes"] = [];
  const cell = (x: number, row: number, text: string, room: number, end = false) => shapes.push({ kind: "text", x, y: 10 + row * 18, text: fitted(text, room, 12), colour: INK, size: 12, end });
  ["parameters", "memory", "FLOPs"].forEach((name, at) => cell(640 + at * 110, 0, name, 110, true));
  parts.forEach((part, at) => {
    cell(part.depth * 14, at + 1, part.name + (part.repeats > 1 ? ` × ${part.repeats}` : ""), 260 - part.depth * 14);
    cell(270, at + 1, part.shape, 270);
    [part.parameters ? count(part.parameters) : "", part.bytes ? bytes(part.bytes) : "", part.flops ? amount(part.flops) : ""].forEach((text, column) => text && cell(640 + column * 110, at + 1, text, 110, true));
  });
  return { width: PICTURE, height: 18 * (parts.length + 1) + 8, shapes };
}

export const view: ViewModule = {
  name: "architecture", title: "Architecture", alone: true, fresh: true,
  sentence: "The modules of the model, equal ones as one line, and what each costs for this text. Choose a weight to see its numbers.",
  Component: ArchitectureView,
};
