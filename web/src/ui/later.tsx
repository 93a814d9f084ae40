/** A view whose file is in a saved page, or is loaded when it is first opened. */

import { useEffect, useState } from "preact/hooks";
import { SERVER_GONE } from "../core/served-page";
import { UserError } from "../core/types";
import type { ViewModule, WorkProps } from "./view-module";

/** The views that are here, by name: the file of each puts it there. */
export const LOADED: Record<string, ViewModule> = {};

const LOADS: Record<string, () => Promise<unknown>> = {};

/** The view, once its file is here; undefined where there is none of that name. Rejects where the file cannot be had. */
export async function preload(name: string): Promise<ViewModule | undefined> {
  if (!LOADED[name]) await LOADS[name]?.();
  return LOADED[name];
}

/** Load the files of views while nothing else is to be done, so that each opens at once, also after the program has ended. */
export async function preloadIdly(names: string[]): Promise<void> {
  for (const name of names) {
    await new Promise((idle) => ("requestIdleCallback" in window ? requestIdleCallback(idle, { timeout: 5000 }) : setTimeout(idle, 200)));
    await preload(name).catch(() => undefined); // it is loaded again when it is opened, and then said why it is not there
  }
}

/**
 * The component of a view whose file is fetched when it is first drawn, unless it is here.
 *
 * @param load Imports the file.
 */
export function later(name: string, load: () => Promise<unknown>): ViewModule["Component"] {
  LOADS[name] = load;
  return function Later(props: WorkProps) {
    const [view, setView] = useState(LOADED[name]);
    const [gone, setGone] = useState(false);
    useEffect(() => {
      const refused = (error: unknown) => {
        setGone(true);
        props.refuse(error instanceof TypeError ? new UserError(SERVER_GONE, "unreachable") : error);
      };
      if (!view) load().then(() => setView(LOADED[name]), refused);
    }, []);
    if (view) return <view.Component {...props} />;
    return gone && <p class="reading-problem">This view was never opened here, so it is not on this page: start the program again, and open the address that it prints.</p>;
  };
}
