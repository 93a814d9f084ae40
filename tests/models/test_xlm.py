"""XLM beyond the parity table: unsupported features, old names, and initialisation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from glassformer import Model, UnsupportedError
from glassformer.models import FAMILIES

TINY = FAMILIES["xlm"].tiny


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"asm": True}, "asm"),
        ({"is_encoder": False}, "is_encoder"),
        ({"summary_type": "mean"}, "summary_type"),
        ({"summary_use_proj": False}, "summary_use_proj"),
        ({"summary_proj_to_labels": False}, "summary_proj_to_labels"),
        ({"summary_activation": "tanh"}, "summary_activation"),
        ({"n_langs": 2}, "use_lang_emb = true with n_langs above 1"),
        ({"architectures": ["XLMForQuestionAnswering"]}, "XLMForQuestionAnswering"),
    ],
)
def test_what_changes_the_mathematics_is_refused_by_name(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        Model.from_config({**TINY, **changes})


def test_a_published_config_is_read_without_a_warning() -> None:
    """XLM's first files, with the keys of the code that trained it."""
    model = Model.from_config(
        {
            **{key: value for key, value in TINY.items() if key != "vocab_size"},
            "architectures": ["XLMWithLMHeadModel"],
            "n_words": 50,
            "n_langs": 17,
            "use_lang_emb": False,
            "id2lang": {"0": "ar", "1": "de"},
            "lang2id": {"ar": 0, "de": 1},
            "max_vocab": 200_000,
            "min_count": 0,
            "same_enc_dec": True,
            "share_inout_emb": True,
            "is_decoder": False,
            "pruned_heads": {},
            "finetuning_task": None,
        }
    )
    assert model.network.vocabulary == 50 and not model.report.warnings


@torch.no_grad()
def test_hidden_tokens_leave_as_zeros_and_a_causal_model_looks_back_alone() -> None:
    model: Any = Model.from_config({**TINY, "causal": True}).eval()
    ids = torch.randint(3, 99, (2, 9))
    mask = torch.arange(9)[None] < torch.tensor([9, 6])[:, None]
    states = model(ids, mask.long()).last_hidden_state
    assert bool((states[1, 6:] == 0).all()) and bool((states[0] != 0).all())
    later = ids.clone()
    later[:, 5:] = 7
    assert torch.equal(model(later, mask.long()).last_hidden_state[:, :5], states[:, :5])


def test_tables_start_by_a_number_of_their_own_and_positions_as_waves() -> None:
    torch.manual_seed(0)
    config = {
        **TINY,
        "vocab_size": 999,
        "embed_init_std": 0.5,
        "init_std": 0.01,
        "sinusoidal_embeddings": True,
    }
    network = Model.from_config(config).network
    tokens, positions = (network.get_parameter(f"embed.{name}.weight").detach() for name in ("tokens", "positions"))
    assert float(tokens.std()) == pytest.approx(0.5, rel=0.02)
    assert float(network.get_parameter("blocks.0.ffn.up.weight").detach().std()) == pytest.approx(0.01, rel=0.05)
    position = torch.tensor(3.0)
    torch.testing.assert_close(positions[3, :2], torch.stack([position.sin(), position.cos()]))


@torch.no_grad()
def test_without_a_mask_the_ids_say_what_is_padding(tmp_path: Path) -> None:
    from transformers import XLMModel as Reference

    torch.manual_seed(0)
    model = Model.from_config({**TINY, "pad_index": 4, "architectures": ["XLMModel"]}).eval()
    model.save_pretrained(tmp_path)
    reference = Reference.from_pretrained(tmp_path).eval()
    ids = torch.randint(5, 90, (3, 9))
    ids[1, 6:] = ids[2, 1:] = 4
    assert_close(model(ids).last_hidden_state, reference(ids).last_hidden_state, rtol=0, atol=1e-5)
    assert_close(model(ids).last_hidden_state, model(ids, (ids != 4).long()).last_hidden_state, rtol=0, atol=1e-6)
