/** Which query, and which keys: a strip of tokens, and the whole row as a line of bars to move along. */

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Floats } from "../../core/attention";
import { count, visible } from "../../core/format";
import { rove } from "../../ui/roving";
import type { Study } from "./study";

/** Tokens in the strip at a time. */
const STRIP = 200;

export function Picker({ study }: { study: Study }) {
  const { query } = study.at.value;
  const { set } = study.props;
  const tokens = study.queries;
  const from = Math.floor(query / STRIP) * STRIP;
  const to = Math.min(from + STRIP, tokens.length);
  const strip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const chosen = strip.current?.querySelector<HTMLElement>('[aria-pressed="true"]');
    if (chosen && strip.current) strip.current.scrollTop = chosen.offsetTop - strip.current.offsetTop - 40;
  }, [query]);
  return (
    <div class="neuron-picker">
      <span id="neuron-query">query</span>
      <div ref={strip} role="group" aria-labelledby="neuron-query" onKeyDown={rove}>
        {tokens.slice(from, to).map((token, i) => (
          <button key={from + i} data-cell class="token" aria-pressed={from + i === query} tabIndex={from + i === query ? 0 : -1}
            title={`token ${from + i}`} onClick={() => set({ query: from + i })}>
            {visible(token.text)}
          </button>
        ))}
      </div>
      {tokens.length > STRIP && (
        <span class="neuron-turn">
          <button class="quiet" disabled={from === 0} onClick={() => set({ query: from - 1 })} aria-label="earlier queries">←</button>
          {from}–{to - 1} of {count(tokens.length)}
          <button class="quiet" disabled={to === tokens.length} onClick={() => set({ query: to })} aria-label="later queries">→</button>
        </span>
      )}
    </div>
  );
}

/** All keys by position, as high as their probability; a frame around those on screen. */
export function Sweep({ study, probs }: { study: Study; probs: Floats }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = study.props.dark.value;
  const page = study.page.value;
  const { key } = study.props.state.value;
  useLayoutEffect(() => {
    const box = canvas.current!;
    const paint = () => {
      const density = window.devicePixelRatio || 1;
      box.width = Math.round(box.clientWidth * density);
      box.height = Math.round(box.clientHeight * density);
      const pen = box.getContext("2d")!;
      const style = getComputedStyle(box);
      const most = Math.max(...probs) || 1;
      const wide = Math.max(density, box.width / probs.length);
      pen.fillStyle = style.getPropertyValue("--accent");
      probs.forEach((p: number, i: number) => {
        const high = (p / most) * box.height;
        pen.fillRect((i * box.width) / probs.length, box.height - high, wide, high);
      });
    };
    paint();
    const watch = new ResizeObserver(paint);
    watch.observe(box);
    return () => watch.disconnect();
  }, [probs, dark]);
  const go = (event: PointerEvent) => {
    if (event.buttons === 0 || study.order.value === "probability") return;
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const at = Math.floor(((event.clientX - box.left) / box.width) * probs.length) - Math.floor(study.count / 2);
    study.start.value = Math.max(0, Math.min(probs.length - study.count, at));
  };
  const share = (at: number) => `${(100 * at) / probs.length}%`;
  return (
    <div class="neuron-sweep" aria-hidden="true" onPointerDown={go} onPointerMove={go}>
      <canvas ref={canvas} />
      {study.order.value === "position" ? (
        <i style={{ left: share(page[0]), width: share(page.length) }} />
      ) : (
        page.map((at) => <u key={at} style={{ left: share(at + 0.5) }} />)
      )}
      {key !== null && <b style={{ left: share(key + 0.5) }} />}
    </div>
  );
}

/** In which order, and how to the keys that are not on screen. */
export function Pages({ study, probs }: { study: Study; probs: Floats | undefined }) {
  const start = study.start.value ?? 0;
  const { count: size } = study;
  const all = study.keys.length;
  const ranked = study.order.value === "probability";
  return (
    <div class="neuron-pages">
      <fieldset class="segments">
        <legend class="unseen">Order of the keys</legend>
        {(["position", "probability"] as const).map((order) => (
          <label key={order}>
            <input type="radio" name="neuron-order" checked={study.order.value === order} onChange={() => study.sort(order)} />
            <span>by {order}</span>
          </label>
        ))}
      </fieldset>
      {!study.whole && probs && (
        <span class="neuron-turn">
          <button class="quiet" disabled={start <= 0} onClick={() => study.turn(-1)} aria-label="earlier keys">←</button>
          {ranked ? `ranks ${start + 1}–${start + size}` : `keys ${start}–${start + size - 1}`} of {count(all)}
          <button class="quiet" disabled={start + size >= all} onClick={() => study.turn(1)} aria-label="later keys">→</button>
        </span>
      )}
    </div>
  );
}
