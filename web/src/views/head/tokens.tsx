/** Token column, virtualised: the tokens on screen as a listbox with a roving tabindex. */

import { useLayoutEffect, useRef } from "preact/hooks";
import { number, percent, visible } from "../../core/format";
import { between, nearest } from "./columns";
import type { HeadController, Side } from "./head-controller";

/** Rows above and below the screen that are there already when one scrolls. */
const SPARE = 12;

interface Props {
  controller: HeadController;
  side: Side;
  label: string;
  /** Bring a token to the screen. */
  reveal(side: Side, token: number): void;
}

export function Tokens({ controller, side, label, reveal }: Props) {
  const list = useRef<HTMLDivElement>(null);
  const column = side === "query" ? controller.queries.value : controller.keys.value;
  const tokens = side === "query" ? controller.queryTokens.value : controller.keyTokens.value;
  const { state, set } = controller.props;
  const top = controller.scroll.value;
  const spare = SPARE * column.rowHeight;
  const [first, end] = between(column, top - spare, top + controller.size.value.height + spare);
  const pinned = state.value[side];
  const cursor = controller.cursor.value;
  const current = cursor?.side === side && column.positions[cursor.token] >= 0 ? cursor.token : (pinned ?? column.tokens[first]);
  const shares = controller.shares.value?.side === side ? controller.shares.value.of : null;
  const active = side === "query" ? controller.query.value : controller.key.value;
  const positions = Array.from({ length: end - first }, (_, at) => first + at);
  const far = column.positions[current];
  if (far >= 0 && (far < first || far >= end)) positions.push(far); // what has the focus must not vanish

  // The keyboard moves the cursor; the focus follows as soon as its row is there.
  useLayoutEffect(() => {
    if (cursor?.side === side && controller.moved) {
      controller.moved = false;
      list.current?.querySelector<HTMLElement>('[tabindex="0"]')?.focus({ preventScroll: true });
    }
  }, [cursor]);

  const at = (event: Event) => Number((event.target as Element).closest<HTMLElement>("[data-token]")?.dataset.token ?? -1);
  const pin = (token: number) => set(side === "query" ? { query: token === pinned ? null : token } : { key: token === pinned ? null : token });
  const go = (to: Side, token: number | null | undefined) => {
    if (token === null || token === undefined) return;
    controller.moved = true;
    controller.cursor.value = { side: to, token };
    reveal(to, token);
  };
  const pressed = (event: KeyboardEvent) => {
    const token = at(event);
    if (token < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) {
      go(side, column.tokens[Math.min(Math.max(column.positions[token] + step, 0), column.tokens.length - 1)]);
    } else if (event.key === (side === "query" ? "ArrowRight" : "ArrowLeft")) {
      go(side === "query" ? "key" : "query", nearest(side === "query" ? controller.keys.value : controller.queries.value, column.tops[column.positions[token]] + column.rowHeight / 2));
    } else if (event.key === "Enter" || event.key === " ") pin(token);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const leave = () => (controller.hover.value = null);
  const point = (event: Event) => at(event) >= 0 && (controller.hover.value = { side, token: at(event) });
  return (
    <div
      ref={list} class={`head-tokens ${side}`} role="listbox" aria-label={label} onKeyDown={pressed} onClick={(event) => at(event) >= 0 && pin(at(event))}
      onPointerOver={(event) => event.pointerType !== "touch" && point(event)} onPointerLeave={leave} onFocusOut={leave}
      onFocusIn={(event) => {
        point(event);
        if (at(event) >= 0) controller.cursor.value = { side, token: at(event) };
      }}
    >
      {column.marks.map(({ top, letter }) => <span key={letter} class="head-mark" role="presentation" style={{ top: `${top}px`, height: `${0.9 * column.rowHeight}px` }}>{letter}</span>)}
      {positions.map((place) => {
        const index = column.tokens[place];
        const token = tokens[index];
        const share = shares?.get(index);
        const prob = shares ? controller.numberAt(side, index) : null;
        const outside = side === "query" ? !controller.looksFrom(index) : !controller.looksTo(index);
        const faint = outside || (shares !== null && !(share && share.some(({ prob }) => prob >= 0.01)));
        return (
          <div
            key={index} data-token={index} role="option" tabIndex={index === current ? 0 : -1} aria-selected={index === pinned}
            aria-posinset={place + 1} aria-setsize={column.tokens.length} title={`${visible(token.text)} · token ${index} · ${token.piece}`}
            class={[token.special ? "special" : "", token.continues ? "continues" : "", faint ? "faint" : "", index === active ? "active" : "", index === pinned ? "pinned" : "", controller.hits.value[side].has(index) ? "hit" : ""].join(" ")}
            style={{ top: `${column.tops[place]}px`, height: `${column.rowHeight}px` }}
          >
            <span class="head-token">{visible(token.text)}</span>
            {prob !== null && <span class="head-number" title={number(prob)}>{percent(prob)}</span>}
          </div>
        );
      })}
    </div>
  );
}
