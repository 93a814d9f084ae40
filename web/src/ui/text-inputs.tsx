/** Text inputs: one field or two, and the button that runs the model. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../core/format";
import type { Store } from "../core/store";
import type { Session } from "../core/types";
import { Icon } from "./icons";
import { placeBelow } from "./popover";
import { Command } from "./command";

export function Texts({ store, session }: { store: Store; session: Session }) {
  const shown = session.fields.map((_, index) => session.texts[index] ?? "");
  const [texts, setTexts] = useState(shown);
  /** Why the texts are not run. */
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    setTexts(shown);
    setProblem(null);
  }, [session]);
  if (store.transport.host === "page") return <ReadOnly session={session} />;

  const isFile = (index: number) => index === 0 && session.model.modality !== null;
  const initial = texts.map((text) => text.trim());
  const entered = initial.slice(0, initial.findLastIndex((text) => text !== "") + 1);
  const busy = store.progress.value !== null;
  const run = (event: Event) => {
    event.preventDefault();
    store.notice.value = null; // it was about the run before
    setProblem(entered[0] ? null : `Write something in “${session.fields[0]}” first.`);
    if (entered[0]) void store.run(entered);
  };
  /** Keep a text, unless it is so long that the field itself would stand still. */
  const take = (index: number, text: string, event: Event) => {
    const fits = text.length <= MAX_CHARACTERS;
    setProblem(fits ? null : tooLong(text.length, session));
    if (fits) setTexts(texts.map((before, at) => (at === index ? text : before)));
    else if (event.type === "paste") event.preventDefault();
    else (event.target as HTMLTextAreaElement).value = texts[index];
  };
  const pasted = (index: number, event: ClipboardEvent) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (text.length > MAX_CHARACTERS) take(index, text, event);
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
              aria-invalid={problem && index === 0 ? true : undefined} aria-describedby={problem && index === 0 ? "missing" : undefined} onKeyDown={typed}
              onPaste={(event) => pasted(index, event)} onInput={(event) => take(index, event.currentTarget.value, event)}
            />
          </label>
        ))}
        {session.fields.every((_, index) => isFile(index))
          ? <p class="hint">To look at another {session.model.modality}, run <code>glassformer look</code> with its file.</p>
          : <button class="primary" disabled={busy} title="Run the model on this text (Enter)"><Icon name="run" />{busy ? "Running" : "Run"}</button>}
        {problem && <p id="missing" class="missing" role="alert">{problem}</p>}
      </form>
    </Fold>
  );
}

/** Characters of a text: more than any model here reads, and so few that a field can show them at once. */
const MAX_CHARACTERS = 200_000;

function tooLong(characters: number, { model }: Session): string {
  const reads = model.max_tokens === null ? "" : ` This model reads ${count(model.max_tokens)} tokens, which are some ${count(4 * model.max_tokens)} characters of English.`;
  return `The text is too long: ${count(characters)} characters, and this page takes at most ${count(MAX_CHARACTERS)}.${reads} Give a part of it.`;
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
