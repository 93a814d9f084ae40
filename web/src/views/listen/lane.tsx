/** A canvas as wide as the room that it is scrolled in, which draws the stretch of time on screen. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { dark } from "../../ui/theme";
import type { Stage } from "./lanes";

/** The stretch of time on screen: from a time on, `scale` pixels a second, over `width` pixels. */
export interface Stretch {
  from: number;
  scale: number;
  width: number;
}

interface LaneProps {
  stretch: Stretch;
  height: number;
  label: string;
  draw: (stage: Stage) => void;
  /** What changes the picture besides the stretch and the theme. */
  of: unknown[];
}

export function Lane({ stretch, height, label, draw, of }: LaneProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isDark = dark.value;
  const { from, scale, width } = stretch;
  useLayoutEffect(() => {
    if (canvas.current && width > 0) draw({ canvas: canvas.current, from, scale, width, height, dark: isDark });
  }, [from, scale, width, height, isDark, ...of]);
  return <canvas ref={canvas} class="listen-lane" role="img" aria-label={label} style={{ width: `${width}px`, height: `${height}px` }} />;
}
