/** Grid of heads, layers × heads, as thumbnails. */

import type { AttentionMap } from "../../core/types";
import { HeadCanvas } from "../../ui/head-canvas";
import { HeadCell, type HeadCells, useHeadCells } from "../../ui/head-cell";
import type { Head } from "./heads";

export interface HeadsProps {
  heads: Head[];
  cells: HeadCells;
}

/** With this many heads there is room for the word above the first. */
const ROOMY = 16;

export function HeadGrid({ map, heads, cells }: HeadsProps & { map: AttentionMap }) {
  const host = useHeadCells(cells);
  const columns = Array.from({ length: map.heads }, (_, head) => head);
  return (
    <div class="grid-frame">
      <div class="head-grid" role="grid" aria-label={`${map.title}: rows are layers, columns are heads`} style={{ "--heads": map.heads, "--layers": map.layers }} {...host}>
        <HeadCanvas overviewOf={(layer) => heads[layer * map.heads]?.overview} />
        <div role="row" class="heading">
          <span role="columnheader">layer</span>
          {columns.map((head) => <span role="columnheader" key={head} aria-label={`head ${head}`}>{head === 0 && map.heads <= ROOMY ? <><i>head </i>0</> : head}</span>)}
        </div>
        {Array.from({ length: map.layers }, (_, layer) => (
          <div role="row" key={layer}>
            <span role="rowheader" aria-label={`layer ${layer}`}>{layer}</span>
            {columns.map((head) => <HeadCell key={head} role="gridcell" {...heads[layer * map.heads + head]} />)}
          </div>
        ))}
      </div>
    </div>
  );
}
