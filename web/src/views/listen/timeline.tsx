/** An axis of time, the cursor of playback on it, and what scrolls with them. */

import { type ReadonlySignal, useSignalEffect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { clock } from "../../core/format";

const TICKS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60];
/** Fewest pixels between two ticks. */
const GAP = 70;

/** Ticks from one time to another, in seconds; `scale`: pixels a second. */
export function Axis({ start, end, scale }: { start: number; end: number; scale: number }) {
  const step = TICKS.find((each) => each * scale >= GAP) ?? 60;
  const first = Math.ceil(start / step - 1e-9);
  const count = Math.floor(end / step + 1e-9) - first + 1;
  const digits = step < 0.1 ? 2 : step < 1 ? 1 : 0;
  return (
    <div class="sound-axis" aria-hidden="true">
      {Array.from({ length: Math.max(count, 0) }, (_, at) => (first + at) * step).map((time) => (
        <span key={time} style={{ left: `${(time - start) * scale}px` }}>{clock(time, digits)}</span>
      ))}
    </div>
  );
}

/** The time that is heard, as a line through everything on the axis. */
export function Cursor({ time, start, scale }: { time: ReadonlySignal<number>; start: number; scale: number }) {
  const line = useRef<HTMLDivElement>(null);
  useSignalEffect(() => {
    if (line.current) line.current.style.transform = `translateX(${(time.value - start) * scale}px)`;
  });
  useLayoutEffect(() => {
    if (line.current) line.current.style.transform = `translateX(${(time.peek() - start) * scale}px)`;
  }, [start, scale]);
  return <div class="sound-cursor" ref={line} />;
}

/** Scroll sideways when the time leaves what is on screen. */
export function useFollowing(time: ReadonlySignal<number>, room: { readonly current: HTMLElement | null }, start: number, scale: number): void {
  const place = useRef({ start, scale });
  place.current = { start, scale };
  const follow = (seconds: number) => {
    const box = room.current;
    if (!box || box.scrollWidth <= box.clientWidth) return;
    const x = (seconds - place.current.start) * place.current.scale;
    if (x < box.scrollLeft + 12 || x > box.scrollLeft + box.clientWidth - 48) box.scrollLeft = x - box.clientWidth * 0.2;
  };
  useSignalEffect(() => follow(time.value));
  useEffect(() => follow(time.peek()), [start, scale]);
}

/** The width of an element, in whole pixels; 0 until it is laid out. */
export function useWidth(room: { readonly current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!room.current) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(room.current);
    return () => observer.disconnect();
  }, []);
  return width;
}
