/** Colour legend; always on screen. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { paintMap } from "../core/heatmap";
import { dark } from "./theme";

export function Legend() {
  const bar = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    if (bar.current) paintMap(bar.current, Uint8Array.from({ length: 256 }, (_, byte) => byte), 1, 256, { dark: dark.value });
  }, [dark.value]);
  return (
    <p class="legend" title="Attention: the share that a token gives to another. Each square has a scale of its own, up to its largest share.">
      <span>0</span>
      <canvas ref={bar} width={256} height={1} aria-hidden="true" />
      <span>the largest in each square, which has its own scale</span>
    </p>
  );
}
