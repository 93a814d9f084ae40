/** Matches of a corpus search: contexts shaded by attention, what they share, their table, and their export. */

import { Fragment } from "preact";
import { type Contexts, type ContextsQuery, type Match } from "../../core/contexts";
import { number, percent, visible } from "../../core/format";
import { shade } from "../../core/palette";
import type { Exports } from "../../core/types";
import { type Figure, toPng, toSvg } from "../../core/figure";
import { DataTable } from "../../ui/data-table";

/** Tokens on each side of a match, and the hue of attention. */
const [AROUND, HUE] = [20, 55];
const [LISTED, LINE, WIDTH, LETTERS] = [8, 24, 1100, 120];
const KINDS = [["token", "Matched tokens"], ["next", "Next tokens"], ["attended", "Looked at"]] as const;

/** Special tokens are left out where they are not shown, and what the others get is what the shades tell. */
export function Matches({ matches, special, dark }: { matches: Match[]; special: boolean; dark: boolean }) {
  return (
    <ol class="ctx-matches">
      {matches.map((match, at) => (
        <li key={at}>
          <span class="ctx-score" title={`row ${match.row}`}>{number(match.score, 3)}</span>
          <p><Context match={match} special={special} dark={dark} /></p>
          <span class="ctx-row">row {match.row}</span>
        </li>
      ))}
    </ol>
  );
}

function Context({ match, special, dark }: { match: Match; special: boolean; dark: boolean }) {
  const [first, end] = around(match);
  const hidden = new Set(special ? [] : match.special);
  const most = Math.max(...(match.attention ?? []).filter((_, at) => !hidden.has(at)), 1e-9);
  return (
    <>
      {first > 0 && "… "}
      {match.texts.slice(first, end).map((text, index) => {
        const at = first + index;
        if (hidden.has(at)) return null;
        const weight = match.attention?.[at] ?? 0;
        const body = at === match.position
          ? <mark style={{ background: shade(weight / most, HUE, dark) }}>{visible(text)}</mark>
          : <span class={match.special.includes(at) ? "special" : undefined} style={{ background: weight / most > 0.01 ? shade(weight / most, HUE, dark) : undefined }} title={match.attention ? `${percent(weight)} of the attention` : undefined}>{visible(text)}</span>;
        return <Fragment key={at}>{index > 0 && !match.continues.includes(at) && " "}{body}</Fragment>;
      })}
      {end < match.texts.length && " …"}
    </>
  );
}

const around = ({ position, texts }: Match): [number, number] => [Math.max(0, position - AROUND), Math.min(texts.length, position + AROUND + 1)];

export function Counts({ counts, of }: { counts: Contexts["counts"]; of: number }) {
  return (
    <aside class="ctx-card ctx-counts" aria-label="What the contexts share">
      {KINDS.map(([kind, name]) => counts[kind] && (
        <section key={kind}>
          <h3>{name}</h3>
          <ul>
            {counts[kind].slice(0, LISTED).map(([text, times]) => (
              <li key={text} style={{ "--share": times / Math.max(of, 1) }}><span class="token">{visible(text)}</span><span>{times}</span></li>
            ))}
          </ul>
          {counts[kind].length > LISTED && <p class="hint">and {counts[kind].length - LISTED} more</p>}
        </section>
      ))}
    </aside>
  );
}

/** The token, special ones aside, that a match attends to most. */
function attended({ attention, texts, special }: Match): [string, number] | null {
  let best = -1;
  attention?.forEach((weight, at) => {
    if (!special.includes(at) && (best < 0 || weight > attention[best])) best = at;
  });
  return best < 0 ? null : [texts[best], attention![best]];
}

function rowsOf(matches: Match[]): (string | number)[][] {
  return [
    ["rank", "score", "row", "token", "next", "attends to", "attention", "context"],
    ...matches.map((match, at) => {
      const [first, end] = around(match);
      const [text, weight] = attended(match) ?? ["", ""];
      return [at + 1, match.score, match.row, match.texts[match.position], match.texts[match.position + 1] ?? "", text, weight, plain(match, first, end)];
    }),
  ];
}

const plain = (match: Match, first: number, end: number): string =>
  match.texts.slice(first, end).reduce((text, token, index) => {
    const at = first + index;
    return text + (index > 0 && !match.continues.includes(at) ? " " : "") + (at === match.position ? `[${token}]` : token);
  }, "");

export function Table({ matches }: { matches: Match[] }) {
  return <DataTable caption="Every context, the nearest first" rows={rowsOf(matches)} heading={0} />;
}

export function exportsOf({ matches }: Contexts, query: ContextsQuery, title: string): Exports {
  const style = (name: string) => getComputedStyle(document.querySelector(".ctx")!).getPropertyValue(name).trim();
  const figure = (): Figure => {
    const [ink, soft] = [style("--ink"), style("--ink-2")];
    const shapes: Figure["shapes"] = [{ kind: "text", x: 16, y: LINE, text: title, colour: ink, strong: true }];
    matches.forEach((match, at) => {
      const y = LINE * (at + 2);
      const first = Math.max(0, match.position - AROUND / 2);
      shapes.push({ kind: "text", x: 64, y, text: number(match.score, 3), colour: soft, end: true });
      shapes.push({ kind: "text", x: 80, y, text: plain(match, first, first + 2 * AROUND).slice(0, LETTERS), colour: ink });
    });
    return { width: WIDTH, height: LINE * (matches.length + 3), shapes };
  };
  return {
    name: `contexts-${query.by}${query.layer}${query.number === null ? "" : `-${query.number}`}`,
    finding: () => (matches.length ? `${title}: the nearest of ${matches.length} is in “${plain(matches[0], ...around(matches[0])).slice(0, LETTERS)}” (${number(matches[0].score, 3)}).` : `${title}: the corpus has no such context.`),
    png: () => toPng(figure(), style("--panel"), style("--sans")),
    svg: () => toSvg(figure(), style("--panel"), style("--sans")),
    table: () => rowsOf(matches),
  };
}
