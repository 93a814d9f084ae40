/**
 * Widget of a notebook's cell (anywidget): a page in a sandboxed frame, which the kernel sends and answers by messages.
 *
 *     frame ──port──> here ──model.send──> kernel ──msg:custom and buffers──> here ──port──> frame
 *
 * The frame stands in a shadow root: no style of the notebook reaches it, and none of its own the notebook. A notebook that is
 * saved holds nothing of the page.
 */

import type { CellRequest, ToPage } from "./messages";

/** A model of anywidget. */
interface Model {
  send(content: object): void;
  on(event: string, call: (...values: never[]) => void): void;
  off(event: string, call: (...values: never[]) => void): void;
}

interface Received {
  view: string;
  id: number;
  status?: number;
  headers?: [string, string][];
  more?: boolean;
  failure?: string;
  /** Of the still picture that is saved with the notebook. */
  still?: string;
}

/** How long a kernel may be silent, in ms, before the cell says so. */
const PATIENCE = 10_000;
const SILENT = "The kernel does not answer: it runs another cell, or it has ended. If it has ended, run this cell again.";
const ENDED = "The kernel of this page has ended or was restarted: run this cell again.";
const HEIGHT = 720;

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const host = el.appendChild(document.createElement("div"));
  const root = host.attachShadow({ mode: "open" });
  const frame = document.createElement("iframe");
  frame.sandbox.add("allow-scripts", "allow-downloads", "allow-forms"); // forms: no event without; the policy of the page sends none
  frame.title = "glassformer";
  frame.style.cssText = "width: 100%; height: 100%; display: block; border: 0";
  const box = document.createElement("div");
  box.style.cssText = `height: ${HEIGHT}px; overflow: hidden; resize: vertical`;
  box.append(frame);
  const line = document.createElement("p");
  line.setAttribute("role", "status");
  line.style.cssText = "margin: 4px 0; font: 14px/1.5 system-ui, sans-serif";
  root.append(line, box);

  let view = "";
  let port: MessagePort | null = null;
  let timer = 0;
  let still: HTMLElement | null = null;
  const tell = (sentence: string) => {
    line.textContent = sentence;
    line.hidden = !sentence;
  };
  const post = (content: object) => {
    try {
      model.send({ view, ...content });
    } catch { // "Cannot send": where a kernel has ended, JupyterLab has closed the way to it
      ended();
    }
  };
  const send = (request: CellRequest) => {
    timer ||= window.setTimeout(() => tell(SILENT), PATIENCE);
    post(request);
  };
  const heard = () => {
    clearTimeout(timer);
    timer = 0;
    tell("");
  };
  /** Begin as another view: what this one still waited for is not answered any more. */
  const renew = () => {
    if (view) post({ gone: true });
    view = Math.random().toString(36).slice(2);
  };
  const received = (content: Received, buffers: DataView<ArrayBuffer>[]) => {
    if (content.view !== view) return; // of another view of the same widget
    heard();
    const bytes = buffers.length ? copied(buffers[0]) : undefined;
    if (content.failure) tell(content.failure);
    else if (content.id === 0) {
      frame.srcdoc = new TextDecoder().decode(bytes);
      still = document.querySelector<HTMLElement>(`[data-glassformer="${content.still}"]`);
      if (still) still.hidden = true;
    }
    else port?.postMessage({ ...content, bytes } satisfies ToPage, bytes ? [bytes] : []);
  };
  const ended = () => {
    heard();
    tell(ENDED);
    port?.postMessage({ ended: ENDED } satisfies ToPage);
  };
  frame.addEventListener("load", () => {
    if (!frame.srcdoc) return;
    if (port) renew(); // a frame that is moved in the notebook loads its page again
    const channel = new MessageChannel();
    port = channel.port1;
    port.onmessage = ({ data }: MessageEvent<CellRequest>) => send(data);
    frame.contentWindow?.postMessage(null, "*", [channel.port2]);
  });
  model.on("msg:custom", received);
  model.on("comm_live_update", ended);
  tell("Waiting for the kernel …");
  renew();
  send({ id: 0, target: dark(el) ? "dark" : "light" });
  return () => {
    model.off("msg:custom", received);
    model.off("comm_live_update", ended);
    post({ gone: true });
    clearTimeout(timer);
    if (still) still.hidden = false;
    host.remove();
  };
}

/** The bytes of a buffer, which may be a part of a larger one. */
const copied = (view: DataView<ArrayBuffer>): ArrayBuffer => view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);

/** Is the notebook dark? By the lightness of what is behind the cell. */
function dark(el: HTMLElement): boolean {
  for (let each: Element | null = el; each; each = each.parentElement ?? (each.getRootNode() as ShadowRoot).host ?? null) {
    const [red, green, blue, alpha = 1] = (getComputedStyle(each).backgroundColor.match(/[\d.]+/g) ?? []).map(Number);
    if (alpha > 0.5) return (red + green + blue) / 3 < 128;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

export default { render };
