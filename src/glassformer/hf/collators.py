"""Data collators: examples of a tokenizer to a batch of tensors, with their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.tasks.masked import Masking
from glassformer.text.encoding import Encoding
from glassformer.text.tokenizer import Tokenizer

IGNORED = -100
"""The label of a place that does not count."""

LABELS = ("label", "label_ids", "labels")

Examples = Sequence[Mapping[str, Any]]


def default_data_collator(features: Examples, return_tensors: str = "pt") -> dict[str, Tensor]:
    """Examples of equal lengths, stacked; `label` and `label_ids` become `labels`."""
    _check(features)
    renamed = {"label": "labels", "label_ids": "labels"}
    return {
        renamed.get(name, name): _stacked([each[name] for each in features])
        for name in features[0]
        if not isinstance(features[0][name], str)
    }


def _stacked(values: list[Any]) -> Tensor:
    """One tensor of the values of each example: numbers, lists, arrays or tensors."""
    if isinstance(values[0], Tensor):
        return torch.stack(values)
    return torch.as_tensor(np.stack(values) if isinstance(values[0], np.ndarray) else values)


@dataclass
class DefaultDataCollator:
    """`default_data_collator` as an object."""

    return_tensors: str = "pt"

    def __call__(self, features: Examples, return_tensors: str | None = None) -> dict[str, Tensor]:
        return default_data_collator(features, return_tensors or self.return_tensors)


def _examples(features: Any) -> Any:
    """A list of examples, also of a mapping of columns, as a slice of a data set is."""
    if isinstance(features, Mapping) and features and all(isinstance(x, (list, Tensor)) for x in features.values()):
        return [dict(zip(features, row, strict=True)) for row in zip(*features.values(), strict=True)]
    return features


def _check(features: Any) -> None:
    """Raises: DataError: no list of examples, or an empty one."""
    if not isinstance(features, (list, tuple)) or not features or not all(isinstance(x, Mapping) for x in features):
        raise DataError(f"a batch is {safe_repr(features)}; it must be a list of examples, as the tokenizer gives them")


@dataclass
class DataCollatorWithPadding:
    """Pad examples to the longest of the batch.

    tokenizer: pads · padding, max_length, pad_to_multiple_of: as of `tokenizer.pad`
    """

    tokenizer: Tokenizer
    padding: bool | str = True
    max_length: int | None = None
    pad_to_multiple_of: int | None = None
    return_tensors: str = "pt"

    def __call__(self, features: Examples, return_tensors: str | None = None) -> Encoding:
        """Raises: DataError: no examples."""
        features = _examples(features)
        _check(features)
        batch = self.batch(features)
        if (return_tensors or self.return_tensors) == "np":
            batch.update({name: x.numpy() for name, x in batch.items() if isinstance(x, Tensor)})
        return batch

    def batch(self, features: Examples) -> Encoding:
        """The tensors of examples."""
        own = [
            {name: x for name, x in each.items() if name not in ("label", "label_ids", "labels")} for each in features
        ]
        batch = self.tokenizer.pad(
            own,
            padding=self.padding,
            max_length=self.max_length,
            pad_to_multiple_of=self.pad_to_multiple_of,
            return_tensors="pt",
        )
        labels = self.labels(features, batch)
        if labels is not None:
            batch["labels"] = labels
        return batch

    def labels(self, features: Examples, batch: Encoding) -> Tensor | None:
        """The labels of a batch; None where the examples have none."""
        name = next((name for name in LABELS if name in features[0]), None)
        return None if name is None else _stacked([each[name] for each in features])

    def rows(self, features: Examples, width: int | None, fill: int = IGNORED) -> Tensor | None:
        """Labels of tokens, filled up on the tokenizer's side."""
        if "labels" not in features[0] or features[0]["labels"] is None:
            return None
        rows = [list(each["labels"]) for each in features]
        width = max(map(len, rows)) if width is None else width
        left = self.tokenizer.padding_side == "left"
        return torch.tensor(
            [[fill] * (width - len(r)) * left + r + [fill] * (width - len(r)) * (not left) for r in rows]
        )


@dataclass
class DataCollatorForTokenClassification(DataCollatorWithPadding):
    """Pad examples and the labels of their tokens, whose padding does not count."""

    label_pad_token_id: int = IGNORED

    def labels(self, features: Examples, batch: Encoding) -> Tensor | None:
        return self.rows(features, batch["input_ids"].shape[1], self.label_pad_token_id)


@dataclass
class DataCollatorForSeq2Seq(DataCollatorWithPadding):
    """Pad sources and targets; with a model, the decoder's inputs are the labels shifted right.

    model: an encoder-decoder
    """

    model: Any = None
    label_pad_token_id: int = IGNORED

    def batch(self, features: Examples) -> Encoding:
        batch = super().batch(features)
        if self.model is not None and "labels" in batch:
            from glassformer.call import decoder_inputs

            batch["decoder_input_ids"] = decoder_inputs(self.model.network, batch["labels"], self.model.config)
        return batch

    def labels(self, features: Examples, batch: Encoding) -> Tensor | None:
        return self.rows(features, None, self.label_pad_token_id)


@dataclass
class DataCollatorForMultipleChoice(DataCollatorWithPadding):
    """Pad examples of several choices each, to [B, choices, T]."""

    def batch(self, features: Examples) -> Encoding:
        inputs = [name for name in features[0] if name in ("input_ids", "attention_mask", "token_type_ids")]
        choices = len(features[0]["input_ids"])
        flat = [{name: each[name][i] for name in inputs} for each in features for i in range(choices)]
        batch = super().batch(flat)
        batch.update({name: x.view(len(features), choices, -1) for name, x in batch.items()})
        labels = super().labels(features, batch)
        if labels is not None:
            batch["labels"] = labels
        return batch


@dataclass
class DataCollatorForLanguageModeling(DataCollatorWithPadding):
    """Pad examples, and mask tokens for masked language modelling (`tasks.masked.Masking`).

    mlm: False = causal: the labels are the ids, without padding
    mlm_probability: that a token is chosen, each by itself; `tasks.masked` chooses a share of each text
    Raises: ConfigError: the tokenizer has no mask token, or the probability is no number from 0 to 1.
    """

    mlm: bool = True
    mlm_probability: float = 0.15

    def __post_init__(self) -> None:
        if self.mlm and self.tokenizer.mask_token_id is None:
            raise ConfigError("the tokenizer has no mask token; mlm=False makes examples for causal language modelling")
        rate = self.mlm_probability
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate <= 1:
            raise ConfigError(f"mlm_probability is {safe_repr(rate)}; it must be a number from 0 to 1")
        self._masking = Masking.of(self.tokenizer) if self.mlm else None

    def __call__(self, features: Any, return_tensors: str | None = None) -> Encoding:
        """Examples, or lists of ids."""
        bare = isinstance(features, (list, tuple)) and any(isinstance(x, (list, Tensor)) for x in features)
        return super().__call__([{"input_ids": x} for x in features] if bare else features, return_tensors)

    def labels(self, features: Examples, batch: Encoding) -> Tensor:
        ids: Tensor = batch["input_ids"]
        special, pad = batch.pop("special_tokens_mask", torch.zeros_like(ids)), self.tokenizer.pad_token_id
        if self._masking is None:
            return ids if pad is None else ids.masked_fill(ids == pad, IGNORED)
        draw = np.random.default_rng(int(torch.randint(2**62, ())))  # as torch.manual_seed says
        spared = special.numpy().astype(bool) | np.isin(ids.numpy(), self._masking.special)
        chosen = (draw.random(ids.shape) < self.mlm_probability) & ~spared
        rows = [
            self._masking.hide(row, np.flatnonzero(places), draw)
            for row, places in zip(ids.numpy(), chosen, strict=True)
        ]
        read, labels = (torch.from_numpy(np.stack(side)) for side in zip(*rows, strict=True))
        batch["input_ids"] = read
        return labels
