/** Share menu: a card with the finding and the page as a file, to send; an image, a table; and a link for oneself. */

import type { ReadonlySignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { arrow } from "../core/arrow";
import { download } from "../core/browser";
import type { Store } from "../core/store";
import { csv, records } from "../core/csv";
import type { Exports, Session } from "../core/types";
import { Icon } from "./icons";
import { placeBelow } from "./popover";
import { finding, slide, source } from "./slide";

export function Share({ store, session, exports }: { store: Store; session: Session; exports: ReadonlySignal<Exports | null> }) {
  const menu = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  const act = async (work: () => Promise<string>) => {
    menu.current?.hidePopover();
    button.current?.focus();
    try {
      store.say(await work());
    } catch (error) {
      store.refuse(error);
    }
  };
  const copy = async () => {
    await navigator.clipboard.writeText(store.link());
    return "The link is copied. It opens on this computer, while the program runs; send others the file.";
  };
  const page = (view?: string) => async () => {
    store.say("Putting the page together…");
    const file = await store.transport.page!(session, exports.value?.location, view);
    return save(`${[session.model.name, ...(view ? [view] : [])].map(fileName).join("-")}.html`, file);
  };
  const view = (ending: string, make: (shown: Exports) => Blob | Promise<Blob>) => async () => {
    const shown = exports.value;
    if (!shown) return "There is nothing to save yet.";
    return save(`${shown.name}.${ending}`, await make(shown));
  };
  const text = (type: string, content: string) => new Blob([content], { type });

  const nothing = exports.value === null;
  return (
    <>
      <button class="quiet worded" ref={button} popovertarget="share"><Icon name="share" />Share</button>
      <div id="share" class="menu" popover="auto" ref={menu} onBeforeToggle={() => placeBelow(menu.current, button.current)}>
        <p>To send</p>
        <button disabled={nothing} onClick={() => act(view("card.png", async (shown) => slide(await shown.png(), finding(store, session, shown), source(session))))}>Card: the finding, the view, the text (PNG)</button>
        {store.transport.page && <button onClick={() => act(page())}>Save this page as one HTML file, to send</button>}
        {store.transport.page && exports.value?.location !== "transcript" && <button onClick={() => act(page(store.state.value.view))}>Save this view alone, as a smaller file</button>}
        <p>What is on screen</p>
        <button disabled={nothing} onClick={() => act(view("png", (shown) => shown.png()))}>Picture (PNG, twice the size)</button>
        <button disabled={nothing} onClick={() => act(view("svg", (shown) => text("image/svg+xml", shown.svg())))}>Drawing (SVG)</button>
        <button disabled={nothing} onClick={() => act(view("csv", (shown) => text("text/csv", csv(shown.table()))))}>Table (CSV)</button>
        <button disabled={nothing} onClick={() => act(view("arrow", (shown) => new Blob([arrow(shown.table())], { type: "application/vnd.apache.arrow.file" })))}>Table (Arrow)</button>
        <button disabled={nothing} onClick={() => act(view("json", (shown) => text("application/json", about(session, store.link(), shown))))}>Table (JSON)</button>
        <p>On this computer</p>
        <button onClick={() => act(copy)}>Copy a link to exactly this</button>
      </div>
    </>
  );
}

const fileName = (text: string) => text.replace(/[^\w.-]+/g, "-");

function save(name: string, file: Blob): string {
  download(fileName(name), file);
  return `Saved as ${fileName(name)}.`;
}

/** The table with what it was made from. */
function about(session: Session, link: string, shown: Exports): string {
  const { model, texts, text_hash } = session;
  return JSON.stringify({ model: model.name, revision: model.revision, dtype: model.dtype, texts, text_hash, link, rows: records(shown.table()) }, null, 1);
}
