/** The data of a page: unpacked, and each line with its own x values. */

import type { PackedPage, PageData } from "./types";

/** base64(zlib(JSON)) → data */
export async function unpacked(text: string): Promise<PageData> {
  const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return withAxes((await new Response(inflated).json()) as PackedPage);
}

export function withAxes({ axes, ...page }: PackedPage): PageData {
  const values = axes.map((axis) => {
    const [first] = axis;
    if (!Array.isArray(first)) return axis as number[];
    const [from, distance, count] = first;
    return Array.from({ length: count }, (_, i) => from + i * distance);
  });
  for (const report of page.reports)
    for (const chart of report.charts) if (chart.type === "series") for (const line of chart.lines) line.x = values[line.x as unknown as number];
  return page;
}
