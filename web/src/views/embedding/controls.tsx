/** Controls of the map: projection and its numbers, level with play, colours, lasso. */

import { useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { percent, plural } from "../../core/format";
import { METHOD_NAMES, PROJECTIONS } from "../../core/embedding-state";
import { headColour } from "../../core/palette";
import { Segments } from "../../ui/segments";
import type { EmbeddingController } from "./controller";
import { corners } from "./points";
import { Term } from "../../ui/term";

const PAUSE = 1300; // ms on each level while it plays

export function Controls({ controller }: { controller: EmbeddingController }) {
  const map = controller.map.value!;
  const { method } = controller.state.value;
  return (
    <div class="map-controls one-row">
      <Segments
        legend="Projection" name="projection" values={PROJECTIONS} value={method} set={(name) => controller.set({ method: name })}
        text={(name) => METHOD_NAMES[name]} off={(name) => !controller.available(name)}
      />
      {method === "tsne" && <Slider controller={controller} name="perplexity" label="Perplexity" min={2} max={Math.max(3, Math.min(100, Math.floor((map.points - 1) / 3)))} />}
      {method === "tsne" && <Term of="neighbours of t-SNE">?</Term>}
      {method === "umap" && <Slider controller={controller} name="neighbours" label="Neighbours" min={2} max={Math.max(3, Math.min(200, map.points - 1))} />}
      {map.levels.length > 1 && <Levels controller={controller} />}
      <label class="map-by">
        Colour by{" "}
        <select value={controller.by.value} onChange={(event) => controller.set({ by: event.currentTarget.value })}>
          {Object.keys(map.classes).map((name) => <option key={name} value={name}>{name}</option>)}
          <option value="none">nothing</option>
        </select>
      </label>
      <button aria-pressed={controller.lassoing.value} onClick={() => (controller.lassoing.value = !controller.lassoing.value)} title="Draw around points (or hold Shift)">Lasso</button>
      <button class="quiet" aria-pressed={controller.tabled.value} onClick={() => (controller.tabled.value = !controller.tabled.value)}>Data table</button>
    </div>
  );
}

/** A number of a projection; a change is computed once the slider is let go. */
function Slider({ controller, name, label, min, max }: { controller: EmbeddingController; name: "perplexity" | "neighbours"; label: string; min: number; max: number }) {
  const value = Math.min(controller.state.value[name], max);
  const shown = useRef<HTMLOutputElement>(null);
  return (
    <label class="map-slider">
      {label}{" "}
      <input
        type="range" min={min} max={max} value={value} disabled={!controller.adjustable}
        onInput={(event) => (shown.current!.textContent = event.currentTarget.value)} onChange={(event) => controller.set({ [name]: Number(event.currentTarget.value) })}
      />
      <output ref={shown}>{value}</output>
    </label>
  );
}

function Levels({ controller }: { controller: EmbeddingController }) {
  const { levels } = controller.map.value!;
  const level = controller.level.value;
  useSignalEffect(() => {
    if (!controller.playing.value || controller.progress.value) return;
    const at = controller.level.value;
    const timer = setTimeout(() => {
      if (at + 1 < levels.length) controller.setLevel(at + 1);
      else controller.playing.value = false;
    }, PAUSE);
    return () => clearTimeout(timer);
  });
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey || target.matches?.("textarea, select, input:not([type=radio], [type=range])") || target.closest?.("dialog[open]")) return;
      if (event.key === "[") controller.setLevel(controller.level.peek() - 1);
      else if (event.key === "]") controller.setLevel(controller.level.peek() + 1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed, true);
    return () => removeEventListener("keydown", pressed, true);
  }, [controller]);
  const play = () => {
    if (!controller.playing.peek() && level === levels.length - 1) controller.setLevel(0);
    controller.playing.value = !controller.playing.peek();
  };
  return (
    <div class="map-levels">
      <button onClick={play} aria-pressed={controller.playing.value}>{controller.playing.value ? "Pause" : "Play layers"}</button>
      <label class="map-slider">
        <span class="unseen">Level</span>
        <input type="range" min={0} max={levels.length - 1} value={level} aria-valuetext={levels[level]} onInput={(event) => controller.setLevel(Number(event.currentTarget.value))} />
        <output>{levels[level]}</output>
      </label>
    </div>
  );
}

/** What the colours stand for; a class can be hidden. And what is not exact. */
export function Legend({ controller }: { controller: EmbeddingController }) {
  const map = controller.map.value!;
  const { names, of } = controller.classes.value;
  const dark = controller.props.dark.value;
  const hidden = controller.hidden.value;
  const counts = new Array<number>(names.length).fill(0);
  for (const each of of) counts[each]++;
  const toggle = (at: number) => {
    const next = new Set(hidden);
    if (!next.delete(at)) next.add(at);
    controller.hidden.value = next;
  };
  const [first, second] = map.explained[controller.level.value];
  return (
    <div class="map-legend">
      {controller.by.value !== "none" && (
        <ul aria-label={`Classes: ${controller.by.value}`}>
          {names.slice(0, 40).map((name, at) => (
            <li key={name}>
              <button class="quiet" aria-pressed={!hidden.has(at)} onClick={() => toggle(at)} title={hidden.has(at) ? "Show" : "Hide"}>
                <Mark shape={at % 4} colour={headColour(at, dark)} />{name} <small>{counts[at]}</small>
              </button>
            </li>
          ))}
          {names.length > 40 && <li class="hint">and {names.length - 40} more</li>}
        </ul>
      )}
      <p class="hint">
        {map.total > map.points && <strong class="map-badge">Showing {plural(map.points, "point")} of {plural(map.total, "point")}, drawn at random</strong>}
        {controller.state.value.method === "pca" ? <><Term of="PCA" />: two components explain {percent(first + second)} of the variance ({percent(first)} + {percent(second)})</> : "distances between groups mean little here; neighbours mean something"}
        {map.levels.length > 1 && " · each level is turned to lie on the one before"}
      </p>
      {map.scaled && <p class="hint map-scaled">{map.scaled}</p>}
    </div>
  );
}

export function Mark({ shape, colour }: { shape: number; colour: string }) {
  const path = corners(shape, 5);
  return (
    <svg class="map-mark" width="14" height="14" viewBox="-7 -7 14 14" aria-hidden="true" fill={colour}>
      {path.length ? <polygon points={path.map((each) => each.join(",")).join(" ")} /> : <circle r="5" />}
    </svg>
  );
}
