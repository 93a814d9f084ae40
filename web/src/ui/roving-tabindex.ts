/** Roving tabindex: arrow keys move the focus in a grid with one tab stop. Cells carry `data-cell`. */

/** Move the focus by geometry: left and right to the neighbour in order, up and down to the nearest cell of another row. */
export function moveFocus(event: KeyboardEvent): void {
  const grid = event.currentTarget as HTMLElement;
  const cells = [...grid.querySelectorAll<HTMLElement>("[data-cell]")];
  const at = cells.indexOf(document.activeElement as HTMLElement);
  if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  const next = target(event.key, cells, at);
  if (next === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  cells[next].focus();
}

function target(key: string, cells: HTMLElement[], at: number): number | undefined {
  if (key === "ArrowRight") return Math.min(at + 1, cells.length - 1);
  if (key === "ArrowLeft") return Math.max(at - 1, 0);
  if (key === "Home") return 0;
  if (key === "End") return cells.length - 1;
  if (key === "ArrowDown") return beyond(cells, at, 1);
  if (key === "ArrowUp") return beyond(cells, at, -1);
  return undefined;
}

/** The cell nearest to cells[at] in the next row down (1) or up (-1). */
function beyond(cells: HTMLElement[], at: number, direction: 1 | -1): number {
  const here = cells[at].getBoundingClientRect();
  const apart = (box: DOMRect) => direction * (box.top - here.top);
  const boxes = cells.map((cell) => cell.getBoundingClientRect());
  const step = Math.min(...boxes.map(apart).filter((distance) => distance > here.height / 2));
  if (!Number.isFinite(step)) return at;
  let best = at;
  let least = Infinity;
  boxes.forEach((box, index) => {
    const aside = Math.abs(box.left - here.left);
    if (Math.abs(apart(box) - step) < here.height / 2 && aside < least) [best, least] = [index, aside];
  });
  return best;
}
