/** Small sessions, for tests. */

import type { AttentionMap, Session, Token, ViewName } from "../src/core/types";

const token = (text: string, segment: number | null): Token => ({ text, piece: text, id: 1, segment, special: segment === null, continues: false, span: null });

const map = (name: string, change: Partial<AttentionMap>): AttentionMap => ({
  name, title: name, layers: 4, heads: 4, kv_heads: 4, head_width: 8, queries: "text", keys: "text", causal: false, windows: [], rotary_bases: [], biased: false, paths: ["blocks.0.attn", "blocks.1.attn", "blocks.2.attn", "blocks.3.attn"], ...change,
});

const base = {
  views: ["model", "head", "matrix", "neuron", "generate", "embedding"] as ViewName[], reports: {},
  model: { name: "small", family: "BERT", task: "embedding", revision: "c0ffee", dtype: "float32", levels: null, parameters: 1000, max_tokens: 64, modality: null, can_generate: true, can_transcribe: false, predicts: null, reads: false, can_compare: false, mask_token: null, corpus: null, against: null, precisions: [], is_encoder_decoder: false },
  how_to_read: {}, glossary: {},
  opening: { view: "model" as const, findings: [], short: false, answer: null },
  lookups: ["text"], text_hash: "8f2a91c0", nbytes: 1000, seconds: 0.01, command: "glassformer look small 'a b' 'c'", look: "glassformer look small 'a b' 'c'",
};

/** One stack over a pair of texts: six tokens, two of them special. */
export function pair(): Session {
  const text = [token("[CLS]", null), token("a", 0), token("b", 0), token("[SEP]", null), token("c", 1), token("d", 1)];
  return { ...base, id: "one", texts: ["a b", "c d"], fields: ["text", "second text"], streams: { text }, maps: [map("self", {})] };
}

/** Two stacks: six source tokens, three target tokens; fewer layers and heads in the second. */
export function two(): Session {
  const source = ["a", "b", "c", "d", "e", "f"].map((text) => token(text, 0));
  const target = ["x", "y", "z"].map((text) => token(text, 1));
  return {
    ...base, id: "two", texts: ["a b c d e f", "x y z"], fields: ["source", "target"], streams: { source, target },
    maps: [
      map("encoder", { queries: "source", keys: "source" }),
      map("cross", { queries: "target", keys: "source", layers: 2, heads: 2 }),
    ],
  };
}
