"""A tokenizer learned from a corpus: the pieces, and around them all that a family's tokenizer has.

    byte-bpe    bytes, merged pair by pair        GPT-2, RoBERTa, BART, Llama 3: nothing is ever unknown
    wordpiece   letters, merged within words      BERT and its kin
    unigram     likely pieces of words            T5, XLM-R, PEGASUS, Marian

The same corpus gives the same file, byte for byte. The engine merges, but numbers the smallest pieces as they come out
of a hash table, and breaks ties by those numbers. So a first reading of the corpus finds them, and for the second they
are given in order. Special tokens that stand in texts are no part of what is learned.

Sources: Sennrich et al. 2016, section 3.2; Radford et al. 2019, section 2.2; Devlin et al. 2019, section 3; Kudo 2018.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers, trainers

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.text.engine import guarded
from glassformer.text.frame import frame
from glassformer.text.plan import Plan, anew, fresh
from glassformer.text.sentencepiece import MARKER
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.unigram import train as train_unigram

SEEN_TWICE = 2  # merges of what came only once would learn noise
BYTES = 256
NOTHING = r"(?!)"  # a pattern that is nowhere
AT_ONCE = 1_000  # texts handed to the engine together
BYTE = re.compile(r"<0x[0-9A-F]{2}>")


def train_tokenizer(
    texts: Iterable[str],
    *,
    kind: str | None = None,
    size: int = 8_000,
    family: str | None = None,
    special: Sequence[str] = (),
    lower: bool = False,
    like: Path | str | None = None,
) -> Tokenizer:
    """Learn a tokenizer from texts.

        glassformer.train_tokenizer(open("corpus.txt"), kind="wordpiece", size=8_000).save("my-tokenizer")

    Args:
        texts: gone through twice; what can be gone through only once, such as an open file, is kept in memory.
        kind: "byte-bpe", "wordpiece" or "unigram" · size: tokens, special ones included.
        family: whose special tokens it has, and where they stand around a text: "bert", "t5", … Default: BERT's for
            wordpiece, GPT-2's for byte-bpe, XLM-R's for unigram.
        special: more tokens that are never cut · lower: whether capitals are made small.
        like: the folder of a tokenizer: the same kind, the same steps before it, the same special tokens, learned anew.

    Raises:
        ConfigError: options that are unknown or do not fit each other; a size below the alphabet's.
        DataError: no text, or too little for so many tokens: how many there can be.
    """
    if like is not None:
        if kind or family or lower:
            raise ConfigError("like= says kind, family and lower= itself; leave them out, or leave out like=")
        plan = anew(Path(like))
    else:
        plan = fresh(kind or "byte-bpe", family, lower)
    more = tuple(AddedToken(token, special=True, normalized=False) for token in dict.fromkeys(special))
    known = {token.content for token in plan.tokens}
    plan = replace(plan, tokens=(*plan.tokens, *(token for token in more if token.content not in known)))
    corpus = _Corpus(texts, [token.content for token in plan.tokens])
    return _assembled(plan, _model(plan, corpus, size))


@dataclass(frozen=True, slots=True)
class Coverage:
    """How a tokenizer cuts texts. texts, words, tokens: how many · unknown: of the tokens"""

    texts: int
    words: int
    tokens: int
    unknown: int

    @property
    def tokens_per_word(self) -> float:
        """1 where every word is a token; words are what stands between spaces."""
        return self.tokens / max(self.words, 1)

    @property
    def unknown_share(self) -> float:
        """The share of tokens that stand for something unknown."""
        return self.unknown / max(self.tokens, 1)


def coverage(tokenizer: Tokenizer, texts: Iterable[str]) -> Coverage:
    """Cut texts, and count. Special tokens around them are left out."""
    found = [0, 0, 0, 0]
    # GPT-2's files call their end-of-text token unknown too, but to bytes nothing is.
    unknown = None if tokenizer.unk_token == tokenizer.eos_token else tokenizer.unk_token_id
    for batch in _batches(texts):
        rows = tokenizer(batch, add_special_tokens=False)["input_ids"]
        found[0] += len(batch)
        found[1] += sum(len(text.split()) for text in batch)
        found[2] += sum(map(len, rows))
        found[3] += 0 if unknown is None else sum(row.count(unknown) for row in rows)
    return Coverage(*found)


# ── what is to be learned ────────────────────────────────────────────────────────────────────────────────


class _Corpus:
    """Texts in batches, any number of times, without the whole tokens that stand in them."""

    def __init__(self, texts: Iterable[str], whole: Iterable[str]) -> None:
        if isinstance(texts, (str, bytes)):
            raise DataError("texts must be several texts, not one; for the lines of a file, open it")
        self._texts = list(texts) if isinstance(texts, Iterator) else texts
        longest_first = sorted(whole, key=len, reverse=True)
        self._whole = re.compile("|".join(map(re.escape, longest_first)) or NOTHING)

    def __iter__(self) -> Iterator[list[str]]:
        for number, batch in enumerate(_batches(self._texts)):
            for place, text in enumerate(batch, start=number * AT_ONCE):
                if not isinstance(text, str):
                    raise DataError(f"text {place} is {type(text).__name__}, not a text: {text!r:.60}")
                try:
                    text.encode("utf-8")
                except UnicodeEncodeError as error:
                    raise DataError(
                        f"text {place} holds {text[error.start]!r} at character {error.start}, half of a surrogate "
                        "pair, which is no valid Unicode; repair it, or leave it out"
                    ) from None
            yield [self._whole.sub(" ", text) for text in batch]


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    stream = iter(texts)
    while batch := list(islice(stream, AT_ONCE)):
        yield batch


# ── learning ─────────────────────────────────────────────────────────────────────────────────────────────


def _model(plan: Plan, corpus: _Corpus, size: int) -> dict[str, Any]:
    """The model as a tokenizer's file has it, its vocabulary learned."""
    model = plan.written["model"]
    fixed = [token.content for token in plan.tokens]
    if model.get("byte_fallback"):
        old = plan.engine.get_vocab(False)
        fixed += sorted((t for t in old if BYTE.fullmatch(t) and t not in fixed), key=old.__getitem__)
    learner = _bare(plan, model)
    if model["type"] == "Unigram":
        return _learned_unigram(plan, learner, corpus, size, model, fixed)
    if not any(text.strip() for batch in corpus for text in batch):
        letters = []
    elif '"ByteLevel"' in json.dumps(plan.written["pre_tokenizer"]):
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    else:
        letters = sorted(_trained(learner, model, corpus, 0, fixed)["vocab"].keys() - set(fixed))
    _check_alphabet(len(letters), len(fixed), size)
    found = _trained(learner, model, corpus, size, [*fixed, *letters])
    _check_reached(len(found["vocab"]), size)
    vocabulary = dict(sorted(found["vocab"].items(), key=lambda item: item[1]))
    return {**model, "vocab": vocabulary, **({"merges": found["merges"]} if "merges" in found else {})}


def _bare(plan: Plan, model: dict[str, Any]) -> tokenizers.Tokenizer:
    """The steps before the pieces, with a model that has none yet."""
    empty = models.WordPiece(unk_token=model["unk_token"]) if model["type"] == "WordPiece" else models.BPE()
    bare = tokenizers.Tokenizer(empty)
    bare.normalizer = plan.engine.normalizer
    cut = plan.engine.pre_tokenizer
    if cut is None or (isinstance(cut, pre_tokenizers.Metaspace) and not cut.split):
        cut = pre_tokenizers.Split(MARKER, "merged_with_next")  # used on whole texts, but learned from words
    bare.pre_tokenizer = cut
    return bare


def _trained(
    learner: tokenizers.Tokenizer, model: dict[str, Any], corpus: _Corpus, size: int, first: Sequence[str]
) -> dict[str, Any]:
    """The engine's own training. first: tokens in the order of their ids; with size 0, the alphabet alone is found."""
    marks = {
        "continuing_subword_prefix": model.get("continuing_subword_prefix"),
        "end_of_word_suffix": model.get("end_of_word_suffix"),
    }
    options: dict[str, Any] = {name: mark for name, mark in marks.items() if mark}
    how = trainers.WordPieceTrainer if model["type"] == "WordPiece" else trainers.BpeTrainer
    trainer = how(
        vocab_size=size,
        min_frequency=SEEN_TWICE,
        special_tokens=list(first),
        show_progress=False,
        **options,
    )
    learner = tokenizers.Tokenizer.from_str(learner.to_str())  # the special tokens it is given stay with it
    guarded("the corpus cannot be learned from", learner.train_from_iterator, corpus, trainer)
    found: dict[str, Any] = json.loads(learner.to_str())["model"]
    return found


def _learned_unigram(
    plan: Plan,
    learner: tokenizers.Tokenizer,
    corpus: _Corpus,
    size: int,
    model: dict[str, Any],
    fixed: list[str],
) -> dict[str, Any]:
    unknown = plan.settings.roles.get("unk")
    if unknown not in fixed:
        raise UnsupportedError("this tokenizer names no token for what is unknown, which unigram pieces need")
    words = _words(learner, corpus)
    letters = {letter for word in words for letter in word} - set(fixed)
    _check_alphabet(len(letters), len(fixed), size)
    pieces = [found for found in train_unigram(words, size - len(fixed)) if found[0] not in fixed]
    _check_reached(len(pieces) + len(fixed), size)
    return {
        **model,
        "unk_id": fixed.index(unknown),
        "vocab": [*([token, 0.0] for token in fixed), *map(list, pieces)],
    }


def _words(learner: tokenizers.Tokenizer, corpus: _Corpus) -> Counter[str]:
    """How often each word comes, as the steps before the pieces write and cut it."""
    clean, cut = learner.normalizer, learner.pre_tokenizer
    words: Counter[str] = Counter()
    for batch in corpus:
        for text in batch:
            text = text if clean is None else guarded("a text cannot be read", clean.normalize_str, text)
            words.update(word for word, _ in guarded("a text cannot be cut", cut.pre_tokenize_str, text))
    return words


def _check_alphabet(letters: int, fixed: int, size: int) -> None:
    if not letters:
        raise DataError("the corpus holds no text to learn from; give files with some")
    if size < letters + fixed:
        raise ConfigError(
            f"size is {size:,}, but the alphabet has {letters:,} letters or bytes, and there are {fixed:,} "
            f"special tokens; give a size above {letters + fixed:,}"
            + (", or take byte-bpe" if letters > BYTES else "")
        )


def _check_reached(got: int, size: int) -> None:
    if got < size:
        raise DataError(
            f"the corpus makes {got:,} tokens, not {size:,}: no other part comes twice; give more text, or size {got:,}"
        )


# ── putting it together ──────────────────────────────────────────────────────────────────────────────────


def _assembled(plan: Plan, model: dict[str, Any]) -> Tokenizer:
    ids = (
        {piece: number for number, (piece, _) in enumerate(model["vocab"])}
        if model["type"] == "Unigram"
        else model["vocab"]
    )
    written = {**plan.written, "model": model, "added_tokens": [], "truncation": None, "padding": None}
    written["post_processor"] = _renumbered(written["post_processor"], ids)
    engine = guarded("the parts do not fit each other", tokenizers.Tokenizer.from_str, json.dumps(written))
    behind = (AddedToken(token, special=True, normalized=False) for token in plan.behind)
    engine.add_tokens([*plan.tokens, *behind])
    if plan.family is not None:
        frame(engine, replace(plan.settings, kind=plan.family), Path())
    return Tokenizer(engine, plan.settings)


def _renumbered(part: Any, ids: dict[str, int]) -> Any:
    """A post-processor with the new ids of the tokens that it puts around a text.

    {"id": "[CLS]", "ids": [101], "tokens": ["[CLS]"]}  ->  ids [2]        "cls": ["[CLS]", 101]  ->  ["[CLS]", 2]
    """
    if isinstance(part, list):
        return [_renumbered(each, ids) for each in part]
    if not isinstance(part, dict):
        return part
    if "ids" in part and "tokens" in part:
        return {**part, "ids": [ids[token] for token in part["tokens"]]}
    return {
        key: [value[0], ids[value[0]]]
        if key in ("cls", "sep") and isinstance(value, list)
        else _renumbered(value, ids)
        for key, value in part.items()
    }
