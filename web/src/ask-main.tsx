/** Entry point of the page of a store of documents, a program of its own: it has no forward pass to begin with. */

import "./style.css"; // first: what the views say of themselves comes after
import { render } from "preact";
import { takeToken } from "./core/access-token";
import { HttpTransport } from "./core/http-transport";
import { pairsOf } from "./core/url-state";
import { chooseTheme, followTheme } from "./ui/theme";
import { AskPage } from "./views/ask";

async function open(): Promise<void> {
  const root = document.getElementById("app");
  if (!root) throw new Error("The page has no element #app to draw in.");
  followTheme();
  const linkTheme = pairsOf(location.hash).get("theme");
  if (linkTheme) chooseTheme(linkTheme);
  render(<AskPage transport={new HttpTransport(await takeToken())} />, root);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => void open());
else void open();
