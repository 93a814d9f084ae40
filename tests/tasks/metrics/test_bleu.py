"""BLEU and chrF: worked by hand, and equal to the package on anything."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import ConfigError, MissingExtraError
from glassformer.tasks.metrics.bleu import SMOOTHING, TOKENIZE, BleuMetric, bleu, chrf

sacrebleu = pytest.importorskip("sacrebleu", reason="needs sacrebleu: pip install 'glassformer[evaluate]'")

CAT = "the cat is on the mat"
WORDS = st.lists(st.sampled_from("the cat is on a mat . , THE".split()), max_size=8).map(" ".join)


def test_a_word_counts_as_often_as_in_the_reference() -> None:
    found = bleu(["the the the the the the"], [CAT], smoothing="none")
    assert found.precisions[0] == pytest.approx(100 / 3) and found.matches[0] == 2 and found.totals[0] == 6
    assert found.score.value == 0 and found.brevity_penalty == 1
    assert "smooth:none" in found.signature


def test_the_example_by_hand() -> None:
    found = bleu(["the cat is on mat"], [CAT])
    by_hand = 100 * math.exp(1 - 6 / 5) * (5 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4)
    assert found.score.value == pytest.approx(by_hand, abs=1e-9)
    assert found.score.value == pytest.approx(57.893, abs=5e-4)
    assert found.brevity_penalty == pytest.approx(0.8187, abs=5e-5)
    assert (found.matches, found.totals) == ((5, 3, 2, 1), (5, 4, 3, 2))
    assert (found.output_length, found.reference_length) == (5, 6)


@given(st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=1, max_size=6), st.sampled_from(SMOOTHING))
@settings(max_examples=60, deadline=None)
def test_equal_to_the_package(rows: list[tuple[str, str, str]], smoothing: str) -> None:
    outputs, first, second = map(list, zip(*rows, strict=True))
    references = [[a, b] for a, b in zip(first, second, strict=True)]
    theirs = sacrebleu.metrics.BLEU(smooth_method=smoothing).corpus_score(outputs, [first, second])
    ours = bleu(outputs, references, smoothing=smoothing, resamples=3)
    assert ours.score.value == pytest.approx(theirs.score, abs=1e-9)
    assert ours.precisions == pytest.approx(theirs.precisions) and ours.brevity_penalty == theirs.bp
    chars = sacrebleu.metrics.CHRF().corpus_score(outputs, [first, second])
    assert chrf(outputs, references, resamples=3).score.value == pytest.approx(chars.score, abs=1e-9)


@pytest.mark.parametrize("tokenize", TOKENIZE)
@pytest.mark.parametrize("lowercase", [False, True])
def test_tokenizers_and_case(tokenize: str, lowercase: bool) -> None:
    outputs, references = ["The cat's mat, 中文。", "no"], ["the CAT is on it: 中文", "No."]
    theirs = sacrebleu.metrics.BLEU(tokenize=tokenize, lowercase=lowercase)
    wanted = theirs.corpus_score(outputs, [references])
    ours = bleu(outputs, references, tokenize=tokenize, lowercase=lowercase)
    assert ours.score.value == pytest.approx(wanted.score, abs=1e-9)
    assert ours.signature == str(theirs.get_signature())


def test_the_interval_is_that_of_whole_samples() -> None:
    """A sample's BLEU is that of its rows put together, not a mean over them."""
    outputs = [CAT, "the cat is on mat", "a cat sat on the mat today", "mat the on is cat the"] * 3
    text_metric = BleuMetric()
    for output in outputs:
        text_metric.add(output, CAT)
    found = text_metric.result(resamples=40, seed=7)
    generator = np.random.default_rng(7)
    metric = sacrebleu.metrics.BLEU()
    drawn = [
        metric.corpus_score([outputs[i] for i in generator.integers(12, size=12)], [[CAT] * 12]).score
        for _ in range(40)
    ]
    assert (found.score.low, found.score.high) == pytest.approx(tuple(np.quantile(drawn, [0.025, 0.975])))


def test_the_result_is_readable_and_data() -> None:
    found = bleu(["the cat is on mat", CAT], [CAT, [CAT, "a cat"]])
    assert "BLEU" in repr(found) and "4-grams" in repr(found) and "nrefs:var" in repr(found)
    assert f"version:{sacrebleu.__version__}" in found.signature
    assert found.packages == {"sacrebleu": sacrebleu.__version__}
    assert json.loads(json.dumps(found.to_dict()))["score"]["value"] == found.score.value
    assert (found.to_dict()["kind"], chrf([CAT], [CAT]).to_dict()["kind"]) == ("bleu", "chrf")
    assert found._repr_html_().startswith("<table>")
    assert "smoothed: 0 of" in repr(bleu(["the the"], [CAT]))
    assert repr(chrf([CAT], [CAT])).startswith("metric  value\nchrF    100.00\n")


def test_wrong_options() -> None:
    with pytest.raises(ConfigError, match="smoothing is 'some'; allowed: exp"):
        bleu(["a"], ["a"], smoothing="some")
    with pytest.raises(ConfigError, match="tokenize is 'flores200'; allowed: 13a"):
        bleu(["a"], ["a"], tokenize="flores200")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(MissingExtraError, match=r"glassformer\[evaluate\]"):
        bleu(["a"], ["a"])
