"""Batches of a `Trainer`: their order, the columns that a model reads, and their labels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, Sampler

from glassformer.call import NAMED_LABELS
from glassformer.edge import TOKEN_INPUTS, CallInputs, ModelInputs
from glassformer.errors import DataError
from glassformer.files import safe_repr
from glassformer.hf.collators import LABELS, refuse_text_labels
from glassformer.model import Model

IGNORED = -100  # the label of what no loss counts: the default of PyTorch's cross-entropy
POSITIONS = ("start_positions", "end_positions")


class ShuffledByEpoch(Sampler[int]):
    """Every example once an epoch, in an order that depends on seed and epoch alone."""

    def __init__(self, size: int, seed: int) -> None:
        self.size, self.seed, self.epoch = size, seed, 0

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        self.epoch += 1
        yield from torch.randperm(self.size, generator=generator).tolist()


def data_loader(
    examples: Any,
    batch_size: int,
    collate: Callable[[list[Any]], Mapping[str, Any]],
    columns: frozenset[str] | None,
    seed: int | None = None,
    drop_last: bool = False,
) -> DataLoader[Any]:
    """Batches of examples, without columns that the model does not read.

    Args:
        columns: those that it reads; None = all
        seed: of the order; None = as they are
    """
    if examples is None:
        raise DataError("there is no data to evaluate on: give eval_dataset")
    if isinstance(examples, Mapping):
        names = ", ".join(safe_repr(name) for name in islice(examples, 5))
        raise DataError(f"this is a dictionary of data sets ({names}); give one of them, such as data['train']")
    streamed = isinstance(examples, IterableDataset)
    if not streamed and not (hasattr(examples, "__len__") and hasattr(examples, "__getitem__")):
        raise DataError(
            f"the data are {safe_repr(examples)} ({type(examples).__name__}); give a list of examples, a data set that "
            "has a length and gives examples by number, or a torch IterableDataset"
        )

    def collate_read(batch: list[Any]) -> Mapping[str, Any]:
        if columns is None or not all(isinstance(example, Mapping) for example in batch):
            return collate(batch)
        return collate([{name: x for name, x in example.items() if name in columns} for example in batch])

    sampler = None if seed is None or streamed else ShuffledByEpoch(len(examples), seed)
    return DataLoader(examples, batch_size, sampler=sampler, collate_fn=collate_read, drop_last=drop_last)


def batches_per_epoch(loader: Any) -> int | None:
    """How many batches a loader gives; None where only reading it tells, as of a stream."""
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        return None  # its length, if it gives one, need not be that of what it yields
    try:
        return len(loader)
    except TypeError:
        return None


def columns_read(model: nn.Module, label_names: list[str]) -> frozenset[str]:
    """The names that a model's call takes, and those of labels."""
    if isinstance(model, Model):
        named = {*TOKEN_INPUTS, *ModelInputs.__annotations__, *CallInputs.__annotations__}
    else:
        named = set(inspect.signature(model.forward).parameters)
    return frozenset({*named, *LABELS, *label_names})


def label_names_of(model: nn.Module) -> list[str]:
    """The names of a model's labels: the positions of a span, or `labels`."""
    return list(POSITIONS) if getattr(model, "task", None) == "question-answering" else ["labels"]


def refuse_text_labels_in(examples: Any) -> None:
    """Raises: DataError: the first example has labels that are texts, which the default collator leaves out."""
    first = next(iter(examples or ()), None)
    if isinstance(first, Mapping):
        for name in LABELS:
            refuse_text_labels(name, [first.get(name)])


def shifts_labels(model: nn.Module) -> bool:
    """Whether each token of a model predicts the next one, so that the first label of a row is not predicted."""
    return getattr(model, "task", None) == "text-generation"


def counts_first_labels(model: nn.Module) -> bool:
    """Whether the reference library divides the loss of a batch by its first labels, too, which are not predicted.

    It does for GPT and GPT-2, whose classes are named …LMHeadModel: its rule for causal models goes by …ForCausalLM.
    """
    return shifts_labels(model) and type(model).__name__.endswith("LMHeadModel")


def label_count(batch: Mapping[str, Any], *, shifted: bool = False) -> int:
    """How many labels of a batch count for its loss; without labels its rows.

    Args:
        shifted: the first label of each row does not count
    """
    labels = batch.get("labels")
    if isinstance(labels, Tensor) and not labels.is_floating_point():
        return int(((labels[..., 1:] if shifted else labels) != IGNORED).sum())
    return len(next((x for name in (*NAMED_LABELS, *batch) if isinstance(x := batch.get(name), Tensor)), ()))


def token_count(batch: Mapping[str, Any]) -> int:
    """How many tokens a batch has, or samples of sound."""
    return next((x.numel() for x in batch.values() if isinstance(x, Tensor) and x.dim() > 1), 0)


def operations_per_token(model: nn.Module) -> float:
    """Floating-point operations of a training step for each token: 6 a parameter, without tables of embeddings."""
    tables = sum(m.weight.numel() for m in model.modules() if isinstance(m, nn.Embedding))
    return 6.0 * (sum(p.numel() for p in model.parameters()) - tables)
