/** The matrix view: one head's probabilities, every query against every key, as a heat map to zoom into. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { number } from "../core/format";
import { mapOf } from "../core/state";
import type { ViewProps } from "../core/types";
import { Board } from "./matrix/board";
import type { Caption } from "./matrix/draw";
import { zoom } from "./matrix/geometry";
import { Legend, Strongest, Table, tableOf, Whole } from "./matrix/panel";
import { type Figure, Plot } from "./matrix/plot";
import "./matrix.css";

export function MatrixView(props: ViewProps) {
  const { name } = mapOf(props.session, props.state.value.map);
  return <Matrix key={`${props.session.id}/${name}`} {...props} />;
}

function Matrix(props: ViewProps) {
  const { state, set } = props;
  const board = useMemo(() => new Board(props, state.peek().map), []);
  const figure = useRef<Figure | null>(null);
  const tabled = useSignal(false);
  useEffect(() => () => board.close(), [board]);

  // Another head: what this page does not hold of the one before may be there for this one.
  useSignalEffect(() => {
    void board.head.value;
    board.absent.value = null;
  });

  useSignalEffect(() => {
    void board.news.value;
    const cell = board.spoken.value;
    const reading = cell && board.read(cell);
    if (!reading) return;
    board.spoken.value = null;
    props.say(board.sentence(reading));
  });

  useSignalEffect(() => {
    const { layer, head } = board.head.value;
    const { model, text_hash } = props.session;
    const caption = (): Caption => ({
      scale: ["0", `${number(board.top(), 3)}${state.peek().companding === "sqrt" ? ", colours by square root" : ""}`],
      lines: [board.sentenceOfHead(), `${model.name} · ${model.revision} · ${model.dtype} · text ${text_hash}`],
    });
    props.exports({
      name: `matrix-${board.map.name}-layer${layer}-head${head}`,
      png: () => figure.current!.png(caption()),
      svg: () => figure.current!.svg(caption()),
      table: () => tableOf(board),
    });
    return () => props.exports(null);
  });

  const step = (factor: number) => {
    const plot = board.plot.peek();
    board.go(zoom(board.aim(), factor, plot.width / 2, plot.height / 2, plot, board.matrix));
  };
  const root = state.value.companding === "sqrt";
  return (
    <div class="matrix">
      <header>
        <h2>{board.sentenceOfHead()}</h2>
        <p>{board.overview.value?.summaries[board.head.value.head]}</p>
      </header>
      <div class="matrix-tools">
        <div class="matrix-zoom" role="group" aria-label="zoom">
          <button onClick={() => step(0.5)} disabled={board.whole.value} aria-label="zoom out" title="Zoom out (−)">−</button>
          <button onClick={() => step(2)} aria-label="zoom in" title="Zoom in (+)">+</button>
          <button onClick={() => board.reset()} disabled={board.whole.value} title="The whole matrix (0, or double-click)">whole</button>
        </div>
        <label title="Colours follow the square root of the probability, so that faint cells can be told apart">
          <input type="checkbox" checked={root} onChange={() => set({ companding: root ? "linear" : "sqrt" })} />
          faint heads: square-root colours
        </label>
        <button aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
      </div>
      <div class="matrix-body">
        <div class="matrix-figure">
          <Plot board={board} figure={figure} />
          <p id="matrix-keys" class="matrix-hint">
            Wheel or drag: zoom. Shift-drag: move. Click: pin. Double-click: whole. Keys: arrows, + − 0, Enter, Home, End.
          </p>
        </div>
        <aside class="matrix-aside" aria-label="legend and numbers">
          <Legend board={board} />
          <Whole board={board} />
          {board.absent.value && (
            <p class="matrix-absent">
              {board.absent.value}
              <br />
              The map drawn here is this head's thumbnail: the largest probability of each square of tokens.
            </p>
          )}
          <Strongest board={board} />
        </aside>
      </div>
      {tabled.value && <Table board={board} />}
    </div>
  );
}
