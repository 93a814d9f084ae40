/** Error banners, notices and the progress of a forward pass; none of them hides what is on screen. */

import { sentence } from "../core/format";
import type { ErrorNotice, Store } from "../core/store";
import { Icon } from "./icons";
import { ServerGone } from "./server-gone";

export function Banners({ store }: { store: Store }) {
  const obstacle = store.obstacle.value;
  const notice = store.notice.value;
  return (
    <section class="banners" aria-label="Messages" aria-live="polite">
      {obstacle && <ErrorBanner store={store} obstacle={obstacle} />}
      {notice && (
        <div class="banner notice">
          <p>{sentence(notice)}</p>
          <button class="quiet" aria-label="Close" onClick={() => (store.notice.value = null)}><Icon name="close" /></button>
        </div>
      )}
    </section>
  );
}

function ErrorBanner({ store, obstacle }: { store: Store; obstacle: ErrorNotice }) {
  const session = store.session.value;
  const again = () => void store.run(session?.texts ?? null, session?.heard?.window);
  const label = { gone: "Run it again", unreachable: "Try again", token: null, absent: null, request: null }[obstacle.kind];
  return (
    <div class="banner" data-kind={obstacle.kind}>
      <p>
        {obstacle.kind === "unreachable" ? <ServerGone line={session?.look ?? ""} /> : sentence(obstacle.message)}
        {obstacle.kind === "gone" && " What is on screen stays; to look further, run the text again."}
      </p>
      {label && <button onClick={again} disabled={store.progress.value !== null}>{label}</button>}
    </div>
  );
}

/** The pass, block by block; also before the first page is there. */
export function Running({ store }: { store: Store }) {
  const at = store.progress.value;
  if (!at) return null;
  const known = at.of > 0;
  return (
    <section class="running" aria-label="The pass under way">
      <p>{known ? `Running the model: block ${at.done} of ${at.of}` : "Waiting for the model"}</p>
      <progress aria-label="Running the model" {...(known ? { value: at.done, max: at.of } : {})} />
    </section>
  );
}
