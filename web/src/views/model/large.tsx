/** Large attention map of the previewed head; with one row and column a token, rulers and exact values on hover. */

import { useEffect, useRef, useState } from "preact/hooks";
import { number, rank, visible } from "../../core/format";
import type { AttentionMap, Row, Token } from "../../core/types";
import { Thumbnail } from "../../ui/thumbnail";
import type { ModelProps } from "../model";
import type { Head } from "./heads";
import * as views from "../../core/views";

/** As many words as fit next to the map. */
const MOST_WORDS = 24;

/** Of so few words, the letters are large. */
const FEW_WORDS = 16;

/** Words are cut at this many letters. */
const LONGEST = 10;

const longest = (tokens: Token[]) => Math.max(...tokens.map((token) => visible(token.text).length));

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

  const under = (event: PointerEvent | MouseEvent): [number, number] | null => {
    if (!frame.current || !single) return null;
    const box = frame.current.getBoundingClientRect();
    const at = (share: number, size: number) => Math.min(Math.max(Math.floor(share * size), 0), size - 1);
    return [at((event.clientY - box.top) / box.height, queries.length), at((event.clientX - box.left) / box.width, keys.length)];
  };
  const rulers = single && queries.length <= MOST_WORDS && keys.length <= MOST_WORDS;
  const share = (index: number, size: number) => `${(100 * index) / size}%`;
  return (
    <>
      <div class="large" data-rulers={rulers ? (Math.max(queries.length, keys.length) <= FEW_WORDS ? "few" : "many") : undefined}>
        {rulers && <ol class="ruler columns" aria-hidden="true" style={{ height: `${Math.min(longest(keys), LONGEST)}ch` }}>{keys.map((token, index) => <li key={index} data-on={mark?.[1] === index ? "" : undefined}>{visible(token.text)}</li>)}</ol>}
        {rulers && <ol class="ruler rows" aria-hidden="true">{queries.map((token, index) => <li key={index} data-on={mark?.[0] === index ? "" : undefined}>{visible(token.text)}</li>)}</ol>}
        <div
          class="map" ref={frame} onPointerMove={(event) => {
            const at = under(event);
            if (at?.[0] !== cell?.[0] || at?.[1] !== cell?.[1]) setCell(at);
          }}
          onPointerLeave={() => setCell(null)}
          onClick={(event) => {
            const at = under(event);
            if (at) set({ query: at[0], key: at[1] });
          }}
        >
          <Thumbnail overview={overview} head={head} />
          {mark && <i class="mark-cell" style={{ top: share(mark[0], queries.length), left: share(mark[1], keys.length), height: share(1, queries.length), width: share(1, keys.length) }} />}
        </div>
      </div>
      <p class="reading-line">
        {mark ? (
          <>
            <span class="token">{visible(queries[mark[0]].text)}</span> attends to <span class="token">{visible(keys[mark[1]].text)}</span>{" "}
            {row && row.query === mark[0] && <><b>{number(row.probs[mark[1]])}</b>, rank {rank(row.probs, mark[1])} of {keys.length}</>}
            {!exact && <>; this file holds no exact numbers of layer {layer}</>}
          </>
        ) : single ? "Tap or point at a cell for its value; click to pin it." : "The matrix view shows every token."}
      </p>
    </>
  );
}
