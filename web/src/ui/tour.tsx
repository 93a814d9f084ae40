/** Tour: the steps of a lesson on the text of the page, each next to the view that shows what it tells. */

import { signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { percent } from "../core/format";
import type { Store } from "../core/store";
import type { Run, Session, TourStep, ViewProps } from "../core/types";
import { pairsOf, parseState } from "../core/url-state";
import * as views from "../core/views";
import { useAnswer } from "./answer";
import { Icon } from "./icons";
import { preload } from "./later";
import { isMenuOpen } from "./popover";
import { explained, Term } from "./term";
import "./tour.css";

export function Tour({ store, session }: { store: Store; session: Session }) {
  const steps = useSignal<TourStep[] | null>(null);
  /** The answer that was given; "" = none, it was shown; null = not yet. */
  const given = useSignal<string | null>(null);
  const out = useSignal(false);
  const panel = useRef<HTMLElement>(null);
  const at = store.state.value.tour!;
  const step = steps.value?.[at - 1];
  const props = { transport: store.transport, session, refuse: (error) => store.refuse(error) } as ViewProps;
  useEffect(() => {
    if (session.generated && store.transport.host === "page") return void store.run(null); // which has the tour of its prompt alone
    const asked = new AbortController();
    const told = (answer: TourStep[]) => {
      steps.value = answer;
      if (at > answer.length) go(0); // a link to a step of another lesson
      else void ahead(props, answer.slice(at), asked.signal);
    };
    views.tour(store.transport, session, asked.signal).then(told, (error) => {
      props.refuse(error);
      if (!asked.signal.aborted) go(0);
    });
    return () => asked.abort();
  }, [session]);
  useLayoutEffect(() => {
    given.value = null;
    out.value = false;
  }, [step]);
  const asked = Boolean(step?.question) && given.value === null;
  useLayoutEffect(() => {
    store.asked.value = asked;
    return () => void (store.asked.value = false);
  }, [asked]);
  useEffect(() => {
    if (!step) return;
    store.set({ ...parseState(pairsOf(`v=1&${step.address}`), session).state, tour: store.state.value.tour });
    panel.current?.focus();
    panel.current?.scrollTo(0, 0); // on a phone its words scroll
  }, [step]);
  useEffect(() => {
    if (given.value !== null) panel.current?.focus(); // the button that had it is gone, and the arrow keys turn the page
  }, [given.value]);
  const go = (to: number) => {
    if (to > 0 && to <= (steps.value?.length ?? 0)) return store.set({ tour: to });
    // What made the answer stays on screen: a token that is pinned would ask for what comes after it.
    store.set({ tour: null, ...(store.state.value.view === "attribution" ? { query: null, key: null } : {}) });
  };
  const keys = (event: KeyboardEvent) => {
    const to = { ArrowRight: at + 1, ArrowLeft: Math.max(at - 1, 1), Escape: 0 }[event.key];
    if (to === undefined || (event.target as Element).tagName === "INPUT" || isMenuOpen()) return;
    event.preventDefault();
    event.stopPropagation();
    go(to);
  };
  if (!step) return <Waiting keys={keys} end={() => go(0)} />;
  const { question, code, without } = step;
  const answered = given.value;
  const right = question && (question.number === null ? answered === question.answer : answered !== "" && Math.abs(Number(answered) - question.number) <= question.within);
  return (
    <section class="tour" ref={panel} tabIndex={-1} aria-label={`Tour, step ${at} of ${steps.value!.length}`} onKeyDown={keys}>
      <header>
        <h2>{at}. {step.title}</h2>
        <small aria-hidden="true">{at} of {steps.value!.length}</small>
        <button class="quiet" aria-label="Back" disabled={at === 1} onClick={() => go(at - 1)}><Icon name="previous" /><span>Back</span></button>
        <button class="primary" onClick={() => go(at + 1)}>{at < steps.value!.length ? "Next" : "Done"}<Icon name="next" /></button>
        <button class="quiet" aria-label="End the tour" title="End the tour (Esc)" onClick={() => go(0)}><Icon name="close" /></button>
      </header>
      <p aria-live="polite">{words(step.text)}</p>
      {question && (
        <form onSubmit={(event) => { event.preventDefault(); given.value = event.currentTarget.querySelector("input")!.value; }}>
          {asked && <blockquote>{session.texts.join(" / ")}</blockquote>}
          <b>{words(question.ask)}</b>
          {answered === null ? (
            <>
              {question.number === null
                ? question.choices.map((choice) => <button key={choice} type="button" onClick={() => (given.value = choice)}>{choice}</button>)
                : <><input type="number" step="any" required aria-label="Your answer" /><button>Answer</button></>}
              <button type="button" class="quiet" onClick={() => (given.value = "")}>Show</button>
            </>
          ) : <p role="status">{answered && (right ? "Right: " : "No: ")}{question.answer}. {words(question.reveal)}</p>}
          {asked && <p class="hint">The view opens when you have answered: it shows the answer.</p>}
        </form>
      )}
      {(!question || answered !== null) && <Items items={step.items} />}
      {without && !asked && (out.value
        ? <Without props={props} request={without} />
        : <button class="out" onClick={() => (out.value = true)}>Leave out {step.left_out}</button>)}
      {code && <details><summary>{code.place}</summary><pre tabIndex={0}>{code.source}</pre></details>}
    </section>
  );
}

/** The tour before its numbers are there: what is on the page stays. */
function Waiting({ keys, end }: { keys: (event: KeyboardEvent) => void; end: () => void }) {
  const panel = useRef<HTMLElement>(null);
  useEffect(() => panel.current?.focus(), []);
  return (
    <section class="tour" ref={panel} tabIndex={-1} aria-label="Tour" onKeyDown={keys}>
      <header>
        <h2>Tour</h2>
        <button class="quiet" aria-label="End the tour" title="End the tour (Esc)" onClick={end}><Icon name="close" /></button>
      </header>
      <p role="status">Reading the numbers of this text… <progress aria-label="Reading the numbers" /></p>
    </section>
  );
}

/** Compute what later steps show, one after another, while the reader is at this one; a view that is opened joins it. */
async function ahead(props: ViewProps, steps: TourStep[], left: AbortSignal): Promise<void> {
  if (props.transport.host === "page") return; // which holds what it shows
  for (const step of steps) {
    const { state } = parseState(pairsOf(`v=1&${step.address}`), props.session);
    const compute = (await preload(state.view).catch(() => undefined))?.ahead; // what is refused here, the view itself says
    if (left.aborted) return;
    await compute?.({ ...props, state: signal({ ...state, tour: 1 }) }, left).catch(() => undefined);
  }
}

/** What the pass becomes without some of its parts. */
function Without({ props, request }: { props: ViewProps; request: NonNullable<TourStep["without"]> }) {
  const [frame, otherwise] = useAnswer(props, "without", request, "Running it again…");
  if (!frame) return <>{otherwise}</>;
  const { sentence, items } = frame.header as { sentence: string } & Pick<TourStep, "items">;
  return <><p role="status">{sentence}</p><Items items={items} /></>;
}

const Items = ({ items }: Pick<TourStep, "items">) => (
  <ol tabIndex={0}>
    {items.map(([name, words, share], index) => (
      <li key={index} class={share === null ? undefined : "share"} style={share === null ? undefined : { "--share": percent(share) }}><b class="token">{name}</b> {words}</li>
    ))}
  </ol>
);

/** What is emphasised is a word that is explained, where the page knows it. */
const words = (runs: Run[]) => runs.map(([Style, text]) => (Style ? <Style>{Style === "em" ? <Term of={text} /> : text}</Style> : explained(text)));
