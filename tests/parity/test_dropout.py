"""Dropout is where the reference has it, and as strong: with the same seed the same numbers are dropped.

Both sides draw a mask a dropout; one too many, too few, or elsewhere, and all numbers after it differ.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.core.flow import Tape
from tests.parity.families import HEADS, Row
from tests.parity.sides import Folders, close, draw_inputs, load_ours, load_theirs

LIKE_BERT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3, "classifier_dropout": 0.4}
DROPOUT: dict[str, dict[str, Any]] = {
    "bert": LIKE_BERT,
    "distilbert": {
        "dropout": 0.2,
        "attention_dropout": 0.3,
        "seq_classif_dropout": 0.4,
        "qa_dropout": 0.5,
    },
    "gpt2": {"embd_pdrop": 0.1, "resid_pdrop": 0.2, "attn_pdrop": 0.3, "classifier_dropout": 0.4},
    "roberta": LIKE_BERT,
    "xlm-roberta": LIKE_BERT,
}
"""Family → every key that says how much is dropped, each its own number."""


@pytest.mark.parametrize(
    ("row", "architecture"),
    [(row, architecture) for row, architecture in HEADS if row.family in DROPOUT],
    ids=[architecture for row, architecture in HEADS if row.family in DROPOUT],
)
@torch.no_grad()
def test_dropout(folders: Folders, row: Row, architecture: str) -> None:
    folder = folders(row, architecture, **DROPOUT[row.family])
    ours, theirs = load_ours(folder).train(), load_theirs(folder, row).train()
    inputs = draw_inputs(ours.config, "none")
    torch.manual_seed(1)
    output = ours(**inputs.ours, tape=Tape("attn.probs"))  # the explicit path, which the reference takes too
    torch.manual_seed(1)
    expected = theirs(**inputs.theirs)
    fields = ("last_hidden_state",) if ours.network.head is None else ours.network.head.FIELDS
    for name in fields:
        close(output[name], expected[name], row.fp32, name)
