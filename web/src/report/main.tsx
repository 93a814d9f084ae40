/** Entry point of the page of reports, and of reports that another page embeds: <div id="X"> with <script data-report="X">. */

import "./report.css";
import { takeToken } from "../core/access-token";
import { chosenTheme, keepTheme, nextOf, showTheme } from "../core/theme-choice";
import { Icon } from "../ui/icons";
import { Logo } from "../ui/logo";
import { element, fill } from "./dom";
import { Report } from "./report";
import type { PackedPage, PageData } from "./types";
import { unpacked, withAxes } from "./unpack";

function ThemeButton() {
  let theme = chosenTheme();
  const button = element(<button class="quiet" onClick={() => draw(nextOf(theme))} />);
  const draw = (next: typeof theme) => {
    if (next !== theme) keepTheme(next);
    theme = next;
    showTheme(theme);
    button.title = `Theme: ${theme}`;
    button.setAttribute("aria-label", `Theme: ${theme}. Change it.`);
    fill(button, <Icon name={theme} />);
  };
  draw(theme);
  return button as never;
}

function Bar({ title }: { title: string }) {
  return (
    <header class="top">
      <div class="brand">
        <Logo />
        <h1>{title}</h1>
      </div>
      <div class="tools">
        <ThemeButton />
      </div>
    </header>
  );
}

function Reports({ data }: { data: PageData }) {
  return (
    <>
      {data.reports.map((report) => (
        <Report report={report} titled={data.reports.length > 1} />
      ))}
    </>
  );
}

function show(place: HTMLElement, data: PageData): void {
  const reports = <Reports data={data} />;
  fill(place, data.page ? <><Bar title={data.title} /><main class="report">{reports}</main></> : reports);
}

/** Draw what has not been drawn yet. */
async function draw(): Promise<void> {
  for (const script of document.querySelectorAll<HTMLScriptElement>("script[data-report]")) {
    const place = document.getElementById(script.dataset.report ?? "");
    if (!place || place.dataset.drawn) continue;
    place.dataset.drawn = "";
    if (script.dataset.from) await showServed(place, script.dataset.from);
    else show(place, await unpacked(script.textContent ?? ""));
  }
}

/** The reports that the server has for the path of the address, or what it says instead. */
async function showServed(place: HTMLElement, from: string): Promise<void> {
  const say = (what: unknown) => fill(place, <><Bar title="Glassformer" /><main class="report">{what as never}</main></>);
  const fail = (message: string) => say(
    <>
      <p class="finding" role="alert">{message}</p>
      <button onClick={() => void showServed(place, from)}>Try again</button>
    </>,
  );
  say(<p class="heading" role="status">Reading …</p>);
  try {
    const answer = await fetch(from + location.pathname, { headers: { authorization: `Bearer ${(await takeToken()) ?? ""}` } });
    const told = (await answer.json()) as PackedPage & { error?: string };
    if (!answer.ok) return fail(told.error ?? answer.statusText);
    show(place, withAxes(told));
    document.title = told.title || "Glassformer";
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // what fetch says of a server that is gone
    fail("The server does not answer any more: start the command again, and open the address that it prints.");
  }
}

/** The explorer draws the reports of plug-ins by this program. */
globalThis.glassformerReport = (place: HTMLElement, page: PackedPage) => fill(place, <Reports data={withAxes(page)} />);

/** On paper, everything is unfolded, and dark on white. */
function preparePrinting(): void {
  let before: string | undefined;
  let folded: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    folded = [...document.querySelectorAll<HTMLDetailsElement>(".report details:not([open], .values)")];
    for (const each of folded) each.open = true;
  });
  addEventListener("afterprint", () => {
    if (before === undefined) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = before;
    for (const each of folded) each.open = false;
  });
}

preparePrinting();
void draw();
addEventListener("fetched", () => void draw()); // a page that is served comes with its key
