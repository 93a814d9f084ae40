/** How it is written: the method, how far, and the button. */

import { useState } from "preact/hooks";
import { FIELDS, type Method, METHODS, methodOf, valueOf, within, withMethod, withValue } from "../../core/recipe";
import { Icon } from "../../ui/icons";
import { shapeOf, type Scribe } from "./scribe";

const WORDS: Record<Method, [name: string, title: string]> = {
  greedy: ["Greedy", "At each step the likeliest token"],
  sample: ["Sample", "At each step a token is drawn by its chance"],
  beams: ["Beams", "Several texts are carried on side by side, and the likeliest whole text wins"],
};

export function Controls({ scribe }: { scribe: Scribe }) {
  const wanted = scribe.wanted.value;
  const method = methodOf(wanted);
  const choose = (next: Method) => {
    scribe.wanted.value = withMethod(wanted, next);
    if (next === "sample" && scribe.shape.peek().temperature === 0) scribe.shape.value = shapeOf({});
  };
  const write = (event: Event) => {
    event.preventDefault();
    void scribe.again();
  };
  const offline = scribe.props.transport.host === "page";
  return (
    <form class="gen-controls" aria-label="How it is written" onSubmit={write}>
      <fieldset class="segments" disabled={offline}>
        <legend class="unseen">Method</legend>
        {METHODS.map((name) => (
          <label key={name} title={WORDS[name][1]}>
            <input type="radio" name="method" checked={method === name} onChange={() => choose(name)} />
            <span>{WORDS[name][0]}</span>
          </label>
        ))}
      </fieldset>
      {method === "beams" && <Whole scribe={scribe} label="beams" field="beams" />}
      {method === "sample" && <Seed scribe={scribe} />}
      <Whole scribe={scribe} label="new tokens" field="tokens" />
      <span class="gen-go">
        {scribe.busy.value
          ? <button type="button" class="primary" onClick={() => scribe.stop()}><Icon name="stop" />Stop</button>
          : <button class="primary" disabled={offline} title="Write from the prompt on"><Icon name="run" />{scribe.writing.value ? "Write again" : "Write"}</button>}
      </span>
      <p class="gen-said hint">{WORDS[method][1]}{method === "sample" ? <Settings scribe={scribe} /> : "."}</p>
    </form>
  );
}

/** A whole number; what cannot be is put right when the field is left. */
function Whole({ scribe, label, field }: { scribe: Scribe; label: string; field: "beams" | "tokens" }) {
  const about = FIELDS[field];
  const take = (text: string) => {
    const value = Number(text);
    if (text.trim() !== "" && Number.isFinite(value)) scribe.wanted.value = withValue(scribe.wanted.peek(), about, within(about, value));
  };
  return (
    <label class="gen-field">
      {label}
      <input
        type="number" min={about.least} max={about.most} value={valueOf(about, scribe.wanted.value)} disabled={scribe.props.transport.host === "page"}
        onChange={(event) => {
          take(event.currentTarget.value);
          event.currentTarget.value = String(valueOf(about, scribe.wanted.peek()));
        }}
      />
    </label>
  );
}

/** A number that makes the draws the same again; none = others each time. */
function Seed({ scribe }: { scribe: Scribe }) {
  const { seed } = scribe.wanted.value;
  const drawn = scribe.writing.value?.options.seed;
  const [text, setText] = useState(seed === undefined ? "" : String(seed));
  const typed = (value: string) => {
    setText(value);
    const { seed: _, ...rest } = scribe.wanted.peek();
    const number = Number(value);
    scribe.wanted.value = value.trim() === "" || !Number.isFinite(number) ? rest : { ...rest, seed: within(FIELDS.seed, number) };
  };
  return (
    <label class="gen-field" title="The same seed draws the same tokens; empty: others each time">
      seed
      <input
        type="number" min={FIELDS.seed.least} max={FIELDS.seed.most} placeholder={drawn === undefined ? "any" : String(drawn)} value={text}
        disabled={scribe.props.transport.host === "page"} onInput={(event) => typed(event.currentTarget.value)}
      />
    </label>
  );
}

/** What the sliders are set to. */
function Settings({ scribe }: { scribe: Scribe }) {
  const { temperature, topK, topP } = scribe.shape.value;
  return <>: temperature {temperature}, {topK ? `top-k ${topK}` : "all tokens"}{topP < 1 ? `, top-p ${topP}` : ""}.</>;
}
