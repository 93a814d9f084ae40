"""A complete corpus index: columns memory-mapped, nearest vectors by exact products, neurons by their lists."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.files import as_path, is_int, safe_repr
from glassformer.inspect.corpus.files import (
    CONTINUES,
    SPECIAL,
    Head,
    IndexSettings,
    check_files,
    head_file,
    layer_file,
    neurons_file,
    read_metadata,
)
from glassformer.inspect.corpus.neurons import ABSENT, read_entries
from glassformer.inspect.tokens import VISIBLE_SPACE, Token, vocabulary_entry
from glassformer.reports.report import Report
from glassformer.reports.table import Table, byte_amount
from glassformer.text.tokenizer import Tokenizer

BLOCK_TOKENS = 1 << 15
"""Vectors that are multiplied at once: 50 MB in fp32 at a width of 384."""


@dataclass(frozen=True, eq=False)
class IndexedWindow:
    """A window of the corpus.

    row: of the file, from 0
    first: the number of its first token
    ids, tokens: of the window [T]
    """

    row: int
    first: int
    text: str
    ids: list[int]
    tokens: list[Token]


@dataclass(frozen=True, kw_only=True, repr=False)
class IndexSummary(Report, kind="corpus-index"):
    """What an index holds.

    index: its folder
    bytes: of its files
    seconds: that making it took
    """

    index: str
    rows: int
    windows: int
    tokens: int
    bytes: int
    seconds: float
    settings: IndexSettings

    def tables(self) -> list[Table]:
        held = self.settings
        neurons = f"{len(held.neurons)} × {held.neuron_width:,}, the top {held.top} of each" if held.neurons else "none"
        rows = [
            ["tokens", f"{self.tokens:,} in {self.windows:,} windows of {self.rows:,} texts, {self.seconds:.1f} s"],
            ["layers", ", ".join(map(str, held.layers)) or "none"],
            ["heads", ", ".join(f"{layer}.{head}" for layer, head in held.heads) or "none"],
            ["neurons", neurons],
        ]
        return [Table(["saved in", f"{self.index}, {byte_amount(self.bytes)}"], rows, left=2, longest=400)]


class CorpusIndex:
    """An index of a text file, read from its folder; nothing is written to it.

        index = CorpusIndex("index/")
        index.nearest(vector, layer=6, count=20)            tokens by cosine, special ones left out
        index.top_activations(3, 17)                        tokens by the activation of a neuron
        index.window(index.window_of(token), tokenizer)     where a token is

    Args:
        verify: compute the checksums of the vectors too, which reads them all
    Raises: DataError: no index, one that is not complete, damaged, or of another version.
    """

    def __init__(self, folder: str | Path, *, verify: bool = False) -> None:
        self.folder = as_path(folder, "folder")
        self.settings, self.progress = read_metadata(self.folder)
        if not self.progress.complete:
            raise DataError(
                f"{self.folder}: only {self.progress.rows:,} of {self.settings.rows:,} texts are indexed; run the same "
                "command again to go on"
            )
        names = (
            self.progress.files if verify else (x for x in self.progress.files if not x.startswith(("layer.", "head.")))
        )
        check_files(self.folder, self.progress, iter(names))
        self.tokens, self.flags = self._column("tokens.bin"), self._column("flags.bin")
        self._windows = self._column("windows.bin")
        self._check_windows()

    def _check_windows(self) -> None:
        """Raises: DataError: windows that do not divide the tokens, the texts and the rows, each in order."""
        limits = len(self), self.progress.files["texts.bin"][0], self.settings.rows - 1
        first = self._windows[:1]
        if (len(self) > 0) != (len(first) > 0) or first[:, :2].any():
            raise self.damaged("windows.bin")
        bounds = np.vstack([np.zeros((1, 3), np.int64), self._windows, np.array([limits])])
        if (np.diff(bounds, axis=0) < 0).any():
            raise self.damaged("windows.bin")

    def damaged(self, name: str) -> DataError:
        """The error of a file that is whole, and holds something else than an index."""
        return DataError(
            f"{self.folder / name}: its checksum is right, and its content is none of an index; delete the folder and "
            "index the text again"
        )

    def __len__(self) -> int:
        """How many tokens it has, special ones included."""
        return self.progress.tokens

    @property
    def nbytes(self) -> int:
        """Size of the index on disk in bytes."""
        return sum(size for size, _ in self.progress.files.values())

    def nearest(
        self, vector: Tensor, *, layer: int | None = None, head: Head | None = None, count: int = 20
    ) -> list[tuple[int, float]]:
        """The tokens whose states, or whose outputs of a head, have the largest cosine with a vector, largest first.

        Exact over all tokens but special ones: products in fp32 with the unit vectors as they are stored, in fp16.
        Raises: DataError: no such layer or head in this index, a vector of another size or without direction.
        """
        vectors = self.vectors(layer, head)
        query = torch.nn.functional.normalize(vector.detach().float().cpu(), dim=0)
        if query.shape != vectors.shape[1:] or not torch.isfinite(query).all() or not query.any():
            raise DataError(f"the vector has shape {list(vector.shape)} and must have {list(vectors.shape[1:])}, not 0")
        scores, tokens = torch.empty(0), torch.empty(0, dtype=torch.int64)
        for start in range(0, len(vectors), BLOCK_TOKENS):
            block = torch.from_numpy(vectors[start : start + BLOCK_TOKENS]).float() @ query
            if not torch.isfinite(block).all():
                raise DataError(f"{self.folder}: holds NaN, so a file is damaged; index the text again")
            special = torch.from_numpy(self.flags[start : start + BLOCK_TOKENS] & SPECIAL > 0)
            top = block.masked_fill_(special, -torch.inf).topk(min(count, len(block)))
            scores, tokens = torch.cat([scores, top.values]), torch.cat([tokens, top.indices + start])
            order = scores.sort(descending=True, stable=True).indices[:count]
            scores, tokens = scores[order], tokens[order]
        return [(int(i), float(x)) for i, x in zip(tokens, scores, strict=True) if x > -torch.inf]

    def vectors(self, layer: int | None = None, head: Head | None = None) -> np.ndarray:
        """The unit vectors of a layer's states [N, D], or of a head's outputs [N, E], float16, memory-mapped."""
        if (layer is None) == (head is None):
            raise DataError("give a layer, or a head as (layer, head)")
        has, asked = (self.settings.layers, layer) if head is None else (self.settings.heads, tuple(head))
        if asked not in has:
            what, named = ("layer", layer) if head is None else ("head", ".".join(map(str, head)))
            listed = ", ".join(str(x) if head is None else f"{x[0]}.{x[1]}" for x in has) or "none"  # type: ignore[index]
            raise DataError(f"{what} {named} is not in this index; its {what}s: {listed}; index again")
        return self._column(layer_file(layer) if head is None else head_file(head))  # type: ignore[arg-type]

    def top_activations(self, layer: int, neuron: int) -> list[tuple[int, float]]:
        """The tokens with the largest activations of a neuron, largest first.

        Raises: DataError: its layer is not in this index, or there is no such neuron.
        """
        layers, F = self.settings.neurons, self.settings.neuron_width
        if layer not in layers:
            listed = ", ".join(map(str, layers)) or "none"
            raise DataError(f"the neurons of layer {safe_repr(layer)} are not in this index; its layers: {listed}")
        if not is_int(neuron, 0, F):
            raise DataError(f"there is no neuron {safe_repr(neuron)}; a layer has neurons 0 to {F - 1}")
        entries = self._neurons[layers.index(layer), neuron]
        return [(int(token), float(value)) for value, token in entries.tolist() if token != ABSENT]

    def window_of(self, token: int) -> int:
        """The window that a token of the corpus is in."""
        return int(np.searchsorted(self._windows[:, 0], token, side="right")) - 1

    def window(self, number: int, tokenizer: Tokenizer) -> IndexedWindow:
        """A window, with its tokens as they are shown."""
        first, begin, row = map(int, self._windows[number])
        last = number + 1 == len(self._windows)
        end = len(self) if last else int(self._windows[number + 1, 0])
        stop = self.progress.files["texts.bin"][0] if last else int(self._windows[number + 1, 1])
        try:
            text = bytes(self._column("texts.bin")[begin:stop]).decode()
        except UnicodeDecodeError:
            raise self.damaged("texts.bin") from None
        ids = self.tokens[first:end].tolist()
        offsets, flags = self._column("offsets.bin")[first:end].tolist(), self.flags[first:end].tolist()
        if not all(0 <= start <= end <= len(text) for start, end in offsets):
            raise self.damaged("offsets.bin")
        tokens = [_token(tokenizer, *parts, text) for parts in zip(ids, offsets, flags, strict=True)]
        return IndexedWindow(row, first, text, ids, tokens)

    @cached_property
    def _neurons(self) -> np.ndarray:
        return read_entries(self.folder / neurons_file(self.progress.chunks), self.settings, len(self))

    def _column(self, name: str) -> np.ndarray:
        """A column; copy-on-write, which needs and changes nothing of the file, and torch takes it without a copy."""
        dtype, shape = self.settings.columns[name]
        path = self.folder / name
        if not self.progress.files[name][0]:
            return np.empty((0, *shape), dtype)
        return np.memmap(path, dtype, mode="c").reshape(-1, *shape)

    def summary(self, seconds: float) -> IndexSummary:
        """What it holds.

        Args:
            seconds: that making it took
        """
        done = self.progress
        return IndexSummary(
            index=str(self.folder),
            rows=done.rows,
            windows=done.windows,
            tokens=done.tokens,
            bytes=self.nbytes,
            seconds=seconds,
            settings=self.settings,
        )

    def __repr__(self) -> str:
        s = self.settings
        heads = ", ".join(f"{layer}.{head}" for layer, head in s.heads) or "none"
        return (
            f"CorpusIndex({s.source} by {s.model}: {len(self):,} tokens, layers {', '.join(map(str, s.layers))}, heads "
            f"{heads}, {self.nbytes / 1e6:,.0f} MB)"
        )


def _token(tokenizer: Tokenizer, id: int, offsets: tuple[int, int], flags: int, text: str) -> Token:
    piece = vocabulary_entry(tokenizer, id)
    characters = text[slice(*offsets)]
    shown = characters.strip() or characters.translate(VISIBLE_SPACE) or piece
    special = bool(flags & SPECIAL)
    return Token(piece if special else shown, piece, id, None if special else 0, special, bool(flags & CONTINUES))
