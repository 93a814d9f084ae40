/** Entry point of the page that a server sends: its views are loaded when they are opened. */

import { openExplorer, servedTransport, whenReady } from "./ui/open";

whenReady(async (root) => openExplorer(root, await servedTransport()));
