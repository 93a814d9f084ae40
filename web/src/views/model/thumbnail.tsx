/** Thumbnail heat map of one attention head. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { paintMap } from "../../core/heatmap";
import type { Overview } from "../../core/types";
import { dark } from "../../ui/theme";

/** The bytes of one head: [height · width]. */
export function headBytes(overview: Overview, head: number): Uint8Array {
  const size = overview.height * overview.width;
  return overview.thumbnails.subarray(head * size, (head + 1) * size);
}

/** A decorative canvas (whoever holds it says in words what it shows); empty until the overview has come. */
export function Thumbnail({ overview, head }: { overview: Overview | undefined; head: number }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (canvas.current && overview) paintMap(canvas.current, headBytes(overview, head), overview.height, overview.width, { dark: dark.value });
  }, [overview, head, dark.value]);
  return <canvas ref={canvas} class="thumbnail" aria-hidden="true" width={1} height={1} data-empty={overview ? undefined : ""} />;
}
