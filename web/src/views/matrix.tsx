/** Matrix view: the attention probabilities of one head, queries × keys, as a heat map with zoom. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { number } from "../core/format";
import { sessionKey } from "../core/store";
import { mapOf } from "../core/url-state";
import type { ViewProps } from "../core/types";
import { HeatmapController } from "./matrix/heatmap-controller";
import type { Caption } from "./matrix/draw";
import { zoom } from "./matrix/geometry";
import { Legend, Strongest, Table, tableOf, Whole } from "./matrix/panel";
import { type Figure, Plot } from "./matrix/plot";
import "./matrix.css";
import { explained } from "./head/because";
import type { ViewModule } from "../ui/view-module";
import { Told } from "../ui/command";

export function MatrixView(props: ViewProps) {
  const { name } = mapOf(props.session, props.state.value.map);
  return <Matrix key={`${sessionKey(props.session)}/${name}`} {...props} />;
}

function Matrix(props: ViewProps) {
  const { state, set } = props;
  const controller = useMemo(() => new HeatmapController(props, state.peek().map), []);
  const figure = useRef<Figure | null>(null);
  const tabled = useSignal(false);
  useEffect(() => () => controller.close(), [controller]);

  // Another head: what this page does not hold of the one before may be there for this one.
  useSignalEffect(() => {
    void controller.head.value;
    controller.absent.value = null;
  });

  useSignalEffect(() => {
    void controller.version.value;
    const cell = controller.announced.value;
    const reading = cell && controller.read(cell);
    if (!reading) return;
    controller.announced.value = null;
    props.say(controller.sentence(reading));
  });

  useSignalEffect(() => {
    const { layer, head } = controller.head.value;
    const { model, text_hash } = props.session;
    const caption = (): Caption => ({
      scale: ["0", `${number(controller.top(), 3)}${state.peek().companding === "sqrt" ? ", colours by square root" : ""}`],
      lines: [controller.sentenceOfHead(), `${model.name} · ${model.revision} · ${model.dtype} · text ${text_hash}`],
    });
    props.exports({
      name: `matrix-${controller.map.name}-layer${layer}-head${head}`,
      png: () => figure.current!.png(caption()),
      svg: () => figure.current!.svg(caption()),
      table: () => tableOf(controller),
    });
    return () => props.exports(null);
  });

  const step = (factor: number) => {
    const plot = controller.plot.peek();
    controller.go(zoom(controller.aim(), factor, plot.width / 2, plot.height / 2, plot, controller.matrix));
  };
  const root = state.value.companding === "sqrt";
  return (
    <div class="matrix">
      <header>
        <h2>{controller.sentenceOfHead()}</h2>
        <p>{controller.overview.value?.summaries[controller.head.value.head]}</p>
      </header>
      <div class="matrix-tools one-row">
        <div class="matrix-zoom" role="group" aria-label="zoom">
          <button onClick={() => step(0.5)} disabled={controller.whole.value} aria-label="zoom out" title="Zoom out (−)">−</button>
          <button onClick={() => step(2)} aria-label="zoom in" title="Zoom in (+)">+</button>
          <button onClick={() => controller.reset()} disabled={controller.whole.value} title="The whole matrix (0, or double-click)">whole</button>
        </div>
        <label title="Colours follow the square root of the probability, so that faint cells can be told apart">
          <input type="checkbox" checked={root} onChange={() => set({ companding: root ? "linear" : "sqrt" })} />
          faint heads: square-root colours
        </label>
        <button aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
      </div>
      <div class="matrix-body">
        <div class="matrix-figure">
          <Plot controller={controller} figure={figure} />
          <p id="matrix-keys" class="matrix-hint">
            Wheel or drag: zoom. Shift-drag: move. Click: pin. Double-click: whole. Keys: arrows, + − 0, Enter, Home, End.
          </p>
        </div>
        <aside class="matrix-aside" aria-label="legend and numbers">
          <Legend controller={controller} />
          <Whole controller={controller} />
          {controller.absent.value && (
            <p class="matrix-absent">
              <Told text={controller.absent.value} />
              {controller.isThumbnail() && <><br />The map drawn here is this head's thumbnail: the largest probability of each square of tokens.</>}
            </p>
          )}
          <Strongest controller={controller} />
        </aside>
      </div>
      {tabled.value && <Table controller={controller} />}
    </div>
  );
}

export const view: ViewModule = {
  name: "matrix", title: "Matrix", squares: true,
  sentence: "Each row is a token that attends, each column one that it attends to; a stronger colour is more attention. Point for the exact value, click to pin it.",
  Component: explained(MatrixView),
};
