"""Train a tokenizer on a corpus: byte-level BPE, WordPiece, Unigram, words, characters; special tokens.

    byte-bpe    bytes, merged pair by pair        GPT-2, RoBERTa, BART, Llama 3: nothing is ever unknown
    wordpiece   letters, merged within words      BERT and its kin
    unigram     probable pieces of words          T5, XLM-R, PEGASUS, Marian
    words       whole words, the frequent ones    before subwords: every other word is unknown
    characters  each character of the corpus      character-level models; letters of recognisers (CTC)

The same corpus gives the same file, byte for byte. The engine's trainer numbers the alphabet in the order of a hash
table, and breaks ties by those numbers. So a first pass over the corpus collects the alphabet, and the second pass gets
it sorted. Special tokens that occur in texts are left out of training.

Sources: Sennrich et al. 2016, section 3.2; Radford et al. 2019, section 2.2; Devlin et al. 2019, section 3; Kudo 2018.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import tokenizers
from tokenizers import AddedToken, models, pre_tokenizers, trainers

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.files.atomic import write_json
from glassformer.files.schema import at_least, check
from glassformer.text import characters
from glassformer.text.build import add_post_processor
from glassformer.text.coverage import BATCH_SIZE, batches, frequent_words
from glassformer.text.engine import guarded
from glassformer.text.sentencepiece import SPACE_MARKER
from glassformer.text.settings import normalized_name
from glassformer.text.tokenizer import Tokenizer
from glassformer.text.unigram import train_unigram
from glassformer.text.untrained import UntrainedTokenizer, untrained_for_family, untrained_like

MIN_FREQUENCY = 2  # merges of pairs that occur once would fit noise
BYTE_COUNT = 256  # an alphabet of bytes has no more
MAX_COUNT = 2**31 - 1  # token ids and counts have 32 bits
NEVER_MATCHES = r"(?!)"  # a pattern without matches
BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")


def train_tokenizer(
    texts: Iterable[str],
    *,
    kind: str | None = None,
    size: int = 8_000,
    family: str | None = None,
    special: Sequence[str] = (),
    lower: bool = False,
    strip_accents: bool = False,
    min_frequency: int | None = None,
    like: Tokenizer | Path | str | None = None,
    at_most: bool = False,
) -> Tokenizer:
    """Train a tokenizer on texts.

        glassformer.train_tokenizer(open("corpus.txt"), kind="wordpiece", size=8_000).save("my-tokenizer")

    Args:
        texts: iterated twice; an iterator, such as an open file, is read into memory first.
        kind: "byte-bpe" (the default), "wordpiece", "unigram", "words" or "characters".
        size: vocabulary size in tokens, special ones included; for words and characters the largest one, of the most
            frequent.
        family: whose special tokens and post-processor it gets: "bert", "t5", … Default: BERT's for wordpiece and
            words, GPT-2's for byte-bpe, XLM-R's for unigram, Llama's for characters. Characters of a family of
            recognisers ("wav2vec2") are letters with a blank and `|` between words, for CTC, without other options.
        special: more special tokens
        lower: lower-case all text
        strip_accents: é as e, as BERT's uncased models do.
        min_frequency: how often a word, a character or a pair to merge has to occur; default 1, and 2 for pairs.
        like: a tokenizer or its folder, to train one of the same kind, pipeline, special tokens and chat template.
        at_most: take fewer tokens than `size` where the texts make no more.

    Raises:
        ConfigError: options that are unknown or do not fit each other; a size below the alphabet's.
        DataError: no text, or too little for this size; the message gives the largest possible one.
    """
    if kind == "characters" and family is not None and normalized_name(family) in characters.FAMILIES:
        return _train_letters(texts)
    if like is not None:
        if kind or family or lower or strip_accents:
            raise ConfigError(
                "like= already determines kind, family, lower= and strip_accents=; leave them out, or leave out like="
            )
        untrained = untrained_like(like if isinstance(like, Tokenizer) else Tokenizer.from_folder(like))
    else:
        untrained = untrained_for_family(kind or "byte-bpe", family, lower=lower, strip_accents=strip_accents)
    more = tuple(AddedToken(token, special=True, normalized=False) for token in dict.fromkeys(special))
    known = {token.content for token in untrained.added_tokens}
    untrained = replace(
        untrained,
        added_tokens=(*untrained.added_tokens, *(token for token in more if token.content not in known)),
    )
    corpus = _Corpus(texts, [token.content for token in untrained.added_tokens])
    return _assemble(untrained, _train_model(untrained, corpus, size, min_frequency, at_most))


def _train_letters(texts: Iterable[str]) -> Tokenizer:
    """The tokenizer of a speech recogniser: blank, unknown letter, `|` between words, and the letters of the texts."""
    letters = sorted({letter for text in texts for letter in text if not letter.isspace()} - {"|"})
    if not letters:
        raise DataError("the texts hold no letter; a vocabulary of characters is made of those of transcripts")
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<s>", "</s>", "<unk>", "|", *letters])}
    with TemporaryDirectory() as folder:
        write_json(Path(folder) / "vocab.json", vocabulary)
        write_json(Path(folder) / "tokenizer_config.json", {"tokenizer_class": "Wav2Vec2CTCTokenizer"})
        return Tokenizer.from_folder(Path(folder), model_type="wav2vec2")


# ── the corpus ───────────────────────────────────────────────────────────────────────────────────────────


class _Corpus:
    """Texts in batches, iterable several times, without the added tokens that occur in them."""

    def __init__(self, texts: Iterable[str], added_tokens: Iterable[str]) -> None:
        if isinstance(texts, (str, bytes)):
            raise DataError("texts must be several texts, not one; for the lines of a file, open it")
        self._texts = list(texts) if isinstance(texts, Iterator) else texts
        longest_first = sorted(added_tokens, key=len, reverse=True)
        self._added_tokens = re.compile("|".join(map(re.escape, longest_first)) or NEVER_MATCHES)

    def __iter__(self) -> Iterator[list[str]]:
        for number, batch in enumerate(batches(self._texts)):
            for index, text in enumerate(batch, start=number * BATCH_SIZE):
                if not isinstance(text, str):
                    raise DataError(f"text {index} is {type(text).__name__}, not a text: {text!r:.60}")
                try:
                    text.encode("utf-8")
                except UnicodeEncodeError as error:
                    raise DataError(
                        f"text {index} holds {text[error.start]!r} at character {error.start}, half of a surrogate "
                        "pair, which is no valid Unicode; repair it, or leave it out"
                    ) from None
            yield [self._added_tokens.sub(" ", text) for text in batch]


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────


def _train_model(
    untrained: UntrainedTokenizer, corpus: _Corpus, size: int, min_frequency: int | None, at_most: bool
) -> dict[str, Any]:
    """The trained model, as the JSON of a `tokenizer.json`."""
    model = untrained.engine_json["model"]
    _check_size(size)
    _check_min_frequency(min_frequency, model["type"])
    fixed = [token.content for token in untrained.added_tokens]
    if model.get("byte_fallback"):
        old = untrained.engine.get_vocab(False)
        fixed += sorted((t for t in old if BYTE_TOKEN.fullmatch(t) and t not in fixed), key=old.__getitem__)
    pipeline = _pre_tokenizing_engine(untrained, model)
    if model["type"] == "WordLevel":
        words = _frequent_words(_count_words(pipeline, corpus), size - len(fixed), min_frequency or 1)
        return {**model, "vocab": {token: number for number, token in enumerate(dict.fromkeys([*fixed, *words]))}}
    if model["type"] == "Unigram":
        return _train_unigram_model(untrained, pipeline, corpus, size, model, fixed, at_most)
    if not any(text.strip() for batch in corpus for text in batch):
        letters = []
    elif '"ByteLevel"' in json.dumps(untrained.engine_json["pre_tokenizer"]):
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    else:
        letters = sorted(_train_in_engine(pipeline, model, corpus, 0, fixed)["vocab"].keys() - set(fixed))
    _check_alphabet(len(letters), len(fixed), size)
    trained = _train_in_engine(pipeline, model, corpus, size, [*fixed, *letters], min_frequency or MIN_FREQUENCY)
    if not at_most:
        _check_vocabulary_size(len(trained["vocab"]), size)
    vocabulary = dict(sorted(trained["vocab"].items(), key=lambda item: item[1]))
    return {**model, "vocab": vocabulary, **({"merges": trained["merges"]} if "merges" in trained else {})}


def _pre_tokenizing_engine(untrained: UntrainedTokenizer, model: dict[str, Any]) -> tokenizers.Tokenizer:
    """The normaliser and pre-tokenizer, with an empty model."""
    empty = models.WordPiece(unk_token=model["unk_token"]) if model["type"] == "WordPiece" else models.BPE()
    bare = tokenizers.Tokenizer(empty)
    bare.normalizer = untrained.engine.normalizer
    pre_tokenizer = untrained.engine.pre_tokenizer
    # Some tokenizers (Llama's) run on unsplit texts; they are trained on words all the same.
    if pre_tokenizer is None or (isinstance(pre_tokenizer, pre_tokenizers.Metaspace) and not pre_tokenizer.split):
        pre_tokenizer = pre_tokenizers.Split(SPACE_MARKER, "merged_with_next")
    bare.pre_tokenizer = pre_tokenizer
    return bare


def _train_in_engine(
    pipeline: tokenizers.Tokenizer,
    model: dict[str, Any],
    corpus: _Corpus,
    size: int,
    first: Sequence[str],
    min_frequency: int = MIN_FREQUENCY,
) -> dict[str, Any]:
    """Train in the engine.

    Args:
        first: tokens in the order of their ids
        size: 0 collects the alphabet alone
    """
    affixes = ("continuing_subword_prefix", "end_of_word_suffix")
    options: dict[str, Any] = {name: model[name] for name in affixes if model.get(name)}
    trainer_class = trainers.WordPieceTrainer if model["type"] == "WordPiece" else trainers.BpeTrainer
    trainer = trainer_class(
        vocab_size=size,
        min_frequency=min_frequency,
        special_tokens=list(first),
        show_progress=False,
        **options,
    )
    pipeline = tokenizers.Tokenizer.from_str(pipeline.to_str())  # training adds special tokens to this copy
    guarded("training on the corpus failed", pipeline.train_from_iterator, corpus, trainer)
    model_json: dict[str, Any] = json.loads(pipeline.to_str())["model"]
    return model_json


def _train_unigram_model(
    untrained: UntrainedTokenizer,
    pipeline: tokenizers.Tokenizer,
    corpus: _Corpus,
    size: int,
    model: dict[str, Any],
    fixed: list[str],
    at_most: bool,
) -> dict[str, Any]:
    unknown = untrained.settings.roles.get("unk")
    if unknown not in fixed:
        raise UnsupportedError("this tokenizer has no unknown token, which a Unigram model needs")
    words = _count_words(pipeline, corpus)
    letters = {letter for word in words for letter in word} - set(fixed)
    _check_alphabet(len(letters), len(fixed), size)
    pieces = [piece for piece in train_unigram(words, size - len(fixed)) if piece[0] not in fixed]
    if not at_most:
        _check_vocabulary_size(len(pieces) + len(fixed), size)
    return {
        **model,
        "unk_id": fixed.index(unknown),
        "vocab": [*([token, 0.0] for token in fixed), *map(list, pieces)],
    }


def _count_words(pipeline: tokenizers.Tokenizer, corpus: _Corpus) -> Counter[str]:
    """The count of each word, after normalisation and pre-tokenization."""
    normalizer, pre_tokenizer = pipeline.normalizer, pipeline.pre_tokenizer
    words: Counter[str] = Counter()
    for batch in corpus:
        for text in batch:
            if normalizer is not None:
                text = guarded("a text cannot be normalised", normalizer.normalize_str, text)
            spans = guarded("a text cannot be pre-tokenized", pre_tokenizer.pre_tokenize_str, text)
            words.update(word for word, _ in spans)
    return words


def _frequent_words(counts: Counter[str], size: int, min_frequency: int) -> list[str]:
    """The most frequent words, equally frequent ones in the order of the alphabet, so that a corpus gives one list."""
    if not counts:
        raise DataError("the corpus has no text to train on; give files with some")
    if size < 1:
        raise ConfigError("size leaves no room for a word besides the special tokens; give a larger one")
    words = frequent_words(Counter({word: n for word, n in counts.items() if n >= min_frequency}), size)
    if not words:
        raise DataError(
            f"nothing in the corpus occurs {min_frequency:,} times; give a smaller min_frequency, or more text"
        )
    return words


def _check_size(size: int) -> None:
    words = f"a whole number of tokens from 1 to {MAX_COUNT}"
    check(Annotated[int, at_least(1, MAX_COUNT, words)], size, "size")


def _check_min_frequency(min_frequency: int | None, model_type: str) -> None:
    if min_frequency is None:
        return
    if model_type == "Unigram":
        raise ConfigError("min_frequency is not for unigram, which keeps the pieces that a text is likeliest made of")
    check(Annotated[int, at_least(1, MAX_COUNT)], min_frequency, "min_frequency")


def _check_alphabet(letters: int, fixed: int, size: int) -> None:
    if not letters:
        raise DataError("the corpus has no text to train on; give files with some")
    if size < letters + fixed:
        raise ConfigError(
            f"size is {size:,}, but the alphabet has {letters:,} letters or bytes, and there are {fixed:,} "
            f"special tokens; give a size above {letters + fixed:,}"
            + (", or use byte-bpe" if letters > BYTE_COUNT else "")
        )


def _check_vocabulary_size(got: int, size: int) -> None:
    if got < size:
        raise DataError(
            f"the corpus makes {got:,} tokens, not {size:,}: no other pair or substring occurs twice; give more text, "
            f"or size {got:,}"
        )


# ── assembling ───────────────────────────────────────────────────────────────────────────────────────────


def _assemble(untrained: UntrainedTokenizer, model: dict[str, Any]) -> Tokenizer:
    ids = (
        {piece: number for number, (piece, _) in enumerate(model["vocab"])}
        if model["type"] == "Unigram"
        else model["vocab"]
    )
    written = {
        **untrained.engine_json,
        "model": model,
        "added_tokens": [],
        "truncation": None,
        "padding": None,
    }
    written["post_processor"] = _with_new_ids(written["post_processor"], ids)
    engine = guarded("the trained tokenizer is not valid", tokenizers.Tokenizer.from_str, json.dumps(written))
    sentinels = (AddedToken(token, special=True, normalized=False) for token in untrained.sentinels)
    engine.add_tokens([*untrained.added_tokens, *sentinels])
    if untrained.family is not None:
        add_post_processor(engine, replace(untrained.settings, kind=untrained.family), Path())
    return Tokenizer(engine, untrained.settings, untrained.chat)


def _with_new_ids(part: Any, ids: dict[str, int]) -> Any:
    """A post-processor with the new ids of its special tokens.

    {"id": "[CLS]", "ids": [101], "tokens": ["[CLS]"]}  ->  ids [2]        "cls": ["[CLS]", 101]  ->  ["[CLS]", 2]
    """
    if isinstance(part, list):
        return [_with_new_ids(item, ids) for item in part]
    if not isinstance(part, dict):
        return part
    if "ids" in part and "tokens" in part:
        return {**part, "ids": [ids[token] for token in part["tokens"]]}
    return {
        key: [value[0], ids[value[0]]]
        if key in ("cls", "sep") and isinstance(value, list)
        else _with_new_ids(value, ids)
        for key, value in part.items()
    }
