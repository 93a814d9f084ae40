"""Codes of several codebooks as tokens: flattened, delayed or parallel, and back exactly.

    codes [K, T]     flattened [K·T]            delayed [T + K - 1, K]     parallel [T, K]
    a1 a2 a3         a1 b1 c1 a2 b2 c2 a3 …     a1  ·  ·                   a1 b1 c1
    b1 b2 b3                                    a2 b1  ·                   a2 b2 c2
    c1 c2 c3                                    a3 b2 c1                   a3 b3 c3
                                                 · b3 c2
                                                 ·  · c3

A model of flattened codes predicts each by all before it, in K times as many steps; one of parallel codes predicts the
codes of a frame independently; delayed, each sees the earlier codebooks of its frame, in K - 1 steps more.
Source: Copet et al. 2023 (MusicGen), section 2.2 and figure 1; flattened: Borsos et al. 2022 (AudioLM).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr

Kind = Literal["flattened", "delayed", "parallel"]


@dataclass(frozen=True, kw_only=True)
class CodePattern:
    """How the codes of a codec are laid out as token ids.

    In a matrix a code is its own id, in each column; in one flattened sequence, codebook k has the ids k · entries +
    code. The id behind them all is `padding`: it fills the empty places of delayed codes, and starts a sequence.

    Args:
        kind: "flattened", "delayed" or "parallel"
        books: K, codebooks
        entries: codes of a codebook
    Raises: ConfigError: another kind, or counts below 1.
    """

    kind: Kind
    books: int
    entries: int

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(f"kind is {safe_repr(self.kind)}; allowed: {', '.join(get_args(Kind))}")
        for name in ("books", "entries"):
            if type(value := getattr(self, name)) is not int or value < 1:
                raise ConfigError(f"{name} is {safe_repr(value)}; it must be a whole number from 1 up")

    @property
    def vocabulary(self) -> int:
        """Number of ids: of the sequence, or of each column."""
        return self.padding + 1

    @property
    def padding(self) -> int:
        """The id used where no code is."""
        return self.entries * (self.books if self.kind == "flattened" else 1)

    def tokens(self, codes: Tensor) -> Tensor:
        """Codes [K, T] → ids: [K·T], [T + K - 1, K] or [T, K], int64.

        Raises: DataError: no codes, or of another codec.
        """
        self._check("codes", codes, [self.books, None], self.entries)
        ids = codes.long()
        if self.kind == "flattened":
            return (ids + torch.arange(self.books, device=ids.device)[:, None] * self.entries).T.flatten()
        if self.kind == "parallel":
            return ids.T.contiguous()
        frames = codes.shape[1]
        matrix = torch.full((frames + self.books - 1, self.books), self.padding, device=ids.device)
        for book, row in enumerate(ids):
            matrix[book : book + frames, book] = row
        return matrix

    def codes(self, ids: Tensor) -> Tensor:
        """The inverse of `tokens`: ids → codes [K, T].

        Raises: DataError: another shape, an incomplete frame, or a token that appears where no such token can.
        """
        self._check("ids", ids, [None] if self.kind == "flattened" else [None, self.books], self.vocabulary)
        if self.kind == "flattened":
            if ids.shape[0] % self.books:
                raise DataError(
                    f"ids are {ids.shape[0]} tokens of {self.books} codebooks; the last frame is incomplete: leave out "
                    f"the last {ids.shape[0] % self.books}"
                )
            first = torch.arange(self.books, device=ids.device) * self.entries
            return self._codes_at(ids.long().reshape(-1, self.books) - first)
        if self.kind == "parallel":
            return self._codes_at(ids.long())
        frames = ids.shape[0] - self.books + 1
        if frames < 1:
            raise DataError(f"ids are {ids.shape[0]} steps; delayed by {self.books - 1}, they hold no whole frame")
        steps = torch.arange(ids.shape[0], device=ids.device)[:, None] - torch.arange(self.books, device=ids.device)
        filled = ids.where((steps >= 0) & (steps < frames), self.padding) != ids
        if bool(filled.any()):
            step, book = filled.nonzero()[0].tolist()
            raise DataError(f"ids hold {int(ids[step, book])} at step {step}, codebook {book}, where nothing can be")
        shifted = torch.stack([ids[book : book + frames, book] for book in range(self.books)], 1)
        return self._codes_at(shifted.long())

    def _codes_at(self, codes: Tensor) -> Tensor:
        """Codes [T, K] → [K, T]. Raises: DataError: one is none of its codebook."""
        wrong = (codes < 0) | (codes >= self.entries)
        if bool(wrong.any()):
            frame, book = wrong.nonzero()[0].tolist()
            raise DataError(f"the token of frame {frame}, codebook {book} is no code of that codebook: {self}")
        return codes.T.contiguous()

    def _check(self, name: str, x: object, shape: list[int | None], below: int) -> None:
        """Raises: DataError: no whole numbers of this shape, or out of range."""
        fits = isinstance(x, Tensor) and not x.is_floating_point() and x.dtype != torch.bool and x.dim() == len(shape)
        sizes = list(x.shape) if isinstance(x, Tensor) else []
        if not fits or 0 in sizes or any(want not in (None, got) for want, got in zip(shape, sizes, strict=True)):
            got = f"{x.dtype} of shape {sizes}" if isinstance(x, Tensor) else safe_repr(x)
            wanted = ["frames" if size is None else size for size in shape]
            raise DataError(f"{name} are {got}; they must be whole numbers of shape [{', '.join(map(str, wanted))}]")
        assert isinstance(x, Tensor)
        if int(x.min()) < 0 or int(x.max()) >= below:
            raise DataError(f"{name} lie from {int(x.min())} to {int(x.max())}; allowed: 0 to {below - 1}")
