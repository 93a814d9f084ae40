/** Entry point of the page of sounds, a program of its own: such a page carries none of the explorer. */

import "./style.css"; // first: what the views say of themselves comes after
import { render } from "preact";
import { openListening } from "./core/listening";
import { pairsOf } from "./core/url-state";
import { chooseTheme, followTheme } from "./ui/theme";
import { ListeningPage } from "./views/listen";

async function open(): Promise<void> {
  const root = document.getElementById("app");
  if (!root) throw new Error("The page has no element #app to draw in.");
  followTheme();
  const listening = await openListening();
  document.title = `${listening.title} · glassformer`;
  render(<ListeningPage listening={listening} />, root);
  const linkTheme = pairsOf(location.hash).get("theme");
  if (linkTheme) chooseTheme(linkTheme);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => void open());
else void open();
