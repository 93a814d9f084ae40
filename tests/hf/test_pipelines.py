"""Pipelines with the answers of the reference library."""

from __future__ import annotations

import pytest
import torch

from glassformer import ConfigError
from glassformer.hf import pipeline
from glassformer.model import Model
from glassformer.models import FAMILIES


def test_of_labels_that_may_hold_together_the_likeliest_is_answered(minilm: object) -> None:
    from glassformer.model import load

    config = FAMILIES["bert"].tiny | {"vocab_size": 30522, "problem_type": "multi_label_classification"}
    torch.manual_seed(0)
    model = Model.from_config(config, task="text-classification")
    torch.nn.init.constant_(list(model.network.head.parameters())[-1], -9.0)  # no label is probable
    model._tokenizer = load(minilm).tokenizer
    classify = pipeline("text-classification", model)
    every = classify("time flies", top_k=None)
    assert max(label["score"] for label in every) < 0.5
    assert classify("time flies") == every[:1]
    assert classify(["time flies"]) == every[:1]
    assert classify("time flies", threshold=0.5) == [[]]
    assert pipeline("text-classification", model, threshold=0.5)("time flies") == [[]]
    assert classify("time flies", num_workers=0) == every[:1]
    for name, value in (("num_workers", -1), ("batch_size", 0), ("max_length", "long"), ("top_k", -1)):
        with pytest.raises(ConfigError, match=f"{name} is .*; it must be a whole"):
            classify("time flies", **{name: value})
        with pytest.raises(ConfigError, match=r"it must be a whole number from [01] up"):
            pipeline("text-classification", model, **{name: value})
