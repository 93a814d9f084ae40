/** Token search dialog: find a token by its text, and pin it. */

import { useMemo, useState } from "preact/hooks";
import { visible } from "../core/format";
import { mapOf } from "../core/url-state";
import type { Store } from "../core/store";
import type { Session, Token } from "../core/types";
import { useDialog } from "./keyboard-shortcuts";

/** A token that can be pinned, and as what. */
interface Match {
  side: string;
  pin: "query" | "key";
  index: number;
  token: Token;
}

const MAX_MATCHES = 50;

export function Search({ store, session, open, close }: { store: Store; session: Session; open: boolean; close(): void }) {
  const dialog = useDialog(open);
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const map = mapOf(session, store.state.value.map);
  const all = useMemo(() => tokens(session, map.queries, map.keys), [session, map]);
  const needle = query.trim().toLowerCase();
  const matches = !open ? [] : all.filter(({ token, index }) => token.text.toLowerCase().includes(needle) || String(index) === needle);
  const shown = matches.slice(0, MAX_MATCHES);

  const pick = (one: Match | undefined, asKey: boolean) => {
    if (!one) return;
    const pin = asKey && map.queries === map.keys ? "key" : one.pin;
    store.set(pin === "query" ? { query: one.index } : { key: one.index });
    store.say(`Pinned ${pin === "query" ? "the token that looks" : "the token looked at"}: ${visible(one.token.text)}, token ${one.index}.`);
    close();
  };
  const typed = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt(Math.min(Math.max(at + step, 0), shown.length - 1));
    else if (event.key === "Enter") pick(shown[at], event.shiftKey);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} onClose={close} class="search" aria-label="Find a token">
      <input
        type="text" role="combobox" aria-expanded="true" aria-controls="found" aria-autocomplete="list" aria-label="Find a token"
        aria-activedescendant={shown.length ? `found-${at}` : undefined} placeholder="Find a token" value={query} spellcheck={false} onKeyDown={typed}
        onInput={(event) => {
          setQuery(event.currentTarget.value);
          setAt(0);
        }}
      />
      <ul id="found" role="listbox" aria-label="Tokens">
        {shown.map((one, index) => (
          <li
            key={`${one.side}${one.index}`} id={`found-${index}`} role="option" aria-selected={index === at}
            ref={index === at ? intoView : undefined} onClick={(event) => pick(one, event.shiftKey)}
          >
            <span class="token">{visible(one.token.text)}</span>
            <span>{map.queries === map.keys ? "" : `${one.side} · `}token {one.index}</span>
          </li>
        ))}
      </ul>
      <p>
        {matches.length === 0 ? "No token says that." : matches.length > MAX_MATCHES ? `The first ${MAX_MATCHES} of ${matches.length}. ` : ""}
        <kbd>Enter</kbd> pins it as the token that looks{map.queries === map.keys && <>, <kbd>Shift Enter</kbd> as the one looked at</>}.
      </p>
    </dialog>
  );
}

function intoView(item: HTMLElement | null): void {
  item?.scrollIntoView({ block: "nearest" });
}

/** Each token once; of two sides, the one that looks first. */
function tokens(session: Session, queries: string, keys: string): Match[] {
  const side = (name: string, pin: Match["pin"]) => session.streams[name].map((token, index) => ({ side: name, pin, index, token }));
  return queries === keys ? side(queries, "query") : [...side(queries, "query"), ...side(keys, "key")];
}
