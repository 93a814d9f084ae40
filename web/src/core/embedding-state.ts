/** The embeddings view's part of the URL: method and its numbers, level, pinned point, colours. */

export type ProjectionMethod = "pca" | "tsne" | "umap";
export const PROJECTIONS: readonly ProjectionMethod[] = ["pca", "tsne", "umap"];
export const METHOD_NAMES: Record<ProjectionMethod, string> = { pca: "PCA", tsne: "t-SNE", umap: "UMAP" };

export interface EmbeddingState {
  method: ProjectionMethod;
  /** null = the last. */
  level: number | null;
  /** The pinned point. */
  point: number | null;
  /** Name of the classes that colour the points; "" = the first that there are, "none" = no classes. */
  by: string;
  perplexity: number;
  neighbours: number;
}

export const initialEmbedding = (): EmbeddingState => ({ method: "pca", level: null, point: null, by: "", perplexity: 30, neighbours: 15 });

export function formatEmbedding(state: EmbeddingState): [string, string][] {
  const plain = initialEmbedding();
  const pairs: [string, string][] = [];
  if (state.method !== plain.method) pairs.push(["em", state.method]);
  if (state.level !== null) pairs.push(["lv", String(state.level)]);
  if (state.point !== null) pairs.push(["pt", String(state.point)]);
  if (state.by) pairs.push(["by", state.by]);
  if (state.perplexity !== plain.perplexity) pairs.push(["perp", String(state.perplexity)]);
  if (state.neighbours !== plain.neighbours) pairs.push(["nn", String(state.neighbours)]);
  return pairs;
}

export function readEmbedding(pairs: URLSearchParams, notices: string[]): EmbeddingState {
  const state = initialEmbedding();
  const method = pairs.get("em");
  if (method !== null && !PROJECTIONS.includes(method as ProjectionMethod)) notices.push(`this link asks for the projection “${method}”: showing PCA`);
  else if (method) state.method = method as ProjectionMethod;
  const whole = (name: string, least: number, most: number) => {
    const text = pairs.get(name);
    return text !== null && /^\d{1,7}$/.test(text) && Number(text) >= least && Number(text) <= most ? Number(text) : null;
  };
  state.level = whole("lv", 0, 999);
  state.point = whole("pt", 0, 9_999_999);
  state.by = pairs.get("by") ?? "";
  state.perplexity = whole("perp", 2, 100) ?? state.perplexity;
  state.neighbours = whole("nn", 2, 200) ?? state.neighbours;
  return state;
}
