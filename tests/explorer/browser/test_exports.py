"""Every button that saves a card of a report: pictures, drawings and tables hold what is on screen."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from glassformer.data.report import inspect_rows
from glassformer.data.sequence import InMemoryRows
from glassformer.evaluation.bench import EncodingBench, PrecisionRow
from glassformer.evaluation.compare.comparison import ComparedSystem, Comparison
from glassformer.evaluation.compare.seeds import summarise_seeds
from glassformer.evaluation.error_analysis.page import EvaluatedRows
from glassformer.reports.page import report_page, write_page
from glassformer.reports.report import Display
from glassformer.reports.table import Table
from glassformer.runs.curves import TrainingCurves
from glassformer.runs.history import read_run
from glassformer.runs.run_list import RunList
from glassformer.speech.results import Segment, Transcription
from glassformer.studies.cells import Cell, CellResult, scored
from glassformer.studies.report import ReportOptions
from glassformer.studies.study import Study
from glassformer.tasks.metrics.metric import Interval
from glassformer.training.trials import SearchResult, Trial
from tests.evaluation import judged_run, made
from tests.explorer.browser.tab import Tab
from tests.explorer.browser.test_pictures import light_and_readable
from tests.runs.run_folders import make_run
from tests.studies.few_labels import score
from tests.training.a_run import write_run

Tabs = Callable[..., Tab]
Pages = Callable[[Path], list[Display]]
image = pytest.importorskip("PIL.Image", reason="needs Pillow to read pictures: pip install pillow")


def study(folder: Path) -> list[Display]:
    factors: dict[str, Any] = {"method": ["prompt", "knn", "set-fit"], "labels": [8, 16, 32]}
    options = ReportOptions(cost="seconds", against={"method": "prompt", "labels": 8})
    return [Study(factors, score, folder, seeds=[0, 1], options=options, settings={"rows": 50}).run()]


def ablation(folder: Path) -> list[Display]:
    def evaluate(cell: Cell) -> CellResult:
        right = [i % 4 < (3 if cell["recipe"] == "all parts" else 2) for i in range(40)]
        return scored({"accuracy": right}, {"seconds": 65.0}, baselines={"bag of words": Interval(0.6, None, None)})

    options = ReportOptions(cost="seconds")
    return [Study({"recipe": ["all parts", "without warm-up"]}, evaluate, folder, options=options).run()]


def comparison(folder: Path) -> list[Display]:
    systems = [
        ComparedSystem(
            name=f"system {i}", metrics={"f1": Interval(0.5 + i / 10, 0.45 + i / 10, 0.55 + i / 10)},
            differences={"f1": Interval(i / 10, i / 10 - 0.04, i / 10 + 0.04)} if i else {},
        )
        for i in range(3)
    ]  # fmt: skip
    return [
        Comparison(task="classify", caption="1,200 rows", systems=systems, shown={"f1": 2}, metric="f1", higher=True)
    ]


def search(folder: Path) -> list[Display]:
    def trial(i: int) -> Trial:
        state: Any = "failed" if i == 4 else "pruned" if i == 3 else "complete"
        return Trial(i, {"rate": 10.0 ** -(i + 2), "schedule": "linear"}, {"f1": i / 9, "loss": 2.0}, state, 65.0 * i)

    return [SearchResult("f1", "maximize", [trial(i) for i in range(5)])]


def data_report(folder: Path) -> list[Display]:
    rows = [{"text": f"time flies {'and flies ' * (i % 5)}{i}", "label": "joy" if i % 3 else "fear"} for i in range(30)]
    files = {"train.csv": InMemoryRows(rows), "val.csv": InMemoryRows(rows[:9])}
    return [inspect_rows(files, text="text", label="label")]


def bench(folder: Path) -> list[Display]:
    def row(name: str, speed: float) -> PrecisionRow:
        return PrecisionRow(
            precision=name, seconds=1.0, sentences_per_second=1234.5 * speed, tokens_per_second=24_000.0,
            speedup=speed, largest_difference=3.2e-7, smallest_cosine=0.999999,
        )  # fmt: skip

    rows = [row("plain", 1.0), row("int8", 1.5)]
    return [EncodingBench(model="minilm", about="BERT, 22.7M", sentences=500, rows=rows)]


def curves(folder: Path) -> list[Display]:
    return [TrainingCurves([read_run(write_run(folder / name, steps=30)) for name in ("plain", "other")])]


def runs(folder: Path) -> list[Display]:
    for i, value in enumerate((0.5, 0.9, 0.7)):
        make_run(folder / f"run-{i}", [value], interval=(value - 0.05, value + 0.05), rate=f"1e-{3 + i}", seed=i)
    return [RunList.read(folder)]


def errors(folder: Path) -> list[Display]:
    records = judged_run.classified()
    return [EvaluatedRows(judged_run.report("classify", records), records)]


def evaluation(folder: Path) -> list[Display]:
    return [judged_run.report("classify", judged_run.classified())]


def transcript(folder: Path) -> list[Display]:
    segments = (Segment(0.0, 2.5, " and so my fellow Americans"), Segment(2.5, 11.0, " ask not, =1+1"))
    return [Transcription(segments[0].text + segments[1].text, segments, 11.0, "en", 0.98)]


def seeds(folder: Path) -> list[Display]:
    pytest.importorskip("scipy", reason="needs scipy: pip install 'glassformer[evaluate]'")
    for seed, right in enumerate((15, 16, 18)):
        made.make_run(folder / f"seed-{seed}", [i < right for i in range(20)], seed=seed, seconds=60.0 + seed)
    return [summarise_seeds(folder)]


def few_labels(folder: Path) -> list[Display]:
    """A study that says who wins at how many labels, and what was done in each cell."""

    def evaluate(cell: Cell) -> CellResult:
        rounds = Table(["round", "texts", "share"], [["1", "8", "0.25"], ["2", "1,240", "41%"]], "Self-training")
        return replace(score(cell), tables=[rounds])

    factors: dict[str, Any] = {"method": ["prompt", "knn"], "labels": [8, 16]}
    options = ReportOptions(cost="seconds", winners=True)
    return [Study(factors, evaluate, folder, seeds=[0, 1], options=options, settings={"rows": 50}).run()]


PAGES: dict[str, Pages] = {
    each.__name__: each
    for each in (
        study, ablation, comparison, search, data_report, bench, curves, runs, errors, evaluation, transcript, seeds,
        few_labels,
    )
}  # fmt: skip

SHOWN = """card => {
  const out = ".saves, .more, .unseen, .pager, .look, .series-head button, details:not([open]), button[type], script, "
    + "noscript, .uplot, select, input, title, desc, .filters, .browse-bar, .pick";
  const texts = [], walk = document.createTreeWalker(card, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const parent = node.parentElement, style = getComputedStyle(parent);
    const cut = style.textOverflow === "ellipsis" && parent.scrollWidth > parent.clientWidth;
    if (node.data.trim() && !cut && !parent.closest(out) && parent.checkVisibility({ visibilityProperty: true }))
      texts.push(node.data);
  }
  const rows = [...card.querySelectorAll("tbody tr")].map((row) =>
    [...row.querySelectorAll("th, td:not(.pick)")].map((cell) => cell.innerText));
  const cells = [...card.querySelectorAll("g[data-cell] > text")].map((text) =>
    [...text.parentNode.dataset.cell.split(",").map(Number), text.textContent]);
  return { texts, rows, cells, isTable: card.matches("section.card") };
}"""
"""Of a card: the texts that are on screen, the cells of its table, and those of its matrix with their places."""


@dataclass(frozen=True)
class Saved:
    """The files of a card, by their endings."""

    title: str
    shown: dict[str, Any]
    svg: str
    png: bytes
    csv: list[list[str]]


def cards(page: Any) -> list[Saved]:
    """Press every button of every card that is on screen, once all that is folded is open."""
    page.evaluate("() => document.querySelectorAll('.card details').forEach((each) => { each.open = true; })")
    page.wait_for_function("() => !document.querySelector('.series-plot:not(:has(canvas))')")
    saved = []
    for group in page.locator(".saves").all():
        card = group.locator("xpath=ancestor::*[self::figure or self::section][1]")
        shown, files = card.evaluate(SHOWN), {}
        for name in ("PNG", "SVG", "CSV"):
            with page.expect_download() as download:
                group.get_by_text(name, exact=True).click()
            assert download.value.suggested_filename.endswith(name.lower())
            files[name] = Path(download.value.path()).read_bytes()
        table = [*csv.reader(io.StringIO(files["CSV"].decode()))]
        saved.append(Saved(group.get_attribute("data-title"), shown, files["SVG"].decode(), files["PNG"], table))
    return saved


def compact(text: str) -> str:
    return "".join(text.split()).casefold()


def number(text: str) -> float:
    """A number of a page or of a file; a time in seconds."""
    parts = text.replace(",", "").replace("−", "-").split(":")
    return math.fsum(float(part) * 60**i for i, part in enumerate(reversed(parts)))


NUMBER = re.compile(r"(?:[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+−]?\d+)?)(?::\d\d)*", re.I)


def same_values(shown: list[str], row: list[str]) -> bool:
    """Whether the cells of a row of a file are those on screen: each number as rounded there, 41% as 0.41 too."""
    given = [number(x) for cell in row for x in NUMBER.findall(cell)]
    for match in (x for cell in shown for x in NUMBER.finditer(cell)):
        text, is_share = match[0].lower(), match.string[match.end() :].startswith("%")
        mantissa, _, power = text.partition("e")
        half = 0.5001 * 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
        known = [*given, *(100 * x for x in given if is_share)]
        if not any(abs(x - number(text)) <= half for x in known):
            return False
    return True


@pytest.mark.parametrize("kind", PAGES)
def test_each_card_is_saved_as_it_is_shown(tab: Tabs, tmp_path: Path, kind: str) -> None:
    """As a picture that is not blank, a drawing with every text of the card, and a table with the numbers of it."""
    write_page(tmp_path / "page.html", report_page(*PAGES[kind](tmp_path / "made")))
    one = tab(accept_downloads=True, color_scheme="dark")
    saved = cards(one.goto(tmp_path / "page.html"))
    assert saved and (kind != "errors" or any(card.shown["cells"] for card in saved))
    assert kind != "curves" or any(card.shown["rows"] and not card.shown["isTable"] for card in saved)
    for card in saved:
        where = f"{kind}: {card.title}"
        light_and_readable(where, card.svg, card.png)
        drawing = ElementTree.fromstring(card.svg)
        written = compact("".join(x.text or "" for x in drawing.iter("{http://www.w3.org/2000/svg}text")))
        missing = [text for text in card.shown["texts"] if compact(text) not in written]
        assert not missing, f"{where}: the drawing lacks {missing}"
        assert card.title != "table" and compact(card.title) in written, f"{where}: the drawing has no title"
        with image.open(io.BytesIO(card.png)) as picture:
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 8, f"{where}: the picture is blank"
            assert abs(picture.width - 2 * float(drawing.get("width", 0))) <= 2, f"{where}: the picture is cut"
        head, *rows = card.csv
        assert rows and all(len(row) == len(head) for row in rows) and len(set(head)) == len(head), where
        if card.shown["isTable"]:
            assert len(rows) == len(card.shown["rows"]), f"{where}: rows of the file"
            for shown, row in zip_longest(card.shown["rows"], rows):
                assert same_values(shown, row), f"{where}: shown {shown}, saved {row}"
        else:  # the table of a chart's values has some of the points of its lines
            for shown in card.shown["rows"]:
                assert any(same_values(shown, row) for row in rows), f"{where}: shown {shown}, not saved"
        for row, column, text in card.shown["cells"]:
            assert number(text or "0") == number(rows[row][column + 1]), f"{where}: the cell {row}, {column}"
    assert not [url for url in one.requested_urls if not url.startswith(("file:", "data:", "blob:"))]
