/**
 * The sounds of an example, one below the other on one axis of time:
 *
 *     ▶ 1 before      notes · waveform · log-mel spectrogram · codes
 *     ▶ 2 after       waveform · log-mel spectrogram · codes
 *     0:00     0:01     0:02
 */

import { type ReadonlySignal, type Signal, useComputed, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { download } from "../../core/browser";
import { clock, plural } from "../../core/format";
import type { Mark, Sound } from "../../core/listening";
import { Icon } from "../../ui/icons";
import { Axis, Cursor, useFollowing, useWidth } from "./timeline";
import type { ABPlayer } from "./ab-player";
import { AttentionLanes } from "./attention";
import { type Chosen, CodesLane, TokenLine } from "./codes";
import { Lane, type Stretch } from "./lane";
import { drawMel, drawWave } from "./lanes";
import { Marks } from "./marks";

const [WAVE, MEL] = [54, 92];
/** Most pixels of a second, whatever the zoom. */
const CLOSEST = 2400;

export function Sheet({ player, at, zoom }: { player: ABPlayer; at: number; zoom: Signal<number> }) {
  const example = player.examples[at];
  const room = useRef<HTMLDivElement>(null);
  const width = useWidth(room);
  const [left, setLeft] = useState(0);
  const scale = Math.max(Math.min((width / example.seconds) * zoom.value, CLOSEST), width / example.seconds) || 1;
  const stretch: Stretch = { from: left / scale, scale, width };
  const chosen = useSignal<Chosen | null>(null);
  const code = useComputed(() => {
    const { sound, book, frame } = chosen.value ?? { sound: -1, book: 0, frame: 0 };
    const codes = example.sounds[sound]?.codes;
    return codes ? { book, code: codes.values[book * codes.frames + frame] } : null;
  }).value;
  const time = useComputed(() => (player.at.value === at ? player.time.value : NaN)); // no number: nothing to follow
  useFollowing(time, room, 0, scale);
  useCentre(room, scale, () => (player.at.peek() === at ? player.time.peek() : null));
  const seek = (event: MouseEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    player.turn(at);
    player.seek((event.clientX - box.left) / scale);
  };
  const coded = example.sounds.some(({ codes }) => codes);
  return (
    <>
      <div class="sound-scroll listen-room" ref={room} tabIndex={0} role="region" aria-label={`Sounds of ${example.title} over time; scrolls sideways when it is zoomed`} onScroll={(event) => setLeft(event.currentTarget.scrollLeft)}>
        <div class="listen-sheet" style={{ width: `${Math.max(example.seconds * scale, 1)}px` }} onClick={seek}>
          {width > 0 && example.sounds.map((sound, number) => (
            <SoundLanes key={number} player={player} at={at} sound={sound} number={number} stretch={stretch} time={time} chosen={chosen} code={code} />
          ))}
          <Axis start={0} end={example.seconds} scale={scale} />
          {player.at.value === at && <Cursor time={time} start={0} scale={scale} />}
        </div>
      </div>
      {coded && <TokenLine example={example} chosen={chosen} />}
    </>
  );
}

interface LanesProps {
  player: ABPlayer;
  at: number;
  sound: Sound;
  number: number;
  stretch: Stretch;
  /** The time that is heard; no number where the example is not. */
  time: ReadonlySignal<number>;
  chosen: Signal<Chosen | null>;
  code: { book: number; code: number } | null;
}

function SoundLanes({ player, at, sound, number, stretch, time, chosen, code }: LanesProps) {
  const heard = player.at.value === at && player.sound.value === number;
  const { name, marks, seconds, codes, attention } = sound;
  const go = (to: number) => {
    player.turn(at);
    player.seek(to);
  };
  const moments = marks.filter(({ end, pitch }) => end === null && pitch === null);
  return (
    <div class="listen-sound" role="group" aria-label={name} data-heard={heard ? "" : undefined}>
      <Heading {...{ player, at, sound, number, heard }} width={stretch.width} />
      <div class="listen-lanes">
        {marks.length > 0 && <Marks marks={marks} scale={stretch.scale} seconds={seconds} />}
        <Lane stretch={stretch} height={WAVE} label={`Waveform of ${name}, ${clock(seconds)}`} of={[sound, heard]} draw={(stage) => drawWave(stage, sound, heard, player.examples[at].peak)} />
        <Lane stretch={stretch} height={MEL} label={`Log-mel spectrogram of ${name}`} of={[sound]} draw={(stage) => drawMel(stage, sound)} />
        {codes && (
          <CodesLane
            {...{ sound, number, stretch, chosen, code }} seek={go} />
        )}
        {attention && <AttentionLanes attention={attention} name={name} stretch={stretch} time={time} seek={go} />}
        {moments.map((mark: Mark) => <i key={mark.start} class="listen-moment" style={{ left: `${mark.start * stretch.scale}px` }} />)}
      </div>
    </div>
  );
}

function Heading({ player, at, sound, number, heard, width }: Pick<LanesProps, "player" | "at" | "sound" | "number"> & { heard: boolean; width: number }) {
  const { name, about, seconds, rate, codes, wav } = sound;
  const sounding = heard && player.playing.value;
  const file = `${player.examples[at].title}-${name}`.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-");
  return (
    <div class="listen-heading" style={{ width: `${width}px` }} onClick={(event) => event.stopPropagation()}>
      <button class="listen-play" aria-label={`${sounding ? "Pause" : "Play"} ${name}`} onClick={() => player.toggleSound(at, number)}><Icon name={sounding ? "pause" : "run"} /></button>
      <kbd aria-hidden="true">{number + 1}</kbd>
      <h3>{name}</h3>
      {about && <p>{about}</p>}
      <span class="listen-size">{clock(seconds)} · {rate / 1000} kHz{codes && <span class="listen-coded"> · {plural(codes.books, "codebook")} × {plural(codes.frames, "frame")}</span>}</span>
      <button class="quiet" aria-label={`Save ${name} as a wav file`} title="Save as wav" onClick={() => download(`${file}.wav`, wav)}><Icon name="save" /></button>
    </div>
  );
}

/** When the scale changes, what stood in the middle stays there; or the cursor, where it is on screen. */
function useCentre(room: { readonly current: HTMLElement | null }, scale: number, cursor: () => number | null): void {
  const before = useRef(scale);
  useLayoutEffect(() => {
    const box = room.current;
    if (!box || before.current === scale) return;
    const old = before.current;
    before.current = scale;
    const time = cursor();
    const x = time === null ? -1 : time * old - box.scrollLeft;
    const anchor = x >= 0 && x <= box.clientWidth ? x : box.clientWidth / 2;
    box.scrollLeft = ((box.scrollLeft + anchor) / old) * scale - anchor;
  }, [scale]);
}
