/**
 * Attribution view: which words, and which parts of the network, made an output.
 *
 *     i feel [furious] about it          words, by what each added or by gradient × input
 *     layer 0  ▒ · ▓ ·   ── attention    each head's share of the logit; sums by layer
 *     layer 1  · █ · ·   ─── feed-forward
 */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useState } from "preact/hooks";
import { duration, number, percent, visible } from "../core/format";
import type { Attribution, Method, Part } from "../core/readings";
import type { ViewProps } from "../core/types";
import * as views from "../core/views";
import { DataTable } from "../ui/data-table";
import { moveFocus } from "../ui/roving-tabindex";
import { AttributionController, partName, type Word } from "./attribution/attribution-controller";
import "./attribution.css";
import "./lens.css";
import { tableOf, useExports } from "./attribution/exports";
import { signed } from "../core/cause";
import { diverging } from "./neuron/diverging-colours";
import type { ViewModule } from "../ui/view-module";
import { Told } from "../ui/command";
import { Term } from "../ui/term";

export function AttributionView(props: ViewProps) {
  const controller = useMemo(() => new AttributionController(props), [props.session]);
  const request = JSON.stringify(controller.request.value);
  useEffect(() => {
    void controller.load();
    return () => controller.stop();
  }, [controller, request]);
  useExports(controller);
  const found = controller.found.value;
  return (
    <div class="attr">
      <Answer controller={controller} />
      <Controls controller={controller} />
      <Waiting controller={controller} />
      {found && <Found controller={controller} found={found} />}
    </div>
  );
}

function Found({ controller, found }: { controller: AttributionController; found: Attribution }) {
  const tabled = useSignal(false);
  return (
    <>
      <section class="lens-card" aria-label="Words">
        <header class="attr-head">
          <h2>Why <b>{found.target.title}</b></h2>
          <p><Term of="logit" /> {number(found.target.score)} · probability {percent(found.target.probability)}</p>
        </header>
        <Words controller={controller} found={found} />
        <StrongestWords controller={controller} found={found} />
        <Notes controller={controller} found={found} />
      </section>
      <div class="attr-body">
        <section class="lens-card" aria-label="Heads">
          <h3>Each head's share of the logit</h3>
          <Heads controller={controller} found={found} />
        </section>
        <section class="lens-card" aria-label="Layers">
          <h3>By layer</h3>
          <Layers controller={controller} found={found} />
        </section>
        <aside class="lens-card" aria-label="Strongest parts">
          <h3>Strongest parts</h3>
          <Strongest controller={controller} found={found} />
          <p class="hint">
            All {found.parts.length} parts add up to {number(found.target.score - found.remainder)}; the logit is {number(found.target.score)}.{" "}
            <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
          </p>
          <Norms controller={controller} found={found} />
        </aside>
      </div>
      {tabled.value && <Table controller={controller} found={found} />}
    </>
  );
}

/** What the model says, and what it could say: each can be explained. */
function Answer({ controller }: { controller: AttributionController }) {
  const { session: { opening: { answer } }, transport } = controller.props;
  const found = controller.found.value;
  if (!answer) return null;
  const state = controller.state.value;
  const likely = found?.target.likely.map(([name, share]) => ({ name, share, target: controller.target(name), at: found.target.position })) ?? [];
  const choices = likely.length ? likely : answer.choices;
  return (
    <div class="lead">
      {/* In a saved page the buttons are off: the row itself can be scrolled by keys. */}
      <div class="findings one-row" role="group" aria-label="Outputs" tabIndex={transport.host === "page" ? 0 : undefined}>
        {choices.map(({ name, share, target, at }, index) => {
          const asked = { target, at: at === null ? "" : String(at) };
          const shown = state.target ? state.target === asked.target && state.at === asked.at : index === 0;
          return (
            <button key={index} class="share" style={{ "--share": `${100 * share}%` }} disabled={transport.host === "page"} aria-pressed={shown} title={`Why ${name}?`} onClick={() => controller.explain({ ...asked, against: "" })}>
              {name} {percent(share)}
            </button>
          );
        })}
      </div>
    </div>
  );
}

function Controls({ controller }: { controller: AttributionController }) {
  const state = controller.state.value;
  const { model } = controller.props.session;
  const [draft, setDraft] = useState({ target: state.target, at: state.at, against: state.against });
  useEffect(() => setDraft({ target: state.target, at: state.at, against: state.against }), [state.target, state.at, state.against]);
  const page = controller.props.transport.host === "page";
  const field = (name: keyof typeof draft, label: string, hint: string) => (
    <label><span>{label}</span><input type="text" value={draft[name]} placeholder={hint} spellcheck={false} readOnly={page} onInput={(event) => setDraft({ ...draft, [name]: event.currentTarget.value })} /></label>
  );
  const run = (event: Event) => {
    event.preventDefault();
    controller.explain(draft);
  };
  return (
    <form class="attr-controls" aria-label="What is explained" onSubmit={run}>
      {field("target", "why", "the model's own")}
      {field("against", "rather than", "nothing")}
      {model.predicts === "token" && field("at", "at token", "the usual one")}
      {!page && <button class="primary">Explain</button>}
    </form>
  );
}

function Waiting({ controller }: { controller: AttributionController }) {
  const progress = controller.progress.value;
  if (controller.problem.value) return <p class="reading-problem" role="alert"><Told text={controller.problem.value} /></p>;
  if (controller.stopped.value) {
    return <p class="reading-waiting" role="status">Stopped. <button onClick={() => void controller.load()}>Explain it after all</button></p>;
  }
  const wait = controller.wait.value;
  const first = controller.found.value;
  if (!progress) {
    const { session, transport } = controller.props;
    if (first && transport.host === "page" && controller.rough(first)) {
      return <p class="reading-waiting" role="status"><Told text={`${first.steps ? `The words are rough: this saved page holds ${first.steps} gradients, and no model to compute more.` : "Heads and layers are exact; the words are not in this saved page, which has no model to compute them."} To have them: ${session.look} --view attribution`} /></p>;
    }
    return first && wait !== null ? (
      <p class="reading-waiting" role="status">
        A first answer, from {first.steps} gradients: the words miss {percent(first.gap ?? 0)} of the change.
        <button onClick={() => void controller.refine()}>Compute {first.more}, at most {duration(wait)}</button>
      </p>
    ) : null;
  }
  const so = !first ? "" : wait !== null ? `A first answer is below; ${first.more} take at most ${duration(wait)}. ` : first.steps === 0 ? "Heads and layers are below; the words follow. " : "";
  return <p class="reading-waiting" role="status">{so}Computing the words{progress.of ? `: ${progress.done} of ${progress.of}` : "…"} <progress max={progress.of || 1} value={progress.done} aria-label="Share that is computed" /><button onClick={() => controller.interrupt()}>Stop</button></p>;
}


function Words({ controller, found }: { controller: AttributionController; found: Attribution }) {
  const head = controller.head.value;
  const { method } = controller.state.value;
  const names: Record<Method, string> = { shares: found.method, gradient: "gradient × input" };
  const values = controller.values(found);
  const dark = controller.props.dark.value;
  const streams = Object.entries(values).filter(([stream]) => controller.props.session.streams[stream]);
  const words = streams.map(([stream, each]): [string, Word[]] => [stream, controller.words(stream, each)]);
  const rough = controller.rough(found);
  const absent = rough && found.steps === 0 && controller.props.transport.host === "page";
  const most = rough ? 1 : Math.max(...words.flatMap(([, all]) => all.map((word) => Math.abs(word.value))), 1e-9);
  return (
    <>
      <div class="attr-tools">
        <fieldset class="segments">
          <legend class="unseen">What colours the words</legend>
          {(Object.keys(names) as Method[]).map((name) => (
            <label key={name}>
              <input type="radio" name="method" checked={!head && method === name} onChange={() => controller.set({ method: name, head: null })} onClick={() => head && controller.set({ method: name, head: null })} />
              <span>{names[name]}</span>
            </label>
          ))}
        </fieldset>
        {head && (
          <p class="pin">
            through layer {head[1]} · head {head[2]}
            <button class="quiet" onClick={() => controller.props.set({ view: "head", query: found.target.position })}>open</button>
            <button class="quiet" aria-label="All words again" onClick={() => controller.choose(null)}>×</button>
          </p>
        )}
        {rough ? (
          <p class="lens-legend">{absent ? "words: not computed" : found.steps === 0 ? "hatched: not computed yet" : `hatched: rough, ${found.steps} gradients miss ${percent(found.gap ?? 0)} of the change`}</p>
        ) : (
          <p class="lens-legend">
            <span>against {signed(-most)}</span>
            <span class="lens-scale" aria-hidden="true">{Array.from({ length: 17 }, (_, at) => <i key={at} style={{ background: diverging(at / 8 - 1, dark) }} />)}</span>
            <span>{signed(most)} for it</span>
          </p>
        )}
      </div>
      {!absent && words.map(([stream, all]) => (
        <p key={stream} class="attr-words" role="group" aria-label={`${stream}: the share of each word`} onKeyDown={moveFocus}>
          {words.length > 1 && <small>{stream}</small>}
          {all.map((word, at) => {
            const value = rough ? "not known yet" : signed(word.value);
            return (
              <span key={at} data-cell role="img" class={`attr-word${word.special ? " attr-special token" : ""}${rough ? " attr-rough" : ""}`} tabIndex={at === 0 ? 0 : -1} aria-label={`${visible(word.text)} ${value}`}
                style={rough ? undefined : { background: tint(word.value / most, dark) }} onFocus={() => controller.props.say(`${visible(word.text)}: ${rough ? value : `${value} of the logit`}`)}>
                <b>{visible(word.text)}</b><small aria-hidden="true">{Math.abs(word.value) >= most / 20 ? value : ""}</small>
              </span>
            );
          })}
        </p>
      ))}
    </>
  );
}

/** The words that speak most for the output, and most against it; and what to ask where it is the last one, which speaks for any next word. */
function StrongestWords({ controller, found }: { controller: AttributionController; found: Attribution }) {
  const most = controller.strongestWords(found);
  if (!most) return null;
  const list = (words: Word[]) => words.map((word, at) => <>{at > 0 && ", "}<b>“{visible(word.text)}”</b> {signed(word.value)}</>);
  const { target: { against, name, likely } } = found;
  const other = likely.find(([each]) => `“${each}”` !== name)?.[0];
  const last = most.for[0] && controller.isBefore(most.for[0], found);
  return (
    <p class="attr-most">
      {most.for.length > 0 && <>Most for it: {list(most.for)}. </>}
      {most.against.length > 0 && <>Most against it: {list(most.against)}. </>}
      {against !== null ? <button onClick={() => controller.explain({ against: "" })}>{name} by itself</button> : last && other !== undefined && (
        <>
          What speaks for {name} and not for “{visible(other)}”?{" "}
          {controller.holds(controller.target(other))
            ? <button onClick={() => controller.explain({ against: controller.target(other) })}>rather than “{visible(other)}”</button>
            : <Told text={`Ask for it as “rather than”: ${controller.props.session.look} --view attribution`} />}
        </>
      )}
    </p>
  );
}

/** A colour to write on: the diverging scale, half as strong. */
const tint = (share: number, dark: boolean) => `color-mix(in srgb, ${diverging(share, dark)} ${dark ? 52 : 55}%, var(--panel))`;

function Notes({ controller, found }: { controller: AttributionController; found: Attribution }) {
  const head = controller.head.value;
  const sum = head && Object.values(controller.values(found)).reduce((all, values) => all + values.reduce((a, b) => a + b, 0), 0);
  return (
    <details class="attr-notes">
      <summary>{head ? `These add up to the head's share, ${signed(sum ?? 0)}.` : controller.state.value.method === "shares" ? found.how : "The first-order effect of each word at this text; it adds up to nothing."} What is approximated</summary>
      <ul>{found.notes.map((note) => <li key={note}>{note}</li>)}</ul>
    </details>
  );
}

function Heads({ controller, found }: { controller: AttributionController; found: Attribution }) {
  const dark = controller.props.dark.value;
  const heads = found.parts.filter((part) => part.head !== null);
  const most = Math.max(...heads.map((part) => Math.abs(part.value)), 1e-9);
  const on = controller.head.value;
  const kinds = [...new Set(heads.map((part) => part.kind))];
  const choose = (part: Part) => {
    const same = on && on[1] === part.layer && on[2] === part.head && on[0] === controller.mapOf(part);
    controller.choose(same ? null : part);
  };
  return (
    <>
      {kinds.map((kind) => {
        const own = heads.filter((part) => part.kind === kind);
        const layers = [...new Set(own.map((part) => part.layer!))];
        const [first] = own;
        return (
          <div key={kind} class="attr-scroll">
            {kinds.length > 1 && <h4>{kind === "head" ? "self-attention" : "cross-attention"}</h4>}
            <div class="attr-grid" role="grid" aria-label={`${kind}: rows are layers, columns are heads`} onKeyDown={moveFocus}>
              {layers.map((layer) => (
                <div role="row" key={layer}>
                  <span role="rowheader">{layer}</span>
                  {own.filter((part) => part.layer === layer).map((part) => {
                    const chosen = on !== null && on[0] === controller.mapOf(part) && on[1] === layer && on[2] === part.head;
                    return (
                      <span role="gridcell" key={part.head} data-cell tabIndex={chosen || (!on && part === first) ? 0 : -1} aria-selected={chosen} class={chosen ? "attr-on" : undefined}
                        aria-label={`layer ${layer} head ${part.head}: ${signed(part.value)}`} title={`layer ${layer} · head ${part.head}: ${signed(part.value)}`} style={{ background: diverging(part.value / most, dark) }}
                        onClick={() => choose(part)} onFocus={() => controller.props.say(`layer ${layer} head ${part.head}: ${signed(part.value)} of the logit`)}
                        onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), choose(part))} />
                    );
                  })}
                </div>
              ))}
            </div>
          </div>
        );
      })}
      <p class="hint">Orange for, blue against; strongest {signed(most)}. Click a head: through which words it spoke.</p>
    </>
  );
}

function Layers({ controller, found }: { controller: AttributionController; found: Attribution }) {
  const layers = controller.layers(found);
  const ends = found.parts.filter((part) => part.layer === null);
  const most = Math.max(...layers.flatMap(({ sums }) => sums.map(([, value]) => Math.abs(value))), ...ends.map((part) => Math.abs(part.value)), 1e-9);
  const dark = controller.props.dark.value;
  const bar = (name: string, value: number) => (
    <li key={name} aria-label={`${name} ${signed(value)}`}>
      <span>{name}</span>
      <span class="attr-bar" aria-hidden="true"><i style={{ left: `${50 + Math.min(0, (50 * value) / most)}%`, width: `${(50 * Math.abs(value)) / most}%`, background: diverging(value < 0 ? -1 : 1, dark) }} /></span>
      <span>{signed(value)}</span>
    </li>
  );
  return (
    <ol class="attr-bars">
      {ends.filter((part) => part.kind === "embedding").map((part) => bar("embedding", part.value))}
      {layers.map(({ layer, sums }) => <li key={layer} class="attr-layer"><b>{layer}</b><ol>{sums.map(([kind, value]) => bar(kind, value))}</ol></li>)}
      {ends.filter((part) => part.kind !== "embedding").map((part) => bar("biases", part.value))}
    </ol>
  );
}

function Strongest({ controller, found }: { controller: AttributionController; found: Attribution }) {
  return (
    <ol class="attr-strongest">
      {controller.strongest(found, 10).map((part) => (
        <li key={partName(part)}>
          {part.head === null ? <span>{partName(part)}</span> : <button class="quiet" onClick={() => controller.choose(part)}>{partName(part)}</button>}
          <span>{signed(part.value)}</span>
        </li>
      ))}
    </ol>
  );
}

/** Length of the vector in the residual stream, layer by layer, of the token where the output is, or of all on average. */
function Norms({ controller, found }: { controller: AttributionController; found: Attribution }) {
  const tokens = controller.props.session.streams[found.target.stream].length;
  const rows = found.norms.length / tokens;
  const at = found.target.position;
  const norms = Array.from({ length: rows }, (_, row) => {
    const values = found.norms.subarray(row * tokens, (row + 1) * tokens);
    return at === null ? values.reduce((a, b) => a + b, 0) / tokens : values[at];
  });
  const most = Math.max(...norms, 1e-9);
  const sentence = `Length of the residual stream's vector, from ${number(norms[0], 3)} after the embedding to ${number(norms.at(-1)!, 3)} at the end`;
  return (
    <figure class="attr-norms">
      <figcaption><Term of="norm">Norms</Term>. {sentence}{at === null ? ", mean over tokens" : ""}</figcaption>
      <svg viewBox={`0 0 ${rows * 20} 50`} role="img" aria-label={sentence}>
        {norms.map((norm, row) => <g key={row}><title>{`${row === 0 ? "embedding" : `layer ${row - 1}`}: ${number(norm)}`}</title><rect x={row * 20 + 2} width="16" y={50 - (48 * norm) / most} height={(48 * norm) / most} /></g>)}
      </svg>
    </figure>
  );
}

function Table({ controller, found }: { controller: AttributionController; found: Attribution }) {
  const rows = tableOf(controller, found);
  return <DataTable caption={`${rows.length - 1} numbers`} rows={rows} />;
}

export const view: ViewModule = {
  name: "attribution", title: "Attribution", alone: true, fresh: true,
  sentence: "Which words, and which heads and layers, made the output: orange = for it, blue = against. Click a head for the words that it read.",
  Component: AttributionView,
  ahead: async (props, signal) => {
    for (const request of new AttributionController(props).first) await views.attribution(props.transport, props.session, request, () => {}, signal);
  },
};
