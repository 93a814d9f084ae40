"""The top activations of every neuron over a corpus: k values and the tokens that they belong to, in bounded memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from glassformer.errors import DataError
from glassformer.inspect.corpus.files import ENTRY, IndexSettings

ABSENT = -1
"""The token of an entry that nothing has filled."""


class TopActivations:
    """The k largest activations of each neuron so far, and their tokens.

    values [layers, F, k], largest first · tokens [layers, F, k]
    """

    def __init__(self, settings: IndexSettings) -> None:
        self.settings = settings
        self._layers = {layer: i for i, layer in enumerate(settings.neurons)}
        shape = (len(settings.neurons), settings.neuron_width, settings.top)
        self.values = torch.full(shape, -torch.inf)
        self.tokens = torch.full(shape, ABSENT, dtype=torch.int64)

    def update(self, layer: int, activations: Tensor, tokens: Tensor, special: Tensor) -> None:
        """Take in the activations of a batch; those of special tokens do not count.

        Args:
            activations: [T, F]
            tokens: their numbers [T]
            special: [T] bool
        """
        i, k = self._layers[layer], self.settings.top
        activations = activations.float().cpu().masked_fill(special[:, None], -torch.inf)
        better = (activations.amax(0) > self.values[i, :, -1]).nonzero()[:, 0]
        if not len(better):
            return
        part = activations[:, better].T.contiguous()
        batch = part.topk(min(k, len(tokens)), dim=1)
        values = torch.cat([self.values[i, better], batch.values], dim=1)
        numbers = torch.cat([self.tokens[i, better], tokens[batch.indices]], dim=1)
        top = values.topk(k, dim=1)
        self.values[i, better] = top.values
        self.tokens[i, better] = numbers.gather(1, top.indices)

    @property
    def entries(self) -> np.ndarray:
        """As they are written. [layers, F, k] of `ENTRY`"""
        entries = np.empty(self.values.shape, ENTRY)
        entries["value"] = self.values
        entries["token"] = torch.where(self.values.isinf(), ABSENT, self.tokens)
        return entries

    def read(self, path: Path, tokens: int) -> None:
        """Go on from the entries of a file. Raises: DataError: as `read_entries`."""
        entries = read_entries(path, self.settings, tokens)
        self.values = torch.from_numpy(entries["value"].copy())
        self.tokens = torch.from_numpy(entries["token"].copy())


def read_entries(path: Path, settings: IndexSettings, tokens: int) -> np.ndarray:
    """The entries of a file. [layers, F, k] of `ENTRY`

    Args:
        tokens: of the corpus
    Raises: DataError: it is not of this size, or names tokens that there are not.
    """
    shape = (len(settings.neurons), settings.neuron_width, settings.top)
    entries = np.fromfile(path, ENTRY) if path.is_file() else np.empty(0, ENTRY)
    if entries.size != np.prod(shape):
        raise DataError(f"{path}: is cut or missing; delete the folder and index the text again")
    if entries.size and (entries["token"].min() < ABSENT or entries["token"].max() >= tokens):
        raise DataError(f"{path}: names tokens that there are not; delete the folder and index the text again")
    if np.isnan(entries["value"]).any():
        raise DataError(f"{path}: holds NaN; delete the folder and index the text again")
    return entries.reshape(shape)
