/** Heads in an order, each with its name and value: one after another, or in groups; of many, as far as one has scrolled. */

import { useEffect, useRef, useState } from "preact/hooks";
import { HeadCanvas } from "../../ui/head-canvas";
import { HeadCell, type HeadCells, useHeadCells } from "../../ui/head-cell";
import { plural } from "../../core/format";
import type { Arrangement, Group, Head } from "./heads";
import type { Overview } from "../../core/types";

interface Props {
  order: Arrangement;
  cells: HeadCells;
}

/** Heads that are drawn at first, and those that each scroll to the end adds: as many as a large screen shows. */
const AT_ONCE = 160;

export function HeadList({ order: { heads, values, words }, cells }: Props) {
  const host = useHeadCells(cells);
  const [most, more] = useMore(heads.length);
  return (
    <>
      <div class="head-list" role="listbox" aria-multiselectable="true" aria-label={`Heads in order: ${words}`} {...host}>
        <Figures heads={heads.slice(0, most)} values={values} />
      </div>
      {more}
    </>
  );
}

export function HeadGroups({ order: { groups, heads: all, words, hint }, cells }: Props) {
  const host = useHeadCells(cells);
  const [most, more] = useMore(all.length);
  let before = 0;
  const shown = groups!.map((group) => {
    const heads = group.heads.slice(0, Math.max(0, most - before));
    before += group.heads.length;
    return { ...group, heads, of: group.heads.length };
  });
  return (
    <>
      {hint && <p class="hint" role="status">{hint}</p>}
      <div class="head-kinds" role="listbox" aria-multiselectable="true" aria-label={`Heads ${words}`} {...host}>
        {shown.filter(({ heads }) => heads.length).map(({ name, about, heads, values, of }) => (
          <div role="group" key={name} aria-label={`${name}: ${plural(of, "head")}`}>
            <p role="presentation"><b>{name}</b> {plural(of, "head")} <small>{about}</small></p>
            <div class="head-list" role="presentation"><Figures heads={heads} values={values} /></div>
          </div>
        ))}
      </div>
      {more}
    </>
  );
}

/** How many of so many heads are drawn, and what draws more: a button, which presses itself where it comes on screen. */
function useMore(all: number) {
  const [most, setMost] = useState(AT_ONCE);
  const button = useRef<HTMLButtonElement>(null);
  const add = () => setMost((before) => before + AT_ONCE);
  useEffect(() => {
    if (!button.current) return;
    const watch = new IntersectionObserver((seen) => seen.some(({ isIntersecting }) => isIntersecting) && add(), { rootMargin: "200px" });
    watch.observe(button.current);
    return () => watch.disconnect();
  }, [most, all]);
  return [most, most < all && <p><button class="quiet" ref={button} onClick={add}>{plural(all - most, "more head")}</button></p>] as const;
}

function Figures({ heads, values }: Pick<Group, "heads" | "values">) {
  return (
    <>
      <HeadCanvas overviewOf={overviewOf(heads)} />
      {heads.map((one, at) => (
        <figure key={`${one.layer}.${one.head}`} role="presentation">
          <HeadCell role="option" {...one} />
          <figcaption role="presentation"><b>{one.layer}·{one.head}</b> <span>{values[at]}</span></figcaption>
        </figure>
      ))}
    </>
  );
}

/** The overview of a layer, from those that its heads carry. */
function overviewOf(heads: readonly Head[]): (layer: number) => Overview | undefined {
  const layers = new Map(heads.map(({ layer, overview }) => [layer, overview]));
  return (layer) => layers.get(layer);
}
