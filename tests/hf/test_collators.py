"""Data collators mask what may be masked, as often as they are asked to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from glassformer import ConfigError, DataError, UnsupportedError, hf
from glassformer.hf import AutoTokenizer, DataCollatorForLanguageModeling
from tests.e2e.tiny_models import make_folder
from tests.hf.test_lines import _complete


def test_masked_language_modelling(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="fill-mask")
    _complete(folder / "tokenizer.json", mask=True)
    tokenizer = AutoTokenizer.from_pretrained(folder, mask_token="[MASK]", pad_token="[PAD]")
    rows = [tokenizer("time flies like an arrow " * 200), tokenizer("fruit flies")]
    collate = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.3)
    torch.manual_seed(3)
    batch = collate(rows)
    torch.manual_seed(3)
    assert torch.equal(collate(rows)["input_ids"], batch["input_ids"])

    ids = tokenizer.pad(rows, return_tensors="pt")["input_ids"]
    chosen = batch["labels"] != -100
    assert torch.equal(batch["labels"][chosen], ids[chosen]) and torch.equal(batch["input_ids"][~chosen], ids[~chosen])
    assert not torch.isin(ids[chosen], torch.tensor(tokenizer.all_special_ids)).any()
    counts = [int((collate(rows)["labels"][0] != -100).sum()) for _ in range(20)]
    assert all(220 < count < 380 for count in counts) and len(set(counts)) > 5  # each of 1,000 tokens by itself
    for rate, share in ((0, 0.0), (1, 1.0)):
        labels = DataCollatorForLanguageModeling(tokenizer, mlm_probability=rate)(rows)["labels"]
        eligible = ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
        assert float((labels[eligible] != -100).float().mean()) == share
    masked = (batch["input_ids"][chosen] == tokenizer.mask_token_id).float().mean()
    assert 0.7 < float(masked) < 0.9

    first = [{**tokenizer("time flies"), "special_tokens_mask": [1, 0, 1, 1]}]
    seen = {int(x) for _ in range(20) for x in (collate(first)["labels"][0] != -100).nonzero()[:, 0]}
    assert seen == {1}
    assert collate([[5, 6, 7], torch.tensor([5, 6])])["labels"].shape == (2, 3)
    for nothing in (None, [], "text", [3]):
        with pytest.raises(DataError, match="must be a list of examples"):
            collate(nothing)
    for wrong in (-0.1, 1.5, "x", True):
        with pytest.raises(ConfigError, match=r"must be a number from 0 to 1"):
            DataCollatorForLanguageModeling(tokenizer, mlm_probability=wrong)


def _both(folder: Path) -> tuple[Any, Any]:
    """The same tokenizer, of both libraries."""
    _complete(folder / "tokenizer.json", mask=True)
    roles = {"mask_token": "[MASK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    own = AutoTokenizer.from_pretrained(folder, **roles)
    return own, transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **roles)


def _same(own: Any, theirs: Any) -> None:
    theirs = {name: x for name, x in dict(theirs).items() if x is not None}
    assert list(own) == list(theirs)
    for name, x in theirs.items():
        assert type(own[name]) is type(x) and own[name].dtype == x.dtype
        np.testing.assert_array_equal(own[name], x)


IDS = [[1, 5, 6, 7, 2], [1, 8, 2], [1, 9, 10, 2]]
INPUTS = [{"input_ids": x, "attention_mask": [1] * len(x)} for x in IDS]
TAGGED = [{**x, "labels": [0] * len(x["input_ids"])} for x in INPUTS]
CLASSED = [{**x, "label": i} for i, x in enumerate(INPUTS)]
TENSORS = [{name: torch.tensor(x) for name, x in row.items()} for row in TAGGED]


@pytest.mark.parametrize(
    ("name", "rows", "arguments", "options"),
    [
        ("DataCollatorWithPadding", CLASSED, (), {}),
        ("DataCollatorWithPadding", [{**x, "label": 0.5, "weight": 0.25} for x in INPUTS], (), {}),
        ("DataCollatorWithPadding", [{"labels": i, "weight": 0.5, **x} for i, x in enumerate(INPUTS)], (), {}),
        ("DataCollatorWithPadding", [{"label": i, **x} for i, x in enumerate(INPUTS)], (), {}),
        ("DataCollatorWithPadding", [{"attention_mask": [1] * len(x), "input_ids": x} for x in IDS], (), {}),
        ("DataCollatorWithPadding", [{"label": 1, "input_ids": x} for x in IDS], (), {}),
        ("DataCollatorWithPadding", INPUTS, ("max_length", 12), {"return_tensors": "np"}),
        ("DataCollatorForTokenClassification", TAGGED, (), {"pad_to_multiple_of": 8}),
        ("DataCollatorForTokenClassification", TENSORS, (), {}),
        ("DataCollatorForSeq2Seq", TAGGED, ("a/name",), {"pad_to_multiple_of": 8}),
        ("DataCollatorForSeq2Seq", TAGGED, (), {"padding": "max_length", "max_length": 20}),
        ("DataCollatorForSeq2Seq", INPUTS, (), {}),
        ("DataCollatorForLanguageModeling", INPUTS, (False,), {}),
        ("DataCollatorForLanguageModeling", INPUTS, (), {"mlm_probability": 0.5}),
        ("DataCollatorForLanguageModeling", IDS, (), {"seed": 7, "pad_to_multiple_of": 8}),
        ("DataCollatorForLanguageModeling", IDS, (), {"mask_replace_prob": 0.5, "random_replace_prob": 0.4}),
        ("DataCollatorForLanguageModeling", IDS, (), {"mask_replace_prob": 1, "random_replace_prob": 0}),
        ("DataCollatorForLanguageModeling", INPUTS, (), {"mlm_probability": 0.5, "return_tensors": "np"}),
        ("DataCollatorForLanguageModeling", INPUTS, (), {"mlm_probability": 0.7, "return_tensors": "np", "seed": 7}),
    ],
)
def test_batches_are_those_of_the_reference(
    tmp_path: Path, name: str, rows: Any, arguments: tuple[Any, ...], options: dict[str, Any]
) -> None:
    batches = []
    for library, tokenizer in zip((hf, transformers), _both(make_folder(tmp_path, "bert")), strict=True):
        torch.manual_seed(3)
        np.random.seed(3)
        collate = getattr(library, name)(tokenizer, *arguments, **options)
        collate([dict(row) if isinstance(row, dict) else row for row in rows])  # a generator of its own goes on
        batches.append(collate([dict(row) if isinstance(row, dict) else row for row in rows]))
    _same(*batches)


@pytest.mark.parametrize(
    "rows",
    [
        [{"x": [1, 2], "label": 1}, {"x": [3, 4], "label": 0}],
        [{"x": 1, "label": None, "text": "a"}] * 2,
        [{"x": [0.5], "label": np.float64(0.5)}] * 2,
        [{"x": torch.tensor([1.0]), "label_ids": [1, 0]}] * 2,
        [{"x": np.array([1.0]), "label_ids": None}] * 2,
    ],
)
def test_stacked_batches_are_those_of_the_reference(rows: Any) -> None:
    _same(hf.default_data_collator(rows), transformers.default_data_collator(rows))
    _same(hf.DefaultDataCollator()(rows), transformers.DefaultDataCollator()(rows))


def test_examples_that_make_no_batch_say_why(tmp_path: Path) -> None:
    tokenizer, _ = _both(make_folder(tmp_path, "bert"))
    wrong: list[tuple[Any, Any, str]] = [
        (hf.default_data_collator, [{"x": [1]}, {"x": [1, 2]}], r"'x' of the examples makes no tensor"),
        (hf.default_data_collator, [{"x": 1}, {"y": 1}], "example 1 of the batch has no 'x'"),
        (hf.default_data_collator, [{"x": 1, "label": "pos"}], r"is text \('pos'\)"),
        (hf.DataCollatorWithPadding(tokenizer), [{**INPUTS[0], "label": "pos"}], r"is text \('pos'\)"),
        (hf.DataCollatorWithPadding(tokenizer), TAGGED, "'labels' of the examples makes no tensor"),
        (hf.DataCollatorForTokenClassification(tokenizer), CLASSED, "must be a list with one number for each token"),
        (hf.DataCollatorForTokenClassification(tokenizer), [{**INPUTS[0], "labels": ["B-PER"]}], "number the classes"),
        (hf.DataCollatorForTokenClassification(tokenizer), [{**INPUTS[1], "labels": [0] * 9}], "9 labels, and the in"),
        (hf.DataCollatorForSeq2Seq(tokenizer), [{**INPUTS[0], "labels": "Hallo"}], "text_target"),
    ]
    for collate, rows, words in wrong:
        with pytest.raises(DataError, match=words):
            collate(rows)
    with pytest.raises(UnsupportedError, match="whole_words=True"):
        DataCollatorForLanguageModeling(tokenizer, whole_word_mask=True)
    with pytest.raises(ConfigError, match="together they may be 1 at most"):
        DataCollatorForLanguageModeling(tokenizer, mask_replace_prob=0.8, random_replace_prob=0.4)


@pytest.mark.parametrize("kind", [torch.tensor, np.array, list])
def test_padding_gives_what_it_is_given(tmp_path: Path, kind: Any) -> None:
    rows = [{"input_ids": kind(x)} for x in IDS]
    own, theirs = (tokenizer.pad(rows) for tokenizer in _both(make_folder(tmp_path, "bert")))
    assert type(own["input_ids"]) is type(theirs["input_ids"])
    np.testing.assert_array_equal(own["input_ids"], theirs["input_ids"])


def test_padding_leaves_numbers_of_other_names_as_they_are(tmp_path: Path) -> None:
    own, _ = _both(make_folder(tmp_path, "bert"))
    batch = own.pad([{"input_ids": x, "weight": 0.25} for x in IDS], return_tensors="pt")
    assert batch["weight"].tolist() == [0.25] * 3
    with pytest.raises(ConfigError, match="'text' of the rows holds 'a'; a tensor is made of numbers"):
        own.pad([{"input_ids": x, "text": "a"} for x in IDS], return_tensors="pt")


@pytest.mark.parametrize(
    "options",
    [{}, {"return_seq_idx": True}, {"return_flash_attn_kwargs": True, "return_tensors": "np"},
     {"return_position_ids": False, "separator_id": -1}, {"position_ids_start": 2}],
    ids=str,
)  # fmt: skip
def test_flattened_batches_are_those_of_the_reference(options: dict[str, Any]) -> None:
    rows = [{"input_ids": [4, 5, 6]}, {"input_ids": [7, 8, 9, 10]}, {"input_ids": [5]}]
    for given in (rows, [{**row, "labels": [x + 1 for x in row["input_ids"]]} for row in rows]):
        own = hf.DataCollatorWithFlattening(**options)(given)
        theirs = transformers.DataCollatorWithFlattening(**options)(given)
        assert own.keys() == theirs.keys()
        for name, value in theirs.items():
            assert np.array_equal(own[name], value) and getattr(own[name], "dtype", 0) == getattr(value, "dtype", 0)


def test_flattened_rows_without_tokens_are_refused() -> None:
    with pytest.raises(DataError, match="as many labels as tokens"):
        hf.DataCollatorWithFlattening()([{"input_ids": [4, 5], "labels": [4]}])
    with pytest.raises(DataError, match="one number for each token"):
        hf.DataCollatorWithFlattening()([{"input_ids": 4}])
    with pytest.raises(UnsupportedError, match="XLNet"):
        hf.DataCollatorForPermutationLanguageModeling(None)
