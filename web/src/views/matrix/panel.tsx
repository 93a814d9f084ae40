/** Side panel of the matrix view: colour scale, minimap, and exact probabilities of one query. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { topKeys } from "../../core/attention";
import { number, percent, plural, rank, visible } from "../../core/format";
import { paintMap } from "../../core/heatmap";
import { heatColour } from "../../core/palette";
import { DataTable } from "../../ui/data-table";
import type { HeatmapController } from "./heatmap-controller";
import { clamp, fitCell } from "./geometry";
import { Term } from "../../ui/term";

/** Keys listed next to the map, and in the table. */
const LISTED = 10;
const TABLED = 200;

/** 0 to the largest probability of the head, with numbers where they fall on this scale. */
export function Legend({ controller }: { controller: HeatmapController }) {
  const bar = useRef<HTMLCanvasElement>(null);
  const { companding, dark } = controller.head.value;
  useLayoutEffect(() => {
    if (bar.current) paintMap(bar.current, Uint8Array.from({ length: 256 }, (_, byte) => byte), 1, 256, { dark });
  }, [dark]);
  void controller.version.value;
  const top = controller.top();
  const root = companding === "sqrt";
  return (
    <div class="matrix-legend">
      <canvas ref={bar} width={256} height={1} aria-hidden="true" />
      <ol aria-label={`colours from probability 0 to ${number(top, 3)}`}>
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <li key={share}>{number((root ? share * share : share) * top, 2)}</li>
        ))}
      </ol>
      {(controller.mask.causal || controller.mask.window !== null) && (
        <p>
          <span class="matrix-hatch" aria-hidden="true" /> hidden by the mask
        </p>
      )}
    </div>
  );
}

/** The whole head with a frame around what is on screen; a click goes there. */
export function Whole({ controller }: { controller: HeatmapController }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const overview = controller.overview.value;
  const { head, companding, dark } = controller.head.value;
  useLayoutEffect(() => {
    if (!canvas.current || !overview) return;
    const { height, width, thumbnails } = overview;
    paintMap(canvas.current, thumbnails.subarray(head * height * width, (head + 1) * height * width), height, width, { companding, dark });
  }, [overview, head, companding, dark, controller.whole.value]);
  if (controller.whole.value || !overview) return null;
  const { width, height } = controller.matrix;
  const { x, y, cell } = controller.view.value;
  const plot = controller.plot.value;
  const whole = fitCell(plot, controller.matrix);
  const share = (part: number) => `${100 * Math.min(1, part)}%`;
  const go = (event: PointerEvent) => {
    if (event.buttons === 0) return;
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const middle = {
      x: ((event.clientX - box.left) / box.width) * width - plot.width / cell.width / 2,
      y: ((event.clientY - box.top) / box.height) * height - plot.height / cell.height / 2,
    };
    controller.move(clamp({ ...middle, cell }, plot, controller.matrix));
  };
  return (
    <div class={controller.map.causal && width === height ? "matrix-whole matrix-lower" : "matrix-whole"} aria-hidden="true" onPointerDown={go} onPointerMove={go} style={{ aspectRatio: `${width * whole.width} / ${height * whole.height}` }}>
      <canvas ref={canvas} />
      <div style={{ left: share(x / width), top: share(y / height), width: share(plot.width / cell.width / width), height: share(plot.height / cell.height / height) }} />
    </div>
  );
}

/** The pinned cell in exact numbers, and the strongest keys of its query as bars. */
export function Strongest({ controller }: { controller: HeatmapController }) {
  void controller.version.value;
  const { state, set } = controller.props;
  const query = controller.subject();
  const { key } = state.value;
  const row = controller.row(query);
  const cell = key === null ? null : controller.read({ row: query, column: key });
  if (!row) return null;
  const listed = topKeys(row.probs, LISTED);
  const keys = key === null || listed.keys.includes(key) ? listed.keys : [...listed.keys, key];
  const count = listed.probs[0] || 1;
  return (
    <section class="matrix-strongest" aria-labelledby="matrix-strongest">
      <h3 id="matrix-strongest">
        Where <b class="token">{visible(controller.queries[query].text)}</b> <small>{query}</small> looks
      </h3>
      <ol>
        {keys.map((at) => (
          <li key={at}>
            <button aria-pressed={at === key} onClick={() => set({ query, key: at })}>
              <span class="token">{visible(controller.keys[at].text)}</span>
              <small>{at}</small>
              <span class="matrix-bar">
                <span style={{ width: `${(100 * row.probs[at]) / count}%`, background: `rgb(${heatColour(controller.share(row.probs[at]), controller.head.value.dark).join(" ")})` }} />
              </span>
              <span class="matrix-p" title={number(row.probs[at])}>{percent(row.probs[at])}</span>
            </button>
          </li>
        ))}
      </ol>
      {listed.other > 5e-5 && <p>all other keys: {percent(listed.other)}</p>}
      {cell && (
        <p>
          {cell.hidden ? "hidden by the mask" : <><Term of="rank" /> {cell.rank} of {cell.of} · <Term of="score" /> {number(cell.score)}</>}{" "}
          <button class="matrix-why" onClick={() => set({ view: "neuron", query, key })}>
            Show the arithmetic
          </button>
        </p>
      )}
    </section>
  );
}

/** What the table and the CSV file hold: the keys of one query, the strongest first. */
export function tableOf(controller: HeatmapController): (string | number)[][] {
  const query = controller.subject();
  const row = controller.row(query);
  const columns = ["query", "query token", "rank", "key", "key token", "probability", "score"];
  if (!row) return [columns];
  const { keys } = topKeys(row.probs, row.probs.length);
  return [
    columns,
    ...keys.map((key) => [query, controller.queries[query].text, rank(row.probs, key), key, controller.keys[key].text, row.probs[key], row.scores[key]]),
  ];
}

export function Table({ controller }: { controller: HeatmapController }) {
  void controller.version.value;
  const rows = tableOf(controller).map((row) => row.slice(2));
  const query = controller.subject();
  const caption = (
    <>
      {controller.sentenceOfHead()}: keys of <b class="token">{visible(controller.queries[query].text)}</b> (token {query}), the strongest first
      {rows.length - 1 > TABLED && `; ${TABLED} of ${plural(rows.length - 1, "key")}, all of them in the CSV file`}
    </>
  );
  return <DataTable caption={caption} rows={rows.slice(0, TABLED + 1)} heading={2} />;
}
