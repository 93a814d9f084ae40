/** Playback of the recording, and what is chosen on its page: time, word, window, head. */

import { batch, computed, type ReadonlySignal, signal } from "@preact/signals";
import type { Playback } from "../../ui/playback-bar";
import { type Alignment, lastBefore, type Transcript } from "./transcript";

/** Longest part of the recording that is on screen at once, in seconds, where a model has no windows of its own. */
const STRETCH = 30;

export interface Stretch {
  start: number;
  end: number;
}

/** A place in the attention of the window on screen: a word, and a time in seconds. */
export interface Cell {
  row: number;
  time: number;
}

/** What lies behind the attention: the head view, the matrix and the arithmetic of a head, where a program serves the page. */
export interface Inside {
  /** Open the arithmetic of an alignment head, counted from 0, at a word's row; at a time, or where the head hears the word. */
  open(pair: number, row: number, time: number | null): void;
  /** Open the head view at the frame of a time, in a model without a decoder. */
  openFrame(time: number): void;
  /** Is it on its way? */
  readonly busy: ReadonlySignal<boolean>;
}

export class Player implements Playback {
  readonly time = signal(0);
  readonly playing = signal(false);
  readonly ready = signal(false);
  readonly speed = signal(1);
  /** Why it does not play. */
  readonly trouble = signal("");
  readonly word = signal<number | null>(null);
  /** 0 = the mean of the alignment heads, 1 = the first of them, … */
  readonly head = signal(0);
  /** The cell of the attention that is chosen, and the one pointed at. */
  readonly cell = signal<Cell | null>(null);
  readonly pointed = signal<Cell | null>(null);
  /** Parts of the recording, of which one is on screen. */
  readonly stretches: Stretch[];
  readonly stretch = signal(0);
  /** The word that is spoken now. */
  readonly spoken = computed(() => {
    const { words } = this.transcript;
    const at = lastBefore(this.starts, this.time.value);
    return this.playing.value && at >= 0 && this.time.value < words[at].end ? at : null;
  });
  /** The attention of the part on screen; null where there is none. */
  readonly alignment: ReadonlySignal<Alignment | null> = computed(() => {
    const { start } = this.stretches[this.stretch.value];
    return this.transcript.attention.find(({ begin }) => Math.abs(begin - start) < 0.015) ?? null;
  });
  private readonly starts: number[];
  private readonly audio = new Audio();
  private until = Infinity;
  private address = "";

  constructor(readonly transcript: Transcript, readonly inside: Inside | null = null) {
    this.starts = transcript.words.map(({ start }) => start);
    this.stretches = stretches(transcript);
    this.audio.preload = "auto";
    this.audio.onloadedmetadata = () => batch(() => {
      this.ready.value = true;
      this.trouble.value = "";
      this.audio.currentTime = this.time.peek();
    });
    this.audio.onerror = () => batch(() => {
      this.ready.value = this.playing.value = false;
      this.trouble.value = "This browser cannot play the recording.";
    });
    this.audio.onended = () => this.pause();
  }

  /** Play this sound: the page's own, or the recording's file that somebody has chosen. */
  load(sound: Blob): void {
    if (this.address) URL.revokeObjectURL(this.address);
    this.address = this.audio.src = URL.createObjectURL(sound);
  }

  get duration(): number {
    return this.transcript.duration;
  }

  toggle(): void {
    if (this.playing.value) this.pause();
    else this.play(this.time.value >= this.transcript.duration - 0.05 ? 0 : this.time.value);
  }

  play(from: number, until = Infinity): void {
    this.seek(from);
    if (!this.ready.value) return;
    this.until = until;
    this.audio.playbackRate = this.speed.value;
    this.playing.value = true;
    this.audio.play().then(() => requestAnimationFrame(this.follow), () => this.pause());
  }

  pause(): void {
    this.audio.pause();
    this.until = Infinity;
    this.playing.value = false;
  }

  /** Go to a time, and put its part of the recording on screen. */
  seek(time: number): void {
    batch(() => {
      this.time.value = Math.min(Math.max(time, 0), this.transcript.duration);
      this.show(this.time.value);
      if (this.ready.value) this.audio.currentTime = this.time.value;
    });
  }

  setSpeed(speed: number): void {
    this.speed.value = this.audio.playbackRate = speed;
  }

  /** Choose a word, and go to where it was heard. */
  point(at: number): void {
    batch(() => {
      this.cell.value = null;
      this.word.value = at;
      this.seek(this.transcript.words[at].start);
    });
  }

  /** Choose a word: see where it was heard, and hear it. */
  choose(at: number): void {
    const word = this.transcript.words[at];
    this.point(at);
    this.play(word.start, Math.max(word.end, word.start + 0.15));
  }

  /** Choose a cell of the attention: go to its time, without playing. */
  chooseCell(cell: Cell): void {
    batch(() => {
      const word = this.alignment.value?.words[cell.row] ?? -1;
      this.pause();
      this.word.value = word < 0 ? null : word;
      this.cell.value = cell;
      this.seek(cell.time);
    });
  }

  /** Choose nothing. */
  release(): void {
    batch(() => (this.word.value = this.cell.value = null));
  }

  /** Put a part of the recording on screen, without a word of another. */
  turn(to: number): void {
    const at = Math.min(Math.max(to, 0), this.stretches.length - 1);
    if (at === this.stretch.value) return;
    batch(() => {
      this.pause();
      this.release();
      this.seek(this.stretches[at].start);
      this.stretch.value = at;
    });
  }

  private show(time: number): void {
    this.stretch.value = Math.max(lastBefore(this.stretches.map(({ start }) => start), time + 1e-6), 0);
  }

  private readonly follow = (): void => {
    if (!this.playing.value) return;
    const now = this.audio.currentTime;
    if (now >= this.until) {
      const { until } = this;
      this.pause();
      this.time.value = Math.min(until, this.transcript.duration);
      return;
    }
    batch(() => {
      this.time.value = now;
      this.show(now);
    });
    requestAnimationFrame(this.follow);
  };
}

/** The windows of a model with a decoder; else parts of the same length. */
function stretches({ windowed, windows, duration }: Transcript): Stretch[] {
  if (windowed && windows.length) return windows.map(({ start, end }) => ({ start, end }));
  const count = Math.max(Math.ceil(duration / STRETCH), 1);
  return Array.from({ length: count }, (_, at) => ({ start: at * STRETCH, end: Math.min((at + 1) * STRETCH, duration) }));
}
