/** Heads switched off: what the model then predicts, compared with what it predicted before. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { number, plural } from "../../core/format";
import { headComponent, initialPatch, optionsOf, type Off, type PatchEffect } from "../../core/patching";
import { saidInPlace } from "../../core/types";
import { mapOf } from "../../core/url-state";
import { ClassChanges } from "../../ui/class-changes";
import { Icon } from "../../ui/icons";
import type { HeadController } from "./head-controller";
import * as views from "../../core/views";

const same = (a: Off[number], b: Off[number]) => a.join() === b.join();

export function Ablation({ controller }: { controller: HeadController }) {
  const { session, state, set, transport } = controller.props;
  const { off, layers, heads, map, query } = state.value;
  const effect = useSignal<PatchEffect | null>(null);
  const problem = useSignal<string | null>(null);
  const position = session.model.predicts === "token" && mapOf(session, map).queries === stream(Object.keys(session.streams)) ? query : null;
  useEffect(() => {
    const abort = new AbortController();
    [effect.value, problem.value] = [null, null];
    const components = off.map(([name, layer, head]) => headComponent(mapOf(session, name), layer, head));
    if (components.length)
      views.patch(transport, session, { components, ...optionsOf(initialPatch(), position) }, abort.signal).then(
        (result) => !abort.signal.aborted && (effect.value = result),
        (error: unknown) => {
          if (abort.signal.aborted) return;
          problem.value = saidInPlace(error, controller.props.refuse);
        },
      );
    return () => abort.abort();
  }, [session, JSON.stringify(off), position]);
  if (session.model.predicts === null) return null;

  const shown: Off = heads.map((head) => [map, layers[0], head]);
  const add = (more: Off) => set({ off: [...off, ...more.filter((each) => !off.some((one) => same(one, each)))] });
  const name = ([, layer, head]: Off[number]) => `layer ${layer} · head ${head}`;
  const rest = shown.filter((each) => !off.some((one) => same(one, each)));
  return (
    <section class="head-ablation">
      <h3>What if it were off?</h3>
      <p class="head-off">
        {rest.slice(0, 1).map((each) => <button key={name(each)} onClick={() => add([each])}><Icon name="close" />Switch off {name(each)}</button>)}
        {rest.length > 1 && <button onClick={() => add(rest)}>all {rest.length} on screen</button>}
        {off.map((each) => (
          <button key={each.join()} aria-pressed="true" title="Restore" aria-label={`Restore ${session.maps.length > 1 ? `${each[0]} ` : ""}${name(each)}`} onClick={() => set({ off: off.filter((one) => !same(one, each)) })}>
            {session.maps.length > 1 && `${each[0]} `}{name(each)} is off
          </button>
        ))}
        {off.length > 1 && <button class="quiet" onClick={() => set({ off: [] })}>restore all</button>}
      </p>
      {problem.value && <p role="alert">{problem.value}</p>}
      {effect.value && (
        <>
          <ClassChanges classes={effect.value.classes} label={`Prediction before, and with ${plural(off.length, "head")} off`} />
          <p><small>{effect.value.metric}{effect.value.at === null ? "" : ` at position ${effect.value.at}`}: {number(effect.value.before ?? NaN)} → {number(effect.value.after ?? NaN)}</small></p>
        </>
      )}
    </section>
  );
}

const stream = (names: string[]): string => (names.includes("target") ? "target" : names[0]);
