"""Data collators: examples of a tokenizer to a batch of tensors, with their labels.

Arguments and their order are those of the reference library; with the same seed, so are the masked tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.files.schema import Share, check
from glassformer.hf.reference_tokenizer import as_reference_tokenizer
from glassformer.text.encoding import Encoding, check_choice, padded_length
from glassformer.text.tokenizer import Tokenizer

IGNORED = -100
"""The label of a place that does not count."""

LABELS = ("label", "label_ids", "labels")

Examples = Sequence[Mapping[str, Any]]


def default_data_collator(features: Any, return_tensors: str = "pt") -> dict[str, Any]:
    """Examples of equal lengths, stacked; `label` and `label_ids` become `labels`; texts and None are left out.

    Args:
        features: mappings, or objects with attributes
    Raises: DataError: no list of examples, or values that do not make one tensor.
    """
    rows = _examples(features)
    batch: dict[str, Any] = {}
    for name in ("label", "label_ids"):
        if rows[0].get(name) is not None and "labels" not in batch:
            batch["labels"] = labels_of(rows, name)
    for name, value in rows[0].items():
        if name not in ("label", "label_ids") and value is not None and not isinstance(value, str):
            batch[name] = _stacked(name, _column(rows, name))
    stacked: dict[str, Any] = _as(return_tensors, batch)
    return stacked


@dataclass
class DefaultDataCollator:
    """`default_data_collator` as an object."""

    return_tensors: str = "pt"

    def __call__(self, features: Any, return_tensors: str | None = None) -> dict[str, Any]:
        return default_data_collator(features, return_tensors or self.return_tensors)


def labels_of(rows: Examples, name: str) -> Tensor:
    """The labels of examples as a tensor: whole numbers, or floating-point ones.

    Raises: DataError: they are texts, or of different lengths.
    """
    values = _column(rows, name)
    refuse_text_labels(name, values)
    labels = _stacked(name, values)
    return labels.float() if labels.is_floating_point() else labels.long()


def refuse_text_labels(name: str, values: Sequence[Any]) -> None:
    """Raises: DataError: labels that are texts, or lists of them."""
    first = next((x for value in values for x in (value if isinstance(value, (list, tuple)) else [value])), None)
    if isinstance(first, str):
        raise DataError(
            f"{name!r} of the examples is text ({safe_repr(first)}), and a loss needs numbers: number the classes, "
            "such as {'negative': 0, 'positive': 1}[label] (datasets: class_encode_column), and give the model "
            "id2label; text that is to be written is tokenizer(text_target=…)['input_ids']"
        )


def _column(rows: Examples, name: str) -> list[Any]:
    """The values of a name. Raises: DataError: an example without it."""
    for index, row in enumerate(rows):
        if name not in row:
            raise DataError(f"example {index} of the batch has no {name!r}, which the first one has")
    return [row[name] for row in rows]


def _stacked(name: str, values: list[Any]) -> Tensor:
    """One tensor of the values of each example: numbers, lists, arrays or tensors."""
    try:
        if isinstance(values[0], Tensor):
            return torch.stack(values)
        return torch.as_tensor(np.stack(values) if isinstance(values[0], np.ndarray) else values)
    except (ValueError, TypeError, RuntimeError) as problem:
        raise DataError(
            f"{name!r} of the examples makes no tensor ({str(problem)[:100]}); give numbers, or lists of one length: "
            "DataCollatorWithPadding(tokenizer) fills up inputs, DataCollatorForTokenClassification labels too"
        ) from problem


def _examples(features: Any) -> list[Mapping[str, Any]]:
    """A list of examples, also of a mapping of columns, as a slice of a data set is, or of objects.

    Raises: DataError: no list of examples, or an empty one.
    """
    if isinstance(features, Mapping) and features and all(isinstance(x, (list, Tensor)) for x in features.values()):
        return [dict(zip(features, row, strict=True)) for row in zip(*features.values(), strict=True)]
    rows = features if isinstance(features, (list, tuple)) else []
    rows = [row if isinstance(row, Mapping) else getattr(row, "__dict__", None) for row in rows]
    if not rows or not all(rows):
        raise DataError(f"a batch is {safe_repr(features)}; it must be a list of examples, as the tokenizer gives them")
    return rows


def _as(kind: str, batch: Any) -> Any:
    """A batch as tensors, or as arrays."""
    check_choice("return_tensors", kind, ("pt", "np"))
    if kind == "np":
        batch.update({name: x.numpy() for name, x in batch.items() if isinstance(x, Tensor)})
    return batch


class PaddingCollator(ABC):
    """What all have that pad examples to the longest of the batch.

    tokenizer: pads
    padding, max_length, pad_to_multiple_of: as of `tokenizer.pad`
    """

    tokenizer: Tokenizer
    padding: bool | str
    max_length: int | None
    pad_to_multiple_of: int | None
    return_tensors: str

    def __call__(self, features: Any, return_tensors: str | None = None) -> Encoding:
        """Raises: DataError: no examples."""
        batch: Encoding = _as(return_tensors or self.return_tensors, self.batch(_examples(features)))
        return batch

    @abstractmethod
    def batch(self, rows: Examples) -> Encoding:
        """The tensors of examples."""

    def pad(self, rows: Examples) -> Encoding:
        """The tensors of examples without their labels."""
        return as_reference_tokenizer(self.tokenizer).pad(
            [{name: x for name, x in row.items() if name not in LABELS} for row in rows],
            padding=self.padding,
            max_length=self.max_length,
            pad_to_multiple_of=self.pad_to_multiple_of,
            return_tensors="pt",
        )

    def rows_of_labels(self, labels: list[list[int]], width: int, fill: int) -> Tensor:
        """Labels of tokens, filled up on the tokenizer's side. Raises: DataError: more labels than tokens."""
        if (longest := max(map(len, labels))) > width:
            raise DataError(f"an example has {longest} labels, and the inputs {width} tokens; give one label a token")
        left = self.tokenizer.padding_side == "left"
        gaps = [[fill] * (width - len(each)) for each in labels]
        return torch.tensor([gap + x if left else x + gap for gap, x in zip(gaps, labels, strict=True)])


def _token_labels(rows: Examples) -> list[list[int]] | None:
    """The labels of the tokens of each example; None where there are none. Raises: DataError: no lists of numbers."""
    name = _labels_in(rows)
    if name is None:
        return None
    values = _column(rows, name)
    refuse_text_labels(name, values)
    return _token_lists(rows, name)


def _labels_in(rows: Examples) -> str | None:
    """The name that the labels have; None where there are none."""
    return next((name for name in LABELS if rows[0].get(name) is not None), None)


@dataclass
class DataCollatorWithPadding(PaddingCollator):
    """Pad examples to the longest of the batch."""

    tokenizer: Tokenizer
    padding: bool | str = True
    max_length: int | None = None
    pad_to_multiple_of: int | None = None
    return_tensors: str = "pt"

    def batch(self, rows: Examples) -> Encoding:
        batch = self.pad(rows)
        if (name := _labels_in(rows)) is not None:
            batch["labels"] = labels_of(rows, name)
        order = [key for key in rows[0] if key in batch]  # as the reference's: labels of that name keep their place
        return Encoding({key: batch[key] for key in dict.fromkeys([*order, *batch])}, (), [])


@dataclass
class DataCollatorForTokenClassification(PaddingCollator):
    """Pad examples and the labels of their tokens, whose padding does not count."""

    tokenizer: Tokenizer
    padding: bool | str = True
    max_length: int | None = None
    pad_to_multiple_of: int | None = None
    label_pad_token_id: int = IGNORED
    return_tensors: str = "pt"

    def batch(self, rows: Examples) -> Encoding:
        batch = self.pad(rows)
        if (labels := _token_labels(rows)) is not None:
            batch["labels"] = self.rows_of_labels(labels, batch["input_ids"].shape[1], self.label_pad_token_id)
        return batch


@dataclass
class DataCollatorForSeq2Seq(PaddingCollator):
    """Pad sources and targets; with a model, the decoder's inputs are the labels shifted right.

    model: an encoder-decoder; anything else, such as its name, adds no decoder's inputs
    """

    tokenizer: Tokenizer
    model: Any = None
    padding: bool | str = True
    max_length: int | None = None
    pad_to_multiple_of: int | None = None
    label_pad_token_id: int = IGNORED
    return_tensors: str = "pt"

    def batch(self, rows: Examples) -> Encoding:
        batch = self.pad(rows)
        if (labels := _token_labels(rows)) is not None:
            batch["labels"] = self.rows_of_labels(labels, self._width(labels), self.label_pad_token_id)
            shift = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
            if shift is not None:
                batch["decoder_input_ids"] = shift(labels=batch["labels"])
        return batch

    def _width(self, labels: list[list[int]]) -> int:
        """To how many labels they are padded: as the sources are."""
        whole = self.max_length if self.padding == "max_length" else None
        multiple = None if self.padding in (False, "do_not_pad") else self.pad_to_multiple_of
        return padded_length(whole or max(map(len, labels)), multiple)


@dataclass
class DataCollatorWithFlattening:
    """All examples in one row without padding; a causal model keeps texts apart whose positions begin again.

    return_position_ids: counted in each text, from `position_ids_start` on
    separator_id: the label of first tokens, which no token predicts
    return_seq_idx: the number of each token's text
    return_flash_attn_kwargs: where texts begin, and the longest, for a model of your own
    """

    return_tensors: str = "pt"
    return_position_ids: bool = True
    separator_id: int = IGNORED
    return_flash_attn_kwargs: bool = False
    return_seq_idx: bool = False
    position_ids_start: int = 0

    def __call__(
        self, features: Any, return_tensors: str | None = None, separator_id: int | None = None
    ) -> dict[str, Any]:
        """Raises: DataError: no examples, an empty one, or labels that are not one a token."""
        rows = _examples(features)
        texts = _token_lists(rows, "input_ids")
        labels = _token_lists(rows, "labels") if "labels" in rows[0] else texts
        lengths = [*map(len, texts)]
        if lengths != [*map(len, labels)] or not all(lengths):
            raise DataError("each example needs a token at least, and as many labels as tokens")
        first = self.separator_id if separator_id is None else separator_id
        start = self.position_ids_start
        columns = {"input_ids": texts, "labels": [[first, *each[1:]] for each in labels]}
        if self.return_position_ids:
            columns["position_ids"] = [[*range(start, start + length)] for length in lengths]
        batch: dict[str, Any] = {name: torch.tensor([[*chain(*each)]]) for name, each in columns.items()}
        if self.return_seq_idx:
            numbers = [[number] * length for number, length in enumerate(lengths)]
            batch["seq_idx"] = torch.tensor([[*chain(*numbers)]], dtype=torch.int32)
        if self.return_flash_attn_kwargs:
            bounds = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
            batch |= {"cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds}
            batch |= {"max_length_q": max(lengths), "max_length_k": max(lengths)}
        row: dict[str, Any] = _as(return_tensors or self.return_tensors, batch)
        return row


def _token_lists(rows: Examples, name: str) -> list[list[int]]:
    """A number a token, of each example. Raises: DataError: no lists of numbers."""
    values = _column(rows, name)
    if not all(isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) == 1 for value in values):
        raise DataError(
            f"{name!r} of an example is {safe_repr(values[0])}; it must be a list with one number for each token"
        )
    return [[*map(int, value)] for value in values]


@dataclass
class DataCollatorForMultipleChoice(PaddingCollator):
    """Pad examples of several choices each, to [B, choices, T]."""

    tokenizer: Tokenizer
    padding: bool | str = True
    max_length: int | None = None
    pad_to_multiple_of: int | None = None
    return_tensors: str = "pt"

    def batch(self, rows: Examples) -> Encoding:
        inputs = [name for name in rows[0] if name in ("input_ids", "attention_mask", "token_type_ids")]
        choices = len(rows[0]["input_ids"]) if inputs else 0
        batch = self.pad([{name: row[name][i] for name in inputs} for row in rows for i in range(choices)])
        batch.update({name: x.view(len(rows), choices, -1) for name, x in batch.items()})
        if (name := _labels_in(rows)) is not None:
            batch["labels"] = labels_of(rows, name)
        return batch


@dataclass
class DataCollatorForLanguageModeling(PaddingCollator):
    """Pad examples, and mask tokens for masked language modelling.

    Of the tokens, each is chosen by itself; `glassformer train --task fill-mask` chooses a share of each text.

    mlm: False = causal: the labels are the ids, without padding
    mlm_probability: that a token is chosen
    mask_replace_prob, random_replace_prob: that a chosen one becomes the mask, or any token; else it stays
    seed: of the draws; None = torch's own generator, as `torch.manual_seed` sets it; NumPy's, where arrays are returned
    Raises: ConfigError: the tokenizer has no mask token, or a probability is no number from 0 to 1.
        UnsupportedError: `whole_word_mask`.
    """

    tokenizer: Tokenizer
    mlm: bool = True
    whole_word_mask: bool = False
    mlm_probability: float | None = 0.15
    mask_replace_prob: float = 0.8
    random_replace_prob: float = 0.1
    pad_to_multiple_of: int | None = None
    return_tensors: str = "pt"
    seed: int | None = None

    def __post_init__(self) -> None:
        self.padding, self.max_length = True, None
        self._generator: torch.Generator | np.random.Generator | None = None
        self._of_numpy = False
        if self.whole_word_mask:
            raise UnsupportedError(
                "whole_word_mask=True: glassformer.tasks.masked.Masked(model, whole_words=True) hides whole words"
            )
        if self.mlm and self.tokenizer.mask_token_id is None:
            raise ConfigError("the tokenizer has no mask token; mlm=False makes examples for causal language modelling")
        for name in ("mlm_probability", "mask_replace_prob", "random_replace_prob") if self.mlm else ():
            rate = getattr(self, name)
            check(Share, rate, name)
        if self.mask_replace_prob + self.random_replace_prob > 1:
            raise ConfigError(
                f"mask_replace_prob is {self.mask_replace_prob} and random_replace_prob {self.random_replace_prob}; "
                "together they may be 1 at most"
            )

    def __call__(self, features: Any, return_tensors: str | None = None) -> Encoding:
        """Examples, or lists of ids."""
        self._of_numpy = (return_tensors or self.return_tensors) == "np"
        several = isinstance(features, (list, tuple))
        bare = several and any(isinstance(x, (list, tuple, np.ndarray, Tensor)) for x in features)
        batch = super().__call__([{"input_ids": x} for x in features] if bare else features, return_tensors)
        if bare:
            del batch["attention_mask"]
        return batch

    def batch(self, rows: Examples) -> Encoding:
        batch = self.pad(rows)
        special, pad = batch.pop("special_tokens_mask", None), self.tokenizer.pad_token_id
        ids: Tensor = batch["input_ids"]
        if self.mlm:
            batch["input_ids"], batch["labels"] = self.masked(ids, special)
        else:
            batch["labels"] = ids.clone() if pad is None else ids.masked_fill(ids == pad, IGNORED)
        return batch

    def masked(self, ids: Tensor, special: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The masked inputs, and the labels: the chosen tokens, all others ignored.

        Args:
            special: 1 for tokens that are never chosen; None = the tokenizer's special ones. [B, T]
        """
        if special is None:
            special = torch.isin(ids, torch.tensor(as_reference_tokenizer(self.tokenizer).all_special_ids))
        kind = torch.float64 if self._of_numpy else torch.float32
        shares = torch.full(ids.shape, float(self.mlm_probability or 0), dtype=kind)
        chosen = self._draw(shares.masked_fill(special.bool(), 0))
        hidden = chosen & self._draw(torch.full(ids.shape, float(self.mask_replace_prob), dtype=kind))
        read = ids.masked_fill(hidden, int(self.tokenizer.mask_token_id or 0))
        if self.mask_replace_prob < 1 and self.random_replace_prob:
            # Of those that the mask has left.
            share = self.random_replace_prob / (1 - self.mask_replace_prob)
            other = chosen & ~hidden & self._draw(torch.full(ids.shape, share, dtype=kind))
            read = self._replaced(read, other)
        return read, ids.masked_fill(~chosen, IGNORED)

    def _draw(self, chances: Tensor) -> Tensor:
        """True with these probabilities."""
        draws = self._draws()
        if isinstance(draws, torch.Generator) or draws is None:
            return torch.bernoulli(chances, generator=draws).bool()
        return torch.from_numpy(np.asarray(draws.binomial(1, chances.numpy(), size=chances.shape)).astype(bool))

    def _replaced(self, ids: Tensor, where: Tensor) -> Tensor:
        """The ids with any token of the vocabulary in these places."""
        draws, count = self._draws(), len(self.tokenizer)
        if isinstance(draws, torch.Generator) or draws is None:
            return torch.where(where, torch.randint(count, ids.shape, generator=draws), ids)
        integers = draws.integers if isinstance(draws, np.random.Generator) else np.random.randint
        replaced = ids.clone()
        replaced[where] = torch.from_numpy(integers(0, count, size=int(where.sum()), dtype=np.int64))
        return replaced

    def _draws(self) -> torch.Generator | np.random.Generator | Any | None:
        """The generator of `seed`, of each process of a data loader another one; else that of torch, or of NumPy."""
        if self.seed is not None and self._generator is None:
            worker = get_worker_info()
            seed = self.seed + (worker.id if worker is not None else 0)
            self._generator = np.random.default_rng(seed) if self._of_numpy else torch.Generator().manual_seed(seed)
        return np.random if self._generator is None and self._of_numpy else self._generator
