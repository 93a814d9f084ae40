/**
 * Where a head looks, over time: a map (a row is a moment, a column is where it looks), and above it the row of the moment that is heard.
 */

import { type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { type Attention, strongestColumns } from "../../core/listening";
import { percent } from "../../core/format";
import { Lane, type Stretch } from "./lane";
import { drawAttention } from "./lanes";

const [NOW, MAP, COLUMNS] = [18, 220, 3];

export function AttentionLanes({ attention, name, stretch, time, seek }: {
  attention: Attention;
  name: string;
  stretch: Stretch;
  /** The time that is heard; no number where the sound is not. */
  time: ReadonlySignal<number>;
  seek: (time: number) => void;
}) {
  const { heads, maps, rate, opening, sentence } = attention;
  const head = useSignal(opening);
  const map = maps[head.value];
  const pointed = useSignal<number | null>(null);
  const row = useComputed(() => Math.min(Math.max(Math.floor(pointed.value ?? (time.value || 0) * rate), 0), map.height - 1)).value;
  const height = Math.min(MAP, map.height * 4);
  const rowAt = (event: MouseEvent) => ((event.clientY - (event.currentTarget as HTMLElement).getBoundingClientRect().top) / height) * map.height;
  return (
    <div class="listen-attention" role="group" aria-label={`Attention over ${name}`}>
      <div class="listen-heading" style={{ width: `${stretch.width}px` }} onClick={(event) => event.stopPropagation()}>
        <label class="listen-head">Attention of <select value={head.value} onChange={(event) => (head.value = Number(event.currentTarget.value))}>
          {heads.map((each, at) => <option key={at} value={at}>{each}</option>)}
        </select></label>
        <p>{head.value === opening ? sentence : ""}</p>
        <span class="listen-size">at {(row / rate).toFixed(2)} s: {strongestColumns(attention, head.value, row, COLUMNS).map(({ column, p }) => `${percent(p)} on ${(column / rate).toFixed(2)} s`).join(", ")}</span>
      </div>
      <Lane stretch={stretch} height={NOW} label={`Where the head looks at ${(row / rate).toFixed(2)} s`} of={[map, row]} draw={(stage) => drawAttention(stage, map, rate, row, row + 1)} />
      <div
        class="listen-map" onPointerMove={(event) => (pointed.value = rowAt(event))} onPointerLeave={() => (pointed.value = null)}
        onClick={(event) => {
          event.stopPropagation();
          seek(rowAt(event) / rate);
        }}
      >
        <Lane stretch={stretch} height={height} label="A row is a moment, from the top, a column one that it attends to; a stronger colour is more attention" of={[map]} draw={(stage) => drawAttention(stage, map, rate, 0, map.height)} />
        <i style={{ top: `${((row + 0.5) / map.height) * height}px` }} />
      </div>
    </div>
  );
}
