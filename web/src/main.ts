/** Entry point of the explorer: chooses where its numbers come from, and draws it. Its views are files of their own. */

import { hasInline, InlineTransport } from "./core/inline-transport";
import { LOADED } from "./ui/later";
import { openExplorer, servedTransport, whenReady } from "./ui/open";
import { hasTranscript } from "./views/sound/transcript";

whenReady(async (root) => (hasTranscript() ? LOADED.sound.alonePage!(root) : openExplorer(root, hasInline() ? new InlineTransport() : await servedTransport())));
