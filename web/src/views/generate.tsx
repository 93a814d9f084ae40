/** Generation view: the generated text, the token distribution at each step, the token tree, and the attention of each step. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { placeOf } from "../core/findings";
import { number, plural } from "../core/format";
import type { ViewProps } from "../core/types";
import { ChoiceCard } from "./generate/distribution-panel";
import { Controls } from "./generate/controls";
import { exportsOf } from "./generate/exports";
import { TextView } from "./generate/text-view";
import { TreeFigure } from "./generate/tree-figure";
import type { GenerationStore } from "./generate/generation-store";
import { ShadesBar } from "./generate/shading-controls";
import { Table } from "./generate/table";
import { Texts } from "./generate/text-list";
import "./generate.css";
import type { ViewModule } from "../ui/view-module";
import { Told } from "../ui/command";
import { explained, Term } from "../ui/term";

export function GenerateView({ generation, exports, say, session, set }: ViewProps & { generation: GenerationStore }) {
  const host = useRef<HTMLDivElement>(null);
  const tabled = useSignal(false);
  useEffect(() => generation.startOnce(), [generation]);
  useSignalEffect(() => generation.loadDistribution());
  useSignalEffect(() => generation.attention.load());
  useEffect(() => {
    exports(exportsOf(generation, () => host.current!));
    return () => exports(null);
  }, [generation]);
  useSignalEffect(() => {
    const sentence = generation.problem.value ?? generation.unavailable.value;
    if (sentence) say(sentence);
  });
  const path = generation.path.value;
  const [telling] = session.opening.findings;
  return (
    <div class="gen" ref={host} data-busy={generation.busy.value ? "" : undefined}>
      <Controls store={generation} />
      <Trouble generation={generation} />
      {telling && <p class="gen-head">{explained(telling.sentence)} <button class="quiet" onClick={() => set({ view: "head", ...placeOf(telling) })}>See this head</button></p>}
      <div class="gen-body">
        <div class="gen-main">
          <section class="gen-card" aria-label="The text">
            <ShadesBar store={generation} />
            <TextView store={generation} />
            <footer class="gen-foot">
              <Facts generation={generation} />
              {generation.open && <button class="quiet" onClick={() => void generation.extend()}>Write on</button>}
              {path.length > 0 && <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>}
            </footer>
          </section>
          {tabled.value && <Table store={generation} />}
          <section class="gen-card" aria-label="The tree">
            <header>
              <h3>The tree</h3>
              <p>Each line is a text; the thick one is on screen. Dashed: given up. Numbers: the texts below.</p>
            </header>
            <TreeFigure store={generation} />
            <Texts store={generation} />
          </section>
        </div>
        <ChoiceCard store={generation} />
      </div>
    </div>
  );
}

/** What went wrong, or cannot be done here; what was written stays on screen. */
function Trouble({ generation }: { generation: GenerationStore }) {
  const { problem, unavailable: absent } = generation;
  if (problem.value) return <p class="gen-trouble" role="alert"><Told text={problem.value} /></p>;
  if (!absent.value) return null;
  const at = absent.value.lastIndexOf("glassformer look");
  return <p class="gen-trouble" data-absent role="status">{at < 0 ? absent.value : <>{absent.value.slice(0, at)}<code>{absent.value.slice(at)}</code></>}</p>;
}

/** How far it has come, or how it ended. */
function Facts({ generation }: { generation: GenerationStore }) {
  const path = generation.path.value;
  const seconds = generation.seconds.value;
  const sum = path.reduce((all, { logprob }) => all + logprob, 0);
  const rate = seconds && path.length ? `, ${number(path.length / seconds, 2)} a second` : "";
  if (path.length === 0) return <p class="hint" role="status">{generation.busy.value ? "Reading the prompt…" : ""}</p>;
  return (
    <p class="hint">
      {generation.busy.value ? "Writing… " : ""}{plural(path.length, "token")}{rate} · <Term of="log-probability" /> {number(sum)} · <Term of="perplexity" /> {number(Math.exp(-sum / path.length), 3)}
    </p>
  );
}

export const view: ViewModule = {
  name: "generate", title: "Generation", alone: true,
  sentence: "Token by token as the model generates; a stronger shade is a lower probability. Tap or point at one for the alternatives; choose one to branch off.",
  Component: ({ generation, ...props }) => generation && <GenerateView key={generation.session.id} {...props} generation={generation} />,
};
