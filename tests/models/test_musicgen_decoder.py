"""MusicGen's decoder and the reference library's: outputs, losses, gradients, a memory, caches, the saved folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch import Tensor

import glassformer
from glassformer import Model, Tape
from glassformer.core import Batch, EncoderOutput, Flow
from glassformer.core.cache import KeyValueCache
from glassformer.errors import DataError, UnsupportedError
from glassformer.models import FAMILIES

TINY = dict(FAMILIES["musicgen_decoder"].tiny)
BOOKS, CODES = TINY["num_codebooks"], TINY["vocab_size"]
VARIATIONS = {
    "tiny": {},
    "one codebook": {"num_codebooks": 1},
    "relu": {"activation_function": "relu"},
    "one layer, two heads": {"num_hidden_layers": 1, "num_attention_heads": 2},
}


def pair(folder: Path, dtype: torch.dtype = torch.float32, **changes: Any) -> tuple[Model, Any]:
    """A reference model with every parameter perturbed, and ours of its folder."""
    torch.manual_seed(5)
    config = {key: value for key, value in TINY.items() if key != "model_type"}
    theirs = transformers.MusicgenForCausalLM(transformers.MusicgenDecoderConfig(**{**config, **changes}))
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += torch.randn_like(parameter) * 0.1
    theirs.to(dtype).eval().save_pretrained(folder)
    angles = torch.arange(40, dtype=dtype)[:, None] * 10_000.0 ** -torch.linspace(0, 1, 16, dtype=dtype)
    theirs.model.decoder.embed_positions.weights = torch.cat([angles.cos(), angles.sin()], 1)  # fp32 there, whatever
    return glassformer.load(folder, strict=True, offline=True), theirs


def draw(books: int = BOOKS, rows: int = 2, frames: int = 9) -> Tensor:
    """Ids with the one that stands where no code is. [B, T, K]"""
    return torch.randint(0, CODES + 1, (rows, frames, books), generator=torch.Generator().manual_seed(1))


def there(ids: Tensor) -> Tensor:
    """The same as the reference takes them. [B · K, T]"""
    return ids.mT.reshape(-1, ids.shape[1])


def here(logits: Tensor, books: int = BOOKS) -> Tensor:
    """The reference's logits [B · K, T, V] in the layout of ours."""
    return logits.unflatten(0, (-1, books)).transpose(1, 2)


@pytest.mark.parametrize("changes", VARIATIONS.values(), ids=VARIATIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
def test_outputs_losses_and_gradients(changes: dict[str, Any], dtype: torch.dtype, tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path, dtype, **changes)
    assert not ours.report.warnings
    books = changes.get("num_codebooks", BOOKS)
    ids = draw(books)
    labels = ids.masked_fill(ids == CODES, 3)  # each codebook has as many: see CodebookLMHead
    got, wanted = ours(input_ids=ids, labels=labels), theirs(there(ids), labels=labels, output_hidden_states=True)
    within = 1e-5 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(got.logits, here(wanted.logits, books), atol=within, rtol=within)
    torch.testing.assert_close(got.loss, wanted.loss.to(dtype), atol=1e-5, rtol=1e-5)  # summed in fp32 there
    taps = ours(input_ids=ids, tape=Tape("embed.out", "final")).taps
    for tap, state in (("embed.out", wanted.hidden_states[0]), ("final", wanted.hidden_states[-1])):
        torch.testing.assert_close(taps[tap], state, atol=within, rtol=within)
    got.loss.backward()
    wanted.loss.backward()
    tables = torch.cat([table.weight.grad for table in theirs.model.decoder.embed_tokens])
    heads = torch.cat([head.weight.grad for head in theirs.lm_heads])
    torch.testing.assert_close(ours.network.embed.tokens.weight.grad, tables, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.network.head.decoder.weight.grad, heads, atol=1e-5, rtol=1e-5)


def test_a_memory_is_attended_to(tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path)
    ids, memory = draw(), torch.randn(2, 6, TINY["hidden_size"])
    keep = torch.tensor([[True] * 6, [True] * 4 + [False] * 2])
    with torch.no_grad():
        wanted = theirs(there(ids), encoder_hidden_states=memory, encoder_attention_mask=keep.long())
        flow = Flow(memory=EncoderOutput(memory, keep[:, None]))
        got = ours.network(Batch(input_ids=ids), flow)
        alone = ours(input_ids=ids)
    torch.testing.assert_close(got.logits, here(wanted.logits), atol=1e-5, rtol=1e-5)
    assert (got.logits - alone.logits).abs().max() > 1e-2


@torch.no_grad()
def test_chunks_over_a_cache_are_the_whole(tmp_path: Path) -> None:
    ours, _ = pair(tmp_path)
    ids, cache = draw(), KeyValueCache()
    parts = [ours.network(Batch(input_ids=part), Flow(cache=cache)).logits for part in ids.split([4, 1, 1, 3], dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), ours(input_ids=ids).logits, atol=1e-5, rtol=1e-5)


def test_saved_folders_hold_the_same_bytes(tmp_path: Path) -> None:
    ours, _ = pair(tmp_path / "theirs")
    ours.save_pretrained(tmp_path / "ours")
    before = load_file(tmp_path / "theirs" / "model.safetensors")
    after = load_file(tmp_path / "ours" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(before[name].numpy().tobytes() == after[name].numpy().tobytes() for name in before)
    ids = draw()
    again = transformers.MusicgenForCausalLM.from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        torch.testing.assert_close(here(again(there(ids)).logits), ours(input_ids=ids).logits, atol=1e-5, rtol=1e-5)


def test_positions_are_named_by_their_time(tmp_path: Path) -> None:
    model = Model.from_config({**TINY, "frame_rate_hz": 62.5})
    labels = model.network.token_labels(Batch(input_ids=draw()))["sound"]
    assert labels[:3] == ["0.00 s", "0.02 s", "0.03 s"] and len(labels) == 9


def test_what_is_refused() -> None:
    model = Model.from_config(TINY)
    with pytest.raises(DataError, match=r"it must be a tensor of shape \[B, T, 3\]"):
        model(input_ids=torch.zeros(1, 4, dtype=torch.long))
    with pytest.raises(DataError, match="codebook 1 of input_ids holds numbers from 0 to 17; allowed: 0 to 16"):
        model(input_ids=torch.tensor([[[0, 17, 0], [0, 0, 0]]]))
    with pytest.raises(UnsupportedError, match="several codebooks"):
        model.network.read_stream(torch.zeros(1, 2, 32), Batch(), Flow())
