/**
 * One window of the recording on one axis of time:
 *
 *     words          And so   my fellow   Americans
 *     spectrogram    ▂▅▇▅▁▁▂▇▅▂▁▅▇▇▅▁
 *     attention      And ▓▓┐                        the path from word to frame, along which words got their times
 *                        so └▓▓┐ …
 */

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { clock, percent, plural } from "../../core/format";
import { paintMap, type Bytes } from "../../core/heatmap";
import { Icon } from "../../ui/icons";
import { dark } from "../../ui/theme";
import { Axis, Cursor, useFollowing, useWidth } from "../listen/timeline";
import { Arithmetic, headName } from "./heads";
import type { Cell, Player, Stretch } from "./player";
import { cut, sureness, type Alignment, type Transcript, type Word } from "./transcript";

/** Fewest pixels of a second; of short recordings it has as many as there is room for. */
const SECOND = 92;
const LANE = 21;
const CHARACTER = 7.4;

export function Strip({ player }: { player: Player }) {
  const room = useRef<HTMLDivElement>(null);
  const available = useWidth(room);
  const { transcript, stretches } = player;
  const at = player.stretch.value;
  const stretch = stretches[at] ?? { start: 0, end: transcript.duration };
  const seconds = Math.max(stretch.end - stretch.start, 0.1);
  const width = Math.max(available, seconds * SECOND);
  const scale = width / seconds;
  const alignment = player.alignment.value;
  useFollowing(player.time, room, stretch.start, scale);
  const seek = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    player.release();
    player.seek(stretch.start + (event.clientX - box.left) / scale);
  };
  return (
    <>
      <div class="sound-head">
        <h2 id="sound-heard">What was heard</h2>
        {stretches.length > 1 && (
          <div class="stepper">
            <button class="quiet" aria-label="Previous window ([)" disabled={at === 0} onClick={() => player.turn(at - 1)}><Icon name="previous" /></button>
            <span><b>{at + 1}</b> of {stretches.length} · {clock(stretch.start, 1)} – {clock(stretch.end, 1)}</span>
            <button class="quiet" aria-label="Next window (])" disabled={at === stretches.length - 1} onClick={() => player.turn(at + 1)}><Icon name="next" /></button>
          </div>
        )}
        <p class="hint">Log-mel spectrogram: a stronger colour is louder (range 80 dB); low frequencies at the bottom. Click to go there.{width > available && " It scrolls sideways."}</p>
      </div>
      <div class="sound-scroll sound-strip" ref={room} tabIndex={0} role="region" aria-label="Spectrogram, words and attention">
        <div class="sound-sheet" style={{ width: `${width}px` }} onClick={seek}>
          <Labels player={player} stretch={stretch} scale={scale} width={width} />
          <Picture map={spectrogramOf(transcript, stretch)} label={`Spectrogram of ${clock(stretch.start, 1)} to ${clock(stretch.end, 1)}`} class="sound-mel" companding="linear" />
          <Axis {...stretch} scale={scale} />
          {alignment && <Attention player={player} alignment={alignment} stretch={stretch} scale={scale} width={width} available={available} />}
          <Band player={player} stretch={stretch} scale={scale} />
          <Cursor time={player.time} start={stretch.start} scale={scale} />
        </div>
      </div>
      {alignment && <CellLine player={player} alignment={alignment} />}
      {alignment && <Caption player={player} alignment={alignment} />}
      {transcript.heads && !alignment && <p class="hint">{notHeld(player, at)}</p>}
    </>
  );
}

const notHeld = ({ transcript }: Player, at: number) => (transcript.windows[at]?.skipped ? "This window was skipped as silence." : "The page does not hold the attention of this window.");

function Caption({ player, alignment }: { player: Player; alignment: Alignment }) {
  const pairs = player.transcript.heads!.pairs;
  const head = Math.min(player.head.value, alignment.heads.length - 1);
  return (
    <p class="hint sound-caption">
      Cross-attention of {head ? headName(pairs[head - 1]) : `${plural(pairs.length, "alignment head")}, their mean`}: a row is a word, a stronger colour more attention to that sound, as the alignment
      sees it (normalised over words, smoothed over time). <span class="sound-line-key" /> The path gives each word its beginning{!head && alignment.heads.length > 1 && <>; <span class="sound-line-key dashed" /> the path of each head by itself</>}.
    </p>
  );
}

/** The cell pointed at or chosen, and the way into a head there. */
function CellLine({ player, alignment }: { player: Player; alignment: Alignment }) {
  const { inside, transcript } = player;
  const shown = Math.min(player.head.value, alignment.heads.length - 1);
  const word = alignment.words.indexOf(player.word.value ?? -2);
  const chosen = player.cell.value ?? (word < 0 ? null : { row: word, time: alignment.paths[shown][word] });
  const cell = player.pointed.value ?? chosen;
  const share = (head: number, { row, time }: Cell) => {
    const { values, width } = alignment.heads[head];
    return values[row * width + Math.min(Math.max(Math.floor((time - alignment.begin) * alignment.rate), 0), width - 1)] / 255;
  };
  const best = chosen && alignment.heads.length > 1 ? strongestHead((head) => share(head, chosen), alignment.heads.length) : 1;
  const pair = (shown || best) - 1;
  return (
    <p class="sound-cell">
      {cell
        ? <><b>“{alignment.texts[cell.row]}”</b> <span>at {clock(cell.time)}</span> <span>{percent(share(shown, cell))} of the strongest weight of {shown ? "this head" : "their mean"}</span></>
        : <span class="hint">Tap or point at a cell of the attention for its weight; click it, or a word, to choose it.</span>}
      {inside && chosen && <Arithmetic inside={inside} pair={pair} name={headName(transcript.heads!.pairs[pair])} row={chosen.row} time={player.cell.value?.time ?? null} named />}
    </p>
  );
}

/** Of all heads but their mean, the one with the largest weight. */
function strongestHead(weight: (head: number) => number, count: number): number {
  let best = 1;
  for (let head = 2; head < count; head++) if (weight(head) > weight(best)) best = head;
  return best;
}

interface Placed {
  stretch: Stretch;
  scale: number;
}

/** Words above the sound, in as many lanes as keep them apart, and each word's span of time, filled as far as it is sure. */
function Labels({ player, stretch, scale, width }: Placed & { player: Player; width: number }) {
  const { words } = player.transcript;
  const { labels, lanes } = useMemo(() => arrange(words, stretch, scale, width), [words, stretch, scale, width]);
  const chosen = player.word.value;
  const spoken = player.spoken.value;
  const height = lanes * LANE + 14;
  return (
    <div class="sound-labels" style={{ height: `${height}px` }} aria-hidden="true">
      {labels.map(({ at, x, left, lane, span }) => {
        const word = words[at];
        const mark = { "data-chosen": chosen === at ? "" : undefined, "data-spoken": spoken === at ? "" : undefined };
        const choose = (event: MouseEvent) => {
          event.stopPropagation();
          player.choose(at);
        };
        return (
          <div key={at} class="sound-label" {...mark} onClick={choose}>
            <i style={{ left: `${x}px`, top: `${(lane + 1) * LANE - 3}px`, height: `${height - 9 - (lane + 1) * LANE}px` }} />
            <span class={sureness(word)} style={{ left: `${left}px`, top: `${lane * LANE}px` }}>{word.word.trim()}</span>
            <b style={{ left: `${x}px`, width: `${Math.max(span - 1, 2)}px` }}><u style={{ width: `${100 * word.probability}%` }} /></b>
          </div>
        );
      })}
    </div>
  );
}

function arrange(words: Word[], { start, end }: Stretch, scale: number, width: number) {
  const ends: number[] = [];
  const labels = words.flatMap((word, at) => {
    if (word.start < start - 1e-6 || word.start >= end) return [];
    const x = (word.start - start) * scale;
    const size = word.word.trim().length * CHARACTER + 10;
    const left = Math.max(0, Math.min(x, width - size));
    let lane = ends.findIndex((each) => each <= left);
    if (lane < 0) lane = ends.length < 4 ? ends.length : ends.indexOf(Math.min(...ends));
    ends[lane] = left + size;
    return [{ at, x, left, lane, span: (Math.min(word.end, end) - word.start) * scale }];
  });
  return { labels, lanes: Math.max(ends.length, 1) };
}

function spectrogramOf({ spectrogram }: Transcript, { start, end }: Stretch): Bytes {
  return cut(spectrogram, Math.round(start * spectrogram.rate), Math.round(end * spectrogram.rate));
}

function Picture({ map, label, companding, ...place }: { map: Bytes; label: string; companding: "linear" | "sqrt"; class: string; style?: Record<string, string> }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isDark = dark.value;
  useLayoutEffect(() => {
    if (canvas.current) paintMap(canvas.current, map.values, map.height, map.width, { dark: isDark, companding });
  }, [map.values, isDark]);
  return <canvas ref={canvas} role="img" aria-label={label} {...place} />;
}

/** The picture of one head or of their mean, with its path; each word is where its path begins. Of a sheet that scrolls, it has the rows of what is in sight. */
function Attention({ player, alignment, stretch, scale, width, available }: Placed & { player: Player; alignment: Alignment; width: number; available: number }) {
  const { heads, paths, texts, words, begin, rate } = alignment;
  const head = Math.min(player.head.value, heads.length - 1);
  const map = heads[head];
  const row = texts.length > 40 ? 15 : 18;
  const height = texts.length * row;
  const rows = useRef<HTMLDivElement>(null);
  const x = (time: number) => (time - stretch.start) * scale;
  const chosen = player.word.value;
  const cell = player.cell.value;
  const shown = Math.min(Math.max(...paths[head].map((time) => rowAt(paths[head], time + available / scale) - rowAt(paths[head], time))) + 1, texts.length);
  useLayoutEffect(() => {
    const strip = rows.current!.closest(".sound-strip")!;
    const follow = () => {
      const top = Math.min(rowAt(paths[head], stretch.start + strip.scrollLeft / scale), texts.length - shown);
      rows.current!.style.transform = `translateY(${-top * row}px)`;
    };
    follow();
    strip.addEventListener("scroll", follow);
    return () => strip.removeEventListener("scroll", follow);
  });
  const cellAt = (event: MouseEvent): Cell => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / scale + stretch.start - begin) * rate); // to the beginning of a cell
    const inside = (at: number, size: number) => Math.min(Math.max(at, 0), size - 1);
    return { row: inside(Math.floor((event.clientY - box.top) / row), texts.length), time: begin + inside(column, map.width) / rate };
  };
  const choose = (event: MouseEvent) => {
    event.stopPropagation();
    player.chooseCell(cellAt(event));
  };
  return (
    <div class="sound-attention" style={{ height: `${shown * row}px` }}><div
      ref={rows} style={{ height: `${height}px` }} onClick={choose}
      onPointerMove={(event) => (player.pointed.value = cellAt(event))} onPointerLeave={() => (player.pointed.value = null)}
    >
      <Picture
        map={map} companding="sqrt" class="sound-weights" label={`Cross-attention of ${plural(texts.length, "word")}; the words' times say the same as its path`}
        style={{ left: `${x(begin)}px`, width: `${(map.width / rate) * scale}px`, height: `${height}px` }}
      />
      <svg width={width} height={height} aria-hidden="true">
        {chosen !== null && words.includes(chosen) && <rect class="row" x="0" width={width} y={words.indexOf(chosen) * row} height={row * words.filter((each) => each === chosen).length} />}
        {head === 0 && paths.slice(1).map((each, at) => <path key={at} class="single" d={steps(each, x, row)} />)}
        <path class="under" d={steps(paths[head], x, row)} />
        <path class="over" d={steps(paths[head], x, row)} />
        {texts.map((text, at) => {
          const start = x(paths[head][at]);
          const before = start > text.length * CHARACTER + 14;
          return (
            <text key={at} x={before ? start - 6 : x(paths[head][at + 1]) + 6} y={(at + 0.5) * row} text-anchor={before ? "end" : "start"} class={words[at] === chosen ? "chosen" : undefined}>{text}</text>
          );
        })}
        {cell && <rect class="cell" x={x(cell.time + 0.5 / rate) - row / 2} y={cell.row * row} width={row} height={row} rx="4" />}
      </svg>
    </div></div>
  );
}

/** The row of a path at a time, between two words as a fraction: where a sheet that scrolls sideways scrolls its map to. */
function rowAt(path: number[], time: number): number {
  const next = path.findIndex((each) => each > time);
  if (next < 1) return next ? path.length - 1 : 0;
  return next - 1 + (time - path[next - 1]) / (path[next] - path[next - 1]);
}

/** A staircase: along a word's row while its sound lasts, then down to the next word. */
function steps(times: number[], x: (time: number) => number, row: number): string {
  return times.slice(0, -1).map((time, at) => `${at ? "L" : "M"}${x(time).toFixed(1)} ${(at + 0.5) * row}H${x(times[at + 1]).toFixed(1)}`).join("");
}

/** The chosen word's time, through all pictures. */
function Band({ player, stretch, scale }: Placed & { player: Player }) {
  const at = player.word.value;
  if (at === null) return null;
  const { start, end } = player.transcript.words[at];
  return <div class="sound-band" style={{ left: `${(start - stretch.start) * scale}px`, width: `${Math.max((end - start) * scale, 2)}px` }} />;
}
