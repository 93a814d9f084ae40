"""Sentence embeddings: texts to vectors, batched without padding.

    texts ──tokenise──> ids ──sort by length──> batches of about 1,000 tokens, each one packed row without padding
          <──put back in order── pool ── final states <──network──┘

Source: sorting and token budgets: common practice; rows without padding: Zeng et al. 2022, "ByteTransformer".
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Batch, Flow
from glassformer.core.masks import Packing
from glassformer.engine.batching import plan_batches, run_planned
from glassformer.engine.pooling import PoolingSettings, check_pooling, read_pooling_settings
from glassformer.engine.prepare import prepare_for_texts, prepared_copy
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.models import Network, eval_mode
from glassformer.progress import progress_bar

Result = TypeVar("Result")

WINDOW_TEXTS = 16_384  # texts that are tokenised and sorted together: bounds RAM, and sorts well enough
MIN_TEXTS_FOR_A_BAR = 512  # short calls print nothing
BATCH_TOKENS = 1_024  # enough to keep the cores busy, few enough to stay in their caches


class BatchTokenizer(Protocol):
    """The tokenizer interface that `encode` needs."""

    def batch_ids(self, texts: Sequence[str], max_tokens: int | None) -> tuple[list[list[int]], int]:
        """Ids with special tokens, at most `max_tokens` a text; and how many texts were cut."""


def encode(
    network: Network,
    tokenizer: BatchTokenizer,
    texts: Iterable[str],
    folder: Path | PoolingSettings | None = None,
    *,
    pooling: str | None = None,
    prompt: str | None = None,
    prompt_name: str | None = None,
    precision: str | None = None,
    truncate: bool = True,
    batch_tokens: int = BATCH_TOKENS,
    progress: bool | None = None,
) -> np.ndarray:
    """Encode texts to sentence embeddings, one float32 vector each; within 1e-5 (fp32) of one text at a time. [N, D]

    Args:
        folder: the model folder, or its settings as read: its `modules.json` decides pooling and normalisation.
        pooling: overrides the folder, without its normalisation: "cls", "mean", "max", "lasttoken", …
        prompt: put before each text, such as "search_query: "; "" = none, even where the folder has a default one
        prompt_name: the same by its name in the folder's `config_sentence_transformers.json`, such as "query"
        precision: "fp32", "fp16", "bf16" or "int8", of this call alone: see `prepared_copy`. None = as it is; a plain
            fp32 network is prepared in fp32, which changes no result, if there are enough texts to pay for it.
        truncate: cut texts beyond the limit, with one warning that counts them; False = an error.
        batch_tokens: token budget of a batch.
        progress: show a progress bar; None = on a terminal, for more than 512 texts.
    Raises: DataError: texts are no strings; (truncate=False) a text is too long. UnsupportedError: two stacks.
        ConfigError: the folder has no prompt of this name.
    """
    texts = check_texts(texts)
    batch_tokens = _check_call(network, batch_tokens)
    settings = settings_of(network, folder, pooling)
    tokenise = partial(prompted_ids, tokenizer, settings, truncate, settings.prompt(prompt, prompt_name))
    if precision is not None:
        network = prepared_copy(network, precision)
    else:
        prepare_for_texts(network, len(texts))
    shown = progress if len(texts) > MIN_TEXTS_FOR_A_BAR else bool(progress)
    silent = nullcontext(lambda done: None)
    bar = silent if shown is False else progress_bar("encoding", len(texts), shown=shown)
    with eval_mode(network), bar as advance:
        vectors, truncated = _encode_windows(network, tokenise, texts, settings, batch_tokens, advance)
    _warn_of_cut(truncated, len(texts), settings)
    return vectors


def _warn_of_cut(truncated: int, count: int, settings: PoolingSettings) -> None:
    if truncated:
        warnings.warn(f"{truncated} of {count} texts were cut to {settings.max_tokens} tokens", stacklevel=4)


def token_states(
    network: Network, tokenizer: BatchTokenizer, texts: Iterable[str], settings: PoolingSettings, prompt: str
) -> list[np.ndarray]:
    """The final states of the tokens of each text, special ones included. [T, D] each"""
    listed = check_texts(texts)
    settings = settings_of(network, settings, None)
    ids, truncated = prompted_ids(tokenizer, settings, True, prompt, listed)
    _warn_of_cut(truncated, len(listed), settings)
    states: dict[int, np.ndarray] = {i: np.zeros((0, network.width), dtype=np.float32) for i in range(len(listed))}

    def split(row: Tensor, packing: Packing) -> list[np.ndarray]:
        return [x.float().cpu().numpy() for x in row.split(list(packing.lengths))]

    with eval_mode(network):
        for indices, rows in run_final_states(network, ids, _check_call(network, BATCH_TOKENS), split):
            states.update(zip(indices, rows, strict=True))
    return [states[i] for i in range(len(listed))]


def _encode_windows(
    network: Network,
    tokenise: Callable[[list[str]], tuple[list[list[int]], int]],
    texts: list[str],
    settings: PoolingSettings,
    batch_tokens: int,
    advance: Callable[[int], object],
) -> tuple[np.ndarray, int]:
    """The vectors of the texts, this many at a time, and how many texts were cut."""
    vectors = np.zeros((len(texts), settings.dimension(network.width)), dtype=np.float32)
    truncated = 0
    for start in range(0, len(texts), WINDOW_TEXTS):
        ids, too_long = tokenise(texts[start : start + WINDOW_TEXTS])
        truncated += too_long
        for indices, pooled in run_final_states(network, ids, batch_tokens, settings.pool_packed):
            vectors[[start + i for i in indices]] = pooled
            advance(len(indices))
        advance(sum(not text for text in ids))  # a text without a token; its vector stays 0
    return vectors, truncated


def settings_of(network: Network, folder: Path | PoolingSettings | None, pooling: str | None) -> PoolingSettings:
    """The settings of a folder, with no more tokens than the network has positions for; `pooling` overrides theirs."""
    settings = folder if isinstance(folder, PoolingSettings) else read_pooling_settings(folder, network.POOLING)
    if pooling is not None:
        settings = replace(settings, poolings=(check_pooling(pooling),), normalise=False, layers=())
    limits = (settings.max_tokens, network.max_tokens)
    return replace(settings, max_tokens=min((limit for limit in limits if limit is not None), default=None))


def _check_call(network: Network, batch_tokens: object) -> int:
    if isinstance(batch_tokens, bool) or not isinstance(batch_tokens, int) or batch_tokens < 1:
        raise ConfigError(f"batch_tokens is {safe_repr(batch_tokens)}; it must be a whole number from 1 up")
    check_one_stack(network, "encode")
    return batch_tokens


def check_one_stack(network: Network, what: str) -> None:
    """Raises: UnsupportedError: a network of several stacks, or of something other than text.

    Args:
        what: reads it
    """
    if (stacks := list(network.stacks())) != ["text"]:
        raise UnsupportedError(
            f"{what} reads the states of a model with one text stack; this one has {' and '.join(stacks)}: call the "
            "model itself for its outputs"
        )


def prompted_ids(
    tokenizer: BatchTokenizer, settings: PoolingSettings, truncate: bool, prompt: str, texts: list[str]
) -> tuple[list[list[int]], int]:
    """The ids of texts behind their prompt, as the settings ask for, and how many texts were cut."""
    texts = [prompt + text for text in texts]
    if settings.lower_case:
        texts = [text.lower() for text in texts]
    ids, too_long = tokenizer.batch_ids(texts, settings.max_tokens)
    if too_long and not truncate:
        raise DataError(
            f"{too_long} of {len(texts)} texts have more than {settings.max_tokens} tokens; shorten or split them, "
            "or let them be cut with truncate=True"
        )
    return ids, too_long


def column_as_list(texts: Any) -> Any:
    """A column of a table as a list: a Series of pandas, an array of Arrow or NumPy; anything else as it is.

    Raises: DataError: a whole table.
    """
    if hasattr(texts, "columns") or hasattr(texts, "column_names"):
        raise DataError(
            f"texts is a table, {type(texts).__name__}; give one of its columns: table['text'], and texts alone"
        )
    for method in ("to_pylist", "tolist"):  # an array of Arrow gives its own scalars one by one
        if hasattr(texts, method):
            return getattr(texts, method)()
    return texts


def check_texts(texts: object) -> list[str]:
    """Validate that texts are strings. Returns: a list. Raises: DataError: something else, or one string."""
    texts = column_as_list(texts)
    if isinstance(texts, (str, bytes, Mapping)) or not isinstance(texts, Iterable):
        kind = "one string" if isinstance(texts, str) else type(texts).__name__
        raise DataError(f"texts is {kind}; give a list of strings: [text]")
    listed = list(texts)
    for index, text in enumerate(listed):
        if not isinstance(text, str):
            raise DataError(f"text {index} is {safe_repr(text)}, {type(text).__name__}; each text must be a string")
    return listed


def final_states(network: Network, ids: Sequence[Sequence[int]]) -> tuple[Tensor, Packing]:
    """The final hidden states of texts packed into one row without padding. [1, tokens, D]

    Adjacent texts of equal length share one attention call: sort them.
    """
    packing = Packing(tuple(map(len, ids)))
    row = torch.tensor([[number for text in ids for number in text]], device=next(network.parameters()).device)
    return network.states(Batch(input_ids=row), Flow(packing=packing)), packing


def run_final_states(
    network: Network,
    ids: Sequence[Sequence[int]],
    batch_tokens: int,
    read: Callable[[Tensor, Packing], Result],
) -> Iterator[tuple[list[int], Result]]:
    """Run texts by length: the indices of each batch, and what `read` makes of its final states [tokens, D].

    A text without a token is left out.
    """
    nonempty = [i for i, text in enumerate(ids) if text]
    lengths = [len(ids[i]) for i in nonempty]

    @torch.inference_mode()
    def run(batch: Sequence[int]) -> Result:
        states, packing = final_states(network, [ids[nonempty[i]] for i in batch])
        return read(states[0], packing)

    for batch, result in run_planned(plan_batches(lengths, batch_tokens), lengths, run):
        yield [nonempty[i] for i in batch], result
