/** The text as it is written: each token shaded by how likely it was, or by how much the step looked at had an eye on it. */

import { Fragment } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { number, percent, visible } from "../../core/format";
import type { Token, TreeNode } from "../../core/types";
import { rove } from "../../ui/roving";
import type { Scribe } from "./scribe";
import { gaps, parts } from "./spelling";
import { chanceColour, gazeColour } from "./surprise";

export function Paper({ scribe }: { scribe: Scribe }) {
  const { gaze } = scribe;
  const dark = scribe.props.dark.value;
  const path = scribe.path.value;
  const writing = scribe.writing.value;
  const shares = gaze.on ? gaze.shares.value : null;
  const map = gaze.map.value;
  const most = shares ? Math.max(...shares) : 0;
  const own = map !== null && map.keys === map.queries;
  const step = scribe.step.value;
  const pinned = scribe.props.state.value.writing.at;
  const box = useRef<HTMLDivElement>(null);
  const shade = (key: number) => (shares ? gazeColour(shares[key] ?? 0, most, dark) : undefined);

  // What is being written stays on screen.
  useEffect(() => {
    const element = box.current;
    if (element && scribe.busy.peek()) element.scrollTop = element.scrollHeight;
  }, [path.length]);

  const begun = writing?.begun ?? 0;
  const answers = scribe.session.model.answers;
  const focusable = Math.min(pinned ?? path.length, path.length);
  return (
    <div class="gen-paper" ref={box}>
      {answers && <Source scribe={scribe} shade={own ? none : shade} shares={own ? null : shares} />}
      <p class="gen-text" data-gaze={gaze.on ? "" : undefined} data-waiting={gaze.on && !shares ? "" : undefined}>
        {!answers && <span class="gen-prompt">{writing && <Gapped tokens={writing.before} text={writing.prompt} shade={own ? shade : none} shares={own ? shares : null} />}</span>}
        <span role="listbox" aria-label="Tokens written" aria-orientation="horizontal" tabIndex={path.length ? undefined : 0} onKeyDown={rove}>
          {path.map((node, at) => {
            const depth = at + 1;
            const key = begun + at;
            return (
              <Word
                key={node.id} node={node} scribe={scribe} depth={depth} looked={depth === step} pinned={depth === pinned} focusable={depth === focusable}
                colour={gaze.on ? (own && depth < step ? shade(key) : undefined) : chanceColour(node.logprob, dark)} share={gaze.on && own && depth < step ? shares?.[key] : undefined}
              />
            );
          })}
        </span>
        {scribe.busy.value && <i class="gen-caret" aria-hidden="true" />}
      </p>
    </div>
  );
}

const none = () => undefined;

interface Read {
  tokens: readonly Token[];
  text: string;
  shade(key: number): string | undefined;
  shares: ArrayLike<number> | null;
}

/** What the model only read, spelled as it was. */
function Gapped({ tokens, text, shade, shares }: Read) {
  const before = gaps(tokens, text);
  return (
    <>
      {tokens.map((token, at) => (
        <Fragment key={at}>
          {before[at]}
          <span class={token.special ? "gen-special" : undefined} style={{ background: shade(at) }} title={shares ? `${percent(shares[at] ?? 0)} of the attention` : undefined}>
            {parts(token.text, token.piece, token.special).body}
          </span>
        </Fragment>
      ))}
    </>
  );
}

interface WordProps {
  node: TreeNode;
  scribe: Scribe;
  depth: number;
  looked: boolean;
  pinned: boolean;
  focusable: boolean;
  colour?: string;
  share?: number;
}

function Word({ node, scribe, depth, looked, pinned, focusable, colour, share }: WordProps) {
  const { before, body, after } = parts(node.text, node.piece, node.special);
  const p = Math.exp(node.logprob);
  const says = share === undefined ? `${percent(p)}, ${place(node.rank)}${node.chosen === "hand" ? ", chosen by hand" : ""}` : `${number(share)} of the attention`;
  const point = () => (scribe.pointed.value = depth);
  const leave = () => (scribe.pointed.value = null);
  const pin = () => scribe.pin(pinned ? null : depth);
  return (
    <>
      {before}
      <span
        role="option" data-cell data-step={depth} tabIndex={focusable ? 0 : -1} aria-selected={pinned} aria-label={`step ${depth}, ${visible(node.text || node.piece)}: ${says}`}
        class={["gen-word", node.special && "gen-special", looked && "gen-looked", pinned && "gen-pinned", node.chosen === "hand" && "gen-hand"].filter(Boolean).join(" ")}
        title={says} style={{ "--shade": colour, "--p": p }}
        onPointerEnter={point} onPointerLeave={leave} onFocus={point} onBlur={leave} onClick={pin}
        onKeyDown={(event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          pin();
        }}
      >
        {body}
      </span>
      {after}
    </>
  );
}

/** The text that an encoder-decoder reads; of sound and pictures a line of what was looked at. */
function Source({ scribe, shade, shares }: { scribe: Scribe; shade(key: number): string | undefined; shares: ArrayLike<number> | null }) {
  const { session } = scribe;
  const { opens } = session.model;
  const map = scribe.gaze.map.value;
  const reads = session.maps.find((each) => each.keys !== each.queries)?.keys ?? "source";
  const tokens = (map && map.keys !== map.queries ? scribe.gaze.keys.value : session.sides[reads]) ?? [];
  if (opens && shares) return <Track shares={shares} tokens={tokens} />;
  if (opens) return scribe.gaze.on ? null : <p class="hint">{opens === "sound" ? "It listens to" : "It looks at"} {session.texts[0]}; “where it looked” shows at what, word by word.</p>;
  return (
    <p class="gen-source">
      <b>reads</b>{" "}
      <Gapped tokens={tokens} text={session.texts[0]} shade={shade} shares={shares} />
      <b class="gen-arrow">writes</b>
    </p>
  );
}

/** Attention along many frames of sound, as a line of bars; the strongest is named. */
function Track({ shares, tokens }: { shares: ArrayLike<number>; tokens: Token[] }) {
  const bars = Math.min(shares.length, 150);
  const heights = Array.from({ length: bars }, (_, bar) => {
    let most = 0;
    for (let key = Math.floor((bar * shares.length) / bars), end = Math.floor(((bar + 1) * shares.length) / bars); key < end; key++) most = Math.max(most, shares[key]);
    return most;
  });
  const top = Math.max(...heights, 1e-9);
  let strongest = 0;
  for (let key = 0; key < shares.length; key++) if (shares[key] > shares[strongest]) strongest = key;
  return (
    <figure class="gen-track">
      <svg viewBox={`0 0 ${bars} 40`} preserveAspectRatio="none" aria-hidden="true">
        {heights.map((height, bar) => <rect key={bar} x={bar + 0.1} width="0.8" y={40 - (40 * height) / top} height={(40 * height) / top} />)}
      </svg>
      <figcaption><span>{tokens[0]?.text}</span><span>most at <b>{tokens[strongest]?.text}</b>, {percent(shares[strongest])}</span><span>{tokens.at(-1)?.text}</span></figcaption>
    </figure>
  );
}

export const place = (rank: number): string => (rank === 1 ? "the likeliest" : `rank ${rank}`);
