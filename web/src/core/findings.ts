/** Findings of a session: what its heads do in this text. */

import type { Finding, State } from "./types";

/** The state in which a finding is on screen. */
export const placeOf = ({ map, layer, head, query, key }: Finding): Pick<State, "map" | "layers" | "heads" | "query" | "key"> => ({ map, layers: [layer, layer], heads: [head], query, key });

/** Whether a finding is on screen: its head, and its tokens pinned. */
export const isAt = (state: State, { map, layer, head, query, key }: Finding): boolean =>
  state.map === map && state.layers[0] === layer && state.heads[0] === head && state.query === query && state.key === key;
