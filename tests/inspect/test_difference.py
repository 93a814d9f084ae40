"""Differences of two passes: the numbers of plain loops, pairs of tokens, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from glassformer.errors import DataError
from glassformer.inspect import Session, Token
from glassformer.inspect.difference import PassDifference, paired
from tests.inspect.passes import network_of, reading_of, session_of


def moved_session(kind: str = "bert", tokens: int = 9) -> Session:
    """The same pass with the weights of the last block moved."""
    network = network_of(kind)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "blocks.1." in name:
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return Session(network, reading_of(kind, tokens))


def test_the_numbers_are_those_of_plain_loops() -> None:
    a, b = session_of("bert"), moved_session()
    found = a.difference(b)
    T = len(a.streams["text"])
    for level in range(a.maps["self"].layers + 1):
        for token in range(T):
            x, y = a.states(level)[token].double(), b.states(level)[token].double()
            assert found.distance[level, token] == pytest.approx(float((y - x).norm() / x.norm()), abs=1e-6)
            assert found.length[level, token] == pytest.approx(float(y.norm() / x.norm() - 1), abs=1e-6)
    for layer in range(a.maps["self"].layers):
        for head in range(found.heads.shape[1]):
            p, q = a.head(layer, head).probs(), b.head(layer, head).probs()
            assert torch.allclose(found.shifts[layer, head], (q - p).float(), atol=1e-7)
            total = sum(float((q[t] - p[t]).abs().sum()) / 2 for t in range(T)) / T
            assert found.heads[layer, head] == pytest.approx(total, abs=1e-6)
    assert found.bins == (1, 1) and found.left_out == (0, 0) and not found.notes


def test_they_part_where_the_first_block_with_other_weights_is() -> None:
    a, b = session_of("bert"), moved_session()
    found = a.difference(b, names=("before", "after"))
    level, token = found.first() or (None, None)
    assert level == 2, "the embedding and the first block are the same"
    assert token == int(found.distance[2].argmax())
    assert found.first(float(found.distance.max())) is None
    layer, head = divmod(int(found.heads.argmax()), found.heads.shape[1])
    assert layer >= 1 and float(found.heads[0].max()) == 0.0
    assert found.finding.startswith("They part at layer 1, at ") and f"Layer {layer}, head {head} " in found.finding
    assert found.parting(99.0).startswith("No vector differs by more than 9900.0% of its length")
    assert found.heading == "after − before"
    same = a.difference(session_of("bert"))
    assert float(same.distance.max()) == float(same.heads.max()) == float(same.shifts.abs().max()) == 0.0
    assert same.first() is None
    levels, heads = found.tables()
    assert [row[0] for row in levels.rows] == ["embedding", *(f"layer {i}" for i in range(a.maps["self"].layers))]
    assert len(heads.rows) == min(10, found.heads.numel())


def test_another_text_is_paired_token_by_token() -> None:
    words = [Token(word, word, at) for at, word in enumerate("a b c d".split())]
    assert paired(words, words[::-1]) == [(0, 0), (1, 1), (2, 2), (3, 3)], "as many: by place"
    assert paired(words, words[1:]) == [(1, 0), (2, 1), (3, 2)]
    assert paired(words, [Token("x", "x", 9)]) == []


def test_what_goes_to_tokens_without_a_pair_counts() -> None:
    network = network_of("bert")
    a, b = Session(network, reading_of("bert", 9)), Session(network, reading_of("bert", 7))
    found = a.difference(b)
    pairs = paired(a.streams["text"], b.streams["text"])
    assert found.left_out == (9 - len(pairs), 7 - len(pairs)) and found.notes
    p, q = a.head(0, 0).probs(), b.head(0, 0).probs()
    rows, columns = (torch.tensor([pair[side] for pair in pairs]) for side in (0, 1))
    p, q = p[rows][:, rows], q[columns][:, columns]
    moved = ((q - p).abs().sum(-1) + (q.sum(-1) - p.sum(-1)).abs()) / 2
    assert found.heads[0, 0] == pytest.approx(float(moved.mean()), abs=1e-6)


def test_a_long_text_keeps_the_largest_of_each_bin_with_its_sign() -> None:
    reading = reading_of("bert", 60)
    network = network_of("bert", max_position_embeddings=160)
    ids = torch.randint(3, 99, (1, 150), generator=torch.Generator().manual_seed(2))
    text = [Token(f"t{i}", f"t{i}", i, segment=0) for i in range(150)]
    long = replace(reading, batch=replace(reading.batch, input_ids=ids, token_type_ids=None), streams={"text": text})
    a = Session(network, long)
    other = network_of("bert", max_position_embeddings=160)
    with torch.no_grad():
        other.blocks[0].attn.qkv.weight.mul_(1.3)
    b = Session(other, long)
    found = a.difference(b)
    assert found.bins == (3, 3) and found.shifts.shape[-2:] == (50, 50)
    shift = b.head(1, 0).probs() - a.head(1, 0).probs()
    for row, column in ((0, 0), (17, 3), (49, 49)):
        block = shift[3 * row : 3 * row + 3, 3 * column : 3 * column + 3].flatten()
        assert float(found.shifts[1, 0, row, column]) == pytest.approx(float(block[block.abs().argmax()]), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"), [({"num_hidden_layers": 1}, "1 × "), ({"hidden_size": 48, "num_attention_heads": 2}, "")]
)
def test_models_of_other_shapes_are_refused(changes: dict[str, int], words: str) -> None:
    other = Session(network_of("bert", **changes), reading_of("bert"))
    with pytest.raises(DataError, match=f"(?s){words}.*compare models of one shape"):
        session_of("bert").difference(other)


def test_each_map_of_an_encoder_decoder() -> None:
    a = session_of("bart")
    found = {name: a.difference(session_of("bart"), name) for name in a.maps}
    assert all(isinstance(each, PassDifference) for each in found.values())
    assert len(found["cross"].keys) == len(a.streams["source"])
    with pytest.raises(DataError, match="there is no map None"):
        a.difference(session_of("bart"))
