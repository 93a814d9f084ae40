/** The generation view: the text as it is written, the choice at each step, what else could have been, and where the model looked. */

import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { number, plural } from "../core/format";
import type { ViewProps } from "../core/types";
import { ChoiceCard } from "./generate/choice";
import { Controls } from "./generate/controls";
import { exportsOf } from "./generate/exports";
import { Paper } from "./generate/paper";
import { TreePicture } from "./generate/picture";
import type { Scribe } from "./generate/scribe";
import { ShadesBar } from "./generate/shades";
import { Table } from "./generate/table";
import { Texts } from "./generate/texts";
import "./generate.css";

export function GenerateView({ scribe, exports, say }: ViewProps & { scribe: Scribe }) {
  const host = useRef<HTMLDivElement>(null);
  const tabled = useSignal(false);
  useEffect(() => scribe.begin(), [scribe]);
  useSignalEffect(() => scribe.want());
  useSignalEffect(() => scribe.gaze.want());
  useEffect(() => {
    exports(exportsOf(scribe, () => host.current!));
    return () => exports(null);
  }, [scribe]);
  useSignalEffect(() => {
    const sentence = scribe.problem.value ?? scribe.absent.value;
    if (sentence) say(sentence);
  });
  const path = scribe.path.value;
  return (
    <div class="gen" ref={host} data-busy={scribe.busy.value ? "" : undefined}>
      <Controls scribe={scribe} />
      <Trouble scribe={scribe} />
      <div class="gen-body">
        <div class="gen-main">
          <section class="gen-card" aria-label="The text">
            <ShadesBar scribe={scribe} />
            <Paper scribe={scribe} />
            <footer class="gen-foot">
              <Told scribe={scribe} />
              {scribe.open && <button class="quiet" onClick={() => void scribe.more()}>Write on</button>}
              {path.length > 0 && <button class="quiet" aria-pressed={tabled.value} onClick={() => (tabled.value = !tabled.value)}>Data table</button>}
            </footer>
          </section>
          {tabled.value && <Table scribe={scribe} />}
          <section class="gen-card" aria-label="The tree">
            <header>
              <h3>The tree</h3>
              <p>Each line is a text; the thick one is on screen. Dashed: given up. Numbers: the texts below.</p>
            </header>
            <TreePicture scribe={scribe} />
            <Texts scribe={scribe} />
          </section>
        </div>
        <ChoiceCard scribe={scribe} />
      </div>
    </div>
  );
}

/** What went wrong, or cannot be done here; what was written stays on screen. */
function Trouble({ scribe }: { scribe: Scribe }) {
  const { problem, absent } = scribe;
  if (problem.value) return <p class="gen-trouble" role="alert">{problem.value}</p>;
  if (!absent.value) return null;
  const at = absent.value.lastIndexOf("glassformer look");
  return <p class="gen-trouble" data-absent role="status">{at < 0 ? absent.value : <>{absent.value.slice(0, at)}<code>{absent.value.slice(at)}</code></>}</p>;
}

/** How far it has come, or how it ended. */
function Told({ scribe }: { scribe: Scribe }) {
  const path = scribe.path.value;
  const seconds = scribe.seconds.value;
  const sum = path.reduce((all, { logprob }) => all + logprob, 0);
  const rate = seconds && path.length ? `, ${number(path.length / seconds, 2)} a second` : "";
  if (path.length === 0) return <p class="hint" role="status">{scribe.busy.value ? "Reading the prompt…" : ""}</p>;
  return (
    <p class="hint">
      {scribe.busy.value ? "Writing… " : ""}{plural(path.length, "token")}{rate} · log-probability {number(sum)} · perplexity {number(Math.exp(-sum / path.length), 3)}
    </p>
  );
}
