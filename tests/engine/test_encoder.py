"""Texts to vectors: the same as one text at a time, whatever the order, the budget and the precision."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from glassformer import Model
from glassformer.compression.quantise import Scheme
from glassformer.compression.quantised_network import quantise_network
from glassformer.core.flow import Batch, Flow
from glassformer.engine import encoder
from glassformer.engine.encoder import encode, final_states
from glassformer.engine.prepare import MIN_TEXTS_TO_PREPARE, prepared_precision
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.models import FAMILIES, Network


class Ids:
    """Stands in for a tokenizer: "7 12 3" is the text of three tokens."""

    def batch_ids(self, texts: Sequence[str], max_tokens: int | None) -> tuple[list[list[int]], int]:
        ids = [[int(word) for word in text.split()] for text in texts]
        return [text[:max_tokens] for text in ids], sum(max_tokens is not None and len(t) > max_tokens for t in ids)


def network_of(family: str, **changes: object) -> Network:
    torch.manual_seed(0)
    task = {"transformer": "translation", "t5": "sentence-similarity"}.get(family, "feature-extraction")
    return Model.from_config({**FAMILIES[family].tiny, **changes}, task=task).eval().network


def texts_of(lengths: Sequence[int]) -> list[str]:
    random = np.random.default_rng(3)
    return [" ".join(map(str, random.integers(1, 99, n))) for n in lengths]


@torch.no_grad()
def one_by_one(network: Network, texts: Sequence[str]) -> np.ndarray:
    """The mean of each text's final states, one text at a time, nothing packed."""
    ids = [torch.tensor([[int(word) for word in text.split()]]) for text in texts]
    return torch.cat([network.states(Batch(input_ids=row), Flow()).mean(1) for row in ids]).numpy()


DYNAMIC = {"rotary_scaling_factor": 2.0, "max_trained_positions": 8}


@pytest.mark.parametrize("precision", [None, "fp32"])
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        *((family, {}) for family in ("bert", "gpt2", "llama", "t5", "modernbert", "nomic_bert")),
        ("nomic_bert", DYNAMIC),
    ],
    ids=["bert", "gpt2", "llama", "t5", "modernbert", "nomic_bert", "nomic_bert beyond its trained length"],
)
def test_vectors_equal_one_text_at_a_time(family: str, changes: dict[str, object], precision: str | None) -> None:
    network, texts = network_of(family, **changes), texts_of([3, 9, 1, 9, 30, 3, 17, 2])
    expected = one_by_one(network, texts)
    vectors = encode(network, Ids(), texts, precision=precision)
    assert vectors.dtype == np.float32 and vectors.shape == (8, network.width)
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@given(st.lists(st.integers(1, 40), min_size=1, max_size=20), st.integers(1, 100))
def test_neither_order_nor_budget_changes_a_vector(lengths: list[int], budget: int) -> None:
    network, texts = network_of("bert"), texts_of(lengths)
    vectors = encode(network, Ids(), texts, batch_tokens=budget)
    backwards = encode(network, Ids(), texts[::-1])[::-1]
    np.testing.assert_allclose(vectors, backwards, atol=1e-5)


def test_windows_give_the_same_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    network, texts = network_of("bert"), texts_of([5, 2, 8, 8, 1, 4, 6])
    whole = encode(network, Ids(), texts)
    monkeypatch.setattr(encoder, "WINDOW_TEXTS", 3)
    np.testing.assert_allclose(encode(network, Ids(), texts), whole, atol=1e-6)


def test_enough_texts_are_worth_packing_and_change_nothing() -> None:
    network, texts = network_of("bert"), texts_of([4] * MIN_TEXTS_TO_PREPARE)
    few = encode(network, Ids(), texts[:-1])
    assert prepared_precision(network) is None
    many = encode(network, Ids(), texts)
    assert prepared_precision(network) == "fp32"
    np.testing.assert_allclose(many[:-1], few, atol=1e-6)


def test_stored_levels_are_never_packed_so_one_text_is_enough() -> None:
    network, texts = network_of("bert"), texts_of([4, 6])
    quantise_network(network, Scheme(bits=8), inputs="wide")
    plain = one_by_one(network, texts)
    assert prepared_precision(network) is None
    np.testing.assert_allclose(encode(network, Ids(), texts, pooling="mean"), plain, atol=1e-5)
    assert prepared_precision(network) == "fp32"


@pytest.mark.parametrize("precision, bound", [("fp32", 1e-6), ("bf16", 0.05), ("int8", 0.1)])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_precisions_stay_near_the_exact_vectors(family: str, precision: str, bound: float) -> None:
    network, texts = network_of(family), texts_of([3, 12, 12, 7])
    exact = encode(network, Ids(), texts)
    vectors = encode(network, Ids(), texts, precision=precision)
    assert prepared_precision(network) is None  # of this call alone
    assert np.array_equal(encode(network, Ids(), texts), exact)
    assert np.abs(vectors - exact).max() <= bound * np.abs(exact).max()


def test_nothing_gives_no_vectors_and_an_empty_text_gives_zeros() -> None:
    network = network_of("gpt2")
    assert encode(network, Ids(), []).shape == (0, network.width)
    vectors = encode(network, Ids(), ["", "5 6", ""])
    assert not vectors[[0, 2]].any() and vectors[1].any()


def test_long_texts_are_cut_with_one_warning_or_refused() -> None:
    network, texts = network_of("bert"), texts_of([50, 3, 60])  # 40 positions
    with pytest.warns(UserWarning, match="2 of 3 texts were cut to 40 tokens"):
        assert encode(network, Ids(), texts).shape == (3, 32)
    with pytest.raises(DataError, match="2 of 3 texts have more than 40 tokens"):
        encode(network, Ids(), texts, truncate=False)


def test_training_mode_is_given_back_and_dropout_was_off() -> None:
    network = network_of("bert", hidden_dropout_prob=0.5)
    exact = encode(network, Ids(), ["1 2 3"])
    network.train()
    assert np.array_equal(encode(network, Ids(), ["1 2 3"]), exact) and network.training


def test_final_states_equal_those_of_each_text() -> None:
    network = network_of("llama")
    with torch.no_grad():
        states, packing = final_states(network, [[1, 2, 3], [4, 5, 6], [7]])
        alone = network.states(Batch(input_ids=torch.tensor([[4, 5, 6]])), Flow())
    assert packing.lengths == (3, 3, 1)
    torch.testing.assert_close(states[0, 3:6], alone[0], atol=1e-5, rtol=1e-5)


def test_a_bar_is_shown_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    encode(network_of("bert"), Ids(), ["1 2"], progress=True)
    assert capsys.readouterr().out == ""  # it belongs on standard error


@pytest.mark.parametrize("budget", [0, -1, True, 1.5])
def test_a_budget_is_a_whole_number(budget: int) -> None:
    with pytest.raises(ConfigError, match="it must be a whole number from 1 up"):
        encode(network_of("bert"), Ids(), ["1"], batch_tokens=budget)


def test_two_stacks_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="a model with one text stack; this one has source and target"):
        encode(network_of("transformer"), Ids(), ["1"])
