"""Embedding of passages and questions by a sentence encoder, as the settings of a store say."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

import numpy as np

from glassformer.engine.pooling import PoolingSettings
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.inspect.token_match import TokenVectors, token_vectors
from glassformer.model import Model
from glassformer.retrieval.options import PASSAGE_TOKENS, StoreOptions
from glassformer.retrieval.store import StoreSettings
from glassformer.retrieval.vectors import unit
from glassformer.retrieval.words import stemmer_version
from glassformer.sentence_embeddings import PROMPTS_OF_DOCUMENTS

PROBE = "A lighthouse keeper writes the weather of each day into a book."
LEAST_COSINE = 0.99
"""Of two vectors of the probe by one model: an int8 copy of MiniLM has 0.995 or more, another model some 0.1."""


class PassageEmbedder:
    """A model that embeds passages and questions for one store.

    Args:
        settings: of the store
    Raises: ConfigError: the store was made by another model.
    """

    def __init__(self, model: Model, settings: StoreSettings) -> None:
        self.model, self.settings = model, settings
        probe, stored = self.query(PROBE), np.array(settings.probe, np.float32)
        lengths = float(np.linalg.norm(probe) * np.linalg.norm(stored)) if probe.shape == stored.shape else 0.0
        if not lengths or float(probe @ stored) / lengths < LEAST_COSINE:
            raise ConfigError(
                f"the store was made with {settings.model!r}, and this model embeds a sentence in another way; give "
                "the model, revision, pooling and prompts that it was made with, or index the folder again with this "
                "one: the old passages answer until that is done"
            )

    def passages(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of passages, by the prompt for documents. [n, D] float16"""
        vectors = self.model.encode_document(list(texts), progress=False)
        return self._stored(vectors).astype(np.float16)

    def groups(self, groups: Iterable[list[str]]) -> Iterator[np.ndarray]:
        """The vectors of each group of passages, in their order. [n, D] float16"""
        for texts in groups:
            yield self.passages(texts) if texts else np.empty((0, self.settings.width), np.float16)

    def query(self, question: str) -> np.ndarray:
        """The vector of a question, by the prompt for queries. [D] float32"""
        with _cut_silently():
            vector: np.ndarray = self._stored(np.asarray(self.model.encode_query([question])))[0]
        return vector

    def cut_note(self, question: str) -> str:
        """That a question is longer than what the model reads; "" = it is not."""
        limit = self.model.max_seq_length
        if limit is None or not self.model.tokenizer.batch_ids([self._prompt(("query",)) + question], limit)[1]:
            return ""
        return f"the question was cut to the {limit} tokens that the model reads; words are searched beyond them too"

    def question_tokens(self, question: str) -> TokenVectors:
        """The vectors of the tokens of a question."""
        with _cut_silently():
            return self._tokens([question], ("query",))[0]

    def passage_tokens(self, texts: Sequence[str]) -> list[TokenVectors]:
        """The vectors of the tokens of passages."""
        return self._tokens(texts, PROMPTS_OF_DOCUMENTS)

    def _tokens(self, texts: Sequence[str], prompt_names: Sequence[str]) -> list[TokenVectors]:
        settings = self.model.pooling
        if not isinstance(settings, PoolingSettings):
            raise UnsupportedError("late interaction reads the vectors of tokens; this model pools in a way of its own")
        return token_vectors(
            self.model.network, self.model.tokenizer, texts, settings, self._prompt(prompt_names)
        )  # fmt: skip

    def _prompt(self, names: Sequence[str]) -> str:
        """The prompt of the first of these names that the model has; "" = it has none."""
        settings = self.model.pooling
        prompts = settings.prompts if isinstance(settings, PoolingSettings) else {}
        return next((prompts[name] for name in names if name in prompts), "")

    def _stored(self, vectors: np.ndarray) -> np.ndarray:
        return unit(vectors) if self.settings.similarity == "cosine" else vectors


@contextmanager
def _cut_silently() -> Iterator[None]:
    """Without the warning that a question was cut, which `PassageEmbedder.cut_note` says."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 of 1 texts were cut")
        yield


def unloadable(model: str, problem: DataError | ConfigError, by_words: str) -> DataError:
    """The error where the model of a store is not where it was.

    Args:
        by_words: the option that does without it
    """
    return DataError(
        f"the store was made with the model {model}, which cannot be loaded: {problem}; where it was moved, give its "
        f"folder: model= FOLDER; {by_words} searches by words alone"
    )


def settings_of(options: StoreOptions, model: Model | None, revision: str | None = None) -> StoreSettings:
    """The settings of a new store.

    Args:
        options: its passages
        model: embeds them; None = search by words alone
    Raises:
        UnsupportedError: a model whose vectors are compared by their distance
        ConfigError: an unknown language, or passages longer than the texts that the model embeds
    """
    settings = StoreSettings(
        model=options.model, revision=revision, size=options.size or PASSAGE_TOKENS, overlap=options.overlap,
        language=options.language, stemmer=stemmer_version(options.language),
    )  # fmt: skip
    if model is None:
        return replace(settings, model=None)
    measures: dict[str, Literal["cosine", "dot"]] = {"cosine": "cosine", "dot": "dot"}
    if (similarity := measures.get(model.similarity_fn_name)) is None:
        raise UnsupportedError(
            f"the model compares vectors by {model.similarity_fn_name}; a store compares them by cosine or dot product"
        )
    limit = model.max_seq_length
    if limit is not None and (options.size or 0) > limit:  # the rest of each would not be embedded
        raise ConfigError(
            f"size={options.size} is more than the {limit} tokens that the model embeds; give {limit} or less"
        )
    prompts = model.pooling.prompts if isinstance(model.pooling, PoolingSettings) else {}
    prompt = next((prompts[name] for name in PROMPTS_OF_DOCUMENTS if name in prompts), "")
    vector = np.asarray(model.encode_query([PROBE]))
    vector = unit(vector) if similarity == "cosine" else vector
    return replace(
        settings, size=options.size or min(PASSAGE_TOKENS, limit or PASSAGE_TOKENS), width=vector.shape[1],
        similarity=similarity, prompt=prompt, probe=[round(float(x), 5) for x in vector[0]],
        model=options.model or (None if model.folder is None else str(model.folder)),
    )  # fmt: skip
