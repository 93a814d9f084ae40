/**
 * The key to the program: it comes in the printed address, stays with the tab, and is in no link.
 *
 *     #token=… ──> sessionStorage ──> the header of every call
 *                        └── lent to a tab of the same origin that asks: a copied link opens in a new tab
 */

import { address, keep, kept } from "./browser";
import { pairsOf } from "./state";

const NAME = "glassformer-key";
/** How long to wait for another tab, in ms. */
const PATIENCE = 150;

/** Take the key out of the address, or find it; null where there is none. */
export async function takeKey(): Promise<string | null> {
  const given = pairsOf(location.hash).get("token");
  if (given !== null) address("replaceState", location.hash.slice(1).split("&").filter((pair) => !pair.startsWith("token=")).join("&"));
  const key = given ?? kept("sessionStorage", NAME) ?? (await borrow());
  if (key !== null) {
    keep("sessionStorage", NAME, key);
    lend(key);
  }
  return key;
}

function borrow(): Promise<string | null> {
  const channel = new BroadcastChannel(NAME);
  return new Promise<string | null>((resolve) => {
    channel.onmessage = ({ data }: MessageEvent<{ key?: string }>) => data.key && resolve(data.key);
    channel.postMessage({});
    setTimeout(() => resolve(null), PATIENCE);
  }).finally(() => channel.close());
}

function lend(key: string): void {
  const channel = new BroadcastChannel(NAME);
  channel.onmessage = ({ data }: MessageEvent<{ key?: string }>) => data.key === undefined && channel.postMessage({ key });
}
