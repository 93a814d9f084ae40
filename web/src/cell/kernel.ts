/** In the cell of a notebook a page has no server: `fetch` asks the kernel, by messages through the widget around the frame. */

import type { CellAnswer, CellRequest, ToPage } from "./messages";

const port = new Promise<MessagePort>((resolve) => {
  addEventListener("message", ({ source, ports }) => source === parent && ports.length && resolve(ports[0]));
});
const waiting = new Map<number, { take(answer: CellAnswer): void; end(error: Error): void }>();
let last = 0;

void port.then((opened) => {
  opened.onmessage = ({ data }: MessageEvent<ToPage>) => {
    if ("ended" in data) for (const each of waiting.values()) each.end(new TypeError(data.ended));
    else waiting.get(data.id)?.take(data);
  };
});

// A frame has no address that could say where the page opens.
location.hash = document.documentElement.dataset.start ?? "";

globalThis.fetch = async (target, { method = "GET", body = "", signal } = {}) => {
  const opened = await port;
  signal?.throwIfAborted();
  const id = ++last;
  return new Promise<Response>((resolve, reject) => {
    let controller!: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;
    const send = (request: CellRequest) => opened.postMessage(request);
    const stop = () => {
      if (waiting.delete(id)) send({ id, stop: true });
    };
    const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({ start: (made) => void (controller = made), cancel: stop });
    const end = (error: Error) => {
      waiting.delete(id);
      controller.error(error); // does nothing where the answer is complete
      reject(error);
    };
    const take = ({ status, headers, bytes, more }: CellAnswer) => {
      if (status !== undefined) resolve(new Response(stream, { status, headers }));
      else {
        if (bytes?.byteLength) controller.enqueue(new Uint8Array(bytes));
        if (!more && waiting.delete(id)) controller.close();
      }
    };
    signal?.addEventListener("abort", () => {
      stop();
      end(new DOMException("aborted", "AbortError"));
    });
    waiting.set(id, { take, end });
    send({ id, method, target: String(target), body: String(body) });
  });
};
