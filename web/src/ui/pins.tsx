/** Pinned tokens; the same in every view. The line is always there, so that a pin causes no layout shift. */

import { visible } from "../core/format";
import { mapOf } from "../core/url-state";
import type { Store } from "../core/store";
import type { Session } from "../core/types";
import { Icon } from "./icons";

export function Pins({ store, session }: { store: Store; session: Session }) {
  const { query, key, map: name } = store.state.value;
  const map = mapOf(session, name);
  const chip = (what: string, side: string, at: number, change: object) => (
    <span class="pin">
      {what} <b class="token">{visible(session.streams[side][at].text)}</b> <small>{at}</small>
      <button class="quiet" aria-label={`Unpin ${visible(session.streams[side][at].text)}`} title="Unpin" onClick={() => store.set(change)}><Icon name="close" /></button>
    </span>
  );
  return (
    <p class="pins">
      {query === null && key === null && <span class="hint">Nothing is pinned yet.</span>}
      {query !== null && chip("from", map.queries, query, { query: null })}
      {key !== null && chip("to", map.keys, key, { key: null })}
    </p>
  );
}
