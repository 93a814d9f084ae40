/** Pinned tokens; the same in every view. Their room next to the line above is always there, so that a pin causes no layout shift. */

import { visible } from "../core/format";
import { masked } from "../core/mask-token";
import { mapOf } from "../core/url-state";
import type { Store } from "../core/store";
import type { Session, Token } from "../core/types";
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
      {query !== null && chip("from", map.queries, query, { query: null })}
      {query !== null && <Mask store={store} session={session} token={session.streams[map.queries][query]} />}
      {query !== null && session.model.corpus && store.state.value.view !== "contexts" && (
        <button class="quiet" onClick={() => store.set({ view: "contexts" })}>where else?</button>
      )}
      {key !== null && chip("to", map.keys, key, { key: null })}
    </p>
  );
}

/** Hide the token from the model, and look at the pass again; and show it again. */
function Mask({ store, session, token }: { store: Store; session: Session; token: Token }) {
  const name = session.model.mask_token;
  if (!name || store.transport.host === "page") return null;
  const before = store.unmasked.value;
  const texts = masked(session, token);
  const busy = store.progress.value !== null;
  return (
    <>
      {texts && <button class="quiet" disabled={busy} title={`Replace it by ${name}, and run the model again`} onClick={() => void store.mask(texts)}>mask it</button>}
      {before && <button class="quiet" disabled={busy} onClick={() => void store.unmask()}>unmask</button>}
    </>
  );
}
