/** A word that not everyone knows: what it means is behind it, for a pointer, a finger and the keyboard. */

import { type ComponentChildren, createContext } from "preact";
import { useContext, useId, useRef } from "preact/hooks";
import { placeBelow } from "./popover";

/** Word → what it means: explorer/glossary.py. */
export const Glossary = createContext<Record<string, string>>({});

/** Words, with what the tokenizer puts in explained: whoever meets [CLS] first may not know it. */
export const explained = (text: string): ComponentChildren =>
  text.split(/(\[(?:CLS|SEP|MASK)\]|special tokens)/).map((part, at) => (at % 2 ? <Term of="tokens">{part}</Term> : part));

export function Term({ of, children = of }: { of: string; children?: ComponentChildren }) {
  const means = useContext(Glossary)[of];
  const [button, note, id] = [useRef<HTMLButtonElement>(null), useRef<HTMLSpanElement>(null), useId()];
  if (!means) return <>{children}</>;
  return (
    <>
      <button type="button" class="term" ref={button} popovertarget={id} title={means}>{children}</button>
      <span id={id} class="menu" role="note" popover="auto" ref={note} onBeforeToggle={() => placeBelow(note.current, button.current)}>{means}</span>
    </>
  );
}
