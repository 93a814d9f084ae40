/** Segmented control: one of a few values, side by side, as radio buttons. */

import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { ViewProps } from "../core/types";

interface Props<T> {
  /** What is chosen, for who cannot see it. */
  legend: string;
  /** Of the radio buttons: one of its own on a page. */
  name: string;
  values: readonly T[];
  /** null: none of them. */
  value: T | null;
  set(value: T): void;
  /** How a value is written; else as it is. */
  text?(value: T): ComponentChildren;
  titled?(value: T): string | undefined;
  /** Cannot be chosen now? */
  off?(value: T): boolean;
  disabled?: boolean;
  title?: string;
}

export function Segments<T>({ legend, name, values, value, set, text = String, titled, off, disabled, title }: Props<T>) {
  return (
    <fieldset class="segments" disabled={disabled} title={title}>
      <legend class="unseen">{legend}</legend>
      {values.map((each) => (
        <label key={String(each)} title={titled?.(each)}>
          <input type="radio" name={name} checked={each === value} disabled={off?.(each)} onChange={() => set(each)} />
          <span>{text(each)}</span>
        </label>
      ))}
    </fieldset>
  );
}

/**
 * What a control of a view chooses, and how to choose: kept in the link, and so in a page that is saved.
 *
 * @param name Of the control in the link: one of its own on the page.
 * @param values The first one is the default, which a link leaves out.
 */
export function useChoice<T extends string>({ state, set, say }: ViewProps, name: string, values: readonly [T, ...T[]]): [T, (value: T) => void] {
  const asked = state.value.chosen[name];
  const value = values.find((each) => each === asked) ?? values[0];
  useEffect(() => {
    if (asked !== undefined && asked !== value) say(`this link asks for ${name} “${asked}”, which is not here: showing ${value}`);
  }, [asked]);
  const choose = (next: T) => {
    const { [name]: _, ...others } = state.peek().chosen;
    set({ chosen: next === values[0] ? others : { ...others, [name]: next } });
  };
  return [value, choose];
}
