/** List of texts in a token tree: those of the decoding method, the best first, and the branches chosen by hand. */

import { plural, visible } from "../../core/format";
import type { TreeNode } from "../../core/types";
import type { TokenTree } from "./token-tree";

const REASONS: Record<string, string> = {
  end_token: "came to its end", stop_string: "met a stop string", max_new_tokens: "as long as asked", max_time: "out of time", interrupted: "stopped",
};

export interface Entry {
  /** The node through which the text goes. */
  node: number;
  path: TreeNode[];
  name: string;
  about: string;
  score: number;
  returned: boolean;
  /** A branch: it can be put away. */
  branch: TreeNode | null;
}

/** Texts that have ended, best first, and behind them branches, as far as they have their own end. */
export function entries(tree: TokenTree): Entry[] {
  const branches = tree.branches();
  const branch = (path: TreeNode[]) => path.findLast((node) => branches.includes(node)) ?? null;
  const match: Entry[] = [];
  const add = (node: number, score: number, reason: string | undefined, returned: boolean) => {
    const path = tree.path(node);
    const children = branch(path);
    match.push({
      node, path, score, returned, branch: children,
      name: children ? `step ${children.depth}: “${visible(children.text || children.piece)}”` : "",
      about: [plural(path.length, "token"), reason && (REASONS[reason] ?? reason)].filter(Boolean).join(", "),
    });
  };
  if (tree.ended.length === 0 && tree.first) add(tree.first, tree.nodes.get(tree.first)!.total, undefined, true);
  for (const { node, score, reason, returned } of tree.ended) if (tree.isShown(node)) add(node, score, reason, returned === true);
  for (const children of branches) {
    const leaf = tree.leaf(children.id);
    if (!match.some((entry) => entry.node === leaf)) add(leaf, tree.nodes.get(leaf)!.total, undefined, false);
  }
  return [...match.filter(({ branch: children }) => !children), ...match.filter(({ branch: children }) => children)];
}
