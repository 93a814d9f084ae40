/** State of the explorer's sound view: the transcription, its player, and the passes behind its windows. */

import { computed, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { clock } from "../../core/format";
import { type Progress, type Session, UserError, type ViewProps } from "../../core/types";

import { type Inside, Player } from "./player";
import * as views from "../../core/views";

export class SoundStore implements Inside {
  /** Null until the recording is transcribed. */
  readonly player: Signal<Player | null> = signal(null);
  /** Progress of what is under way, in words; null where nothing is. */
  readonly progress: Signal<{ text: string; at: Progress } | null> = signal(null);
  readonly busy: ReadonlySignal<boolean> = computed(() => this.progress.value !== null);
  /** Why there is no transcript; a sentence. */
  readonly problem: Signal<string | null> = signal(null);
  private readonly passes = new Map<number, Session>();
  private readonly abort = new AbortController();

  constructor(private readonly props: ViewProps) {}

  /** Transcribe, when the view first comes on screen. */
  async startOnce(): Promise<void> {
    if (this.player.peek() || this.busy.peek()) return;
    const { transport, session, state } = this.props;
    this.problem.value = null;
    const tell = (at: Progress) => (this.progress.value = { text: at.of ? `Transcribing: ${clock(at.done, 0)} of ${clock(at.of, 0)}` : "Transcribing", at });
    tell({ done: 0, of: 0 });
    try {
      const transcript = await transport.transcribe(session, tell, this.abort.signal);
      const player = new Player(transcript, this);
      const { word, head } = state.peek().sound;
      if (word !== null && word < transcript.words.length) player.point(word);
      player.head.value = Math.min(head, (transcript.attention[0]?.heads.length ?? 1) - 1);
      this.player.value = player;
      if (transcript.playable) player.load(await transport.recording());
    } catch (error) {
      if (!(error instanceof UserError) || error.kind === "unreachable" || error.kind === "token") this.props.refuse(error);
      else this.problem.value = error.message;
    } finally {
      this.progress.value = null;
    }
  }

  /** Open the arithmetic of an alignment head in the pass over the window on screen. */
  async open(pair: number, row: number, time: number | null): Promise<void> {
    const player = this.player.peek();
    const alignment = player?.alignment.peek();
    if (!player?.transcript.heads || !alignment || this.busy.peek()) return;
    const { transport, adopt, say } = this.props;
    const [layer, head] = player.transcript.heads.pairs[pair];
    const query = alignment.queries[row];
    const frame = (seconds: number) => Math.round((seconds - alignment.begin) * alignment.rate * alignment.pool);
    try {
      const session = await this.pass(player.transcript.attention.indexOf(alignment));
      const map = session.maps.find(({ queries, keys }) => queries !== keys)!;
      const path = alignment.paths[pair + 1] ?? alignment.paths[0];
      const key = time === null ? strongest((await views.row(transport, session, map.name, layer, head, query)).probs, frame(path[row]), frame(path[row + 1])) : frame(time);
      player.pause();
      const text = (row: number) => session.streams[map.queries][row]?.text ?? "";
      say(`The decoder looks for the sound of “${alignment.texts[row]}” at the token before it, “${text(query)}”.`);
      adopt(session, { view: "neuron", map: map.name, layers: [layer, layer], heads: [head], mix: "each", query, key });
    } catch (error) {
      if (error instanceof UserError && error.kind === "gone") this.passes.clear(); // it is run again when it is wanted next
      this.props.refuse(error);
    } finally {
      this.progress.value = null;
    }
  }

  /** Open the head view at the frame of a time: a model of letters has one pass, over the whole recording. */
  openFrame(time: number): void {
    const { session, set } = this.props;
    const [map] = session.maps;
    const query = session.streams[map.queries].findLastIndex(({ text }) => parseFloat(text) <= time + 1e-6); // a frame is named by its time
    set({ view: "head", map: map.name, query: Math.max(query, 0), key: null });
  }

  /** The pass over a window and what was heard there. */
  private async pass(window: number): Promise<Session> {
    const tell = (at: Progress) => (this.progress.value = { text: at.of ? `Running the model over this window: block ${at.done} of ${at.of}` : "Running the model over this window", at });
    tell({ done: 0, of: 0 });
    const session = this.passes.get(window) ?? (await this.props.transport.listen(window, tell, this.abort.signal));
    this.passes.set(window, session);
    return session;
  }

  /** Put what is chosen into the address. */
  link(): void {
    const player = this.player.value;
    if (!player) return;
    const [word, head] = [player.word.value, player.head.value];
    const before = this.props.state.peek().sound;
    if (word !== before.word || head !== before.head) this.props.set({ sound: { word, head } });
  }

  close(): void {
    this.abort.abort();
    this.player.peek()?.pause();
  }
}

/** The key with the largest probability from one to before another. */
function strongest(probs: ArrayLike<number>, from: number, to: number): number {
  let best = Math.min(from, probs.length - 1);
  for (let key = best; key < Math.min(to, probs.length); key++) if (probs[key] > probs[best]) best = key;
  return best;
}
