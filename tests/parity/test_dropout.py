"""Dropout is where the reference has it, and as strong: with the same seed the same numbers are dropped.

Both sides draw a mask a dropout; one too many, too few, or elsewhere, and all numbers after it differ.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

from glassformer.core.flow import Tape
from tests.parity.families import HEADS, Row
from tests.parity.inputs import draw_inputs
from tests.parity.sides import Folders, close, lifted, load_ours, load_theirs

LIKE_BERT = {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3, "classifier_dropout": 0.4}
LIKE_DEBERTA = {
    **{"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
    **{"pooler_dropout": 0.1, "cls_dropout": 0.4},
}
SOUND = {
    "feat_proj_dropout": 0.1,
    "hidden_dropout": 0.2,
    "attention_dropout": 0.3,
    "activation_dropout": 0.4,
    "final_dropout": 0.5,
}
DROPOUT: dict[str, dict[str, Any]] = {
    "bert": LIKE_BERT,
    "big_bird": LIKE_BERT,  # of block-sparse attention, neither side drops any
    "deberta": LIKE_DEBERTA,
    "deberta-v2": LIKE_DEBERTA,
    "distilbert": {
        "dropout": 0.2,
        "attention_dropout": 0.3,
        "seq_classif_dropout": 0.4,
        "qa_dropout": 0.5,
    },
    "gemma2": {"attention_dropout": 0.3, "classifier_dropout": 0.4},
    "gpt2": {"embd_pdrop": 0.1, "resid_pdrop": 0.2, "attn_pdrop": 0.3, "classifier_dropout": 0.4},
    "gpt_neox": {"hidden_dropout": 0.2, "attention_dropout": 0.3, "classifier_dropout": 0.4},
    "granite": {"attention_dropout": 0.3, "residual_multiplier": 0.5},
    "hubert": SOUND,
    "imagegpt": {"embd_pdrop": 0.1, "resid_pdrop": 0.2, "attn_pdrop": 0.3},
    "layoutlm": {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
    "modernbert": {
        **{"embedding_dropout": 0.1, "attention_dropout": 0.2, "mlp_dropout": 0.3, "classifier_dropout": 0.4}
    },
    "albert": {
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.3,
        "classifier_dropout_prob": 0.4,
    },
    "electra": LIKE_BERT,
    "mpnet": {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
    "nomic_bert": LIKE_BERT,
    "roberta": LIKE_BERT,
    "stablelm": {"attention_dropout": 0.3, "classifier_dropout": 0.4},
    "starcoder2": {"residual_dropout": 0.2, "attention_dropout": 0.3, "embedding_dropout": 0.1},
    "t5": {"feed_forward_proj": "gated-gelu", "dropout_rate": 0.2, "classifier_dropout": 0.4},
    "tapas": {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
    "vit": {"hidden_dropout_prob": 0.2, "attention_probs_dropout_prob": 0.3},
    "wav2vec2": SOUND,
    "whisper": {"dropout": 0.2, "attention_dropout": 0.3, "activation_dropout": 0.1},
    "xlm": {"dropout": 0.2, "attention_dropout": 0.3, "summary_first_dropout": 0.4},
    "camembert": LIKE_BERT,
    "xlm-roberta": LIKE_BERT,
}
"""Family → every key that says how much is dropped, each its own number."""


@pytest.mark.parametrize(
    ("row", "architecture"),
    [
        pytest.param(row, architecture, marks=pytest.mark.soak if row.repeats and architecture != row.main else ())
        for row, architecture in HEADS
        if row.family in DROPOUT
    ],
    ids=[architecture for row, architecture in HEADS if row.family in DROPOUT],
)
@torch.no_grad()
def test_dropout(folders: Folders, row: Row, architecture: str) -> None:
    folder, fp64 = folders(row, architecture, **DROPOUT[row.family]), torch.float64
    ours, theirs = load_ours(folder, fp64).train(), load_theirs(folder, row, fp64).train()
    inputs = draw_inputs(ours.config, "none")
    torch.manual_seed(1)
    output = ours(**inputs.ours, tape=Tape("probs"))  # the explicit path, which the reference takes too
    torch.manual_seed(1)
    with lifted(row, fp64):
        expected = theirs(**inputs.theirs)
    fields = ("last_hidden_state",) if ours.network.head is None else ours.network.head.FIELDS
    for name in fields:
        close(output[name], expected[name], row.fp64, name)
