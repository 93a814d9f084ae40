/** Sound view of the explorer: the transcription of its recording, and from any word or cell the way into a head. */

import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Progress, ViewProps } from "../../core/types";
import "../sound.css";
import { exportsOf } from "./exports";
import { Controls, Facts, Panels, useKeys } from "./panels";
import type { Player } from "./player";
import type { SoundStore } from "./sound-store";

export function SoundView({ sound, session, exports, say }: ViewProps & { sound: SoundStore }) {
  const player = sound.player.value;
  useEffect(() => {
    void sound.startOnce();
    return () => sound.player.peek()?.pause();
  }, [sound]);
  return (
    <div class="sound-view">
      {sound.problem.value && <Problem text={sound.problem.value} />}
      {sound.progress.value && <Waiting {...sound.progress.value} />}
      {player && <Transcribed player={player} sound={sound} session={session} exports={exports} say={say} />}
    </div>
  );
}

function Transcribed({ player, sound, session, exports, say }: { player: Player; sound: SoundStore } & Pick<ViewProps, "session" | "exports" | "say">) {
  const host = useRef<HTMLDivElement>(null);
  useKeys(player);
  useSignalEffect(() => sound.link());
  useEffect(() => {
    exports(exportsOf(player, () => host.current!, session.opening.findings[0]?.sentence));
    say(`${player.transcript.name} is transcribed.`);
    return () => exports(null);
  }, [player]);
  return (
    <>
      <Facts transcript={player.transcript} model={false} />
      <Controls player={player} />
      <div class="sound" ref={host}><Panels player={player} pictured /></div>
    </>
  );
}

function Waiting({ text, at }: { text: string; at: Progress }) {
  return (
    <div class="running sound-running">
      <p role="status">{text}</p>
      <progress aria-label={text.split(":")[0]} {...(at.of ? { value: at.done, max: at.of } : {})} />
    </div>
  );
}

/** Why there is nothing; a command is as one. */
function Problem({ text }: { text: string }) {
  const at = text.lastIndexOf("glassformer ");
  return <p class="sound-problem" role="status">{at < 0 ? text : <>{text.slice(0, at)}<code>{text.slice(at)}</code></>}</p>;
}
