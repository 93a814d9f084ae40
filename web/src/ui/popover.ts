/** Where a menu opens: below its button, and within the screen. */

const GAP = 6;
const EDGE = 8;

export function placeBelow(menu: HTMLElement | null, button: HTMLElement | null): void {
  if (!menu || !button) return;
  const box = button.getBoundingClientRect();
  menu.style.top = `${box.bottom + GAP}px`;
  menu.style.right = `${Math.max(document.documentElement.clientWidth - box.right, EDGE)}px`;
}
