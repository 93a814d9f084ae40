/** List of the generated texts: those returned by the decoding method, and branches chosen by hand. */

import { number, percent } from "../../core/format";
import type { TreeNode } from "../../core/types";
import { Icon } from "../../ui/icons";
import { entries } from "./entries";
import type { GenerationStore } from "./generation-store";

export function Texts({ store }: { store: GenerationStore }) {
  void store.version.value;
  const all = entries(store.tree);
  const leaf = store.path.value.at(-1)?.id;
  const several = all.filter(({ branch }) => !branch).length > 1;
  return (
    <ol class="gen-texts" aria-label="All texts">
      {all.map((entry, at) => {
        const text = store.tree.text(entry.path).trim();
        return (
          <li key={entry.node} data-on={entry.node === leaf ? "" : undefined}>
            <button class="quiet" aria-pressed={entry.node === leaf} onClick={() => store.show(entry.node)}>
              <b class="gen-rank" data-returned={entry.returned ? "" : undefined}>{at + 1}</b>
              <span>
                <small>
                  {entry.name && <b>{entry.name} · </b>}{entry.about}
                  {" · score "}{number(entry.score)}
                  {!entry.branch && several && entry.returned && " · given back"}
                  {" · "}{percent(mean(entry.path))} a token
                </small>
                <span class="gen-line">{text || "∅"}</span>
              </span>
            </button>
            {entry.branch && <button class="quiet" aria-label={`Remove the branch ${entry.name}`} title="Remove this branch" onClick={() => store.remove(entry.branch!)}><Icon name="close" /></button>}
          </li>
        );
      })}
    </ol>
  );
}

/** The geometric mean of what its tokens got. */
const mean = (path: readonly TreeNode[]): number => Math.exp(path.reduce((sum, { logprob }) => sum + logprob, 0) / Math.max(path.length, 1));
