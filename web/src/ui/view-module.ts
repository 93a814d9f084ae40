/** What a view is to the page: its tab, its sentence and its component. Each src/views/NAME.tsx exports one as `view`. */

import type { ReadonlySignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import type { ViewProps } from "../core/types";
import type { LookAt } from "../views/embedding/details";
import type { GenerationStore } from "../views/generate/generation-store";
import type { SoundStore } from "../views/sound/sound-store";

/** What the page gives to every view; most use `ViewProps` alone. */
export interface WorkProps extends ViewProps {
  /** Choice of the attention map, and pinned heads. */
  choice: ComponentChildren;
  pins: ComponentChildren;
  /** Look at other texts. */
  look: LookAt;
  /** Compute overviews exactly that were made from a sample of rows. */
  refine(): void;
  refining: ReadonlySignal<boolean>;
  /** Stores that outlive a change of the view; null where the model has no such view. */
  sound: SoundStore | null;
  generation: GenerationStore | null;
}

export interface ViewModule {
  /** As in explorer/registry.py. */
  name: string;
  /** Text of its tab. */
  title: string;
  /** What one sees, in a sentence. */
  sentence: string;
  /** Takes the whole width, without the navigator of layers and heads. */
  alone?: boolean;
  /** Begins with a sentence of its own, next to what chooses it: the page adds none. */
  leads?: boolean;
  /** Shows attention as squares, each on a scale of its own, whose legend is below. */
  squares?: boolean;
  /** Begins again for each session; otherwise it continues with the next one. */
  fresh?: boolean;
  Component(props: WorkProps): ComponentChildren;
  /** Computes what the view will show first in a state, where that takes long: the transport keeps it. */
  ahead?(props: ViewProps, signal: AbortSignal): Promise<unknown>;
  /** Draws a file of its own, without the explorer. */
  alonePage?(root: Element): Promise<void>;
}
