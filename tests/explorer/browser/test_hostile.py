"""Names, labels and texts that are markup, on each kind of page: no script of theirs runs; they are read as text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

import glassformer
from glassformer.audio.listening import Sound, SoundExample, SoundMark
from glassformer.data.report import inspect_rows
from glassformer.data.sequence import InMemoryRows
from glassformer.evaluation.compare.compare import compare
from glassformer.evaluation.error_analysis.page import EvaluatedRows
from glassformer.explorer.codes_page import codec_example
from glassformer.explorer.embedding_page import PageMap
from glassformer.explorer.listening_page import ListeningPage
from glassformer.explorer.look import InitialView, Look
from glassformer.explorer.session_runs import SessionRuns
from glassformer.inspect.corpus import index_corpus
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
from glassformer.inspect.embeddings.occurrences import embed_words
from glassformer.inspect.embeddings.word_study import WordStudy
from glassformer.model import Model
from glassformer.reports.page import report_page, write_page
from glassformer.runs import curves
from glassformer.runs.folder import EventLog, event_log_path
from glassformer.runs.run_list import RunList
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.results import Segment, TimedWord, Transcription
from glassformer.speech.transcription_trace import TranscriptionTrace
from glassformer.studies.cells import Cell, scored
from glassformer.studies.report import Example, ReportOptions
from glassformer.studies.summary import study_report
from glassformer.tasks.metrics.metric import Interval
from glassformer.training.trials import SearchResult, Trial
from tests.evaluation.judged_run import classified, report
from tests.explorer.browser.samples import shaped, words
from tests.explorer.browser.tab import Tab
from tests.inspect.test_codes_input import CODEC, made, riff
from tests.runs.run_folders import make_run
from tests.tasks.transcribe.tones import RATE_HZ, WORDS, letters_folder, spoken
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
    groups = [(EVIL,)] * len(records)
    rows = EvaluatedRows(report("classify", records, name=EVIL), records, EVIL, {0: f"javascript:{RAN}"}, groups)
    return write_page(folder / "page.html", report_page(rows))


def curves_page(folder: Path) -> Path:
    run = write_run(folder / "run", options={EVIL: EVIL, "labels": [EVIL]})
    with EventLog(event_log_path(run)) as log:
        log.write("validation", step=60, metrics={EVIL: 0.5})
        log.write("skipped", step=61, loss=1.0, module=EVIL, indices=[EVIL])
    return curves.write_page(run, folder / "page.html")


def search_page(folder: Path) -> Path:
    trials = [Trial(0, {EVIL: EVIL}, {EVIL: 1.0}, "complete", 1.0), Trial(1, {EVIL: "b"}, {}, "failed", 1.0, EVIL)]
    return write_page(folder / "page.html", report_page(SearchResult(EVIL, "minimize", trials)))


def compared_page(folder: Path) -> Path:
    pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")
    rows = [{"article": f"{EVIL} {i}", "highlights": EVIL} for i in range(5)]
    systems = {EVIL: list, "short": lambda texts: [text[:9] for text in texts]}
    return write_page(folder / "page.html", report_page(compare(systems, rows, examples=2)))


def data_page(folder: Path) -> Path:
    rows = InMemoryRows([{"text": f"{EVIL} {i // 2}", "label": EVIL if i % 3 else "b"} for i in range(12)], name=EVIL)
    return write_page(folder / "page.html", report_page(inspect_rows({EVIL: rows}, text="text", label="label")))


def study_html(folder: Path) -> Path:
    """Names of factors, levels, metrics, costs and folders, and answers."""
    cells = {
        f"{EVIL}{n}{level}": (
            Cell({EVIL: level, f"{EVIL} n": n, f"{EVIL} on": EVIL}, 0, folder),
            scored({EVIL: np.arange(9) % (1 + n % 7) == 0}, {EVIL: n}, baselines={EVIL: Interval(0.5, 0.4, 0.6)}),
        )
        for n in (250, 1000)
        for level in (EVIL, f"{EVIL} b")
    }
    factors = {EVIL: [EVIL, f"{EVIL} b"], f"{EVIL} n": [250, 1000], f"{EVIL} on": [EVIL]}
    results = study_report(factors, cells, 4, ReportOptions(columns=f"{EVIL} on", against={EVIL: EVIL}, cost=EVIL))
    examples = [Example(test_set=EVIL, reference=EVIL, outputs={EVIL: EVIL})]
    return write_page(folder / "page.html", report_page(replace(results, notes=[EVIL], examples=examples)))


def sounds_page(folder: Path) -> Path:
    sound = Sound(EVIL, np.sin(np.arange(8_000) / 9), 8_000, marks=[SoundMark(EVIL, 0.0, 0.5, 45)], about=EVIL)
    ListeningPage([SoundExample(EVIL, [sound], EVIL, {EVIL: EVIL})], EVIL, about=EVIL, command=EVIL).save(
        folder / "page.html"
    )
    return folder / "page.html"


def codes_page(folder: Path) -> Path:
    codec = made(CODEC)
    file = folder / f"{MARKUP}\u202egnp.wav"
    riff(folder, 0.1).rename(file)
    ListeningPage([codec_example(codec.network, file)], file.name, command=str(file)).save(folder / "page.html")
    return folder / "page.html"


class Heard(TranscriptionTrace):
    """As if the recogniser had heard markup."""

    @property
    def transcription(self) -> Transcription:
        words = tuple(TimedWord(f" {EVIL}", at / 10, at / 10 + 0.1, 0.5) for at in range(4))
        segment = Segment(0.0, 0.4, f" {EVIL}", words=words)
        return replace(super().transcription, segments=(segment,))


def transcript_page(folder: Path) -> Path:
    file = folder / f"{MARKUP}\u202egnp.wav"
    soundfile.write(file, spoken(WORDS[0], np.random.default_rng(0)), RATE_HZ)
    page = Heard(glassformer.load(letters_folder(folder / "model")), file, TranscriptionOptions(word_timestamps=True))
    list(page)
    page.save(folder / "page.html")
    return folder / "page.html"


def runs_page(folder: Path) -> Path:
    """Names of runs, of which the best one is in the finding, of the metric and of settings."""
    for score, name in ((0.5, "plain"), (0.7, MARKUP)):
        make_run(folder / "runs" / name, (score,), metric=EVIL, data=EVIL, **{EVIL: f"{EVIL}{score}"})
    runs = RunList.read(folder / "runs")
    assert MARKUP in runs.finding and "<svg onload" in runs.finding
    return write_page(folder / "page.html", report_page(runs))


MARKUP = "<img src=x onerror=alert(1)>"  # a dialog fails the test, too

PAGES: dict[str, Callable[[Path], Path]] = {
    "codes": codes_page,
    "transcript": transcript_page,
    "errors": errors_page,
    "curves": curves_page,
    "search": search_page,
    "comparison": compared_page,
    "data": data_page,
    "study": study_html,
    "sounds": sounds_page,
    "runs": runs_page,
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


# ── markup that is one token, in the views of similarity, contexts and embeddings ────────────────────────────


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """An encoder whose word "banana" is markup."""
    folder = tmp_path_factory.mktemp("marked")
    shaped(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    number = tokenizer["model"]["vocab"].pop("banana")
    tokenizer["model"]["vocab"][EVIL] = number
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    tokenizer["added_tokens"] = [*tokenizer["added_tokens"], {"id": number, "content": EVIL, **flags}]
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    kinds = {"": "sentence_transformers.models.Transformer", "1_Pooling": "sentence_transformers.models.Pooling"}
    modules = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (path, kind) in enumerate(kinds.items())]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    model = glassformer.load(folder)
    assert EVIL in [token.text for token in model.inspect(f"fruit {EVIL} flies").streams["text"]]
    return model


@pytest.fixture(scope="module")
def similar(marked: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """Two texts, and a corpus to search."""
    folder = tmp_path_factory.mktemp("corpus")
    texts = [f"{words(3, seed)} {EVIL} {words(2, seed + 50)}" for seed in range(8)]
    (folder / "corpus.txt").write_text("\n".join(texts) + "\n")
    index_corpus(marked, folder / "corpus.txt", folder / "index", layers=[1], heads=[(0, 1)])
    with marked.look(texts[:2], browser=False, block=False, corpus=folder / "index") as look:
        yield look


@pytest.mark.parametrize("view", ["similarity", "contexts"])
def test_a_token_that_is_markup(tab: Tabs, similar: Look, view: str) -> None:
    """Also in the table, in the explanation, and where a token is pinned."""
    one = tab(reduced_motion="reduce")
    page = one.open(similar, view=view, l=0, h=1, q=4, sr=4, sc=4, **({"cl": 1} if view == "contexts" else {}))
    one.wait_for_view(view)
    page.locator("#view").get_by_role("button", name="data table").click()
    page.get_by_text("How to read this").click()
    page.wait_for_selector("#view table")
    check_nothing_ran(page)
    assert "<img src=x onerror" in page.evaluate("document.querySelector('#view').innerText")


def test_a_map_whose_texts_and_labels_are_markup(tab: Tabs, marked: Model, tmp_path: Path) -> None:
    texts = [f"{words(3, seed)} flies {EVIL}" for seed in range(8)]
    embeddings = embed_words(marked, texts, "flies", labels=[EVIL if i % 3 else "b" for i in range(8)])
    study = WordStudy(embeddings)
    corpus = PageMap.of(EmbeddingMap.of(embeddings), EVIL, study=study)
    start = InitialView(view="embedding")
    look = Look(SessionRuns(marked.session_factory()), texts[:1], start, corpus=corpus)
    look.save(tmp_path / "page.html")
    look.close()
    one = tab(reduced_motion="reduce")
    page = one.goto(tmp_path / "page.html")
    one.wait_for_view("embedding")
    page.get_by_role("application").focus()
    for key in ("ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.locator("#view").get_by_role("button", name="data table").click()
    page.wait_for_selector("#view table")
    check_nothing_ran(page)
    assert "<img src=x onerror" in page.evaluate("document.querySelector('#view').innerText")


OF_THE_MODEL = {
    "architecture": "#view table",
    "route": "#view canvas",
    "quantisation": ".lens-grid",
    "masks": "#view canvas",
}


@pytest.fixture(scope="module")
def named(marked: Model, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Look]:
    """The same model, whose folder is named by markup."""
    folder = tmp_path_factory.mktemp("named") / MARKUP
    shutil.copytree(str(marked.folder), folder)
    with glassformer.load(folder).look(f"fruit {EVIL} flies", browser=False, block=False) as look:
        yield look


@pytest.mark.parametrize("view", OF_THE_MODEL)
def test_a_model_whose_name_and_token_are_markup(tab: Tabs, named: Look, view: str) -> None:
    page = tab(reduced_motion="reduce").goto(named, view=view, q=2)
    page.wait_for_selector(OF_THE_MODEL[view])
    assert page.locator(".facts strong").inner_text() == MARKUP
    check_nothing_ran(page)
    for name in ("Data table", "How to read this"):
        for button in page.locator("#view").get_by_text(name, exact=True).all():
            button.click()
    check_nothing_ran(page)
    if view == "route":
        tokens = page.locator("#view select option").all_text_contents()
        assert any("<img src=x onerror" in token for token in tokens), tokens


@pytest.mark.parametrize("kind", sorted({*PAGES} - {"codes", "transcript", "runs"}))
def test_half_of_a_surrogate_pair(tab: Tabs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """As in the name of a file that is no UTF-8: the page is written, and shows a sign in its place."""
    monkeypatch.setitem(globals(), "EVIL", f"\udcff{EVIL}\ud83d")
    page = tab().goto(PAGES[kind](tmp_path))
    page.wait_for_load_state()
    check_nothing_ran(page)
    assert "<img src=x onerror" in page.evaluate("document.body.innerText")
