"""Batch of sequences being generated, with its key/value cache; reductions of logits; truncation of prompts.

rows = Rows(network, ids)
rows.logits() ──a method chooses──> rows.append(tokens)        one step
                                    rows.pick([0, 0, 2])       beam search: rows become copies of these
                                    rows.rewrite(ids)          speculation: rejected tokens are dropped
                                    rows.retire(ended)         rows that have ended are read no more
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import replace
from itertools import takewhile

import torch
from torch import Tensor
from torch.nn import functional as F

from glassformer.core.cache import KeyValueCache
from glassformer.core.flow import Batch, EncoderOutput, Flow, Output, Tape
from glassformer.models import Network

LIVE_SHARE = 0.75
"""Of the rows that are read: where no more go on, it pays to copy their keys and values, and to leave out the rest."""


class Rows:
    """R token sequences of one length, padded on the left, that grow together; each step computes one position of each.

    Args:
        ids: prompts; for an encoder-decoder the start tokens of the decoder. [R, T]
        keep: prompt attention mask, False where the prompt is padding. [R, T] bool
        encoder_batch, encoder_keep: encoder input of an encoder-decoder, and its mask [R, 1, S]; it is encoded once.
        memory: encoder output in its place, for searches that share one.
        vectors: of the prompts' tokens, in the place of their embeddings. [R, T, width]
        tape: records each pass of the network, in `steps`, and that of the encoder, in `encoded`
        cached: cache keys and values, so that each step computes one position; the numbers are the same either way.
        prefix: keys and values of the first columns, which all rows have in common: a cache of one row.

    largest: of the next token's position: `logits` need only have the N largest of each row, and may say -inf
        of others; 0 = all of them.
    retires: finished rows may be dropped from the batch; their logits and indices are unused.
    live: the rows that are read, in their order; None = all. [L]
    """

    retires = True

    @torch.inference_mode()
    def __init__(
        self,
        network: Network,
        ids: Tensor,
        *,
        keep: Tensor | None = None,
        encoder_batch: Batch | None = None,
        encoder_keep: Tensor | None = None,
        memory: EncoderOutput | None = None,
        vectors: Tensor | None = None,
        tape: Tape | None = None,
        cached: bool = True,
        prefix: KeyValueCache | None = None,
    ) -> None:
        self.network = network
        self.ids = ids
        # None = no prompt is padded. [R, columns of the prompts]
        self._keep = None if keep is None or bool(keep.all()) else keep
        self._vectors, self._tape = vectors, tape
        self.steps: list[dict[str, Tensor]] = []
        self.encoded: dict[str, Tensor] = {}
        if encoder_batch is not None:
            memory = network.memory(encoder_batch, Flow(keep=encoder_keep, tape=tape and tape.attach(network)))
            self.encoded = {} if tape is None else tape.taps
        self._memory = memory
        self._prompt_logits: Tensor | None = None  # of the next token, where the prompts were read before. [R, V]
        self._cache = KeyValueCache() if cached else None
        self._read = 0  # how many columns of `ids` the cache holds
        stacks = network.stacks().values()
        self._switches = sorted(set().union(*(stack.rotary_switches for stack in stacks)))
        self._outgrown: Tensor | None = None  # of them by each row, when the cache was filled. [L, switches] bool
        if prefix is not None:
            self._cache, self._read = copy(prefix), prefix.length
            self._cache.reorder_rows(ids.new_zeros(len(ids)))
            self._outgrown = self._read > ids.new_tensor(self._switches).expand(len(ids), -1)
        self._prompt = torch.arange(len(ids), device=ids.device)  # index of the prompt that a row continues. [R]
        self.live: Tensor | None = None
        self.largest: Callable[[int], int] = lambda position: 0

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def keep(self) -> Tensor | None:
        """Attention mask, False where a prompt is padded; None = no padding. [R, T] bool"""
        keep = self._keep
        return None if keep is None else F.pad(keep, (0, self.ids.shape[1] - keep.shape[1]), value=True)

    @property
    def filter_ids(self) -> Tensor:
        """Ids as logit filters get them: -1, which is no token, where a prompt is padded. [R, T]"""
        keep = self.keep
        return self.ids if keep is None else self.ids.masked_fill(~keep, -1)

    def logits(self) -> Tensor:
        """Logits of the next token of each row; 0 in rows that are read no more. [R, V]"""
        if self._prompt_logits is not None and self._read == self.ids.shape[1]:
            return self._prompt_logits
        logits = self.live_logits()
        if self.live is None:
            return logits
        return logits.new_zeros(len(self), logits.shape[-1]).index_copy_(0, self.live, logits)

    def live_logits(self) -> Tensor:
        """Logits of the next token of the rows that are read. [L, V]"""
        return logits_of(self.read(largest=self.largest(self.ids.shape[1])))[:, -1]

    def read_prompts(self, last: int) -> Tensor:
        """Logits of the last columns of the prompts, before anything is generated. [R, last, V]"""
        logits = logits_of(self.read(last))
        self._prompt_logits = logits[:, -1]
        return logits

    @torch.inference_mode()
    def read(self, last: int = 1, largest: int = 0) -> Output:
        """Forward pass of the live rows over the columns that are not in the cache.

        Args:
            largest: read this many of the largest logits alone; 0 = all
        Returns: logits of the `last` columns, and hidden states of all columns that were read now.
        """
        if self._switches and self._cache is not None:
            self._forget_other_angles()
        unread, keep, tape = self._unread(), self.keep, self._tape and self._tape.attach(self.network)
        mask = None if keep is None else self.of_live(keep)[:, None]  # [L, 1, S]
        flow = Flow(cache=self._cache, last=last, tape=tape, largest=largest if tape is None else 0)
        if self._memory is None:
            batch, flow = Batch(input_ids=unread), replace(flow, keep=mask)
        else:  # the prompt is the decoder's, so is its mask; the encoder's mask lies in the memory
            batch, flow = Batch(decoder_input_ids=unread, decoder_keep=mask), replace(flow, memory=self._memory)
        output: Output = self.network(batch, flow)
        if tape is not None:
            self.steps.append(tape.taps)
        if self._cache is not None:
            self._read = self.ids.shape[1]
        return output

    def _unread(self) -> Tensor:
        """The tokens that are not in the cache; as vectors [L, T, width] where the prompts are vectors. [L, T]"""
        unread = self.of_live(self.ids)[:, self._read :]
        if self._vectors is None or self._read >= self._vectors.shape[1]:
            return unread
        given = self._vectors[self.of_live(self._prompt)][:, self._read :]
        return torch.cat([given, self.network.embedding.tokens(unread[:, given.shape[1] :])], dim=1)

    def of_live(self, x: Tensor) -> Tensor:
        """What belongs to the rows that are read. [R, …] → [L, …]"""
        return x if self.live is None else x[self.live]

    def _forget_other_angles(self) -> None:
        """Empty the cache when RoPE scaling turns the keys of a row by other angles than when they were cached."""
        keep = self.keep
        tokens = torch.full_like(self.ids[:, 0], self.ids.shape[1]) if keep is None else keep.sum(dim=1)
        tokens = self.of_live(tokens)
        outgrown = tokens[:, None] > torch.tensor(self._switches, device=tokens.device)
        if self._outgrown is not None and not torch.equal(outgrown, self._outgrown):
            self._cache, self._read = KeyValueCache(), 0
        self._outgrown = outgrown

    def append(self, tokens: Tensor) -> None:
        """Append one token to each row [R], or several [R, n]."""
        self._prompt_logits = None
        self.ids = torch.cat([self.ids, tokens.reshape(len(self), -1)], dim=1)

    def rewrite(self, ids: Tensor) -> None:
        """Replace the new tokens; the cache is cut to the longest prefix that is common to all rows. [R, T']

        cached   the cat sat on it       ids    the cat sat down       stays   the cat sat
        """
        common = min(self._read, ids.shape[1] - 1)  # the last column is always read again, for its logits
        equal = (ids[:, :common] == self.ids[:, :common]).all(dim=0)
        common = int(equal.long().cumprod(0).sum())
        if self._cache is not None:
            self._cache.drop_last(self._read - common)
        self.ids, self._read = ids, common

    def pick(self, rows: Tensor) -> None:
        """Select rows by index, in this order, with repetition; the cache follows. [R']

        Rows of one prompt share its mask and its memory, and up to their first different token also keys and values. So
        while each index keeps its prompt, only cache rows that change are written, from the first different column on.
        """
        ids, prompt = self.ids[rows], self._prompt[rows]
        if torch.equal(prompt, self._prompt):
            changed = self.of_live(ids != self.ids)  # [L, T]
            targets, columns = changed.any(dim=1).nonzero()[:, 0], changed.any(dim=0).nonzero()[:, 0]
            rows = self._places(self.of_live(rows))
            if self._cache is not None and len(targets):
                self._cache.copy_rows(targets, rows[targets], start=int(columns[0]))
            self._outgrown = None if self._outgrown is None else self._outgrown[rows]
        else:
            assert self.live is None  # rows of other prompts are picked before any has ended
            self._keep = None if self._keep is None else self._keep[rows]
            self._select(rows)
            self._prompt_logits = None if self._prompt_logits is None else self._prompt_logits[rows]
        self.ids, self._prompt = ids, prompt

    def retire(self, ended: Tensor) -> None:
        """Read these rows no more, if a quarter of those that are read have ended. [R] bool"""
        live = (~ended).nonzero()[:, 0]
        if 0 < len(live) <= LIVE_SHARE * self._reads and self._tape is None and self.retires:
            self._select(self._places(live))
            self.live = live

    @property
    def _reads(self) -> int:
        """How many rows are read."""
        return len(self) if self.live is None else len(self.live)

    def _places(self, rows: Tensor) -> Tensor:
        """Where rows are among those that are read."""
        return rows if self.live is None else torch.searchsorted(self.live, rows)

    def _select(self, rows: Tensor) -> None:
        """Select rows of the encoder output, keys and values. [L']"""
        sources = self._sources(rows)
        if self._memory is not None and sources is not None:
            self._memory = self._memory.rows(sources)
        if self._cache is not None:
            self._cache.reorder_rows(rows, sources)
        self._outgrown = None if self._outgrown is None else self._outgrown[rows]

    def _sources(self, rows: Tensor) -> Tensor | None:
        """Rows of the encoder memory that these rows attend to; None = the memory stays as it is. [R']

        Neighbouring rows share one row of the memory, as long as it has the same number of them for each of its rows.
        """
        if self._memory is None:
            return None
        count = len(self._memory.states)
        of_rows = rows // (self._reads // count)
        sources, sharing = torch.unique_consecutive(of_rows, return_counts=True)
        if not bool((sharing == sharing[0]).all()):
            sources = of_rows
        return None if torch.equal(sources, torch.arange(count, device=rows.device)) else sources


class LookaheadRows:
    """Rows for methods whose network reads more tokens than are chosen: draft tokens, or candidates.

    `Decoding` uses it like `Rows`: it asks for logits, and appends the token that it chooses.

    rows: the sequences that the network reads
    proposed, accepted: number of draft tokens of each row that were verified, and that were chosen. [R]; None = the
        method has no draft
    """

    proposed: Tensor | None = None
    accepted: Tensor | None = None

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.network = rows.network
        self.ids = rows.ids  # [R, T]
        self.filter_ids = rows.filter_ids  # [R, T]

    def __len__(self) -> int:
        return len(self.ids)

    def logits(self) -> Tensor:
        """Logits of the next token of each row. [R, V]"""
        raise NotImplementedError(f"{type(self).__name__} does not implement logits()")

    def append(self, tokens: Tensor) -> None:
        """Append one token to each row. [R]"""
        self.ids = torch.cat([self.ids, tokens[:, None]], dim=1)
        self.filter_ids = torch.cat([self.filter_ids, tokens[:, None]], dim=1)

    def retire(self, ended: Tensor) -> None:
        """Nothing: the method reads rows that have ended as well. [R] bool"""


def logits_of(output: Output) -> Tensor:
    """The logits of an output. [R, last, V]"""
    assert output.logits is not None  # generation runs only on networks with a language-model head
    return output.logits


def row_argmax(logits: Tensor) -> Tensor:
    """The index of the largest logit of each row; the first of several. [R, V] → [R]"""
    return torch.from_numpy(logits.numpy().argmax(-1)) if _numpy_reads(logits) else logits.argmax(-1)


def row_maximum(logits: Tensor) -> Tensor:
    """The largest logit of each row; NaN where one is. [R, V] → [R]"""
    return torch.from_numpy(logits.numpy().max(-1)) if _numpy_reads(logits) else logits.amax(-1)


def without_tokens(logits: Tensor, banned: Sequence[int]) -> Tensor:
    """A copy in which the logits of these tokens are -inf. [R, V]"""
    if not _numpy_reads(logits):
        return logits.index_fill(-1, torch.tensor(banned, dtype=torch.long, device=logits.device), -torch.inf)
    changed = logits.numpy().copy()
    changed[..., list(banned)] = -torch.inf
    return torch.from_numpy(changed)


def _numpy_reads(logits: Tensor) -> bool:
    """Whether NumPy takes the place of torch, to wake no thread.

    torch shares work on more than 32,768 numbers with its other threads. They come late where other processes take
    the cores: a step of generation then waits milliseconds for what takes microseconds. NumPy does it alone.
    """
    return logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64) and not logits.requires_grad


def truncate(
    ids: Tensor, keep: Tensor | None, room: int, *, side: str, special: Collection[int], pad_id: int
) -> tuple[Tensor, Tensor | None]:
    """Truncate rows to at most `room` tokens, padded on the left, with a warning that says how much was cut.

        <s> a b c d e f        room for 4, truncated on the left: a continued prompt keeps its newest tokens
        <s>       d e f
        a b c d e f </s>       room for 4, truncated on the right: an encoder input keeps its beginning
        a b c       </s>       special tokens at either end stay

    Args:
        keep: attention mask, False where ids are padding. [B, 1, T]
        side: side to cut, "left" or "right"
        special: ids that stay where they begin or end a row.
    Returns: ids [B, T'], and their mask [B, 1, T'].
    """
    rows = list(ids) if keep is None else [row[mask[0]] for row, mask in zip(ids, keep, strict=True)]
    longest = max(map(len, rows))
    if longest <= room:
        return ids, keep
    cut = [_truncate_row(row.tolist(), room, side, special) for row in rows]
    width, number = max(map(len, cut)), sum(len(row) > room for row in rows)
    warnings.warn(
        f"{number} of {len(rows)} prompts, of up to {longest} tokens, cut on the {side} to {room}: up to "
        f"{longest - room} tokens were left out",
        stacklevel=2,
    )
    padded = torch.tensor([[pad_id] * (width - len(row)) + row for row in cut], device=ids.device)
    starts = torch.tensor([[width - len(row)] for row in cut], device=ids.device)
    return padded, (torch.arange(width, device=ids.device) >= starts)[:, None]


def _truncate_row(row: list[int], room: int, side: str, special: Collection[int]) -> list[int]:
    """Cut tokens between the special tokens at both ends."""
    if len(row) <= room:
        return row
    before = list(takewhile(special.__contains__, row))
    after = list(takewhile(special.__contains__, reversed(row)))[::-1]
    body = row[len(before) : len(row) - len(after)]
    fits = room - len(before) - len(after)
    if fits < 0:  # there is no room even for the special tokens
        before, after, body, fits = [], [], row, room
    rest = body[len(body) - fits :] if side == "left" else body[:fits]
    return [*before, *rest, *after]
