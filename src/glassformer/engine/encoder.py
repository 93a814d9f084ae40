"""Sentence embeddings: texts to vectors, batched without padding.

    texts ──tokenise──> ids ──sort by length──> batches of about 1,000 tokens, each one packed row without padding
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
from glassformer.core.masks import Packing
from glassformer.deprecation import former_keywords
from glassformer.engine.batching import plan_batches
from glassformer.engine.modes import eval_mode
from glassformer.engine.pooling import PoolingSettings, check_pooling, read_pooling_settings
from glassformer.engine.prepare import prepare, prepare_plain
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.models import Network

WINDOW_TEXTS = 16_384  # texts that are tokenised and sorted together: bounds RAM, and sorts well enough
MIN_TEXTS_TO_PREPARE = 128  # preparing weights takes about as long as encoding a dozen
BATCH_TOKENS = 1_024  # enough to keep the cores busy, few enough to stay in their caches


class BatchTokenizer(Protocol):
    """The tokenizer interface that `encode` needs."""

    def batch_ids(self, texts: Sequence[str], max_tokens: int | None) -> tuple[list[list[int]], int]:
        """Ids with special tokens, at most `max_tokens` a text; and how many texts were cut."""


@former_keywords(pass_tokens="batch_tokens")
def encode(
    network: Network,
    tokenizer: BatchTokenizer,
    texts: Sequence[str],
    folder: Path | None = None,
    *,
    pooling: str | None = None,
    precision: str | None = None,
    truncate: bool = True,
    batch_tokens: int = BATCH_TOKENS,
    progress: bool | None = None,
) -> np.ndarray:
    """Encode texts to sentence embeddings, one vector each; within 1e-5 (fp32) of one text at a time.

    Args:
        network: any family with one stack; its head is not run.
        texts: strings.
        folder: the model folder; its `modules.json` decides pooling and normalisation, else the mean over tokens.
        pooling: overrides the folder, without its normalisation: "cls", the state of the first token,
            "mean", "max", "lasttoken", …
        precision: "fp32", "fp16", "bf16" or "int8": prepare the network first, see `prepare`. None = as it is; a plain
            fp32 network is prepared in fp32, which changes no result, if there are enough texts to pay for it.
        truncate: truncate texts beyond the limit, with one warning that counts them; False = an error.
        batch_tokens: token budget of a batch.
        progress: show a progress bar; None = on a terminal, for more than 512 texts.
    Returns: float32 vectors. [N, D]
    Raises: DataError: texts are no strings; (truncate=False) a text is too long. UnsupportedError: two stacks.
    """
    texts = _check_texts(texts)
    if isinstance(batch_tokens, bool) or not isinstance(batch_tokens, int) or batch_tokens < 1:
        raise ConfigError(f"batch_tokens is {safe_repr(batch_tokens)}; it must be a whole number from 1 up")
    if (stacks := list(network.stacks())) != ["text"]:
        raise UnsupportedError(
            f"encode reads the states of a model with one text stack; this one has {' and '.join(stacks)}: call the "
            "model itself for its outputs"
        )
    if precision is not None:
        prepare(network, precision)
    elif len(texts) >= MIN_TEXTS_TO_PREPARE:
        prepare_plain(network)
    settings = read_pooling_settings(folder, network.POOLING)
    if pooling is not None:
        settings = replace(settings, poolings=(check_pooling(pooling),), normalise=False)
    limits = [limit for limit in (settings.max_tokens, network.max_tokens) if limit is not None]
    max_tokens = min(limits, default=None)
    vectors = np.zeros((len(texts), network.width * len(settings.poolings)), dtype=np.float32)
    truncated = 0
    with eval_mode(network), _bar(progress, len(texts)) as advance:
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
            truncated += too_long
            for indices, batch_vectors in _vectors(network, ids, settings, batch_tokens):
                vectors[[start + i for i in indices]] = batch_vectors
                advance(len(indices))
    if truncated:
        warnings.warn(f"{truncated} of {len(texts)} texts were cut to {max_tokens} tokens", stacklevel=4)
    return vectors


def _check_texts(texts: object) -> list[str]:
    """Validate that texts are strings. Returns: a list."""
    if isinstance(texts, (str, bytes, Mapping)) or not isinstance(texts, Iterable):
        kind = "one string" if isinstance(texts, str) else type(texts).__name__
        raise DataError(f"texts is {kind}; give a list of strings: [text]")
    listed = list(texts)
    for index, text in enumerate(listed):
        if not isinstance(text, str):
            raise DataError(
                f"text {index} is {safe_repr(text)}, {type(text).__name__}; each text must be a string"
            )
    return listed


def final_states(network: Network, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Packing]:
    """The final hidden states of texts packed into one row without padding. [1, tokens, D]

    Adjacent texts of equal length share one attention call: sort them.
    """
    packing = Packing(tuple(map(len, ids)))
    row = torch.tensor(
        [[number for text in ids for number in text]], device=next(network.parameters()).device
    )
    return network.states(Batch(input_ids=row), Flow(packing=packing)), packing


def _vectors(
    network: Network, ids: Sequence[Sequence[int]], settings: PoolingSettings, batch_tokens: int
) -> Iterator[tuple[list[int], np.ndarray]]:
    """The vectors of one batch after another, with the indices of their texts."""
    empty = [i for i, text in enumerate(ids) if not text]
    if empty:  # without special tokens an empty text has no token; its vector stays 0
        yield empty, np.zeros(1, dtype=np.float32)
    nonempty = [i for i, text in enumerate(ids) if text]
    for batch in plan_batches([len(ids[i]) for i in nonempty], batch_tokens):
        indices = [nonempty[i] for i in batch]
        with torch.inference_mode():
            states, packing = final_states(network, [ids[i] for i in indices])
            pooled = [
                settings.pool(states[0, start : start + texts * length].unflatten(0, (texts, length)))
                for start, texts, length in packing.groups()
            ]
            yield indices, torch.cat(pooled).cpu().numpy()


@contextmanager
def _bar(enabled: bool | None, texts: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error."""
    if not (sys.stderr.isatty() and texts > 512 if enabled is None else enabled):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("encoding", total=texts)
        yield lambda count: bar.advance(task, count)
