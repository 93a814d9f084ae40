/** The transcript that lies in its page, and how times and words are shown. */

import { readFrame } from "../../core/binary-frame";
import type { Bytes } from "../../core/heatmap";
import { decompress } from "../../core/inline-transport";
import { type Transcript, transcriptOf, type Word } from "../../core/transcript";

export type { Alignment, Attempt, Segment, Transcript, Window, Word } from "../../core/transcript";

export const hasTranscript = (holder: Document = document): boolean => holder.getElementById("transcript") !== null;

export async function openTranscript(holder: Document = document): Promise<Transcript> {
  const data = JSON.parse(new TextDecoder().decode(await decompress(holder.getElementById("transcript")!)));
  return transcriptOf(data, async (kind, window) => {
    const key = kind === "spectrogram" ? kind : `alignment/${window}`;
    return readFrame(await decompress(holder.querySelector(`script.frame[data-key="${key}"]`)!), kind);
  });
}

/** The sound that the page carries; null where it carries none. */
export function embeddedSound(holder: Document = document): Blob | null {
  const block = holder.getElementById("sound");
  if (!block) return null;
  const text = atob((block.textContent ?? "").trim());
  return new Blob([Uint8Array.from(text, (character) => character.charCodeAt(0))], { type: block.dataset.media });
}

/** Part of a spectrogram: columns from `first` up to `last`, zeros beyond its edges. */
export function cut(map: Bytes, first: number, last: number): Bytes {
  const width = Math.max(last - first, 1);
  const values = new Uint8Array(map.height * width);
  for (let row = 0; row < map.height; row++) {
    values.set(map.values.subarray(row * map.width + Math.min(first, map.width), row * map.width + Math.min(last, map.width)), row * width);
  }
  return { values, height: map.height, width };
}

/** How sure the model was of a word, in three steps that are told apart without colour. */
export const sureness = ({ probability }: Word): "sure" | "fair" | "low" => (probability >= 0.8 ? "sure" : probability >= 0.5 ? "fair" : "low");

/** The last of ascending times that is not after t; -1 = none. */
export function lastBefore(times: ArrayLike<number>, t: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
