/**
 * Lens view: what the model would say if it ended after a layer.
 *
 *     embedding   the   cat   sat      a cell = the most likely output there
 *     layer 0     a     is    on       shade  = how likely, or rank, divergence, entropy
 *     layer 1     dog   sat   on
 */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { count, number, percent, visible } from "../core/format";
import { shade } from "../core/palette";
import { cellAt, columnsOf, type Lens, type Measure, MEASURES } from "../core/readings";
import type { ViewProps } from "../core/types";
import * as views from "../core/views";
import { DataTable } from "../ui/data-table";
import { moveFocus } from "../ui/roving-tabindex";
import { Segments } from "../ui/segments";
import "./lens.css";
import { type Cell, LensController, PAGE, requestOf } from "./lens/lens-controller";
import { tableOf } from "./lens/picture";
import { rangeWords } from "./lens/shade-range";
import { Span } from "./lens/span";
import { useExports } from "./lens/use-exports";
import type { ViewModule } from "../ui/view-module";
import { Told } from "../ui/command";
import { Term } from "../ui/term";

const HUE = 258;
const NAMES: Record<Measure, string> = { probability: "probability", rank: "rank", kl: "KL divergence from the output", entropy: "entropy" };
const LEGEND: Record<Exclude<Measure, "probability">, [string, string]> = {
  rank: ["last", "first"], kl: ["15 bits or more", "0: as the output"], entropy: ["all uniform", "0: certain"],
};

export function LensView(props: ViewProps) {
  const controller = useMemo(() => new LensController(props), [props.session]);
  const tabled = useSignal(false);
  const follow = controller.state.value.follow;
  useEffect(() => {
    void controller.load();
    return () => controller.stop();
  }, [controller, follow]);
  useSignalEffect(() => {
    const cell = controller.pointed.value;
    if (cell && controller.lens.value) props.say(controller.sentence(cell));
  });
  useExports(controller);
  const lens = controller.lens.value;
  return (
    <div class="lens">
      {!lens && <Waiting controller={controller} />}
      {lens && (
        <>
          <Tools controller={controller} lens={lens} />
          <div class="lens-body">
            <section class="lens-card" aria-label="Layers and tokens">
              <Grid controller={controller} lens={lens} />
              <p class="hint">
                Point for exact numbers; click to pin a cell and follow its output. Arrow keys move, Enter pins, Esc unpins.{" "}
                <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
              </p>
              {lens.columns === "span" && <Span controller={controller} lens={lens} />}
              {tabled.value && <Table controller={controller} lens={lens} />}
            </section>
            <aside class="lens-card" aria-label="Numbers">
              {/* Here, since above the grid it would move what is about to be clicked. */}
              <Waiting controller={controller} />
              <Numbers controller={controller} lens={lens} />
            </aside>
          </div>
        </>
      )}
    </div>
  );
}

function Waiting({ controller }: { controller: LensController }) {
  const progress = controller.progress.value;
  if (controller.problem.value) return <p class="reading-problem" role="alert"><Told text={controller.problem.value} /></p>;
  if (!progress) return null;
  return (
    <p class="reading-waiting" role="status">
      Reading the head at every layer… <progress max={progress.of || 1} value={progress.done} aria-label="Layers read" />
    </p>
  );
}

function Tools({ controller, lens }: { controller: LensController; lens: Lens }) {
  const { measure, follow } = controller.state.value;
  const { first } = lens, after = first + columnsOf(lens), reading = controller.progress.value !== null;
  const dark = controller.props.dark.value;
  const legend = lens.columns === "text" || measure === "probability" ? rangeWords(controller.range.value) : LEGEND[measure];
  const followed = follow === null ? null : lens.outputs.get(lens.targets[0]);
  return (
    <div class="lens-tools one-row">
      {lens.columns !== "text" && (
        <Segments
          legend="What the shade shows" name="measure" values={MEASURES} value={measure} set={(name) => controller.set({ measure: name })}
          text={(name) => (name === "kl" ? "KL" : NAMES[name])}
        />
      )}
      <p class="lens-legend">
        <span>{legend[0]}</span>
        <span class="lens-scale" aria-hidden="true">{Array.from({ length: 16 }, (_, at) => <i key={at} style={{ background: shade(at / 15, HUE, dark) }} />)}</span>
        <span>{legend[1]}</span>
      </p>
      {followed != null && (
        <p class="pin">follows <b class="token">{visible(followed)}</b><button class="quiet" onClick={() => controller.set({ follow: null, cell: null })} aria-label="Follow the model's own output">×</button></p>
      )}
      {columnsOf(lens) < lens.names.length && (
        <p class="lens-pages" role="group" aria-label="Columns on screen">
          <button class="quiet" disabled={first === 0 || reading} onClick={() => void controller.load(first - PAGE)} aria-label="Earlier tokens">←</button>
          tokens {first} to {after - 1} of {lens.names.length}
          <button class="quiet" disabled={after === lens.names.length || reading} onClick={() => void controller.load(after)} aria-label="Later tokens">→</button>
        </p>
      )}
    </div>
  );
}

function Grid({ controller, lens }: { controller: LensController; lens: Lens }) {
  const dark = controller.props.dark.value;
  const labels = lens.columns === "text";
  const columns = controller.columns(lens);
  const pinned = controller.pinned.value;
  const focus: Cell = pinned ?? [lens.rows.length - 1, controller.usual(lens)];
  const scroller = useRef<HTMLDivElement>(null);
  useEffect(() => { // on a phone the column that is told of may be beyond the edge
    const [box, cell] = [scroller.current!, scroller.current!.querySelector("[tabindex='0']")];
    if (!cell) return;
    const [all, own] = [box.getBoundingClientRect(), cell.getBoundingClientRect()];
    if (own.right > all.right) box.scrollLeft += own.right - all.right;
    else if (own.left < all.left) box.scrollLeft -= all.left - own.left;
  }, [lens, focus.join()]);
  const heading = (column: number) => (labels ? lens.outputs.get(column) ?? String(column) : visible(lens.names[column]));
  const keys = (event: KeyboardEvent) => {
    if (event.key === "Escape" && pinned) {
      controller.pin(null);
      event.preventDefault();
      event.stopPropagation();
    } else moveFocus(event);
  };
  return (
    <div class="lens-scroll" ref={scroller}>
      <div class="lens-grid" role="grid" aria-label={`Lens: ${lens.rows.length} layers, ${columns.length} columns`} onKeyDown={keys}
        onPointerLeave={() => (controller.pointed.value = null)} style={{ "--columns": columns.length }}>
        <div role="row">
          <span role="columnheader">{labels ? "layer" : lens.causal ? "after" : "at"}</span>
          {columns.map((column) => <span role="columnheader" key={column} class="token" title={heading(column)}>{heading(column)}</span>)}
        </div>
        {lens.rows.map((name, row) => (
          <div role="row" key={name}>
            <span role="rowheader">{row === lens.rows.length - 1 ? `${name}: output` : name}</span>
            {columns.map((column) => {
              const cell: Cell = [row, column];
              const { text, share, value } = controller.shown(lens, cell);
              const on = pinned?.join() === cell.join();
              return (
                <span role="gridcell" key={column} data-cell class={on ? "token lens-on" : "token"} tabIndex={focus.join() === cell.join() ? 0 : -1} aria-selected={on}
                  aria-label={`${name}, ${heading(column)}: ${text}, ${value}`} title={value} style={{ background: shade(share, HUE, dark) }}
                  onPointerEnter={() => (controller.pointed.value = cell)} onFocus={() => (controller.pointed.value = cell)}
                  onClick={() => controller.pin(cell)} onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), controller.pin(cell))}>
                  {text}
                </span>
              );
            })}
          </div>
        ))}
      </div>
    </div>
  );
}

/** The cell pointed at, in exact numbers; and its column through the layers. */
function Numbers({ controller, lens }: { controller: LensController; lens: Lens }) {
  const cell = controller.cell.value ?? [lens.rows.length - 1, controller.usual(lens)];
  const [row] = cell;
  const column = lens.columns === "text" ? 0 : cell[1];
  const at = cellAt(lens, row, column);
  const top = controller.top(lens, [row, column]).slice(0, 10);
  const target = lens.outputs.get(lens.targets[column - lens.first]) ?? "";
  const where = lens.columns === "tokens" ? <>, {lens.causal ? "after" : "at"} <b class="token">{visible(lens.names[column])}</b> <small>{column}</small></> : lens.columns === "span" ? `, ${lens.names[column]}` : "";
  const norm = lens.columns === "tokens" ? lens.norms[row * (lens.norms.length / lens.rows.length) + column] : null;
  return (
    <>
      <section>
        <h3>{lens.rows[row]}{where}</h3>
        <ol class="lens-top">
          {top.map(({ id, text, logprob }) => (
            <li key={id}>
              <button class="quiet" disabled={lens.kind !== "vocabulary"} title={lens.kind === "vocabulary" ? "Follow it through all layers" : undefined} onClick={() => controller.set({ follow: id, cell: [row, column] })}><span class="token">{visible(text)}</span></button>
              <span class="lens-bar"><i style={{ width: `${100 * Math.exp(logprob)}%` }} /></span>
              <span>{percent(Math.exp(logprob))}</span>
            </li>
          ))}
        </ol>
        <p class="hint">
          <Term of="entropy" /> {number(lens.entropy[at])} bits · <Term of="KL divergence">KL</Term> from the output {number(lens.kl[at])} bits · <span class="token">{visible(target)}</span> has <Term of="rank" /> {lens.ranks[at]} of {count(lens.choices)}
          {norm !== null && ` · length of the vector ${number(norm)}`}
        </p>
      </section>
      <section>
        <h3>Through the layers</h3>
        <div class="lens-path" role="region" aria-label="Through the layers" tabIndex={0}>
          <table>
            <thead><tr><th scope="col">after</th><th scope="col">says</th><th scope="col">p</th><th scope="col">rank of <span class="token">{visible(target)}</span></th><th scope="col">KL, bits</th></tr></thead>
            <tbody>
              {lens.rows.map((name, r) => {
                const [best] = controller.top(lens, [r, column]);
                const i = cellAt(lens, r, column);
                return (
                  <tr key={name} aria-current={r === row ? "true" : undefined}>
                    <th scope="row">{name}</th><td class="token">{visible(best.text)}</td><td>{percent(Math.exp(best.logprob))}</td><td>{lens.ranks[i]}</td><td>{number(lens.kl[i], 2)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
        {lens.choices > 1 && <p class="hint">{controller.finding()}</p>}
      </section>
    </>
  );
}

/** Rows of the data table on screen. */
const TABLED = 400;

function Table({ controller, lens }: { controller: LensController; lens: Lens }) {
  const table = tableOf(controller, lens);
  const caption = table.length > TABLED + 1 ? `${TABLED} of ${table.length - 1} cells; all of them in the CSV file` : `${table.length - 1} cells`;
  return <DataTable caption={caption} rows={table.slice(0, TABLED + 1)} />;
}

export const view: ViewModule = {
  name: "lens", title: "Lens", alone: true, fresh: true,
  sentence: "Each row is a layer, each column a word, or a class of the text: the prediction there if the model ended after that layer. Click one to follow it through all layers.",
  Component: LensView,
  ahead: ({ transport, session, state }, signal) => views.lens(transport, session, requestOf(state.value, session), () => {}, signal),
};
