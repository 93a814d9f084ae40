/** A bundle of its own, of pages on which labels are corrected.
 *
 *     "Correct" of a row ──> a field, of a row of words a field for the word that is chosen ──> a sheet for `glassformer review in`
 */

import { storeItem, storedItem } from "../core/browser";
import { Command } from "../ui/command";
import { element, fill } from "./dom";
import "./review.css";
import { type Row, textNames, textOf } from "./row";
import { download } from "../core/browser";
import { csv } from "../core/csv";
import type { BrowserData, Review } from "./types";

/** Right labels that a person has written, by row, and of rows of words by word, counted from 1: kept for this tab until it is closed. */
class Corrections {
  private readonly name = `corrections ${location.pathname}`;
  private readonly labels = new Map<string, string>(JSON.parse(storedItem("sessionStorage", this.name) ?? "[]") as [string, string][]);
  changed: () => void = () => undefined;

  of = (row: Row, word: number): string => this.labels.get(`${row.index} ${word}`) ?? "";

  set(row: Row, word: number, label: string): void {
    if (label) this.labels.set(`${row.index} ${word}`, label);
    else this.labels.delete(`${row.index} ${word}`);
    storeItem("sessionStorage", this.name, JSON.stringify([...this.labels]));
    this.changed();
  }
}

/** The words of a row by number, counted from 1; [0] = the row has one label. */
const wordsOf = (row: Row): number[] => (row.words.length ? row.words.map((_, i) => i + 1) : [0]);

/** A sheet of corrections, as `glassformer review in` reads it: a line a row, or a word. */
export function reviewSheet(rows: Row[], kind: BrowserData["kind"], correction: (row: Row, word: number) => string): (string | number)[][] {
  const tags = kind === "tags", texts = tags ? ["word", "text"] : textNames(rows);
  const label = (values: string[], word: number) => (word ? values[word - 1] ?? "" : values.join("|") || (kind === "labels" ? "(none)" : ""));
  const lines = rows.filter(({ fingerprint }) => fingerprint).flatMap((row) => wordsOf(row).filter((word) => correction(row, word)).map((word) => {
    const inputs = tags ? [word, row.words[word - 1]] : texts.map((name) => textOf(row, name));
    return [row.index, row.where, row.fingerprint, ...inputs, label(row.true, word), label(row.predicted, word), correction(row, word)];
  }));
  return [["index", "where", "row", ...texts, "label", "predicted", "correction"], ...lines];
}

const review = (data: BrowserData, rows: Row[]): Review => {
  const { names, kind } = data, corrections = new Corrections(), bar = element(<div class="corrected" hidden />);
  corrections.changed = () => {
    const sheet = reviewSheet(rows, kind, corrections.of), count = sheet.length - 1;
    bar.hidden = count === 0;
    fill(bar, <><button type="button" onClick={() => download("corrections.csv", new Blob([csv(sheet)], { type: "text/csv" }))}>Save {count.toLocaleString("en")} {count === 1 ? "correction" : "corrections"}</button><Command line={`${data.review} corrections.csv`} /></>);
  };
  corrections.changed();

  /** Fields for the right label: of words, of that which is chosen, at first the first that is wrong. */
  function fieldsOf(row: Row): { box: HTMLElement; field: HTMLInputElement } {
    const field = element<HTMLInputElement>(<input list="right-labels" placeholder={names.length ? "a label, or delete" : "a number, or delete"} />);
    const wrong = row.words.findIndex((_, i) => row.true[i] !== row.predicted[i] && typeof row.losses[i] === "number");
    const title = (word: number) => `${row.words[word - 1]} · ${row.true[word - 1]}${corrections.of(row, word) && ` → ${corrections.of(row, word)}`}`;
    const choice = element<HTMLSelectElement>(<select>{row.words.map((_, i) => <option value={String(i + 1)}>{title(i + 1)}</option>)}</select>);
    const word = () => (row.words.length ? Number(choice.value) : 0);
    const show = () => (field.value = corrections.of(row, word()));
    if (row.words.length) choice.value = String(Math.max(wrong, 0) + 1);
    choice.addEventListener("change", show);
    field.addEventListener("change", () => {
      corrections.set(row, word(), field.value.trim());
      if (word()) choice.options[word() - 1].textContent = title(word());
    });
    show();
    const box = (
      <div class="correction">
        {row.words.length > 0 && <label>Word of row {row.index} {choice as never}</label>}
        <label>Right {kind === "tags" ? "tag" : "label"} of row {row.index} {field as never}</label>
      </div>
    );
    return { box: element(box), field };
  }

  return {
    bar,
    list: element(<datalist id="right-labels">{[...names, "delete"].map((name) => <option value={name}>{name}</option>)}</datalist>),
    button(row, into) {
      if (!row.fingerprint || row.whole) return null; // of a text that is cut, the sheet would not be about the same row
      let made: ReturnType<typeof fieldsOf> | null = null;
      const button = element(<button class="look" aria-expanded="false" onClick={() => toggle(true)}>Correct<span class="unseen"> row {row.index}</span></button>);
      function toggle(focus: boolean): void {
        if (made?.box.isConnected) made.box.remove();
        else into().append((made = fieldsOf(row)).box);
        button.setAttribute("aria-expanded", String(made!.box.isConnected));
        if (focus && made!.box.isConnected) made!.field.focus();
      }
      if (wordsOf(row).some((word) => corrections.of(row, word))) queueMicrotask(() => toggle(false));
      return button;
    },
  };
};

globalThis.glassformerReview = review;
