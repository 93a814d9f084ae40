/** Why a passage: its place in the file, the words that BM25 matched, where an answer may begin and end, token by token. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Answer, type Boundary, type Context, context, type Mark, nearestTokens, tokenPairs, partsOf, passagePlace, type Passage, type WordScore } from "./documents";
import { count, percent, visible } from "../../core/format";
import { shade } from "../../core/palette";
import type { SimilarityState } from "../../core/similarity";
import type { Transport } from "../../core/types";
import { dark } from "../../ui/theme";
import { Heatmap } from "../similarity/heatmap";
import { Problem } from "./problem";
import "../similarity.css";

/** Contributions below it are 0.000: words that almost every passage has. */
const LEAST = 0.0005;
const HUE = 55;
const [CELL, EDGE] = [30, 140];
/** Characters of a neighbour that are shown. */
const AROUND = 240;

type Marked = { word: WordScore } | { boundary: Boundary } | "answer";

export function Why({ answer, at, transport }: { answer: Answer; at: number; transport: Transport }) {
  const passage = answer.matches[at];
  const around = useSignal<Context | null>(null);
  const problem = useSignal<Error | null>(null);
  useEffect(() => {
    const request = new AbortController();
    context(transport, answer.question, passage.id, request.signal).then(
      (found) => !request.signal.aborted && (around.value = found),
      (error: Error) => !request.signal.aborted && (problem.value = error),
    );
    return () => request.abort();
  }, []);
  const { score } = around.value ?? {};
  return (
    <section class="ask-why" aria-labelledby="ask-why">
      <h2 id="ask-why">Why passage {at + 1}</h2>
      <InFile answer={answer} at={at} around={around.value} />
      {passage.words.length > 0 && <Words passage={passage} />}
      {problem.value && <Problem error={problem.value} />}
      {!around.value && !problem.value && <p class="hint" role="status">Comparing token by token…</p>}
      {around.value && score !== undefined && around.value.cells.length > 0 && <Tokens of={around.value} />}
    </section>
  );
}

/** The passage in its file: the words that were matched, the answer, and where it may begin and end. */
function InFile({ answer, at, around }: { answer: Answer; at: number; around: Context | null }) {
  const passage = answer.matches[at];
  const boundaries = answer.boundaries[at] ?? [];
  const own = answer.passage === at && !answer.sentences.length;
  const marks: Mark<Marked>[] = [
    ...passage.words.filter(({ score }) => score >= LEAST).flatMap((word) => word.places.map(([start, stop]) => ({ start, stop, value: { word } }))),
    ...boundaries.map((boundary) => ({ start: boundary.start, stop: boundary.stop, value: { boundary } })),
    ...(own ? [{ start: answer.start - passage.start, stop: answer.stop - passage.start, value: "answer" as const }] : []),
  ];
  const most = Math.max(...answer.boundaries.flat().flatMap(({ begins, ends }) => [begins, ends]), 1e-9);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const mark = box.current!.querySelector<HTMLElement>("[data-answer]") ?? box.current!.querySelector<HTMLElement>("[data-word]");
    if (mark) box.current!.scrollTop += mark.getBoundingClientRect().top - box.current!.getBoundingClientRect().top - box.current!.clientHeight / 3;
  }, [around]);
  const parts = useMemo(() => partsOf(passage.text, marks), [answer, at]);
  return (
    <div class="ask-card">
      <p class="ask-place"><b>{passagePlace(passage)}</b>{passage.headings.length > 0 && <> {passage.headings.join(" › ")}</>}{passage.also.length > 0 && <>, also in {passage.also.join(", ")}</>}</p>
      <div class="ask-text" ref={box} data-bars={boundaries.length ? "" : undefined} tabIndex={0} role="group" aria-label={`The passage in ${passage.file}`} dir="auto">
        {around?.before.map((each) => <span key={each.id} class="ask-around">{beforeOf(each, passage)}</span>)}
        {parts.map((part, index) => <Part key={index} {...part} most={most} />)}
        {around?.after.map((each) => <span key={each.id} class="ask-around">{afterOf(each, passage)}</span>)}
      </div>
      <p class="hint">Underlined: words of the question.{own && " Shaded: the answer."}{boundaries.length > 0 && <> Bars: where the reader sees an answer <i class="ask-begins">begin</i> and <i class="ask-ends">end</i>.</>} Grey: what is around it in the file.</p>
    </div>
  );
}

function Part({ text, values, most }: { text: string; values: Marked[]; most: number }) {
  if (!values.length) return <>{text}</>;
  const words = values.flatMap((value) => (value !== "answer" && "word" in value ? [value.word] : []));
  const [boundary] = values.flatMap((value) => (value !== "answer" && "boundary" in value ? [value.boundary] : []));
  const about = [
    ...words.map(({ word, score }) => `“${word}” adds ${score.toFixed(3)}`),
    ...(boundary ? [`an answer begins here: ${percent(boundary.begins)}, ends here: ${percent(boundary.ends)}`] : []),
  ];
  return (
    <mark data-word={words.length ? "" : undefined} data-answer={values.includes("answer") ? "" : undefined} data-bar={boundary ? "" : undefined} title={about.join("; ") || undefined}
      style={boundary && { "--begins": boundary.begins / most, "--ends": boundary.ends / most }}>{text}</mark>
  );
}

/** What a neighbour has that the passage lacks: neighbours of a section share some text. */
function beforeOf({ text, start, stop }: Passage, passage: Passage): string {
  const own = [...text].slice(0, Math.max(0, Math.min(stop, passage.start) - start));
  return `${own.length > AROUND ? `…${own.slice(-AROUND).join("")}` : own.join("")}\n`;
}

function afterOf({ text, start }: Passage, passage: Passage): string {
  const own = [...text].slice(Math.max(0, passage.stop - start));
  return `\n${own.length > AROUND ? `${own.slice(0, AROUND).join("")}…` : own.join("")}`;
}

/** The words that BM25 matched, with what each adds. */
function Words({ passage: { words, scores } }: { passage: Passage }) {
  const most = Math.max(...words.map(({ score }) => score), 1e-9);
  const sum = words.reduce((total, { score }) => total + score, 0);
  return (
    <div class="ask-card ask-words" tabIndex={0} role="region" aria-label="Words that BM25 matched">
      <h3>Words that BM25 matched: {sum.toFixed(3)}</h3>
      <table>
        <thead><tr><th scope="col">word</th><th scope="col" title="of the store, that have the word">passages</th><th scope="col">idf</th><th scope="col">times</th><th scope="col">adds</th></tr></thead>
        <tbody>
          {words.map(({ word, term, passages, idf, count: times, score }) => (
            <tr key={term}>
              <th scope="row" title={`indexed as ${term}`}>{word}</th><td>{count(passages)}</td><td>{idf.toFixed(3)}</td><td>{times}</td>
              <td class="ask-adds" style={{ "--share": score / most }}>{score.toFixed(3)}</td>
            </tr>
          ))}
        </tbody>
        <tfoot><tr><th scope="row" colSpan={4}>BM25 score</th><td>{(scores.bm25 ?? sum).toFixed(3)}</td></tr></tfoot>
      </table>
    </div>
  );
}

/** Question × passage, token by token. */
function Tokens({ of }: { of: Context }) {
  const shown = useMemo(() => nearestTokens(of), [of]);
  const here = useSignal<[row: number | null, column: number | null]>([null, null]);
  const [row, column] = here.value;
  const pinned: SimilarityState = { words: false, row, column };
  const point = (r: number | null, c: number | null) => (here.value = [r, c]);
  const pairs = tokenPairs(of).sort((a, b) => b[2] - a[2]);
  return (
    <div class="ask-card ask-tokens">
      <h3>Question × passage, token by token: MaxSim {of.score.toFixed(3)}</h3>
      <p class="ask-pairs">{pairs.map(([mine, its, cosine], at) => <span key={at} style={{ background: shade(Math.max(cosine, 0), HUE, dark.value) }}>{visible(mine.text)} → {visible(its.text)} {cosine.toFixed(2).replace("-", "−")}</span>)}</p>
      <div style={{ maxWidth: `${EDGE + CELL * shown.tokens[1].length}px` }}><Heatmap shown={shown} pinned={pinned} point={point} pin={point} dark={dark} /></div>
      <p class="hint">Cosines of final states: each token of the question (columns) with the {shown.tokens[0].length} most similar tokens of the passage, in their order. MaxSim is the mean over the question of the nearest: the list above.</p>
    </div>
  );
}
