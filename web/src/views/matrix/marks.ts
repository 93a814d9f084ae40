/** Overlay of the heat map: hover, keyboard cursor and pinned cell. */

import { visible } from "../../core/format";
import type { HeatmapController, Cell } from "./heatmap-controller";
import { type Ink, plate } from "./draw";
import type { Size } from "./geometry";
import type { Rectangle } from "./input-handlers";
import type { Gutter } from "./layout";

/** Bands along the row and the column under the pointer, the pinned cell, the keyboard's cell, the rectangle to zoom into. */
export function marks(pen: CanvasRenderingContext2D, controller: HeatmapController, size: Size, gutter: Gutter, rectangle: Rectangle | null, fitted: (text: string) => string, ink: Ink) {
  const { view, matrix } = controller;
  const { x: left, y: top, cell } = view.value;
  const { query, key } = controller.props.state.value;
  const width = Math.min(controller.plot.value.width, (matrix.width - left) * cell.width);
  const height = Math.min(controller.plot.value.height, (matrix.height - top) * cell.height);
  pen.clearRect(0, 0, size.width, size.height);
  pen.save();
  pen.translate(gutter.left, gutter.top);
  // A cell of less than three pixels is marked around its middle.
  const [across, down] = [Math.max(cell.width, 3), Math.max(cell.height, 3)];
  const x = (column: number) => (column - left + 0.5) * cell.width - across / 2;
  const y = (row: number) => (row - top + 0.5) * cell.height - down / 2;
  const visibleRow = (row: number) => y(row) + down > 0 && y(row) < height;
  const visibleColumn = (column: number) => x(column) + across > 0 && x(column) < width;

  pen.save();
  pen.beginPath();
  pen.rect(0, 0, width, height);
  pen.clip();
  const frame = ({ row, column }: Cell, dash: number[], colour: string) => {
    for (const [line, style] of [[4, ink.paper], [2, colour]] as const) {
      pen.lineWidth = line;
      pen.strokeStyle = style;
      pen.setLineDash(style === colour ? dash : []);
      pen.strokeRect(x(column), y(row), across, down);
    }
    pen.setLineDash([]);
  };
  const band = (row: number | null, column: number | null, colour: string) => {
    pen.lineWidth = 1;
    for (const [shift, style] of [[0, colour], [1, ink.paper]] as const) {
      pen.strokeStyle = style;
      pen.globalAlpha = shift ? 0.6 : 0.9;
      if (row !== null) pen.strokeRect(-9, y(row) - 0.5 - shift, width + 18, down + 1 + 2 * shift);
      if (column !== null) pen.strokeRect(x(column) - 0.5 - shift, -9, across + 1 + 2 * shift, height + 18);
    }
    pen.globalAlpha = 1;
  };
  if (query !== null || key !== null) band(query, key, ink.accent);
  const hover = controller.hover.value;
  if (hover) band(hover.row, hover.column, ink.ink);
  if (query !== null && key !== null) frame({ row: query, column: key }, [], ink.accent);
  if (controller.focused.value) frame(controller.cursor.value, [4, 3], ink.ink);
  if (rectangle) {
    const { x0, y0, x1, y1 } = rectangle;
    pen.fillStyle = ink.accent;
    pen.globalAlpha = 0.18;
    pen.fillRect(x0, y0, x1 - x0, y1 - y0);
    pen.globalAlpha = 1;
    pen.strokeStyle = ink.accent;
    pen.lineWidth = 1.5;
    pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
  }
  pen.restore();

  const label = (position: number, text: string, edge: "row" | "column") => {
    const at = { text: fitted(text), position };
    if (edge === "row" && visibleRow(position)) plate(pen, { ...at, x: -8, y: y(position) + down / 2 }, edge, ink);
    if (edge === "column" && visibleColumn(position)) plate(pen, { ...at, x: x(position) + across / 2, y: -8 }, edge, ink);
  };
  const position = hover ?? (controller.focused.value ? controller.cursor.value : null);
  const row = position?.row ?? query;
  const column = position?.column ?? key;
  if (row !== null && row !== undefined) label(row, visible(controller.queries[row].text), "row");
  if (column !== null && column !== undefined) label(column, visible(controller.keys[column].text), "column");
  pen.restore();
}
