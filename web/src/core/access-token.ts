/**
 * Access token of the local server: it comes in the printed URL, stays with the tab, and is in no copied link.
 *
 *     #token=… ──> sessionStorage ──> the header of every call
 *                        └── lent to a tab of the same origin that asks: a copied link opens in a new tab
 *
 * Who types the whole address into a tab that has none, or an old one, changes its fragment alone: the page begins again.
 *
 * A tab that can lend it holds a lock, which goes with the tab: one that asks knows whether an answer will come.
 */

import { setFragment, storeItem, storedItem } from "./browser";

const NAME = "glassformer-key";
/** How long to wait for a tab that holds the key, in ms: one that is busy or asleep answers late. */
const PATIENCE = 20_000;

/** Take the key out of the address, or find it; null where there is none. */
export async function takeToken(): Promise<string | null> {
  const given = () => new URLSearchParams(location.hash.slice(1)).get("token");
  const token = given();
  addEventListener("hashchange", () => {
    const next = given();
    if (next === null || next === stored) return;
    storeItem("sessionStorage", NAME, next); // before another listener writes the address anew
    location.reload();
  });
  if (token !== null) setFragment("replaceState", location.hash.slice(1).split("&").filter((pair) => !pair.startsWith("token=")).join("&"));
  let stored = token ?? storedItem("sessionStorage", NAME);
  stored ??= await requestToken();
  if (stored !== null) {
    storeItem("sessionStorage", NAME, stored);
    shareToken(stored);
  }
  return stored;
}

async function requestToken(): Promise<string | null> {
  if (!(await isHeld())) return null;
  const channel = new BroadcastChannel(NAME);
  return new Promise<string | null>((resolve) => {
    channel.onmessage = ({ data }: MessageEvent<{ key?: string }>) => data.key && resolve(data.key);
    channel.postMessage({});
    setTimeout(() => resolve(null), PATIENCE);
  }).finally(() => channel.close());
}

/** Whether a tab has the key and can lend it. */
async function isHeld(): Promise<boolean> {
  try {
    const { held = [], pending = [] } = await navigator.locks.query();
    return [...held, ...pending].some(({ name }) => name === NAME);
  } catch {
    return false; // a page in a frame without an origin has no locks, and no other tab
  }
}

function shareToken(key: string): void {
  const channel = new BroadcastChannel(NAME);
  channel.onmessage = ({ data }: MessageEvent<{ key?: string }>) => data.key === undefined && channel.postMessage({ key });
  // After the channel: who sees the lock is heard. Until the tab is closed.
  navigator.locks?.request(NAME, { mode: "shared" }, () => new Promise(() => {})).catch(() => {}); // as above
}
