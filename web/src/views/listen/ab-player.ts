/** Playback of the sounds of an example on one axis of time: all of them run, one is heard, and another at once when it is chosen. */

import { batch, type ReadonlySignal, signal } from "@preact/signals";
import type { Example } from "../../core/listening";
import type { Playback } from "../../ui/playback-bar";

/** Seconds of the fade from one sound to another, and until sounds that are started begin. */
const FADE = 0.012;
const AHEAD = 0.03;

export class ABPlayer implements Playback {
  readonly time = signal(0);
  readonly playing = signal(false);
  readonly ready: ReadonlySignal<boolean> = signal(true);
  readonly loop = signal(false);
  /** The example and the sound that are, or would be, heard. */
  readonly at = signal(0);
  readonly sound = signal(0);
  private context: AudioContext | null = null;
  private voices: { source: AudioBufferSourceNode; gain: GainNode }[] = [];
  /** The context's time at which the example's time was 0. */
  private zero = 0;

  constructor(readonly examples: Example[]) {}

  get example(): Example {
    return this.examples[this.at.value];
  }

  get duration(): number {
    return this.example.seconds;
  }

  /** Choose another example. */
  turn(to: number): void {
    const at = Math.min(Math.max(to, 0), this.examples.length - 1);
    if (at === this.at.peek()) return;
    batch(() => {
      this.pause();
      this.at.value = at;
      this.sound.value = 0;
      this.time.value = 0;
    });
  }

  /** Hear another sound of the example, from where it is now. */
  choose(sound: number): void {
    if (sound >= this.examples[this.at.peek()].sounds.length) return;
    this.sound.value = sound;
    if (!this.playing.peek()) return;
    const now = this.context!.currentTime;
    this.voices.forEach(({ gain }, number) => gain.gain.setTargetAtTime(number === sound ? 1 : 0, now, FADE / 3));
  }

  /** Play or pause this very sound. */
  toggleSound(at: number, sound: number): void {
    if (this.playing.peek() && this.at.peek() === at && this.sound.peek() === sound) {
      this.pause();
      return;
    }
    batch(() => {
      this.turn(at);
      this.choose(sound);
      if (!this.playing.peek()) this.play();
    });
  }

  toggle(): void {
    if (this.playing.peek()) this.pause();
    else this.play();
  }

  seek(time: number): void {
    const playing = this.playing.peek();
    if (playing) this.pause();
    this.time.value = Math.min(Math.max(time, 0), this.examples[this.at.peek()].seconds);
    if (playing) this.play();
  }

  pause(): void {
    for (const { source } of this.voices) source.stop();
    this.voices = [];
    this.playing.value = false;
  }

  private get end(): number {
    return this.examples[this.at.peek()].sounds[this.sound.peek()].seconds;
  }

  private play(): void {
    const context = (this.context ??= new AudioContext());
    void context.resume(); // browsers let a page sound once somebody has touched it
    if (this.time.peek() >= this.end - 0.02) this.time.value = 0;
    const from = this.time.peek();
    const start = context.currentTime + AHEAD;
    this.zero = start - from;
    this.voices = this.examples[this.at.peek()].sounds.map(({ samples, rate, seconds }, number) => {
      const buffer = context.createBuffer(1, samples.length, rate);
      const channel = buffer.getChannelData(0);
      for (let i = 0; i < samples.length; i++) channel[i] = samples[i] / 32768;
      const source = new AudioBufferSourceNode(context, { buffer });
      const gain = new GainNode(context, { gain: number === this.sound.peek() ? 1 : 0 });
      source.connect(gain).connect(context.destination);
      if (from < seconds) source.start(start, from);
      else source.start(start, 0, 0);
      return { source, gain };
    });
    this.playing.value = true;
    requestAnimationFrame(this.follow);
  }

  private readonly follow = (): void => {
    if (!this.playing.peek() || !this.context) return;
    const now = this.context.currentTime - this.zero;
    const { end } = this;
    if (now >= end) {
      this.pause();
      this.time.value = this.loop.peek() ? 0 : end;
      if (this.loop.peek()) this.play();
      return;
    }
    this.time.value = Math.max(now, this.time.peek()); // the sound begins a moment after the time
    requestAnimationFrame(this.follow);
  };
}
