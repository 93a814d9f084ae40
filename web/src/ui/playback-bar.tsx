/** Playback of a sound: play and pause, and the time as a slider. */

import { type ReadonlySignal, useComputed } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { clock } from "../core/format";
import { Icon } from "./icons";

/** What plays: a recording, or one of several sounds on the same axis of time. */
export interface Playback {
  readonly time: ReadonlySignal<number>;
  readonly playing: ReadonlySignal<boolean>;
  readonly ready: ReadonlySignal<boolean>;
  /** In seconds. */
  readonly duration: number;
  toggle(): void;
  seek(time: number): void;
}

export function PlaybackBar({ playback, children }: { playback: Playback; children?: ComponentChildren }) {
  const { duration } = playback;
  const shown = useComputed(() => playback.time.value.toFixed(1)); // ten times a second is often enough
  const at = Number(shown.value);
  return (
    <section class="sound-bar" aria-label="Playback">
      <button class="primary" disabled={!playback.ready.value} onClick={() => playback.toggle()}>
        <Icon name={playback.playing.value ? "pause" : "run"} />{playback.playing.value ? "Pause" : "Play"}
      </button>
      <input
        type="range" min="0" max={duration} step="0.1" value={at} aria-label="Time" aria-valuetext={`${clock(at, 1)} of ${clock(duration, 1)}`}
        onInput={(event) => playback.seek(Number(event.currentTarget.value))}
      />
      <output class="sound-clock" aria-live="off">{clock(at, 1)} <span>/ {clock(duration, 1)}</span></output>
      {children}
    </section>
  );
}
