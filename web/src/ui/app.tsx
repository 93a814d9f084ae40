/** App component: top bar, text inputs, banners, navigator, view, status bar. */

import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Store } from "../core/store";
import { MODULES } from "virtual:views";
import type { Exports, Session, ViewProps } from "../core/types";
import { GenerationStore } from "../views/generate/generation-store";
import { SoundStore } from "../views/sound/sound-store";
import { Banners, Running } from "./banners";
import { Found } from "./found";
import { Intro } from "./intro";
import { KeysDialog, useKeys } from "./keyboard-shortcuts";
import { preloadIdly } from "./later";
import { Logo } from "./logo";
import { MapChoice, Navigator } from "./navigator";
import { Pins } from "./pins";
import { addReportViews } from "./report-view";
import { Row } from "./row-label";
import { Search } from "./search";
import { Status } from "./status-bar";
import { Texts } from "./text-inputs";
import { dark, pictured } from "./theme";
import { Glossary } from "./term";
import { Tour } from "./tour";
import { TopBar } from "./topbar";
import type { WorkProps } from "./view-module";

export function App({ store }: { store: Store }) {
  const exports = useSignal<Exports | null>(null);
  const [help, setHelp] = useState(false);
  const [search, setSearch] = useState(false);
  useKeys(store, { help: () => setHelp(true), search: () => setSearch(true) });
  const session = store.session.value;
  addReportViews(session);
  const view = session && store.state.value.view;
  const served = session !== null && store.transport.host === "server";
  useEffect(() => {
    const later = served ? setTimeout(() => void preloadIdly(session!.views), AFTER_FIRST_PICTURE) : undefined;
    return () => clearTimeout(later);
  }, [served]);
  useEffect(() => {
    if (session && view) document.title = `${shortened(session.texts[0])} · ${session.model.name} · ${MODULES[view].title}`;
  }, [session, view]);
  return (
    <>
      <TopBar store={store} exports={exports} help={() => setHelp(true)} />
      {session ? (
        <Glossary.Provider value={session.glossary}>
          <Texts store={store} session={session} />
          <Row store={store} session={session} />
          <Running store={store} />
          <Banners store={store} />
          {store.state.value.tour !== null && <Tour store={store} session={session} />}
          <Work store={store} session={session} exported={exports} />
          <Status store={store} session={session} />
          <Search store={store} session={session} open={search} close={() => setSearch(false)} />
        </Glossary.Provider>
      ) : (
        <div class="opening">
          <Logo />
          <Running store={store} />
          <Banners store={store} />
        </div>
      )}
      <KeysDialog views={session ? session.views : Object.keys(MODULES)} open={help} close={() => setHelp(false)} />
    </>
  );
}

/** Milliseconds after which views that are not open yet may be loaded. */
const AFTER_FIRST_PICTURE = 1500;

/** The beginning of a text, for the title of the tab. */
const shortened = (text: string): string => (text.length <= 40 ? text : `${text.slice(0, 39)}…`);

function Work({ store, session, exported }: { store: Store; session: Session; exported: Signal<Exports | null> }) {
  const view = store.state.value.view;
  const props: ViewProps = useMemo(() => ({
    transport: store.transport,
    session,
    state: store.state,
    set: (change) => store.set(change),
    adopt: (other, change) => void store.adopt(other, change),
    dark,
    overviews: store.overviews,
    say: (sentence) => store.say(sentence),
    refuse: (error) => store.refuse(error),
    exports: exporter(exported),
  }), [store, session]);
  const generation = useGenerationStore(props);
  const sound = useSoundStore(props);
  const { alone, fresh, Component } = MODULES[view];
  const exports = useMemo(() => exporter(exported), [view, session]);
  const work: WorkProps = {
    ...props,
    exports,
    choice: <MapChoice store={store} session={session} />,
    pins: <Pins store={store} session={session} />,
    look: (texts, change) => void store.run(texts).then(() => store.set(change)),
    refine: () => void store.refine(),
    refining: store.refining,
    sound,
    generation,
  };
  return (
    <main class="work" data-view={view} data-alone={alone ? "" : undefined} data-asked={store.asked.value ? "" : undefined}>
      <Found store={store} session={session} exported={exported} />
      {!alone && <Navigator store={store} session={session} />}
      <section id="view" role="tabpanel" aria-labelledby={`tab-${view}`}>
        {view !== "model" && <Intro view={view} session={session} />}
        {!alone && work.pins}
        <Component key={fresh ? `${view} ${session.id}` : view} {...work} />
      </section>
    </main>
  );
}

/** How one view says what can be saved of it; the end of another, which may come after its beginning, takes nothing away. */
function exporter(exported: Signal<Exports | null>): ViewProps["exports"] {
  let own: Exports | null = null;
  return (make) => {
    if (make) exported.value = own = Object.create(make, { png: { value: () => pictured(() => make.png()) }, svg: { value: () => pictured(() => make.svg()) } });
    else if (exported.value === own) exported.value = null;
  };
}

/** The transcript is of the file that the page was opened with, whatever pass is on screen. */
function useSoundStore(props: ViewProps): SoundStore | null {
  const reference = useRef<SoundStore | null>(null);
  if (props.session.model.can_transcribe) reference.current ??= new SoundStore(props);
  useEffect(() => () => reference.current?.close(), []);
  return reference.current;
}

/** What was written stays while other views look at it, and while its own pass is on screen; another text begins anew. */
function useGenerationStore(props: ViewProps): GenerationStore | null {
  const { session, state, adopt } = props;
  const reference = useRef<GenerationStore | null>(null);
  const here = state.value.view === "generate";
  const same = reference.current && (session.id === reference.current.session.id || session.heard || (session.generated && session.generated.w === reference.current.trace.peek()?.id));
  if (!same) {
    reference.current?.close();
    reference.current = session.model.can_generate ? new GenerationStore(props, session, reference.current === null) : null;
  }
  // Back from a pass over what was written: the prompt is the text again.
  useEffect(() => {
    const own = reference.current?.session;
    if (here && own && own.id !== session.id) adopt(own, { query: null, key: null });
  }, [here, session]);
  return reference.current;
}
