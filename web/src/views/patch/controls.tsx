/** What is patched, what is put in its place, and what is measured. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Direction, Kind, Mode } from "../../core/patching";
import type { PatchController } from "./patch-controller";

const KINDS: readonly [Kind, string][] = [["heads", "heads"], ["residual", "residual stream"], ["attention", "attention"], ["feed-forward", "feed-forward"]];
const MODES: readonly [Mode, string, string][] = [
  ["zero", "switch off", "Zero ablation: each is replaced by 0"],
  ["mean", "mean", "Mean ablation: each is replaced by its mean over the positions of the text"],
  ["swap", "other text", "Activation patching: each is taken from the pass of another text"],
];
const DIRECTIONS: readonly [Direction, string][] = [["denoising", "corrupt: the other one is clean"], ["noising", "clean: the other one is corrupt"]];

/** The words on the button that computes, where a sentence names it too. */
export const BUTTON = "Patch";

export function Controls({ controller, choice }: { controller: PatchController; choice: ComponentChildren }) {
  const state = controller.state.value;
  const written = { other: state.other, target: state.target, against: state.against };
  const [draft, setDraft] = useState(written);
  useEffect(() => setDraft(written), [state.other, state.target, state.against]);
  const field = (name: keyof typeof draft) => ({ value: draft[name], spellcheck: false, onInput: (event: { currentTarget: { value: string } }) => setDraft({ ...draft, [name]: event.currentTarget.value }) });
  const page = controller.props.transport.host === "page";
  const changed = draft.other !== state.other || draft.target !== state.target || draft.against !== state.against;
  const run = (event: Event) => {
    event.preventDefault();
    if (changed) controller.set(draft);
    if (!changed || !controller.light) void controller.run();
  };
  return (
    <form class="patch-controls" aria-label="What is patched" onSubmit={run}>
      <div class="patch-row one-row">
        <Choice legend="Patch" name="kind" options={KINDS.map(([value, words]) => [value, words, ""])} value={state.kind} choose={(kind) => controller.set({ kind })} disabled={page} />
        <Choice legend="Put in its place" name="mode" options={MODES} value={state.mode} choose={(mode) => controller.set({ mode })} disabled={page} />
        {choice}
      </div>
      <div class="patch-row one-row">
        {state.mode === "swap" && (
          <>
            <label class="patch-wide"><span>other text</span><input type="text" {...field("other")} readOnly={page} placeholder="A text of as many tokens" /></label>
            <label>
              <span>this text is</span>
              <select value={state.direction} disabled={page} onChange={(event) => controller.set({ direction: event.currentTarget.value as Direction })}>
                {DIRECTIONS.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
              </select>
            </label>
            <label>
              <span>align</span>
              <select value={state.align} disabled={page} onChange={(event) => controller.set({ align: event.currentTarget.value as typeof state.align })}>
                <option value="strict">as many tokens</option><option value="start">from the start</option><option value="end">from the end</option>
              </select>
            </label>
          </>
        )}
        <label><span>target</span><input type="text" {...field("target")} readOnly={page} placeholder="top prediction" /></label>
        <label><span>against</span><input type="text" {...field("against")} readOnly={page} placeholder="nothing" /></label>
        {!page && <button class="primary" disabled={controller.progress.value !== null}>{BUTTON}</button>}
      </div>
      {controller.position !== null && <p class="hint">The prediction is read at the pinned token {controller.position}.</p>}
    </form>
  );
}

function Choice<T extends string>({ legend, name, options, value, choose, disabled }: {
  legend: string; name: string; options: readonly (readonly [T, string, string])[]; value: T; choose(value: T): void; disabled: boolean;
}) {
  return (
    <fieldset class="segments" disabled={disabled}>
      <legend class="unseen">{legend}</legend>
      {options.map(([each, words, title]) => (
        <label key={each} title={title || undefined}>
          <input type="radio" name={`patch-${name}`} checked={value === each} onChange={() => choose(each)} />
          <span>{words}</span>
        </label>
      ))}
    </fieldset>
  );
}
