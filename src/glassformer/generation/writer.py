"""A network that writes: from what it reads and what is asked for to rows, filters and a method.

writer.write(read, mask, asked)       all of it: a Generated
writer.decoding(read, mask, asked)    as it comes: a step at a time
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.edge import check_ids, check_numbers, check_prompts_end, check_room, keep_of
from glassformer.engine.prepare import prepare_plain
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.generation.beam import beams, generators
from glassformer.generation.contrastive import Contrast
from glassformer.generation.filters import Filter
from glassformer.generation.options import ASSISTANT_TOKENS, MATCHING_NGRAM, Options
from glassformer.generation.rows import Ahead, Rows
from glassformer.generation.sample import Choice, Decoding, Draw, Generated, likeliest
from glassformer.generation.settings import Settings
from glassformer.generation.shorten import shorten
from glassformer.generation.speculative import Draft, Lookup, Lots, Rejection, Speculation
from glassformer.generation.stop import Stop, Watch
from glassformer.models import Network
from glassformer.text.tokenizer import Tokenizer

WORTH_PACKING = 16
"""Steps: packing takes about as long as ten of them, and makes each twice as fast."""


@dataclass(frozen=True)
class Start:
    """Rows, checked and ready to be continued: by how many tokens, and what becomes of their logits.

    source: the ids that an encoder reads, -1 where they are padding; None where there are none. [R, S]
    draft: the same rows, to be read by a smaller network that guesses
    """

    rows: Rows
    new_tokens: int
    filters: list[Filter]
    source: Tensor | None = None
    draft: Rows | None = None


@dataclass(frozen=True)
class Writer:
    """A network with a language model's head, and how its makers let it write.

    Args:
        answers: does it answer what it reads (an encoder-decoder), instead of continuing it?
        tokenizer: gives it where options name texts; raises where there is none.
        special: tokens that frame a text, and stay when it is cut.
        draft: the smaller network that guesses.
    """

    network: Network
    settings: Settings
    answers: bool
    tokenizer: Callable[[], Tokenizer]
    special: frozenset[int] = frozenset()
    draft: Writer | None = None

    def write(self, read: Tensor, mask: Tensor | None, asked: Options) -> Generated:
        """What becomes of the rows, by the method that was asked for.

        Args:
            read: token ids, padded on the left [R, T], or a sound's features [R, M, frames].
            mask: 0 where ids are padding. [R, T]
        Raises: DataError: nothing to read, padding on the right, no room. Else as the methods.
        """
        start = self.start(read, mask, asked)
        if asked.num_beams > 1 and start.new_tokens > 0:
            return self.search(start, asked)
        return self.decode(start, asked).run()

    def decoding(self, read: Tensor, mask: Tensor | None, asked: Options) -> Decoding:
        """Greedy search or sampling, ready to be gone through."""
        return self.decode(self.start(read, mask, asked), asked)

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
            keep = keep_of("attention_mask", mask, read, None)
            if keep is not None and not self.answers:
                check_prompts_end(keep)
            if asked.truncation:
                read, keep = self._shortened(read, keep, asked)
            source = Batch(input_ids=read)
        ids, seen = read, None
        if self.answers:
            ids = torch.full((len(read), 1), self.settings.start_id, device=read.device)
        elif keep is not None:
            seen = keep[:, 0]
        begun = ids.shape[1]
        new_tokens = asked.new_tokens(begun)
        check_room(begun, new_tokens, self.network.max_tokens, reads_all=asked.penalty_alpha is not None)
        if not self.answers:
            self._check_context(begun, new_tokens)
        if self.draft is not None:
            self._check_draft(self.draft)
            check_room(begun, new_tokens, self.draft.network.max_tokens, who="the assistant_model")
        words = self.answers and not read.is_floating_point()
        shown = (read if keep is None else read.masked_fill(~keep[:, 0], -1)) if words else None
        settings = self.settings
        if asked.forced_bos_token_id is not None:
            if not self.answers:
                raise ConfigError(
                    "forced_bos_token_id begins the answer of an encoder-decoder, and this model continues its prompt; "
                    "put the token at the end of the prompt"
                )
            settings = settings.beginning_with(asked.forced_bos_token_id)
        filters = asked.filters(
            settings,
            begun=begun,
            new_tokens=new_tokens,
            source=shown,
            forced=settings.filters() if self.answers else (),
            tokenizer=self.tokenizer,
        )

        def rows(network: Network) -> Rows:
            if new_tokens >= WORTH_PACKING and asked.use_cache:
                prepare_plain(network)
            return Rows(
                network,
                ids,
                keep=seen,
                memory_of=source if self.answers else None,
                memory_keep=keep if self.answers else None,
                cached=asked.use_cache,
            )

        draft = None if self.draft is None else rows(self.draft.network)
        return Start(rows(self.network), new_tokens, filters, shown, draft)

    def _check_context(self, begun: int, new_tokens: int) -> None:
        """Warn where positions go on for ever, but nobody has taught the model what to do with so many."""
        context = self.settings.context
        read = begun + new_tokens - 1  # nobody reads the last one
        if self.network.max_tokens is None and context is not None and read > context:
            warnings.warn(
                f"a prompt of {begun} tokens and {new_tokens} new ones are more than the {context} that the model was "
                "made for (max_position_embeddings): it can read them, and may write nonsense; shorten the prompt, or "
                "give truncation=True (--truncate)",
                stacklevel=2,
            )

    def _check_draft(self, draft: Writer) -> None:
        """Raises: ConfigError: another vocabulary, or device. UnsupportedError: one of the two answers, one not."""
        ours, theirs = self.settings.vocabulary, draft.settings.vocabulary
        if ours != theirs:
            raise ConfigError(
                f"the assistant_model has a vocabulary of {theirs} tokens, the model one of {ours}; take a smaller "
                "model of the same vocabulary"
            )
        here, there = (next(network.parameters()).device for network in (self.network, draft.network))
        if here != there:
            raise ConfigError(
                f"the assistant_model is on {there}, the model on {here}; move it: model.to('{here}')"
            )
        if self.answers != draft.answers:
            kinds = {True: "answers what it reads (an encoder-decoder)", False: "continues it"}
            raise UnsupportedError(
                f"the model {kinds[self.answers]}, the assistant_model {kinds[draft.answers]}; take a smaller model of "
                "the same kind"
            )

    def _shortened(self, read: Tensor, keep: Tensor | None, asked: Options) -> tuple[Tensor, Tensor | None]:
        """What is read, and its mask [B, 1, T], cut where there is no room for all of it."""
        rooms = [self.network.max_tokens or self.settings.context]
        if not self.answers:
            rooms += [None if self.draft is None else self.draft.network.max_tokens]
        room = min((room for room in rooms if room is not None), default=None)
        if room is not None and not self.answers:
            # The last token is not read, unless candidates are compared by their states.
            room += (asked.penalty_alpha is None) - asked.new_tokens(0)
        if room is None or room < 1:
            return read, keep
        side = asked.truncation if isinstance(asked.truncation, str) else "right" if self.answers else "left"
        return shorten(read, keep, room, side=side, special=self.special, pad_id=self.settings.pad_id)

    def decode(self, start: Start, asked: Options) -> Decoding:
        """Greedy search or sampling from a start, which it uses up."""
        rows = start.rows
        device = rows.ids.device
        if asked.num_return_sequences > 1:
            prompts = torch.arange(len(rows), device=device)
            for read in [rows] if start.draft is None else [rows, start.draft]:
                read.pick(prompts.repeat_interleave(asked.num_return_sequences))
        stop = Stop(
            len(rows),
            ids=asked.stop_ids(self.settings),
            strings=asked.strings,
            tokenizer=self.tokenizer() if asked.strings else None,
            seconds=asked.max_time,
            device=device,
        )
        ahead, choose = self._method(start, asked, stop)
        return Decoding(
            ahead,
            max_new_tokens=start.new_tokens,
            stop=stop,
            pad_id=self.settings.pad_id,
            filters=start.filters,
            choose=choose,
            scores=asked.return_scores or asked.top > 0,
            top=asked.top,
        )

    def _method(self, start: Start, asked: Options, stop: Stop) -> tuple[Rows | Ahead, Choice]:
        """How far the network reads ahead, and who chooses the next token."""
        rows = start.rows
        if asked.penalty_alpha is not None:
            contrast = Contrast(rows, alpha=asked.penalty_alpha, k=asked.top_k or 1)
            return contrast, contrast.choose
        seed = asked.first_seed() if asked.do_sample else 0
        choose: Choice = Draw(len(rows), seed) if asked.do_sample else likeliest
        most, pad_id = rows.ids.shape[1] + start.new_tokens, self.settings.pad_id
        if asked.prompt_lookup_num_tokens is not None:
            source = start.source
            if source is not None:
                source = source.repeat_interleave(asked.num_return_sequences, dim=0)
            lookup = Lookup(asked.max_matching_ngram_size or MATCHING_NGRAM, source)
            count = asked.prompt_lookup_num_tokens
            return Speculation(rows, lookup, count=count, most=most, stop=stop, pad_id=pad_id), choose
        if start.draft is None:
            return rows, choose
        lots = Lots(len(rows), seed) if asked.do_sample else None
        draft = Draft(start.draft, lots, asked.shape() if asked.do_sample else ())
        count = asked.num_assistant_tokens or ASSISTANT_TOKENS
        ahead = Speculation(rows, draft, count=count, most=most, stop=stop, pad_id=pad_id)
        return ahead, choose if lots is None else Rejection(ahead, lots)

    def search(
        self, start: Start, asked: Options, *, on_step: Callable[[Generated], None] | None = None
    ) -> Generated:
        """Beam search from a start, which it uses up."""
        return beams(
            start.rows,
            num_beams=asked.num_beams,
            num_beam_groups=asked.num_beam_groups,
            diversity_penalty=asked.diversity_penalty or 0.0,
            max_new_tokens=start.new_tokens,
            stop_ids=asked.stop_ids(self.settings),
            watch=Watch(asked.strings, self.tokenizer()) if asked.strings else None,
            seconds=asked.max_time,
            pad_id=self.settings.pad_id,
            length_penalty=1.0 if asked.length_penalty is None else asked.length_penalty,
            early_stopping=False if asked.early_stopping is None else asked.early_stopping,
            num_return_sequences=asked.num_return_sequences,
            filters=start.filters,
            on_step=on_step,
            generator=generators(len(start.rows), asked.first_seed()) if asked.do_sample else None,
        )
