"""Unsupervised data augmentation: its losses against plain formulas, and what unlabelled texts teach."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from glassformer.errors import ConfigError
from glassformer.few_labels import LabelledTexts, Setting, make_method
from glassformer.few_labels.uda import LabelAlignment, annealed, consistency_loss, endless, supervised_loss
from tests.few_labels.samples import WORDS, encoder, setting

__all__ = ["encoder", "setting"]


def test_consistency_is_the_divergence_of_the_copy_from_the_sharpened_text() -> None:
    text, copy = torch.tensor([[3.0, 0.0, -1.0], [0.2, 0.1, 0.0]]), torch.tensor([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0]])
    loss, share = consistency_loss(text, copy, several=False, temperature=0.5, confidence=0.8)
    sharp = text.softmax(-1) ** 2
    sharp = sharp / sharp.sum(-1, keepdim=True)  # p to the power of 1 / temperature
    expected = F.kl_div(copy[:1].log_softmax(-1), sharp[:1], reduction="sum") / 2  # the second text is unsure
    assert float(loss) == pytest.approx(float(expected)) and share == 0.5
    all_count, share = consistency_loss(text, copy, several=False, temperature=0.5, confidence=0.0)
    assert float(all_count) == pytest.approx(float(F.kl_div(copy.log_softmax(-1), sharp, reduction="batchmean")))
    assert share == 1.0
    assert float(consistency_loss(text, text, several=False, temperature=1.0, confidence=0.0)[0]) == pytest.approx(0)


def test_each_of_several_labels_is_a_question_of_its_own() -> None:
    text, copy = torch.tensor([[2.0, -0.1]]), torch.tensor([[0.5, -3.0]])
    loss, share = consistency_loss(text, copy, several=True, temperature=0.5, confidence=0.8)
    p, q = (text / 0.5).sigmoid()[0, 0], copy.sigmoid()[0, 0]
    expected = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    assert float(loss) == pytest.approx(float(expected) / 2, rel=1e-5) and share == 0.5


def test_labelled_texts_count_while_they_are_not_certain() -> None:
    logits, labels = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0, 0])
    loss, share = supervised_loss(logits, labels, several=False, ceiling=0.6)
    assert float(loss) == pytest.approx((math.log(2) + math.log(1 + math.exp(2))) / 2) and share == pytest.approx(2 / 3)
    everything, share = supervised_loss(logits, labels, several=False, ceiling=math.inf)
    assert float(everything) == pytest.approx(float(F.cross_entropy(logits, labels))) and share == 1
    none, share = supervised_loss(logits[:1], labels[:1], several=False, ceiling=0.6)
    assert float(none) == 0 and share == 0
    each, share = supervised_loss(logits, torch.tensor([[1, 0], [1, 0], [0, 1]]), several=True, ceiling=0.6)
    assert float(each) == pytest.approx(math.log(2)) and share == pytest.approx(4 / 6)


def test_annealing_rises_from_chance_to_one() -> None:
    for name in ("linear", "log", "exp"):
        ceilings = [annealed(name, t, 4) for t in np.linspace(0, 1, 11)]  # type: ignore[arg-type]
        assert ceilings == sorted(ceilings) and ceilings[0] >= 0.25 and ceilings[-1] == pytest.approx(1, abs=0.01)
    assert annealed("linear", 0.5, 4) == pytest.approx(0.625)
    assert annealed("log", 0.5, 2) == pytest.approx(1 - math.exp(-2.5) / 2)
    assert annealed("exp", 0.5, 2) == pytest.approx(0.5 + math.exp(-2.5) / 2)
    assert annealed("none", 0.0, 2) == math.inf


def test_aligned_predictions_have_each_label_as_often_as_labelled_texts_do() -> None:
    labelled = LabelledTexts.of(["a", "b", "c", "d"] * 10, ["x", "x", "x", "y"] * 10)
    logits = torch.randn(500, 2, generator=torch.manual_seed(0)) * 0.2 + torch.tensor([0.0, 1.0])
    aligned = LabelAlignment(labelled)(logits).softmax(-1)
    shares = torch.tensor([30.5, 10.5])
    assert float(logits.softmax(-1).mean(0)[0]) < 0.3 and aligned.mean(0)[0] == pytest.approx(0.75, abs=0.02)
    expected = logits.softmax(-1) * shares / logits.softmax(-1).mean(0)
    assert torch.allclose(aligned, expected / expected.sum(-1, keepdim=True), atol=1e-6)
    several = LabelledTexts.of(["a", "b"] * 10, [["x", "y"], ["x"]] * 10)  # x is of each text: not of all texts
    aligned = LabelAlignment(several)(torch.zeros(3, 2)).sigmoid()
    assert aligned.tolist() == [pytest.approx([20.5 / 21, 0.5])] * 3


def test_unlabelled_texts_count_after_a_share_of_the_steps(setting: Setting) -> None:
    """Until then it is fine-tuning: copies that would make it diverge change nothing."""
    labelled, others = LabelledTexts.of(["time like", "fruit an"] * 4, ["a", "b"] * 4), ["flies time", "an arrow"] * 8
    method = make_method("uda", setting, steps=20, begin=0.6, confidence=0.0).fit(labelled, others)
    counted = [row[2] for row in method.tables()[0].rows]
    assert counted == ["0%"] * 6 + ["100%"] * 4


def test_batches_read_each_text_once_before_any_again() -> None:
    batches = endless(5, 2, np.random.default_rng(0))
    read = np.concatenate([next(batches) for _ in range(10)])
    assert all(sorted(read[i : i + 5].tolist()) == [*range(5)] for i in range(0, 20, 5))
    assert sorted(next(endless(2, 5, np.random.default_rng(0))).tolist())[1:4:2] == [0, 1]


def test_unlabelled_texts_teach_words_that_no_labelled_text_has(setting: Setting) -> None:
    """Copies have another word in the place of the one that decides, so its label spreads to that word."""

    def texts(words: list[str]) -> list[str]:
        draw = np.random.default_rng(0)
        return [f"{draw.choice(WORDS[:2])} {words[i % 2]} {draw.choice(WORDS[:2])}" for i in range(24)]

    labelled = LabelledTexts.of(texts(["time", "fruit"]), ["a", "b"] * 12)
    right = []
    for others in (["banana", "flies"], ["flies", "banana"]):  # by chance one of both would be right, and one wrong
        synonyms = {word: [other] for word, other in zip(["time", "fruit"], others, strict=True)}
        options = {"changes": ["synonym"], "synonyms": synonyms, "rate": 0.5, "learning_rate": 1e-2, "steps": 240}
        method = make_method("uda", setting, **options, most_epochs=80).fit(labelled, texts(["time", "fruit"]))
        right.append(np.mean([a == b for a, b in zip(method.predict(texts(others)), ["a", "b"] * 12, strict=True)]))
    assert min(right) >= 0.9, right


def test_an_annealing_that_there_is_not_is_refused(setting: Setting) -> None:
    with pytest.raises(ConfigError, match=r"uda\.annealing is 'fast'"):
        make_method("uda", setting, annealing="fast")
