from __future__ import annotations

from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glassformer.data.packing import document_starts, pack
from glassformer.errors import ConfigError

END = 0
DOCUMENTS = st.lists(st.lists(st.integers(1, 50), max_size=40), max_size=30)


def stream(documents: list[list[int]]) -> list[int]:
    return [number for document in documents if document for number in (*document, END)]


@given(DOCUMENTS, st.integers(2, 17), st.booleans(), st.sampled_from(["keep", "drop"]))
def test_every_block_is_full_and_less_than_one_is_lost(
    documents: list[list[int]], block: int, isolated: bool, rest: str
) -> None:
    blocks = list(pack(documents, block, end=END, isolated=isolated, rest=rest))
    whole, laid = stream(documents), [int(i) for example in blocks for i in example["input_ids"]]
    assert laid == whole[: len(laid)], "in order, nothing doubled, nothing left out"
    full = blocks if rest == "drop" or len(whole) % block == 0 else blocks[:-1]
    assert all(len(example["input_ids"]) == block for example in full)
    assert len(whole) - len(laid) == (len(whole) % block if rest == "drop" else 0)


@given(DOCUMENTS, st.integers(2, 17))
def test_stretches_are_the_documents_as_the_blocks_cut_them(documents: list[list[int]], block: int) -> None:
    borders = np.cumsum([len(document) + 1 for document in documents if document]).tolist()
    expected = sorted({0, *borders, *range(0, borders[-1] if borders else 0, block)})
    place, blocks = 0, [0]
    for example in pack(documents, block, end=END):
        assert example["documents"].sum() == len(example["input_ids"])
        blocks += (place + np.cumsum(example["documents"])).tolist()
        place = blocks[-1]
    assert blocks == expected


def test_joined_documents_see_each_other() -> None:
    first, rest = pack([[5, 6], [7], [8]], 5, end=END, isolated=False)
    assert first["input_ids"].tolist() == [5, 6, END, 7, END] and first["documents"].tolist() == [5]
    assert rest["input_ids"].tolist() == [8, END] and rest["documents"].tolist() == [2]


def test_an_end_that_is_there_is_not_doubled_and_none_is_made_up() -> None:
    assert next(pack([[5, END], [6]], 4, end=END))["input_ids"].tolist() == [5, END, 6, END]
    assert next(pack([[5], [6]], 2))["input_ids"].tolist() == [5, 6]


def test_it_streams_without_end_and_ends_where_documents_do() -> None:
    endless = ([number % 50 + 1] * 7 for number in count())
    assert len(list(islice(pack(endless, 16, end=END), 1_000))) == 1_000
    assert list(pack([], 16)) == []
    read = []
    blocks = pack(([read.append(1) or 3] * 10 for _ in range(100)), 20)  # type: ignore[func-returns-value]
    next(blocks)
    assert len(read) <= 20, "no more is read than a block needs"


def test_starts_are_where_stretches_begin() -> None:
    assert document_starts(np.array([3, 1, 4])).tolist() == [0, 3, 4]


@pytest.mark.parametrize(("options", "message"), [({"block": 1}, "at least 2"), ({"rest": "lose"}, "'drop'")])
def test_what_cannot_be_is_reported(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pack([[5]], **{"block": 4, **options})  # type: ignore[arg-type]
