/** Generation controls: decoding method, length, options, and the button that starts it. */

import { useState } from "preact/hooks";
import { FIELDS, type Method, METHODS, methodOf, moreOptions, type Option, type OptionValue, valueOf, within, withMethod, withValue } from "../../core/generation-options";
import { Icon } from "../../ui/icons";
import { Segments } from "../../ui/segments";
import { samplingOf, type GenerationStore } from "./generation-store";

const WORDS: Record<Method, [name: string, title: string]> = {
  greedy: ["Greedy", "At each step the likeliest token"],
  sample: ["Sample", "At each step a token is drawn by its chance"],
  beams: ["Beams", "Several texts are carried on side by side, and the likeliest whole text wins"],
};

export function Controls({ store }: { store: GenerationStore }) {
  const options = store.options.value;
  const method = methodOf(options);
  const choose = (next: Method) => {
    store.options.value = withMethod(options, next);
    if (next === "sample" && store.sampling.peek().temperature === 0) store.sampling.value = samplingOf({});
  };
  const write = (event: Event) => {
    event.preventDefault();
    void store.restart();
  };
  const offline = store.props.transport.host === "page";
  return (
    <form class="gen-controls" aria-label="How it is written" onSubmit={write}>
      <Segments legend="Method" name="method" values={METHODS} value={method} set={choose} text={(name) => WORDS[name][0]} titled={(name) => WORDS[name][1]} disabled={offline} />
      {method === "beams" && <Whole store={store} label="beams" field="beams" />}
      {method === "sample" && <Seed store={store} />}
      <Whole store={store} label="new tokens" field="tokens" />
      <span class="gen-go">
        {store.busy.value
          ? <button type="button" class="primary" onClick={() => store.stop()}><Icon name="stop" />Stop</button>
          : <button class="primary" disabled={offline} title="Write from the prompt on"><Icon name="run" />{store.trace.value ? "Write again" : "Write"}</button>}
      </span>
      <p class="gen-said hint">{WORDS[method][1]}{method === "sample" ? <Settings store={store} /> : "."}</p>
      <More store={store} method={method} />
    </form>
  );
}

/** All other options of the library that the method has, by their headings. */
function More({ store, method }: { store: GenerationStore; method: Method }) {
  const groups = [...moreOptions(method)];
  const options = store.options.value;
  const set = groups.flatMap(([, own]) => own).filter(({ name }) => name in options).length;
  return (
    <details class="gen-more">
      <summary>More options{set ? `, ${set} set` : ""}</summary>
      {groups.map(([group, own]) => (
        <fieldset key={group} disabled={store.props.transport.host === "page"}>
          <legend>{group}</legend>
          {own.map((option) => <One key={option.name} store={store} option={option} />)}
        </fieldset>
      ))}
    </details>
  );
}

/** The control that an option's type asks for; empty = not given. */
function One({ store, option }: { store: GenerationStore; option: Option }) {
  const { name, kind, integer, min, max, description, choices, fallback } = option;
  const value = store.options.value[name];
  const text = Array.isArray(value) ? value.join("\n") : String(value ?? "");
  const set = (next: OptionValue | null) => (store.options.value = withValue(store.options.peek(), option, next));
  const take = (event: Event) => {
    const field = event.currentTarget as HTMLInputElement;
    if (kind === "choice") set(choices.find((each) => String(each) === field.value) ?? null);
    else if (kind === "texts") set(linesOf(field.value));
    else if (kind === "text") set(field.value || null);
    else {
      set(within(option, field.value));
      field.value = String(store.options.peek()[name] ?? "");
    }
  };
  const control =
    kind === "boolean" ? <input type="checkbox" checked={(value ?? fallback) === true} onChange={(event) => set(event.currentTarget.checked)} />
    : kind === "choice" ? <select value={text} onChange={take}><option value="">not set</option>{choices.map((each) => <option key={String(each)}>{String(each)}</option>)}</select>
    : kind === "texts" ? <textarea rows={1} placeholder="one a line" value={text} onChange={take} />
    : <input type={kind as "number"} step={integer ? 1 : "any"} min={boundOf(min)} max={boundOf(max)} placeholder={String(fallback ?? "")} value={text} onChange={take} />;
  return <label title={`${name}: ${description}`}><span>{name.replaceAll("_", " ")}</span>{control}</label>;
}

const boundOf = (bound: number): number | undefined => (Number.isFinite(bound) ? bound : undefined);

function linesOf(text: string): string[] | null {
  const lines = text.split("\n").filter(Boolean);
  return lines.length ? lines : null;
}

/** A whole number; what cannot be is put right when the field is left. */
function Whole({ store, label, field }: { store: GenerationStore; label: string; field: "beams" | "tokens" }) {
  const about = FIELDS[field];
  const take = (text: string) => {
    const value = within(about, text);
    if (value !== null) store.options.value = withValue(store.options.peek(), about, value);
  };
  return (
    <label class="gen-field">
      {label}
      <input
        type="number" min={about.min} max={about.max} value={valueOf(about, store.options.value)} disabled={store.props.transport.host === "page"}
        onChange={(event) => {
          take(event.currentTarget.value);
          event.currentTarget.value = String(valueOf(about, store.options.peek()));
        }}
      />
    </label>
  );
}

/** A number that makes the draws the same again; none = others each time. */
function Seed({ store }: { store: GenerationStore }) {
  const { seed } = store.options.value;
  const sampled = store.trace.value?.options.seed;
  const [text, setText] = useState(seed === undefined ? "" : String(seed));
  const typed = (value: string) => {
    setText(value);
    store.options.value = withValue(store.options.peek(), FIELDS.seed, within(FIELDS.seed, value));
  };
  return (
    <label class="gen-field" title={FIELDS.seed.description}>
      seed
      <input
        type="number" min={FIELDS.seed.min} max={FIELDS.seed.max} placeholder={sampled === undefined ? "any" : String(sampled)} value={text}
        disabled={store.props.transport.host === "page"} onInput={(event) => typed(event.currentTarget.value)}
      />
    </label>
  );
}

/** What the sliders are set to. */
function Settings({ store }: { store: GenerationStore }) {
  const { temperature, topK, topP } = store.sampling.value;
  return <>: temperature {temperature}, {topK ? `top-k ${topK}` : "all tokens"}{topP < 1 ? `, top-p ${topP}` : ""}.</>;
}
