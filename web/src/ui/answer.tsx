/** The answer of a view's function, and what is shown until it is there. */

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { BinaryFrame } from "../core/binary-frame";
import { type Progress, saidInPlace, type ViewProps } from "../core/types";
import { Told } from "./command";

/**
 * Ask a view of explorer/registry.py when it is shown, and again for another session or request.
 *
 * @param request Its fields; of a page that is saved only the requests are there that were asked for, or made of defaults.
 * @param words What is shown while it computes.
 * @returns The frame, once it is there: arrays by name, and `header` with the other keys; and what to show until then, or where it was refused.
 */
export function useAnswer({ transport, session, refuse }: ViewProps, name: string, request: object, words: string): [BinaryFrame | null, ComponentChildren] {
  const frame = useSignal<BinaryFrame | null>(null);
  const problem = useSignal<string | null>(null);
  const progress = useSignal<Progress>({ done: 0, of: 0 });
  useEffect(() => {
    const asked = new AbortController();
    const { signal } = asked;
    frame.value = problem.value = null;
    transport.view(name, session, request, { progress: (at) => !signal.aborted && (progress.value = at), signal }).then(
      (answer) => !signal.aborted && (frame.value = answer),
      (error) => {
        if (!signal.aborted) problem.value = saidInPlace(error, refuse);
      },
    );
    return () => asked.abort();
  }, [session, name, JSON.stringify(request)]);
  const { done, of } = progress.value;
  if (problem.value) return [null, <p class="reading-problem" role="alert"><Told text={problem.value} /></p>];
  if (frame.value) return [frame.value, null];
  return [null, <p class="reading-waiting" role="status">{words} {of > 0 && <progress max={of} value={done} aria-label="Done" />}</p>];
}
