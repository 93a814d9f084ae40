/** The whole page: bar, texts, banners, navigator and view, status line. */

import { useSignal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import type { Store } from "../core/store";
import type { Exports, Session, ViewProps } from "../core/types";
import { HeadView } from "../views/head";
import { MatrixView } from "../views/matrix";
import { ModelView } from "../views/model";
import { NeuronView } from "../views/neuron";
import { Banners, Running } from "./banners";
import { Intro } from "./intro";
import { KeysDialog, useKeys } from "./keys";
import { Mark } from "./mark";
import { MapChoice, Navigator } from "./navigator";
import { Pins } from "./pins";
import { Search } from "./search";
import { Status } from "./status";
import { Texts } from "./texts";
import { dark } from "./theme";
import { TopBar } from "./topbar";

export function App({ store }: { store: Store }) {
  const exports = useSignal<Exports | null>(null);
  const [help, setHelp] = useState(false);
  const [search, setSearch] = useState(false);
  useKeys(store, { help: () => setHelp(true), search: () => setSearch(true) });
  const session = store.session.value;
  return (
    <>
      <TopBar store={store} exports={exports} help={() => setHelp(true)} />
      {session ? (
        <>
          <Texts store={store} session={session} />
          <Running store={store} />
          <Banners store={store} />
          <Work store={store} session={session} exports={(make) => (exports.value = make)} />
          <Status store={store} session={session} />
          <Search store={store} session={session} open={search} close={() => setSearch(false)} />
        </>
      ) : (
        <div class="opening">
          <Mark />
          <Running store={store} />
          <Banners store={store} />
        </div>
      )}
      <KeysDialog open={help} close={() => setHelp(false)} />
    </>
  );
}

function Work({ store, session, exports }: { store: Store; session: Session; exports: ViewProps["exports"] }) {
  const view = store.state.value.view;
  const props: ViewProps = useMemo(() => ({
    transport: store.transport,
    session,
    state: store.state,
    set: (change) => store.set(change),
    dark,
    overviews: store.overviews,
    say: (sentence) => store.say(sentence),
    refuse: (error) => store.refuse(error),
    exports,
  }), [store, session]);
  return (
    <main class="work" data-view={view}>
      {view !== "model" && <Navigator store={store} session={session} />}
      <section id="view" role="tabpanel" aria-labelledby={`tab-${view}`}>
        {view === "model" && <MapChoice store={store} session={session} />}
        <Intro view={view} />
        <Pins store={store} session={session} />
        {view === "model" && <ModelView {...props} refine={() => void store.refine()} refining={store.refining} />}
        {view === "head" && <HeadView {...props} />}
        {view === "matrix" && <MatrixView {...props} />}
        {view === "neuron" && <NeuronView {...props} />}
      </section>
    </main>
  );
}
