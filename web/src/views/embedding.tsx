/** Embeddings view: a map of words, texts or tokens at every layer, by PCA, t-SNE or UMAP. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { METHOD_NAMES } from "../core/embedding-state";
import type { ViewProps } from "../core/types";
import { Controls, Legend } from "./embedding/controls";
import { EmbeddingController } from "./embedding/controller";
import { Details, type LookAt } from "./embedding/details";
import { exportsOf } from "./embedding/exports";
import { StageView } from "./embedding/stage";
import { StudyPanels, Table } from "./embedding/study";
import "./embedding.css";
import type { ViewModule } from "../ui/view-module";

export function EmbeddingView({ look, ...props }: ViewProps & { look: LookAt }) {
  const host = useRef<HTMLDivElement>(null);
  const controller = useMemo(() => new EmbeddingController(props), [props.session, props.transport]);
  useEffect(() => () => controller.close(), [controller]);
  const map = controller.map.value;
  useEffect(() => {
    if (map) props.exports(exportsOf(controller));
    return () => props.exports(null);
  }, [map]);
  if (!map) return <div class="map">{controller.problem.value ? <Problem text={controller.problem.value} /> : <p class="hint" role="status">Making the map…</p>}</div>;
  return (
    <div class="map" ref={host} data-ready={controller.places.value ? "" : undefined} data-busy={controller.progress.value ? "" : undefined}>
      <Controls controller={controller} />
      {controller.problem.value && <Problem text={controller.problem.value} />}
      {controller.progress.value && <Working controller={controller} />}
      <div class="map-body">
        <div class="map-main">
          <StageView controller={controller} />
          <Legend controller={controller} />
          {map.study && <p class="map-of hint">{map.title}</p>}
        </div>
        <Details controller={controller} look={look} />
      </div>
      {controller.tabled.value && <Table controller={controller} />}
      <StudyPanels controller={controller} />
    </div>
  );
}

function Working({ controller }: { controller: EmbeddingController }) {
  const { done, of } = controller.progress.value!;
  const name = METHOD_NAMES[controller.state.value.method];
  return (
    <div class="running map-working">
      <p role="status">{of ? `${name}: step ${done} of ${of}` : `${name} begins in a process of its own`}</p>
      <progress aria-label={name} {...(of ? { value: done, max: of } : {})} />
      <button onClick={() => controller.cancel()}>Cancel</button>
    </div>
  );
}

/** Why there is nothing; a command is as one. */
function Problem({ text }: { text: string }) {
  const at = text.lastIndexOf("glassformer ");
  return <p class="map-problem" role="alert">{at < 0 ? text : <>{text.slice(0, at)}<code>{text.slice(at)}</code></>}</p>;
}

export const view: ViewModule = {
  name: "embedding", title: "Embeddings", alone: true,
  sentence: "Each dot is a vector; nearby dots are similar. Move from layer to layer.",
  Component: EmbeddingView,
};
