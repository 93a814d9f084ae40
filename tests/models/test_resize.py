"""Another vocabulary size: old rows and all other tensors stay, ties too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer import load
from glassformer.errors import ConfigError, UnsupportedError
from tests.e2e.tiny_models import main_task, make_folder

IDS = torch.tensor([[1, 4, 5, 2]])


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5", "bart", "deberta-v2", "electra"])
@pytest.mark.parametrize("size", [23, 12])
def test_resized(family: str, size: int, tmp_path: Path) -> None:
    model = load(make_folder(tmp_path / "a", family))
    given: dict[str, Any] = {"input_ids": IDS}
    if model.is_encoder_decoder:
        given["decoder_input_ids"] = IDS
    with torch.no_grad():
        before = model(**given)[0]
    parameters, tied = set(map(id, model.parameters())), len(list(model.parameters()))
    table = model.resize_token_embeddings(size)
    assert table.weight.shape[0] == size == model.vocabulary and not model.training
    assert len(list(model.parameters())) == tied and len({*map(id, model.parameters())} & parameters) >= tied - 3
    with torch.no_grad():
        after = model(**given)[0]
    smaller = min(size, before.shape[-1]) if main_task(family) in ("text-generation", "translation") else None
    torch.testing.assert_close(after[..., :smaller], before[..., :smaller])
    if size > 20:
        (tmp_path / "a" / "tokenizer.json").unlink()
        model.save_pretrained(tmp_path / "b")
        again = load(tmp_path / "b", strict=True)
        with torch.no_grad():
            assert torch.equal(again(**given)[0], after) and again.vocabulary == size
            again(torch.tensor([[size - 1]]), **({"decoder_input_ids": IDS} if model.is_encoder_decoder else {}))


def test_what_is_refused(tmp_path: Path) -> None:
    model = load(make_folder(tmp_path / "bert", "bert"))
    for wrong in (0, -3, True, 10**12, "9"):
        with pytest.raises(ConfigError, match="vocabulary size is"):
            model.resize_token_embeddings(wrong)  # type: ignore[arg-type]
    assert model.resize_token_embeddings().num_embeddings == 20
    assert model.resize_token_embeddings(pad_to_multiple_of=8).weight.shape[0] == 24
    with pytest.raises(UnsupportedError, match="no one vocabulary"):
        load(make_folder(tmp_path / "vit", "vit")).resize_token_embeddings(9)
