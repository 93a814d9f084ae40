/** How each window was decoded: a timeline, and every attempt with the numbers that decided whether it counts. */

import type { ComponentChildren } from "preact";
import { clock, number, percent } from "../../core/format";
import type { Player } from "./player";
import { type Attempt, type Transcript, type Window } from "./transcript";

type Thresholds = Transcript["thresholds"];

export function Windows({ player }: { player: Player }) {
  const { windows, thresholds, duration } = player.transcript;
  const again = windows.filter(({ attempts }) => attempts.length > 1).length;
  const skipped = windows.filter((window) => window.skipped).length;
  return (
    <>
      <div class="sound-head">
        <h2 id="sound-windows">Windows</h2>
        <p class="hint">{windows.length} decoded, {again} again at a higher temperature, {skipped} skipped as silence</p>
      </div>
      <div class="sound-timeline" aria-hidden="true">
        {windows.map((window, at) => (
          <button
            key={at} tabIndex={-1} class={status(window)} data-shown={player.stretch.value === at ? "" : undefined}
            style={{ left: `${(100 * window.start) / duration}%`, width: `${(100 * (window.end - window.start)) / duration}%` }}
            onClick={() => player.turn(at)}
          >
            {at + 1}
          </button>
        ))}
      </div>
      <ul class="sound-states hint" aria-hidden="true">
        <li><i class="first" />first attempt</li><li><i class="again" />tried again</li><li><i class="skipped" />skipped</li>
      </ul>
      <div class="sound-scroll" tabIndex={0} role="region" aria-label="Table of windows">
        <table class="sound-table sound-attempts">
          <thead>
            <tr>
              <th scope="col">window</th><th scope="col">from – to</th><th scope="col">temperature</th>
              <th scope="col">mean log-probability{limit(thresholds.logprob, "at least")}</th>
              <th scope="col">compression ratio{limit(thresholds.compression_ratio, "at most")}</th>
              <th scope="col">no speech{limit(thresholds.no_speech, "at most")}</th>
              <th scope="col">result</th>
            </tr>
          </thead>
          <tbody>
            {windows.flatMap((window, at) => window.attempts.map((attempt, turn) => (
              <tr key={`${at},${turn}`} data-shown={player.stretch.value === at ? "" : undefined} data-last={turn === window.attempts.length - 1 ? "" : undefined}>
                {turn === 0 && <th scope="row" rowSpan={window.attempts.length}><button aria-label={`Show window ${at + 1}`} aria-pressed={player.stretch.value === at} onClick={() => player.turn(at)}>{at + 1}</button></th>}
                {turn === 0 && <td rowSpan={window.attempts.length}>{clock(window.start, 1)} – {clock(window.end, 1)}</td>}
                <td>{attempt.temperature}</td>
                <Figure value={attempt.avg_logprob} share={1 + attempt.avg_logprob / 2} mark={thresholds.logprob === null ? null : 1 + thresholds.logprob / 2} beyond={unlikely(attempt, thresholds)}>{number(attempt.avg_logprob, 3)}</Figure>
                <Figure value={attempt.compression_ratio} share={attempt.compression_ratio / 4} mark={thresholds.compression_ratio === null ? null : thresholds.compression_ratio / 4} beyond={repetitive(attempt, thresholds)}>{number(attempt.compression_ratio, 3)}</Figure>
                {turn === 0 && (
                  <Figure rows={window.attempts.length} value={window.no_speech_prob} share={window.no_speech_prob} mark={thresholds.no_speech} beyond={thresholds.no_speech !== null && window.no_speech_prob > thresholds.no_speech}>{percent(window.no_speech_prob)}</Figure>
                )}
                <td>{result(window, turn, thresholds)}</td>
              </tr>
            )))}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** A number with a bar, and a tick at its limit; beyond it the number is marked. */
function Figure({ share, mark, beyond, rows = 1, children }: { value: number; share: number; mark: number | null; beyond: boolean; rows?: number; children: ComponentChildren }) {
  const inside = (x: number) => `${100 * Math.min(Math.max(x, 0), 1)}%`;
  return (
    <td rowSpan={rows} class={beyond ? "beyond" : undefined}>
      <span>{children}{beyond && <b title="beyond its limit"> !</b>}</span>
      <span class="sound-meter" aria-hidden="true"><i style={{ width: inside(share) }} />{mark !== null && <u style={{ left: inside(mark) }} />}</span>
    </td>
  );
}

const limit = (value: number | null, how: string) => value !== null && <small> {how} {number(value, 2)}</small>;
const repetitive = ({ compression_ratio: ratio }: Attempt, { compression_ratio: most }: Thresholds) => most !== null && ratio > most;
const unlikely = ({ avg_logprob: mean }: Attempt, { logprob: least }: Thresholds) => least !== null && mean < least;
const status = (window: Window) => (window.skipped ? "skipped" : window.attempts.length > 1 ? "again" : "first");

function result(window: Window, turn: number, thresholds: Thresholds): string {
  const attempt = window.attempts[turn];
  const why = [repetitive(attempt, thresholds) && "repeats itself", unlikely(attempt, thresholds) && "unlikely"].filter(Boolean).join(", ");
  if (turn < window.attempts.length - 1) return `again: ${why || "poor"}`;
  if (window.skipped) return "skipped as silence";
  return why ? `kept, the last attempt: ${why}` : "kept";
}
