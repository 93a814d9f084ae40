/** Neuron view: the computation of one query's attention, from q, k and v to z, with the model's own numbers. */

import { effect, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";
import { toPng, toSvg } from "../core/figure";
import { number, percent, visible } from "../core/format";
import { sessionKey } from "../core/store";
import { mapOf } from "../core/url-state";
import type { ViewProps } from "../core/types";
import { DataTable } from "../ui/data-table";
import { isRotated, products, root, sharing, sum, whyHidden } from "./neuron/arithmetic";
import { diverging } from "./neuron/diverging-colours";
import { Pages, Picker, Sweep } from "./neuron/picker";
import { neuronFigure, scales } from "./neuron/figure";
import { shape, Sheet, Strip } from "./neuron/strip";
import { type Numbers, NeuronController } from "./neuron/neuron-controller";
import { shared, Computation } from "./neuron/computation";
import "./neuron.css";
import { explained } from "./head/because";
import type { ViewModule } from "../ui/view-module";
import { Told } from "../ui/command";
import { Term } from "../ui/term";

export function NeuronView(props: ViewProps) {
  const { name } = mapOf(props.session, props.state.value.map);
  return <Neuron key={`${sessionKey(props.session)}/${name}`} {...props} />;
}

function Neuron(props: ViewProps) {
  const controller = useMemo(() => new NeuronController(props, props.state.peek().map), []);
  const host = useRef<HTMLDivElement>(null);
  const tabled = useSignal(false);
  const numbers = controller.numbers.value;
  const { layer, head, query } = controller.at.value;
  // Rows stay until those of the next head have come: they are drawn over, not built again.
  const last = useRef<Numbers | null>(null);
  if (numbers) last.current = numbers;
  const shown = controller.absent.value ? numbers : last.current;

  useEffect(() => () => controller.close(), [controller]);
  useEffect(() => {
    const watch = new ResizeObserver(([box]) => (controller.narrow.value = box.contentRect.width <= 760));
    watch.observe(host.current!);
    return () => watch.disconnect();
  }, [controller]);
  // Both before the first frame, which takes as long as the answer; in this order, since a page may refuse at once.
  useLayoutEffect(() => effect(() => {
    void controller.at.value;
    controller.absent.value = null;
    controller.all.value = false;
  }), [controller]);
  useLayoutEffect(() => effect(() => controller.want()), [controller]);
  useSignalEffect(() => controller.settle());

  // The dimension under the pointer is marked in every strip by the style sheet alone.
  useSignalEffect(() => {
    const at = controller.dimension.value;
    const { columns } = shape(controller.map.head_width);
    host.current?.classList.toggle("neuron-lit", at !== null);
    if (at === null) return;
    host.current?.style.setProperty("--column", String(at % columns));
    host.current?.style.setProperty("--line-at", String(Math.floor(at / columns)));
  });

  // What the last head gave stays until that of the next is there: a sentence that goes and comes moves the whole page.
  useSignalEffect(() => {
    const shown = controller.numbers.value;
    if (controller.absent.value) props.exports(null);
    if (!shown) return;
    const { layer, head, query } = shown.row;
    const { model, text_hash } = props.session;
    const made = () =>
      neuronFigure(controller, shown, [
        `layer ${layer} · head ${head} · query ${query} ${visible(controller.queries[query].text)}`,
        `${model.name} · ${model.revision} · ${model.dtype} · text ${text_hash}`,
      ], host.current!);
    const style = () => getComputedStyle(host.current!);
    const paper = () => style().getPropertyValue("--paper").trim();
    props.exports({
      name: `neuron-${controller.map.name}-layer${layer}-head${head}-query${query}`,
      png: () => toPng(made(), paper(), style().fontFamily),
      svg: () => toSvg(made(), paper(), style().fontFamily),
      table: () => tableOf(controller, shown),
    });
  });
  useEffect(() => () => props.exports(null), []);

  const { columns, lines } = shape(controller.map.head_width);
  return (
    <div class="neuron" ref={host} style={{ "--columns": columns, "--lines": lines }}>
      <header>
        <h2>{props.session.maps.length > 1 && `${controller.map.name} · `}layer {layer} · head {head}</h2>
        <Facts controller={controller} numbers={shown} />
      </header>
      <Picker controller={controller} />
      <div class="neuron-tools one-row">
        <Pages controller={controller} probs={shown?.row.probs} />
        <button aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>
        <Legend dark={props.dark.value} />
      </div>
      {!controller.whole && shown && <Sweep controller={controller} probs={shown.row.probs} />}
      {controller.absent.value && <p class="neuron-absent"><Told text={controller.absent.value} /></p>}
      {shown ? <Rows controller={controller} numbers={shown} waiting={shown !== numbers} /> : !controller.absent.value && <p class="hint">Reading q, k and v of token {query}…</p>}
      {tabled.value && numbers && <Table controller={controller} numbers={numbers} />}
    </div>
  );
}

/** Colour and direction say the same. */
function Legend({ dark }: { dark: boolean }) {
  const sign = (upper: number, lower: number) => ({ background: `linear-gradient(${diverging(upper, dark)} 50%, ${diverging(lower, dark)} 50%)` });
  return (
    <p class="neuron-legend">
      <i style={sign(-0.3, -1)} aria-hidden="true" /> below zero, down
      <i style={sign(1, 0.3)} aria-hidden="true" /> above zero, up
    </p>
  );
}

/** What is special about this map, in words. */
function Facts({ controller, numbers }: { controller: NeuronController; numbers: Numbers | null }) {
  const { map } = controller;
  const { window } = controller.mask;
  const group = numbers && sharing(map, numbers.row.kv_head);
  const facts = [
    group && shared(group, numbers.row.kv_head),
    numbers && isRotated(map, numbers.row.layer) && "q and k are shown after their rotation by position.",
    numbers && numbers.row.score_cap !== null && `A soft cap keeps every score between −${numbers.row.score_cap} and ${numbers.row.score_cap}.`,
    map.biased && "A bias for the distance is added to each score.",
    map.causal && "A token sees only itself and what comes before it.",
    window !== null && `A token sees only what is less than ${window} tokens away.`,
  ].filter((fact) => typeof fact === "string");
  return <p>{facts.join(" ")}</p>;
}

function Rows({ controller, numbers, waiting }: { controller: NeuronController; numbers: Numbers; waiting: boolean }) {
  const { row, k, v } = numbers;
  const { map, props } = controller;
  const page = controller.page.value;
  const most = useMemo(() => scales(numbers, page), [numbers, page]);
  /** The key in whose row the pointer or the keyboard is on a dimension. */
  const lit = useSignal<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const dark = props.dark.value;
  const { key } = props.state.value;
  const top = useMemo(() => Math.max(...row.probs) || 1, [row]);
  const point = (at: number | null) => (i: number | null) => {
    controller.dimension.value = i;
    lit.value = at;
  };
  const open = (at: number) => props.set({ query: row.query, key: at === key ? null : at });

  /** Up and down between keys, left and right between dimensions. */
  const keys = (event: KeyboardEvent, at: number) => {
    const place = page.indexOf(at);
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const turn = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !(step || turn)) return;
    event.preventDefault();
    event.stopPropagation();
    if (step) {
      const next = page[place + step];
      box.current!.querySelector<HTMLElement>(`[data-key="${next}"]`)?.focus();
      return;
    }
    const width = row.q.length;
    const i = controller.dimension.value === null ? (turn === 1 ? 0 : width - 1) : (controller.dimension.value + turn! + width) % width;
    controller.dimension.value = i;
    lit.value = at;
    const to = k.get(at);
    if (to) props.say(`dimension ${i}: q ${number(row.q[i])} times k ${number(to[i])} is ${number(row.q[i] * to[i])}; v ${number(v.get(at)![i])}`);
  };
  const focusable = key !== null && page.includes(key) ? key : page[0];
  const named = root(row.scale, row.q.length);
  const scaled = row.scale === 1 ? "" : ` × ${named ?? number(row.scale)}`;
  return (
    <div class={map.biased ? "neuron-rows neuron-biased" : "neuron-rows"} aria-busy={waiting} ref={box}>
      <div class="neuron-top">
        <div class="neuron-line neuron-head">
          <span>key</span>
          <span><b>k</b> what each key offers</span>
          <span><b>q ∘ k</b> match, dimension by dimension</span>
          <span class="neuron-r"><b>q · k</b> sum</span>
          <span class="neuron-r"><b><Term of="score" /></b>{scaled}{row.score_cap !== null && `, cap ${number(row.score_cap)}`}{map.biased && " + bias"}</span>
          <span><b><Term of="softmax" /></b> share</span>
          <span><b>v</b> what it passes on</span>
        </div>
        <div class="neuron-line neuron-q">
          <span class="neuron-name"><b>q</b> <span class="token">{visible(controller.queries[row.query].text)}</span></span>
          <div class="neuron-cell"><em>q</em><Sheet dark={dark}><Strip values={row.q} limit={most.q} over={point(null)} /></Sheet></div>
          <Readout controller={controller} numbers={numbers} at={lit.value} />
        </div>
      </div>
      <Sheet dark={dark}><ol>
        {page.map((at) => {
          const [to, value] = [k.get(at), v.get(at)];
          const hidden = whyHidden(controller.mask, controller.queries.length, controller.keys.length, row.query, at);
          const p = row.probs[at];
          const pale = Boolean(hidden);
          const text = visible(controller.keys[at].text);
          return (
            <li key={at} class={[hidden && "neuron-hidden", at === key && "neuron-open"].filter(Boolean).join(" ")}>
              <div class="neuron-line" onClick={(event) => (event.target as Element).closest("button") || open(at)}>
                <button class="neuron-name quiet" data-key={at} aria-expanded={at === key} tabIndex={at === focusable ? 0 : -1}
                  aria-label={`key ${at}, ${text}: ${hidden ? `hidden, ${hidden}` : `score ${number(row.scores[at])}, probability ${number(p)}`}`}
                  onClick={() => open(at)} onKeyDown={(event) => keys(event, at)}>
                  <small>{at}</small> <span class="token">{text}</span>
                </button>
                <div class="neuron-cell"><em>k</em>{to && <Strip values={to} limit={most.k} pale={pale} over={point(at)} />}</div>
                <div class="neuron-cell neuron-faded"><em>q ∘ k</em>{to && <Products q={row.q} k={to} limit={most.product} pale={pale} over={point(at)} />}</div>
                <span class="neuron-r"><em>q · k</em>{to ? number(sum(products(row.q, to))) : "…"}</span>
                <span class="neuron-r"><em>score</em>{hidden ? "masked" : number(row.scores[at])}</span>
                <span class="neuron-p">
                  <em>softmax</em>
                  {hidden ? <small>{hidden}</small> : <><i aria-hidden="true"><i style={{ width: `${(100 * p) / top}%` }} /></i><span title={number(p)}>{percent(p)}</span></>}
                </span>
                <div class="neuron-cell neuron-faded"><em>v</em>{value && <Strip values={value} limit={most.v} pale={pale} over={point(at)} />}</div>
              </div>
              {at === key && <Computation controller={controller} numbers={numbers} at={at} />}
            </li>
          );
        })}
      </ol></Sheet>
      <div class="neuron-line neuron-z">
        <span class="neuron-sigma"><b>z = Σ p · v</b> over all keys: what <b class="token">{visible(controller.queries[row.query].text)}</b> takes away</span>
        <div class="neuron-cell"><em>z</em><Sheet dark={dark}><Strip values={row.z} limit={most.v} over={point(null)} /></Sheet></div>
      </div>
    </div>
  );
}

/** q ∘ k is made once for a key, not at each drawing. */
function Products({ q, k, ...rest }: { q: Numbers["row"]["q"]; k: Numbers["row"]["q"] } & Omit<Parameters<typeof Strip>[0], "values">) {
  const values = useMemo(() => products(q, k), [q, k]);
  return <Strip values={values} {...rest} />;
}

/** The dimension under the pointer, in numbers. */
function Readout({ controller, numbers, at }: { controller: NeuronController; numbers: Numbers; at: number | null }) {
  const { row, k, v } = numbers;
  const i = controller.dimension.value;
  if (i === null) return <span class="neuron-readout">← what <b class="token">{visible(controller.queries[row.query].text)}</b> looks for</span>;
  const [to, value] = at === null ? [undefined, undefined] : [k.get(at), v.get(at)];
  return (
    <span class="neuron-readout neuron-numbers">
      <span>dimension <b>{i}</b></span>
      <span>q <b>{number(row.q[i])}</b>{to && <> × k <b>{number(to[i])}</b> = <b>{number(row.q[i] * to[i])}</b></>}</span>
      {value && <span>v <b>{number(value[i])}</b></span>}
      <span>z <b>{number(row.z[i])}</b></span>
    </span>
  );
}

function tableOf(controller: NeuronController, { row, k }: Numbers): (string | number)[][] {
  const bias = row.bias;
  return [
    ["query", "key", "key token", "q · k", "scale", ...(row.score_cap === null ? [] : ["soft cap"]), ...(bias ? ["bias"] : []), "score", "probability", "hidden"],
    ...controller.page.peek().map((key) => {
      const to = k.get(key);
      return [
        row.query, key, controller.keys[key].text, to ? sum(products(row.q, to)) : "", row.scale, ...(row.score_cap === null ? [] : [row.score_cap]), ...(bias ? [bias[key]] : []), row.scores[key], row.probs[key],
        whyHidden(controller.mask, controller.queries.length, controller.keys.length, row.query, key) ?? "",
      ];
    }),
  ];
}

function Table({ controller, numbers }: { controller: NeuronController; numbers: Numbers }) {
  const caption = <>Keys on screen, seen from <b class="token">{visible(controller.queries[numbers.row.query].text)}</b></>;
  return <DataTable caption={caption} rows={tableOf(controller, numbers)} heading={2} />;
}

export const view: ViewModule = {
  name: "neuron", title: "Arithmetic", squares: true,
  sentence: "How one token's attention is computed: its query times every key gives scores, and the softmax turns them into weights. Choose a word, then a cell.",
  Component: explained(NeuronView),
};
