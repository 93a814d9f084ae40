/** Application state: the session, the URL state, the overviews that have arrived, and messages to the user. */

import { batch, computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { setFragment } from "./browser";
import { isAt, placeOf } from "./findings";
import { mapOf, packTexts, pairsOf, parseState, clampState, unpackTexts, formatState, windowOf } from "./url-state";
import { type Overview, type Progress, type RowLabel, UserError, type Session, type State, type Transport } from "./types";
import * as views from "./views";

/** An error message that stays until it is dealt with. */
export interface ErrorNotice {
  kind: UserError["kind"];
  message: string;
}

/** Overviews fetched in parallel. */
const AT_ONCE = 3;

const numbers = new WeakMap<Session, number>();
let opened = 0;

/** A key of a session for what asks it only once: run again, it is another, and what was refused is asked again. */
export function sessionKey(session: Session): string {
  if (!numbers.has(session)) numbers.set(session, opened++);
  return `${session.id} ${numbers.get(session)}`;
}

export const overviewKey = (map: string, layer: number) => `${map}/${layer}`;

/** Another head on screen is there for no reason that was told, unless the change has one. */
const uncaused = (change: Partial<State>): Partial<State> => ("map" in change || "layers" in change || "heads" in change ? { cause: "", ...change } : change);

export class Store {
  /** The session on screen; null until the first one is ready. */
  readonly session: Signal<Session | null> = signal(null);
  /** Progress of the running forward pass; null when none is running. */
  readonly progress: Signal<Progress | null> = signal(null);
  readonly obstacle: Signal<ErrorNotice | null> = signal(null);
  /** One line that goes away when it is closed or the state changes by hand. */
  readonly notice: Signal<string | null> = signal(null);
  readonly announcement: Signal<string> = signal("");
  readonly overviews: Signal<ReadonlyMap<string, Overview>> = signal(new Map());
  readonly refining: Signal<boolean> = signal(false);
  /** A lesson asks a question, and the view would show its answer. */
  readonly asked: Signal<boolean> = signal(false);
  /** The texts before tokens of them were masked; null while none is. */
  readonly unmasked: Signal<string[] | null> = signal(null);
  readonly state: ReadonlySignal<State>;

  private readonly current: Signal<State | null> = signal(null);
  /** The texts as a link carries them; null while they are those that the page was opened with. */
  private packed: string | null = null;
  private openedWith: string | null = null;
  /** The row that a link led from, and its texts: of others, its label says nothing. */
  private labelled: { texts: string; row: RowLabel } | null = null;
  private loading = new AbortController();
  private running = new AbortController();

  constructor(readonly transport: Transport) {
    // Views are drawn only when there is a session, and with the session comes a state.
    this.state = computed(() => this.current.value as State);
  }

  /** Run the model on what the address asks for, or on the text that the program was started with. */
  async start(): Promise<void> {
    window.addEventListener("popstate", () => void this.follow());
    await this.runLink(pairsOf(location.hash));
  }

  /** Run the model on the texts that a link carries, or the part of a recording; on none: what the program was started with. */
  private async runLink(pairs: URLSearchParams): Promise<void> {
    const packed = pairs.get("x");
    const texts = packed ? await unpackTexts(packed) : null;
    await this.run(texts, windowOf(pairs));
    if (packed && !texts) this.tell(["the text in this link cannot be read: showing the text the program was started with"]);
  }

  /** Run the model on the texts with a token of them hidden. */
  async mask(texts: string[]): Promise<void> {
    const before = this.unmasked.value ?? this.session.value?.texts ?? null;
    await this.run(texts);
    if (this.session.value?.texts.join("\0") === texts.join("\0")) this.unmasked.value = before;
  }

  /** Run the model on the texts as they were before anything was hidden. */
  async unmask(): Promise<void> {
    if (this.unmasked.value) await this.run(this.unmasked.value);
  }

  /** Run the model on texts, or on a window of their recording; what is on screen stays until the new pass is ready. */
  async run(texts: string[] | null, window: number | null = null): Promise<void> {
    this.running.abort();
    const { signal } = (this.running = new AbortController());
    this.progress.value = { done: 0, of: 0 };
    try {
      const tell = (at: Progress) => !signal.aborted && (this.progress.value = at);
      const opened = await this.transport.run(texts, tell, signal);
      const part = window !== null && opened.model.can_transcribe ? await this.part(window, tell, signal) : null;
      if (signal.aborted) return;
      const session = part ?? opened;
      const location = JSON.stringify(session.texts);
      if (texts === null) this.openedWith = location;
      const packed = location === this.openedWith || this.transport.host === "page" ? null : await packTexts(session.texts);
      if (!signal.aborted) this.open(session, packed);
    } catch (error) {
      if (!signal.aborted) this.refuse(error);
    } finally {
      if (!signal.aborted) this.progress.value = null;
    }
  }

  /** The session of a window of the recording; null, and a notice, where there is none. */
  private async part(window: number, tell: (at: Progress) => void, signal: AbortSignal): Promise<Session | null> {
    try {
      return await this.transport.listen(window, tell, signal);
    } catch (error) {
      if (!signal.aborted) setTimeout(() => this.refuse(error)); // after the session in its place is on screen
      return null;
    }
  }

  /** Change some of the state; the address follows: a new entry in the history for a new view, else the same one. */
  set(change: Partial<State>): void {
    const session = this.session.value;
    const before = this.current.value;
    if (!session || !before) return;
    if (change.view && !session.views.includes(change.view)) {
      this.refuse(new UserError(`This page does not show the view ${change.view}. A page of all views: ${session.look} --html page.html`, "absent"));
      return;
    }
    const after = clampState({ ...before, ...uncaused(change) }, session);
    this.current.value = after;
    if (after.view !== before.view) this.say(""); // what was said of the view before
    this.address(after.view === before.view ? "replaceState" : "pushState");
    if (after.map !== before.map) void this.load();
  }

  /** Look at a pass that is there already, in a state changed by this. */
  async adopt(session: Session, change: Partial<State>): Promise<void> {
    const location = JSON.stringify(session.texts);
    const packed = location === this.openedWith || this.transport.host === "page" ? null : await packTexts(session.texts);
    batch(() => {
      this.packed = packed;
      this.overviews.value = new Map();
      this.current.value = clampState({ ...this.state.value, ...uncaused(change) }, session);
      this.session.value = session;
    });
    this.address("pushState");
    void this.load();
  }

  /** Compute every row of the layers that are drawn from a sample. */
  async refine(): Promise<void> {
    this.refining.value = true;
    await this.load(true);
    this.refining.value = false;
  }

  say(sentence: string): void {
    this.announcement.value = sentence;
  }

  refuse(error: unknown): void {
    if (error instanceof DOMException && error.name === "AbortError") return;
    if (!(error instanceof UserError)) console.error(error);
    const message = error instanceof Error ? error.message : String(error);
    if (error instanceof UserError && ["token", "gone", "unreachable"].includes(error.kind)) this.obstacle.value = { kind: error.kind, message };
    else this.notice.value = message;
  }

  /** The link to this state, without the access token. */
  link(): string {
    return `${location.origin === "null" || location.protocol === "file:" ? location.href.split("#")[0] : location.origin + location.pathname}#${this.fragment}`;
  }

  private open(session: Session, packed: string | null): void {
    const before = this.current.value;
    const location = JSON.stringify(session.texts);
    const { state, notices } = before ? { state: clampState(this.moved(before, session), session), notices: [] } : parseState(this.requested(session), session);
    if (before) state.row = this.rowOf(location);
    else if (state.row) this.labelled = { texts: location, row: state.row };
    batch(() => {
      this.packed = packed;
      this.obstacle.value = null;
      this.unmasked.value = null;
      this.overviews.value = new Map();
      this.current.value = state;
      this.session.value = session;
      this.notice.value = null;
      this.tell(notices);
    });
    this.address("replaceState");
    void this.load();
  }

  private rowOf(texts: string): RowLabel | null {
    if (!this.labelled) return null;
    return this.labelled.texts === texts ? this.labelled.row : { ...this.labelled.row, true: "", said: "", changed: true };
  }

  /** From a finding in the text before, on to the first in this one. */
  private moved(state: State, session: Session): State {
    const [first] = session.opening.findings;
    const atFinding = this.session.value?.opening.findings.some((finding) => isAt(state, finding));
    return atFinding && first ? { ...state, ...placeOf(first) } : state;
  }

  /** What to open with: the address, or what a standalone page was saved with. */
  private requested(session: Session): URLSearchParams {
    const pairs = pairsOf(location.hash);
    return pairs.has("v") || pairs.has("tour") ? pairs : pairsOf(session.start ?? "");
  }

  /** Back, forward, or another fragment typed in. */
  private async follow(): Promise<void> {
    const session = this.session.value;
    if (!session) return;
    const pairs = pairsOf(location.hash);
    const packed = pairs.get("x");
    this.notice.value = null;
    const moved = packed !== this.packed || windowOf(pairs) !== (session.heard?.window ?? null);
    if (moved && this.transport.host === "server") await this.runLink(pairs);
    const { state, notices } = parseState(pairs, this.session.value ?? session);
    const map = this.current.value?.map;
    batch(() => {
      this.current.value = state;
      this.tell(notices);
    });
    this.address("replaceState");
    if (state.map !== map) void this.load();
  }

  /** Add to the one line. */
  private tell(sentences: string[]): void {
    const all = [this.notice.value, ...sentences].filter((sentence) => sentence !== null);
    if (all.length) this.notice.value = all.join("; ");
  }

  private address(how: "replaceState" | "pushState"): void {
    setFragment(how, this.fragment);
  }

  private get fragment(): string {
    return formatState(this.state.value, this.packed, this.session.value?.heard?.window);
  }

  /** Fetch the overviews of the map on screen, the layers on screen first; `exact`: those that are samples, with every row. */
  private async load(exact = false): Promise<void> {
    const session = this.session.value;
    if (!session) return;
    this.loading.abort();
    const { signal } = (this.loading = new AbortController());
    const { map: name, layers: [first, last] } = this.state.value;
    const target = (layer: number) => {
      const cached = this.overviews.value.get(overviewKey(name, layer));
      return !cached || (exact && cached.rows_used < cached.rows_total);
    };
    const shown = (layer: number) => (layer >= first && layer <= last ? 0 : 1);
    const layers = Array.from({ length: mapOf(session, name).layers }, (_, layer) => layer).filter(target).sort((a, b) => shown(a) - shown(b) || a - b);
    const fetchNext = async () => {
      const layer = layers.shift();
      if (layer === undefined || signal.aborted) return false;
      try {
        const overview = await views.overview(this.transport, session, name, layer, exact, signal);
        if (!signal.aborted) this.overviews.value = new Map(this.overviews.value).set(overviewKey(name, layer), overview);
        return !signal.aborted;
      } catch (error) {
        layers.length = 0;
        if (!signal.aborted) this.refuse(error);
        return false;
      }
    };
    const fetchAll = async () => {
      while (await fetchNext());
    };
    // The first alone, so that there is something to see soon; the others side by side, so that one paint shows several.
    // Every row of a long text is work enough for the server to take one layer at a time.
    await fetchNext();
    await Promise.all(Array.from({ length: exact ? 1 : AT_ONCE }, fetchAll));
  }
}
