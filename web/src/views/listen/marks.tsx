/** Marks on the axis of time: notes as bars at their pitch, other spans as bars with their label, moments as lines. */

import type { Mark } from "../../core/listening";

const [NOTE, BAR, ROLL, HIGHEST] = [14, 19, 64, 120];
const CHARACTER = 7.2;

/** How high the lane of these marks is, in pixels. */
export const marksHeight = (marks: Mark[]): number => rollHeight(marks.filter(({ pitch }) => pitch !== null)) + (marks.some(({ pitch }) => pitch === null) ? BAR + 4 : 0);

/** How high notes need to be that those which sound together stand apart. */
function rollHeight(notes: Mark[]): number {
  if (!notes.length) return 0;
  const pitches = notes.map(({ pitch }) => pitch!);
  const together = notes.flatMap((a, at) => notes.slice(at + 1).filter((b) => b.pitch !== a.pitch && b.start < (a.end ?? a.start) && a.start < (b.end ?? b.start)).map((b) => Math.abs(b.pitch! - a.pitch!)));
  const apart = ((NOTE + 1) * (Math.max(...pitches) - Math.min(...pitches))) / Math.min(...together, Infinity);
  return Math.min(Math.max(apart + NOTE + 6, ROLL), HIGHEST);
}

export function Marks({ marks, scale, seconds }: { marks: Mark[]; scale: number; seconds: number }) {
  const notes = marks.filter(({ pitch }) => pitch !== null);
  const others = marks.filter(({ pitch }) => pitch === null);
  const pitches = notes.map(({ pitch }) => pitch!);
  const [low, high] = [Math.min(...pitches), Math.max(...pitches)];
  const above = others.length ? BAR + 4 : 0;
  const roll = rollHeight(notes);
  const place = ({ start, end }: Mark) => ({ left: `${start * scale}px`, width: `${Math.max((Math.min(end ?? start, seconds) - start) * scale - 1, 2)}px` });
  const fits = ({ label, start, end }: Mark) => ((Math.min(end ?? seconds, seconds) - start) * scale >= label.length * CHARACTER + 8);
  return (
    <ul class="listen-marks" style={{ height: `${marksHeight(marks)}px` }} aria-label="Marks">
      {others.map((mark, at) => (
        <li key={`other ${at}`} class={mark.end === null ? "moment" : "span"} style={{ ...place(mark), top: 0 }} title={titleOf(mark)}>
          <span class={mark.end !== null ? (fits(mark) ? undefined : "unseen") : fits(mark) ? undefined : "before"}>{mark.label}</span>
        </li>
      ))}
      {notes.map((mark, at) => (
        <li
          key={`note ${at}`} class="note" title={titleOf(mark)}
          style={{ ...place(mark), top: `${above + (high === low ? 0.5 : (high - mark.pitch!) / (high - low)) * (roll - NOTE - 6) + 1}px`, height: `${NOTE}px` }}
        >
          <span class={fits(mark) ? undefined : "unseen"}>{mark.label}</span>
        </li>
      ))}
    </ul>
  );
}

const titleOf = ({ label, start, end }: Mark) => `${label}, ${start.toFixed(2)} s${end === null ? "" : ` to ${end.toFixed(2)} s`}`;
