/** Drawing in the next frame; while the page goes onto paper none comes, and it is drawn at the end of the turn. */

let paper = false;

/** Whether the page is on paper from now on. */
export function onPaper(now: boolean): void {
  paper = now;
}

/** Draw in the next frame. Returns: what calls it off. */
export function nextFrame(draw: () => void): () => void {
  if (!paper) {
    const frame = requestAnimationFrame(draw);
    return () => cancelAnimationFrame(frame);
  }
  let wanted = true;
  queueMicrotask(() => wanted && draw());
  return () => void (wanted = false);
}
