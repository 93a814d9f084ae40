"""Texts to vectors, as fast as the machine allows.

    texts ──tokenise──> ids ──sort by length──> passes of about 1,000 tokens, each one packed row without padding
          <──put back in order── pool ── final states <──network──┘

Source: sorting and token budgets: common practice; rows without padding: Zeng et al. 2022, "ByteTransformer".
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow
from glassformer.core.masks import Segments
from glassformer.engine.modes import evaluating
from glassformer.engine.passes import plan_passes
from glassformer.engine.prepare import prepare, prepare_plain
from glassformer.engine.sentences import SentenceSettings, pooling_of, read_settings
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import shown
from glassformer.models import Network

WINDOW_TEXTS = 16_384  # texts that are tokenised and sorted together
WORTH_PACKING = 128  # texts: packing takes about as long as encoding a dozen
PASS_TOKENS = 1_024  # tokens a pass: enough to keep the cores busy, few enough to stay in their caches


class TextToIds(Protocol):
    """What the engine asks of a tokenizer."""

    def batch_ids(self, texts: Sequence[str], max_tokens: int | None) -> tuple[list[list[int]], int]:
        """Ids with special tokens, at most `max_tokens` a text; and how many texts were cut."""


def encode(
    network: Network,
    tokenizer: TextToIds,
    texts: Sequence[str],
    folder: Path | None = None,
    *,
    pooling: str | None = None,
    precision: str | None = None,
    truncate: bool = True,
    pass_tokens: int = PASS_TOKENS,
    progress: bool | None = None,
) -> np.ndarray:
    """One vector a text; the same within 1e-5 (fp32) as one text at a time.

    Args:
        network: any family with one stack; its head is not run.
        texts: strings.
        folder: where the model lies; its `modules.json` decides pooling and normalisation, else the mean over tokens.
        pooling: instead of what the folder says, and without its normalisation: "cls", the state of the first token,
            "mean", "max", "lasttoken", …
        precision: "fp32", "fp16", "bf16" or "int8": prepare the network so first. None = as it is; a plain fp32
            network is prepared in fp32, which changes no result, once there are texts enough to pay for it.
        truncate: cut texts beyond the limit, with one warning that counts them; False = an error.
        pass_tokens: how many tokens one pass may hold.
        progress: show a bar; None = on a terminal, when it will take a while.
    Returns: float32 vectors. [N, D]
    Raises: DataError: texts are no strings; (truncate=False) a text is too long. UnsupportedError: two stacks.
    """
    texts = _checked(texts)
    if isinstance(pass_tokens, bool) or not isinstance(pass_tokens, int) or pass_tokens < 1:
        raise ConfigError(f"pass_tokens is {shown(pass_tokens)}; it must be a whole number from 1 up")
    if (sides := list(network.sides())) != ["text"]:
        raise UnsupportedError(
            f"encode reads the states of a model with one stack for text; this one has {' and '.join(sides)}: call the "
            "model itself for what it makes of them"
        )
    if precision is not None:
        prepare(network, precision)
    elif len(texts) >= WORTH_PACKING:
        prepare_plain(network)
    settings = read_settings(folder, network.POOLING)
    if pooling is not None:
        settings = replace(settings, poolings=(pooling_of(pooling),), normalise=False)
    limits = [limit for limit in (settings.max_tokens, network.max_tokens) if limit is not None]
    max_tokens = min(limits, default=None)
    vectors = np.zeros((len(texts), network.width * len(settings.poolings)), dtype=np.float32)
    cut = 0
    with evaluating(network), _bar(progress, len(texts)) as advance:
        for start in range(0, len(texts), WINDOW_TEXTS):
            window = texts[start : start + WINDOW_TEXTS]
            if settings.lower_case:
                window = [text.lower() for text in window]
            ids, too_long = tokenizer.batch_ids(window, max_tokens)
            if too_long and not truncate:
                raise DataError(
                    f"{too_long} of {len(window)} texts have more than {max_tokens} tokens; shorten or split them, "
                    "or let them be cut with truncate=True"
                )
            cut += too_long
            for indices, found in _vectors(network, ids, settings, pass_tokens):
                vectors[[start + i for i in indices]] = found
                advance(len(indices))
    if cut:
        warnings.warn(f"{cut} of {len(texts)} texts were cut to {max_tokens} tokens", stacklevel=3)
    return vectors


def _checked(texts: object) -> list[str]:
    """Any number of strings, as a list."""
    if isinstance(texts, (str, bytes, Mapping)) or not isinstance(texts, Iterable):
        kind = "one string" if isinstance(texts, str) else type(texts).__name__
        raise DataError(f"texts is {kind}; give a list of strings: [text]")
    found = list(texts)
    for index, text in enumerate(found):
        if not isinstance(text, str):
            raise DataError(
                f"text {index} is {shown(text)}, {type(text).__name__}; each text must be a string"
            )
    return found


def final_states(network: Network, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Segments]:
    """The final states of texts laid end to end in one row, which no padding touches. [1, tokens, D]

    Texts of equal length that stand side by side share one attention call: sort them.
    """
    segments = Segments(tuple(map(len, ids)))
    row = torch.tensor(
        [[number for text in ids for number in text]], device=next(network.parameters()).device
    )
    return network.states(Batch(input_ids=row), Flow(segments=segments)), segments


def _vectors(
    network: Network, ids: Sequence[Sequence[int]], settings: SentenceSettings, pass_tokens: int
) -> Iterator[tuple[list[int], np.ndarray]]:
    """The vectors of one pass after another, with the indices of their texts."""
    empty = [i for i, text in enumerate(ids) if not text]
    if empty:  # a tokenizer without special tokens makes nothing of nothing; its vector stays 0
        yield empty, np.zeros(1, dtype=np.float32)
    filled = [i for i, text in enumerate(ids) if text]
    for chosen in plan_passes([len(ids[i]) for i in filled], pass_tokens):
        indices = [filled[i] for i in chosen]
        with torch.inference_mode():
            states, segments = final_states(network, [ids[i] for i in indices])
            pooled = [
                settings.pool(states[0, start : start + texts * length].unflatten(0, (texts, length)))
                for start, texts, length in segments.groups()
            ]
            yield indices, torch.cat(pooled).cpu().numpy()


@contextmanager
def _bar(wanted: bool | None, texts: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, where a person would like one."""
    if not (sys.stderr.isatty() and texts > 512 if wanted is None else wanted):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("encoding", total=texts)
        yield lambda count: bar.advance(task, count)
