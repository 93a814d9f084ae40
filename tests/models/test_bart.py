"""BART, mBART, Marian, PEGASUS: config keys that no output of the reference library depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from glassformer.core import Batch, Flow
from glassformer.core.classification_heads import SpanClassifier
from glassformer.errors import ConfigError
from glassformer.model import Model, load
from glassformer.models import FAMILIES, ConfigReader
from glassformer.models.bart import Bart, EndTokenClassifier

BART = FAMILIES["bart"]
KIN = ["bart", "marian", "mbart", "pegasus"]


def network(task: str, **changes: Any) -> Bart:
    torch.manual_seed(0)
    spec = BART.spec(ConfigReader({**BART.tiny, **changes}))
    built = BART.build(spec, task)
    BART.initialise(built, spec)
    assert isinstance(built, Bart)
    return built.eval()


@pytest.mark.parametrize("family", KIN)
def test_every_key_is_read_and_an_unknown_one_is_reported(family: str) -> None:
    old = {
        "_num_labels": 3,
        "num_hidden_layers": 3,
        "force_bos_token_to_be_generated": True,
        "classif_dropout": 0.1,
    }
    reader = ConfigReader({**FAMILIES[family].tiny, **old, "swirl": 3})
    spec = FAMILIES[family].spec(reader)
    assert reader.unused_key_warnings() == ["config.json: swirl = 3 is not read"]
    assert spec.classifier_dropout == 0.1


def test_three_labels_where_the_config_names_none() -> None:
    for changes, labels in (({}, 3), ({"num_labels": 5}, 5), ({"id2label": {"0": "no", "1": "yes"}}, 2)):
        head = network("text-classification", **changes).head
        assert isinstance(head, EndTokenClassifier) and head.classifier.out_features == labels


@pytest.mark.parametrize("family", KIN)
def test_dropout_is_the_configs(family: str) -> None:
    config = {**FAMILIES[family].tiny, "dropout": 0.25, "attention_dropout": 0.5, "activation_dropout": 0.125}
    built = FAMILIES[family].build(FAMILIES[family].spec(ConfigReader(config)), "translation")
    for stream in (built.encoder, built.decoder):
        assert stream.embed.dropout.p == 0.25  # type: ignore[union-attr]
        for block in stream.blocks:  # type: ignore[union-attr]
            assert block.attn.spec.dropout == 0.5 and block.ffn.dropout.p == 0.125
            assert block.attn_residual.dropout.p == block.ffn_residual.dropout.p == 0.25


def test_the_constant_is_never_trained() -> None:
    built = network("translation")
    output = built(Batch(input_ids=torch.tensor([[5, 6]]), decoder_input_ids=torch.tensor([[2, 7]])), Flow())
    output.logits.sum().backward()
    assert {name for name, x in built.named_parameters() if x.grad is None} == {"head.constant.values"}


def test_generation_needs_decoder_input_ids() -> None:
    with pytest.raises(ConfigError, match="decoder_input_ids"):
        network("translation")(Batch(input_ids=torch.tensor([[5, 6]])), Flow())


def test_a_second_reading_begins_with_the_start_token_wherever_padding_stands() -> None:
    built = network("question-answering", decoder_start_token_id=9)
    assert isinstance(built.head, SpanClassifier)
    ids, keep = torch.tensor([[0, 0, 5, 6, 2]]), torch.tensor([[[False, False, True, True, True]]])
    moved = built.repeat_source(Batch(input_ids=ids), Flow(keep=keep)).decoder_input_ids
    assert moved is not None and moved[0, 2:].tolist() == [9, 5, 6]
    plain = built.repeat_source(Batch(input_ids=ids[:, 2:]), Flow()).decoder_input_ids
    assert plain is not None and plain.tolist() == [[9, 5, 6]]


def test_names_of_both_norm_places_are_one() -> None:
    """A post-norm and a pre-norm model hold the same tensors; only the spec says where they act."""
    tables = [
        FAMILIES[name].names(FAMILIES[name].spec(ConfigReader(FAMILIES[name].tiny)), "translation") for name in KIN
    ]
    for slot in ("before", "on_residual"):
        targets = {table.find(f"encoder.blocks.0.attn_residual.{slot}.weight", prefixed=True)[1][0] for table in tables}
        assert targets == {"model.encoder.layers.0.self_attn_layer_norm.weight"}


@pytest.mark.parametrize("family", KIN)
@torch.no_grad()
def test_the_decoder_alone_of_a_whole_file(family: str, tmp_path: Path) -> None:
    """It has the table that both sides share, and its cross-attention, which it does not compute, is not lost."""
    torch.manual_seed(0)
    whole = Model.from_config(FAMILIES[family].tiny, task="translation")
    whole.save_pretrained(tmp_path / "whole")
    alone = load(tmp_path / "whole", task="text-generation")
    assert not alone.report.new and not alone.is_encoder_decoder
    assert torch.equal(alone.network.embedding.tokens.weight, whole.network.decoder.embed.tokens.weight)
    alone.save_pretrained(tmp_path / "alone")
    files = [load_file(tmp_path / name / "model.safetensors") for name in ("whole", "alone")]
    carried = {name for name in files[1] if ".encoder_attn" in name}
    assert len(carried) == 20 and all(torch.equal(files[0][name], files[1][name]) for name in carried)
    again, ids = load(tmp_path / "alone", strict=True), torch.tensor([[5, 6, 7]])
    assert again.task == "text-generation" and torch.equal(again(ids).logits, alone(ids).logits)
