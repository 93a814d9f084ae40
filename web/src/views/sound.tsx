/** Page of a transcription: the sound under its words, the attention that heard them, and every attempt of each window. */

import { render } from "preact";
import { useMemo } from "preact/hooks";
import "./sound.css";
import { csv } from "../core/csv";
import { download } from "../core/browser";
import { clock, percent, plural } from "../core/format";
import { pairsOf } from "../core/url-state";
import { Icon } from "../ui/icons";
import { Logo } from "../ui/logo";
import { chooseTheme, followTheme, nextTheme, theme } from "../ui/theme";
import { Controls, Facts, Panels, useKeys, wordRows } from "./sound/panels";
import { Player } from "./sound/player";
import { embeddedSound, openTranscript, type Transcript } from "./sound/transcript";
import type { ViewModule } from "../ui/view-module";
import { SoundView } from "./sound/view";

async function alonePage(root: Element): Promise<void> {
  const linkTheme = pairsOf(location.hash).get("theme");
  followTheme();
  const transcript = await openTranscript();
  document.title = `${transcript.name} · glassformer`;
  render(<SoundPage transcript={transcript} />, root);
  if (linkTheme) chooseTheme(linkTheme);
}

function SoundPage({ transcript }: { transcript: Transcript }) {
  const player = useMemo(() => opened(transcript), [transcript]);
  useKeys(player);
  return (
    <>
      <header class="top sound-top">
        <div class="brand"><Logo /></div>
        <h1 class="sound-name">{transcript.name}</h1>
        <Facts transcript={transcript} model />
        <div class="tools">
          <button class="quiet" onClick={nextTheme} aria-label={`Theme: ${theme.value}. Change it`} title={`Theme: ${theme.value}`}><Icon name={theme.value} /></button>
          <button class="quiet worded" disabled={!transcript.words.length} onClick={() => save(transcript)}>Words as CSV</button>
        </div>
      </header>
      <Controls player={player} />
      <main class="sound">{transcript.words.length > 0 && <p class="found">{inShort(transcript)}</p>}<Panels player={player} /></main>
      <footer class="status">
        <span class="provenance"><span>{transcript.model.name}</span><span>weights {transcript.model.revision}</span><span>{transcript.model.dtype}</span>{Object.entries(transcript.options).map(([name, value]) => <span key={name}>{name} {value}</span>)}</span>
        <code class="sound-command">{transcript.command}</code>
      </footer>
    </>
  );
}

/** How many words were heard, and the one that is least sure. */
function inShort({ words, duration }: Transcript): string {
  const least = words.reduce((one, other) => (other.probability < one.probability ? other : one));
  return `${plural(words.length, "word")} in ${clock(duration)}; the least sure is “${least.word.trim()}”, ${percent(least.probability)}.`;
}

function opened(transcript: Transcript): Player {
  const player = new Player(transcript);
  const sound = embeddedSound();
  if (sound) player.load(sound);
  return player;
}

function save(transcript: Transcript): void {
  download(`${transcript.name.replace(/\.\w+$/, "")}-words.csv`, new Blob([csv(wordRows(transcript))], { type: "text/csv" }));
}

export const view: ViewModule = {
  name: "sound", title: "Sound", alone: true,
  sentence: "Words, sound and attention on one axis of time. Click a word to hear it, a cell of the attention to look into a head.",
  Component: ({ sound, ...props }) => sound && <SoundView {...props} sound={sound} />,
  alonePage,
};
