/** Entry point of the page of reports: <div id="X"> with <script data-report="X">. */

import "./report.css";
import { chosenTheme, followPaper, keepTheme, knownTheme, nextOf, showTheme, type Theme } from "../core/theme-choice";
import { Icon } from "../ui/icons";
import { Logo } from "../ui/logo";
import { go, reach } from "./address";
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

/** The bar on top; a page of several reports has links to them, which leave what is chosen in the address. */
function Bar({ title, parts }: { title: string; parts: string[] }) {
  return (
    <header class="top">
      <div class="brand">
        <Logo />
        <h1>{title}</h1>
      </div>
      {parts.length > 0 && (
        <nav aria-label="Parts of this page">
          {parts.map((name) => <a href={`#${new URLSearchParams({ part: name })}`} onClick={(event: Event) => (event.preventDefault(), go(name))}>{name}</a>)}
        </nav>
      )}
      <div class="tools">
        <ThemeButton />
      </div>
    </header>
  );
}

function Reports({ data }: { data: PageData }) {
  const rows = data.reports.findIndex(({ browser }) => browser);
  return (
    <>
      {data.reports.map((report, i) => (
        <Report report={report} titled={data.reports.length > 1} onward={i === 0 && rows > 0 ? data.reports[rows] : undefined} />
      ))}
    </>
  );
}

/** Draw reports into an element: those that are a page with its bar. The explorer draws the reports of plug-ins by this program. */
globalThis.glassformerReport = (place: HTMLElement, packed: PackedPage) => show(place, withAxes(packed));

function show(place: HTMLElement, data: PageData): void {
  const reports = <Reports data={data} />;
  const parts = data.reports.length > 1 ? data.reports.map(({ title }) => title).filter(Boolean) : [];
  fill(place, data.page ? <><Bar title={data.title} parts={parts} /><main class="report">{reports}</main></> : reports);
}

async function draw(): Promise<void> {
  for (const script of document.querySelectorAll<HTMLScriptElement>("script[data-report]:not([data-from])"))
    show(document.getElementById(script.dataset.report!)!, await unpacked(script.textContent ?? ""));
  reach();
}

/** On paper, everything is unfolded, and dark on white. */
function preparePrinting(): void {
  let before: Theme;
  let folded: HTMLDetailsElement[] = [];
  followPaper((paper) => {
    if (paper) {
      before = knownTheme(document.documentElement.dataset.theme ?? null);
      folded = [...document.querySelectorAll<HTMLDetailsElement>(".report details:not([open], .values)")];
    }
    showTheme(paper ? "light" : before);
    for (const each of folded) each.open = paper;
  });
}

preparePrinting();
addEventListener("hashchange", reach); // the way back
void draw();
