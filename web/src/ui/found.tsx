/** The sentence that a view begins with: what it has found. */

import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { MODULES } from "virtual:views";
import { foldable } from "../core/format";
import type { Store } from "../core/store";
import type { Exports, Session } from "../core/types";
import { finding } from "./slide";
import { explained } from "./term";

/** Of a view that shows one head without a finding of its own, it is what that head does. */
export function Found({ store, session, exported }: { store: Store; session: Session; exported: ReadonlySignal<Exports | null> }) {
  const shown = exported.value;
  const { alone, leads } = MODULES[store.state.value.view];
  if (!shown || leads || (alone && !shown.finding)) return null;
  return <Sentence text={finding(store, session, shown)} />;
}

/** A finding; on a phone a long one is folded, so that the picture is on the first screen. */
export function Sentence({ text }: { text: string }) {
  const [whole, setWhole] = useState(false);
  useEffect(() => setWhole(false), [text]);
  return (
    <div class="found foldable" data-folded={foldable(text) && !whole ? "" : undefined}>
      <p>{explained(text)}</p>
      {foldable(text) && <button class="quiet" aria-expanded={whole} onClick={() => setWhole(!whole)}>{whole ? "less" : "more"}</button>}
    </div>
  );
}
