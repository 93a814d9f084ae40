/** Worked computation of one attention weight: every step with the model's own numbers. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { scaled, type Floats } from "../../core/attention";
import { bytes, number, percent, plural, visible } from "../../core/format";
import { isRotated, maxDifference, largest, normaliser, products, root, runs, sharing, sum, tolerance, weighted, whyHidden } from "./arithmetic";
import type { Numbers, NeuronController } from "./neuron-controller";

/** Numbers of a vector, and terms of a sum, that are written out before "…". */
const FIRST = 6;
const TERMS = 4;

export function Computation({ controller, numbers, at }: { controller: NeuronController; numbers: Numbers; at: number }) {
  const { row } = numbers;
  const k = numbers.k.get(at);
  const v = numbers.v.get(at);
  const { map } = controller;
  const { dtype } = controller.props.session.model;
  if (!k || !v) return <p class="hint">The key's numbers are on their way…</p>;
  const from = visible(controller.queries[row.query].text);
  const to = visible(controller.keys[at].text);
  const hidden = whyHidden(controller.mask, controller.queries.length, controller.keys.length, row.query, at);
  const parts = products(row.q, k);
  const dot = sum(parts);
  const cap = row.score_cap;
  const score = scaled(dot, row.scale, cap) + (row.bias?.[at] ?? 0);
  const named = root(row.scale, row.q.length);
  const group = sharing(map, row.kv_head);
  const strongest = [...parts.keys()].sort((a, b) => Math.abs(parts[b]) - Math.abs(parts[a])).slice(0, 3);
  const { largest: top, total, visible: visibleCount } = normaliser(row.scores);
  const p = Math.exp(row.scores[at] - top) / total;
  const close = (value: number) => tolerance(dtype, Math.abs(value));
  return (
    <ol class="neuron-working">
      <Step title="The query and the key">
        <Vector controller={controller} name="q" of={from} values={row.q} />
        <Vector controller={controller} name="k" of={to} values={k} />
        {isRotated(map, row.layer) && <Note>q and k after their rotation by position.</Note>}
        {group && <Note>{shared(group, row.kv_head)}</Note>}
      </Step>
      <Step title="Multiply dimension by dimension, and add">
        <Terms controller={controller} q={row.q} k={k} />
        <p class="neuron-sum">
          q · k = <b>{number(dot)}</b>
        </p>
        <Note>
          The largest parts:{" "}
          {strongest.map((i, n) => (
            <span key={i}>
              {n > 0 && ", "}dimension {i} gives <Dimension controller={controller} i={i}>{number(parts[i])}</Dimension>
            </span>
          ))}
          .
        </Note>
      </Step>
      {hidden ? (
        <Step title="Hidden">
          <p>
            The mask hides this key ({hidden}): its score is −∞, so its probability is exp(−∞) = <b>0</b>, and nothing of <b class="token">{to}</b> goes into z.
          </p>
        </Step>
      ) : (
        <>
          <Step title={`Scale${cap === null ? "" : ", cap softly"}${row.bias ? ", and add the bias of this distance" : ""}`}>
            <p class="neuron-sum">
              score = {cap !== null && `${number(cap)} × tanh(`}
              {number(dot)}
              {row.scale !== 1 && ` × ${number(row.scale)}`}
              {cap !== null && ` / ${number(cap)})`}{" "}
              {row.bias && <>{row.bias[at] < 0 ? "−" : "+"} {number(Math.abs(row.bias[at]))} </>}
              = <b>{number(score)}</b>
            </p>
            {named && <Note>{number(row.scale)} = {named}: the more dimensions, the larger their sum grows by chance.</Note>}
            {row.scale === 1 && <Note>The scale is 1: this model trains its scores without one.</Note>}
            {cap !== null && <Note>cap × tanh(x / cap) hardly changes an x near 0, and never reaches ±{number(cap)}.</Note>}
            {row.bias && <Note>The bias depends only on how far the key is from the query: {number(row.bias[at])} at distance {number(at - row.query)}.</Note>}
            <Check what="the model's score" computed={score} shipped={row.scores[at]} within={close(score)} />
          </Step>
          <Step title={`Softmax over the ${plural(visibleCount, "key")} in sight`}>
            <p class="neuron-sum">
              probability = <Fraction over={<>exp({number(row.scores[at])} − {factor(top)})</>} under={<>Σ exp(score − {factor(top)})</>} /> ={" "}
              <Fraction over={number(Math.exp(row.scores[at] - top))} under={number(total)} /> = <b>{number(p)}</b>
            </p>
            <Note>{number(top)} is the largest score of this row. Taking it away changes nothing in the quotient and keeps exp from growing too large.</Note>
            <Check what="the model's probability" computed={p} shipped={row.probs[at]} within={close(p)} />
          </Step>
          <Step title="Its part of what the query takes away">
            <Vector controller={controller} name="v" of={to} values={v} />
            <Vector controller={controller} name={`${number(row.probs[at])} × v`} values={Float64Array.from(v, (x) => x * row.probs[at])} />
          </Step>
          <Outcome controller={controller} numbers={numbers} />
        </>
      )}
    </ol>
  );
}

/** z: the sum over all keys, held against the model's own. */
function Outcome({ controller, numbers }: { controller: NeuronController; numbers: Numbers }) {
  const { row, v } = numbers;
  const { z, share, complete } = weighted(row.probs, v, row.z.length);
  const missing = [...row.probs.keys()].filter((key) => row.probs[key] > 0 && !v.has(key));
  const size = controller.props.session.model.dtype === "float64" ? 8 : 4;
  const cost = missing.length * 2 * row.q.length * size + runs(missing, controller.fit, controller.gap).length * 2 * row.scores.length * size;
  return (
    <Step title="z: the values of all keys, each as much as its probability">
      <Vector controller={controller} name="z = Σ p × v" values={complete ? z : row.z} />
      {complete ? (
        <Check what="the model's z, at its most different dimension" computed={maxDifference(z, row.z)} shipped={0} within={tolerance(controller.props.session.model.dtype, largest(row.z))} difference />
      ) : (
        <p>
          These are the model's own numbers. The values of {plural(v.size, "key")} are here, which hold {percent(share)} of the probability.{" "}
          <button disabled={controller.all.value} onClick={() => (controller.all.value = true)}>
            {controller.all.value ? "Fetching…" : `Add up all ${row.probs.length} keys (${bytes(cost)})`}
          </button>
        </p>
      )}
    </Step>
  );
}

const Step = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <li>
    <h3>{title}</h3>
    {children}
  </li>
);

const Note = ({ children }: { children: ComponentChildren }) => <p class="neuron-note">{children}</p>;

const Fraction = ({ over, under }: { over: ComponentChildren; under: ComponentChildren }) => (
  <span class="neuron-fraction">
    <span>{over}</span>
    <span class="unseen"> divided by </span>
    <span>{under}</span>
  </span>
);

/** What was computed here against what the model says, with the difference as it is. */
function Check({ what, computed, shipped, within, difference }: { what: string; computed: number; shipped: number; within: number; difference?: boolean }) {
  const off = Math.abs(computed - shipped);
  const agrees = off <= within;
  return (
    <p class={agrees ? "neuron-check" : "neuron-check neuron-off"}>
      {agrees ? "✓ agrees with" : "✗ differs from"} {what}
      {!difference && <> {number(shipped)}</>}
      <small> difference {off === 0 ? "0" : number(off, 2)}</small>
    </p>
  );
}

/** A number inside a formula: in brackets where it is below zero. */
const factor = (x: number, digits?: number) => (x < 0 ? `(${number(x, digits)})` : number(x, digits));

/** A number that lights up its dimension everywhere. */
function Dimension({ controller, i, children }: { controller: NeuronController; i: number; children: ComponentChildren }) {
  return (
    <span class={controller.dimension.value === i ? "neuron-number neuron-on" : "neuron-number"} data-dimension={i} title={`dimension ${i}`}
      onPointerEnter={() => (controller.dimension.value = i)} onPointerLeave={() => (controller.dimension.value = null)}>
      {children}
    </span>
  );
}

/** name = [ 0.12, −0.53, … ]: the first numbers, or all of them. */
function Vector({ controller, name, of, values }: { controller: NeuronController; name: string; of?: string; values: Floats }) {
  const open = useSignal(false);
  const shown = open.value ? values.length : Math.min(FIRST, values.length);
  return (
    <p class="neuron-vector">
      <b>{name}</b>
      {of !== undefined && <small class="token"> {of}</small>} = [{" "}
      {Array.from(values.subarray(0, shown), (x, i) => (
        <span key={i}><Dimension controller={controller} i={i}>{number(x, 3)}</Dimension>{i < values.length - 1 && ", "}</span>
      ))}
      {values.length > FIRST && <More open={open} all={values.length} what="numbers" />} ]
    </p>
  );
}

/** The sum, term by term. */
function Terms({ controller, q, k }: { controller: NeuronController; q: Floats; k: Floats }) {
  const open = useSignal(false);
  const shown = open.value ? q.length : Math.min(TERMS, q.length);
  return (
    <p class="neuron-vector">
      <b>q · k</b> ={" "}
      {Array.from({ length: shown }, (_, i) => (
        <span key={i}>
          <Dimension controller={controller} i={i}>{factor(q[i], 3)} × {factor(k[i], 3)}</Dimension>
          {i < q.length - 1 && " + "}
        </span>
      ))}
      {q.length > TERMS && <More open={open} all={q.length} what="terms" />}
    </p>
  );
}

function More({ open, all, what }: { open: { value: boolean }; all: number; what: string }) {
  return (
    <button class="quiet neuron-more" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
      {open.value ? "fewer" : `… all ${all} ${what}`}
    </button>
  );
}

/** "heads 4–7 share key/value head 1" */
export const shared = ([first, last]: [number, number], kvHead: number) => `Heads ${first}–${last} share key/value head ${kvHead}.`;
