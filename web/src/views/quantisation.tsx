/** Quantisation view: weights and inputs of a layer before and after rounding, their levels, and the errors. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Figure, PAPER, SANS, toPng, toSvg } from "../core/figure";
import { count, number, percent } from "../core/format";
import { shade } from "../core/palette";
import type { ViewProps } from "../core/types";
import { useAnswer } from "../ui/answer";
import { DataTable } from "../ui/data-table";
import { moveFocus } from "../ui/roving-tabindex";
import { Segments, useChoice } from "../ui/segments";
import type { ViewModule } from "../ui/view-module";
import "./lens.css";
import { chartsOf, INK, ON_PAPER, type Rounded, shapesOf, signed, SIZE } from "./quantisation/charts";
import "./quantisation.css";

const HUE = 55;

/** A report as it travels: see inspect/quantisation.py. */
interface Layer { path: string; shape: [number, number]; bits: number | null; weights: number | null; inputs: number | null }
interface Quantised { layer: string; columns: number; stored: boolean; bits: number; weights: Rounded; inputs: Rounded | null; layers: Layer[] }

const WORDS: Record<string, string> = { row: "row", group: "32 weights", tensor: "all", token: "token", symmetric: "Z = 0", affine: "any Z" };

function QuantisationView(props: ViewProps) {
  const [bits, setBits] = useChoice(props, "bits", ["8", "4"]);
  const [scales, setScales] = useChoice(props, "scales", ["row", "group", "tensor"]);
  const [zero, setZero] = useChoice(props, "zero", ["symmetric", "affine"]);
  const [inputs, setInputs] = useChoice(props, "inputs", ["token", "tensor"]);
  const [height, setHeight] = useChoice(props, "height", ["linear", "log"]);
  const { chosen } = props.state.value;
  const request = { layer: chosen.layer ?? null, bits: Number(bits), scales, symmetric: zero === "symmetric", inputs };
  const [frame, otherwise] = useAnswer(props, "quantisation", request, "Rounding…");
  // What is on screen stays until the next answer is there: what has the focus must not vanish.
  const last = useRef<Quantised | null>(null);
  if (frame) last.current = frame.header as unknown as Quantised;
  const shown = last.current;
  const segments = <T extends string>(legend: string, name: string, values: readonly T[], value: T, set: (value: T) => void, off?: (value: T) => boolean) => (
    <label class="quant-choice"><span aria-hidden="true">{legend}</span><Segments legend={legend} name={name} values={values} value={value} set={set} text={(each) => WORDS[each] ?? each} off={off} /></label>
  );
  return (
    <div class="lens quant">
      <div class="lens-tools one-row">
        {!shown?.stored && segments("bits", "bits", ["8", "4"], bits, setBits)}
        {!shown?.stored && segments("a scale for each", "scales", ["row", "group", "tensor"], scales, setScales, (each) => each === "group" && !!shown && shown.columns % 32 > 0)}
        {!shown?.stored && segments("zero point", "zero", ["symmetric", "affine"], zero, setZero)}
        {!shown?.stored && segments("inputs: for each", "inputs", ["token", "tensor"], inputs, setInputs)}
        {segments("heights", "height", ["linear", "log"], height, setHeight)}
      </div>
      {otherwise}
      {shown && (
        <div class="quant-body">
          <Layers {...props} shown={shown} choose={(path) => props.set({ chosen: { ...props.state.peek().chosen, layer: path } })} />
          <Numbers {...props} shown={shown} log={height === "log"} />
        </div>
      )}
    </div>
  );
}

/** Path of a layer: its block, and what it is there. */
const parted = (path: string): [string, string] => {
  const found = /^(.*?\d+)\.(.+)$/.exec(path);
  return found ? [found[1], found[2]] : [path, ""];
};

/** Blocks × layers, shaded by their error: the chooser. */
function Layers(props: ViewProps & { shown: Quantised; choose(path: string): void }) {
  const { shown: { layers, layer }, choose, dark } = props;
  const [of, setOf] = useChoice(props, "error", ["weights", "inputs"]);
  const rows = [...new Set(layers.map(({ path }) => parted(path)[0]))];
  const columns = [...new Set(layers.map(({ path }) => parted(path)[1]).filter(Boolean))];
  const most = Math.max(...layers.map((each) => each[of] ?? 0), 1e-9);
  const known = layers.some((each) => each[of] !== null);
  const cell = (each: Layer) => {
    const error = each[of];
    const text = error !== null ? percent(error) : each.bits ? `${each.bits} bits` : "–";
    return (
      <span role="gridcell" key={each.path} data-cell class={each.path === layer ? "lens-on" : undefined} tabIndex={each.path === layer ? 0 : -1} aria-selected={each.path === layer}
        aria-label={`${each.path}, ${each.shape.join(" × ")}: ${text}`} title={`${each.path}, ${each.shape.map(count).join(" × ")}`} style={{ background: shade((error ?? 0) / most, HUE, dark.value), gridColumn: columns.includes(parted(each.path)[1]) ? undefined : "2 / -1" }}
        onClick={() => choose(each.path)} onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), choose(each.path))}>
        {text}
      </span>
    );
  };
  return (
    <section class="lens-card" aria-label="Layers">
      <header class="quant-head"><h3>{known ? "Error" : "Bits"} of each layer</h3><Segments legend="Error of" name="error" values={["weights", "inputs"] as const} value={of} set={setOf} /></header>
      <div class="lens-scroll">
        <div class="lens-grid" role="grid" aria-label={`${layers.length} layers`} onKeyDown={moveFocus} style={{ "--columns": columns.length || 1 }}>
          <div role="row"><span role="columnheader">layer</span>{columns.map((name) => <span role="columnheader" key={name} title={name}>{name.replaceAll(".", ".\u200b")}</span>)}</div>
          {rows.map((row) => (
            <div role="row" key={row}>
              <span role="rowheader">{row}</span>
              {columns.map((name) => layers.find(({ path }) => path === `${row}.${name}`)).map((each, at) => (each ? cell(each) : layers.some(({ path }) => path === row) ? null : <span role="gridcell" key={at} />))}
              {layers.filter(({ path }) => path === row).map(cell)}
            </div>
          ))}
        </div>
      </div>
      <p class="hint">{known && "Root mean square of what rounding changes, relative to the numbers. "}Choose a layer for its histograms.</p>
    </section>
  );
}

function Numbers(props: ViewProps & { shown: Quantised; log: boolean }) {
  const { shown, log, exports, session: { model, text_hash } } = props;
  const tabled = useSignal(false);
  const shape = shown.layers.find(({ path }) => path === shown.layer)?.shape ?? [];
  const parts: [string, Rounded][] = [[`Weights, ${shape.map(count).join(" × ")}`, shown.weights]];
  if (shown.inputs) parts.push(["Inputs, on this text", shown.inputs]);
  const rows = tableOf(shown);
  useEffect(() => {
    const figure = (): Figure => {
      const shapes: Figure["shapes"] = [];
      parts.forEach(([title, numbers], row) => {
        const top = 28 + row * (SIZE.height + 62);
        shapes.push({ kind: "text", x: 12, y: top - 12, text: title, colour: INK, strong: true });
        chartsOf(numbers).forEach((chart, at) => {
          shapes.push({ kind: "text", x: 12 + at * (SIZE.width + 24), y: top + 8, text: chart.title, colour: INK, size: 12 });
          shapes.push(...shapesOf(chart, log, ON_PAPER, 12 + at * (SIZE.width + 24), top + 20));
        });
      });
      const height = 28 + parts.length * (SIZE.height + 62);
      shapes.push({ kind: "text", x: 12, y: height, text: `${shown.layer} · ${model.name} · ${model.revision} · text ${text_hash}`, colour: INK, size: 10 });
      return { width: 3 * (SIZE.width + 24), height: height + 14, shapes };
    };
    exports({
      name: `quantisation-${shown.layer}`,
      finding: () => `${shown.layer} in ${shown.bits} bits${shown.weights.error === null ? "" : `: weights change by ${percent(shown.weights.error)}`}`,
      png: () => toPng(figure(), PAPER, SANS),
      svg: () => toSvg(figure(), PAPER, SANS),
      table: () => rows,
    });
    return () => exports(null);
  }, [shown, log]);
  return (
    <div class="quant-numbers">
      {shown.stored && <p class="hint">This folder stores the layer as levels. The weights they were made from are not in it, so their error is not known here.</p>}
      {parts.map(([title, numbers], at) => (
        <section class="lens-card" key={at} aria-label={title}>
          <h3>{title} <small>{at ? "" : shown.layer}</small></h3>
          <Facts numbers={numbers} bits={at ? 8 : shown.bits} />
          <div class="quant-charts">
            {chartsOf(numbers).map((chart) => (
              <figure key={chart.title}>
                <figcaption>{chart.title}{chart.outline && <small> <i class="quant-before" /> before <i class="quant-after" /> after</small>}</figcaption>
                <svg viewBox={`0 0 ${SIZE.width} ${SIZE.height}`} role="img" aria-label={`${chart.title}: ${chart.label}`}>
                  {shapesOf(chart, log, { bar: "var(--accent)", line: "var(--warn)", ink: "var(--ink-2)" }).map((shape, key) => (shape.kind === "rect"
                    ? <rect key={key} x={shape.x} y={shape.y} width={shape.width} height={shape.height} fill={shape.colour} />
                    : shape.kind === "path" ? <path key={key} d={shape.d} fill="none" stroke={shape.colour} stroke-width="1.5" />
                    : shape.kind === "text" && <text key={key} x={shape.x} y={shape.y} dy=".35em" text-anchor={shape.end ? "end" : shape.middle ? "middle" : "start"}>{shape.text}</text>))}
                </svg>
              </figure>
            ))}
          </div>
        </section>
      ))}
      <p class="hint"><button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button></p>
      {tabled.value && <DataTable caption={`${rows.length - 1} bins and levels`} rows={rows} />}
    </div>
  );
}

function Facts({ numbers: { levels, scale, scales, zero, error, largest_error, clipped }, bits }: { numbers: Rounded; bits: number }) {
  if (!levels.length) return <p class="hint">Not rounded: they stay floating-point numbers.</p>;
  const spread = (each: number[], write: (x: number) => string) => [...new Set([each[0], each.at(-1)!])].map(write).join(" to ");
  const facts: [string, string][] = [
    ["scales", count(scales)],
    ["S", scales === 1 ? number(scale[1], 3) : `${number(scale[1], 3)} (${spread(scale, (x) => number(x, 3))})`],
    ["Z", spread(zero, signed)],
    ["levels in use", `${levels.filter(Boolean).length} of ${levels.length}, ${bits} bits`],
  ];
  if (error !== null && largest_error !== null) facts.push(["largest error", number(largest_error, 3)], ["relative error", `${percent(error)} (${error ? number(-20 * Math.log10(error), 3) : "∞"} dB)`]);
  if (clipped) facts.push(["clipped", percent(clipped)]);
  return <dl class="quant-facts">{facts.map(([name, text]) => <div key={name}><dt>{name}</dt><dd>{text}</dd></div>)}</dl>;
}

function tableOf({ weights, inputs }: Quantised): (string | number)[][] {
  const rows: (string | number)[][] = [["what", "at", "before", "after"]];
  for (const [name, each] of Object.entries({ weights, inputs })) {
    each?.centres.forEach((at, bar) => rows.push([name, at, each.before[bar] ?? "", each.after[bar] ?? ""]));
    each?.levels.forEach((many, at) => many && rows.push([`levels of ${name}`, each.first_level + at, "", many]));
  }
  return rows;
}

export const view: ViewModule = {
  name: "quantisation", title: "Quantisation", alone: true, fresh: true,
  sentence: "A layer rounded to few levels: where its weights and inputs lie before and after, which levels they take, and how far each number moves.",
  Component: QuantisationView,
};
