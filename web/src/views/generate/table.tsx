/** Data table of the text on screen: each step with its token, probability and rank. */

import { number, percent, visible } from "../../core/format";
import type { GenerationStore } from "./generation-store";

const LN2 = Math.log(2);

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
        node.depth, node.text || node.piece, node.token, Math.exp(node.logprob), node.logprob, node.rank, choice ? choice.entropy / LN2 : "",
        other?.text ?? "", other ? Math.exp(other.logprob) : "", node.chosen === "hand" ? "by hand" : "by the method", ...(shares && own ? [at + 1 < store.step.peek() ? (shares[prefixLength + at] ?? 0) : ""] : []),
      ];
    }),
  ];
}

export function Table({ store }: { store: GenerationStore }) {
  void store.version.value;
  void store.step.value;
  const [columns, ...rows] = tableOf(store);
  return (
    <div class="gen-table" tabIndex={0} role="region" aria-label="data table">
      <table>
        <caption>Every step of the text on screen</caption>
        <thead><tr>{columns.map((name) => <th scope="col" key={name}>{name}</th>)}</tr></thead>
        <tbody>
          {rows.map((cells) => (
            <tr key={cells[0]} data-on={cells[0] === store.step.value ? "" : undefined}>
              {cells.map((cell, at) => (at === 1 ? <th scope="row" class="token">{visible(String(cell))}</th> : <td>{shown(columns[at] as string, cell)}</td>))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function shown(column: string, cell: string | number): string {
  if (typeof cell === "string") return column === "likeliest instead" ? visible(cell) : cell;
  if (column.endsWith("probability") && !column.startsWith("log")) return percent(cell);
  return column === "attention" ? percent(cell) : Number.isInteger(cell) ? String(cell) : number(cell);
}
