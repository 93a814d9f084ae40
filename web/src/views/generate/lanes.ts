/**
 * Tree layout: a text keeps its lane while it continues, so that it is a straight line.
 *
 *     lane 0   a ─── cat ── sat ── .      the likeliest child that continues does so in the lane of its parent;
 *     lane 1   the ┬ dog    ┌ down        the others take the nearest lane that is free at their step
 *     lane 2       └ man ───┘
 */

import type { TreeNode } from "../../core/types";

/** The lane of each node; `levels`: nodes by depth. */
export function lanes(levels: readonly TreeNode[][]): Map<number, number> {
  const lane = new Map<number, number>([[0, 0]]);
  for (const [depth, level] of levels.entries()) {
    const parents = new Set(levels[depth + 1]?.map(({ parent }) => parent));
    const goesOn = ({ id }: TreeNode) => Number(parents.has(id));
    const byMethod = ({ chosen }: TreeNode) => Number(chosen === "method");
    const occupied = new Set<number>();
    const later: TreeNode[] = [];
    const heirs = new Set<number>();
    // What ends leaves the lane to a sibling that continues, and a person's branch leaves it to what was written first.
    for (const node of [...level].sort((a, b) => byMethod(b) - byMethod(a) || goesOn(b) - goesOn(a) || b.total - a.total || a.id - b.id)) {
      const parentLane = lane.get(node.parent)!;
      if (heirs.has(node.parent) || occupied.has(parentLane)) later.push(node);
      else {
        heirs.add(node.parent);
        occupied.add(parentLane);
        lane.set(node.id, parentLane);
      }
    }
    for (const node of later) {
      const nearest = free(occupied, lane.get(node.parent)!);
      occupied.add(nearest);
      lane.set(node.id, nearest);
    }
  }
  return lane;
}

/** The free lane nearest to one; of two the one below. */
function free(occupied: ReadonlySet<number>, near: number): number {
  for (let apart = 1; ; apart++) {
    if (!occupied.has(near + apart)) return near + apart;
    if (near - apart >= 0 && !occupied.has(near - apart)) return near - apart;
  }
}
