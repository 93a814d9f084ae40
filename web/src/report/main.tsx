/** Entry point of the page of reports, and of reports that another page embeds: <div id="X"> with <script data-report="X">. */

import "./report.css";
import { render } from "preact";
import { Icon } from "../ui/icons";
import { Logo } from "../ui/logo";
import { followTheme, nextTheme, theme } from "../ui/theme";
import { Report } from "./report";
import type { PageData } from "./types";

function Bar({ title }: { title: string }) {
  return (
    <header class="top">
      <div class="brand">
        <Logo />
        <h1>{title}</h1>
      </div>
      <div class="tools">
        <button class="quiet" aria-label={`Theme: ${theme.value}. Change it.`} title={`Theme: ${theme.value}`} onClick={nextTheme}>
          <Icon name={theme.value} />
        </button>
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

/** Draw what has not been drawn yet. */
function draw(): void {
  for (const script of document.querySelectorAll<HTMLScriptElement>("script[data-report]")) {
    const place = document.getElementById(script.dataset.report ?? "");
    if (!place || place.dataset.drawn) continue;
    const data: PageData = JSON.parse(script.textContent ?? "");
    place.dataset.drawn = "";
    if (data.page) followTheme();
    const reports = <Reports data={data} />;
    render(data.page ? <><Bar title={data.title} /><main class="report">{reports}</main></> : reports, place);
  }
}

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
draw();
addEventListener("fetched", draw); // a page that is served comes with its key
