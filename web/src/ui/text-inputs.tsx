/** Text inputs: one field or two, and the button that runs the model. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Store } from "../core/store";
import type { Session } from "../core/types";
import { Icon } from "./icons";
import { placeBelow } from "./popover";
import { Command } from "./command";

export function Texts({ store, session }: { store: Store; session: Session }) {
  const shown = session.fields.map((_, index) => session.texts[index] ?? "");
  const [texts, setTexts] = useState(shown);
  const [missing, setMissing] = useState(false);
  useEffect(() => {
    setTexts(shown);
    setMissing(false);
  }, [session]);
  if (store.transport.host === "page") return <ReadOnly session={session} />;

  const isFile = (index: number) => index === 0 && session.model.modality !== null;
  const initial = texts.map((text) => text.trim());
  const entered = initial.slice(0, initial.findLastIndex((text) => text !== "") + 1);
  const busy = store.progress.value !== null;
  const run = (event: Event) => {
    event.preventDefault();
    setMissing(!entered[0]);
    if (entered[0]) void store.run(entered);
  };
  const typed = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) run(event);
    else if (event.key === "Escape") (event.target as HTMLElement).blur();
  };
  return (
    <Fold session={session}>
      <form class="texts" aria-label="What the model reads" onSubmit={run}>
        {session.fields.map((name, index) => (
          <label key={name} data-empty={index > 0 && !texts[index] ? "" : undefined}>
            <span>{name}</span>
            <textarea
              rows={1} value={texts[index]} spellcheck={false} placeholder={placeholder(session, index)} readOnly={isFile(index)}
              aria-invalid={missing && index === 0 ? true : undefined} aria-describedby={missing && index === 0 ? "missing" : undefined} onKeyDown={typed}
              onInput={(event) => {
                setMissing(false);
                setTexts(texts.map((text, at) => (at === index ? event.currentTarget.value : text)));
              }}
            />
          </label>
        ))}
        {session.fields.every((_, index) => isFile(index))
          ? <p class="hint">To look at another {session.model.modality}, run <code>glassformer look</code> with its file.</p>
          : <button class="primary" disabled={busy} title="Run the model on this text (Enter)"><Icon name="run" />{busy ? "Running" : "Run"}</button>}
        {missing && <p id="missing" class="missing" role="alert">Write something in “{session.fields[0]}” first.</p>}
      </form>
    </Fold>
  );
}

/** What stands in an empty field: without a second text the model writes its own, where it writes one. */
function placeholder({ fields, model }: Session, index: number): string {
  if (index === 0) return "Write something";
  return model.is_encoder_decoder ? `the model's own ${fields[index]}` : `(no ${fields[index]})`;
}

function ReadOnly({ session }: { session: Session }) {
  const button = useRef<HTMLButtonElement>(null);
  const note = useRef<HTMLDivElement>(null);
  return (
    <Fold session={session}>
      <section class="texts" aria-label="What the model has read">
        {session.texts.map((text, index) => (
          <label key={index}>
            <span>{session.fields[index]}</span>
            <textarea rows={1} value={text} readOnly />
          </label>
        ))}
        <button class="quiet" ref={button} popovertarget="made-by" aria-label="Another text" title="Another text"><b aria-hidden="true">i</b></button>
        <div id="made-by" class="menu" popover="auto" ref={note} onBeforeToggle={() => placeBelow(note.current, button.current)}>
          <p>This page holds one text. For another, change it in what makes the page:</p>
          <Command line={session.command} />
        </div>
      </section>
    </Fold>
  );
}

/** On a narrow screen the texts are one line, until it is tapped. */
function Fold({ session, children }: { session: Session; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [session]);
  return (
    <div class="texts-fold" data-open={open ? "" : undefined}>
      <button type="button" class="texts-line" aria-expanded={open} onClick={() => setOpen(!open)}>
        <span>{session.texts.filter(Boolean).join(" / ")}</span>
        <span aria-hidden="true">✎</span>
      </button>
      {children}
    </div>
  );
}
