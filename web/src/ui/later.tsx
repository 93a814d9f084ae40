/** A view that is loaded when it is first opened. */

import { useEffect, useState } from "preact/hooks";
import { SERVER_GONE } from "../core/http-transport";
import { UserError } from "../core/types";
import type { ViewModule, WorkProps } from "./view-module";

/**
 * The component of a view whose file is fetched when it is first drawn.
 *
 * @param load Imports the file.
 */
export function later(load: () => Promise<{ view: ViewModule }>): ViewModule["Component"] {
  let loaded: ViewModule | null = null;
  return function Later(props: WorkProps) {
    const [view, setView] = useState(loaded);
    useEffect(() => {
      const refused = (error: unknown) => props.refuse(error instanceof TypeError ? new UserError(SERVER_GONE, "unreachable") : error);
      if (!loaded) load().then((module) => setView((loaded = module.view)), refused);
    }, []);
    return view && <view.Component {...props} />;
  };
}
