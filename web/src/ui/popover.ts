/** Where a menu opens: below its button, or above one at the foot of the screen, and within it. */

const GAP = 6;
const EDGE = 8;
/** About how large one is. */
const [WIDTH, HEIGHT] = [280, 170];

/** Whether one is open: then keys are its own. */
export const isMenuOpen = () => document.querySelector(":popover-open") !== null;

export function placeBelow(menu: HTMLElement | null, button: HTMLElement | null): void {
  if (!menu || !button) return;
  const box = button.getBoundingClientRect();
  const { clientWidth, clientHeight } = document.documentElement;
  const above = box.bottom + HEIGHT > clientHeight && box.top > HEIGHT;
  menu.style.top = above ? "auto" : `${box.bottom + GAP}px`;
  menu.style.bottom = above ? `${clientHeight - box.top + GAP}px` : "auto";
  menu.style.right = `${Math.max(Math.min(clientWidth - box.right, clientWidth - WIDTH - EDGE), EDGE)}px`;
}
