/** Tour: steps on the text of the page, each next to the view that shows what it tells. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { percent } from "../core/format";
import type { Store } from "../core/store";
import type { Session, TourStep } from "../core/types";
import * as views from "../core/views";
import { Icon } from "./icons";
import "./tour.css";

export function Tour({ store, session }: { store: Store; session: Session }) {
  const steps = useSignal<TourStep[]>([]);
  const panel = useRef<HTMLElement>(null);
  const at = store.state.value.tour!;
  const step = steps.value[at - 1];
  useEffect(() => {
    const asked = new AbortController();
    views.tour(store.transport, session, asked.signal).then((found) => (steps.value = found), (error) => store.refuse(error));
    return () => asked.abort();
  }, [session]);
  useEffect(() => {
    if (!step) return;
    const shown = step.views.find((view) => session.views.includes(view) && (view !== "similarity" || session.texts.length > 1));
    store.set({ ...step.state, view: shown ?? "model" });
    panel.current?.focus();
  }, [step]);
  const go = (to: number) => store.set({ tour: to > 0 && to <= steps.value.length ? to : null });
  const keys = (event: KeyboardEvent) => {
    const to = { ArrowRight: at + 1, ArrowLeft: Math.max(at - 1, 1), Escape: 0 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    go(to);
  };
  if (!step) return null;
  return (
    <section class="tour" ref={panel} tabIndex={-1} aria-label={`Tour, step ${at} of ${steps.value.length}`} onKeyDown={keys}>
      <header>
        <h2>{at}. {step.title}</h2>
        <button class="quiet" disabled={at === 1} onClick={() => go(at - 1)}><Icon name="previous" />Back</button>
        <button class="primary" onClick={() => go(at + 1)}>{at < steps.value.length ? "Next" : "Done"}<Icon name="next" /></button>
        <button class="quiet" aria-label="End the tour" title="End the tour (Esc)" onClick={() => go(0)}><Icon name="close" /></button>
      </header>
      <p aria-live="polite">{step.text}</p>
      <ol>
        {step.items.map(([name, words, share], index) => (
          <li key={index} class={share === null ? undefined : "share"} style={share === null ? undefined : { "--share": percent(share) }}><b class="token">{name}</b> {words}</li>
        ))}
      </ol>
    </section>
  );
}
