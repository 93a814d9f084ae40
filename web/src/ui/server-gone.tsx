/** What is said of a server that has ended: the page stays, and the command starts it again; line: "" = it is not known. */

import { Command } from "./command";

export const ServerGone = ({ line }: { line: string }) => (
  <>The program that serves this page has ended. What is on screen stays. {line ? <>Start it again with: <Command line={line} /></> : "Start it again as before."}</>
);
