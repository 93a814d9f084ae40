/** Page of a transcription: the sound under its words, the attention that heard them, and every attempt of each window. */

import { useComputed } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import "./sound.css";
import { csv } from "../core/csv";
import { download } from "../core/browser";
import { bytes, count, percent, plural } from "../core/format";
import { Icon } from "../ui/icons";
import { Logo } from "../ui/logo";
import { nextTheme, theme } from "../ui/theme";
import { Heads } from "./sound/heads";
import { Player } from "./sound/player";
import { Strip } from "./sound/strip";
import { Script } from "./sound/script";
import { clock, type Transcript } from "./sound/transcript";
import { Windows } from "./sound/windows";

export function SoundPage({ transcript }: { transcript: Transcript }) {
  const player = useMemo(() => new Player(transcript), [transcript]);
  useKeys(player);
  const { heads, windowed, windows, words } = transcript;
  return (
    <>
      <header class="top sound-top">
        <div class="brand"><Logo /></div>
        <h1 class="sound-name">{transcript.name}</h1>
        <Facts transcript={transcript} />
        <div class="tools">
          <button class="quiet" onClick={nextTheme} aria-label={`Theme: ${theme.value}. Change it`} title={`Theme: ${theme.value}`}><Icon name={theme.value} /></button>
          <button class="quiet worded" disabled={!words.length} onClick={() => save(transcript)}>Words as CSV</button>
        </div>
      </header>
      <Controls player={player} />
      <main class="sound">
        <section class="sound-panel" aria-labelledby="sound-text"><Script player={player} /></section>
        <section class="sound-panel" aria-labelledby="sound-heard"><Strip player={player} /></section>
        {heads && <section class="sound-panel" aria-labelledby="sound-heads"><Heads player={player} heads={heads} /></section>}
        {windowed && windows.length > 0 && <section class="sound-panel" aria-labelledby="sound-windows"><Windows player={player} /></section>}
      </main>
      <footer class="status">
        <span class="provenance"><span>{transcript.model.name}</span><span>weights {transcript.model.revision}</span><span>{transcript.model.dtype}</span>{Object.entries(transcript.options).map(([name, value]) => <span key={name}>{name} {value}</span>)}</span>
        <code class="sound-command">{transcript.command}</code>
      </footer>
    </>
  );
}

function Facts({ transcript }: { transcript: Transcript }) {
  const { duration, language, language_probability: share, words, windowed, windows, model } = transcript;
  const spoken = language && `language ${language}${share === undefined ? "" : ` (${percent(share)})`}`;
  const facts = [clock(duration), spoken, plural(words.length, "word"), windowed && windows.length > 1 && plural(windows.length, "window"), model.name, `${count(model.parameters)} parameters`];
  return <p class="facts">{facts.filter(Boolean).map((fact) => <span key={fact}>{fact}</span>)}</p>;
}

const SPEEDS = [0.5, 0.75, 1, 1.5, 2];

/** Play and pause, the time as a slider, the speed; or the choice of a file where the page carries no sound. */
function Controls({ player }: { player: Player }) {
  const { transcript } = player;
  const shown = useComputed(() => player.time.value.toFixed(1)); // ten times a second is often enough
  const at = Number(shown.value);
  return (
    <section class="sound-bar" aria-label="Playback">
      <button class="primary" disabled={!player.ready.value} onClick={() => player.toggle()}>
        <Icon name={player.playing.value ? "pause" : "run"} />{player.playing.value ? "Pause" : "Play"}
      </button>
      <input
        type="range" min="0" max={transcript.duration} step="0.1" value={at} aria-label="Time" aria-valuetext={`${clock(at, 1)} of ${clock(transcript.duration, 1)}`}
        onInput={(event) => player.seek(Number(event.currentTarget.value))}
      />
      <output class="sound-clock" aria-live="off">{clock(at, 1)} <span>/ {clock(transcript.duration, 1)}</span></output>
      <label class="sound-speed">Speed <select value={player.speed.value} onChange={(event) => player.setSpeed(Number(event.currentTarget.value))}>
        {SPEEDS.map((speed) => <option key={speed} value={speed}>{speed} ×</option>)}
      </select></label>
      {!player.ready.value && <Missing player={player} />}
    </section>
  );
}

function Missing({ player }: { player: Player }) {
  const { embedded, bytes: size } = player.transcript;
  const why = player.trouble.value || (embedded ? "" : `The sound (${bytes(size)}) is not in this page.`);
  if (!why) return null;
  return (
    <p class="sound-missing" role="status">
      {why} <label class="sound-file">Choose its file to hear it
        <input type="file" accept="audio/*,video/*" onChange={(event) => event.currentTarget.files?.[0] && player.load(event.currentTarget.files[0])} />
      </label>
    </p>
  );
}

function save({ name, words }: Transcript): void {
  const rows = [["word", "start", "end", "probability"], ...words.map(({ word, start, end, probability }) => [word.trim(), start, end, probability])];
  download(`${name.replace(/\.\w+$/, "")}-words.csv`, new Blob([csv(rows)], { type: "text/csv" }));
}

/** Space plays; brackets turn to another window, comma and stop to another head. Fields and buttons keep their own keys. */
function useKeys(player: Player): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
      if (event.key === " " && /^(BUTTON|SUMMARY)$/.test(target.tagName)) return;
      const heads = player.transcript.attention[0]?.heads.length ?? 1;
      if (event.key === " ") player.toggle();
      else if (event.key === "[") player.turn(player.stretch.value - 1);
      else if (event.key === "]") player.turn(player.stretch.value + 1);
      else if (event.key === ",") player.head.value = Math.max(player.head.value - 1, 0);
      else if (event.key === ".") player.head.value = Math.min(player.head.value + 1, heads - 1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [player]);
}
