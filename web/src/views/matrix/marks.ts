/** What lies over the picture and follows the pointer, the keyboard and the pin. */

import { visible } from "../../core/format";
import type { Board, Cell } from "./board";
import { type Ink, plate } from "./draw";
import type { Size } from "./geometry";
import type { Rectangle } from "./hands";
import type { Gutter } from "./scene";

/** Bands along the row and the column under the pointer, the pinned cell, the keyboard's cell, the rectangle to zoom into. */
export function marks(pen: CanvasRenderingContext2D, board: Board, size: Size, gutter: Gutter, rectangle: Rectangle | null, fitted: (text: string) => string, ink: Ink) {
  const { view, matrix } = board;
  const { x: left, y: top, cell } = view.value;
  const { query, key } = board.props.state.value;
  const width = Math.min(board.plot.value.width, (matrix.width - left) * cell.width);
  const height = Math.min(board.plot.value.height, (matrix.height - top) * cell.height);
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
  const hover = board.hover.value;
  if (hover) band(hover.row, hover.column, ink.ink);
  if (query !== null && key !== null) frame({ row: query, column: key }, [], ink.accent);
  if (board.focused.value) frame(board.cursor.value, [4, 3], ink.ink);
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

  const label = (place: number, text: string, edge: "row" | "column") => {
    const at = { text: fitted(text), place };
    if (edge === "row" && visibleRow(place)) plate(pen, { ...at, x: -8, y: y(place) + down / 2 }, edge, ink);
    if (edge === "column" && visibleColumn(place)) plate(pen, { ...at, x: x(place) + across / 2, y: -8 }, edge, ink);
  };
  const place = hover ?? (board.focused.value ? board.cursor.value : null);
  const row = place?.row ?? query;
  const column = place?.column ?? key;
  if (row !== null && row !== undefined) label(row, visible(board.queries[row].text), "row");
  if (column !== null && column !== undefined) label(column, visible(board.keys[column].text), "column");
  pen.restore();
}
