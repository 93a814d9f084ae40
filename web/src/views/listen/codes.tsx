/** Codes as tokens: pointed at, or walked through with the arrow keys, each says what it is and where it occurs again. */

import { type Signal, useComputed } from "@preact/signals";
import { type Codes, type Example, occurrences, type Sound } from "../../core/listening";
import { plural } from "../../core/format";
import { Lane, type Stretch } from "./lane";
import { drawCodes, type Token } from "./lanes";

/** The token that is pointed at or has the focus, and whose it is. */
export interface Chosen extends Token {
  sound: number;
}

export const rowHeight = (books: number) => Math.min(Math.max(Math.round(104 / books), 9), 17);

export function CodesLane({ sound, number, stretch, chosen, code, seek }: {
  sound: Sound;
  number: number;
  stretch: Stretch;
  chosen: Signal<Chosen | null>;
  /** The code of the chosen token. */
  code: { book: number; code: number } | null;
  seek: (time: number) => void;
}) {
  const codes = sound.codes!;
  const height = rowHeight(codes.books) * codes.books;
  const focus = useComputed(() => (chosen.value?.sound === number ? chosen.value : null)).value;
  const limit = (value: number, size: number) => Math.min(Math.max(value, 0), size - 1);
  const choose = (book: number, frame: number) => (chosen.value = { sound: number, book: limit(book, codes.books), frame: limit(frame, codes.frames) });
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const time = stretch.from + (event.clientX - box.left) / stretch.scale;
    choose(Math.floor((event.clientY - box.top) / rowHeight(codes.books)), Math.floor(time * codes.rate));
  };
  const walk = (event: KeyboardEvent) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    const at = focus ?? { book: 0, frame: Math.max(Math.ceil(stretch.from * codes.rate), 0) };
    if (step) choose(at.book + step[0], at.frame + step[1]);
    else if (event.key === "Enter") seek(at.frame / codes.rate);
    else if (event.key === "Escape") chosen.value = null;
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div
      class="listen-codes" tabIndex={0} role="group" onPointerMove={point} onPointerLeave={() => (chosen.value = null)} onKeyDown={walk}
      aria-label={`Codes of ${sound.name}: ${plural(codes.books, "codebook")}, ${plural(codes.frames, "frame")}; arrow keys go from code to code`}
      onFocus={() => !chosen.value && choose(0, Math.ceil(stretch.from * codes.rate))} onBlur={() => (chosen.value = null)} style={{ width: `${stretch.width}px` }}
    >
      <Lane
        stretch={stretch} height={height} label={`${plural(codes.books, "row")} of coloured cells, a column a frame`} of={[codes, code?.book, code?.code, focus?.book, focus?.frame]}
        draw={(stage) => drawCodes(stage, codes, sound.seconds, code, focus)}
      />
    </div>
  );
}

/** What the chosen token is, and how often its code occurs in each sound. */
export function TokenLine({ example, chosen }: { example: Example; chosen: Signal<Chosen | null> }) {
  const at = chosen.value;
  const sound = at && example.sounds[at.sound];
  const codes = sound?.codes;
  if (!at || !codes) {
    return <p class="listen-token"><span class="hint">Tap or point at a code, or walk through codes with the arrow keys, to see where it, or one like it, occurs.</span></p>;
  }
  const code = codes.values[at.book * codes.frames + at.frame];
  const counted = example.sounds.filter((each): each is Sound & { codes: Codes } => each.codes !== null && each.codes.books > at.book);
  return (
    <p class="listen-token" aria-live="polite">
      <b>code {code}</b> <span>codebook {at.book + 1} of {codes.books}</span> <span>frame {at.frame} of {codes.frames}</span> <span>{(at.frame / codes.rate).toFixed(3)} s</span>
      <span>{counted.map((each) => `${occurrences(each.codes, at.book, code)} × in ${each.name}`).join(", ")}</span>
    </p>
  );
}
