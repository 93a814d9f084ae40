/** Entry point: takes the access token from the URL, chooses the transport, and renders the app. */

import "./style.css"; // first: what the views say of themselves comes after
import { render } from "preact";
import { HttpTransport } from "./core/http-transport";
import { hasInline, InlineTransport } from "./core/inline-transport";
import { takeToken } from "./core/access-token";
import { pairsOf } from "./core/url-state";
import { Store } from "./core/store";
import { App } from "./ui/app";
import { chooseTheme, followTheme } from "./ui/theme";
import { SoundPage } from "./views/sound";
import { hasTranscript, openTranscript } from "./views/sound/transcript";

async function open(): Promise<void> {
  const root = document.getElementById("app");
  if (!root) throw new Error("The page has no element #app to draw in.");
  const linkTheme = pairsOf(location.hash).get("theme");
  followTheme();
  if (hasTranscript()) {
    const transcript = await openTranscript();
    document.title = `${transcript.name} · glassformer`;
    render(<SoundPage transcript={transcript} />, root);
    if (linkTheme) chooseTheme(linkTheme);
    return;
  }
  const store = new Store(hasInline() ? new InlineTransport() : new HttpTransport(await takeToken()));
  render(<App store={store} />, root);
  await store.start();
  const themeName = linkTheme ?? pairsOf(store.session.value?.start ?? "").get("theme");
  if (themeName) chooseTheme(themeName);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => void open());
else void open();
