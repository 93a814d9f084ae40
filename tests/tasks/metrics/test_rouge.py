"""ROUGE: worked by hand, equal to the package with and without stemming, and offline."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import ConfigError, DataError, MissingExtraError
from glassformer.tasks.metrics import rouge as module
from glassformer.tasks.metrics.metric import differences
from glassformer.tasks.metrics.rouge import KINDS, RougeMetric, rouge
from glassformer.text.sentences import split_sentences
from tests.e2e.test_offline import BLOCKED

scorers = pytest.importorskip(
    "rouge_score.rouge_scorer", reason="needs rouge-score: pip install 'glassformer[evaluate]'"
)

WORDS = "cats sat running on the mats . ? \n Mr. 7 ü".split(" ")
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)


def test_the_example_by_hand() -> None:
    found = rouge(["the cat on the mat"], ["the cat is on the mat"])
    assert (found.rouge1.precision.value, found.rouge1.recall.value) == pytest.approx((5 / 5, 5 / 6))
    assert (found.rouge2.precision.value, found.rouge2.recall.value) == pytest.approx((3 / 4, 3 / 5))
    assert (found.rougeL.precision.value, found.rougeL.recall.value) == pytest.approx((5 / 5, 5 / 6))
    assert found.rouge1.f.value == pytest.approx(2 * 1 * (5 / 6) / (1 + 5 / 6))


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_equal_to_the_package(rows: list[tuple[str, str]], stemming: bool, sentences: bool) -> None:
    def lines(text: str) -> str:
        return "\n".join(split_sentences(text)) if sentences else text

    scorer = scorers.RougeScorer(list(KINDS.values()), use_stemmer=stemming)
    theirs = [scorer.score(lines(reference), lines(output)) for output, reference in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of references without a word
        ours = rouge(*zip(*rows, strict=True), stemming=stemming, sentences=sentences, resamples=3)
    for kind in KINDS.values():
        overlap = getattr(ours, kind)
        found = [overlap.precision.value, overlap.recall.value, overlap.f.value]
        assert found == pytest.approx(np.mean([score[kind] for score in theirs], axis=0), abs=1e-6)


def test_stemming_joins_forms_of_a_word() -> None:
    assert rouge(["cats running"], ["cat runs"]).rouge1.f.value == 0
    assert rouge(["cats running"], ["cat runs"], stemming=True).rouge1.f.value == 1


def test_sentences_matter_to_lsum_alone() -> None:
    output, reference = "He left. She came.", "She came. He left."
    whole, split = (rouge([output], [reference], sentences=each) for each in (False, True))
    assert whole.rougeLsum.f.value == whole.rougeL.f.value == split.rougeL.f.value == 0.5
    assert split.rougeLsum.f.value == 1


def test_of_several_references_the_best_counts() -> None:
    assert rouge(["a cat"], [["no", "a cat", "a"]]).rouge1.f.value == 1


def test_intervals_and_differences() -> None:
    outputs, references = ["a b", "a c", "d e", "a"], ["a b"] * 4
    good, bad = RougeMetric(), RougeMetric()
    for output, reference in zip(outputs, references, strict=True):
        good.add(reference, reference)
        bad.add(output, reference)
    found = bad.result().rouge1.f
    assert found.low is not None and found.high is not None and 0 <= found.low < found.value < found.high <= 1
    assert differences(bad.bootstrap(), good.bootstrap())["ROUGE-1 f"].value == pytest.approx(found.value - 1)


def test_texts_are_not_kept() -> None:
    text_metric = RougeMetric()
    text_metric.add("a secret " * 50, "a secret")
    assert text_metric.rows.shape == (1, 12)
    assert not any("secret" in repr(value) for value in vars(text_metric).values())


def test_the_result_is_readable_and_data() -> None:
    found = rouge(["a b", "b"], ["a", "b"], stemming=True)
    assert "ROUGE-Lsum" in repr(found) and "2 rows, words stemmed, by rouge-score 0" in repr(found)
    assert set(found.packages) == {"rouge-score", "nltk", "pysbd"}
    assert json.loads(json.dumps(found.to_dict()))["rougeL"]["f"]["value"] == found.rougeL.f.value
    assert "<table>" in found._repr_html_()


def test_scripts_that_rouge_does_not_read_are_announced_once() -> None:
    with pytest.warns(UserWarning, match="letters a-z and digits alone") as caught:
        found = rouge(["кот", "кот", "a"], ["кот", "кот", "a"])
    assert len(caught) == 1 and found.wordless == 2 and found.rouge1.f.value == pytest.approx(1 / 3)


def test_too_long_for_a_table_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PAIRS", 100)
    rouge(["a " * 10], ["a " * 10])
    with pytest.raises(DataError, match="a text of 11 words with one of 10 is too long"):
        rouge(["a " * 11], ["a " * 10])


def test_wrong_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="language 'xx'"):
        RougeMetric(language="xx")
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(MissingExtraError, match=r"glassformer\[evaluate\]"):
        rouge(["a"], ["a"])


def test_nothing_is_fetched() -> None:
    program = (
        "from glassformer.tasks.metrics.rouge import rouge\n"
        "from glassformer.tasks.metrics.bleu import bleu, chrf\n"
        "texts = ['The cats ran. It rained.'], ['A cat ran.']\n"
        "print(rouge(*texts, stemming=True), bleu(*texts), chrf(*texts))\n"
    )
    done: Any = subprocess.run([sys.executable, "-c", BLOCKED + program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "ROUGE-Lsum" in done.stdout, done.stderr
    assert done.stderr == ""
