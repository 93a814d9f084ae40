/** A page of a server that may have ended: links are followed once it answers, so that the page stays where it does not. */

export const SERVER_GONE = "The program that serves this page has ended.";

let started = "";

/** The command that started the server, as it was typed; "" = none is known, such as where Python serves. */
export const startedBy = (): string => started;

/** Remember the command that an answer of the server names. */
export function remember(answer: Response): Response {
  started = decodeURIComponent(answer.headers.get("X-Command") ?? "") || started;
  return answer;
}

/** The link of this server that a click follows in this tab, to another page; null where it does not. */
function linkOf(event: MouseEvent): HTMLAnchorElement | null {
  const link = (event.target as Element).closest?.("a[href]");
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return null;
  if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download") || link.origin !== location.origin) return null;
  return link.hash && link.pathname === location.pathname && link.search === location.search ? null : link;
}

/** From now on follow links when the server answers; lost: what happens where it does not. */
export function followWhileServed(lost: () => void): void {
  addEventListener("click", (event) => {
    const link = linkOf(event);
    if (!link) return;
    event.preventDefault();
    fetch(link.href, { method: "HEAD", cache: "no-store" }).then(() => location.assign(link.href), lost);
  });
}
