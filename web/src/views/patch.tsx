/**
 * Patching view: what the prediction becomes when each head, or each layer at each position, is replaced.
 *
 *     layer 0  ▓ · · ▒        a cell = a pass with one component replaced
 *     layer 1  · · █ ·        colour = how much the prediction changes
 *              the cat sat
 */

import type { ComponentChildren } from "preact";
import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { toPng, toSvg } from "../core/figure";
import { number } from "../core/format";
import type { Sweep } from "../core/patching";
import type { ViewProps } from "../core/types";
import { type Cell, DataTable, written } from "../ui/data-table";
import { ClassChanges } from "../ui/class-changes";
import "./patch.css";
import { BUTTON, Controls } from "./patch/controls";
import { captioned, figureOf, geometryOf, shownOf } from "./patch/geometry";
import { HeatMap, inkOf } from "./patch/heat-map";
import { PatchController } from "./patch/patch-controller";
import { diverging } from "./neuron/diverging-colours";
import type { ViewModule } from "../ui/view-module";
import { Told } from "../ui/command";

export function PatchView({ choice, ...props }: ViewProps & { choice: ComponentChildren }) {
  const controller = useMemo(() => new PatchController(props), [props.session]);
  const tabled = useSignal(false);
  const request = JSON.stringify(controller.request.value);
  useEffect(() => {
    controller.changed();
    return () => controller.stop();
  }, [controller, request]);
  useEffect(() => {
    const abort = new AbortController();
    void controller.explain(abort.signal);
    return () => abort.abort();
  }, [controller.pinned.value?.join(), controller.sweep.value]);
  useSignalEffect(() => {
    const cell = controller.pointed.value;
    if (cell && controller.sweep.value) props.say(controller.sentence(cell));
  });
  useExports(controller);
  const sweep = controller.sweep.value;
  return (
    <div class="patch">
      <Controls controller={controller} choice={choice} />
      <Waiting controller={controller} />
      {sweep && (
        <div class="patch-body">
          <div class="patch-picture">
            <h2>{titleOf(sweep)}</h2>
            <p class="patch-metric">{metricOf(sweep)}</p>
            <HeatMap controller={controller} sweep={sweep} />
            <p class="hint">
              Point for the exact number, click to pin. Keys: arrows, Enter, Esc. <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
            </p>
          </div>
          <aside class="patch-aside" aria-label="Numbers">
            <Legend sweep={sweep} dark={props.dark.value} />
            <Cell controller={controller} sweep={sweep} />
            <Strongest controller={controller} />
          </aside>
          {tabled.value && <Table sweep={sweep} />}
        </div>
      )}
    </div>
  );
}

const WHAT: Record<Sweep["component_kind"], string> = {
  heads: "each head", residual: "the residual stream at each layer and position", attention: "the attention output at each layer and position",
  "feed-forward": "the feed-forward output at each layer and position",
};
const HOW: Record<Sweep["mode"], string> = { zero: "switched off", mean: "replaced by its mean over positions", swap: "taken from the other text" };

const titleOf = (sweep: Sweep) => `${WHAT[sweep.component_kind][0].toUpperCase()}${WHAT[sweep.component_kind].slice(1)}, ${HOW[sweep.mode]}`;

/** What is measured, and where it is unpatched. */
function metricOf(sweep: Sweep): string {
  const at = sweep.at === null ? "" : ` at position ${sweep.at}`;
  if (sweep.other === null) return `Change of the ${sweep.metric}${at}; unpatched ${number(sweep.before)}.`;
  const [clean, corrupt] = sweep.direction === "denoising" ? [sweep.other, sweep.before] : [sweep.before, sweep.other];
  const scale = sweep.normalised ? "0 = corrupt, 1 = clean" : "both texts predict the same, so it is not normalised";
  return `The ${sweep.metric}${at}: clean ${number(clean)}, corrupt ${number(corrupt)}. Shown: ${scale}.`;
}

function Waiting({ controller }: { controller: PatchController }) {
  const progress = controller.progress.value;
  if (controller.problem.value) return <p class="patch-problem" role="alert"><Told text={controller.problem.value} /></p>;
  if (progress) {
    return (
      <div class="patch-waiting" role="status">
        <span>{progress.done} of {progress.of} patched passes</span>
        <progress max={progress.of} value={progress.done} aria-label="Patched passes" />
        <button onClick={() => controller.stop()}>Stop</button>
      </div>
    );
  }
  if (controller.sweep.value) return null;
  return <p class="patch-empty">{controller.incomplete ?? `${controller.patches} passes over the text: press ${BUTTON}.`}</p>;
}

function Legend({ sweep, dark }: { sweep: Sweep; dark: boolean }) {
  const { neutral, range } = shownOf(sweep);
  const shares = Array.from({ length: 21 }, (_, at) => at / 10 - 1);
  return (
    <p class="patch-legend">
      <span>{number(neutral - range, 3)}</span>
      <span class="patch-scale" aria-hidden="true">{shares.map((share) => <i key={share} style={{ background: diverging(share, dark) }} />)}</span>
      <span>{number(neutral + range, 3)}</span>
      <small>{neutral} in the middle: no change</small>
    </p>
  );
}

function Cell({ controller, sweep }: { controller: PatchController; sweep: Sweep }) {
  const cell = controller.cell.value;
  if (!cell) return <p class="hint">Nothing is chosen yet.</p>;
  const { shown, value, rank, of } = controller.reading(cell);
  const pinned = controller.pinned.value?.join() === cell.join();
  return (
    <section>
      <h3>{controller.name(cell)}</h3>
      <p class="patch-exact">{number(shown)} <small>rank {rank} of {of}</small></p>
      <p class="hint">{sweep.metric}: {number(sweep.before)} → {number(value)}</p>
      {pinned && controller.changes.value && <ClassChanges classes={controller.changes.value} label="Prediction before and after this patch" />}
    </section>
  );
}

function Strongest({ controller }: { controller: PatchController }) {
  return (
    <section>
      <h3>Largest effects</h3>
      <ol class="patch-strongest">
        {controller.strongest().map((cell) => (
          <li key={cell.join()}>
            <button class="quiet" aria-pressed={controller.pinned.value?.join() === cell.join()} onClick={() => controller.pin(cell)}>{controller.name(cell)}</button>
            <span>{number(controller.reading(cell).shown, 3)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function Table({ sweep }: { sweep: Sweep }) {
  const rows = shownOf(sweep).values.map((line, row) => [sweep.rows[row], ...line.map((value) => value ?? "–")]);
  return <DataTable caption={`Effects of all patches: ${sweep.metric}`} rows={[["layer", ...sweep.columns], ...rows]} heading={0} show={brief} />;
}

const brief = (cell: Cell): string => (typeof cell === "number" ? number(cell, 3) : written(cell));

/** The map as a picture, a drawing and a table. */
function useExports(controller: PatchController): void {
  const { props } = controller;
  useSignalEffect(() => {
    const sweep = controller.sweep.value;
    if (!sweep) return props.exports(null);
    const geometry = geometryOf(sweep, 900);
    const { model, text_hash } = props.session;
    const source = `${model.name} · ${model.revision} · ${model.dtype} · text ${text_hash} · ${metricOf(sweep)}`;
    const figure = () => {
      const ink = inkOf(document.body, props.dark.peek());
      return captioned(figureOf(sweep, geometry, ink), source, ink.soft);
    };
    const finding = controller.finding(); // now: whoever reads it later may do so when the sweep is gone
    props.exports({
      name: `patching-${sweep.component_kind}-${sweep.mode}`,
      finding: () => finding,
      png: () => toPng(figure(), inkOf(document.body, false).panel, inkOf(document.body, false).font),
      svg: () => toSvg(figure(), inkOf(document.body, false).panel, inkOf(document.body, false).font),
      table: () => [
        ["component", "layer", "column", "metric", "effect"],
        ...shownOf(sweep).values.flatMap((line, row) =>
          line.flatMap((value, column) => (value === null ? [] : [[sweep.components[row][column]!, sweep.rows[row], sweep.columns[column], sweep.values[row][column] ?? NaN, value]]))),
      ],
    });
    return () => props.exports(null);
  });
}

export const view: ViewModule = {
  name: "patch", title: "Patching", alone: true, fresh: true,
  sentence: "What the prediction becomes when one part of the pass is replaced: blue = less, orange = more. Tap or point at a cell; click to pin it.",
  Component: PatchView,
};
