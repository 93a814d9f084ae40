/** The transcript: every word a button, underlined by how sure the model was of it. */

import { useSignalEffect } from "@preact/signals";
import { useMemo, useRef, useState } from "preact/hooks";
import { clock, number, percent } from "../../core/format";
import { Icon } from "../../ui/icons";
import { moveFocus } from "../../ui/roving-tabindex";
import type { Player } from "./player";
import { sureness, type Segment, type Transcript } from "./transcript";

export function Script({ player }: { player: Player }) {
  const list = useRef<HTMLDivElement>(null);
  const { transcript } = player;
  useMarks(player, list);
  // Rendered once: what is spoken and what is chosen are marks on their words.
  const lines = useMemo(() => <Lines transcript={transcript} />, [transcript]);
  return (
    <>
      <div class="sound-head">
        <h2 id="sound-text">Transcript</h2>
        <p class="sound-key hint" aria-hidden="true">
          probability of a word: <span class="sure">80% and more</span> <span class="fair">50–80%</span> <span class="low">below 50%<sup>31%</sup></span>
        </p>
      </div>
      <p class="hint">Click a word to hear it and to see where it was heard; arrow keys go from word to word.</p>
      <div
        class="sound-script" ref={list} role="group" aria-label="Words" onKeyDown={moveFocus}
        onClick={(event) => {
          const word = (event.target as HTMLElement).closest<HTMLElement>("[data-cell]");
          if (word) player.choose(Number(word.dataset.cell));
        }}
      >
        {lines}
      </div>
      {!transcript.segments.length && <p>No speech was heard.</p>}
      <Chosen player={player} />
      <WordTable transcript={transcript} />
    </>
  );
}

/** All segments. */
function Lines({ transcript }: { transcript: Transcript }) {
  let first = 0;
  return (
    <>
      {transcript.segments.map((segment, at) => {
        const from = first;
        first += segment.words?.length ?? 0;
        return <Line key={at} segment={segment} first={from} />;
      })}
    </>
  );
}

function Line({ segment, first }: { segment: Segment; first: number }) {
  return (
    <div class="sound-line">
      <span class="sound-at">{clock(segment.start, 1)}</span>
      <p>
        {segment.words?.map((word, at) => (
          <>
            {word.word.startsWith(" ") && " "}
            <button
              key={at} type="button" class={`sound-word ${sureness(word)}`} data-cell={first + at} tabIndex={first + at === 0 ? 0 : -1}
              aria-label={`${word.word.trim()}, ${clock(word.start)}, ${percent(word.probability)}`}
            >
              {word.word.trim()}{sureness(word) === "low" && <sup>{Math.round(100 * word.probability)}%</sup>}
            </button>
          </>
        )) ?? segment.text}
      </p>
    </div>
  );
}

/** Mark the word that is spoken and the one that is chosen, without rendering thousands of others again. */
function useMarks(player: Player, list: { readonly current: HTMLElement | null }): void {
  const move = (name: "spoken" | "chosen", at: number | null) => {
    list.current?.querySelectorAll(`[data-${name}]`).forEach((word) => word.removeAttribute(`data-${name}`));
    const word = at === null ? null : list.current?.querySelector<HTMLElement>(`[data-cell="${at}"]`);
    word?.setAttribute(`data-${name}`, "");
    return word;
  };
  useSignalEffect(() => {
    const word = move("spoken", player.spoken.value);
    if (word && player.playing.peek() && list.current) scrollInto(list.current, word);
  });
  useSignalEffect(() => {
    const before = list.current?.querySelector<HTMLElement>('[data-cell][tabindex="0"]');
    const word = move("chosen", player.word.value);
    list.current?.querySelectorAll("[aria-pressed]").forEach((each) => each.removeAttribute("aria-pressed"));
    word?.setAttribute("aria-pressed", "true");
    if (word && before) before.tabIndex = -1;
    if (word) word.tabIndex = 0;
  });
}

/** Scroll the list, and not the page, until the word is in it. */
function scrollInto(list: HTMLElement, word: HTMLElement): void {
  const box = list.getBoundingClientRect();
  const own = word.getBoundingClientRect();
  if (own.top < box.top) list.scrollTop -= box.top - own.top + 8;
  else if (own.bottom > box.bottom) list.scrollTop += own.bottom - box.bottom + 8;
}

function Chosen({ player }: { player: Player }) {
  const at = player.word.value;
  const word = at === null ? null : player.transcript.words[at];
  const { inside, transcript } = player;
  return (
    <div class="sound-chosen">
      <p role="status">
        {word
          ? <><b>{word.word.trim()}</b> <span>{clock(word.start)} – {clock(word.end)}</span> <span>probability {number(word.probability, 3)}</span></>
          : <span class="hint">No word is chosen.</span>}
      </p>
      {inside && word && !transcript.heads && (
        <button class="sound-inside" title="Lines from this frame of sound to the frames it attends to" onClick={() => inside.openFrame(word.start)}>Where its first frame looks <Icon name="next" /></button>
      )}
    </div>
  );
}

function WordTable({ transcript }: { transcript: Transcript }) {
  const [open, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Words as a table</summary>
      {open && (
        <div class="sound-scroll" tabIndex={0} role="region" aria-label="Table of words">
          <table class="sound-table">
            <thead><tr><th scope="col">word</th><th scope="col">from</th><th scope="col">to</th><th scope="col">probability</th></tr></thead>
            <tbody>
              {transcript.words.map(({ word, start, end, probability }, at) => (
                <tr key={at}><th scope="row">{word.trim()}</th><td>{clock(start)}</td><td>{clock(end)}</td><td>{number(probability, 3)}</td></tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </details>
  );
}
