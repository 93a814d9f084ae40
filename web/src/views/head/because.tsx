/** Why the head on screen is there: its share of the output that Attribution explains. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { attributionOf } from "../../core/readings";
import type { ViewProps } from "../../core/types";
import { useAnswer } from "../../ui/answer";
import { causeRequest, causeSentence, followsStrongest, headPlace, strongestHeads } from "../../core/cause";

export const Because = (props: ViewProps) => (props.state.value.cause ? <Share {...props} /> : null);

function Share(props: ViewProps) {
  const { session, state, set, transport } = props;
  const steps = transport.host === "page" ? {} : { steps: 1 }; // shares of heads need no more
  const [frame, waiting] = useAnswer(props, "attribution", { ...causeRequest(state.value), ...steps }, "Finding the head with the largest share…");
  const found = frame && attributionOf(frame);
  useEffect(() => {
    const now = state.peek(), [part] = found && followsStrongest(now, session) ? strongestHeads(found) : [];
    if (part) set({ ...headPlace(session, found!, part), cause: now.cause });
  }, [frame]);
  return (
    <div class="because hint">
      {found ? <span role="status">{causeSentence(found, session, state.value)}</span> : waiting}{" "}
      <button class="quiet" onClick={() => set({ view: "attribution" })}>Attribution</button>
    </div>
  );
}

/** A view of one head, below why this one. */
export const explained = <Props extends ViewProps>(View: (props: Props) => ComponentChildren) => (props: Props) => <><Because {...props} /><View {...props} /></>;
