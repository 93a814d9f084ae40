"""Checkpoints that hold a head of their own although their config ties it to the embedding: both are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from glassformer import load
from glassformer.models import FAMILIES

HEADS = {
    ("llama", "ForCausalLM"): "lm_head.weight",
    ("gpt2", "LMHeadModel"): "lm_head.weight",
    ("gemma", "ForCausalLM"): "lm_head.weight",
    ("bert", "ForMaskedLM"): "cls.predictions.decoder.weight",
    ("roberta", "ForMaskedLM"): "lm_head.decoder.weight",
    ("electra", "ForMaskedLM"): "generator_lm_head.weight",
    ("t5", "ForConditionalGeneration"): "lm_head.weight",
    ("bart", "ForConditionalGeneration"): "lm_head.weight",
}


def saved(folder: Path, family: str, ending: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """The reference's class of a folder with tied weights, and its tensors."""
    kind = getattr(transformers, next(name for name in FAMILIES[family].architectures if name.endswith(ending)))
    torch.manual_seed(0)
    config = kind.config_class.from_dict({**FAMILIES[family].tiny, "tie_word_embeddings": True})
    model = kind(config)
    model.save_pretrained(folder)
    table = model.get_input_embeddings().weight.detach()
    tensors = {name: x.clone() for name, x in load_file(folder / "model.safetensors").items()}
    return kind, {**tensors, HEADS[family, ending]: table.clone()}


def write(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize(("family", "ending"), HEADS)
@torch.no_grad()
def test_a_head_of_its_own_is_kept_through_loading_and_saving(family: str, ending: str, tmp_path: Path) -> None:
    kind, tensors = saved(tmp_path, family, ending)
    tensors[HEADS[family, ending]] += torch.randn_like(tensors[HEADS[family, ending]])
    write(tmp_path, tensors)
    theirs, ours = kind.from_pretrained(tmp_path).eval(), load(tmp_path)
    assert any("which the config ties" in warning for warning in ours.report.warnings) and not ours.report.unused
    ours.save_pretrained(tmp_path / "again")
    ids = torch.tensor([[5, 6, 7, 8]])
    given = {"input_ids": ids, **({"decoder_input_ids": ids} if ours.is_encoder_decoder else {})}
    expected = theirs(**given).logits
    for logits in (
        ours(**given).logits,
        load(tmp_path / "again")(**given).logits,
        kind.from_pretrained(tmp_path / "again").eval()(**given).logits,
    ):
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


def test_the_same_tensor_twice_stays_tied(tmp_path: Path) -> None:
    _, tensors = saved(tmp_path, "gpt2", "LMHeadModel")
    write(tmp_path, tensors)
    model = load(tmp_path, strict=True)
    assert model.network.head.decoder.weight is model.network.embed.tokens.weight and not model.report.warnings


def test_a_head_of_another_size_is_reported_as_unused(tmp_path: Path) -> None:
    _, tensors = saved(tmp_path, "gpt2", "LMHeadModel")
    write(tmp_path, {**tensors, "lm_head.weight": torch.zeros(7, 32)})
    assert load(tmp_path).report.unused == ["lm_head.weight"]
