"""Logits at padding are those of the reference library: a loss over all positions, as of answer spans, reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import glassformer

SIZES = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
CLASSES: dict[str, Any] = {
    "bert": (transformers.BertForQuestionAnswering, transformers.BertConfig),
    "electra": (transformers.ElectraForQuestionAnswering, transformers.ElectraConfig),
    "roberta": (transformers.RobertaForQuestionAnswering, transformers.RobertaConfig),
    "distilbert": (transformers.DistilBertForQuestionAnswering, transformers.DistilBertConfig),
}


@pytest.mark.parametrize("family", CLASSES)
@pytest.mark.parametrize("width", [12, 24])
def test_rows_that_are_all_shorter_than_the_batch(family: str, width: int, tmp_path: Path) -> None:
    model_class, config_class = CLASSES[family]
    torch.manual_seed(3)
    reference = model_class(config_class(**SIZES, max_position_embeddings=26, pad_token_id=1)).eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    reference.save_pretrained(tmp_path)
    model = glassformer.load(tmp_path)
    ids, mask = torch.ones(3, width, dtype=torch.long), torch.zeros(3, width, dtype=torch.long)
    for row, length in enumerate((9, 5, 1)):
        ids[row, :length] = torch.arange(5, 5 + length)
        mask[row, :length] = 1
    with torch.no_grad():
        expected = reference(ids, attention_mask=mask)
        ours = model(ids, attention_mask=mask)
    assert (ours.start_logits - expected.start_logits).abs().max() < 1e-5
    assert (ours.end_logits - expected.end_logits).abs().max() < 1e-5
