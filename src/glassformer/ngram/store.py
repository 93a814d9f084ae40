"""Files of n-gram models: a compact one, which is mapped and not read, and ARPA text.

The compact form is a safetensors file: `words` (UTF-8, a line each), and of each order n `keys.n`, `log_probs.n`,
`backoffs.n` and `suffixes.n`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from glassformer.errors import DataError, WeightsError
from glassformer.files import as_path
from glassformer.files.atomic import atomic_file, disk_errors
from glassformer.ngram.arpa import MAX_ORDER, read_arpa, write_arpa
from glassformer.ngram.counts import SPECIAL, WORD_BITS, check_word
from glassformer.ngram.model import NgramModel, NgramTable
from glassformer.reports.report import Report
from glassformer.reports.table import Table, byte_amount
from glassformer.weights.read import open_file
from glassformer.weights.write import write_tensors

ARPA_SUFFIXES = (".arpa", ".arpa.gz", ".lm", ".lm.gz")
DTYPES = {"keys": torch.int64, "log_probs": torch.float32, "backoffs": torch.float32, "suffixes": torch.int32}


@dataclass(frozen=True, repr=False)
class NgramFile(Report, kind="ngram-model"):
    """An n-gram model that was saved.

    bytes: its size
    ngrams: length of n-grams → how many of them it has
    """

    file: str
    bytes: int
    ngrams: dict[int, int]

    def tables(self) -> list[Table]:
        """Its size, and the number of n-grams of each length."""
        names = [f"{n}-grams" for n in self.ngrams]
        row = [self.file, byte_amount(self.bytes), *(f"{count:,}" for count in self.ngrams.values())]
        return [Table(["saved in", "size", *names], [row], longest=1_000)]


def save_ngram(model: NgramModel, path: str | Path) -> NgramFile:
    """Write a model: as ARPA text where the name ends in `.arpa`, else in the compact form. Raises: DataError."""
    path = as_path(path)
    if path.name.endswith(ARPA_SUFFIXES):
        write_arpa(model, path)
    else:
        _write_compact(model, path)
    return NgramFile(str(path), path.stat().st_size, {n: len(table) for n, table in enumerate(model.tables, 1)})


def _write_compact(model: NgramModel, path: Path) -> None:
    tensors = {"words": torch.frombuffer(bytearray("\n".join(model.words).encode()), dtype=torch.uint8)}
    for n, table in enumerate(model.tables, 1):
        for field in DTYPES:
            tensors[f"{field}.{n}"] = torch.from_numpy(np.ascontiguousarray(getattr(table, field)))
    with disk_errors(path, DataError), atomic_file(path) as stream:
        write_tensors(stream, tensors, {"format": "glassformer n-gram model"})


def load_ngram(path: str | Path) -> NgramModel:
    """Load a model: an ARPA file, or the compact form, which stays on the disk and is mapped.

    Raises: DataError, WeightsError: no such file, or one that is damaged; what is wrong with it.
    """
    path = as_path(path)
    if path.name.endswith(ARPA_SUFFIXES):
        return read_arpa(path)
    try:
        opened = open_file(path)
    except WeightsError as problem:
        raise WeightsError(f"{problem}. A file of ARPA text has a name that ends in {ARPA_SUFFIXES[0]}") from problem
    with opened as files:
        names = set(files.tensors)
        order = sum(name.startswith("keys.") for name in names)
        wanted = {"words", *(f"{field}.{n}" for n in range(1, order + 1) for field in DTYPES)}
        if names != wanted or not 1 <= order <= MAX_ORDER:
            raise DataError(f"{path}: no n-gram model; it must hold words, and keys.1, log_probs.1, … for each order")
        words = _words(path, files.read("words"))
        tables: list[NgramTable] = []
        for n in range(1, order + 1):
            fields = {field: files.read(f"{field}.{n}") for field in DTYPES}
            for field, tensor in fields.items():
                if tensor.dtype != DTYPES[field] or tensor.shape != fields["keys"].shape or tensor.dim() != 1:
                    raise DataError(f"{path}: {field}.{n} is {tensor.dtype} {list(tensor.shape)}; the file is damaged")
            table = NgramTable(**{field: tensor.numpy() for field, tensor in fields.items()})
            _check(path, table, len(words), tables)
            tables.append(table)
    return NgramModel(words, tables)


def _words(path: Path, tensor: torch.Tensor) -> list[str]:
    try:
        words = bytes(tensor.to(torch.uint8).flatten().numpy()).decode().split("\n")
    except UnicodeDecodeError as problem:
        raise DataError(f"{path}: the vocabulary is no UTF-8; the file is damaged") from problem
    if tuple(words[:3]) != SPECIAL or len(set(words)) != len(words):
        raise DataError(f"{path}: the vocabulary must begin with {', '.join(SPECIAL)} and have each word once")
    for word in words:
        check_word(word)
    return words


def _check(path: Path, table: NgramTable, words: int, shorter: list[NgramTable]) -> None:
    """Every link of a table leads to a place that is there. Raises: DataError."""
    keys, n = table.keys, len(shorter) + 1
    below = len(shorter[-1]) if shorter else 1
    good = (
        np.array_equal(keys, np.arange(words))
        if n == 1
        else not len(keys)
        or (
            keys[0] >= 0
            and bool((keys[1:] > keys[:-1]).all())
            and int(keys[-1] >> WORD_BITS) < below
            and int((keys & (2**WORD_BITS - 1)).max()) < words
            and int(table.suffixes.min()) >= 0
            and int(table.suffixes.max()) < below
        )
    )
    numbers = np.isfinite(table.log_probs).all() and np.isfinite(table.backoffs).all()
    if not good or not numbers or (len(keys) and float(table.log_probs.max()) > 1e-2):
        raise DataError(f"{path}: the {n}-grams are not those of a model; the file is damaged")
