/** Generated text: each token shaded by its probability, or by the attention of the selected step to it. */

import { Fragment } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { number, percent, visible } from "../../core/format";
import type { Token, TreeNode } from "../../core/types";
import { moveFocus } from "../../ui/roving-tabindex";
import type { GenerationStore } from "./generation-store";
import { gaps, parts } from "./token-text";
import { logprobColour, attentionColour } from "./token-colours";

export function TextView({ store }: { store: GenerationStore }) {
  const { attention } = store;
  const dark = store.props.dark.value;
  const path = store.path.value;
  const trace = store.trace.value;
  const shares = attention.enabled ? attention.probs.value : null;
  const map = attention.map.value;
  const largest = shares ? Math.max(...shares) : 0;
  const selfAttention = map !== null && map.keys === map.queries;
  const step = store.step.value;
  const pinned = store.props.state.value.generation.at;
  const box = useRef<HTMLDivElement>(null);
  const shade = (key: number) => (shares ? attentionColour(shares[key] ?? 0, largest, dark) : undefined);

  // What is being written stays on screen.
  useEffect(() => {
    const element = box.current;
    if (element && store.busy.peek()) element.scrollTop = element.scrollHeight;
  }, [path.length]);

  const prefixLength = trace?.prefix_length ?? 0;
  const encoderDecoder = store.session.model.is_encoder_decoder;
  const focusable = Math.min(pinned ?? path.length, path.length);
  return (
    <div class="gen-paper" ref={box}>
      {encoderDecoder && <Source store={store} shade={selfAttention ? none : shade} shares={selfAttention ? null : shares} />}
      <p class="gen-text" data-gaze={attention.enabled ? "" : undefined} data-waiting={attention.enabled && !shares ? "" : undefined}>
        {!encoderDecoder && <span class="gen-prompt">{trace && <ReadTokens tokens={trace.prefix} text={trace.prompt} shade={selfAttention ? shade : none} shares={selfAttention ? shares : null} />}</span>}
        <span role="listbox" aria-label="Tokens written" aria-orientation="horizontal" tabIndex={path.length ? undefined : 0} onKeyDown={moveFocus}>
          {path.map((node, at) => {
            const depth = at + 1;
            const key = prefixLength + at;
            return (
              <Word
                key={node.id} node={node} store={store} depth={depth} selected={depth === step} pinned={depth === pinned} focusable={depth === focusable}
                colour={attention.enabled ? (selfAttention && depth < step ? shade(key) : undefined) : logprobColour(node.logprob, dark)} share={attention.enabled && selfAttention && depth < step ? shares?.[key] : undefined}
              />
            );
          })}
        </span>
        {store.busy.value && <i class="gen-caret" aria-hidden="true" />}
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
function ReadTokens({ tokens, text, shade, shares }: Read) {
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
  store: GenerationStore;
  depth: number;
  selected: boolean;
  pinned: boolean;
  focusable: boolean;
  colour?: string;
  share?: number;
}

function Word({ node, store, depth, selected, pinned, focusable, colour, share }: WordProps) {
  const { before, body, after } = parts(node.text, node.piece, node.special);
  const p = Math.exp(node.logprob);
  const description = share === undefined ? `${percent(p)}, ${rankText(node.rank)}${node.chosen === "hand" ? ", chosen by hand" : ""}` : `${number(share)} of the attention`;
  const point = () => (store.hoveredStep.value = depth);
  const leave = () => (store.hoveredStep.value = null);
  const pin = () => store.pin(pinned ? null : depth);
  return (
    <>
      {before}
      <span
        role="option" data-cell data-step={depth} tabIndex={focusable ? 0 : -1} aria-selected={pinned} aria-label={`step ${depth}, ${visible(node.text || node.piece)}: ${description}`}
        class={["gen-word", before === "" && depth > 1 && "gen-inner", node.special && "gen-special", selected && "gen-looked", pinned && "gen-pinned", node.chosen === "hand" && "gen-hand"].filter(Boolean).join(" ")}
        title={description} style={{ "--shade": colour, "--p": p }}
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
function Source({ store, shade, shares }: { store: GenerationStore; shade(key: number): string | undefined; shares: ArrayLike<number> | null }) {
  const { session } = store;
  const { modality } = session.model;
  const map = store.attention.map.value;
  const sourceStream = session.maps.find((each) => each.keys !== each.queries)?.keys ?? "source";
  const tokens = (map && map.keys !== map.queries ? store.attention.keys.value : session.streams[sourceStream]) ?? [];
  if (modality && shares) return <Track shares={shares} tokens={tokens} />;
  if (modality) return store.attention.enabled ? null : <p class="hint">{modality === "sound" ? "It listens to" : "It looks at"} {session.texts[0]}; “where it looked” shows at what, word by word.</p>;
  return (
    <p class="gen-source">
      <b>reads</b>{" "}
      <ReadTokens tokens={tokens} text={session.texts[0]} shade={shade} shares={shares} />
      <b class="gen-arrow">writes</b>
    </p>
  );
}

/** Attention along many frames of sound, as a line of bars; the strongest is named. */
function Track({ shares, tokens }: { shares: ArrayLike<number>; tokens: Token[] }) {
  const bars = Math.min(shares.length, 150);
  const heights = Array.from({ length: bars }, (_, bar) => {
    let largest = 0;
    for (let key = Math.floor((bar * shares.length) / bars), end = Math.floor(((bar + 1) * shares.length) / bars); key < end; key++) largest = Math.max(largest, shares[key]);
    return largest;
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

export const rankText = (rank: number): string => (rank === 1 ? "the likeliest" : `rank ${rank}`);
