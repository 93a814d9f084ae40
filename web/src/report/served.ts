/** A bundle of its own, of a page that is served: the reports that the server has for the path of the address come with its key.
 *
 * Where the answer has a tag, there may be newer ones later: live.ts looks for them.
 */

import { takeToken } from "../core/access-token";
import type { PackedPage, ReportData } from "./types";

const GONE = "The server does not answer any more: start the command again, and open the address that it prints.";

const script = document.querySelector<HTMLElement>("script[data-from]")!;
const place = document.getElementById(script.dataset.report!)!;
let token = "";

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
  show(page);
  if (location.pathname.startsWith("/run/")) linkBack();
  document.title = page.title || "Glassformer";
}

/** The page of a run of a folder: its logo, and words next to it, lead to the list. */
function linkBack(): void {
  const up = document.createElement("a"), logo = place.querySelector(".brand > *")!;
  up.href = "/";
  up.className = "up";
  logo.replaceWith(up);
  up.append(logo, "All runs");
}

function fail(message: string): void {
  say(message, "alert");
  const again = document.createElement("button");
  again.textContent = "Try again";
  again.addEventListener("click", () => void begin());
  place.querySelector("main")!.append(again);
}

const ask = (tag = ""): Promise<Response> => fetch(script.dataset.from + location.pathname, { headers: { authorization: `Bearer ${token}`, ...(tag && { "if-none-match": tag }) } });

async function begin(): Promise<void> {
  say("Reading …", "status");
  try {
    token = (await takeToken()) ?? "";
    const answer = await ask();
    const told = (await answer.json()) as PackedPage & { error?: string };
    if (!answer.ok) return fail(told.error ?? answer.statusText);
    draw(told);
    globalThis.glassformerLive?.({ place, draw, ask, gone: GONE }, answer.headers.get("etag"));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    fail(GONE);
  }
}

void begin();
