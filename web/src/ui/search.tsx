/** Find a token by what it says, and pin it. */

import { useMemo, useState } from "preact/hooks";
import { visible } from "../core/format";
import { mapOf } from "../core/state";
import type { Store } from "../core/store";
import type { Session, Token } from "../core/types";
import { useDialog } from "./keys";

/** A token that can be pinned, and as what. */
interface Found {
  side: string;
  pin: "query" | "key";
  index: number;
  token: Token;
}

const MOST = 50;

export function Search({ store, session, open, close }: { store: Store; session: Session; open: boolean; close(): void }) {
  const dialog = useDialog(open);
  const [wanted, setWanted] = useState("");
  const [at, setAt] = useState(0);
  const map = mapOf(session, store.state.value.map);
  const all = useMemo(() => tokens(session, map.queries, map.keys), [session, map]);
  const needle = wanted.trim().toLowerCase();
  const found = all.filter(({ token, index }) => token.text.toLowerCase().includes(needle) || String(index) === needle);
  const shown = found.slice(0, MOST);

  const pick = (one: Found | undefined, asKey: boolean) => {
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
        aria-activedescendant={shown.length ? `found-${at}` : undefined} placeholder="Find a token" value={wanted} spellcheck={false} onKeyDown={typed}
        onInput={(event) => {
          setWanted(event.currentTarget.value);
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
        {found.length === 0 ? "No token says that." : found.length > MOST ? `The first ${MOST} of ${found.length}. ` : ""}
        <kbd>Enter</kbd> pins it as the token that looks{map.queries === map.keys && <>, <kbd>Shift Enter</kbd> as the one looked at</>}.
      </p>
    </dialog>
  );
}

function intoView(item: HTMLElement | null): void {
  item?.scrollIntoView({ block: "nearest" });
}

/** Each token once; of two sides, the one that looks first. */
function tokens(session: Session, queries: string, keys: string): Found[] {
  const side = (name: string, pin: Found["pin"]) => session.sides[name].map((token, index) => ({ side: name, pin, index, token }));
  return queries === keys ? side(queries, "query") : [...side(queries, "query"), ...side(keys, "key")];
}
