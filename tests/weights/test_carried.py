"""What no head reads goes from the file that was loaded to the one that is saved."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

import glassformer
from glassformer.models import FAMILIES


@pytest.mark.parametrize("family", ["layoutlm", "tapas", "big_bird"])
def test_a_pooler_survives_a_tagger(family: str, tmp_path: Path) -> None:
    """Which does not read it: as the reference keeps it, and for whoever loads the body from the saved folder."""
    record = FAMILIES[family]
    task = "table-question-answering" if family == "tapas" else "token-classification"
    kind = getattr(transformers, record.architecture(task))
    theirs = kind(kind.config_class.from_dict({**record.tiny, "num_aggregation_labels": 0}))
    theirs.save_pretrained(tmp_path / "theirs")
    tagger = glassformer.load(tmp_path / "theirs", task=task, dtype="bfloat16")
    with torch.no_grad():
        tagger.network.head.token.bias.zero_() if family == "tapas" else tagger.network.head.classifier.bias.zero_()
    tagger.save_pretrained(tmp_path / "tagger")
    body = glassformer.load(tmp_path / "tagger", task="feature-extraction")
    assert not body.report.new and body.dtype == torch.bfloat16
    body.save_pretrained(tmp_path / "body")
    stored, bare = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "body"))
    poolers = [name for name in stored if "pooler" in name]
    assert len(poolers) == 2
    for name in poolers:
        assert torch.equal(bare[name.split(".", 1)[1]], stored[name].bfloat16())
