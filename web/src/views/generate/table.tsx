/** The text on screen as a table: each step with what was chosen and how likely it was. */

import { number, percent, visible } from "../../core/format";
import type { Scribe } from "./scribe";

const LN2 = Math.log(2);

export function tableOf(scribe: Scribe): (string | number)[][] {
  const shares = scribe.gaze.on ? scribe.gaze.shares.peek() : null;
  const own = scribe.gaze.map.peek()?.queries === scribe.gaze.map.peek()?.keys;
  const begun = scribe.writing.peek()?.begun ?? 0;
  return [
    ["step", "token", "id", "probability", "log-probability", "rank", "entropy (bits)", "likeliest instead", "its probability", "chosen", ...(shares && own ? ["attention"] : [])],
    ...scribe.path.peek().map((node, at) => {
      const choice = scribe.tree.choices.get(node.parent);
      const other = choice?.top.find(({ token }) => token !== node.token);
      return [
        node.depth, node.text || node.piece, node.token, Math.exp(node.logprob), node.logprob, node.rank, choice ? choice.entropy / LN2 : "",
        other?.text ?? "", other ? Math.exp(other.logprob) : "", node.chosen === "hand" ? "by hand" : "by the method", ...(shares && own ? [at + 1 < scribe.step.peek() ? (shares[begun + at] ?? 0) : ""] : []),
      ];
    }),
  ];
}

export function Table({ scribe }: { scribe: Scribe }) {
  void scribe.news.value;
  void scribe.step.value;
  const [columns, ...rows] = tableOf(scribe);
  return (
    <div class="gen-table" tabIndex={0} role="region" aria-label="data table">
      <table>
        <caption>Every step of the text on screen</caption>
        <thead><tr>{columns.map((name) => <th scope="col" key={name}>{name}</th>)}</tr></thead>
        <tbody>
          {rows.map((cells) => (
            <tr key={cells[0]} data-on={cells[0] === scribe.step.value ? "" : undefined}>
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
