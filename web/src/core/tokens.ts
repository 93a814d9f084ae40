/** Token types. */

import type { Token } from "./types";

/** "special", or which text it is of: "0", "1". */
export const typeOf = (token: Token): string => (token.special ? "special" : String(token.segment ?? 0));
