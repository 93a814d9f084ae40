/** Global keyboard shortcuts, and the dialog that lists them. */

import { useEffect, useRef } from "preact/hooks";
import { mapOf } from "../core/url-state";
import type { Store } from "../core/store";
import type { ViewName } from "../core/types";
import { MODULES } from "virtual:views";
import { headName } from "./head-stats";
import { isMenuOpen } from "./popover";

/** Views that have a key of their own. */
const DIGITS = 9;

const keysOf = (views: readonly ViewName[]): readonly [string[], string][] => [
  [views.slice(0, DIGITS).map((_, at) => String(at + 1)), views.slice(0, DIGITS).map((view) => MODULES[view].title).join(", ")],
  [["n", "p"], "next, previous view"],
  ...(views.includes("sound") ? SOUND : []),
  [["[", "]"], "previous, next layer"],
  [[",", "."], "previous, next head"],
  [["t"], "tour of this text"],
  [["/"], "find a token and pin it"],
  [["Esc"], "unpin"],
  [["←", "→", "↑", "↓"], "move within a grid or a picture"],
  [["Enter"], "select what has the focus"],
  [["Shift", "click"], "add a head to those on screen, or take it away"],
  [["?"], "this list"],
];

/** What some keys mean while a transcript is on screen. */
const SOUND: [string[], string][] = [
  [["Space"], "in the view Sound: play, pause"],
  [["[", "]", ",", "."], "in the view Sound: window, alignment head"],
];

interface Handlers {
  help(): void;
  search(): void;
}

/** One handler on the window; keys typed into a field, or with Ctrl, Alt or Meta, are left alone. */
export function useKeys(store: Store, { help, search }: Handlers): void {
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (isMenuOpen()) return;
      const session = store.session.value;
      // What was closed a moment ago may still have the focus, until the browser draws again.
      const target = event.target instanceof Element && !event.target.closest("dialog:not([open])") ? event.target : null;
      const editing = target?.closest("input, textarea, select, dialog, [contenteditable]");
      if (!session || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || editing) return;
      const act = actions(store, { help, search })[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", pressed);
    return () => window.removeEventListener("keydown", pressed);
  }, [store]);
}

function actions(store: Store, { help, search }: Handlers): Record<string, () => void> {
  const { layers: [first, last], heads: [head], map: name, generation: editing, reading, view } = store.state.value;
  const map = mapOf(store.session.value!, name);
  const layer = (step: number) => () => {
    if (first + step < 0 || last + step >= map.layers) return;
    store.set({ layers: [first + step, last + step] });
    store.say(headName(first + step, head));
  };
  const next = (step: number) => () => {
    const to = (head + step + map.heads) % map.heads;
    store.set({ heads: [to] });
    store.say(headName(first, to));
  };
  const { views } = store.session.value!;
  const turn = (step: number) => () => store.set({ view: views[(views.indexOf(view) + step + views.length) % views.length] });
  const numbered = Object.fromEntries(views.slice(0, DIGITS).map((each, index) => [String(index + 1), () => store.set({ view: each })]));
  const unpin = () => {
    store.set({ query: null, key: null, generation: { ...editing, at: null }, reading: { ...reading, cell: null, follow: null, head: null } });
    store.say("Nothing is pinned.");
  };
  return { ...numbered, n: turn(1), p: turn(-1), "[": layer(-1), "]": layer(1), ",": next(-1), ".": next(1), t: () => store.set({ tour: 1 }), "/": search, "?": help, Escape: unpin };
}

export function KeysDialog({ views, open, close }: { views: readonly ViewName[]; open: boolean; close(): void }) {
  const dialog = useDialog(open);
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="keys-title" class="keys">
      <h2 id="keys-title">Keys</h2>
      <dl>
        {keysOf(views).map(([keys, what]) => (
          <div key={what}>
            <dt>{keys.map((key) => <kbd key={key}>{key}</kbd>)}</dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog"><button class="primary">Close</button></form>
    </dialog>
  );
}

/** A modal dialog that is open while `open` is true. */
export function useDialog(open: boolean) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return dialog;
}
