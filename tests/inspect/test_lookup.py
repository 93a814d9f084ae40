"""CL-02: a look-up is a one-hot row's product with the table, bit for bit, and gives it the same gradient."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from glassformer.errors import DataError
from glassformer.inspect import lookup
from glassformer.inspect.lookup import embedding_table, look_up, streams_with_table
from tests.inspect.passes import KINDS, session_of

WITHOUT_WORDS = ("clip_vision_model", "hubert", "musicgen_decoder", "vit", "wav2vec2")


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_of_words_looks_them_up(kind: str) -> None:
    session = session_of(kind)
    streams = streams_with_table(session)
    assert bool(streams) == (kind not in WITHOUT_WORDS)
    for stream in streams:
        table = embedding_table(session, stream)
        assert table is not None
        for each in look_up(session, stream, [3, 5]):
            assert each.equal and each.equal_gradients
            assert (each.vocabulary, each.width) == tuple(table.weight.shape)
            expected = table.weight[each.id, : len(each.rows[each.id])]
            assert torch.equal(torch.tensor(each.rows[each.id]), expected.detach())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_in_any_precision_and_however_many_columns_at_once(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    session = session_of("bert")
    table = embedding_table(session, "text")
    assert table is not None
    table.to(dtype)
    monkeypatch.setattr(lookup, "CHUNK_NUMBERS", 3 * table.num_embeddings)
    assert all(
        each.equal and each.equal_gradients for each in look_up(session, "text", [0, 7, table.num_embeddings - 1])
    )


def test_neighbours_are_rows_that_there_are() -> None:
    session = session_of("bert")
    last = look_up(session, "text", [0])[0].vocabulary - 1
    assert [list(each.rows) for each in look_up(session, "text", [0, last])] == [[0, 1], [last - 1, last]]


def test_what_differs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """0 × ∞ is NaN: a table with an infinite row has another product, and another gradient."""
    session = session_of("bert")
    table = embedding_table(session, "text")
    assert table is not None
    with torch.no_grad():
        table.weight[9] = torch.inf
    (one,) = look_up(session, "text", [5])
    assert not one.equal and not one.equal_gradients
    with torch.no_grad():
        table.weight[9] = 0.0
    original = F.embedding
    monkeypatch.setattr(F, "embedding", lambda ids, w: original(ids, w) * (1 + 1e-6))
    (one,) = look_up(session, "text", [5])
    assert not one.equal and not one.equal_gradients


def test_what_is_not_looked_up_is_refused() -> None:
    with pytest.raises(DataError, match="not looked up in one embedding table"):
        look_up(session_of("vit"), "image", [0])
    with pytest.raises(DataError, match=r"there is no token -1; the table has rows 0 to \d+"):
        look_up(session_of("bert"), "text", [-1])
