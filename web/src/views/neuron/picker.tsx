/** Query and key picker: a strip of tokens, and the attention row as a bar chart to page through. */

import { useLayoutEffect, useRef } from "preact/hooks";
import type { Floats } from "../../core/attention";
import { count, visible } from "../../core/format";
import { moveFocus } from "../../ui/roving-tabindex";
import type { NeuronController } from "./neuron-controller";

/** Tokens in the strip at a time. */
const STRIP = 200;

export function Picker({ controller }: { controller: NeuronController }) {
  const { query } = controller.at.value;
  const { set } = controller.props;
  const tokens = controller.queries;
  const from = Math.floor(query / STRIP) * STRIP;
  const to = Math.min(from + STRIP, tokens.length);
  const strip = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const chosen = strip.current?.querySelector<HTMLElement>('[aria-pressed="true"]');
    if (chosen && strip.current) strip.current.scrollTo(chosen.offsetLeft - strip.current.offsetLeft - 40, chosen.offsetTop - strip.current.offsetTop - 40);
  }, [query]);
  return (
    <div class="neuron-picker">
      <span id="neuron-query">query</span>
      <div ref={strip} role="group" aria-labelledby="neuron-query" onKeyDown={moveFocus}>
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
export function Sweep({ controller, probs }: { controller: NeuronController; probs: Floats }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = controller.props.dark.value;
  const page = controller.page.value;
  const { key } = controller.props.state.value;
  const paint = useRef<() => void>(() => {});
  paint.current = () => {
    const box = canvas.current!;
    const density = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(box.clientWidth * density), Math.round(box.clientHeight * density)];
    if (box.width !== width) box.width = width;
    if (box.height !== height) box.height = height;
    const pen = box.getContext("2d")!;
    pen.clearRect(0, 0, width, height);
    const most = Math.max(...probs) || 1;
    const wide = Math.max(density, width / probs.length);
    pen.fillStyle = getComputedStyle(box).getPropertyValue("--accent");
    probs.forEach((p: number, i: number) => {
      const high = (p / most) * height;
      pen.fillRect((i * width) / probs.length, height - high, wide, high);
    });
  };
  useLayoutEffect(() => paint.current(), [probs, dark]);
  useLayoutEffect(() => {
    const watch = new ResizeObserver(() => paint.current());
    watch.observe(canvas.current!);
    return () => watch.disconnect();
  }, []);
  const go = (event: PointerEvent) => {
    if (event.buttons === 0 || controller.order.value === "probability") return;
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const at = Math.floor(((event.clientX - box.left) / box.width) * probs.length) - Math.floor(controller.count / 2);
    controller.start.value = Math.max(0, Math.min(probs.length - controller.count, at));
  };
  const share = (at: number) => `${(100 * at) / probs.length}%`;
  return (
    <div class="neuron-sweep" aria-hidden="true" onPointerDown={go} onPointerMove={go}>
      <canvas ref={canvas} />
      {controller.order.value === "position" ? (
        <i style={{ left: share(page[0]), width: share(page.length) }} />
      ) : (
        page.map((at) => <u key={at} style={{ left: share(at + 0.5) }} />)
      )}
      {key !== null && <b style={{ left: share(key + 0.5) }} />}
    </div>
  );
}

/** In which order, and how to the keys that are not on screen. */
export function Pages({ controller, probs }: { controller: NeuronController; probs: Floats | undefined }) {
  const start = controller.start.value ?? 0;
  const { count: size } = controller;
  const all = controller.keys.length;
  const ranked = controller.order.value === "probability";
  return (
    <div class="neuron-pages">
      <fieldset class="segments">
        <legend class="unseen">Order of the keys</legend>
        {(["position", "probability"] as const).map((order) => (
          <label key={order}>
            <input type="radio" name="neuron-order" checked={controller.order.value === order} onChange={() => controller.sort(order)} />
            <span>by {order}</span>
          </label>
        ))}
      </fieldset>
      {!controller.whole && probs && (
        <span class="neuron-turn">
          <button class="quiet" disabled={start <= 0} onClick={() => controller.turn(-1)} aria-label="earlier keys">←</button>
          {ranked ? `ranks ${start + 1}–${start + size}` : `keys ${start}–${start + size - 1}`} of {count(all)}
          <button class="quiet" disabled={start + size >= all} onClick={() => controller.turn(1)} aria-label="later keys">→</button>
        </span>
      )}
    </div>
  );
}
