/** Below the map: the study in sentences, similarity by level, cosine of all pairs, hex-bins of each class, the data table. */

import { useEffect, useRef } from "preact/hooks";
import { hexbins } from "../../core/embedding";
import { number, percent } from "../../core/format";
import { headColour, heatColour } from "../../core/palette";
import { DataTable } from "../../ui/data-table";
import type { EmbeddingController } from "./controller";
import { chosen, rowsOf } from "./exports";

export function StudyPanels({ controller }: { controller: EmbeddingController }) {
  const { study } = controller.map.value!;
  const several = controller.classes.value.names.length > 1 && controller.by.value !== "none" && controller.map.value!.points > BINNED;
  return (
    <>
      {study && study.sentences.length > 0 && <ul class="map-sentences">{study.sentences.map((each) => <li key={each}>{each}</li>)}</ul>}
      <div class="map-panels">
        {study && Object.keys(study.curve).length > 0 && study.curve["all pairs"].length > 1 && study.curve["all pairs"].some((x) => x !== null) && <Curve controller={controller} curve={study.curve} />}
        {study?.cosine && <Cosines controller={controller} cosine={study.cosine} />}
        {several && <Hexbins controller={controller} />}
      </div>
    </>
  );
}

const [WIDTH, HEIGHT, LEFT, BELOW] = [440, 250, 40, 34];
const DASHES = ["", "7 4", "2 4", "10 3 2 3", ""];

function Curve({ controller, curve }: { controller: EmbeddingController; curve: Record<string, (number | null)[]> }) {
  const dark = controller.props.dark.value;
  const names = Object.keys(curve).filter((name) => name !== "above baseline");
  const levels = curve["all pairs"].length;
  const low = Math.min(0, ...names.flatMap((name) => curve[name].filter((x) => x !== null)));
  const x = (level: number) => LEFT + (level / Math.max(levels - 1, 1)) * (WIDTH - LEFT - 12);
  const y = (value: number) => 10 + ((1 - value) / (1 - low)) * (HEIGHT - BELOW - 10);
  const level = controller.level.value;
  return (
    <figure class="map-panel">
      <figcaption>Mean cosine similarity by layer</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Mean cosine similarity by layer: ${names.map((name) => `${name} ${curve[name].map((v) => (v === null ? "none" : v.toFixed(2))).join(", ")}`).join("; ")}`}>
        {[0, 0.25, 0.5, 0.75, 1].map((value) => <g key={value}><path class="grid" d={`M${LEFT} ${y(value)}H${WIDTH - 12}`} /><text x={LEFT - 6} y={y(value) + 4} text-anchor="end">{value}</text></g>)}
        <path class="here" d={`M${x(level)} 10V${HEIGHT - BELOW}`} />
        {Array.from({ length: levels }, (_, at) => (levels < 15 || at % 2 === 0) && <text key={at} x={x(at)} y={HEIGHT - BELOW + 16} text-anchor="middle">{at ? at - 1 : "emb."}</text>)}
        <text x={(WIDTH + LEFT) / 2} y={HEIGHT - 3} text-anchor="middle">after layer (emb. = embedding)</text>
        {names.map((name, at) => (
          <path key={name} fill="none" stroke={headColour(at, dark)} stroke-width="2.2" stroke-dasharray={DASHES[at]} d={curve[name].map((v, i) => (v === null ? "" : `${i && curve[name][i - 1] !== null ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`)).join("")} />
        ))}
      </svg>
      <ul class="map-key">
        {names.map((name, at) => (
          <li key={name}>
            <svg width="26" height="10" aria-hidden="true"><path d="M0 5H26" stroke={headColour(at, dark)} stroke-width="2.2" stroke-dasharray={DASHES[at]} /></svg>
            {name === "baseline" ? "any two tokens (anisotropy)" : name} <b>{curve[name][level] === null ? "–" : number(curve[name][level], 3)}</b>
          </li>
        ))}
      </ul>
    </figure>
  );
}

function Cosines({ controller, cosine }: { controller: EmbeddingController; cosine: number[][] }) {
  const map = controller.map.value!;
  const dark = controller.props.dark.value;
  const low = Math.min(...cosine.flat());
  const shadeOf = (value: number) => Math.round(48 * ((value - low) / (1 - low || 1)));
  const pinned = controller.pinned;
  return (
    <figure class="map-panel map-wide">
      <figcaption>Cosine similarity of all pairs (sentence:token)</figcaption>
      <div class="map-scroll" tabIndex={0} role="region" aria-label="Cosine similarity of all pairs">
        <table class="map-cosines">
          <thead><tr><td />{map.keys.map((key) => <th scope="col" key={key}>{key}</th>)}</tr></thead>
          <tbody>
            {cosine.map((row, i) => (
              <tr key={i} data-on={i === pinned ? "" : undefined}>
                <th scope="row"><button class="quiet" title={map.texts[i]} onClick={() => controller.pin(i)}>{map.keys[i]}</button></th>
                {row.map((value, j) => <td key={j} title={`${map.texts[i]}\n${map.texts[j]}`} style={{ background: `color-mix(in oklab, ${headColour(0, dark)} ${shadeOf(value)}%, var(--panel))` }}>{value.toFixed(2).replace(/^0/, "").replace(/^-0/, "−")}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

/** Of fewer points the map itself shows where each lies. */
const BINNED = 100;
const PANEL = 190;
const ACROSS = 18;

/** One hex-bin plot a class, all with the same colours for the same share of their class. */
function Hexbins({ controller }: { controller: EmbeddingController }) {
  const { names } = controller.classes.value;
  const shown = names.slice(0, 12);
  return (
    <figure class="map-panel map-wide">
      <figcaption>Where each class is: hex-bins, a stronger colour is a larger share of the class{names.length > shown.length ? ` (the ${shown.length} largest of ${names.length})` : ""}</figcaption>
      <div class="map-hexes">{shown.map((name, at) => <Hexes key={name} controller={controller} group={at} name={name} />)}</div>
    </figure>
  );
}

function Hexes({ controller, group, name }: { controller: EmbeddingController; group: number; name: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const places = controller.places.value;
  const dark = controller.props.dark.value;
  const { of } = controller.classes.value;
  const points = of.flatMap((each, i) => (each === group ? [i] : []));
  const radius = 2 / ACROSS / Math.sqrt(3);
  const bins = places ? hexbins(places, points, radius) : [];
  const most = bins.reduce((best, bin) => Math.max(best, bin.count), 0);
  useEffect(() => {
    const ratio = window.devicePixelRatio || 1;
    const element = canvas.current!;
    element.width = element.height = Math.round(PANEL * ratio);
    const pen = element.getContext("2d")!;
    const scale = (element.width / 2) * 0.9;
    for (const { x, y, count } of bins) {
      pen.beginPath();
      for (let corner = 0; corner < 6; corner++) {
        const angle = (Math.PI / 3) * corner + Math.PI / 6;
        pen.lineTo(element.width / 2 + (x + radius * Math.cos(angle)) * scale, element.height / 2 - (y + radius * Math.sin(angle)) * scale);
      }
      pen.fillStyle = `rgb(${heatColour(0.12 + 0.88 * Math.sqrt(count / most), dark).join(", ")})`;
      pen.fill();
    }
  }, [places, dark, of]);
  return (
    <figure>
      <canvas ref={canvas} role="img" aria-label={`Hex-bins of ${name}: ${points.length} points in ${bins.length} hexagons, at most ${most} in one`} style={{ width: `${PANEL}px`, height: `${PANEL}px` }} />
      <figcaption>{name} <small>{points.length} · fullest hexagon {percent(most / Math.max(points.length, 1))}</small></figcaption>
    </figure>
  );
}

const ROWS = 200;

export function Table({ controller }: { controller: EmbeddingController }) {
  void [controller.selection.value, controller.places.value, controller.classes.value];
  const points = chosen(controller);
  const caption = `${controller.selection.value.length ? "The selected points" : "All points"}${points.length > ROWS ? `: the first ${ROWS} of ${points.length}; Share › Table has all` : ""}`;
  return <DataTable caption={caption} rows={rowsOf(controller, points.slice(0, ROWS))} heading={1} />;
}
