/** Colour maps: for attention cividis, and blues on a light page (both safe for colour vision deficiency); one hue a head for lines. */

// Cividis at 33 even steps. Nuñez, Anderton, Renslow 2018, "Optimizing colormaps with consideration for color vision deficiency".
const STOPS = (
  "00224e 00285b 002e6a 043371 1a386f 273e6e 32436d 3b496c 434e6c 4b546c 52596d " +
  "5a5f6e 61656f 686a71 6f7073 757676 7c7b78 848179 8b8778 938d78 9b9376 a39a75 " +
  "aba072 b3a670 bbad6c c3b469 ccba64 d4c15f ddc958 e6d051 efd748 f8df3c fee838"
).split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));

type Colour = [red: number, green: number, blue: number];

/** The colour of t in [0, 1]: dark blue, grey, yellow; channels from 0 to 255. */
export function cividis(t: number): Colour {
  const at = Math.min(Math.max(t, 0), 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return [0, 1, 2].map((i) => Math.round(STOPS[low][i] + (at - low) * (STOPS[low + 1][i] - STOPS[low][i]))) as Colour;
}

/** The colour of t in [0, 1] on a light page: from the page's own lightness in even steps of OKLCH to a dark blue. */
export function blues(t: number): Colour {
  const at = Math.min(Math.max(t, 0), 1);
  return oklch(0.965 - 0.665 * at, 0.008 + 0.24 * at * (1 - 0.53 * at), 225 + 45 * at);
}

/** A heat map's colour of t in [0, 1]: what is strong stands out from the page. */
export const heatColour = (t: number, dark: boolean): Colour => (dark ? cividis(t) : blues(t));

const table = (dark: boolean) => Uint8ClampedArray.from({ length: 256 * 4 }, (_, at) => (at % 4 === 3 ? 255 : heatColour((at >> 2) / 255, dark)[at % 4]));
const TABLES = { light: table(false), dark: table(true) };

/** The heat map's colour of each byte, as red, green, blue, alpha: [256 · 4]. */
export const lut = (dark: boolean): Uint8ClampedArray => (dark ? TABLES.dark : TABLES.light);

/**
 * One head's colour, the same in every view and layer, as "rgb(r, g, b)".
 *
 * Heads are 150 degrees apart on the wheel of OKLCH, and by turns darker and lighter, so that colours side by side on the
 * wheel differ in lightness. Twelve heads go round once; each further round is turned by 15 degrees. Every one has at
 * least 3:1 against the panel.
 */
export function headColour(head: number, dark: boolean): string {
  const hue = ((head * 5) % 12) * 30 + (Math.floor(head / 12) % 2) * 15;
  const first = head % 2 === 0;
  const lightness = dark ? (first ? 0.82 : 0.66) : first ? 0.45 : 0.61;
  return `rgb(${oklch(lightness, 0.14, hue + 195).join(", ")})`;
}

/**
 * A shade to write on, as "rgb(r, g, b)": of the panel's own lightness at t = 0, and in even steps of OKLCH lightness to a
 * strong colour at t = 1, on which ink is still readable (4.5:1).
 */
export function shade(t: number, hue: number, dark: boolean): string {
  const at = Math.min(Math.max(t, 0), 1);
  const lightness = dark ? 0.215 + 0.255 * at : 1 - 0.25 * at;
  return `rgb(${oklch(lightness, (dark ? 0.095 : 0.135) * at, hue).join(", ")})`;
}

/** The colour of a code by its shade from 0 to 1: each codebook has a hue, which turns a little from its dark to its light codes. */
export function codeColour(book: number, shade: number, dark: boolean): Colour {
  const lightness = dark ? 0.3 + 0.55 * shade : 0.42 + 0.5 * shade;
  return oklch(lightness, 0.06 + 0.11 * Math.sin(Math.PI * (0.15 + 0.7 * shade)), 195 + 31 * book + 40 * shade);
}

/** OKLCH to sRGB, clipped. Ottosson 2020, "A perceptual color space for image processing". */
function oklch(lightness: number, chroma: number, hue: number): Colour {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((c) => {
    const light = Math.min(Math.max(c, 0), 1);
    return Math.round(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055));
  }) as Colour;
}
