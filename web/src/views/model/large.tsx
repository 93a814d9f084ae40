/** Large attention map of the previewed head, with names of its rows and columns, and exact values on hover where a cell is one token by one. */

import { useEffect, useRef, useState } from "preact/hooks";
import { number, rank, visible } from "../../core/format";
import type { AttentionMap, Row, Token } from "../../core/types";
import { Thumbnail } from "./thumbnail";
import type { ModelProps } from "../model";
import type { Head } from "./heads";
import * as views from "../../core/views";
import { Term } from "../../ui/term";

/** As many words as fit next to the map; of more tokens every second, third, … has its name. */
const MOST_WORDS = 24;

/** Of so few words, the letters are large. */
const FEW_WORDS = 16;

/** Words are cut at this many letters: of rows, and of columns, whose words stand upright. */
const LONGEST = { rows: 13, columns: 10 };

const longest = (tokens: Token[]) => tokens.reduce((most, token) => Math.max(most, visible(token.text).length), 0);

export function LargeMap({ head: { layer, head, overview }, map, session, transport, state, set, refuse }: ModelProps & { head: Head; map: AttentionMap }) {
  const queries = session.streams[map.queries];
  const keys = session.streams[map.keys];
  const [cell, setCell] = useState<[number, number] | null>(null);
  const [row, setRow] = useState<Row | null>(null);
  const single = overview?.bins[0] === 1 && overview.bins[1] === 1;
  const exact = single && transport.host === "page" ? session.exact_layers?.[map.name]?.includes(layer) : single;
  const { query: pinnedQuery, key: pinnedKey } = state.value;
  const pinned: [number, number] | null = single && pinnedQuery !== null && pinnedKey !== null ? [pinnedQuery, pinnedKey] : null;
  const mark = cell ?? pinned;
  const query = mark?.[0];
  const frame = useRef<HTMLDivElement>(null);

  useEffect(() => setCell(null), [layer, head, session]);
  useEffect(() => {
    setRow(null);
    if (query === undefined || !exact) return;
    const abort = new AbortController();
    views.row(transport, session, map.name, layer, head, query, abort.signal).then((answer) => !abort.signal.aborted && setRow(answer), refuse);
    return () => abort.abort();
  }, [session, map, layer, head, query, exact]);

  const [tall, wide] = overview?.bins ?? [1, 1];
  const [height, width] = [Math.ceil(queries.length / tall), Math.ceil(keys.length / wide)];
  const under = (event: PointerEvent | MouseEvent): [number, number] | null => {
    if (!frame.current || !overview) return null;
    const box = frame.current.getBoundingClientRect();
    const at = (share: number, cells: number) => Math.min(Math.max(Math.floor(share * cells), 0), cells - 1);
    return [tall * at((event.clientY - box.top) / box.height, height), wide * at((event.clientX - box.left) / box.width, width)];
  };
  const share = (cells: number, of: number) => `${(100 * cells) / of}%`;
  return (
    <>
      <div class="large" data-words={Math.max(queries.length, keys.length) <= FEW_WORDS ? "few" : "many"}>
        <Ruler side="columns" tokens={keys} cells={width} bin={wide} on={mark?.[1]} />
        <Ruler side="rows" tokens={queries} cells={height} bin={tall} on={mark?.[0]} />
        <div
          class="map" ref={frame} onPointerMove={(event) => {
            const at = under(event);
            if (at?.[0] !== cell?.[0] || at?.[1] !== cell?.[1]) setCell(at);
          }}
          onPointerLeave={() => setCell(null)}
          onClick={(event) => {
            const at = under(event);
            if (at && single) set({ query: at[0], key: at[1] });
          }}
        >
          <Thumbnail overview={overview} head={head} />
          {mark && <i class="mark-cell" style={{ top: share(mark[0] / tall, height), left: share(mark[1] / wide, width), height: share(1, height), width: share(1, width) }} />}
        </div>
      </div>
      <p class="reading-line">
        {mark && !single ? (
          <><Range tokens={queries} from={mark[0]} count={tall} /> → <Range tokens={keys} from={mark[1]} count={wide} />: the matrix view shows every token.</>
        ) : mark ? (
          <>
            <span class="token">{visible(queries[mark[0]].text)}</span> attends to <span class="token">{visible(keys[mark[1]].text)}</span>{" "}
            {row && row.query === mark[0] && <><b>{number(row.probs[mark[1]])}</b>, <Term of="rank" /> {rank(row.probs, mark[1])} of {keys.length}</>}
            {!exact && <>; this file holds no exact numbers of layer {layer}</>}
          </>
        ) : single ? "Tap or point at a cell for its value; click to pin it." : "The matrix view shows every token."}
      </p>
    </>
  );
}

/** Names along a side of the map; of many tokens some, and always that of the cell pointed at. */
function Ruler({ side, tokens, cells, bin, on }: { side: "rows" | "columns"; tokens: Token[]; cells: number; bin: number; on: number | undefined }) {
  const every = Math.ceil(cells / MOST_WORDS);
  const room = `${Math.min(longest(tokens), LONGEST[side])}ch`;
  const marked = on === undefined ? null : on / bin;
  const named = Array.from({ length: cells }, (_, cell) => cell).filter((cell) => cell === marked || (cell % every === 0 && (marked === null || Math.abs(cell - marked) >= every)));
  return (
    <ol class={`ruler ${side}`} aria-hidden="true" style={side === "rows" ? { width: room } : { height: room }}>
      {named.map((cell) => (
        <li key={cell} data-on={cell === marked ? "" : undefined} style={{ [side === "rows" ? "top" : "left"]: `${(100 * (cell + 0.5)) / cells}%` }}>{visible(tokens[cell * bin].text)}</li>
      ))}
    </ol>
  );
}

/** The tokens of a cell that holds several: the first and the last. */
function Range({ tokens, from, count }: { tokens: Token[]; from: number; count: number }) {
  const last = Math.min(from + count, tokens.length) - 1;
  return <><span class="token">{visible(tokens[from].text)}</span>{last > from && <> to <span class="token">{visible(tokens[last].text)}</span></>}</>;
}
