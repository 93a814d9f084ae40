/** The page: takes its key from the address, finds out who answers, and shows the explorer. */

import "./style.css"; // first: what the views say of themselves comes after
import { render } from "preact";
import { HttpTransport } from "./core/http";
import { hasInline, InlineTransport } from "./core/inline";
import { takeKey } from "./core/key";
import { pairsOf } from "./core/state";
import { Store } from "./core/store";
import { App } from "./ui/app";
import { chooseTheme, followTheme } from "./ui/theme";

async function open(): Promise<void> {
  const root = document.getElementById("app");
  if (!root) throw new Error("The page has no element #app to draw in.");
  const asked = pairsOf(location.hash).get("theme");
  followTheme();
  const store = new Store(hasInline() ? new InlineTransport() : new HttpTransport(await takeKey()));
  render(<App store={store} />, root);
  await store.start();
  const wanted = asked ?? pairsOf(store.session.value?.start ?? "").get("theme");
  if (wanted) chooseTheme(wanted);
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => void open());
else void open();
