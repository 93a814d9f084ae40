/** A view that the page has no drawing for, of a plug-in: its report, drawn by the program of reports. */

import { MODULES } from "virtual:views";
import { useEffect, useRef } from "preact/hooks";
import type { Session, ViewProps } from "../core/types";
import type { PackedPage } from "../report/types";
import { useAnswer } from "./answer";

function ReportView(props: ViewProps) {
  const [frame, otherwise] = useAnswer(props, props.state.value.view, {}, "Computing…");
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (frame && place.current) globalThis.glassformerReport?.(place.current, frame.header as unknown as PackedPage);
  }, [frame]);
  return otherwise ?? <div class="report" ref={place} />;
}

/** Make views of what a session lists as reports. */
export function addReportViews(session: Session | null): void {
  for (const [name, words] of Object.entries(session?.reports ?? {})) MODULES[name] ??= { name, ...words, alone: true, fresh: true, Component: ReportView };
}
