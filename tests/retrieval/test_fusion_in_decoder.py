"""Fusion-in-decoder: with one passage it is ordinary generation; order, padding, and the reference's decoder."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from glassformer import Model, UnsupportedError, load
from glassformer.retrieval.generative import fused_memory, generate_fused
from tests.core.small import perturbed
from tests.e2e.tiny_models import make_folder
from tests.parity.families import BY_FAMILY
from tests.parity.sides import close, load_ours, load_theirs, make

SOURCES = [[4, 5, 6, 7, 2], [9, 5], [10, 11, 12, 4, 5, 6, 7, 8, 9, 2]]
FAMILIES = ["t5", "bart"]


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Model:
    loaded = load(make_folder(tmp_path / "model", request.param, task="translation"))
    perturbed(loaded.network)
    return loaded


def logits(model: Model, memory: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        output = model(decoder_input_ids=torch.tensor([[0, 4, 9, 6]]), encoder_outputs=(memory,))
    assert output.logits is not None
    return output.logits


def test_one_passage_is_ordinary_generation(model: Model) -> None:
    options = {"max_new_tokens": 12, "min_new_tokens": 8, "do_sample": False}
    for source in SOURCES:
        ids = torch.tensor([source])
        plain = model.generate(ids, return_scores=True, **options)
        fused = generate_fused(model, [source], **options)
        assert fused.new_ids.tolist() == plain.new_ids.tolist() and fused.reasons == plain.reasons
        torch.testing.assert_close(fused.scores, plain.scores, atol=1e-5, rtol=1e-5)


def test_states_are_those_of_each_source_alone(model: Model) -> None:
    memory = fused_memory(model, SOURCES)
    assert memory.shape[:2] == (1, sum(map(len, SOURCES)))
    alone = [fused_memory(model, [source])[0] for source in SOURCES]  # without padding, and without neighbours
    torch.testing.assert_close(memory[0], torch.cat(alone), atol=1e-5, rtol=1e-5)


def test_the_order_of_passages_changes_nothing(model: Model) -> None:
    expected = logits(model, fused_memory(model, SOURCES))
    shuffled = SOURCES[:]
    random.Random(1).shuffle(shuffled)
    assert shuffled != SOURCES
    torch.testing.assert_close(logits(model, fused_memory(model, shuffled)), expected, atol=1e-5, rtol=1e-5)
    fewer = logits(model, fused_memory(model, SOURCES[:2]))
    assert not torch.allclose(fewer, expected, atol=1e-3)  # every passage counts


def test_each_passage_of_many_is_read_apart(model: Model) -> None:
    other = [[8, 8, 8], *SOURCES[1:]]
    length = len(other[0])
    changed, before = fused_memory(model, other)[0, length:], fused_memory(model, SOURCES)[0, len(SOURCES[0]) :]
    torch.testing.assert_close(changed, before, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_reference_decoder_says_the_same(family: str, tmp_path: Path) -> None:
    modeling = pytest.importorskip("transformers.modeling_outputs")
    row = BY_FAMILY[family]
    folder = make(row, "BartForConditionalGeneration" if family == "bart" else row.main, tmp_path)
    theirs, ours = load_theirs(folder, row), load_ours(folder)
    sources = [[5, 6, 7, 2], [9, 10], [11, 12, 13, 4, 5, 6]]
    target = torch.tensor([[2, 5, 9, 6]])
    with torch.no_grad():
        states = [theirs.get_encoder()(torch.tensor([source])).last_hidden_state for source in sources]
        memory = torch.cat(states, dim=1)
        expected = theirs(
            encoder_outputs=modeling.BaseModelOutput(last_hidden_state=memory),
            attention_mask=torch.ones(memory.shape[:2], dtype=torch.long),
            decoder_input_ids=target,
        ).logits
        own = fused_memory(ours, sources)
        close(own, memory, 1e-5, "memory")
        found = ours(encoder_outputs=(own,), decoder_input_ids=target).logits
    assert found is not None
    close(found, expected, 1e-5, "logits")


def test_a_decoder_has_no_encoder(tmp_path: Path) -> None:
    model = load(make_folder(tmp_path / "model", "gpt2", task="text-generation"))
    with pytest.raises(UnsupportedError, match="has no encoder"):
        fused_memory(model, SOURCES)
