/** What is said of a server that has ended: the page stays, and the command that started it starts it again; line: another, where none is known. */

import { SERVER_GONE, startedBy } from "../core/served-page";
import { Command } from "./command";

export function ServerGone({ line: other = "" }: { line?: string }) {
  const line = startedBy() || other;
  return <>{SERVER_GONE} What is on screen stays. {line ? <>Start it again with: <Command line={line} /></> : "Start it again as before."}</>;
}
