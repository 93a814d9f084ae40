"""Paths of the reference library's models lead to the same tensors here."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import glassformer
from glassformer import Model, UnsupportedError
from glassformer.hf.paths.modules import ReferenceModule
from glassformer.hf.reference_model import as_reference
from glassformer.models import FAMILIES


def both(name: str, tmp_path: Path) -> tuple[Model, Any]:
    kind = getattr(transformers, name)
    family = next(family for family in FAMILIES.values() if name in family.architectures)
    theirs = kind(kind.config_class.from_dict(dict(family.tiny)))
    theirs.save_pretrained(tmp_path)
    return as_reference(glassformer.load(tmp_path)), theirs


@pytest.mark.parametrize(
    ("name", "paths"),
    {
        "BertForSequenceClassification": (
            "classifier.weight",
            "bert.embeddings.word_embeddings.weight",
            "bert.encoder.layer.1.attention.self.key.weight",
            "bert.encoder.layer.0.attention.self.query.bias",
            "bert.pooler.dense.bias",
        ),
        "GPT2LMHeadModel": ("transformer.wte.weight", "transformer.h.1.attn.c_attn.weight", "lm_head.weight"),
        "LlamaForCausalLM": ("model.layers.0.self_attn.q_proj.weight", "model.norm.weight", "lm_head.weight"),
        "BertModel": ("embeddings.word_embeddings.weight", "encoder.layer.0.output.dense.bias"),
        "ViTForImageClassification": ("vit.embeddings.cls_token", "classifier.bias"),
    }.items(),
)
def test_the_same_tensors(name: str, paths: tuple[str, ...], tmp_path: Path) -> None:
    ours, theirs = both(name, tmp_path)
    state = theirs.state_dict()
    for path in paths:
        steps = path.split(".")
        at: Any = ours
        for step in steps:
            at = at[int(step)] if step.isdigit() else getattr(at, step)
        torch.testing.assert_close(at.detach(), state[path])
    assert not hasattr(ours, "nothing") and not hasattr(ours, "_private")


def test_parts_are_frozen_and_trained(tmp_path: Path) -> None:
    ours, theirs = both("BertForSequenceClassification", tmp_path)
    assert isinstance(ours.classifier, nn.Linear) and ours.classifier is ours.network.head.classifier
    layers = ours.bert.encoder.layer
    assert len(layers) == len(list(layers)) == len(theirs.bert.encoder.layer) and len(layers[:1]) == 1
    for parameter in ours.bert.parameters():
        parameter.requires_grad = False
    trained = {name for name, parameter in ours.network.named_parameters() if parameter.requires_grad}
    assert trained == {"head.classifier.weight", "head.classifier.bias"}
    ours.bert.encoder.layer[-1].requires_grad_(True)
    assert ours.num_parameters(only_trainable=True) == sum(
        p.numel() for part in (theirs.classifier, theirs.bert.encoder.layer[-1]) for p in part.parameters()
    )
    body = {name for name, _ in ours.base_model.named_parameters()}
    assert body == {name for name, _ in ours.network.named_parameters() if not name.startswith("head.classifier")}
    assert set(ours.bert.encoder.state_dict()) == set(theirs.bert.encoder.state_dict())


def test_a_part_that_both_libraries_call_so_is_both(tmp_path: Path) -> None:
    ours, theirs = both("T5ForConditionalGeneration", tmp_path)
    ids = torch.tensor([[4, 5, 6]])
    seen: list[str] = []
    ours.encoder.register_forward_hook(lambda *_: seen.append("encoder"))
    torch.testing.assert_close(ours.encoder(input_ids=ids)[0], theirs.encoder(input_ids=ids)[0])
    assert seen == ["encoder"], "a hook on it is one on our module"
    assert ours.encoder.blocks is ours.network.encoder.blocks and len(ours.encoder.block) == len(theirs.encoder.block)
    assert ours.get_submodule("encoder.blocks.0") is ours.network.encoder.blocks[0]
    with pytest.raises(UnsupportedError, match="decoder is a view"):
        ours.decoder(input_ids=ids)
    with pytest.raises(AttributeError, match="encoder has no 'layers'; it has: block"):
        attrgetter("encoder.layers")(ours)


def test_a_body_and_an_encoder_are_called(tmp_path: Path) -> None:
    ours, theirs = both("BertForSequenceClassification", tmp_path / "bert")
    ids, mask = torch.tensor([[4, 5, 6], [1, 4, 0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])
    for one, other in ((ours.bert, theirs.bert), (ours.base_model, theirs.base_model)):
        body, expected = one(ids, attention_mask=mask), other(ids, attention_mask=mask)
        assert list(body) == list(expected)
        torch.testing.assert_close(body.pooler_output, expected.pooler_output)
        torch.testing.assert_close(body[0][mask.bool()], expected[0][mask.bool()])
    assert len(ours.bert(ids, return_dict=False)) == 2
    ours, theirs = both("BartForConditionalGeneration", tmp_path / "bart")
    torch.testing.assert_close(ours.model.encoder(ids)[0], theirs.model.encoder(ids)[0])


def test_what_a_view_cannot_do(tmp_path: Path) -> None:
    ours, _ = both("BertForSequenceClassification", tmp_path)
    assert isinstance(ours.bert, ReferenceModule) and "embeddings, encoder" in repr(ours.bert)
    with pytest.raises(UnsupportedError, match="call the model"):
        ours.bert.encoder.layer[0](torch.tensor([[1]]))
    with pytest.raises(AttributeError, match="bert has no 'decoder'; it has: embeddings, encoder, pooler"):
        attrgetter("bert.decoder")(ours)
    with pytest.raises(UnsupportedError, match=r"model\.classifier = … would change nothing"):
        ours.classifier = nn.Identity()  # type: ignore[assignment]
