/** Page of a store of documents: a question, its answer and passages, and why each of them. */

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { setFragment } from "../core/browser";
import { type Answer, type Asked, ask, asTyped, describe, SEARCH_METHODS, type Method, type Passage, passagePlace, type StoreFacts, unmarked } from "./ask/documents";
import { count, plural } from "../core/format";
import type { Transport } from "../core/types";
import { pairsOf } from "../core/url-state";
import { Icon } from "../ui/icons";
import { Logo } from "../ui/logo";
import { moveFocus } from "../ui/roving-tabindex";
import { Segments } from "../ui/segments";
import { nextTheme, theme } from "../ui/theme";
import { isGone, Problem } from "./ask/problem";
import { Why } from "./ask/why";
import "./ask.css";

/** Candidates that late interaction ranks again. */
const LATE = 20;
const NAMES: Record<string, string> = { bm25: "words", dense: "meaning", fusion: "both", late: "tokens", rerank: "cross-encoder" };
/** Both columns are side by side, as in ask.css. */
const WIDE = "(min-width: 62rem)";
const ORDER = ["bm25", "dense", "fusion", "late", "rerank"];

export function AskPage({ transport }: { transport: Transport }) {
  const store = useSignal<StoreFacts | null>(null);
  const asked = useSignal<Asked>(readAsked());
  const answer = useSignal<Answer | null>(null);
  const problem = useSignal<Error | null>(null);
  const busy = useSignal(false);
  const chosen = useSignal(0);
  useEffect(() => {
    describe(transport).then((facts) => (store.value = facts), (error: Error) => (problem.value = error));
    const follow = () => (asked.value = readAsked());
    addEventListener("popstate", follow);
    return () => removeEventListener("popstate", follow);
  }, []);
  useEffect(() => {
    if (!asked.value.question) return;
    const request = new AbortController();
    busy.value = true;
    problem.value = null;
    ask(transport, asked.value, request.signal).then(
      (found) => {
        answer.value = found;
        chosen.value = found.passage ?? 0;
        document.title = `${found.question} · glassformer`;
      },
      (error: Error) => {
        if (request.signal.aborted) return;
        if (!isGone(error)) answer.value = null;
        problem.value = error;
      },
    ).finally(() => !request.signal.aborted && (busy.value = false));
    return () => request.abort();
  }, [asked.value]);
  const change = (some: Partial<Asked>) => {
    const next = { ...asked.peek(), ...some };
    asked.value = next;
    setFragment("pushState", written(next));
  };
  const shown = answer.value;
  return (
    <>
      <Bar store={store.value} />
      <Question asked={asked.value} store={store.value} busy={busy.value} change={change} />
      <main class="ask" aria-busy={busy.value}>
        {problem.value && <Problem error={problem.value} />}
        {!problem.value && !shown && (busy.value ? <p class="ask-empty" role="status">Searching {store.value ? plural(store.value.passage_count, "passage") : "the documents"}…</p> : <Empty store={store.value} />)}
        {shown && <Found answer={shown} transport={transport} chosen={chosen.value} choose={(at) => (chosen.value = at)} />}
      </main>
      <footer class="status">
        {shown && <Stages stages={shown.stages} />}
        <span class="provenance"><span>{store.value && `glassformer ${store.value.version}`}</span></span>
      </footer>
    </>
  );
}

function Bar({ store }: { store: StoreFacts | null }) {
  return (
    <header class="top">
      <div class="brand"><Logo /></div>
      <h1 class="ask-name">{store?.name || "Documents"}</h1>
      <p class="facts">
        {store && <><span>{plural(store.document_count, "document")}</span><span>{plural(store.passage_count, "passage")}</span></>}
        {[["encoder", store?.model], ["reader", store?.reader], ["re-ranker", store?.reranker]].map(([name, model]) => model && <span key={name} title={model}>{name} {model.split(/[\\/]/).slice(-2).join("/")}</span>)}
      </p>
      <div class="tools">
        <button class="quiet" onClick={nextTheme} aria-label={`Theme: ${theme.value}. Change it`} title={`Theme: ${theme.value}`}><Icon name={theme.value} /></button>
      </div>
    </header>
  );
}

function Question({ asked, store, busy, change }: { asked: Asked; store: StoreFacts | null; busy: boolean; change(some: Partial<Asked>): void }) {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const jump = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.target === box.current) return;
      event.preventDefault();
      box.current!.select();
    };
    addEventListener("keydown", jump);
    if (!asked.question) box.current!.focus();
    return () => removeEventListener("keydown", jump);
  }, []);
  return (
    <form
      class="ask-form" role="search"
      onSubmit={(event) => {
        event.preventDefault();
        change({ question: box.current!.value.trim() });
      }}
    >
      <input ref={box} key={asked.question} type="text" aria-label="Question" placeholder="Ask your documents" defaultValue={asked.question} autocomplete="off" required dir="auto" />
      <button class="primary" disabled={busy}>{busy ? "Asking…" : "Ask"}</button>
      {store?.model && (
        <div class="ask-options">
          <Segments legend="Search by" name="method" values={SEARCH_METHODS} value={asked.method ?? "fusion"} set={(method: Method) => change({ method: method === "fusion" ? null : method })} text={(method) => NAMES[method]} titled={(method) => ({ bm25: "BM25", dense: "Dense search", fusion: "Reciprocal rank fusion of both" })[method]} />
          {!store.reranker && (
            <label title={`Late interaction: the best ${LATE} are ranked again by MaxSim, token by token`}>
              <input type="checkbox" checked={asked.late > 0} onChange={(event) => change({ late: event.currentTarget.checked ? LATE : 0 })} /> token by token
            </label>
          )}
          <label title="Maximal marginal relevance: 0 ranks by score alone, 1 as different as can be">
            diversity <input type="range" aria-label="Diversity" min={0} max={1} step={0.1} value={asked.diversity} aria-valuetext={String(asked.diversity)} onChange={(event) => change({ diversity: Number(event.currentTarget.value) })} /> {asked.diversity}
          </label>
        </div>
      )}
      {store && <Filters asked={asked} store={store} change={change} />}
    </form>
  );
}

/** Where a search is limited to: a folder or file, and metadata. */
function Filters({ asked, store, change }: { asked: Asked; store: StoreFacts; change(some: Partial<Asked>): void }) {
  const names = asked.where.map(([name]) => name);
  const others = store.metadata.filter((name) => !names.includes(name));
  const replace = (at: number, ...filters: Asked["where"]) => change({ where: asked.where.toSpliced(at, 1, ...filters) });
  const places = asked.folder && !store.folders.includes(asked.folder) ? [asked.folder, ...store.folders] : store.folders;
  return (
    <div class="ask-options">
      <label>in <select aria-label="Folder or file" value={asked.folder} onChange={(event) => change({ folder: event.currentTarget.value })}>
        <option value="">all documents</option>
        {places.map((place) => <option key={place} value={place}>{place}</option>)}
      </select></label>
      {asked.where.map(([name, value], at) => (
        <span key={at} class="ask-where">
          <Names label={`Filter ${at + 1}`} first={!at} names={[name, ...others]} value={name} choose={(chosen) => (chosen ? replace(at, [chosen, ""]) : replace(at))} />
          is <input key={`${name} ${value}`} type="text" aria-label={`Value of ${name}`} defaultValue={value} autocomplete="off" dir="auto" onChange={(event) => replace(at, [name, event.currentTarget.value.trim()])} />
        </span>
      ))}
      {others.length > 0 && <span key={names.length} class="ask-where"><Names label="Metadata" first={!names.length} names={others} value="" choose={(chosen) => change({ where: [...asked.where, [chosen, ""]] })} /></span>}
    </div>
  );
}

/** One of the names of metadata, or none. */
function Names({ label, first, names, value, choose }: { label: string; first: boolean; names: string[]; value: string; choose(name: string): void }) {
  return (
    <label>{first ? "where" : "and"} <select aria-label={label} value={value} onChange={(event) => choose(event.currentTarget.value)}>
      <option value="">anything</option>
      {names.map((each) => <option key={each} value={each}>{each}</option>)}
    </select></label>
  );
}

function Empty({ store }: { store: StoreFacts | null }) {
  if (!store) return <p class="ask-empty" role="status">Opening the store…</p>;
  if (!store.passage_count) return <p class="ask-empty">The store is empty: index a folder that has documents.</p>;
  return (
    <div class="ask-empty">
      <p>Ask a question: the answer comes from {plural(store.document_count, "document")} in {plural(store.passage_count, "passage")}, with its place in the file and why each passage was retrieved.</p>
      <p class="hint"><kbd>/</kbd> goes to the question, <kbd>↑</kbd> <kbd>↓</kbd> go through the passages.{!store.reader && <> Without a reader, the sentence nearest to the question answers: <code>--reader MODEL</code> finds the words that do.</>}</p>
    </div>
  );
}

function Found({ answer, transport, chosen, choose }: { answer: Answer; transport: Transport; chosen: number; choose(at: number): void }) {
  const { matches, passage, others, sentences, notes } = answer;
  const shown = matches[Math.min(chosen, matches.length - 1)];
  const cited = (at: number | null) => at !== null && matches[at] && <> <button class="ask-cite" onClick={() => choose(at)} aria-label={`Passage ${at + 1}, ${passagePlace(matches[at])}`}>{at + 1}</button></>;
  return (
    <>
      <section class="ask-answer" aria-label="Answer">
        <p class="ask-finding" role="status" dir="auto">
          {passage === null ? (matches.length ? "The documents do not answer this." : "The documents have nothing about this.")
            : sentences.length ? sentences.filter((each) => each.passage !== null).map((each, at) => <span key={at}>{unmarked(each.text)}{cited(each.passage)} </span>) : <>{unmarked(answer.answer)}{cited(passage)}</>}
        </p>
        {passage !== null && <p class="ask-source">from <b>{passagePlace(matches[passage])}</b>{matches[passage].headings.length > 0 && <>, {matches[passage].headings.join(" › ")}</>}</p>}
        {others.length > 0 && <p class="hint">less likely: {others.map((each, at) => <span key={at} class="ask-other">{unmarked(each.text)}{cited(each.passage)}</span>)}</p>}
        {notes.map((note) => <p key={note} class="hint">{asTyped(note).split("`").map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part))}</p>)}
      </section>
      {shown && (
        <div class="ask-body">
          <Passages matches={matches} chosen={matches.indexOf(shown)} choose={choose} />
          <Why key={`${shown.id} ${answer.question}`} answer={answer} at={matches.indexOf(shown)} transport={transport} />
        </div>
      )}
    </>
  );
}

/** The passages with their ranks and scores by each method, one of them chosen. */
function Passages({ matches, chosen, choose }: { matches: Passage[]; chosen: number; choose(at: number): void }) {
  const methods = ORDER.filter((name) => matches.some(({ ranks }) => name in ranks));
  return (
    <section class="ask-list" aria-labelledby="ask-passages">
      <h2 id="ask-passages">Passages</h2>
      <div role="listbox" aria-labelledby="ask-passages" onKeyDown={moveFocus}>
        {matches.map((passage, at) => (
          <div
            key={passage.id} role="option" data-cell tabIndex={at === chosen ? 0 : -1} aria-selected={at === chosen}
            onClick={() => {
              choose(at);
              if (!matchMedia(WIDE).matches) document.getElementById("ask-why")!.scrollIntoView(); // it is below the list
            }}
            onFocus={() => choose(at)}
          >
            <p class="ask-place"><b>{at + 1}</b> {passagePlace(passage)}</p>
            <p class="ask-beginning" dir="auto">{unmarked(passage.text)}</p>
            <p class="ask-ranks">
              {methods.map((name) => (
                <span key={name} data-none={name in passage.ranks ? undefined : ""} title={name in passage.ranks ? `rank ${passage.ranks[name]} by ${NAMES[name]} (${name}), score ${passage.scores[name]}` : `not among the candidates by ${NAMES[name]} (${name})`}>
                  <i>{name}</i> {name in passage.ranks ? <><b>{count(passage.ranks[name])}</b> {passage.scores[name].toFixed(3).replace("-", "−")}</> : "–"}
                </span>
              ))}
            </p>
          </div>
        ))}
      </div>
      <p class="hint">Rank and score by each method; – is not among its candidates.</p>
    </section>
  );
}

function Stages({ stages }: { stages: Answer["stages"] }) {
  const total = stages.reduce((sum, { milliseconds, meanwhile }) => sum + (meanwhile ? 0 : milliseconds), 0);
  return <span class="ask-stages">{stages.map(({ name, milliseconds }) => <span key={name}>{name} {milliseconds.toFixed(1)} ms</span>)}<b>{total.toFixed(0)} ms</b></span>;
}

function readAsked(): Asked {
  const pairs = pairsOf(location.hash);
  const method = SEARCH_METHODS.find((name) => name === pairs.get("m")) ?? null;
  const where = new Map(pairs.getAll("where").filter(Boolean).map((pair) => {
    const [name, ...value] = pair.split("=");
    return [name, value.join("=")];
  }));
  const diversity = Math.min(1, Math.max(0, Number(pairs.get("mmr")) || 0));
  return { question: pairs.get("q") ?? "", method, late: pairs.get("late") === "1" ? LATE : 0, folder: pairs.get("in") ?? "", where: [...where], diversity };
}

const written = ({ question, method, late, folder, where, diversity }: Asked): string => {
  const pairs = new URLSearchParams({ q: question, ...(method && { m: method }), ...(late && { late: "1" }), ...(folder && { in: folder }), ...(diversity && { mmr: String(diversity) }) });
  where.forEach(([name, value]) => pairs.append("where", `${name}=${value}`));
  return pairs.toString();
};
