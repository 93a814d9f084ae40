/** A view whose file is in a saved page, or is loaded when it is first opened. */

import { useEffect, useState } from "preact/hooks";
import { SERVER_GONE } from "../core/http-transport";
import { UserError } from "../core/types";
import type { ViewModule, WorkProps } from "./view-module";

/** The views that are here, by name: the file of each puts it there. */
export const LOADED: Record<string, ViewModule> = {};

/**
 * The component of a view whose file is fetched when it is first drawn, unless it is here.
 *
 * @param load Imports the file.
 */
export function later(name: string, load: () => Promise<unknown>): ViewModule["Component"] {
  return function Later(props: WorkProps) {
    const [view, setView] = useState(LOADED[name]);
    useEffect(() => {
      const refused = (error: unknown) => props.refuse(error instanceof TypeError ? new UserError(SERVER_GONE, "unreachable") : error);
      if (!view) load().then(() => setView(LOADED[name]), refused);
    }, []);
    return view && <view.Component {...props} />;
  };
}
