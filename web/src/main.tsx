/** Entry point of a page that is saved, and of one in a notebook: chooses where its numbers come from, and draws it. */

import "./style.css"; // first: what the views say of themselves comes after
import { render } from "preact";
import { hasInline, InlineTransport } from "./core/inline-transport";
import { pairsOf } from "./core/url-state";
import { openExplorer, servedTransport, whenReady } from "./ui/open";
import { chooseTheme, followTheme } from "./ui/theme";
import { SoundPage } from "./views/sound";
import { hasTranscript, openTranscript } from "./views/sound/transcript";

async function openSound(root: Element): Promise<void> {
  const linkTheme = pairsOf(location.hash).get("theme");
  followTheme();
  const transcript = await openTranscript();
  document.title = `${transcript.name} · glassformer`;
  render(<SoundPage transcript={transcript} />, root);
  if (linkTheme) chooseTheme(linkTheme);
}

whenReady(async (root) => (hasTranscript() ? openSound(root) : openExplorer(root, hasInline() ? new InlineTransport() : await servedTransport())));
