"""Contextual embeddings: every occurrence of a word in texts, and its hidden states at every layer.

    texts ──find──> (sentence, characters) ──tokenizer offsets──> tokens ──one pass a text──> states [levels, N, D]
                                                                    └─ rows of the embedding table: static [N, D]

A word that is cut into pieces is the mean of its pieces. Of a model of L layers there are L + 1 levels: the embeddings,
and the output of each block, the last behind the final norm.

Source: Ethayarajh 2019, "How contextual are contextualized word representations?"
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np

from glassformer.engine.encoder import check_texts
from glassformer.errors import ConfigError, DataError
from glassformer.files import counted, safe_repr
from glassformer.inspect.embeddings.contextual import POOLINGS, ContextualEmbeddings, Occurrence
from glassformer.inspect.embeddings.hidden_states import HiddenStates, Progress
from glassformer.loaded_model import LoadedModel

LIMIT_BYTES = 2 << 30
"""RAM that the states of all levels may take."""


def embed_words(
    model: LoadedModel,
    texts: Iterable[str],
    word: str,
    *,
    labels: Sequence[str] | None = None,
    whole_word: bool = True,
    ignore_case: bool = True,
    pooling: str = "word",
    token_type: int | None = None,
    limit_bytes: int = LIMIT_BYTES,
    seed: int = 0,
    progress: Progress | None = None,
) -> ContextualEmbeddings:
    """Contextual embeddings of every occurrence of a word, at every level of the model.

        found = embed_words(model, titles, "adoption")
        found.vectors("sum"), found.items       sums of the last four layers [N, D], and which occurrence each is

    A text that is longer than the model reads is read in windows of 128 tokens: each occurrence in the middle one.

    Args:
        labels: a label of each text, such as the true sense
        whole_word: not inside another word
        ignore_case: find "Adoption" as well
        pooling: "word": the mean of its pieces; "first": the text's first token, such as [CLS]; "mean": of all tokens
        token_type: segment id of all tokens; None = as the tokenizer says, which is 0 for a single text
        limit_bytes: of RAM for all states
        seed: of the sample of other tokens
        progress: (texts done, all)
    Raises: DataError: the word does not occur, labels of other texts, or too many occurrences for the limit.
        UnsupportedError: a model that does not read text in one stack. WeightsError: the states are NaN.
    """
    listed = check_texts(texts)
    check_pooling(pooling, POOLINGS)
    occurrences = find_word(listed, word, whole_word=whole_word, ignore_case=ignore_case)
    if not occurrences:
        raise DataError(_absent(listed, word, whole_word, ignore_case))
    runner = HiddenStates(model, token_type, limit_bytes)
    rows, items = runner.rows(listed, occurrences)
    chosen, contexts = runner.sample(rows, np.random.default_rng(seed)) if pooling == "word" else ([], [])
    states, static = runner.run(rows, len(items), pooling, chosen, progress)
    return ContextualEmbeddings(
        word=word,
        texts=listed,
        items=items,
        labels=_labels(labels, listed, items),
        states=states[:, : len(items)],
        static=static,
        pooling=pooling,
        baseline=states[:, len(items) :],
        baseline_texts=np.array(contexts, dtype=np.int64),
    )


def embed_texts(
    model: LoadedModel,
    texts: Iterable[str],
    *,
    labels: Sequence[str] | None = None,
    pooling: str | None = None,
    token_type: int | None = None,
    limit_bytes: int = LIMIT_BYTES,
    progress: Progress | None = None,
) -> ContextualEmbeddings:
    """Embeddings of whole texts at every level of the model: the mean of their tokens, or their first one.

    Args:
        pooling: "mean" or "first"; None = as the network pools where its folder says nothing
        others: as `embed_words`
    Raises: DataError: no texts, or too many for the limit. Else as `embed_words`.
    """
    listed = check_texts(texts)
    if not listed:
        raise DataError("there are no texts to embed; give at least one")
    pooling = pooling or ("first" if model.network.POOLING == "cls" else "mean")
    check_pooling(pooling, POOLINGS[1:])
    runner = HiddenStates(model, token_type, limit_bytes)
    whole = [Occurrence(sentence, 0, 0, len(text), text) for sentence, text in enumerate(listed)]
    rows, items = runner.whole_rows(listed, whole)
    states, static = runner.run(rows, len(items), pooling, [], progress)
    return ContextualEmbeddings(
        word=None,
        texts=listed,
        items=items,
        labels=_labels(labels, listed, items),
        states=states,
        static=static,
        pooling=pooling,
        baseline=states,
        baseline_texts=np.arange(len(items)),
    )


def find_word(
    texts: Sequence[str], word: str, *, whole_word: bool = True, ignore_case: bool = True
) -> list[Occurrence]:
    """Every occurrence of a word, by text and characters; positions are those of no tokenizer yet: 0.

    Raises: DataError: the word is empty.
    """
    if not isinstance(word, str) or not word.strip():
        raise DataError(f"the word is {safe_repr(word)}; give at least one character that is no space")
    word = word.strip()
    pattern = re.escape(word)
    if whole_word:  # next to a character that is no letter, such as the + of C++, there is no boundary to look for
        pattern = (
            (r"(?<!\w)" if re.match(r"\w", word) else "") + pattern + (r"(?!\w)" if re.search(r"\w$", word) else "")
        )
    matcher = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    return [
        Occurrence(sentence, 0, match.start(), match.end(), match.group())
        for sentence, text in enumerate(texts)
        for match in matcher.finditer(text)
    ]


def check_pooling(pooling: str, allowed: Sequence[str]) -> None:
    """Raises: ConfigError: no such pooling."""
    if pooling not in allowed:
        raise ConfigError(f"pooling is {safe_repr(pooling)}; allowed: {', '.join(allowed)}")


def _absent(texts: Sequence[str], word: str, whole_word: bool, ignore_case: bool) -> str:
    hints = []
    if whole_word and (inside := find_word(texts, word, whole_word=False, ignore_case=ignore_case)):
        hints.append(
            f"inside other words it does, {len(inside):,} times: whole_word=False (--part-of-word) finds those"
        )
    if not ignore_case and (other := find_word(texts, word, whole_word=whole_word)):
        hints.append(f"in another case it does, {len(other):,} times: ignore_case=True finds those")
    what = f"the word {safe_repr(word)} does not occur in {counted(len(texts), 'text')}"
    return f"{what}; {'; '.join(hints) or 'look at its spelling, or take another word or other texts'}"


def _labels(labels: Sequence[str] | None, texts: Sequence[str], items: Sequence[Occurrence]) -> list[str] | None:
    if labels is None:
        return None
    if isinstance(labels, str) or len(labels) != len(texts):
        raise DataError(f"there are {len(labels):,} labels for {len(texts):,} texts; give one for each text")
    return [str(labels[item.sentence]) for item in items]
