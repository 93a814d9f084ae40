"""Hidden states of chosen tokens at every level of a model, from packed passes over texts or windows of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from glassformer.call import layer_taps
from glassformer.core.flow import Batch, Flow, Tape
from glassformer.core.masks import Packing
from glassformer.engine.batching import plan_batches, run_planned
from glassformer.engine.encoder import BATCH_TOKENS
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.inspect.embeddings.contextual import Occurrence
from glassformer.inspect.outputs import check_numbers
from glassformer.loaded_model import LoadedModel
from glassformer.models import eval_mode

BASELINE_TOKENS = 400
"""Other tokens whose states are kept, to say how similar any two tokens are."""
TOKENIZED_TOGETHER = 4096  # texts; bounds the encodings in memory
WINDOW = 128
"""Tokens around an occurrence that are read of a text which is longer than the model reads."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A text, or a window of one, as the network reads it: which of its tokens belong to which item."""

    text: int
    ids: list[int]
    types: list[int] | None
    special: int  # tokens before the text's own
    ordinary: int  # tokens of the text itself
    items: list[tuple[int, list[int]]] = field(default_factory=list)


class HiddenStates:
    """Rows of tokens, and the pass that reads the states of items off all levels."""

    def __init__(self, model: LoadedModel, token_type: int | None, limit_bytes: int) -> None:
        self.model, self.network, self.limit_bytes = model, model.network, limit_bytes
        if model.family.modality or list(self.network.stacks()) != ["text"]:
            streams = " and ".join(self.network.stacks()) or "no text"
            raise UnsupportedError(
                f"contextual embeddings are of models with one text stack; this {model.family.model_type!r} model has "
                f"{streams}: take an encoder or a decoder"
            )
        kinds = self.network.token_types
        if token_type is not None and not (isinstance(kinds, int) and 0 <= token_type < kinds):
            raise ConfigError(f"token_type is {token_type}; this model has token types: {kinds or 'none'}")
        self.types, self.token_type = isinstance(kinds, int) and kinds > 0, token_type
        self.taps = layer_taps(self.network, hidden_states=True, attentions=False)["hidden_states"]

    # ── rows ─────────────────────────────────────────────────────────────────────────────────────────────

    def rows(self, texts: Sequence[str], occurrences: Sequence[Occurrence]) -> tuple[list[TokenRow], list[Occurrence]]:
        """The rows that hold occurrences, and the occurrences with their token positions."""
        rows: list[TokenRow] = []
        items: list[Occurrence] = []
        by_text: dict[int, list[Occurrence]] = {}
        for each in occurrences:
            by_text.setdefault(each.sentence, []).append(each)
        for text, encoding in self._encoded(texts, list(by_text)):
            row = self._row(text, encoding)
            windows: dict[int, TokenRow] = {}
            for each in by_text[text]:
                tokens = _tokens_of(encoding.offsets, encoding.sequence_ids, each)
                if not tokens:
                    raise DataError(f"the tokenizer gives {safe_repr(each.form)} in text {text} no token of its own")
                start, window = self._window(row, tokens, WINDOW)
                windows.setdefault(start, window)
                windows[start].items.append((len(items), [token - start for token in tokens]))
                pieces = tuple(encoding.tokens[at] for at in tokens)
                items.append(Occurrence(text, tokens[0], each.start, each.end, each.form, pieces))
            rows += windows.values()
        return rows, items

    def whole_rows(self, texts: Sequence[str], whole: Sequence[Occurrence]) -> tuple[list[TokenRow], list[Occurrence]]:
        """A row for each text, cut where it is too long."""
        rows, cut = [], 0
        for text, encoding in self._encoded(texts, range(len(texts))):
            row = self._row(text, encoding)
            if not row.ids:
                raise DataError(f"text {text} is empty, and the tokenizer adds nothing to it; leave it out")
            _, window = self._window(row, [row.special], len(row.ids))
            cut += len(window.ids) < len(row.ids)
            window.items.append((text, list(range(len(window.ids)))))
            rows.append(window)
        if cut:
            warnings.warn(f"{cut} of {len(texts)} texts were cut to {self.network.max_tokens} tokens", stacklevel=4)
        return rows, list(whole)

    def _encoded(self, texts: Sequence[str], numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """The whole encoding of each of these texts, some thousand at a time."""
        for start in range(0, len(numbers), TOKENIZED_TOGETHER):
            part = numbers[start : start + TOKENIZED_TOGETHER]
            encodings = self.model.tokenizer([texts[i] for i in part], truncation=False)
            yield from zip(part, encodings.rows, strict=True)

    def _row(self, text: int, encoding: Any) -> TokenRow:
        own = [at for at, sequence in enumerate(encoding.sequence_ids) if sequence is not None]
        special = own[0] if own else len(encoding.ids)
        types = None
        if self.types:
            types = encoding.type_ids if self.token_type is None else [self.token_type] * len(encoding.ids)
        return TokenRow(text, list(encoding.ids), types, special, len(own))

    def _window(self, row: TokenRow, tokens: Sequence[int], length: int) -> tuple[int, TokenRow]:
        """The window of a row in whose middle tokens are best: how many tokens are left out before it, and itself."""
        limit = self.network.max_tokens
        if limit is None or len(row.ids) <= limit:
            return 0, TokenRow(row.text, row.ids, row.types, row.special, row.ordinary)
        room = min(limit, length) - (len(row.ids) - row.ordinary)
        step = max(room // 2, 1)
        last = -(-(row.ordinary - room) // step)
        number = min(max(round((tokens[0] - row.special - room / 2) / step), 0), last)
        start = min(number * step, row.ordinary - room)
        begin, end = row.special + start, row.special + start + room
        after = row.special + row.ordinary

        def cut(values: list[int]) -> list[int]:
            return [*values[: row.special], *values[begin:end], *values[after:]]

        return start, TokenRow(row.text, cut(row.ids), None if row.types is None else cut(row.types), row.special, room)

    def sample(
        self, rows: Sequence[TokenRow], generator: np.random.Generator
    ) -> tuple[list[tuple[int, int]], list[int]]:
        """Other tokens, as row and position, spread over the rows; and the text of each."""
        chosen: list[tuple[int, int]] = []
        each = max(1, -(-BASELINE_TOKENS // len(rows)))
        order = generator.permutation(len(rows))[:BASELINE_TOKENS]
        for number in map(int, order):
            row = rows[number]
            taken = {at for _, tokens in row.items for at in tokens}
            others = [at for at in range(row.special, row.special + row.ordinary) if at not in taken]
            picked: Any = generator.choice(others, min(each, len(others)), replace=False) if others else []
            chosen += [(number, int(at)) for at in picked]
        return chosen, [rows[number].text for number, _ in chosen]

    # ── the pass ─────────────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        rows: Sequence[TokenRow],
        count: int,
        pooling: str,
        sample: Sequence[tuple[int, int]],
        progress: Progress | None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """States of the items and then of the sample [levels, N + M, D], and static embeddings [N, E].

        Raises: DataError: more states than the limit. WeightsError: they are NaN or infinite.
        """
        states = self._room(count + len(sample))
        table = self.network.embedding.tokens.weight
        static = np.zeros((count, table.shape[1]), dtype=np.float32)
        extra: dict[int, list[tuple[int, int]]] = {}
        for number, (row_number, at) in enumerate(sample):
            extra.setdefault(row_number, []).append((count + number, at))
        done = 0
        with eval_mode(self.network):
            for number, own in self._passes(rows):
                row = rows[number]
                for item, tokens in row.items:
                    chosen = {"first": [0], "mean": list(range(len(row.ids)))}.get(pooling, tokens)
                    states[:, item] = own[:, chosen].mean(1)
                    static[item] = _mean_row(table, [row.ids[i] for i in chosen])
                for item, at in extra.get(number, ()):
                    states[:, item] = own[:, at]
                done += 1
                if progress is not None:
                    progress(done, len(rows))
        for level, values in enumerate(states):
            check_numbers((torch.from_numpy(values),), f"the states at level {level}", self.network)
        return states, static

    def _room(self, count: int) -> np.ndarray:
        """Zeros for this many vectors at all levels. Raises: DataError: more than the limit."""
        levels, width = len(self.taps), self.network.width
        needed = levels * count * width * 4
        if needed > self.limit_bytes:
            raise DataError(
                f"{count:,} vectors of {width} numbers at {levels} levels take {needed / 1e9:,.1f} GB, and the "
                f"limit is {self.limit_bytes / 1e9:,.1f} GB; give fewer texts, or raise limit_bytes (--limit-gb)"
            )
        return np.zeros((levels, count, width), dtype=np.float32)

    def _passes(self, rows: Sequence[TokenRow]) -> Iterator[tuple[int, np.ndarray]]:
        """The number of each row, and its states at all levels. [levels, T, D]"""
        lengths = [len(row.ids) for row in rows]
        for batch, levels in run_planned(plan_batches(lengths, BATCH_TOKENS), lengths, lambda b: self._pass(rows, b)):
            start = 0
            for number in batch:
                yield number, levels[:, start : start + lengths[number]]
                start += lengths[number]

    @torch.no_grad()
    def _pass(self, rows: Sequence[TokenRow], batch: Sequence[int]) -> np.ndarray:
        """All levels of a batch of rows, packed into one. [levels, tokens, D]"""
        device = next(self.network.parameters()).device
        ids = torch.tensor([[i for number in batch for i in rows[number].ids]], device=device)
        types: Tensor | None = None
        if self.types:
            types = torch.tensor([[i for number in batch for i in rows[number].types or ()]], device=device)
        tape = Tape(*self.taps).attach(self.network)
        flow = Flow(packing=Packing(tuple(len(rows[number].ids) for number in batch)), tape=tape)
        last = self.network.states(Batch(input_ids=ids, token_type_ids=types), flow)
        tape.taps.setdefault("final", last)
        return np.stack([tape.taps[tap][0].float().cpu().numpy() for tap in self.taps])


def _mean_row(table: Tensor, ids: Sequence[int]) -> np.ndarray:
    """The mean of rows of an embedding table."""
    rows: np.ndarray = table[torch.tensor(ids, device=table.device)].detach().float().mean(0).cpu().numpy()
    return rows


def _tokens_of(offsets: Sequence[tuple[int, int]], texts: Sequence[int | None], item: Occurrence) -> list[int]:
    """The tokens that share a character with an occurrence."""
    return [
        at
        for at, ((start, end), text) in enumerate(zip(offsets, texts, strict=True))
        if text is not None and start < item.end and end > item.start
    ]
