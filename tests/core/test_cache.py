"""Key-value cache: what was written comes back, buffers grow in blocks, and a failed pass leaves no trace."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from glassformer.core import EncoderOutput, Flow, KeyValueCache, Stack, StackSpec, Tape
from glassformer.core.cache import FunctionalCache
from glassformer.errors import ConfigError
from tests.core.small import CROSS, PRE, assert_close, examples, perturbed, stack


@examples(30)
@given(chunks=st.lists(st.integers(1, 6), min_size=1, max_size=6), block_tokens=st.integers(1, 9))
def test_what_was_written_comes_back_in_order(chunks: list[int], block_tokens: int) -> None:
    cache, layers = KeyValueCache(block_tokens), [nn.Identity(), nn.Identity()]
    whole = torch.randn(2, 2, 3, sum(chunks), 4)  # layer, B, K, S, E
    seen = 0
    for part in whole.split(chunks, dim=3):
        seen += part.shape[3]
        for layer, new in zip(layers, part, strict=True):
            k, v = cache.extend(layer, new, -new)
            expected = whole[layers.index(layer), :, :, :seen]
            assert torch.equal(k, expected) and torch.equal(v, -expected)
        cache.advance(part.shape[3])
    room = -(-seen // block_tokens) * block_tokens
    assert cache.length == seen
    assert cache.nbytes == 2 * 2 * (2 * 3 * room * 4) * 4  # layers, k and v, numbers, bytes each


def test_room_is_written_in_place_and_grown_only_at_the_boundary() -> None:
    cache, layer = KeyValueCache(block_tokens=4), nn.Identity()
    places = []
    for _ in range(6):
        k, _ = cache.extend(layer, torch.randn(1, 1, 1, 2), torch.randn(1, 1, 1, 2))
        cache.advance(1)
        places.append(k.data_ptr())
    assert len(set(places[:4])) == 1 and len(set(places[4:])) == 1 and places[0] != places[4]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_cache_has_the_dtype_of_what_is_written(dtype: torch.dtype) -> None:
    new = torch.randn(1, 1, 3, 2, dtype=dtype)
    k, v = KeyValueCache().extend(nn.Identity(), new, new)
    assert k.dtype == v.dtype == dtype


def test_a_memory_is_computed_once_a_layer() -> None:
    cache, calls = KeyValueCache(), []

    def compute() -> tuple[torch.Tensor, torch.Tensor]:
        calls.append(1)
        return torch.ones(1), torch.zeros(1)

    layer, other = nn.Identity(), nn.Identity()
    first = cache.encoder_keys_values(layer, compute)
    assert cache.encoder_keys_values(layer, compute) is first and len(calls) == 1
    cache.encoder_keys_values(other, compute)
    assert len(calls) == 2
    assert cache.nbytes == 4 * 4


def test_a_pass_that_fails_leaves_the_cache_as_it_was() -> None:
    network, x, cache = stack("pre-norm causal"), torch.randn(1, 6, 32), KeyValueCache(block_tokens=4)
    with torch.no_grad():
        network(x[:, :3], Flow(cache=cache))
        broken = Tape(edit={"1.ffn.out": torch.zeros(5, 5, 5)}).attach(network)
        with pytest.raises(ConfigError):
            network(torch.randn(1, 3, 32), Flow(cache=cache, tape=broken))
        assert cache.length == 3
        assert_close(network(x[:, 3:], Flow(cache=cache)), network(x, Flow())[:, 3:])


def test_two_passes_with_caches_of_their_own_do_not_meet() -> None:
    network = perturbed(Stack(StackSpec(blocks=(CROSS,) * 2)))
    texts = [(torch.randn(1, 6, 32), EncoderOutput(torch.randn(1, 5, 24)), KeyValueCache()) for _ in range(2)]
    steps: list[list[torch.Tensor]] = [[], []]
    with torch.no_grad():
        for t in range(6):  # one step of the first, one of the second, and so on
            for i, (x, memory, cache) in enumerate(texts):
                steps[i].append(network(x[:, t : t + 1], Flow(memory=memory, cache=cache)))
        for i, (x, memory, _) in enumerate(texts):
            assert_close(torch.cat(steps[i], dim=1), network(x, Flow(memory=memory)))


def test_a_lazy_cache_copies_at_the_second_call_and_leaves_the_layers_tensors_alone() -> None:
    network, x = stack("pre-norm causal"), torch.randn(2, 6, 32)
    cache, tape = KeyValueCache(lazy=True), Tape("0.attn.k").attach(network)
    with torch.no_grad():
        network(x[:, :4], Flow(cache=cache, tape=tape))
        k = tape.taps["0.attn.k"]
        kept, at = k.clone(), k.untyped_storage().data_ptr()
        first = next(iter(cache._buffers.values()))
        assert first.k.untyped_storage().data_ptr() == at, "a first call copies nothing"
        cache.copy_rows(torch.tensor([0]), torch.tensor([0]))
        cache.drop_last(2)
        again = network(x[:, 2:], Flow(cache=cache))
        assert_close(again, network(x, Flow())[:, 2:])
        assert torch.equal(k, kept)


def test_a_batch_of_another_size_is_refused() -> None:
    network, cache = stack("pre-norm causal"), KeyValueCache()
    with torch.no_grad():
        network(torch.randn(2, 3, 32), Flow(cache=cache))
        with pytest.raises(ConfigError, match="holds 2 texts, the batch 1"):
            network(torch.randn(1, 3, 32), Flow(cache=cache))


def written(tokens: int, block_tokens: int = 8) -> tuple[KeyValueCache, nn.Module, torch.Tensor]:
    """A cache that has read some tokens of three texts, and their keys; the values are their negatives."""
    cache, layer, keys = KeyValueCache(block_tokens), nn.Identity(), torch.randn(3, 2, tokens, 4)
    cache.extend(layer, keys, -keys)
    cache.encoder_keys_values(layer, lambda: (keys[:, :, :1] + 1, keys[:, :, :1] - 1))
    cache.advance(tokens)
    return cache, layer, keys


@pytest.mark.parametrize("tokens", [5, 8])  # within a block, and at its end
@pytest.mark.parametrize("rows", [[2, 0, 0, 1], [1], [2, 1, 0]], ids=str)
def test_rows_are_picked(tokens: int, rows: list[int]) -> None:
    cache, layer, keys = written(tokens)
    cache.reorder_rows(torch.tensor(rows), torch.tensor(rows))
    k, v = cache.encoder_keys_values(layer, lambda: pytest.fail("a memory is computed once"))
    assert torch.equal(k, keys[rows, :, :1] + 1) and torch.equal(v, keys[rows, :, :1] - 1)
    new = torch.randn(len(rows), 2, 1, 4)
    k, v = cache.extend(layer, new, -new)
    assert torch.equal(k, torch.cat([keys[rows], new], dim=2)) and torch.equal(v, -k)


def test_rows_are_overwritten_in_place_from_a_token_on() -> None:
    cache, layer, keys = written(5)
    before = cache.nbytes
    cache.copy_rows(torch.tensor([0, 2]), torch.tensor([2, 1]), start=3)
    new = torch.randn(3, 2, 1, 4)
    k, v = cache.extend(layer, new, -new)
    expected = keys.clone()
    expected[0, :, 3:], expected[2, :, 3:] = keys[2, :, 3:], keys[1, :, 3:]  # 2 is read before it is written
    assert torch.equal(k[:, :, :5], expected) and torch.equal(v, -k)
    assert cache.nbytes == before


def test_repr_says_how_much_it_holds() -> None:
    cache = KeyValueCache(block_tokens=250)
    cache.extend(nn.Identity(), torch.zeros(1, 1, 1, 1000), torch.zeros(1, 1, 1, 1000))
    cache.advance(1)
    assert repr(cache) == "KeyValueCache(1 tokens, 1 layers, 2.0 MB)"


def test_the_newest_tokens_are_dropped() -> None:
    cache, layer, keys = written(5)
    cache.drop_last(2)
    new = torch.randn(3, 2, 1, 4)
    k, v = cache.extend(layer, new, -new)
    assert cache.length == 3
    assert torch.equal(k, torch.cat([keys[:, :, :3], new], dim=2)) and torch.equal(v, -k)
    for tokens in (4, -1):
        with pytest.raises(ConfigError, match=f"{tokens} tokens cannot be dropped from a cache of 3"):
            cache.drop_last(tokens)


def test_the_functional_cache_gives_the_same_and_writes_nothing() -> None:
    model, x = stack("alternating windows"), torch.randn(2, 5, 32)
    written, functional, states = KeyValueCache(), FunctionalCache(), []
    for part in x.split([2, 1, 2], dim=1):
        before = [functional.keys_values(block.attn) for block in model] if functional.length else []
        kept = [(k.clone(), v.clone()) for k, v in before]
        states.append(model(part, Flow(cache=functional)))
        assert_close(states[-1], model(part, Flow(cache=written)), 1e-6)
        assert all(k.equal(a) and v.equal(b) for (k, v), (a, b) in zip(before, kept, strict=True))
    assert functional.length == written.length == 5
    functional.drop_last(2)
    functional.reorder_rows(torch.tensor([1, 1, 0]))
    again = model(x[[1, 1, 0], 3:], Flow(cache=functional))
    assert_close(again, states[-1][[1, 1, 0]], 1e-6)


def test_gradients_flow_through_several_calls_of_the_functional_cache() -> None:
    model = stack("alternating windows").double()
    x = torch.randn(1, 4, 32, dtype=torch.float64, requires_grad=True)
    cache = FunctionalCache()
    parts = [model(part, Flow(cache=cache)) for part in x.split(2, dim=1)]
    (by_parts,) = torch.autograd.grad(torch.cat(parts, dim=1).square().sum(), x)
    (at_once,) = torch.autograd.grad(model(x, Flow()).square().sum(), x)
    assert_close(by_parts, at_once, 1e-9)


def named(network: Stack) -> Stack:
    network.name_nodes()
    return network


def test_a_copy_of_a_network_continues_its_cache() -> None:
    network, x = named(stack("pre-norm causal")), torch.randn(2, 6, 32)
    cache, other = KeyValueCache(), copy.deepcopy(network)
    with torch.no_grad():
        network(x[:, :4], Flow(cache=cache))
        assert_close(other(x[:, 4:], Flow(cache=cache)), network(x, Flow())[:, 4:])


@pytest.mark.parametrize("functional", [False, True])
def test_a_network_with_more_layers_is_refused(functional: bool) -> None:
    def deep(layers: int) -> Stack:
        return named(perturbed(Stack(StackSpec(blocks=(PRE,) * layers))))

    x, cache = torch.randn(1, 3, 32), FunctionalCache() if functional else KeyValueCache()
    shallow, deeper = deep(1), deep(2)
    with torch.no_grad():
        shallow(x, Flow(cache=cache))
        with pytest.raises(ConfigError, match=r"holds 3 tokens, but 0 of 1\.attn: it was filled by another model"):
            deeper(x, Flow(cache=cache))
        cache = type(cache)()
        deeper(x, Flow(cache=cache))
        shallow(x, Flow(cache=cache))  # the second layer is left behind
        with pytest.raises(ConfigError, match=r"holds 6 tokens, but 3 of 1\.attn"):
            deeper(x, Flow(cache=cache))


def test_keys_of_another_shape_are_refused() -> None:
    for spec, other in (
        (PRE, replace(PRE, attention=replace(PRE.attention, heads=2))),
        (CROSS, replace(CROSS, cross=replace(CROSS.cross, heads=2))),
    ):
        first, second = (named(perturbed(Stack(StackSpec(blocks=(each,))))) for each in (spec, other))
        cache, memory = KeyValueCache(), EncoderOutput(torch.randn(1, 5, 24))
        with torch.no_grad():
            first(torch.randn(1, 3, 32), Flow(cache=cache, memory=memory))
            with pytest.raises(ConfigError, match="the cache holds keys of 4 heads of 8 numbers"):
                second(torch.randn(1, 1, 32), Flow(cache=cache, memory=memory))


@pytest.mark.parametrize("length", [-3, 6, 2.5, "2"])
def test_a_length_that_the_cache_cannot_have_is_refused(length: object) -> None:
    cache = written(5)[0]
    with pytest.raises(ConfigError, match=f"length is {length}; a cache of 5 tokens can be cut to 0 to 5"):
        cache.length = length  # type: ignore[assignment] # what a caller may write
    cache.length = 3
    assert cache.length == 3


def test_keys_of_another_dtype_are_refused() -> None:
    network = named(stack("pre-norm causal"))
    x, cache, other = torch.randn(1, 3, 32), KeyValueCache(), copy.deepcopy(network).to(torch.bfloat16)
    with torch.no_grad():
        network(x, Flow(cache=cache))
        with pytest.raises(ConfigError, match=r"holds torch.float32 for 0\.attn, which makes torch.bfloat16"):
            other(x.bfloat16(), Flow(cache=cache))
        assert_close(network(x, Flow(cache=cache)), network(torch.cat([x, x], 1), Flow())[:, 3:])


def test_a_cache_that_was_filled_in_inference_mode_is_continued_outside_it() -> None:
    network, x, cache = named(stack("pre-norm causal")), torch.randn(2, 6, 32), KeyValueCache()
    with torch.inference_mode():
        network(x[:, :2], Flow(cache=cache))
    with torch.no_grad():
        after = [network(x[:, n : n + 2], Flow(cache=cache)) for n in (2, 4)]
    assert_close(torch.cat(after, 1), network(x, Flow())[:, 2:])
