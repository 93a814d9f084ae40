/** Next to the map: the point that is pinned or pointed at, its neighbours, and what the lasso holds. */

import { useComputed } from "@preact/signals";
import { download } from "../../core/browser";
import { csv } from "../../core/csv";
import { pointName } from "../../core/embedding";
import { number, plural } from "../../core/format";
import type { State } from "../../core/types";
import type { EmbeddingController } from "./controller";
import { rowsOf } from "./exports";

export type LookAt = (texts: string[], change: Partial<State>) => void;

export function Details({ controller, look }: { controller: EmbeddingController; look: LookAt }) {
  const pinned = useComputed(() => controller.pinned).value;
  const hovered = controller.hovered.value;
  const point = hovered >= 0 ? hovered : pinned;
  const near = controller.neighbours.value;
  const list = near && near.point === pinned ? near : null;
  return (
    <aside class="map-side" aria-label="The point">
      {point === null ? <p class="hint">Tap or point at a dot to read its text; click to pin it and see its nearest neighbours. Drag to move, wheel to zoom, Shift and drag to select.</p> : <Point controller={controller} point={point} />}
      {pinned !== null && (
        <div class="map-actions">
          {controller.map.value!.kind !== "tokens" && controller.props.transport.host === "server" && (
            <button onClick={() => look([controller.map.peek()!.texts[pinned].replace(/^…|…$/g, "")], { view: "head" })}>Look at this text</button>
          )}
          <button class="quiet" onClick={() => controller.pin(null)}>Unpin</button>
        </div>
      )}
      {list && list.list.length > 0 && (
        <section aria-label="Nearest neighbours">
          <h3>Nearest to {pointName(controller.map.value!, pinned!)}, by cosine similarity</h3>
          <ol class="map-near">
            {list.list.map(([other, cosine]) => (
              <li key={other}>
                <button class="quiet" onClick={() => controller.pin(other)} onMouseEnter={() => (controller.hovered.value = other)} onMouseLeave={() => (controller.hovered.value = -1)}>
                  <b>{number(cosine, 3)}</b> <span><Text controller={controller} point={other} /></span>
                </button>
              </li>
            ))}
          </ol>
        </section>
      )}
      {list?.problem && <p class="hint" role="status">{list.problem}</p>}
      <Selection controller={controller} />
    </aside>
  );
}

function Point({ controller, point }: { controller: EmbeddingController; point: number }) {
  const map = controller.map.value!;
  const classes = Object.entries(map.classes).map(([name, { names, of }]) => `${name}: ${names[of[point]]}`);
  const length = map.lengths?.[controller.level.value * map.points + point];
  return (
    <div class="map-point">
      <p class="hint">{[pointName(map, point), ...(length === undefined ? classes : [`length ${number(length)}`])].join(" · ")}</p>
      <p class="map-text"><Text controller={controller} point={point} /></p>
    </div>
  );
}

/** A point's text, its word marked. */
function Text({ controller, point }: { controller: EmbeddingController; point: number }) {
  const map = controller.map.value!;
  const text = map.texts[point];
  const [start, end] = map.spans?.[point] ?? [0, 0];
  if (end <= start) return <>{text}</>;
  return <>{text.slice(0, start)}<mark>{text.slice(start, end)}</mark>{text.slice(end)}</>;
}

function Selection({ controller }: { controller: EmbeddingController }) {
  const points = controller.selection.value;
  if (!points.length) return null;
  const save = () => download("selection.csv", new Blob([csv(rowsOf(controller, points))], { type: "text/csv" }));
  const python = `embedding_map.select([${points.join(", ")}])`;
  return (
    <section aria-label="Selection">
      <h3>{plural(points.length, "point")} selected</h3>
      <div class="map-actions">
        <button onClick={save}>Save as CSV</button>
        <button onClick={() => void navigator.clipboard.writeText(python).then(() => controller.props.say("Copied as Python."))} title={python.slice(0, 120)}>Copy as Python</button>
        <button class="quiet" onClick={() => controller.select([])}>Clear</button>
      </div>
    </section>
  );
}
