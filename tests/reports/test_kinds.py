"""Kinds of reports: no two classes share one, and each report of a tiny model is strict JSON with kind and version."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from glassformer.errors import DataError
from glassformer.explorer.describe import model_facts
from glassformer.explorer.tour import tell
from glassformer.files.lazy import imported
from glassformer.inspect import ram, sizes, summary
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
from glassformer.inspect.embeddings.occurrences import embed_words
from glassformer.inspect.embeddings.semantic_change import semantic_change
from glassformer.inspect.embeddings.word_study import WordStudy
from glassformer.inspect.families import family_table
from glassformer.lessons.walkthrough import masks
from glassformer.model import Model, load
from glassformer.models import FAMILIES
from glassformer.reports.kinds import KINDS, PlainReport, is_report, read_reports
from glassformer.reports.page import report_data, report_page
from glassformer.reports.report import Report
from tests.e2e.tiny_models import make_folder
from tests.project.report_kinds import PAGE, page_with, report_classes

TEXTS = ["time flies like an arrow", "fruit flies like a banana", "fruit flies . time flies"]


def test_each_report_has_a_kind_of_its_own() -> None:
    kinds = [cls.KIND for cls in report_classes()]
    assert len(kinds) > 40 and not [kind for kind, count in Counter(kinds).items() if count > 1]
    assert all(kind == kind.lower() and " " not in kind and "_" not in kind for kind in kinds)


def test_the_page_of_reports_lists_their_kinds_and_keys() -> None:
    text = PAGE.read_text("utf-8")
    assert page_with(text) == text, "run: python -m tests.project.report_kinds"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    folder = tmp_path_factory.mktemp("models")
    decoder: Model = load(make_folder(folder / "decoder", "gpt2"))
    encoder: Model = load(make_folder(folder / "encoder", "bert", task="feature-extraction"))
    session = decoder.inspect("time flies like an arrow")
    writing = decoder.writing("time flies")
    written = writing.write(max_new_tokens=3)
    occurrences = embed_words(encoder, TEXTS, "flies")
    return {
        "model-sizes": sizes(["gpt2"]),
        "model-families": family_table([FAMILIES["gpt2"]]),
        "memory": ram(decoder.network),
        "model-summary": summary(decoder.network),
        "lens": session.lens(),
        "overview": session.overview(0),
        "trace": session.trace(),
        "generated-texts": written,
        "generation-trace": writing,
        "lesson-step": masks(5),
        "lesson": tell(session, model_facts(decoder)),
        "attribution": session.attribute(),
        "similarity": encoder.explain_similarity("time flies", "fruit flies"),
        "contextual-embeddings": occurrences,
        "layer-curve": occurrences.layer_curve(),
        "cosines": occurrences.cosine(),
        "senses": occurrences.senses(2),
        "word-study": WordStudy(occurrences),
        "embedding-map": EmbeddingMap.of(occurrences),
        "semantic-change": semantic_change(encoder, TEXTS, TEXTS[:2], "flies", resamples=2),
        "patch": session.patch("blocks.0.attn.z[0]"),
        "patch-map": session.sweep("heads"),
    }


KINDS_OF_SESSIONS = (
    "model-sizes", "model-families", "memory", "model-summary",
    "overview", "trace", "generated-texts", "generation-trace", "lesson-step", "lesson",
    "lens", "attribution", "similarity", "contextual-embeddings", "layer-curve", "cosines", "senses", "word-study",
    "embedding-map",
    "semantic-change", "patch", "patch-map",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS_OF_SESSIONS)
def test_a_report_of_a_session_is_strict_json_with_kind_and_version(reports: dict[str, Any], kind: str) -> None:
    values = json.loads(json.dumps(reports[kind].to_dict(), allow_nan=False))
    assert (values["kind"], values["version"]) == (kind, 1)
    assert len(values) > 2 and str(reports[kind])


def test_the_kinds_that_are_read_back_are_those_of_their_classes() -> None:
    assert all(kind == imported(KINDS[kind]).KIND for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS_OF_SESSIONS)
def test_each_kind_has_a_page_of_its_json(reports: dict[str, Any], kind: str, tmp_path: Path) -> None:
    """As its class draws it, where its JSON has all that this needs; else as names, values and tables."""
    report, several = reports[kind], tmp_path / "several.json"
    report.save(tmp_path / "one.json")
    several.write_text(json.dumps([report.to_dict(), {**report.to_dict(), "out": "page.html"}]))
    assert is_report(tmp_path / "one.json") and is_report(several)
    one, *_, other = [*read_reports(tmp_path / "one.json"), *read_reports(several)]
    assert report_data(one) == report_data(type(report).from_dict(report.to_dict()) if kind in KINDS else one)
    assert type(one) is type(other) is (type(report) if kind in KINDS else PlainReport)
    shown, told = json.dumps(report_data(one)), {"kind", "version", "caption", "finding", "notes"}
    assert kind in KINDS or all(f'"{name}"' in shown for name in report.to_dict() if name not in told)


def test_what_is_no_report_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text, message in (
        ("[1]", "this JSON is no report: it has no 'kind'"),
        ('{"kind": 3}', "this JSON is no report"),
        ('{"kind": "memory", "version": 9}', "it was written by a later Glassformer; update this one"),
        ('{"kind": "memory", "version": 1}', "is missing"),
        ('{"kind": "memory", "version": 1', "is not valid JSON"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            read_reports(path)
    path.write_text('[{"kind": "a", "text": "rows of data have such a column too"}]')
    assert not is_report(path) and not is_report(tmp_path) and not is_report(tmp_path / "y.json")


EVIL = "<script>alert(1)</script> \u202e\x1b[2J=1+1 \ud800\0"
NAMES = {("TapRow", "axes"), ("OutputTable", "columns"), ("Patching", "mode")}
"""Fields that name a kind, a letter each, or one of a few words: no other text gets there."""


def texts(part: Any, seen: set[int]) -> Iterator[tuple[Any, str, Any]]:
    """Each part of a report with the name of a field that is a text, or several, and what is to be there instead."""
    if id(part) in seen:
        return
    seen.add(id(part))
    if isinstance(part, Mapping | list | tuple):
        for each in list(part.values() if isinstance(part, Mapping) else part)[:2]:
            yield from texts(each, seen)
    elif is_dataclass(part) and type(part).__module__.startswith("glassformer."):
        for field in fields(part):
            value = getattr(part, field.name)
            several = isinstance(value, list | tuple) and bool(value) and all(isinstance(x, str) for x in value)
            if (type(part).__name__, field.name) in NAMES:
                continue
            if isinstance(value, str) or several:
                yield part, field.name, EVIL if isinstance(value, str) else type(value)([EVIL] * len(value))
            else:
                yield from texts(value, seen)


@pytest.mark.parametrize("kind", KINDS_OF_SESSIONS)
def test_hostile_texts_are_shown_as_text_in_each_field(reports: dict[str, Any], kind: str) -> None:
    """On the terminal, in a notebook and on a page. What spreadsheets take for a formula: web/test/core/csv.test.ts."""
    report = reports[kind]
    for part, name, hostile in list(texts(report, set())):
        before = getattr(part, name)
        object.__setattr__(part, name, hostile)
        shown = str(report), report._repr_html_(), report_page(report)
        object.__setattr__(part, name, before)
        assert not any("<script>alert" in html for html in shown[1:]), (type(part), name)
        assert not {"\x1b", "\u202e", "\0", "\ud800"} & set("".join(shown)), (type(part), name)
