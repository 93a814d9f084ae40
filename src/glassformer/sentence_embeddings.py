"""Sentence embeddings, with the names of sentence-transformers: encode, similarity, and rankings of pairs.

    model.encode(["one text", "another"])                     vectors, one a text, as the model's folder pools them
    model.encode_query("who wrote Emma?")                     with the folder's prompt for queries
    model.similarity(queries, documents)                      as the model was trained to compare: cosine, mostly
    model.rank("who wrote Emma?", documents, top_k=3)         a cross-encoder reads each pair

Sources: Reimers and Gurevych 2019, "Sentence-BERT"; Nogueira and Cho 2019, "Passage Re-ranking with BERT".
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from glassformer.engine.batching import plan_batches
from glassformer.engine.encoder import check_one_stack, check_texts, column_as_list, token_states
from glassformer.engine.encoder import encode as encode_texts
from glassformer.engine.pooling import SIMILARITIES, PoolingSettings, read_pooling_settings
from glassformer.engine.prepare import PRECISIONS
from glassformer.engine.scores import ACTIVATIONS
from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError, nearest
from glassformer.files import check_count, is_int, safe_repr
from glassformer.loaded_model import LoadedModel

if TYPE_CHECKING:
    from glassformer.inspect.similarity import SimilarityMap

QUANTIZED = ("float32", "int8", "uint8", "binary", "ubinary")
PROMPTS_OF_DOCUMENTS = ("document", "passage", "corpus")
ENGINE_OPTIONS = ("pooling", "truncate", "batch_tokens", "progress")
"""Options of `encode` that `glassformer.engine.encoder.encode` reads."""
PAIR_TOKENS = 4_096
"""Tokens of a batch of pairs, padding included."""


class SentenceEmbedder:
    """What a model does with whole texts: vectors of them, how near these are, and scores of pairs.

    `Model` has these methods too: `model.encode(…)` is `model.embedder.encode(…)`.
    """

    def __init__(self, model: LoadedModel) -> None:
        self.model = model

    def encode(
        self,
        /,
        texts: str | Iterable[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        output_value: str = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        compute: str | None = None,
        device: Any = None,
        pool: Any = None,
        **options: Any,
    ) -> Any:
        """Sentence embeddings: texts to vectors, fast, pooled and normalised as the model's folder says.

        Args:
            texts: one text, or several: a list, a column of a table, a generator.
            prompt, prompt_name: put before each text: itself, or by its name in the folder
            batch_size: no effect; batches are cut by tokens
            show_progress_bar: None = of long lists, on a terminal
            output_value: "sentence_embedding", or "token_embeddings": the states of a text's tokens. [T, D] each
            precision: of the vectors: "float32", or quantized: "int8", "uint8", "binary", "ubinary"; see `quantized`
            convert_to_tensor: a tensor on the model's device, instead of an array
            convert_to_numpy: False = a list of tensors
            normalize_embeddings: to unit length
            truncate_dim: the first this many dimensions (Matryoshka)
            compute: the weights' precision in this call: "fp32", "fp16", "bf16", "int8"; `prepare` keeps it
            options: `pooling`, `truncate`, `batch_tokens` of `glassformer.engine.encoder.encode`
        Returns: float32. [N, D] for N texts, [0, D] for none; [D] for a single string.
        Raises: DataError: no texts. ConfigError: options out of range. UnsupportedError: a model of several stacks.
        """
        _refuse(pool, device, output_value, batch_size)
        for name in options:
            if name not in ENGINE_OPTIONS:
                known = [*signature(SentenceEmbedder.encode).parameters, *ENGINE_OPTIONS]
                raise UnknownOptionError(f"encode(…) takes no {safe_repr(name)}{nearest(name, known)}")
        _check_precisions(compute, precision)
        settings = self._pooling_of_call(truncate_dim, normalize=normalize_embeddings)
        named = {"prompt": prompt, "prompt_name": prompt_name, "progress": show_progress_bar, **options}
        listed = [texts] if isinstance(texts, str) else texts
        if output_value == "token_embeddings":
            tokens = self._token_embeddings(listed, settings, prompt, prompt_name)
            return tokens[0] if isinstance(texts, str) else tokens
        vectors: Any = self._embed(listed, settings, compute, named)
        vectors = vectors if precision == "float32" else quantized(vectors, precision)
        if convert_to_tensor:
            vectors = torch.from_numpy(vectors).to(self.model.device)
        elif not convert_to_numpy:
            vectors = list(torch.from_numpy(vectors))
        return vectors[0] if isinstance(texts, str) else vectors

    def _pooling_of_call(self, truncate_dim: int | None, *, normalize: bool) -> PoolingSettings:
        settings = self.model.pooling
        if not isinstance(settings, PoolingSettings):
            settings = read_pooling_settings(settings, self.model.network.POOLING)  # says what is wrong with the folder
        size = settings.truncate_dim if truncate_dim is None else truncate_dim
        if size is not None:
            check_count("truncate_dim", size)
        whole = replace(settings, truncate_dim=None).dimension(self.model.network.width)
        if truncate_dim is not None and truncate_dim > whole:
            warnings.warn(
                f"truncate_dim is {truncate_dim}; the vectors have {whole} dimensions, which are all kept", stacklevel=4
            )
        return replace(settings, truncate_dim=size, normalise_last=normalize)

    def _embed(
        self, texts: Iterable[str], settings: PoolingSettings, compute: str | None, options: Mapping[str, Any]
    ) -> np.ndarray:
        vectors = encode_texts(self.model.network, self.model.tokenizer, texts, settings, precision=compute, **options)
        self.model.check_nan(torch.from_numpy(vectors))
        return vectors

    def _token_embeddings(
        self, texts: Iterable[str], settings: PoolingSettings, prompt: str | None, prompt_name: str | None
    ) -> list[Tensor]:
        asked = settings.prompt(prompt, prompt_name)
        states = token_states(self.model.network, self.model.tokenizer, texts, settings, asked)
        return [torch.from_numpy(x).to(self.model.device) for x in states]

    def encode_query(self, /, texts: str | Iterable[str], **options: Any) -> Any:
        """`encode` with the folder's prompt for queries, if it has one."""
        return self.encode(texts, **self._with_prompt(("query",), options))

    def encode_document(self, /, texts: str | Iterable[str], **options: Any) -> Any:
        """`encode` with the folder's prompt for documents, if it has one."""
        return self.encode(texts, **self._with_prompt(PROMPTS_OF_DOCUMENTS, options))

    def _with_prompt(self, names: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
        prompts = self.model.pooling.prompts if isinstance(self.model.pooling, PoolingSettings) else {}
        name = next((name for name in names if name in prompts), None)
        given = options.get("prompt") is not None or options.get("prompt_name") is not None
        # Not the default prompt: a folder that has one for questions alone embeds documents as they are.
        return options if given else {**options, **({"prompt": ""} if name is None else {"prompt_name": name})}

    @property
    def similarity_fn_name(self) -> str:
        """How the folder compares vectors: "cosine" unless it says otherwise."""
        return self.model.pooling.similarity if isinstance(self.model.pooling, PoolingSettings) else "cosine"

    def similarity(self, a: Any, b: Any) -> Tensor:
        """How near vectors are, each of `a` to each of `b`, greater is nearer. [n, D], [m, D] → [n, m]

        Raises: DataError: something other than vectors. ConfigError: vectors of different sizes.
        """
        return SIMILARITIES[self.similarity_fn_name](*_matrices(a, b))

    def similarity_pairwise(self, a: Any, b: Any) -> Tensor:
        """How near vectors are, in pairs. [n, D], [n, D] → [n]"""
        left, right = _matrices(a, b)
        if left.shape != right.shape:
            raise ConfigError(f"pairs need as many vectors on both sides; got {list(left.shape)}, {list(right.shape)}")
        return SIMILARITIES[self.similarity_fn_name](left[:, None], right[:, None])[:, 0, 0]

    def explain_similarity(
        self,
        a: str,
        b: str,
        *,
        prompt: str | None = None,
        prompt_name: str | None = None,
        measure: str | None = None,
    ) -> SimilarityMap:
        """The similarity of two texts as a sum over pairs of their tokens: which words made it 0.79.

        Args:
            prompt, prompt_name: as in `encode`
            measure: "cosine" or "dot"; None = as the folder compares vectors
        Returns: `.cells` [A, B], whose sum is `.similarity`; `.words()`, `.shares`, `.top(10)`.
        Raises: DataError: a text without a token. UnsupportedError: several stacks; a distance; a Dense layer with a
            sigmoid. ConfigError: unknown options. WeightsError: NaN.
        """
        from glassformer.inspect.similarity import explain_similarity

        check_one_stack(self.model.network, "explain_similarity")
        settings = self._pooling_of_call(None, normalize=False)
        network, tokenizer, asked = self.model.network, self.model.tokenizer, settings.prompt(prompt, prompt_name)
        return explain_similarity(network, tokenizer, (a, b), settings, prompt=asked, measure=measure)

    def get_sentence_embedding_dimension(self) -> int:
        """D of the vectors that `encode` gives."""
        return self._pooling_of_call(None, normalize=False).dimension(self.model.network.width)

    get_embedding_dimension = get_sentence_embedding_dimension

    @property
    def max_seq_length(self) -> int | None:
        """Tokens of a text at most, special ones included; what is longer is cut. None = no limit."""
        limits = (self._pooling_of_call(None, normalize=False).max_tokens, self.model.network.max_tokens)
        return min((limit for limit in limits if limit is not None), default=None)

    @max_seq_length.setter
    def max_seq_length(self, limit: int | None) -> None:
        """Raises: ConfigError: no whole number from 1 up, or more than the network has positions for."""
        most = self.model.network.max_tokens
        if limit is not None and not is_int(limit, 1):
            raise ConfigError(f"max_seq_length is {safe_repr(limit)}; it must be a whole number from 1 up, or None")
        if limit is not None and most is not None and limit > most:
            raise ConfigError(f"max_seq_length is {limit}; the model reads {most} tokens; give at most that many")
        self.model.pooling = replace(self._pooling_of_call(None, normalize=False), max_tokens=limit, stored=True)

    # ------------------------------------------------------------------------------------------- cross-encoders

    def score(self, pairs: Iterable[Sequence[str]], *, activation: str | None = None) -> np.ndarray:
        """Scores of pairs of texts, by a classifier that reads both (cross-encoder).

        Args:
            activation: "sigmoid", "none" or, of several labels, "softmax"; None = sigmoid of a single label, else the
                logits
        Returns: float32. [N] of a single label, else [N, labels]; a number for one pair of strings.
        Raises: UnsupportedError: the model has no such head. DataError: something that is no pair.
        """
        if self.model.task != "text-classification":
            raise UnsupportedError(
                f"pairs are scored by a model for text-classification; this one was loaded for {self.model.task!r}"
            )
        given = column_as_list(pairs)
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
            raise DataError(f"pairs is {safe_repr(given)}; give a list of pairs of texts: [(query, document)]")
        listed = list(given)
        one = len(listed) == 2 and all(isinstance(text, str) for text in listed)
        rows = [listed] if one else [column_as_list(pair) for pair in listed]
        for number, pair in enumerate(rows):
            texts = pair if isinstance(pair, (list, tuple)) else ()
            if len(texts) != 2 or not all(isinstance(text, str) for text in texts):
                raise DataError(f"pair {number} is {safe_repr(pair)}; it must be two texts")
        logits = self._pair_logits([(pair[0], pair[1]) for pair in rows])
        scores = _activated(logits, activation)
        return cast("np.ndarray", scores[0] if one else scores)

    def _pair_logits(self, pairs: list[tuple[str, str]]) -> Tensor:
        """The head's logits for each pair. [N, labels]"""
        if not pairs:
            return torch.zeros(0, max(1, len(self.model.config.get("id2label") or ())))
        network, tokenizer = self.model.network, self.model.tokenizer
        limit = min(x for x in (network.max_tokens, tokenizer.model_max_length, 2**20) if x is not None)
        lengths = [sum(map(len, pair)) for pair in pairs]  # of characters: near enough to sort by
        rows: dict[int, Tensor] = {}
        for batch in plan_batches(lengths, 4 * PAIR_TOKENS):
            left, right = ([pairs[i][side] for i in batch] for side in (0, 1))
            inputs = tokenizer(left, right, padding=True, truncation=True, max_length=limit, return_tensors="pt")
            read = {name: x.to(self.model.device) for name, x in inputs.items()}
            with torch.inference_mode():
                logits = self.model(**read).logits
            rows.update(zip(batch, logits.float().cpu(), strict=True))
        return torch.stack([rows[i] for i in range(len(pairs))])

    def rank(
        self,
        /,
        query: str,
        documents: Iterable[str],
        *,
        top_k: int | None = None,
        return_documents: bool = False,
        **options: Any,
    ) -> list[dict[str, Any]]:
        """Documents by how well they answer a query, the best first: {"corpus_id", "score"}, and "text" if asked.

        A classifier of pairs reads the query with each document (cross-encoder); any other model compares the vectors
        of `encode_query` and `encode_document` (bi-encoder).

        Args:
            top_k: how many documents, the best; None = all.
            options: of `encode`, where vectors are compared.
        Raises: as `score` or `encode`; UnsupportedError: the head has several labels. ConfigError: `top_k` below 1.
        """
        if top_k is not None:
            check_count("top_k", top_k)
        documents = check_texts(documents)
        if self.model.task == "text-classification":
            if options:
                raise ConfigError(f"{min(options)} is for models that compare vectors; this one reads pairs of texts")
            scores = self.score([(query, document) for document in documents])
            if scores.ndim > 1:
                raise UnsupportedError(f"a ranking needs one score a pair; this model has {scores.shape[1]} labels")
        else:
            (query,) = check_texts([query])
            vectors = self.encode_query([query], **options), self.encode_document(documents, **options)
            scores = self.similarity(*vectors)[0].numpy()
        order = np.argsort(-scores, kind="stable")[:top_k]
        texts = [{"text": documents[i]} if return_documents else {} for i in order]
        return [{"corpus_id": int(i), "score": float(scores[i]), **text} for i, text in zip(order, texts, strict=True)]


def _refuse(pool: Any, device: Any, output_value: str, batch_size: int | None) -> None:
    """Raises: UnsupportedError, ConfigError: unknown arguments, or ones that are set elsewhere."""
    if output_value not in ("sentence_embedding", "token_embeddings"):
        raise ConfigError(
            f"output_value is {safe_repr(output_value)}; it must be 'sentence_embedding' or 'token_embeddings'"
        )
    if batch_size is not None:
        check_count("batch_size", batch_size)
    if pool is not None:
        raise UnsupportedError("pool= would start processes; one uses all cores already: leave it out")
    if device is not None:
        raise ConfigError("the device is set by model.to(device), or load(…, device=…)")


def _check_precisions(compute: str | None, precision: str) -> None:
    """Raises: ConfigError: an unknown precision of the weights (`compute`) or of the vectors (`precision`)."""
    if precision not in QUANTIZED:
        weights = precision in PRECISIONS
        meant = f"; for the weights write compute={precision!r}" if weights else nearest(str(precision), QUANTIZED)
        raise ConfigError(f"precision is {safe_repr(precision)}{meant}; allowed: {', '.join(QUANTIZED)}")
    if compute is not None and compute not in PRECISIONS:
        raise ConfigError(f"compute is {safe_repr(compute)}; allowed: {', '.join(PRECISIONS)}")


def quantized(vectors: np.ndarray, precision: str, *, ranges: np.ndarray | None = None) -> np.ndarray:
    """Quantized vectors: fewer bytes for an index, at some cost in accuracy. [N, D]

    Args:
        precision: "int8", "uint8": 256 steps between the extremes of each dimension; "binary", "ubinary": whether a
            number is above 0, eight of them in a byte [N, D / 8]
        ranges: the smallest and the largest number of each dimension [2, D]; None = of these vectors
    """
    if precision in ("binary", "ubinary"):
        packed = np.packbits(vectors > 0, axis=-1)
        return packed if precision == "ubinary" else (packed.astype(np.int16) - 128).astype(np.int8)
    if len(vectors) < 100 and ranges is None:
        warnings.warn(
            f"the range of each dimension is that of {len(vectors)} vectors; quantize 100 or more together",
            stacklevel=4,
        )
    if ranges is None:
        none = np.zeros(vectors.shape[1])
        ranges = np.stack([vectors.min(axis=0), vectors.max(axis=0)] if len(vectors) else [none, none])
    low, high = ranges[:1], ranges[1:]
    step = np.maximum(high - low, 1e-12) / 255
    steps: np.ndarray = np.floor((vectors - low) / step).clip(0, 255)  # down, not towards zero: every step is as wide
    return steps.astype(np.uint8) if precision == "uint8" else (steps - 128).astype(np.int8)


def _activated(logits: Tensor, activation: str | None) -> np.ndarray:
    single = logits.shape[-1] == 1
    name = activation or ("sigmoid" if single else "none")
    if name not in ACTIVATIONS:
        raise ConfigError(f"activation is {safe_repr(activation)}; allowed: {', '.join(ACTIVATIONS)}")
    scores = ACTIVATIONS[name](logits)
    return np.asarray(scores[:, 0] if single else scores)


def _matrices(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Both sides as vectors of one size, on the device of the first. [n, D], [m, D]"""
    left, right = _matrix(a), _matrix(b)
    if left.shape[1] != right.shape[1]:
        raise ConfigError(
            f"vectors of {left.shape[1]} and of {right.shape[1]} dimensions cannot be compared; give vectors of one "
            "model, cut to one truncate_dim"
        )
    return left, right.to(left.device)


def _matrix(vectors: Any) -> Tensor:
    """Vectors as rows; one vector is a row. [n, D]"""
    try:
        several = isinstance(vectors, (list, tuple)) and len(vectors) > 0 and isinstance(vectors[0], Tensor)
        array = torch.stack(list(vectors)) if several else vectors
        x = (array if isinstance(array, Tensor) else torch.as_tensor(np.asarray(array))).float()
    except (TypeError, ValueError, RuntimeError):
        raise DataError(f"{safe_repr(vectors)} holds no vectors of numbers; give what encode gives: [n, D]") from None
    if x.dim() not in (1, 2):
        raise DataError(f"vectors have the shape {list(x.shape)}; give one vector [D], or several [n, D]")
    return x[None] if x.dim() == 1 else x
