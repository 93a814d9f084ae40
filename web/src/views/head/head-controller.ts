/** Controller of the head view: derives links and selection from state, pointer and loaded data. */

import { type ReadonlySignal, batch, computed, effect, signal } from "@preact/signals";
import { number, rank, visible } from "../../core/format";
import { LRUCache } from "../../core/lru-cache";
import { headColour } from "../../core/palette";
import { mapOf } from "../../core/url-state";
import { typeOf } from "../../core/tokens";
import { type AttentionMap, type Mix, errorHandler, type Row, type Session, type Token, type ViewProps } from "../../core/types";
import { type Column, between, column } from "./columns";
import { type Link, visibleLinks, rowOf, linksOf, otherOf } from "./links";
import { type LinesRequest, Loader } from "./loader";
import * as views from "../../core/views";

export type Side = "query" | "key";

export interface TokenPosition {
  side: Side;
  token: number;
}

/** One head's share of a link, or that of all of them mixed. */
export interface Share {
  lane: number;
  prob: number;
}

/** The least and the largest height of a row. */
const [NARROW, WIDE] = [24, 34];
/** Up to this many keys, all are asked for: then nothing is left out. */
const ALL_KEYS = 64;
const STRONGEST = 32;
/** Lines drawn at once; a frame's worth. */
const LINES = 4000;
/** Maps drawn at once. */
export const MAPS = 256;
/** Rows above and below the screen that are fetched with it. */
const MARGIN = 16;

/** Heads mixed into one map, in words. */
const MIXED: Record<Mix, string> = { each: "", mean: "mean", max: "maximum", weights: "weighted mean", written: "mean by what is written" };

export class HeadController {
  /** Links fainter than this are not drawn. */
  readonly threshold = signal(0.02);
  readonly search = signal("");
  /** Where the pointer, or the focus of the keyboard, is. */
  readonly hover = signal<TokenPosition | null>(null);
  /** The head whose chip is pointed at. */
  readonly preview = signal<number | null>(null);
  /** Where the keyboard is: the token of each column that is in the tab order. */
  readonly cursor = signal<TokenPosition | null>(null);
  /** The keyboard has moved the cursor, and the focus is to follow. */
  moved = false;
  readonly scroll = signal(0);
  readonly size = signal({ width: 0, height: 0 });
  /** Why nothing can be shown, where the lines are not here and do not come. */
  readonly absent = signal<string | null>(null);
  /** The exact row of the query that is looked at, for the head in focus. */
  readonly exact = signal<Row | null>(null);

  readonly loader: Loader;
  private readonly rows = new LRUCache<Row>(256);
  /** What the lines were last asked for. */
  private asked = "";

  constructor(readonly props: ViewProps) {
    this.loader = new Loader(props.transport, props.session, this.failed);
  }

  /** Fetch what is on screen from now on; gives what ends it. */
  start(): () => void {
    const stops = [effect(() => this.fetchLines()), effect(() => this.fetchRow()), () => this.loader.stop()];
    return () => stops.forEach((stop) => stop());
  }

  get session(): Session {
    return this.props.session;
  }

  readonly map: ReadonlySignal<AttentionMap> = computed(() => mapOf(this.session, this.props.state.value.map));
  readonly queryTokens: ReadonlySignal<Token[]> = computed(() => this.session.streams[this.map.value.queries]);
  readonly keyTokens: ReadonlySignal<Token[]> = computed(() => this.session.streams[this.map.value.keys]);

  private readonly special = computed(() => this.props.state.value.special);

  /** How much height the page has for the columns. */
  readonly room = signal(0);
  /** Short texts are wider apart, as far as they fit on the screen. */
  readonly rowHeight = computed(() => {
    const longest = Math.max(this.queryTokens.value.length, this.keyTokens.value.length);
    return Math.min(Math.max(Math.floor(this.room.value / (longest + 2)), NARROW), WIDE);
  });
  readonly queries: ReadonlySignal<Column> = computed(() => column(this.queryTokens.value, this.special.value, this.rowHeight.value));
  readonly keys: ReadonlySignal<Column> = computed(() => column(this.keyTokens.value, this.special.value, this.rowHeight.value));
  readonly contentHeight = computed(() => Math.max(this.queries.value.height, this.keys.value.height));

  /** The types that a link may come from and go to; null: any. */
  private readonly fromTypes = computed(() => types(this.props.state.value.from, true, this.queryTokens.value));
  private readonly toTypes = computed(() => types(this.props.state.value.to, this.special.value, this.keyTokens.value));

  readonly request: ReadonlySignal<LinesRequest> = computed(() => {
    const { map, layers, heads, mix } = this.props.state.value;
    const length = this.keyTokens.value.length;
    const weights = mix === "weights" ? this.weights.value : undefined;
    return { map, layers, heads, mix, weights, count: length <= ALL_KEYS ? length : STRONGEST, keys: this.toTypes.value ?? undefined };
  });
  /** What each of the chosen heads counts in a mix by own weights, from 0 to 1. */
  readonly weights = computed(() => {
    const { heads, chosen } = this.props.state.value;
    const given = weightsIn(chosen.weights);
    return heads.map((head) => given.get(head) ?? 1);
  });
  /** Is there nothing to mix, since no head counts? */
  readonly weightless = computed(() => this.request.value.weights?.every((weight) => weight === 0) ?? false);

  /** Let a head count so much in the mix. */
  weigh(head: number, weight: number): void {
    const { weights, ...others } = this.props.state.peek().chosen;
    const given = weightsIn(weights).set(head, weight);
    const own = [...given].filter(([, each]) => each !== 1).map(([each, share]) => `${each}:${share}`);
    this.props.set({ chosen: own.length ? { ...others, weights: own.join() } : others });
  }

  readonly mapCount = computed(() => (this.request.value.layers[1] - this.request.value.layers[0] + 1) * this.request.value.heads.length);
  /** Mixed heads have one colour and one number. */
  readonly mixed = computed(() => this.request.value.mix !== "each" && this.mapCount.value > 1);

  /** The query and the key that are looked at: pointed at, else pinned. */
  readonly query = computed(() => this.hovered("query", this.props.state.value.query));
  readonly key = computed(() => this.hovered("key", this.props.state.value.key));

  private hovered(side: Side, pinned: number | null): number | null {
    const hover = this.hover.value;
    return hover?.side === side ? hover.token : pinned;
  }

  /** Queries on screen from which links may come. */
  readonly onScreen = computed(() => this.queriesBetween(this.scroll.value, this.scroll.value + this.size.value.height));

  private queriesBetween(top: number, bottom: number): number[] {
    const [first, end] = between(this.queries.value, top, bottom);
    return this.queries.value.tokens.slice(first, end).filter((token) => this.looksFrom(token));
  }

  looksFrom(query: number): boolean {
    return !this.fromTypes.value || this.fromTypes.value.includes(typeOf(this.queryTokens.value[query]));
  }

  looksTo(key: number): boolean {
    return !this.toTypes.value || this.toTypes.value.includes(typeOf(this.keyTokens.value[key]));
  }

  /** Are the lines on screen still those of what was chosen before? */
  readonly stale = computed(() => this.loader.loaded.value !== null && JSON.stringify(this.loader.loaded.value.request) !== JSON.stringify(this.request.value));
  /** Are lines missing that belong on the screen? */
  readonly waiting = computed(() => this.loader.busy.value && (this.stale.value || this.onScreen.value.some((query) => !rowOf(this.chunks.value, query))));

  /** Are the numbers of this query here? Until then none is shown: a link that has not come is not a faint one. */
  knows(query: number): boolean {
    return this.exact.value?.query === query || (!this.stale.value && rowOf(this.chunks.value, query) !== null);
  }

  /** Are those of every query on screen here? */
  readonly complete = computed(() => this.onScreen.value.every((query) => this.knows(query)));

  private readonly chunks = computed(() => this.loader.loaded.value?.chunks ?? new Map());
  /** Which layer and head each lane is; the lanes that have come may be those of a moment ago. */
  readonly members = computed<[layer: number, head: number][]>(() => this.chunks.value.values().next().value?.members ?? []);

  /** The links to draw, the faintest first. */
  readonly visibleLinks = computed(() => {
    const [query, key] = [this.query.value, this.key.value];
    const queries = query !== null ? (this.looksFrom(query) ? [query] : []) : this.onScreen.value;
    const shown = visibleLinks(this.chunks.value, queries, this.threshold.value, LINES);
    if (key === null) return shown;
    if (query === null) return { ...shown, links: shown.links.filter((link) => link.key === key) };
    const pair = this.listed(query).filter((link) => link.key === key && !shown.links.some((other) => other.key === key && other.lane === link.lane));
    return { ...shown, hidden: shown.hidden - pair.length, links: [...pair, ...shown.links] }; // the pair itself is never hidden
  });

  /** The order of heads from top to bottom, whatever the order in which they were chosen. */
  readonly lanes = computed(() => {
    if (this.mixed.value || !this.members.value.length) return new Map([[0, 0]]);
    const heads = [...new Set(this.members.value.map(([, head]) => head))].sort((a, b) => a - b);
    return new Map(heads.map((head, lane) => [head, lane]));
  });

  headOf(link: { lane: number }): number | null {
    return this.members.value[link.lane]?.[1] ?? null;
  }

  /** The colour of a head; of a single one, and of all of them mixed: the accent. */
  colour(head: number | null, accent: string): string {
    return head === null || this.request.value.heads.length === 1 ? accent : headColour(head, this.props.dark.value);
  }

  /** All links listed of one query, the strongest first. */
  listed(query: number): Link[] {
    const sorted = this.sorted.value;
    let links = sorted.get(query);
    if (!links) sorted.set(query, (links = this.listing(query)));
    return links;
  }

  /** What `listed` has found, for as long as it holds. */
  private readonly sorted = computed(() => (void this.chunks.value, void this.fromTypes.value, new Map<number, Link[]>()));

  private listing(query: number): Link[] {
    const [lines, row] = rowOf(this.chunks.value, query) ?? [];
    if (!lines || row === undefined || !this.looksFrom(query)) return [];
    return Array.from({ length: lines.maps }, (_, lane) => linksOf(lines, row, lane)).flat().sort((a, b) => b.prob - a.prob);
  }

  /** The links listed to one key, of the queries on screen, the strongest first. */
  linksTo(key: number): Link[] {
    return this.onScreen.value.flatMap((query) => this.listed(query)).filter((link) => link.key === key).sort((a, b) => b.prob - a.prob);
  }

  /** How much of a query's attention its drawn lines leave out: not listed, filtered, or below the threshold. */
  leftOut(query: number): number {
    const [lines] = rowOf(this.chunks.value, query) ?? [];
    if (!lines || !this.looksFrom(query)) return 0;
    const faint = this.listed(query).filter((link) => link.prob < this.threshold.value);
    return otherOf(this.chunks.value, query) + faint.reduce((sum, link) => sum + link.prob, 0) / lines.maps;
  }

  /** How much of a query's attention is not listed. */
  otherOf(query: number): number {
    return otherOf(this.chunks.value, query);
  }

  /** What each token of the other side gets of, or gives to, the token looked at: by head, the largest of its layers. */
  readonly shares = computed<{ side: Side; of: Map<number, Share[]> } | null>(() => {
    const [query, key] = [this.query.value, this.key.value];
    if (query === null && key === null) return null;
    const links = query !== null ? this.listed(query) : this.linksTo(key as number);
    const of = new Map<number, Map<number, number>>();
    for (const link of links) {
      const token = query !== null ? link.key : link.query;
      const lane = this.lanes.value.get(this.headOf(link) ?? 0) ?? 0;
      const byLane = of.get(token) ?? new Map<number, number>();
      byLane.set(lane, Math.max(byLane.get(lane) ?? 0, link.prob));
      of.set(token, byLane);
    }
    const exact = this.exact.value;
    if (exact && query !== null && this.mapCount.value === 1) {
      exact.probs.forEach((prob, token) => this.looksTo(token) && of.set(token, new Map([[0, prob]])));
    }
    const sorted = [...of].map(([token, byLane]) => [token, [...byLane].map(([lane, prob]) => ({ lane, prob })).sort((a, b) => a.lane - b.lane)] as const);
    return { side: query !== null ? "key" : "query", of: new Map(sorted) };
  });

  /** The probability of a link as exactly as it is known: for the head in focus, or for all mixed. */
  prob(query: number, key: number): number | null {
    const exact = this.exact.value;
    if (exact && exact.query === query && !this.mixed.value) return exact.probs[key];
    return this.listedProb(query, key);
  }

  /** The number that is next to a token of the side that is shaded; none next to one that cannot be seen. */
  numberAt(side: Side, token: number): number | null {
    const [query, key] = [this.query.value, this.key.value];
    if (side === "query") return key === null ? null : this.listedProb(token, key);
    if (query === null || !this.looksTo(token) || this.exact.value?.scores[token] === -Infinity) return null;
    return this.prob(query, token);
  }

  private listedProb(query: number, key: number): number | null {
    return this.listed(query).find((link) => link.key === key && (this.mixed.value || this.isFocus(link)))?.prob ?? null;
  }

  isFocus(link: Link): boolean {
    const [layer, head] = this.members.value[link.lane] ?? [];
    const { layers, heads } = this.request.value;
    return layer === layers[0] && head === heads[0];
  }

  /** What is in focus, in words: "layer 5 head 3", "the mean of 12 heads". */
  readonly subject = computed(() => {
    const { layers, heads, mix } = this.request.value;
    return this.mixed.value ? `${MIXED[mix]} of ${this.mapCount.value} heads` : `layer ${layers[0]} head ${heads[0]}`;
  });

  /** The sentence for what is looked at. */
  readonly sentence = computed<string | null>(() => {
    const [query, key] = [this.query.value, this.key.value];
    if (query === null) {
      if (key === null) return null;
      const [strongest] = this.linksTo(key);
      const to = `to ${quoted(this.keyTokens.value[key])}`;
      if (!strongest) return this.complete.value ? `${to}: none of the links listed on screen` : null;
      const [layer, head] = this.members.value[strongest.lane] ?? [];
      const by = layer === undefined ? this.subject.value : `layer ${layer} head ${head}`;
      return `${to}: most from ${quoted(this.queryTokens.value[strongest.query])}, ${number(strongest.prob)}, ${by} (of the links listed)`;
    }
    if (!this.knows(query)) return null;
    const exact = this.exact.value?.query === query && !this.mixed.value ? this.exact.value : null;
    const listed = this.listed(query).filter((link) => this.mixed.value || this.isFocus(link));
    const to = key ?? (exact ? largest(exact.probs) : listed[0]?.key);
    if (to === undefined) return null;
    const prob = this.prob(query, to);
    const from = `${this.subject.value}, from ${quoted(this.queryTokens.value[query])} to ${quoted(this.keyTokens.value[to])}`;
    if (prob === null) return `${from}, not among the ${listed.length} strongest`;
    const place = exact ? rank(exact.probs, to) : listed.findIndex((link) => link.key === to) + 1;
    return `${from}, ${number(prob)}, rank ${place} of ${exact ? visibleScores(exact) : this.keyTokens.value.length}`;
  });

  /** Tokens that the search finds, as a set for each side. */
  readonly hits = computed(() => {
    const neededRows = this.search.value.trim().toLowerCase();
    const hits = (tokens: Token[]) => new Set(neededRows ? tokens.flatMap((token, index) => (token.text.toLowerCase().includes(neededRows) ? [index] : [])) : []);
    return { query: hits(this.queryTokens.value), key: hits(this.keyTokens.value) };
  });

  /** Make a picture of all tokens; of a long text, not all lines of which are here, of the rows that are whole on screen. */
  inPicture<T>(make: () => T): T {
    return batch(() => {
      const [top, size, { tokens, tops, rowHeight }] = [this.scroll.peek(), this.size.peek(), this.queries.peek()];
      const shown = tokens.every((query) => rowOf(this.chunks.peek(), query)) ? tops : tops.filter((each) => each >= top && each + rowHeight <= top + size.height);
      const all = shown === tops;
      this.scroll.value = all ? 0 : shown[0] ?? top;
      this.size.value = { ...size, height: all ? this.contentHeight.peek() : (shown.at(-1) ?? top) + rowHeight - this.scroll.peek() };
      try {
        return make();
      } finally {
        [this.scroll.value, this.size.value] = [top, size];
      }
    });
  }

  private fetchLines(): void {
    const { height } = this.size.value;
    if (!height || this.mapCount.value > MAPS || this.weightless.value) return;
    const request = this.request.value;
    const room = MARGIN * this.rowHeight.value;
    const pinned = this.props.state.value.query;
    const neededRows = [...(pinned === null ? [] : [pinned]), ...this.onScreen.value, ...this.queriesBetween(this.scroll.value - room, this.scroll.value + height + room)];
    const asked = JSON.stringify([request, pinned]);
    // What was refused is not asked again at each change of the screen, which saying so is one of.
    if (asked === this.asked && this.absent.peek() !== null) return;
    this.asked = asked;
    this.absent.value = null;
    this.loader.want(request, neededRows, this.queryTokens.value.length);
  }

  private fetchRow(): void {
    const query = this.query.value;
    const { map, layers: [layer], heads: [head] } = this.request.value;
    if (query === null || head === undefined || this.mixed.value) {
      this.exact.value = null;
      return;
    }
    const key = `${map}/${layer}/${head}/${query}`;
    const cached = this.rows.get(key);
    this.exact.value = cached ?? null;
    if (cached) return;
    views.row(this.props.transport, this.session, map, layer, head, query).then(
      (row) => {
        this.rows.set(key, row);
        const { map, layers, heads } = this.request.peek();
        if (`${map}/${layers[0]}/${heads[0]}/${this.query.peek()}` === key) this.exact.value = row;
      },
      (error) => (this.knows(query) ? this.props.refuse(error) : this.failed(error)), // the lines that are here stay
    );
  }

  private readonly failed = errorHandler(this.absent, (error) => this.props.refuse(error));
}

/** Weights as a link has them: "3:0.5,7:0"; what is no weight is left out. */
const weightsIn = (text = "") => new Map(text.split(",").map((each) => each.split(":").map(Number) as [number, number]).filter(([head, weight]) => Number.isInteger(head) && weight >= 0 && weight <= 1));

export const quoted = (token: Token) => `“${visible(token.text)}”`;

/** How many keys the query of a row may look at. */
export const visibleScores = (row: Row) => Array.from(row.scores).filter((score) => score !== -Infinity).length;

function largest(values: ArrayLike<number>): number {
  let at = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[at]) at = i;
  return at;
}

function types(one: string, special: boolean, tokens: Token[]): string[] | null {
  if (one) return [one];
  return special ? null : [...new Set(tokens.map(typeOf))].filter((type) => type !== "special");
}
