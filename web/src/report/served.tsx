/** A bundle of its own, of a page that is served: the reports that the server has for the path of the address come with its key.
 *
 * Where the answer has a tag, there may be newer ones later: live.ts looks for them.
 */

import "./served.css";
import { takeToken } from "../core/access-token";
import { sentence } from "../core/format";
import { followWhileServed, remember } from "../core/served-page";
import { ServerGone } from "../ui/server-gone";
import { reach } from "./address";
import { element, fill } from "./dom";
import type { PackedPage, ReportData } from "./types";

const script = document.querySelector<HTMLElement>("script[data-from]")!;
const place = document.getElementById(script.dataset.report!)!;
/** A line above the page, which stays as it is; in the flow: it covers nothing. */
const news = element(<div class="report-news" role="status" />);
let token = "";

const tell = (...words: (string | Node)[]): void => news.replaceChildren(...words);

/** Say that the server has ended; once, as its command may be marked to be copied. */
function lost(): void {
  if (!news.querySelector(".lost")) fill(news, <div class="lost"><ServerGone /></div>);
}

/** Draw reports in the place of those that are there. */
function show(page: PackedPage): void {
  document.dispatchEvent(new Event("gone"));
  globalThis.glassformerReport!(place, page);
}

/** A page with a sentence instead of reports. */
function say(finding: string, role: string): void {
  const report: ReportData = { kind: "", title: "", heading: "", finding, charts: [], tables: [], passages: [], browser: null, remarks: [] };
  show({ title: "Glassformer", page: true, axes: [], reports: [report] });
  place.querySelector(".finding")!.setAttribute("role", role);
}

function draw(page: PackedPage): void {
  document.title = page.title || "Glassformer"; // first: it names the files of what has no title of its own
  show(page);
  linkBack();
}

/** On the page of a run of a folder, the logo and words next to it lead to the list. */
function linkBack(): void {
  if (!location.pathname.startsWith("/run/")) return;
  const up = document.createElement("a"), logo = place.querySelector(".brand > *")!;
  up.href = "/";
  up.className = "up";
  logo.replaceWith(up);
  up.append(logo, "All runs");
}

/** Say why there are no reports; again: another attempt may find some. */
function fail(message: string, again: boolean): void {
  say(sentence(message), "alert");
  linkBack();
  if (again) place.querySelector("main")!.append(element(<button onClick={() => void begin()}>Try again</button>));
}

const ask = (tag = ""): Promise<Response> => fetch(script.dataset.from + location.pathname, { headers: { authorization: `Bearer ${token}`, ...(tag && { "if-none-match": tag }) } }).then(remember);

async function begin(): Promise<void> {
  say("Reading …", "status");
  try {
    token = (await takeToken()) ?? "";
    const answer = await ask();
    tell();
    const told = (await answer.json()) as PackedPage & { error?: string };
    if (!answer.ok) return fail(told.error ?? answer.statusText, answer.status !== 401);
    draw(told);
    reach();
    globalThis.glassformerLive?.({ place, draw, ask, tell, lost }, answer.headers.get("etag"));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // what fetch says of a server that is gone
    fail("There is no answer from the program that serves this page", true);
    lost();
  }
}

document.body.prepend(news);
followWhileServed(() => {
  lost();
  news.scrollIntoView({ block: "center" });
});
void begin();
