"""Rows of tokens that a network continues: what it has read stays in a cache.

rows = Rows(network, ids)
rows.logits() ──a method chooses──> rows.append(tokens)        one step
                                    rows.pick([0, 0, 2])       beams: rows become copies of these
                                    rows.rewrite(ids)          guesses: what was wrong is taken back
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, Flow, Memory, Output
from glassformer.models import Network


class Rows:
    """R rows of one length, padded on the left; each step computes one position of each.

    Args:
        ids: prompts, padded on the left; for an encoder-decoder the beginnings of answers. [R, T]
        keep: False where the prompt is padding. [R, T] bool
        memory_of, memory_keep: for an encoder-decoder, what the encoder reads, and its mask [R, 1, S]; it runs once.
        cached: keep keys and values, so that each step computes one position; the same numbers either way.
    """

    @torch.inference_mode()
    def __init__(
        self,
        network: Network,
        ids: Tensor,
        *,
        keep: Tensor | None = None,
        memory_of: Batch | None = None,
        memory_keep: Tensor | None = None,
        cached: bool = True,
    ) -> None:
        self.network = network
        self.ids = ids
        # Where prompts are padded; None = nowhere. [R, columns of the prompts]
        self._keep = None if keep is None or bool(keep.all()) else keep
        self._memory = None if memory_of is None else network.memory(memory_of, Flow(keep=memory_keep))
        self._cache = KeyValueCache() if cached else None
        self._read = 0  # how many columns of `ids` the cache holds
        self._prompt = torch.arange(len(ids), device=ids.device)  # whose continuation a row is. [R]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def keep(self) -> Tensor | None:
        """False where a prompt is padded; None = nothing is hidden. [R, T] bool"""
        keep = self._keep
        return None if keep is None else F.pad(keep, (0, self.ids.shape[1] - keep.shape[1]), value=True)

    @property
    def seen(self) -> Tensor:
        """The ids as filters see them: -1, which is no token, where a prompt is padded. [R, T]"""
        keep = self.keep
        return self.ids if keep is None else self.ids.masked_fill(~keep, -1)

    def logits(self) -> Tensor:
        """What could come next, in each row. [R, V]"""
        return logits_of(self.read())[:, -1]

    @torch.inference_mode()
    def read(self, last: int = 1) -> Output:
        """Read what no pass has read yet: logits of the `last` columns, and the states of all that were read now."""
        fed, keep = self.ids[:, self._read :], self.keep
        seen = None if keep is None else keep[:, None]  # [R, 1, S]
        if self._memory is None:
            batch, flow = Batch(input_ids=fed), Flow(keep=seen, cache=self._cache, last=last)
        else:  # the prompt is the decoder's, so is its mask; the encoder's mask lies in the memory
            batch = Batch(decoder_input_ids=fed, decoder_keep=seen)
            flow = Flow(memory=self._memory, cache=self._cache, last=last)
        output: Output = self.network(batch, flow)
        if self._cache is not None:
            self._read = self.ids.shape[1]
        return output

    def append(self, tokens: Tensor) -> None:
        """Write one more token in each row [R], or several [R, n]."""
        self.ids = torch.cat([self.ids, tokens.reshape(len(self), -1)], dim=1)

    def rewrite(self, ids: Tensor) -> None:
        """Say this, the prompts unchanged; what was read stays as far as all rows agree with it. [R, T']

            read     the cat sat on it       ids    the cat sat down       stays   the cat sat

        The last column is always read again, for its logits.
        """
        common = min(self._read, ids.shape[1] - 1)
        agrees = (ids[:, :common] == self.ids[:, :common]).all(dim=0)
        common = int(agrees.long().cumprod(0).sum())
        if self._cache is not None:
            self._cache.drop(self._read - common)
        self.ids, self._read = ids, common

    def pick(self, rows: Tensor) -> None:
        """Become these rows, in this order; one may be there several times, or not at all. [R']

        Rows of one prompt share its mask and its memory, and as long as they say the same, their keys are the same. So
        while each place keeps its prompt, only the places that change are written, from where they begin to differ.
        """
        ids, prompt = self.ids[rows], self._prompt[rows]
        if torch.equal(prompt, self._prompt):
            changed = ids != self.ids  # [R, T]
            places, columns = changed.any(dim=1).nonzero()[:, 0], changed.any(dim=0).nonzero()[:, 0]
            if self._cache is not None and len(places):
                self._cache.overwrite(places, rows[places], start=int(columns[0]))
        else:
            if self._keep is not None:
                self._keep = self._keep[rows]
            sources = self._sources(rows)
            if self._memory is not None and sources is not None:
                keep = self._memory.keep
                self._memory = Memory(self._memory.states[sources], None if keep is None else keep[sources])
            if self._cache is not None:
                self._cache.pick(rows, sources)
        self.ids, self._prompt = ids, prompt

    def _sources(self, rows: Tensor) -> Tensor | None:
        """Which rows of the memory these rows read; None where all of it serves as it lies. [R']

        As many neighbours as there are for each row of the memory may share it, so it is not copied for them.
        """
        if self._memory is None:
            return None
        count = len(self._memory.states)
        sources = rows // (len(self) // count)
        shared = torch.arange(count, device=rows.device).repeat_interleave(len(rows) // count)
        return None if torch.equal(sources, shared) else sources


class Ahead:
    """Rows as they stand, of which a network has read more than they have said: guesses, or candidates.

    To a `Decoding` it is what `Rows` are: it asks for logits, and appends the token that it chooses.

    rows: what the network reads · proposed, accepted: how many guesses it has read of each row, and how many of them
        the row then said. [R]; None: the method guesses nothing
    """

    proposed: Tensor | None = None
    accepted: Tensor | None = None

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.network = rows.network
        self.ids = rows.ids  # [R, T]
        self.seen = rows.seen  # [R, T]

    def __len__(self) -> int:
        return len(self.ids)

    def logits(self) -> Tensor:
        """What could come next, in each row. [R, V]"""
        raise NotImplementedError(f"{type(self).__name__} does not say how it reads ahead")

    def append(self, tokens: Tensor) -> None:
        """Write one more token in each row. [R]"""
        self.ids = torch.cat([self.ids, tokens[:, None]], dim=1)
        self.seen = torch.cat([self.seen, tokens[:, None]], dim=1)


def logits_of(output: Output) -> Tensor:
    """Whoever generates has a language model's head. [R, last, V]"""
    assert output.logits is not None
    return output.logits
