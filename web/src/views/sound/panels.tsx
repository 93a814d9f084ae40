/** What a transcription shows, by itself or among the views of the explorer: playback, words, sound, heads, windows. */

import { useEffect } from "preact/hooks";
import { bytes, clock, count, percent, plural } from "../../core/format";
import { PlaybackBar } from "../../ui/playback-bar";
import { Heads } from "./heads";
import type { Player } from "./player";
import { Script } from "./script";
import { Strip } from "./strip";
import { type Transcript } from "./transcript";
import { Windows } from "./windows";

/** `pictured`: the picture comes first, with its words above it; otherwise the transcript. */
export function Panels({ player, pictured = false }: { player: Player; pictured?: boolean }) {
  const { heads, windowed, windows } = player.transcript;
  const script = <section class="sound-panel" aria-labelledby="sound-text"><Script player={player} /></section>;
  return (
    <>
      {!pictured && script}
      <section class="sound-panel" aria-labelledby="sound-heard"><Strip player={player} /></section>
      {pictured && script}
      {heads && <section class="sound-panel" aria-labelledby="sound-heads"><Heads player={player} heads={heads} /></section>}
      {windowed && windows.length > 0 && <section class="sound-panel" aria-labelledby="sound-windows"><Windows player={player} /></section>}
    </>
  );
}

/** The recording in short; of the model, what the rest of the page does not say. */
export function Facts({ transcript, model }: { transcript: Transcript; model: boolean }) {
  const { duration, language, language_probability: share, words, windowed, windows, model: { name, parameters } } = transcript;
  const spoken = language && `language ${language}${share === null ? "" : ` (${percent(share)})`}`;
  const facts = [clock(duration), spoken, plural(words.length, "word"), windowed && windows.length > 1 && plural(windows.length, "window"), model && name, model && `${count(parameters)} parameters`];
  return <p class="facts">{facts.filter(Boolean).map((fact) => <span key={fact}>{fact}</span>)}</p>;
}

const SPEEDS = [0.5, 0.75, 1, 1.5, 2];

/** Playback with the speed, or the choice of a file where the page carries no sound. */
export function Controls({ player }: { player: Player }) {
  return (
    <PlaybackBar playback={player}>
      <label class="sound-speed">Speed <select value={player.speed.value} onChange={(event) => player.setSpeed(Number(event.currentTarget.value))}>
        {SPEEDS.map((speed) => <option key={speed} value={speed}>{speed} ×</option>)}
      </select></label>
      {!player.ready.value && <Missing player={player} />}
    </PlaybackBar>
  );
}

function Missing({ player }: { player: Player }) {
  const { playable, bytes: size } = player.transcript;
  const why = player.trouble.value || (playable ? "" : `The sound (${bytes(size)}) is not in this page.`);
  if (!why) return null;
  return (
    <p class="sound-missing" role="status">
      {why} <label class="sound-file">Choose its file to hear it
        <input type="file" accept="audio/*,video/*" onChange={(event) => event.currentTarget.files?.[0] && player.load(event.currentTarget.files[0])} />
      </label>
    </p>
  );
}

/** The words with their times, for a table that other programs read. */
export const wordRows = ({ words }: Transcript): (string | number)[][] =>
  [["word", "start", "end", "probability"], ...words.map(({ word, start, end, probability }) => [word.trim(), start, end, probability])];

/**
 * Space plays; brackets turn to another window, comma and stop to another head; Esc lets go. Fields, buttons and dialogs
 * keep their own keys. It listens before the explorer does, for which some of these keys mean layers and heads.
 */
export function useKeys(player: Player): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || target.closest?.("dialog[open]")) return;
      if (event.key === " " && /^(BUTTON|SUMMARY)$/.test(target.tagName)) return;
      const heads = player.transcript.attention[0]?.heads.length ?? 1;
      if (event.key === " ") player.toggle();
      else if (event.key === "[") player.turn(player.stretch.value - 1);
      else if (event.key === "]") player.turn(player.stretch.value + 1);
      else if (event.key === ",") player.head.value = Math.max(player.head.value - 1, 0);
      else if (event.key === ".") player.head.value = Math.min(player.head.value + 1, heads - 1);
      else if (event.key === "Escape") player.release();
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press, true);
    return () => removeEventListener("keydown", press, true);
  }, [player]);
}
