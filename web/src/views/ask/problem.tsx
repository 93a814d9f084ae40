/** Why there is no answer; where the program has ended, the command that starts it again. */

import { sentence } from "../../core/format";
import { UserError } from "../../core/types";
import { ServerGone } from "../../ui/server-gone";

/** Whether there is no program any more: what is on screen stays. */
export const isGone = (error: Error): boolean => error instanceof UserError && error.kind === "unreachable";

export const Problem = ({ error }: { error: Error }) => (
  <div class="ask-problem" role="alert">{isGone(error) ? <ServerGone /> : sentence(error.message)}</div>
);
