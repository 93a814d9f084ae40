"""RoBERTa: positions begin behind the padding id; XLM-RoBERTa is the same under another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.model import Model, load
from glassformer.models import FAMILIES, roberta, xlm_roberta
from tests.parity.sides import perturb

both = pytest.mark.parametrize("family", ["roberta", "xlm-roberta"])


def model_of(family: str, **changes: Any) -> Model:
    return Model.from_config({**FAMILIES[family].tiny, **changes})


@both
@pytest.mark.parametrize("hidden", [0, 1, 5])
@pytest.mark.parametrize("padding_side", ["none", "right", "left"])
@torch.no_grad()
def test_positions_are_those_that_the_reference_counts(
    family: str, hidden: int, padding_side: str, tmp_path: Path
) -> None:
    """It is told no positions: it finds padding by its id, where ours looks at the mask."""
    kind = getattr(transformers, next(iter(FAMILIES[family].architectures)))
    torch.manual_seed(0)
    theirs = kind(kind.config_class.from_dict({**FAMILIES[family].tiny, "pad_token_id": hidden})).eval()
    perturb(theirs)
    theirs.save_pretrained(tmp_path)
    ids = torch.randint(10, 99, (2, 9))
    if padding_side != "none":
        ids[1, -4:] = hidden
    if padding_side == "left":
        ids = ids.flip(1)
    keep = ids != hidden
    expected = theirs(input_ids=ids, attention_mask=keep.long()).last_hidden_state
    states = load(tmp_path)(ids, keep.long()).last_hidden_state
    torch.testing.assert_close(states[keep], expected[keep], atol=1e-5, rtol=1e-5)


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
    one, other = roberta.FAMILY, xlm_roberta.FAMILY
    assert (one.spec, one.build, one.names) == (other.spec, other.build, other.names)
    assert list(other.architectures) == [f"XLM{name}" for name in one.architectures]
    assert list(other.architectures.values()) == list(one.architectures.values())
