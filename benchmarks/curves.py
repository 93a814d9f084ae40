"""Training curves benchmark: how long the page of a folder of long runs takes to open.

    python benchmarks/curves.py                             20 runs of 1,000,000 logged steps: 4 GB of logs
    python benchmarks/curves.py --runs 2 --steps 200000     shorter
    python benchmarks/curves.py --json

first     the log is read and its digest stored; a training stores it itself, at each checkpoint
again     the digest is read, and what was written since
tail      the same, 1,000 steps a run later
page      the HTML page; `again` includes it
sent      bytes that the served page fetches, compressed: its style, its program and the curves
rows      sorting and searching the 100,000 rows of an errors page, in headless Chromium (with --browser)
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from _measure import chromium, environment

if TYPE_CHECKING:
    from glassformer.runs.history import RunHistory

LIMITS = {"again": 1.5, "tail": 1.5, "rows": 3.0, "sent_bytes": 1_000_000}
"""Seconds and bytes that the pages promise for 20 runs of 1,000,000 steps, on a quiet machine."""


def write_log(path: Path, begin: int, end: int, seed: int = 0) -> None:
    """Append the lines of steps to a log, as a training writes them; noise does not compress."""
    with open(path, "a") as stream:
        for i in range(begin, end):
            noise = math.sin(12.9898 * i + seed) * 43_758.5453 % 1
            stream.write(
                f'{{"event":"step","time":{1.7e9 + i},"step":{i},"epoch":{i / 1e5},"loss":{1 + noise + 9 / (9 + i)},'
                f'"lr":{1 / i},"grad_norm":{3 - noise},"tokens":{512 * i},"tokens_per_s":{1000 + i % 77}}}\n'
            )


def timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return round(time.perf_counter() - start, 3)


def measure(runs: int, steps: int, folder: Path) -> dict[str, Any]:
    """Seconds of each way to open the page of these runs, and its bytes."""
    from glassformer.runs.curves import curves_page, write_page
    from glassformer.runs.digest import digest_path
    from glassformer.runs.folder import event_log_path
    from glassformer.runs.history import read_run, read_runs

    folders = [folder / f"run-{i:02}" for i in range(runs)]
    first = 0.0
    for seed, one in enumerate(folders):
        one.mkdir()
        write_log(event_log_path(one), 1, steps + 1, seed)
        first += timed(partial(read_run, one))
    page = folder / "page.html"
    results = {"runs": runs, "steps": steps, "first": round(first, 1)}
    results["again"] = timed(lambda: write_page(folders, page))
    for seed, one in enumerate(folders):
        write_log(event_log_path(one), steps + 1, steps + 1001, seed)
    results["tail"] = timed(lambda: write_page(folders, page))
    histories = read_runs(folders)
    results["page"] = timed(lambda: curves_page(histories))
    results["page_bytes"] = page.stat().st_size
    results["sent_bytes"] = sent_bytes(histories)
    results["digest_bytes"] = digest_path(event_log_path(folders[0])).stat().st_size
    return results


def sent_bytes(histories: Sequence[RunHistory]) -> int:
    """Bytes that a browser fetches of the served page of these curves."""
    from glassformer.explorer.report_server import ReportServer, one_page
    from glassformer.runs.curves import TrainingCurves

    with ReportServer(one_page([TrainingCurves(histories)])) as server:
        key = server.url.partition("#token=")[2].partition("&")[0]
        headers = {"Accept-Encoding": "gzip", "Authorization": f"Bearer {key}"}
        paths = ("", "page.css", "page.js", "api/report/")
        return sum(len(urlopen(Request(server.address + path, headers=headers)).read()) for path in paths)


SORT = """() => {
    const order = document.querySelector("[name=order]"), start = performance.now();
    const choose = (control, value) => {
        control.value = value;
        control.dispatchEvent(new Event("input", { bubbles: true }));
    };
    for (const value of ["low", "file", "high"]) choose(order, value);
    for (const text of ["f", "fl", "flies 7", "flies 77"]) choose(document.querySelector("[name=find]"), text);
    return performance.now() - start;
}"""


def sort_rows(folder: Path) -> float:
    """Seconds in which the page of 100,000 rows is put in three orders, and searched four times."""
    from glassformer.evaluation.error_analysis.page import EvaluatedRows
    from glassformer.evaluation.evaluate import EvaluationReport
    from glassformer.reports.page import report_page, write_page
    from glassformer.tasks.metrics.metric import Interval
    from glassformer.tasks.types import Prediction

    records = [
        Prediction(
            index=i,
            where=f"rows.csv: line {i}",
            row={"text": f"time flies {i}"},
            label="a",
            predicted="ab"[i % 2],
            correct=i % 2 == 0,
            loss=1 / (i + 1),
        )
        for i in range(100_000)
    ]
    report = EvaluationReport(
        task="classify",
        name="rows",
        data={"rows": 100_000},
        metric="accuracy",
        higher=True,
        metrics={"accuracy": Interval(0.5)},
        methods={},
        baselines={},
    )
    path = write_page(folder / "rows.html", report_page(EvaluatedRows(report, records)))
    with chromium() as browser:
        page = browser.new_page()
        page.goto(path.as_uri())
        page.wait_for_selector(".row")
        return round(float(page.evaluate(SORT)) / 1000, 3)


def main() -> None:
    parser = argparse.ArgumentParser(description="Training curves benchmark.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where the logs go for a while; default: a temporary folder")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--browser", action="store_true", help="time the rows of an errors page in Chromium, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        results = measure(options.runs, options.steps, Path(folder))
        if options.browser:
            results["rows"] = sort_rows(Path(folder))
    if options.json:
        print(json.dumps({**environment(), **results}, indent=1))
        return
    for name, value in results.items():
        limit = f"   limit {LIMITS[name]}" if name in LIMITS else ""
        print(f"{name:14}{value:>14,}{limit}")


if __name__ == "__main__":
    main()
