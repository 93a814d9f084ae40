/** Diverging colour scale of signed numbers: blue below zero, orange above it, the background in between. */

type Colour = readonly [number, number, number];

const LIGHT = { below: [18, 90, 166], zero: [255, 255, 255], above: [196, 84, 0] } as const;
const DARK = { below: [92, 170, 255], zero: [30, 38, 48], above: [255, 160, 64] } as const;

/** Colours by share, in steps of 1/255: a screen has no more, and a view asks for thousands at a time. */
const known: Record<"light" | "dark", Map<number, string>> = { light: new Map(), dark: new Map() };

/** The colour of a share in [−1, 1]; small numbers are lifted a little, so that they can be told from zero. */
export function diverging(share: number, dark: boolean): string {
  const step = Math.round(255 * Math.max(-1, Math.min(1, share)));
  const colours = known[dark ? "dark" : "light"];
  let colour = colours.get(step);
  if (colour === undefined) colours.set(step, (colour = colourOf(step / 255, dark)));
  return colour;
}

function colourOf(share: number, dark: boolean): string {
  const { below, zero, above } = dark ? DARK : LIGHT;
  const t = Math.abs(share) ** 0.8;
  const end: Colour = share < 0 ? below : above;
  return `rgb(${end.map((channel, i) => Math.round(zero[i] + (channel - zero[i]) * t)).join(" ")})`;
}
