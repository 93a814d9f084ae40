/** A bundle of its own, which only pages with rows carry.
 *
 * The browser of rows: ordered, filtered and searched, a page of them at a time.
 *
 *     form, matrix, tables ──"choose"──> choice ──> the rows that it chooses ──> some of them on screen
 *                                           └──"chosen"──> matrix          └──> the address
 */

import { write as address, written } from "./address";
import { element, fill } from "./dom";
import { type Row, textNames, textOf } from "./row";
import { percent } from "../core/format";
import { Command } from "../ui/command";
import "./rows.css";
import { finite } from "./scales";
import { Long } from "./table";
import type { BrowserData, Choice, DrawRows, Review } from "./types";

const SCORES = 3; // of the likeliest classes
const COLOURS = 8; // of the style sheet, as for lines
const AT_ONCE = 25;
const LABEL = 300; // characters of a label that an address holds
const ORDERS = { high: "highest loss first", low: "lowest loss first", sure: "wrong, the most confident first", file: "as in the file" };
const ALL: Choice = { order: "high", true: "", predicted: "", answers: "", group: "", find: "", page: "0", at: "" };

const EMPTY = { texts: [], words: [], true: [], predicted: [], scores: [], losses: [], values: [], groups: [], look: [], page: "", fingerprint: "", correct: null, loss: null, whole: null };

/** Rows with all that they may have. */
export const rowsOf = ({ kind, rows }: BrowserData): Row[] =>
  rows.map((given) => {
    const row = { ...EMPTY, ...given };
    const confidence = kind === "classes" ? row.scores.find(([name]) => name === row.predicted[0])?.[1] ?? null : null;
    return { ...row, confidence, sought: [...row.texts.map(([, text]) => text), row.words.join(" "), row.where].join("\n").toLowerCase() };
  });

/** The words of a row that a choice means. */
export const places = (row: Row, choice: Choice): number[] =>
  row.words.map((_, i) => i).filter((i) => finite(row.losses[i]) && (!choice.true || row.true[i] === choice.true) && (!choice.predicted || row.predicted[i] === choice.predicted)
    && (!choice.answers || (row.true[i] === row.predicted[i]) === (choice.answers === "right")));

function chooses(row: Row, choice: Choice, find: string): boolean {
  if (choice.order === "sure" && (row.correct !== false || row.confidence === null)) return false;
  if (choice.group && !row.groups.includes(choice.group)) return false;
  if (find && !row.sought.includes(find)) return false;
  if (row.words.length > 0 && (choice.true || choice.predicted)) return places(row, choice).length > 0;
  if (choice.answers && row.correct !== (choice.answers === "right")) return false;
  return (!choice.true || row.true.includes(choice.true)) && (!choice.predicted || row.predicted.includes(choice.predicted));
}

const without = (row: Row): boolean => row.loss === null;
const ORDER: Record<string, (a: Row, b: Row) => number> = {
  high: (a, b) => Number(without(a)) - Number(without(b)) || (b.loss ?? 0) - (a.loss ?? 0),
  low: (a, b) => Number(without(a)) - Number(without(b)) || (a.loss ?? 0) - (b.loss ?? 0),
  sure: (a, b) => (b.confidence ?? 0) - (a.confidence ?? 0),
  file: (a, b) => a.index - b.index,
};

/** Chooses of rows, each order of which is made once. */
export function chooser(rows: Row[]): (choice: Choice) => Row[] {
  const orders = new Map<string, Row[]>();
  return (choice) => {
    if (!orders.has(choice.order)) {
      // Rows without losses, such as texts with their metrics, come from the worst to the best.
      const unranked = choice.order === "low" && rows.every(without);
      orders.set(choice.order, unranked ? [...rows].reverse() : [...rows].sort(ORDER[choice.order]));
    }
    const find = choice.find.toLowerCase();
    return orders.get(choice.order)!.filter((row) => chooses(row, choice, find));
  };
}

/** A text cut where it holds what is sought: every second part does. */
export function cut(text: string, sought: string): string[] {
  const low = text.toLowerCase(), parts: string[] = [];
  if (!sought || low.length !== text.length) return [text]; // letters whose small form is longer: no places to mark
  for (let from = 0; ; ) {
    const at = low.indexOf(sought, from);
    if (at < 0) return [...parts, text.slice(from)];
    parts.push(text.slice(from, at), text.slice(at, at + sought.length));
    from = at + sought.length;
  }
}

const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** Texts as the explorer's links carry them: deflated, then base64url. */
async function packed(texts: string[]): Promise<string> {
  const stream = new Blob([JSON.stringify(texts)]).stream().pipeThrough(new CompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

/** What the explorer says of a row: its place and its label, and of a class the one that was predicted. */
export function labelOf({ where, words, true: labels, predicted }: Row, kind: BrowserData["kind"]): Record<string, string> {
  const tagged = words.map((word, i) => `${word} ${labels[i]}`).filter((_, i) => labels[i] !== "O");
  const label = kind === "tags" ? tagged.join(", ") || "O" : labels.join(", ");
  return { row: where.replace(/^.*[\\/]/, ""), true: label.slice(0, LABEL), ...(kind === "classes" ? { said: predicted[0] } : {}) };
}

/** The address of the page with a row in sight. */
function addressOf({ index }: Row): string {
  const pairs = new URLSearchParams(location.hash.slice(1));
  pairs.set("at", String(index));
  return `${location.pathname}#${pairs}`;
}

const Hidden = ({ children }: { children: unknown }) => <span class="unseen">{children as never}</span>;

/** The loss of a few words is written shorter than one near zero. */
const lossOf = (loss: number): string => loss.toFixed(loss < 0.1 ? 4 : 2);

/** The rows of one kind, drawn under a choice. */
function drawer({ kind, names, command, explorer, doubt }: BrowserData, review: Review | undefined) {
  const types = [...new Set(names.map((name) => name.replace(/^[BIES]-/, "")).filter((name) => name !== "O"))];
  const colour = (tag: string) => Math.max(types.indexOf(tag.replace(/^[BIES]-/, "")), 0) % COLOURS;
  const listed = (values: string[]) => values.join(", ") || (kind === "labels" ? "(none)" : "(nothing)");

  function Verdict({ row }: { row: Row }) {
    if (kind === "texts") return null;
    const wrong = row.words.filter((_, i) => finite(row.losses[i]) && row.true[i] !== row.predicted[i]).length;
    if (kind === "tags") return wrong ? <span class="chip is-predicted">{wrong} of {row.words.length} words wrong</span> : <span class="chip is-true">all right</span>;
    if (row.correct) return <span class="chip is-true">{listed(row.true)}<Hidden> is right</Hidden></span>;
    return (
      <>
        <span class="chip is-true"><small>true</small> {listed(row.true)}</span>
        <span class="chip is-predicted"><small>predicted</small> {listed(row.predicted)}</span>
      </>
    );
  }

  /** Probabilities of the likeliest classes, and of the true one. */
  function Scores({ row }: { row: Row }) {
    const found = row.scores.filter(([name], i) => i < SCORES || row.true.includes(name) || (kind === "labels" && row.predicted.includes(name)));
    if (kind === "classes" && row.loss !== null && !found.some(([name]) => name === row.true[0])) found.push([row.true[0], Math.exp(-row.loss)]);
    return (
      <ol class="scores" aria-label="Probabilities">
        {found.map(([name, share]) => {
          const notes = [row.true.includes(name) && "true", row.predicted.includes(name) && "predicted"].filter(Boolean);
          return (
            <li class={notes.map((note) => `is-${note}`).join(" ")}>
              <span class="name" title={name}>{name}{notes.length > 0 && <Hidden> ({notes.join(", ")})</Hidden>}</span>
              <span class="bar" aria-hidden="true"><i style={{ width: `${100 * share}%` }} /></span>
              <span class="share">{percent(share)}</span>
            </li>
          );
        })}
      </ol>
    );
  }

  /** Words above their tags, shaded by how unlikely the true tag is. */
  function Words({ row, choice }: { row: Row; choice: Choice }) {
    const found = new Set(choice.true || choice.predicted ? places(row, choice) : []);
    return (
      <p class="words" dir="auto">
        {row.words.map((word, i) => {
          const [tag, said, loss] = [row.true[i], row.predicted[i], row.losses[i]], read = finite(loss);
          const wrong = read && tag !== said;
          const made = element(
            <span class={`word${wrong ? " wrong" : ""}${found.has(i) ? " found" : ""}${read ? "" : " unread"}`} title={read ? `true ${tag}, predicted ${said}, loss ${loss}` : "not evaluated: the model did not read this word"}>
              <span class={tag === "O" ? undefined : "tagged"} data-colour={colour(tag)}><Marked text={word} choice={choice} /></span>
              {wrong && <small><span class="sign" aria-hidden="true">✗</span><Hidden> predicted </Hidden>{said}</small>}
              {(tag !== "O" || wrong) && <small>{wrong ? <><span class="sign" aria-hidden="true">✓</span><Hidden> true </Hidden></> : <Hidden> </Hidden>}{tag}</small>}
              {wrong && <Hidden> loss {loss.toFixed(2)}</Hidden>}{" "}
            </span>,
          );
          if (read) made.style.setProperty("--heat", String(1 - Math.exp(-loss)));
          return made as never;
        })}
      </p>
    );
  }

  const Marked = ({ text, choice }: { text: string; choice: Choice }) =>
    choice.find ? <>{cut(text, choice.find.toLowerCase()).map((part, i) => (i % 2 ? <mark>{part}</mark> : part))}</> : <Long text={text} />;

  function Text({ name, text, choice }: { name: string; text: string; choice: Choice }) {
    return (
      <div class="text" dir="auto" tabindex={text.length > 700 ? 0 : undefined} role={text.length > 700 ? "group" : undefined} aria-label={text.length > 700 ? name || "text" : undefined}>
        {name && <span class="role">{name}</span>}
        <Marked text={text} choice={choice} />
      </div>
    );
  }

  /** The way to see the model read this text. */
  function Look({ row, into }: { row: Row; into: () => Element }) {
    const words = <>Look inside<Hidden> row {row.index}</Hidden></>;
    if (row.page) return <a class="look" href={`./${row.page.split("/").map(encodeURIComponent).join("/")}`} target="_blank">{words}</a>;
    if (!row.look[0] || !(explorer || command)) return null;
    if (explorer) {
      const link = element<HTMLAnchorElement>(<a class="look" href={explorer} onClick={() => address({ at: String(row.index) })}>{words}</a>);
      void packed(row.look).then((x) => (link.href = `${explorer}#${new URLSearchParams({ v: "1", x, ...labelOf(row, kind), ...(doubt && { doubt }), back: addressOf(row) })}`));
      return link as never;
    }
    const line = `${command} ${row.look.some((text) => text.startsWith("-")) ? "-- " : ""}${row.look.map(quoted).join(" ")}`;
    const box = element(<Command line={line} />);
    const button = element(<button class="look" aria-expanded="false" onClick={() => {
      const open = button.getAttribute("aria-expanded") === "false";
      button.setAttribute("aria-expanded", String(open));
      if (open) into().append(box);
      else box.remove();
    }}>{words}</button>);
    return button as never;
  }

  return (row: Row, choice: Choice): HTMLElement => {
    const texts = row.texts.filter(([, text]) => text);
    const answers = [["predicted", row.predicted.join("\n")], ...row.true.map((text) => ["reference", text])].filter(([, text]) => text);
    const made: HTMLElement = element(
      <li class="row">
        <div class="facts">
          {row.loss !== null && <span class="loss"><b>{lossOf(row.loss)}</b> loss</span>}
          <Verdict row={row} />
          <span class="where" title={row.where}>{row.where.replace(/^.*[\\/]/, "")}</span>
          <Look row={row} into={() => made} />
          {review?.button(row, () => made) as never}
        </div>
        {kind === "tags" ? <Words row={row} choice={choice} /> : (
          <div class={row.scores.length ? "both" : undefined}>
            <div>{texts.map(([name, text]) => <Text name={texts.length > 1 ? name : ""} text={row.whole ? `${text} …` : text} choice={choice} />)}</div>
            {row.scores.length > 0 && <Scores row={row} />}
          </div>
        )}
        {kind === "texts" && <div class="answers">{answers.map(([name, text]) => <Text name={name} text={text} choice={choice} />)}</div>}
        {row.values.length > 0 && <p class="values-of-row">{row.values.map(([name, value]) => <span>{name} <b>{finite(value) ? String(Number(value.toPrecision(3))) : "–"}</b></span>)}</p>}
      </li>,
    );
    return made;
  };
}

/** The rows that are chosen, for a spreadsheet. */
export function sheetOf(rows: Row[]): (string | number)[][] {
  const texts = textNames(rows);
  const head = ["index", "where", ...texts, ...(rows.some(({ words }) => words.length) ? ["words"] : []), "true", "predicted", "probability", "loss"];
  return [head, ...rows.map((row) => [
    row.index, row.where, ...texts.map((name) => textOf(row, name)), ...(head.includes("words") ? [row.words.join(" ")] : []),
    row.true.join("|"), row.predicted.join("|"), row.confidence ?? "", row.loss ?? "",
  ])];
}

const Options = ({ values }: { values: [string, string][] }) => <>{values.map(([value, text]) => <option value={value}>{text}</option>)}</>;

const draw: DrawRows = (data) => {
  const rows = rowsOf(data), choose = chooser(rows), review = data.review ? globalThis.glassformerReview!(data, rows) : undefined, drawn = drawer(data, review);
  const start: Choice = { ...ALL, page: data.first === null ? "0" : "" };
  const choice: Choice = { ...start };
  const groups = [...new Set(rows.flatMap((row) => row.groups))].sort(new Intl.Collator("en", { numeric: true }).compare);
  const named = rows.every(without) ? { ...ORDERS, high: "worst first", low: "best first" } : ORDERS;
  const orders = Object.entries(named).filter(([name]) => name !== "sure" || rows.some(({ confidence }) => confidence !== null));
  const any = (names: string[]) => [["", "any"], ...names.map((name) => [name, name])] as [string, string][];
  const output = element(<output aria-live="polite" />);
  const list = element(<ol class="rows" />);
  const pager = element(<nav class="pager" aria-label="Pages of rows" />);
  let found: Row[] = [];

  const field = (name: keyof Choice, label: string, values: [string, string][], shown: boolean) =>
    element(<label hidden={!shown}>{label} <select name={name}><Options values={values} /></select></label>);
  const form = element<HTMLFormElement>(
    <form class="filters" role="search" aria-label="Choose rows">
      {field("order", "Order", orders, true) as never}
      {field("true", "True", any(data.names), data.names.length > 0) as never}
      {field("predicted", "Predicted", any(data.names), data.names.length > 0) as never}
      {field("answers", "Answers", [["", "all"], ["wrong", "wrong"], ["right", "right"]], rows.some(({ correct }) => correct !== null)) as never}
      {field("group", data.grouped_by, any(groups), groups.length > 0) as never}
      <label class="find">Find <input name="find" type="search" placeholder="in the text or its position" autocomplete="off" /></label>
      <button type="reset">Reset</button>
      {globalThis.glassformerSaves!("Rows", () => sheetOf(found)) as never}
      {output as never}
      {review?.bar as never}
    </form>,
  );
  const controls = [...form.querySelectorAll<HTMLSelectElement | HTMLInputElement>("[name]")];
  const section = element(
    <section class="browser" aria-label="Rows">
      {form as never}
      {review?.list as never}
      {data.kind === "tags" && <p class="remark">The darker a word, the lower the probability of its true tag. Below a wrong one: ✗ the predicted tag, ✓ the true one; below others their tag. True entities are underlined, a colour a type.</p>}
      {list as never}
      {pager as never}
    </section>,
  );

  function show(): void {
    found = choose(choice);
    const first = choice.page === "", each = first ? data.first! : AT_ONCE, pages = Math.max(Math.ceil(found.length / each), 1);
    const at = Math.min(Math.max(Number(choice.page) || 0, 0), pages - 1), from = at * each;
    const some = found.slice(from, from + each);
    list.replaceChildren(...(some.length ? some.map((row) => drawn(row, choice)) : [element(<li class="empty">No row matches these filters.</li>)]));
    const losses = found.map(({ loss }) => loss).filter(finite);
    const mean = losses.length ? ` · mean loss ${(losses.reduce((sum, loss) => sum + loss, 0) / losses.length).toFixed(3)}` : "";
    output.textContent = `${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows${mean}`;
    const step = (by: number, words: string) => <button disabled={by < 0 ? at === 0 : at === pages - 1} onClick={() => (change({ page: String(at + by) }), section.scrollIntoView())}>{words}</button>;
    pager.hidden = pages < 2;
    fill(pager, first ? <button onClick={() => change({ page: "0" })}>Show all {found.length.toLocaleString("en")} rows</button>
      : <>{step(-1, "Previous")}<span>{(from + 1).toLocaleString("en")}–{(from + some.length).toLocaleString("en")} of {found.length.toLocaleString("en")}</span>{step(1, "Next")}</>);
    for (const control of controls) if (control.value !== choice[control.name as keyof Choice]) control.value = choice[control.name as keyof Choice];
    document.dispatchEvent(new CustomEvent("chosen", { detail: { ...choice } }));
  }

  /** Bring the row of the address into sight. */
  function reach(): void {
    const place = choice.at ? found.findIndex(({ index }) => String(index) === choice.at) : -1;
    if (place < 0) return;
    if (choice.page !== "" || place >= data.first!) {
      choice.page = String(Math.floor(place / AT_ONCE));
      show();
    }
    const row = list.children[choice.page === "" ? place : place % AT_ONCE];
    row.classList.add("at");
    row.scrollIntoView({ block: "center" });
  }

  function change(values: Partial<Choice>): void {
    choice.at = "";
    if (!("page" in values)) choice.page = choice.page && "0";
    Object.assign(choice, values);
    if (choice.order === "sure" && choice.true && choice.true === choice.predicted) choice.order = "high"; // of which none is wrong
    show();
    address(Object.fromEntries(Object.keys(ALL).map((name) => [name, choice[name as keyof Choice] === start[name as keyof Choice] ? "" : choice[name as keyof Choice]])));
  }

  /** What the address says, where there is such a choice. */
  function recall(): void {
    const allowed: Partial<Record<keyof Choice, string[]>> = { order: orders.map(([name]) => name), true: data.names as string[], predicted: data.names as string[], answers: ["wrong", "right"], group: groups };
    for (const name of Object.keys(ALL) as (keyof Choice)[]) {
      const value = written(name);
      choice[name] = value !== null && (allowed[name]?.includes(value) ?? true) ? value : start[name];
    }
    show();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", ({ target }) => change({ [(target as HTMLInputElement).name]: (target as HTMLInputElement).value }));
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    change(start);
  });
  document.addEventListener("choose", ({ detail }) => {
    change(detail);
    const { top } = list.getBoundingClientRect();
    if (top < 0 || top > innerHeight * 0.8) section.scrollIntoView();
  });
  addEventListener("hashchange", recall);
  recall();
  requestAnimationFrame(reach); // once it is on the page
  return section as never;
};

globalThis.glassformerRows = draw;
