"""Trim a tokenizer to the tokens that some texts use, such as those of one language; others become unknown or smaller.

    ids = used_ids(tokenizer, texts)        which tokens stay, ascending: those of the texts, and what they are made of
    trimmed = trim_tokenizer(tokenizer, ids)
    trimmed("a text of them")               the same tokens; token ids[i] has the id i now

A token that no text uses was never the longest match (WordPiece), on the most probable path (Unigram) or the result of
a merge (BPE), so these texts are split as before without it. Other texts of the language may be split finer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tokenizers

from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.text.coverage import batches
from glassformer.text.engine import guarded
from glassformer.text.tokenizer import Tokenizer

BYTE_TOKEN = re.compile(r"<0x[0-9A-F]{2}>")
WORDPIECE_PREFIX = "##"


def used_ids(tokenizer: Tokenizer, texts: Iterable[str], *, least: int = 1, always: Iterable[int] = ()) -> list[int]:
    """The ids of the tokens that texts use, of special tokens, and of what they are made of: characters, bytes, merges.

    Args:
        least: how often a token must occur; above 1, texts with rarer tokens are split finer than before
        always: more ids, such as those that a config names
    Raises: DataError: there are no texts. UnsupportedError: two vocabularies.
    """
    if tokenizer.settings.separate_target:
        raise UnsupportedError("this model reads and writes with a vocabulary each; only one vocabulary can be trimmed")
    counts: Counter[int] = Counter()
    for batch in batches(texts):
        for ids in tokenizer.batch_ids(batch, None)[0]:
            counts.update(ids)
    if not counts:
        raise DataError("a vocabulary is trimmed to the tokens of texts, and there are none")
    vocabulary = tokenizer.get_vocab()
    parts = json.loads(tokenizer.engine.to_str())
    tokens = {number: token for token, number in vocabulary.items()}
    used = {number for number, count in counts.items() if count >= least} | tokenizer.special_ids
    used |= {entry["id"] for entry in parts["added_tokens"]} | {number for number in always if number in tokens}
    stay = {tokens[number] for number in used}
    characters = {char for token in stay for char in token}
    all_characters = "ByteLevel" in {step.get("type") for step in _steps([parts["pre_tokenizer"], parts["decoder"]])}
    for token in vocabulary:
        bare = token.removeprefix(WORDPIECE_PREFIX)
        if bare in characters or (all_characters and len(token) == 1) or BYTE_TOKEN.fullmatch(token):
            stay.add(token)
    stay |= _parts_of_model(parts["model"], stay)
    return sorted(vocabulary[token] for token in stay)


def _parts_of_model(model: Mapping[str, Any], stay: set[str]) -> set[str]:
    """Tokens that a model needs for others: what a merge joins; its unknown token; the least probable piece.

    An unknown character costs that much less than the least probable piece (Unigram), so its score has to stay.
    """
    needed: set[str] = set()
    if isinstance(unknown := model.get("unk_token"), str):
        needed.add(unknown)
    if model["type"] == "Unigram":
        needed.add(min(model["vocab"], key=lambda entry: entry[1])[0])
        if model.get("unk_id") is not None:
            needed.add(model["vocab"][model["unk_id"]][0])
    if model["type"] == "BPE":
        made_of: dict[str, list[str]] = {}
        for pair in map(_pair, model["merges"]):
            made_of.setdefault(_merged(model, pair), []).extend(pair)
        pending = [*stay]
        while pending:
            for part in made_of.get(pending.pop(), ()):
                if part not in needed:
                    needed.add(part)
                    pending.append(part)
    return needed


def trim_tokenizer(tokenizer: Tokenizer, ids: Sequence[int]) -> Tokenizer:
    """A tokenizer with these tokens alone: that of ids[i] gets the id i.

    Args:
        ids: ascending, as `used_ids` gives them
    Raises: ConfigError: a special token is not among them.
    """
    new = {old: number for number, old in enumerate(ids)}
    parts = json.loads(tokenizer.engine.to_str())
    if missing := [entry["content"] for entry in parts["added_tokens"] if entry["id"] not in new]:
        raise ConfigError(f"the special token {missing[0]!r} must stay in the vocabulary")
    for entry in parts["added_tokens"]:
        entry["id"] = new[entry["id"]]
    for step in _steps(parts["post_processor"]):
        for special in (step.get("special_tokens") or {}).values():
            special["ids"] = [new[number] for number in special["ids"]]
        for role in ("sep", "cls"):
            if isinstance(pair := step.get(role), list):
                step[role] = [pair[0], new[pair[1]]]
    _trim_model(parts["model"], new)
    engine = guarded("the trimmed tokenizer does not work", tokenizers.Tokenizer.from_str, json.dumps(parts))
    config = dict(tokenizer.settings.config)
    if isinstance(listed := config.get("added_tokens_decoder"), Mapping):
        config["added_tokens_decoder"] = {str(new[int(old)]): token for old, token in listed.items() if int(old) in new}
    return Tokenizer(engine, replace(tokenizer.settings, config=config), tokenizer.chat)


def _trim_model(model: dict[str, Any], new: Mapping[int, int]) -> None:
    """Leave the tokens without a new id out of the JSON of a model."""
    if isinstance(model["vocab"], list):  # Unigram: the id of a piece is its place
        model["vocab"] = [entry for number, entry in enumerate(model["vocab"]) if number in new]
        model["unk_id"] = None if model.get("unk_id") is None else new[model["unk_id"]]
        return
    model["vocab"] = {token: new[number] for token, number in model["vocab"].items() if number in new}
    if model["type"] == "BPE":
        known = model["vocab"]
        model["merges"] = [
            pair for pair in map(_pair, model["merges"]) if {*pair, _merged(model, pair)} <= known.keys()
        ]


def _pair(merge: str | list[str]) -> list[str]:
    """The two parts of a merge, which older files write as one text."""
    return merge.split(" ") if isinstance(merge, str) else merge


def _merged(model: Mapping[str, Any], pair: Sequence[str]) -> str:
    return pair[0] + pair[1].removeprefix(model.get("continuing_subword_prefix") or "")


def _steps(part: Any) -> Iterator[dict[str, Any]]:
    """The steps of a part of a `tokenizer.json`, those of its sequences too."""
    if isinstance(part, list):
        for each in part:
            yield from _steps(each)
    elif isinstance(part, dict):
        yield part
        for name in ("pretokenizers", "processors", "decoders"):
            yield from _steps(part.get(name))
