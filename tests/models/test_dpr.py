"""DPR: embeddings are the hidden state of the first token, in a call and in `encode`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer import load
from glassformer.errors import UnsupportedError
from glassformer.models import FAMILIES, ConfigReader
from tests.e2e.tiny_models import make_folder

TEXTS = ["time flies like an arrow", "fruit flies", "a banana"]


@pytest.mark.parametrize("task", ["passage-encoding", "question-encoding"])
def test_encode_gives_what_the_model_calls_its_vector(task: str, tmp_path: Path) -> None:
    model = load(make_folder(tmp_path, "dpr", task=task))
    inputs = model.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        output = model(**{name: inputs[name] for name in ("input_ids", "attention_mask")})
    expected = output.pooler_output
    assert list(output) == ["pooler_output"] and output[0] is expected and output.last_hidden_state is not None
    np.testing.assert_allclose(model.encode(TEXTS), expected.numpy(), atol=1e-6)


def test_a_projection_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="projection_dim = 16 is not supported"):
        FAMILIES["dpr"].spec(ConfigReader({**FAMILIES["dpr"].tiny, "projection_dim": 16}))
