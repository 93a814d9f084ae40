/** Data table of the text on screen: each step with its token, probability and rank. */

import { percent } from "../../core/format";
import { type Cell, DataTable, written } from "../../ui/data-table";
import type { GenerationStore } from "./generation-store";


export function tableOf(store: GenerationStore): (string | number)[][] {
  const shares = store.attention.enabled ? store.attention.probs.peek() : null;
  const own = store.attention.map.peek()?.queries === store.attention.map.peek()?.keys;
  const prefixLength = store.trace.peek()?.prefix_length ?? 0;
  return [
    ["step", "token", "id", "probability", "log-probability", "rank", "entropy (bits)", "likeliest instead", "its probability", "chosen", ...(shares && own ? ["attention"] : [])],
    ...store.path.peek().map((node, at) => {
      const choice = store.tree.choices.get(node.parent);
      const other = choice?.top.find(({ token }) => token !== node.token);
      return [
        node.depth, node.text || node.piece, node.token, Math.exp(node.logprob), node.logprob, node.rank, choice?.entropy ?? "",
        other?.text ?? "", other ? Math.exp(other.logprob) : "", node.chosen === "hand" ? "by hand" : "by the method", ...(shares && own ? [at + 1 < store.step.peek() ? (shares[prefixLength + at] ?? 0) : ""] : []),
      ];
    }),
  ];
}

export function Table({ store }: { store: GenerationStore }) {
  void store.version.value;
  return <DataTable caption="Every step of the text on screen" rows={tableOf(store)} heading={1} show={shown} current={([step]) => step === store.step.value} />;
}

const shown = (cell: Cell, column: string): string =>
  typeof cell === "number" && (/^(its )?probability$/.test(column) || column === "attention") ? percent(cell) : written(cell);
