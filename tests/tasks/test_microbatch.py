"""Examples laid out for the network: what stands next to them changes nothing about each."""

from __future__ import annotations

from glassformer.tasks.microbatch import packed_texts, padded_texts

PAIR = {"input_ids": [5, 6, 7], "token_type_ids": [0, 0, 1]}
ALONE = {"input_ids": [8, 9]}


def test_a_pair_stays_one_beside_a_text_that_stands_alone() -> None:
    batch, _ = packed_texts([PAIR, ALONE])
    assert batch.token_type_ids is not None and batch.token_type_ids.tolist() == [[0, 0, 1, 0, 0]]
    batch, _ = padded_texts([ALONE, PAIR], padding=1)
    assert batch.input_ids is not None and batch.input_ids.tolist() == [[8, 9, 1], [5, 6, 7]]
    assert batch.token_type_ids is not None and batch.token_type_ids.tolist() == [[0, 0, 0], [0, 0, 1]]


def test_texts_alone_have_no_types() -> None:
    for batch, _ in (packed_texts([ALONE, ALONE]), padded_texts([ALONE], padding=0)):
        assert batch.token_type_ids is None
