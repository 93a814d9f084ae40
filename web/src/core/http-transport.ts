/** HTTP transport to the local server: views, forward passes and generation by POST, each with the access token. */

import { type BinaryFrame, readFrame } from "./binary-frame";
import type { EmbeddingSource } from "./embedding";
import { LRUCache } from "./lru-cache";
import { SERVER_GONE, remember } from "./served-page";
import { type Description, type Transcript, transcriptOf } from "./transcript";
import { UserError, nullToMinusInfinity } from "./types";
import type { Progress, Session, Transport, TraceLine, GenerationRequest, PageLocation, ViewOptions } from "./types";
import { servedEmbeddings } from "./views";

export class HttpTransport implements Transport {
  readonly host = "server";
  /** Frames of views that took time. */
  private readonly frames = new LRUCache<BinaryFrame>(64e6);

  constructor(private readonly token: string | null) {}

  async run(texts: string[] | null, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session> {
    return this.pass("/runs", texts ? { texts } : {}, progress, signal);
  }

  async view(name: string, session: Session | null, request: object, { progress = () => {}, signal }: ViewOptions = {}): Promise<BinaryFrame> {
    const body = session ? { s: session.id, ...request } : request;
    const key = JSON.stringify([name, body]);
    const cached = this.frames.get(key);
    if (cached) return cached;
    const answer = await this.post(`/view/${name}`, body, signal);
    if (!answer.headers.get("Content-Type")?.startsWith("application/x-ndjson")) return readFrame(await answer.arrayBuffer().catch(unreachable), name);
    const done = await this.ready<{ key: string }>(answer, progress);
    const kept = await this.call(`/frame?${new URLSearchParams({ s: session?.id ?? "", key: done.key })}`, { signal });
    const frame = readFrame(await kept.arrayBuffer().catch(unreachable), name);
    this.frames.set(key, frame, frame.bytes ?? 0);
    return frame;
  }

  async write(request: GenerationRequest, onLine: (line: TraceLine) => void, signal?: AbortSignal): Promise<void> {
    let finished = false;
    for await (const line of lines(await this.post("/write", request, signal))) {
      const message = JSON.parse(line, nullToMinusInfinity) as TraceLine & { error?: string };
      if (message.error) throw new UserError(message.error, "request");
      onLine(message);
      finished ||= "ready" in message;
    }
    if (!finished) throw new UserError(SERVER_GONE, "unreachable");
  }

  async stop(w: string): Promise<void> {
    await (await this.post("/stop", { w })).text();
  }

  async attend(w: string, node: number, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session> {
    return this.pass("/attend", { w, node }, progress, signal);
  }

  async transcribe(_: Session, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Transcript> {
    const about = await this.pass<Description>("/transcribe", {}, progress, signal);
    return transcriptOf(about, async (kind, window) => {
      const answer = await this.call(`/${kind}${kind === "alignment" ? `?window=${window}` : ""}`, { signal });
      return readFrame(await answer.arrayBuffer().catch(unreachable), kind);
    });
  }

  async recording(): Promise<Blob> {
    return (await this.call("/recording")).blob();
  }

  async listen(window: number, progress: (at: Progress) => void, signal?: AbortSignal): Promise<Session> {
    return this.pass("/listen", { window }, progress, signal);
  }

  embeddings(session: Session, stream: string): EmbeddingSource {
    return servedEmbeddings(this, session, stream);
  }

  async page(session: Session, location?: PageLocation, view?: string): Promise<Blob> {
    if (location === "transcript") return (await this.call("/transcript")).blob();
    const parameters: Record<string, string> = location && "w" in location ? { w: location.w, node: String(location.node) } : { s: session.id };
    if (view) parameters.view = view;
    return (await this.call(`/page?${new URLSearchParams(parameters)}`)).blob();
  }

  /** Run a forward pass, or a transcription: progress line by line, and what it gave in the end. */
  private async pass<T = Session>(path: string, parameters: object, progress: (at: Progress) => void, signal?: AbortSignal): Promise<T> {
    return this.ready<T>(await this.post(path, parameters, signal), progress);
  }

  /** The lines of a job: its progress, and what it gave in the end. */
  private async ready<T>(answer: Response, progress: (at: Progress) => void): Promise<T> {
    let ready: T | undefined;
    for await (const line of lines(answer)) {
      const message = JSON.parse(line) as Partial<Progress> & { ready?: T; error?: string };
      if (message.error) throw new UserError(message.error, "request");
      if (message.ready) ready = message.ready; // and read on: a stream left before its end counts as a failed call
      else progress({ done: message.done ?? 0, of: message.of ?? 1 });
    }
    if (ready) return ready;
    throw new UserError(SERVER_GONE, "unreachable");
  }

  private post(path: string, body: object, signal?: AbortSignal): Promise<Response> {
    return this.call(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
  }

  private async call(path: string, options: RequestInit = {}): Promise<Response> {
    const headers = { ...options.headers, ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) };
    // One of several models has a path: /look/NAME, and its API is /api/look/NAME//…; a frame in a notebook has none.
    const { pathname } = location, own = /^\/./.test(pathname) ? `${pathname}/` : "";
    const answer = await fetch(`/api${own}${path}`, { ...options, headers, cache: "no-store" }).then(remember, unreachable);
    if (!answer.ok) throw await errorOf(answer);
    return answer;
  }
}

/** A request without a response: aborted, or the server is gone. */
function unreachable(error: unknown): never {
  if (error instanceof DOMException && error.name === "AbortError") throw error;
  throw new UserError(SERVER_GONE, "unreachable");
}

async function errorOf(answer: Response): Promise<UserError> {
  const body = await answer.text();
  let message = `The program answered with ${answer.status}.`;
  if (answer.headers.get("Content-Type")?.startsWith("application/json")) message = (JSON.parse(body) as { error?: string }).error ?? message;
  return new UserError(message, ({ 401: "token", 410: "gone" } as const)[answer.status] ?? "request");
}

/** The lines of a response as they arrive. */
async function* lines(answer: Response): AsyncGenerator<string> {
  if (!answer.body) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(unreachable);
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    yield* parts.filter((part) => part.trim() !== "");
  }
  if (rest.trim() !== "") yield rest;
}
