"""Index a text file: windows of its rows through the model, and what it makes of every token to disk.

rows ──tokenise──> windows ──chunks of equal size──> packed passes with a tape ──> states, head outputs   append
                                                                              └──> neurons ──> top k      replace
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.core.masks import Packing
from glassformer.data.rows import read_rows
from glassformer.data.sequence import RowSequence
from glassformer.data.texts import names_a_format
from glassformer.engine.batching import plan_batches
from glassformer.engine.encoder import BATCH_TOKENS, check_one_stack
from glassformer.engine.prepare import prepare_plain
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import as_path, is_int, readable_path, safe_repr
from glassformer.files.schema import check
from glassformer.inspect.corpus.files import (
    CONTINUES,
    SPECIAL,
    Head,
    IndexProgress,
    IndexSettings,
    IndexWriter,
    head_file,
    layer_file,
    neurons_file,
)
from glassformer.inspect.corpus.index import CorpusIndex
from glassformer.inspect.corpus.neurons import TopActivations
from glassformer.inspect.corpus.options import TOP, Activations
from glassformer.inspect.outputs import check_numbers
from glassformer.inspect.tokens import begins_word
from glassformer.loaded_model import LoadedModel
from glassformer.models import Network, eval_mode
from glassformer.text.engine import EncodedRow
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.windows import windows

MAX_ROW_BYTES = 1 << 28  # of a line: a file without line ends would be read as one
ROWS_AT_ONCE = 256
"""Rows that are tokenised together."""
CHUNK_BYTES, CHUNK_TOKENS = 1 << 28, 1 << 16
"""A chunk has at most this many tokens, fewer where their columns take more than these bytes."""
MAX_TOKENS = 256
"""Of a window unless asked for: attention costs the square of its length."""

Place = tuple[int, int]
"""A row, and a window of it."""


class CorpusWindow(NamedTuple):
    """A part of a row that is one pass: ids with special tokens, offsets in its text, flags."""

    place: Place
    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]
    flags: list[int]


def index_corpus(
    model: LoadedModel,
    source: str | Path,
    folder: str | Path,
    *,
    layers: Sequence[int] | None = None,
    heads: Sequence[tuple[int, int | None]] = (),
    neurons: bool = True,
    top: int = TOP,
    max_tokens: int | None = None,
    column: str = "text",
    encoding: str | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> CorpusIndex:
    """Index a text file by what a model makes of its tokens; a stopped call is resumed by the same call.

    Args:
        source: a text file, each line a text, or a table with a column of texts; long texts are cut into windows
        layers: whose states are kept, 0 = the embeddings … L = the last; None = the middle and the last
        heads: layer and head of each attention head whose outputs are kept; None for the head = all of the layer
        neurons: keep the top activations of each
        top: how many of each neuron
        max_tokens: of a window, special tokens included; None = 256 at most
        encoding: of a text file that is not UTF-8
        progress: told the rows that are done, and all of them
    Returns: the index. Size on disk: `IndexSettings.bytes_per_token` for each token.
    Raises: DataError: the file cannot be read; the folder holds something else; the disk is full. ConfigError: no such
        layer or head; another process writes to the folder. UnsupportedError: a model of several stacks. WeightsError:
        the model gives NaN.
    """
    check_one_stack(model.network, "index_corpus")
    check(Activations, top, "top")
    passes = _Passes(model.network, layers, heads, neurons=neurons)
    size = _window_tokens(model, max_tokens)
    options = {} if encoding is None else {"encoding": encoding}
    rows = read_rows(source, columns=(column,), kind=_kind(source), limit=MAX_ROW_BYTES, **options)
    settings = IndexSettings(
        fingerprint=model.network.fingerprint(dtypes=False),
        model=model.family.model_type,
        source=readable_path(as_path(source, "source").name),
        rows=len(rows),
        rows_fingerprint=rows.fingerprint,
        layers=passes.layers,
        heads=passes.heads,
        neurons=passes.neurons,
        top=top,
        width=model.network.width,
        head_width=passes.head_width,
        neuron_width=passes.neuron_width,
        max_tokens=size,
    )
    writer = IndexWriter(as_path(folder, "folder"), settings)
    if not writer.progress.complete:  # a complete one may be where nothing can be written, not even a lock
        prepare_plain(model.network)
        with writer:
            _index(model, rows, column, passes, writer, progress)
    return CorpusIndex(folder)


def _index(
    model: LoadedModel,
    rows: RowSequence,
    column: str,
    passes: _Passes,
    writer: IndexWriter,
    progress: Callable[[int, int], None],
) -> None:
    settings, done = writer.settings, writer.progress
    if done.complete:  # by another process meanwhile
        return
    tops = TopActivations(settings)
    if done.chunks:
        tops.read(writer.folder / neurons_file(done.chunks), done.tokens)
    size = max(1, min(CHUNK_TOKENS, CHUNK_BYTES // settings.bytes_per_token))
    progress(done.rows, len(rows))
    with eval_mode(model.network), torch.no_grad():
        of_rows = _windows_of(model.tokenizer, rows, column, settings.max_tokens, (done.rows, done.row_windows))
        for chunk, at in _chunks(of_rows, size, (len(rows), 0)):
            columns = {**_bookkeeping(chunk, writer.progress), **passes.run(chunk, writer.progress.tokens, tops)}
            writer.append(columns, tops.entries, rows=at[0], row_windows=at[1], complete=at[0] == len(rows))
            progress(at[0], len(rows))


def _chunks(windows: Iterator[CorpusWindow], size: int, end: Place) -> Iterator[tuple[list[CorpusWindow], Place]]:
    """Windows, about `size` tokens at a time, with the place where the next ones begin; at least one chunk."""
    chunk: list[CorpusWindow] = []
    tokens = 0
    for window in windows:
        if tokens + len(window.ids) > size and chunk:
            yield chunk, window.place
            chunk, tokens = [], 0
        chunk.append(window)
        tokens += len(window.ids)
    yield chunk, end


def _windows_of(
    tokenizer: Tokenizer, rows: RowSequence, column: str, limit: int, start: Place
) -> Iterator[CorpusWindow]:
    """The windows of the rows, from a row and a window of it on."""
    for first in range(start[0], len(rows), ROWS_AT_ONCE):
        numbers = range(first, min(first + ROWS_AT_ONCE, len(rows)))
        texts = [_text(rows, number, column) for number in numbers]
        for number, text, row in zip(numbers, texts, tokenizer(texts, add_special_tokens=False).rows, strict=True):
            of_text = _windows(tokenizer, number, text, row, limit)
            yield from of_text[start[1] :] if number == start[0] else of_text


def _text(rows: RowSequence, number: int, column: str) -> str:
    text = rows[number][column]
    if not isinstance(text, str):
        raise DataError(f"{rows.where(number)}: {column!r} is {safe_repr(text)}; it must be a text")
    return text


def _windows(tokenizer: Tokenizer, number: int, text: str, row: EncodedRow, limit: int) -> list[CorpusWindow]:
    """A text as windows of at most `limit` tokens, cut between words where a word is not longer than half of one."""
    before, after = tokenizer.prefix_and_suffix
    ids, offsets, words = row.ids, row.offsets, row.word_ids
    room, special_ids = limit - len(before) - len(after), tokenizer.special_ids
    continues = [False] + [
        words[i] is not None and words[i] == words[i - 1] and not begins_word(text, offsets[i][0])
        for i in range(1, len(ids))
    ]
    made: list[CorpusWindow] = []
    for start, end, _ in windows(len(ids), room, begins_word=lambda i: not continues[i]):
        first, last = offsets[start][0], max(stop for _, stop in offsets[start:end])
        inside = [
            SPECIAL * (ids[i] in special_ids) | CONTINUES * (i > start and continues[i]) for i in range(start, end)
        ]
        made.append(
            CorpusWindow(
                place=(number, len(made)),
                text=text[first:last],
                ids=[*before, *ids[start:end], *after],
                offsets=[
                    *[(0, 0)] * len(before),
                    *((begin - first, stop - first) for begin, stop in offsets[start:end]),
                    *[(0, 0)] * len(after),
                ],
                flags=[*[SPECIAL] * len(before), *inside, *[SPECIAL] * len(after)],
            )
        )
    return made


def _bookkeeping(windows: Sequence[CorpusWindow], done: IndexProgress) -> dict[str, np.ndarray]:
    """The columns that come from the tokenizer alone."""
    texts = [window.text.encode() for window in windows]
    starts = np.cumsum([0, *(len(window.ids) for window in windows)])[:-1] + done.tokens
    places = np.cumsum([0, *map(len, texts)])[:-1] + done.files["texts.bin"][0]
    rows = [window.place[0] for window in windows]
    return {
        "tokens.bin": np.array([i for window in windows for i in window.ids], dtype="<i4"),
        "offsets.bin": np.array([o for window in windows for o in window.offsets], dtype="<i4").reshape(-1, 2),
        "flags.bin": np.array([flag for window in windows for flag in window.flags], dtype="u1"),
        "windows.bin": np.stack([starts, places, np.array(rows, dtype="<i8")], axis=1).astype("<i8"),
        "texts.bin": np.frombuffer(b"".join(texts), dtype="u1"),
    }


class _Passes:
    """Passes whose tape hears what is indexed.

    Raises: ConfigError: no such layer or head. UnsupportedError: heads of several widths.
    """

    def __init__(
        self, network: Network, layers: Sequence[int] | None, heads: Sequence[tuple[int, int | None]], *, neurons: bool
    ) -> None:
        network.name_nodes()
        self.network = network
        self._streams = network.stream_taps()["text"]
        last = len(self._streams) - 1
        self.layers = _numbers("layers=", "layer", {last // 2, last} if layers is None else layers, last + 1)
        attention = [layer.attention for layer in network.attention_layout()["self"].layers]
        chosen: set[Head] = set()
        for layer, head in heads:
            _numbers("heads=", "layer", [layer], len(attention), " with heads")
            count = attention[layer].spec.heads
            numbers = _numbers("heads=", "head", range(count) if head is None else [head], count, f" of layer {layer}")
            chosen |= {(layer, number) for number in numbers}
        self.heads = tuple(sorted(chosen))
        widths = {attention[layer].spec.E for layer, _ in self.heads}
        if len(widths) > 1:
            raise UnsupportedError(f"the heads are {sorted(widths)} wide; index those of one width at a time")
        self.head_width = next(iter(widths), 0)
        self._z = {layer: f"{attention[layer].path}.z" for layer, _ in self.heads}
        self._neurons = _neuron_taps(network) if neurons else {}
        self.neurons = tuple(self._neurons)
        self._tape = Tape(*{*(self._streams[i] for i in self.layers), *self._z.values(), *self._neurons.values()})

    @property
    def neuron_width(self) -> int:
        taps = list(self._neurons.values())
        return self.network.get_submodule(taps[0].removesuffix(".neurons")).down.in_features if taps else 0  # type: ignore[union-attr,return-value]

    def run(self, windows: Sequence[CorpusWindow], first: int, tops: TopActivations) -> dict[str, np.ndarray]:
        """The columns of a chunk; `tops` is updated.

        Args:
            first: the number of its first token

        Raises: WeightsError: NaN.
        """
        lengths = [len(window.ids) for window in windows]
        starts = np.cumsum([0, *lengths])
        settings = tops.settings
        columns = {
            name: np.empty((starts[-1], *shape), dtype)
            for name, (dtype, shape) in settings.columns.items()
            if name.startswith(("layer.", "head."))
        }
        for batch in plan_batches(lengths, BATCH_TOKENS) if windows else []:
            places = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in batch])
            special = torch.tensor([flag & SPECIAL > 0 for i in batch for flag in windows[i].flags])
            for name, x in self._heard([windows[i].ids for i in batch]):
                if name.endswith(".bin"):
                    columns[name][places] = torch.nn.functional.normalize(x.float(), dim=-1).half().cpu().numpy()
                else:
                    tops.update(int(name), x, torch.from_numpy(places) + first, special)
        return columns

    def _heard(self, ids: Sequence[Sequence[int]]) -> Iterator[tuple[str, Tensor]]:
        """What the tape hears of a batch: by the name of its column, or of neurons by the number of their layer."""
        packing = Packing(tuple(map(len, ids)))
        row = torch.tensor([[i for window in ids for i in window]], device=next(self.network.parameters()).device)
        tape = self._tape.attach(self.network)
        final = self.network.states(Batch(input_ids=row), Flow(packing=packing, tape=tape))
        check_numbers((final,), "the states of these texts", self.network)
        for layer in self.layers:
            yield layer_file(layer), tape.taps[self._streams[layer]][0]
        for layer, head in self.heads:
            yield head_file((layer, head)), tape.taps[self._z[layer]][0, head]
        for layer, tap in self._neurons.items():
            yield str(layer), tape.taps[tap][0]


def _neuron_taps(network: Network) -> dict[int, str]:
    """Layer → the tap of its neurons; experts have none."""
    stack, taps = network.stacks()["text"], set(network.taps())
    names = {i: f"{stack.path}.{i}.ffn.neurons" for i in range(len(network.stream_taps()["text"]) - 1)}
    return {i: name for i, name in names.items() if name in taps}


def _numbers(option: str, what: str, numbers: Collection[int], count: int, of: str = "") -> tuple[int, ...]:
    """Numbers in order. Raises: ConfigError: one that there is not."""
    for number in numbers:
        if not is_int(number, 0, count):
            raise ConfigError(f"{option}: there is no {what} {safe_repr(number)}{of}; give one from 0 to {count - 1}")
    return tuple(sorted(set(numbers)))


def _kind(source: str | Path) -> str | None:
    """A file of an unknown extension is plain text."""
    return None if names_a_format(str(source)) else "text"


def _window_tokens(model: LoadedModel, asked: int | None) -> int:
    """The tokens of a window. Raises: ConfigError: more than the model reads, or no room besides special tokens."""
    most, special = model.network.max_tokens, sum(map(len, model.tokenizer.prefix_and_suffix))
    tokens = min(MAX_TOKENS, most or MAX_TOKENS) if asked is None else asked
    if not is_int(tokens, special + 1, most + 1 if most else math.inf):
        limit = f" to {most:,}" if most else " up"
        raise ConfigError(f"max_tokens= is {safe_repr(tokens)}; it must be a whole number from {special + 1}{limit}")
    return tokens
