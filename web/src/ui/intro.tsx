/** Introduction of each view: one sentence, and a diagram that explains how to read it. */

import type { ComponentChildren } from "preact";
import { MODULES } from "virtual:views";
import type { Session } from "../core/types";

export function Intro({ view, session }: { view: string; session: Session }) {
  const text = session.how_to_read[view];
  return (
    <div class="intro">
      <h2 class="unseen">{MODULES[view].title} view</h2>
      <p>{MODULES[view].sentence}</p>
      {text && (
        <details>
          <summary>How to read this</summary>
          <div class="reading">
            {DRAWINGS[view]}
            <p>{text}</p>
          </div>
        </details>
      )}
    </div>
  );
}

const Note = ({ x, y, children, end = false }: { x: number; y: number; children: string; end?: boolean }) => (
  <text x={x} y={y} text-anchor={end ? "end" : "start"}>{children}</text>
);

/** A word's row in a small map: where it is bright. */
const Cells = ({ bright }: { bright: number[] }) => (
  <g>
    {bright.flatMap((column, row) =>
      Array.from({ length: 4 }, (_, at) => (
        <rect key={`${row},${at}`} x={70 + at * 20} y={26 + row * 20} width="19" height="19" class={at === column ? "bright" : "dim"} />
      )),
    )}
  </g>
);

const Drawing = ({ children }: { children: ComponentChildren }) => <svg viewBox="0 0 300 120" width="300" height="120" aria-hidden="true">{children}</svg>;

const Map = () => (
  <Drawing>
    <Cells bright={[0, 0, 1, 2]} />
    {["the", "cat", "sat", "up"].map((word, at) => <Note key={word} x={64} y={40 + at * 20} end>{word}</Note>)}
    {["the", "cat", "sat", "up"].map((word, at) => <text key={word} x={79 + at * 20} y={20} text-anchor="middle" class="small">{word}</text>)}
    <path class="arrow" d="M152 75h34" />
    <Note x={190} y={72}>“sat” attends</Note>
    <Note x={190} y={86}>mostly at “cat”</Note>
  </Drawing>
);

const DRAWINGS: Record<string, ComponentChildren> = {
  model: <Map />,
  matrix: <Map />,
  head: (
    <Drawing>
      {["the", "cat", "sat"].map((word, at) => <Note key={word} x={50} y={34 + at * 30} end>{word}</Note>)}
      {["the", "cat", "sat"].map((word, at) => <Note key={word} x={150} y={34 + at * 30}>{word}</Note>)}
      <path class="line strong" d="M56 90C95 90 105 60 144 60" />
      <path class="line" d="M56 90C95 90 105 30 144 30" />
      <path class="line stub" d="M56 94h18" />
      <path class="arrow" d="M176 56h10" />
      <Note x={190} y={60}>thick: 70%</Note>
      <Note x={56} y={112}>other: 8%</Note>
    </Drawing>
  ),
  neuron: (
    <Drawing>
      {["query", "× key", "= score", "→ share"].map((word, at) => (
        <g key={word}>
          <Note x={62} y={28 + at * 26} end>{word}</Note>
          {at < 2
            ? Array.from({ length: 8 }, (_, cell) => <rect key={cell} x={72 + cell * 14} y={14 + at * 26} width="13" height="18" class={(cell * 5 + at * 3)% 7 < 3 ? "bright" : "dim"} />)
            : <rect x={72} y={14 + at * 26} width={at === 2 ? 74 : 48} height="18" class={at === 2 ? "dim" : "bright"} />}
        </g>
      ))}
      <Note x={200} y={54}>pair by pair,</Note>
      <Note x={200} y={68}>then added up</Note>
      <Note x={128} y={106}>41%</Note>
    </Drawing>
  ),
  patch: (
    <Drawing>
      <Cells bright={[2, 2, 0, 3]} />
      {["0", "1", "2", "3"].map((layer, at) => <Note key={layer} x={64} y={40 + at * 20} end>{`layer ${layer}`}</Note>)}
      <path class="arrow" d="M152 50h34" />
      <Note x={190} y={46}>without it, the</Note>
      <Note x={190} y={60}>prediction changes</Note>
    </Drawing>
  ),
  lens: (
    <Drawing>
      {["layer 0", "layer 1", "output"].map((layer, row) => (
        <g key={layer}>
          <Note x={62} y={40 + row * 26} end>{layer}</Note>
          {["is", "the", "end"].map((word, at) => <g key={word}><rect x={70 + at * 44} y={24 + row * 26} width="42" height="23" class={at <= row ? "bright" : "dim"} /></g>)}
        </g>
      ))}
      <path class="arrow" d="M206 74h18" />
      <Note x={228} y={70}>settled</Note>
      <Note x={228} y={84}>from here</Note>
    </Drawing>
  ),
  attribution: (
    <Drawing>
      {[["i feel", 12], ["furious", 88], ["today", 30]].map(([word, width], at) => (
        <g key={word}>
          <Note x={76} y={34 + at * 26} end>{String(word)}</Note>
          <rect x={84} y={20 + at * 26} width={Number(width)} height="18" class={at === 1 ? "bright" : "dim"} />
        </g>
      ))}
      <Note x={180} y={60}>made it anger</Note>
      <Note x={84} y={108}>together: the logit</Note>
    </Drawing>
  ),
  sound: (
    <Drawing>
      {["time", "flies", "by"].map((word, row) => (
        <g key={word}>
          {Array.from({ length: 6 }, (_, column) => <rect key={column} x={62 + column * 20} y={22 + row * 22} width="19" height="21" class={column >> 1 === row ? "bright" : "dim"} />)}
          <Note x={54} y={37 + row * 22} end>{word}</Note>
        </g>
      ))}
      <path class="line strong" d="M62 33H102V55H142V77H182" />
      <Note x={194} y={40}>the path says</Note>
      <Note x={194} y={54}>when each begins</Note>
      <Note x={62} y={108}>time →</Note>
    </Drawing>
  ),
  similarity: (
    <Drawing>
      <Cells bright={[0, 1, 1, 3]} />
      {["a", "man", "plays", "guitar"].map((word, at) => <Note key={word} x={64} y={40 + at * 20} end>{word}</Note>)}
      <path class="arrow" d="M152 65h34" />
      <Note x={190} y={62}>all cells add up</Note>
      <Note x={190} y={76}>to the cosine</Note>
    </Drawing>
  ),
  contexts: (
    <Drawing>
      {["0.91", "0.88", "0.84"].map((score, at) => (
        <g key={score}>
          <Note x={62} y={34 + at * 28} end>{score}</Note>
          <rect x={74} y={20 + at * 28} width="150" height="20" class="dim" />
          <rect x={110 + at * 22} y={20 + at * 28} width="34" height="20" class="bright" />
        </g>
      ))}
      <Note x={236} y={62}>same place,</Note>
      <Note x={236} y={76}>other text</Note>
    </Drawing>
  ),
  embedding: (
    <Drawing>
      {[[40, 40], [58, 30], [52, 56], [74, 46]].map(([x, y]) => <circle key={x} class="bright" cx={x} cy={y} r="6" />)}
      {[[120, 86], [136, 74], [142, 96]].map(([x, y]) => <rect key={x} class="dim" x={x - 6} y={y - 6} width="12" height="12" />)}
      <path class="line" d="M40 40L58 30" />
      <Note x={176} y={52}>near = similar</Note>
      <Note x={176} y={72}>colour = class</Note>
    </Drawing>
  ),
  generate: (
    <Drawing>
      <Note x={62} y={30} end>the cat</Note>
      <path class="line strong" d="M70 26h26" />
      <path class="line" d="M70 26C86 26 82 66 96 66" />
      <Note x={102} y={30}>sat</Note>
      <Note x={102} y={70}>ran</Note>
      <rect x={150} y={16} width="90" height="18" class="bright" />
      <rect x={150} y={56} width="34" height="18" class="dim" />
      <Note x={248} y={30}>52%</Note>
      <Note x={192} y={70}>19%</Note>
      <Note x={102} y={104}>… and all others: 29%</Note>
    </Drawing>
  ),
};
