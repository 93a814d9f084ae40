/** Beginning of the explorer: the app in its element, with the theme of its link. */

import { render } from "preact";
import { takeToken } from "../core/access-token";
import { HttpTransport } from "../core/http-transport";
import { followWhileServed, SERVER_GONE } from "../core/served-page";
import { Store } from "../core/store";
import { type Transport, UserError } from "../core/types";
import { pairsOf } from "../core/url-state";
import { App } from "./app";
import { chooseTheme, followTheme } from "./theme";

/** Asks the server that the page came from, with the access token of its address. */
export const servedTransport = async (): Promise<Transport> => new HttpTransport(await takeToken());

export async function openExplorer(root: Element, transport: Transport): Promise<void> {
  const linkTheme = pairsOf(location.hash).get("theme");
  followTheme();
  const store = new Store(transport);
  render(<App store={store} />, root);
  if (transport.host === "server") followWhileServed(() => store.refuse(new UserError(SERVER_GONE, "unreachable")));
  await store.start();
  const themeName = linkTheme ?? pairsOf(store.session.value?.start ?? "").get("theme");
  if (themeName) chooseTheme(themeName);
}

/** Draw in the element of the page, as soon as it is there, and what stands behind this program in a saved page has run. */
export function whenReady(open: (root: Element) => Promise<void>): void {
  const start = () => {
    const root = document.getElementById("app");
    if (!root) throw new Error("The page has no element #app to draw in.");
    queueMicrotask(() => void open(root));
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
}
