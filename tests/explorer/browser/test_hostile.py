"""Names, labels and texts that are markup, on each kind of page: no script of theirs runs; they are read as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glassformer
from glassformer.audio.listening import Sound, SoundExample, SoundMark
from glassformer.data.report import inspect_rows
from glassformer.data.report_page import report_html
from glassformer.data.sequence import InMemoryRows
from glassformer.evaluation.compare.comparison import comparison_page
from glassformer.evaluation.compare.texts import Row, System, compare
from glassformer.evaluation.error_analysis.page import ErrorsPage
from glassformer.explorer.listening_page import ListeningPage
from glassformer.explorer.look import Look
from glassformer.model import Model
from glassformer.reports.page import write_page
from glassformer.runs import curves
from glassformer.runs.event_log import EventLog, event_log_path
from glassformer.studies.page import study_page
from glassformer.studies.results import CurveOptions, StudyResults, TrainedModel
from glassformer.tasks.metrics.metric import Interval
from glassformer.training.trials import SearchResult, Trial, trials_page
from tests.evaluation.judged_run import classified, report
from tests.explorer.browser.tab import Tab
from tests.training.a_run import write_run

Tabs = Callable[..., Tab]
RAN = "document.documentElement.dataset.ran = 1"
EVIL = (
    f"</script><script>{RAN}</script><img src=x onerror='{RAN}'><svg onload=\"{RAN}\"></title></textarea>"
    f'<a href="javascript:{RAN}">javascript:{RAN}</a><!-- \u202egnp\u202c \u2066&quot;'
)
INSIDE = "document.querySelectorAll('img, a[href^=javascript], [onerror], [onload], svg[onload]').length"


def errors_page(folder: Path) -> Path:
    records = classified(6, [f"{name} {EVIL}" for name in "abc"], text=EVIL)
    return ErrorsPage(report("classify", records, name=EVIL), records).save(folder / "page.html")


def curves_page(folder: Path) -> Path:
    run = write_run(folder / "run", options={EVIL: EVIL, "labels": [EVIL]})
    with EventLog(event_log_path(run)) as log:
        log.write("validation", step=60, metrics={EVIL: 0.5})
        log.write("skipped", step=61, loss=1.0, module=EVIL, indices=[EVIL])
    return curves.write_page(run, folder / "page.html")


def search_page(folder: Path) -> Path:
    trials = [Trial(0, {EVIL: EVIL}, {EVIL: 1.0}, "complete", 1.0), Trial(1, {EVIL: "b"}, {}, "failed", 1.0, EVIL)]
    return write_page(folder / "page.html", trials_page(SearchResult(EVIL, "minimize", trials)))


def compared_page(folder: Path) -> Path:
    pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")
    rows = [Row(i, f"{EVIL} {i}", [EVIL]) for i in range(5)]
    systems = [System(EVIL, list), System("short", lambda texts: [text[:9] for text in texts])]
    return write_page(folder / "page.html", comparison_page(compare(rows, systems, examples=2)))


def data_page(folder: Path) -> Path:
    rows = InMemoryRows([{"text": f"{EVIL} {i // 2}", "label": EVIL if i % 3 else "b"} for i in range(12)], name=EVIL)
    return write_page(folder / "page.html", report_html(inspect_rows({EVIL: rows}, text="text", label="label")))


def study_html(folder: Path) -> Path:
    results = StudyResults(
        task="tag", metric="f1", higher=True, method=EVIL, test_sets={EVIL: {"files": [EVIL], "rows": 5}},
        trainings=[
            TrainedModel(
                name=f"{EVIL}-{n}", of=EVIL, size=n, seed=0, rows=9, steps=1, tokens=1, seconds=1.0, folder=EVIL,
                metrics={EVIL: Interval(0.5, 0.4, 0.6)},
            )
            for n in (250, 1000)
        ],
        planned=2, curve=CurveOptions(over=EVIL, test_set=EVIL),
    )  # fmt: skip
    return write_page(folder / "page.html", study_page(results))


def sounds_page(folder: Path) -> Path:
    sound = Sound(EVIL, np.sin(np.arange(8_000) / 9), 8_000, marks=[SoundMark(EVIL, 0.0, 0.5, 45)], about=EVIL)
    ListeningPage([SoundExample(EVIL, [sound], EVIL, {EVIL: EVIL})], EVIL, about=EVIL, command=EVIL).save(
        folder / "page.html"
    )
    return folder / "page.html"


PAGES: dict[str, Callable[[Path], Path]] = {
    "errors": errors_page,
    "curves": curves_page,
    "search": search_page,
    "comparison": compared_page,
    "data": data_page,
    "study": study_html,
    "sounds": sounds_page,
}


def check_nothing_ran(page: Any) -> None:
    """Give what was smuggled in the time to run; then nothing has, and no text is an element."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")
    assert page.evaluate("document.documentElement.dataset.ran") is None, "a script of a text ran"
    assert page.evaluate(INSIDE) == 0, "a text has become an element"


@pytest.mark.parametrize("kind", PAGES)
def test_on_a_page(tab: Tabs, tmp_path: Path, kind: str) -> None:
    """Also where a click or the pointer unfolds more of it."""
    page = tab().goto(PAGES[kind](tmp_path))
    page.wait_for_load_state()
    check_nothing_ran(page)
    assert "<img src=x onerror" in page.evaluate("document.body.innerText"), "the text is not on the page"
    for summary in page.locator("summary").all():
        summary.click()
    check_nothing_ran(page)


MARKUP = "<img src=x onerror=alert(1)>"  # a dialog fails the test, too
VIEWS = {"lens": ".lens-grid", "attribution": ".attr-word", "patch": ".patch-aside", "generate": ".gen-facts"}


@pytest.fixture(scope="module")
def hostile(look: Callable[..., Look]) -> Look:
    plays: Model = glassformer.load("package:glassformer/checkpoints/shakespeare")
    return look(plays, MARKUP)


@pytest.mark.parametrize("view", VIEWS)
def test_in_the_explorer(tab: Tabs, hostile: Look, view: str) -> None:
    """The views that test_standalone.py does not open."""
    page = tab().goto(hostile, view=view, **({"g.max_new_tokens": 4} if view == "generate" else {}))
    page.wait_for_selector(VIEWS[view])
    assert page.locator(".texts textarea").first.input_value() == MARKUP
    check_nothing_ran(page)
