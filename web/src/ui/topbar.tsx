/** Top bar: facts about the model, tabs of the views, global actions. */

import type { ReadonlySignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { count, plural, precision } from "../core/format";
import { mapOf } from "../core/url-state";
import type { Store } from "../core/store";
import { MODULES } from "virtual:views";
import type { Exports, Session, ViewName } from "../core/types";
import { Icon } from "./icons";
import { Logo } from "./logo";
import { Share } from "./share";
import { nextTheme, theme } from "./theme";

/** More tabs than this are in a row of their own: seven leave no room for the facts on a screen of 1,200 pixels. */
const MANY = 6;

export function TopBar({ store, exports, help }: { store: Store; exports: ReadonlySignal<Exports | null>; help(): void }) {
  const session = store.session.value;
  const views = session ? session.views : [];
  return (
    <header class="top" data-many={views.length > MANY ? "" : undefined}>
      <div class="brand">
        <Logo />
        <h1>glassformer</h1>
      </div>
      {session && <Facts session={session} map={store.state.value.map} />}
      {session && <Tabs store={store} views={views} absent={session.absent ?? []} />}
      <div class="tools">
        {session && hasTour(session) && <button class="quiet" title="Tour of this text (t)" onClick={() => store.set({ tour: 1 })}>Tour</button>}
        <button class="quiet" onClick={help} aria-label="Keys" title="Keys (?)"><kbd>?</kbd></button>
        <button class="quiet" onClick={nextTheme} aria-label={`Theme: ${theme.value}. Change it`} title={`Theme: ${theme.value}`}><Icon name={theme.value} /></button>
        {session && <Share store={store} session={session} exports={exports} />}
      </div>
    </header>
  );
}

/** A file of some views alone has none. */
const hasTour = ({ readings }: Session) => !readings || readings.some(({ view }) => view === "tour");

function Facts({ session, map: name }: { session: Session; map: string }) {
  const { model } = session;
  const map = mapOf(session, name);
  const facts = [model.family, `${plural(map.layers, "layer")} × ${plural(map.heads, "head")}`, `head width ${map.head_width}`, `${count(model.parameters)} parameters`, precision(model)];
  return (
    <p class="facts model-facts">
      <strong>{model.name}</strong>
      {facts.map((fact) => <span key={fact}>{fact}</span>)}
    </p>
  );
}

/** A tab of which a saved page holds nothing opens all the same: it says what is not there, and which command shows it. */
function Tabs({ store, views, absent }: { store: Store; views: readonly ViewName[]; absent: readonly ViewName[] }) {
  const list = useRef<HTMLDivElement>(null);
  const view = store.state.value.view;
  // On a narrow screen the row of tabs scrolls; by scrollIntoView, the Tab key would go on from here, past the tabs.
  useEffect(() => {
    const [row, chosen] = [list.current!, list.current!.querySelector("[aria-selected=true]")!].map((each) => each.getBoundingClientRect());
    list.current!.scrollLeft += Math.min(0, chosen.left - row.left) + Math.max(0, chosen.right - row.right);
  }, [view]);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (views.indexOf(view) + step + views.length) % views.length;
    store.set({ view: views[next] });
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[next].focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="Views" ref={list} onKeyDown={move}>
      {views.map((name) => (
        <button
          key={name} id={`tab-${name}`} role="tab" aria-selected={view === name} aria-controls="view" tabIndex={view === name ? 0 : -1}
          data-absent={absent.includes(name) ? "" : undefined} title={absent.includes(name) ? "Not in this saved page: opens with the command that shows it" : undefined}
          onClick={() => store.set({ view: name })}
        >
          {MODULES[name].title}
        </button>
      ))}
    </div>
  );
}
