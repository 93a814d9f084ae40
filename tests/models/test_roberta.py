"""RoBERTa: positions begin behind the padding id; XLM-RoBERTa is the same under another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from glassformer.core import Batch, Flow, KeyValueCache, Packing
from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import Model, load
from glassformer.models import FAMILIES, camembert, roberta, xlm_roberta
from tests.parity.sides import perturb

both = pytest.mark.parametrize("family", ["camembert", "roberta", "xlm-roberta"])


def model_of(family: str, **changes: Any) -> Model:
    return Model.from_config({**FAMILIES[family].tiny, **changes})


counted_by_ids = pytest.mark.parametrize("family", ["camembert", "roberta", "xlm-roberta", "mpnet"])


def both_sides(family: str, folder: Path, architecture: str = "Model", **changes: Any) -> tuple[Model, Any]:
    """Ours and the reference's, with the same perturbed parameters."""
    kind = getattr(transformers, next(name for name in FAMILIES[family].architectures if name.endswith(architecture)))
    torch.manual_seed(0)
    theirs = kind(kind.config_class.from_dict({**FAMILIES[family].tiny, **changes})).eval()
    perturb(theirs)
    theirs.save_pretrained(folder)
    return load(folder), theirs


@counted_by_ids
@pytest.mark.parametrize("mask", ["none", "padding", "other tokens"])
@pytest.mark.parametrize("padding", ["none", "right", "left", "between"])
@torch.no_grad()
def test_positions_are_those_that_the_reference_counts(family: str, mask: str, padding: str, tmp_path: Path) -> None:
    ours, theirs = both_sides(family, tmp_path, **({} if family == "mpnet" else {"pad_token_id": 5}))
    pad_id = theirs.config.pad_token_id
    ids = torch.randint(10, 99, (2, 9))
    if padding != "none":
        ids[1, {"right": slice(5, 9), "left": slice(0, 4), "between": slice(2, 5)}[padding]] = pad_id
    keep = torch.ones(2, 9, dtype=torch.bool)
    if mask != "none":
        keep = ids != pad_id if mask == "padding" else torch.arange(9)[None] != torch.tensor([[1], [7]])
    given = {} if mask == "none" else {"attention_mask": keep.long()}
    for inputs in ({"input_ids": ids}, {"inputs_embeds": theirs.get_input_embeddings()(ids)}):
        expected = theirs(**inputs, **given).last_hidden_state
        states = ours(**inputs, **given).last_hidden_state
        torch.testing.assert_close(states[keep], expected[keep], atol=1e-5, rtol=1e-5)


@counted_by_ids
@torch.no_grad()
def test_packed_texts_have_the_positions_of_texts_in_rows(family: str) -> None:
    model = model_of(family).eval()
    perturb(model.network)
    pad_id = model.network.embedding.spec.positions.padding
    texts = [[20, pad_id, 30, 40], [50, 60, pad_id], [pad_id, 70]]
    packed = model.network(
        Batch(input_ids=torch.tensor([[id for text in texts for id in text]])),
        Flow(packing=Packing(tuple(map(len, texts)))),
    ).last_hidden_state
    alone = [model(torch.tensor([text])).last_hidden_state for text in texts]
    torch.testing.assert_close(packed, torch.cat(alone, dim=1), atol=1e-5, rtol=1e-5)


@both
@torch.no_grad()
def test_a_cache_continues_the_positions(family: str, tmp_path: Path) -> None:
    ours, theirs = both_sides(family, tmp_path, "ForCausalLM", is_decoder=True, pad_token_id=5)
    ids, cache = torch.tensor([[11, 12, 13, 14, 5, 16], [21, 22, 23, 24, 25, 26]]), KeyValueCache()
    past = None
    for part in ids.split([3, 1, 2], dim=1):
        expected = theirs(part, past_key_values=past, use_cache=True)
        past = expected.past_key_values
        torch.testing.assert_close(ours(part, cache=cache).logits, expected.logits, atol=1e-5, rtol=1e-5)


@both
def test_rows_up_to_padding_are_no_positions(family: str) -> None:
    model = model_of(family, max_position_embeddings=514, pad_token_id=1)
    assert model.network.max_tokens == 512
    assert model.network.embedding.positions.weight.shape == (514, 32)
    config = {key: value for key, value in FAMILIES[family].tiny.items() if key != "pad_token_id"}
    assert Model.from_config(config).network.embedding.spec.positions.offset == 2, "1, where nothing is said"


@both
@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"max_position_embeddings": 2, "pad_token_id": 1}, ConfigError, "from 3 to"),
        ({"pad_token_id": -1}, ConfigError, r"pad_token_id is -1; it must be a whole number from 0"),
        ({"is_decoder": "yes"}, UnsupportedError, "is_decoder = 'yes'"),
        ({"add_cross_attention": True}, UnsupportedError, "add_cross_attention = True"),
        ({"tie_word_embeddings": False}, UnsupportedError, "tie_word_embeddings = False"),
        ({"position_embedding_type": "relative_key"}, UnsupportedError, "position_embedding_type"),
    ],
)
def test_what_is_refused(family: str, changes: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        model_of(family, **changes)


def test_a_tied_head_may_be_saved_or_not(tmp_path: Path) -> None:
    """Old releases wrote the head's matrix and its bias a second time, and the numbers of positions."""
    from safetensors.torch import load_file, save_file

    model = Model.from_config(roberta.FAMILY.tiny, task="fill-mask").eval()
    model.save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert not [name for name in tensors if name.startswith("lm_head.decoder")]
    tensors["lm_head.decoder.weight"] = tensors["roberta.embeddings.word_embeddings.weight"].clone()
    tensors["lm_head.decoder.bias"] = tensors["lm_head.bias"].clone()
    tensors["roberta.embeddings.position_ids"] = torch.arange(41)[None]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    again = load(tmp_path, strict=True)
    assert not again.report.unused
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(again(ids).logits, model(ids).logits)


def test_the_other_name_is_the_same_recipe() -> None:
    one = roberta.FAMILY
    for other, prefix in ((xlm_roberta.FAMILY, "XLMRoberta"), (camembert.FAMILY, "Camembert")):
        assert (one.spec, one.build, one.names) == (other.spec, other.build, other.names)
        assert list(other.architectures) == [name.replace("Roberta", prefix) for name in one.architectures]
        assert list(other.architectures.values()) == list(one.architectures.values())
