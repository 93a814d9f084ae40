"""A network that writes: from what it reads and what is asked for to rows, filters and a method.

writer.write(read, mask, asked)       all of it: a Generated
writer.decoding(read, mask, asked)    as it comes: a step at a time
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.edge import check_ids, check_numbers, check_prompts_end, check_room, keep_of
from glassformer.engine.prepare import prepare_plain
from glassformer.errors import DataError
from glassformer.generation.beam import beams
from glassformer.generation.filters import Filter
from glassformer.generation.options import Options
from glassformer.generation.rows import Rows
from glassformer.generation.sample import Decoding, Draw, Generated, likeliest
from glassformer.generation.settings import Settings
from glassformer.generation.stop import Reason, Stop
from glassformer.models import Network
from glassformer.text.tokenizer import Tokenizer

WORTH_PACKING = 16
"""Steps: packing takes about as long as ten of them, and makes each twice as fast."""


@dataclass(frozen=True)
class Start:
    """Rows, checked and ready to be continued: by how many tokens, and what becomes of their logits."""

    rows: Rows
    new_tokens: int
    filters: list[Filter]


@dataclass(frozen=True)
class Writer:
    """A network with a language model's head, and how its makers let it write.

    Args:
        answers: does it answer what it reads (an encoder-decoder), instead of continuing it?
        tokenizer: gives it where options name texts; raises where there is none.
    """

    network: Network
    settings: Settings
    answers: bool
    tokenizer: Callable[[], Tokenizer]

    def write(self, read: Tensor, mask: Tensor | None, asked: Options) -> Generated:
        """What becomes of the rows, by the method that was asked for.

        Args:
            read: token ids, padded on the left [R, T], or a sound's features [R, M, frames].
            mask: 0 where ids are padding. [R, T]
        Raises: DataError: nothing to read, padding on the right, no room. Else as the methods.
        """
        start = self.start(read, mask, asked)
        if asked.num_beams > 1 and start.new_tokens > 0:
            return self._search(start, asked)
        return self._decode(start, asked).run()

    def decoding(self, read: Tensor, mask: Tensor | None, asked: Options) -> Decoding:
        """Greedy search or sampling, ready to be gone through."""
        return self._decode(self.start(read, mask, asked), asked)

    def start(self, read: Tensor, mask: Tensor | None, asked: Options) -> Start:
        """What is read, checked, and put into rows."""
        if read.is_floating_point():
            check_numbers("input_features", read, "[B, mel bins, frames]")
            source, keep = Batch(input_features=read), None
        else:
            if read.dim() == 2 and read.shape[1] == 0:
                raise DataError(
                    "the prompt is empty; give at least one token, such as the tokenizer's bos_token"
                )
            check_ids("input_ids", read, self.settings.vocabulary)
            source, keep = Batch(input_ids=read), keep_of("attention_mask", mask, read, None)
        ids, seen = read, None
        if self.answers:
            ids = torch.full((len(read), 1), self.settings.start_id, device=read.device)
        elif keep is not None:
            check_prompts_end(keep)
            seen = keep[:, 0]
        begun = ids.shape[1]
        new_tokens = asked.new_tokens(begun)
        check_room(begun, new_tokens, self.network.max_tokens)
        words = self.answers and not read.is_floating_point()
        filters = asked.filters(
            self.settings,
            begun=begun,
            new_tokens=new_tokens,
            source=(read if keep is None else read.masked_fill(~keep[:, 0], -1)) if words else None,
            forced=self.settings.filters() if self.answers else (),
            tokenizer=self.tokenizer,
        )
        if new_tokens >= WORTH_PACKING and asked.use_cache:
            prepare_plain(self.network)
        rows = Rows(
            self.network,
            ids,
            keep=seen,
            memory_of=source if self.answers else None,
            memory_keep=keep if self.answers else None,
            cached=asked.use_cache,
        )
        return Start(rows, new_tokens, filters)

    def _decode(self, start: Start, asked: Options) -> Decoding:
        rows = start.rows
        device = rows.ids.device
        if asked.num_return_sequences > 1:
            prompts = torch.arange(len(rows), device=device)
            rows.pick(prompts.repeat_interleave(asked.num_return_sequences))
        stop = Stop(
            len(rows),
            ids=asked.stop_ids(self.settings),
            strings=asked.strings,
            tokenizer=self.tokenizer() if asked.strings else None,
            seconds=asked.max_time,
            device=device,
        )
        return Decoding(
            rows,
            max_new_tokens=start.new_tokens,
            stop=stop,
            pad_id=self.settings.pad_id,
            filters=start.filters,
            choose=Draw(len(rows), asked.first_seed()) if asked.do_sample else likeliest,
            scores=asked.return_scores or asked.top > 0,
            top=asked.top,
        )

    def _search(self, start: Start, asked: Options) -> Generated:
        rows = start.rows
        begun, device = rows.ids.shape[1], rows.ids.device
        stop_ids = asked.stop_ids(self.settings)
        found = beams(
            rows,
            num_beams=asked.num_beams,
            num_beam_groups=asked.num_beam_groups,
            diversity_penalty=asked.diversity_penalty or 0.0,
            max_new_tokens=start.new_tokens,
            stop_ids=stop_ids,
            pad_id=self.settings.pad_id,
            length_penalty=1.0 if asked.length_penalty is None else asked.length_penalty,
            early_stopping=False if asked.early_stopping is None else asked.early_stopping,
            num_return_sequences=asked.num_return_sequences,
            filters=start.filters,
            generator=torch.Generator(device).manual_seed(asked.first_seed()) if asked.do_sample else None,
        )
        ended = torch.isin(found.ids[:, begun:], torch.tensor(stop_ids, device=device)).any(dim=1)
        reasons: list[Reason] = ["end_token" if end else "max_new_tokens" for end in ended.tolist()]
        return Generated(found.ids, begun, reasons, scores=found.scores if asked.return_scores else None)
