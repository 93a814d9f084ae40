/** Text inputs: one field or two, and the button that runs the model. */

import { useEffect, useState } from "preact/hooks";
import type { Store } from "../core/store";
import type { Session } from "../core/types";
import { Icon } from "./icons";

export function Texts({ store, session }: { store: Store; session: Session }) {
  const shown = session.fields.map((_, index) => session.texts[index] ?? "");
  const [texts, setTexts] = useState(shown);
  useEffect(() => setTexts(shown), [session]);
  if (store.transport.host === "page") return <ReadOnly session={session} />;

  const isFile = (index: number) => index === 0 && session.model.modality !== null;
  const initial = texts.map((text) => text.trim());
  const entered = initial.slice(0, initial.findLastIndex((text) => text !== "") + 1);
  const busy = store.progress.value !== null;
  const run = (event: Event) => {
    event.preventDefault();
    if (entered[0]) void store.run(entered);
    else store.say(`Write something in “${session.fields[0]}” first.`);
  };
  const typed = (event: KeyboardEvent) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) run(event);
    else if (event.key === "Escape") (event.target as HTMLElement).blur();
  };
  return (
    <form class="texts" aria-label="What the model reads" onSubmit={run}>
      {session.fields.map((name, index) => (
        <label key={name} data-empty={index > 0 && !texts[index] ? "" : undefined}>
          <span>{name}</span>
          <textarea
            rows={1} value={texts[index]} spellcheck={false} placeholder={index ? `(no ${name})` : "Write something"} readOnly={isFile(index)}
            onInput={(event) => setTexts(texts.map((text, at) => (at === index ? event.currentTarget.value : text)))} onKeyDown={typed}
          />
        </label>
      ))}
      {session.fields.every((_, index) => isFile(index))
        ? <p class="hint">To look at another {session.model.modality}, run <code>glassformer look</code> with its file.</p>
        : <button class="primary" disabled={busy} title="Run the model on this text (Enter)"><Icon name="run" />{busy ? "Running" : "Run"}</button>}
    </form>
  );
}

function ReadOnly({ session }: { session: Session }) {
  return (
    <section class="texts" aria-label="What the model has read">
      {session.texts.map((text, index) => (
        <label key={index}>
          <span>{session.fields[index]}</span>
          <textarea rows={1} value={text} readOnly />
        </label>
      ))}
      <p class="hint">This page holds one pass. For another text, run the command at its foot.</p>
    </section>
  );
}
