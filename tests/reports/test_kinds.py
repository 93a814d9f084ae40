"""Kinds of reports: no two classes share one, and each report of a tiny model is strict JSON with kind and version."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from glassformer.inspect import ram, sizes, summary
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
from glassformer.inspect.embeddings.occurrences import embed_words
from glassformer.inspect.embeddings.semantic_change import semantic_change
from glassformer.inspect.embeddings.word_study import WordStudy
from glassformer.inspect.families import family_table
from glassformer.lessons.walkthrough import masks
from glassformer.model import Model, load
from glassformer.models import FAMILIES
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


KINDS = (
    "model-sizes", "model-families", "memory", "model-summary",
    "overview", "trace", "generated-texts", "generation-trace", "lesson-step",
    "lens", "attribution", "similarity", "contextual-embeddings", "layer-curve", "cosines", "senses", "word-study",
    "embedding-map",
    "semantic-change", "patch", "patch-map",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_of_a_session_is_strict_json_with_kind_and_version(reports: dict[str, Any], kind: str) -> None:
    values = json.loads(json.dumps(reports[kind].to_dict(), allow_nan=False))
    assert (values["kind"], values["version"]) == (kind, 1)
    assert len(values) > 2 and str(reports[kind])
