/** Page of sounds: examples, each with several sounds on one axis of time, between which one switches while they play. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import "./sound.css";
import "./listen.css";
import { clock, plural } from "../core/format";
import type { Example, Listening } from "../core/listening";
import { Icon } from "../ui/icons";
import { Logo } from "../ui/logo";
import { PlaybackBar } from "../ui/playback-bar";
import { nextTheme, theme } from "../ui/theme";
import { ABPlayer } from "./listen/ab-player";
import { Sheet } from "./listen/sheet";

const FARTHEST = 32;

export function ListeningPage({ listening }: { listening: Listening }) {
  const { title, about, examples, left_out } = listening;
  const player = useMemo(() => new ABPlayer(examples), [listening]);
  const zoom = useSignal(1);
  useKeys(player, zoom);
  const seconds = examples.flatMap(({ sounds }) => sounds).reduce((sum, sound) => sum + sound.seconds, 0);
  return (
    <>
      <header class="top listen-top">
        <div class="brand"><Logo /></div>
        <h1 class="sound-name">{title}</h1>
        <p class="facts"><span>{plural(examples.length, "example")}</span><span>{clock(seconds, 0)} of sound</span></p>
        <div class="tools">
          <button class="quiet" onClick={nextTheme} aria-label={`Theme: ${theme.value}. Change it`} title={`Theme: ${theme.value}`}><Icon name={theme.value} /></button>
        </div>
      </header>
      <PlaybackBar playback={player}><Choice player={player} /><Tools player={player} zoom={zoom} /></PlaybackBar>
      <main class="listen">
        {about && <p class="listen-about">{about}</p>}
        <p class="hint listen-keys">
          Each sound from the top: what is played, waveform, log-mel spectrogram{hasCodes(examples) && <>, codes (a row a codebook, a column a frame; like colours are like codes)</>}.
          Click to go there. <span class="listen-shortcuts"><kbd>Space</kbd> plays, <kbd>1</kbd> <kbd>2</kbd> … switch sounds while they play{examples.length > 1 && <>, <kbd>[</kbd> <kbd>]</kbd> examples</>}, <kbd>+</kbd> <kbd>−</kbd> zoom, <kbd>l</kbd> repeats.</span>
        </p>
        {examples.map((example, at) => <Panel key={at} player={player} zoom={zoom} example={example} at={at} />)}
        {left_out.length > 0 && <p class="listen-left" role="note">Not in this page, for its size: {left_out.join("; ")}.</p>}
      </main>
      <footer class="status">
        <span class="provenance"><span>glassformer {listening.version}</span></span>
        {listening.command && <code class="sound-command">{listening.command}</code>}
      </footer>
    </>
  );
}

const hasCodes = (examples: Example[]) => examples.some(({ sounds }) => sounds.some(({ codes }) => codes));

function Panel({ player, zoom, example, at }: { player: ABPlayer; zoom: Signal<number>; example: Example; at: number }) {
  const { title, about, facts } = example;
  return (
    <section class="sound-panel listen-example" aria-labelledby={`example-${at}`} data-current={player.at.value === at && player.examples.length > 1 ? "" : undefined}>
      <h2 id={`example-${at}`}>{title}</h2>
      {about && <p class="listen-text">{about}</p>}
      {facts.length > 0 && <dl class="listen-facts">{facts.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>}
      <Sheet player={player} at={at} zoom={zoom} />
    </section>
  );
}

/** The sounds of the example that plays, of which one is heard. */
function Choice({ player }: { player: ABPlayer }) {
  const { title, sounds } = player.example;
  return (
    <fieldset class="listen-choice">
      <legend>{player.examples.length > 1 ? title : "Sound"}</legend>
      <div class="segments">
        {sounds.map(({ name }, number) => (
          <label key={number}>
            <input type="radio" name="sound" checked={player.sound.value === number} onChange={() => player.choose(number)} />
            <span><kbd>{number + 1}</kbd> {name}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function Tools({ player, zoom }: { player: ABPlayer; zoom: Signal<number> }) {
  return (
    <div class="listen-tools">
      <button class="quiet" aria-pressed={player.loop.value} aria-label="Repeat" title="Repeat (l)" onClick={() => (player.loop.value = !player.loop.value)}><Icon name="loop" /></button>
      <button class="quiet" aria-label="Zoom out" title="Zoom out (−)" disabled={zoom.value <= 1} onClick={() => zoomBy(zoom, 0.5)}>−</button>
      <output aria-label="Zoom">{zoom.value} ×</output>
      <button class="quiet" aria-label="Zoom in" title="Zoom in (+)" disabled={zoom.value >= FARTHEST} onClick={() => zoomBy(zoom, 2)}>+</button>
    </div>
  );
}

function zoomBy(zoom: Signal<number>, factor: number): void {
  zoom.value = Math.min(Math.max(zoom.value * factor, 1), FARTHEST);
}

/** Space plays, digits choose a sound, brackets an example, plus and minus zoom; fields and buttons keep their own keys. */
function useKeys(player: ABPlayer, zoom: Signal<number>): void {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const { tagName, type } = event.target as HTMLInputElement;
      if (event.ctrlKey || event.metaKey || event.altKey || (/^(INPUT|SELECT|TEXTAREA)$/.test(tagName) && type !== "range" && type !== "radio")) return;
      if (event.key === " " && (tagName === "BUTTON" || type === "radio")) return;
      if (event.key === " ") player.toggle();
      else if (/^[1-9]$/.test(event.key)) player.choose(Number(event.key) - 1);
      else if (event.key === "[" || event.key === "]") {
        player.turn(player.at.value + (event.key === "[" ? -1 : 1));
        document.getElementById(`example-${player.at.value}`)?.scrollIntoView({ block: "nearest" });
      } else if (event.key === "+" || event.key === "=") zoomBy(zoom, 2);
      else if (event.key === "-") zoomBy(zoom, 0.5);
      else if (event.key === "l") player.loop.value = !player.loop.value;
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [player]);
}
