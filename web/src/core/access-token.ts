/**
 * Access token of the local server: it comes in the printed URL, stays with the tab, and is in no copied link.
 *
 *     #token=… ──> sessionStorage ──> the header of every call
 *                        └── lent to a tab of the same origin that asks: a copied link opens in a new tab
 */

import { setFragment, storeItem, storedItem } from "./browser";

const NAME = "glassformer-key";
/** How long to wait for another tab, in ms. */
const TIMEOUT = 150;

/** Take the key out of the address, or find it; null where there is none. */
export async function takeToken(): Promise<string | null> {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) setFragment("replaceState", location.hash.slice(1).split("&").filter((pair) => !pair.startsWith("token=")).join("&"));
  const stored = token ?? storedItem("sessionStorage", NAME) ?? (await requestToken());
  if (stored !== null) {
    storeItem("sessionStorage", NAME, stored);
    shareToken(stored);
  }
  return stored;
}

function requestToken(): Promise<string | null> {
  const channel = new BroadcastChannel(NAME);
  return new Promise<string | null>((resolve) => {
    channel.onmessage = ({ data }: MessageEvent<{ key?: string }>) => data.key && resolve(data.key);
    channel.postMessage({});
    setTimeout(() => resolve(null), TIMEOUT);
  }).finally(() => channel.close());
}

function shareToken(key: string): void {
  const channel = new BroadcastChannel(NAME);
  channel.onmessage = ({ data }: MessageEvent<{ key?: string }>) => data.key === undefined && channel.postMessage({ key });
}
