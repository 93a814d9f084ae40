"""The measurements of `glassformer demo`: forward passes of two texts, attention links, and similarities of words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.errors import DataError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from glassformer.model import Model

MAX_HEADS = 6
MAX_WORDS = 3


@dataclass(frozen=True, slots=True)
class TextPass:
    """One text, and the tensors of its forward pass by their tap names."""

    text: str
    tokens: list[str]
    ids: list[int]
    content: list[int]  # positions of the tokens that are not special
    spans: list[tuple[int, int]]  # of each token, in characters of the text
    taps: dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class AttentionLink:
    """One attention probability: the token at position `query` attends to that at `key` with `prob`."""

    query: int
    key: int
    prob: float


@dataclass(frozen=True, slots=True)
class HeadLinks:
    """An attention head with its strongest link in each text; None where a text has fewer than two tokens."""

    layer: int
    head: int
    links: tuple[AttentionLink | None, ...]


@dataclass(frozen=True, slots=True)
class SharedWord:
    """A word of both texts: the positions of its tokens, and the cosine of its two vectors at each tap."""

    text: str
    positions: tuple[list[int], list[int]]
    same_ids: bool
    cosines: dict[str, float]


@dataclass(frozen=True, slots=True)
class Tour:
    """All that the demo shows."""

    model: Model
    texts: tuple[TextPass, TextPass]
    heads: list[HeadLinks]
    words: list[SharedWord]
    vectors: np.ndarray
    pooling: str

    @property
    def layers(self) -> int:
        return sum(re.fullmatch(r"blocks\.\d+\.out", name) is not None for name in self.texts[0].taps)

    @property
    def similarity(self) -> float:
        """Cosine similarity of the two sentence embeddings."""
        first, second = self.vectors.astype("float64")
        return float(first @ second / ((first @ first) * (second @ second)) ** 0.5)


def observe(model: Model, texts: list[str]) -> Tour:
    """Run one forward pass per text, with a tape, and compute the embeddings of both."""
    from glassformer.engine.pooling import read_pooling_settings

    if "blocks.0.attn.probs" not in model.taps():
        raise UnsupportedError(
            f"the demo needs a model with one stack of blocks; a {model.family.model_type!r} model has several"
        )
    first, second = (_trace(model, text) for text in texts)
    settings = read_pooling_settings(model.folder)
    pooling = " + ".join(name.replace("mean", "the mean") for name in settings.poolings) + " over the tokens"
    return Tour(
        model=model,
        texts=(first, second),
        heads=_sharpest_heads((first, second)),
        words=_shared_words(first, second)[:MAX_WORDS],
        vectors=model.encode(texts),
        pooling=pooling + (", normalised to length 1" if settings.normalise else ""),
    )


def _trace(model: Model, text: str) -> TextPass:
    import torch

    from glassformer.core.flow import Tape

    encoding = model.tokenizer(text, return_tensors="pt")
    ids = encoding["input_ids"][0].tolist()
    content = [position for position, token_id in enumerate(ids) if token_id not in model.tokenizer.special_ids]
    if not content:
        raise DataError(f"{text!r} has no tokens but special ones; give at least one word")
    tape = Tape("embed.out", "blocks.0.*", "blocks.0.*.*", "attn.probs", "blocks.*.out", "final")
    with torch.inference_mode():
        model(**encoding, tape=tape)
    return TextPass(text, encoding.tokens(), ids, content, encoding.offsets(), tape.taps)


def _sharpest_heads(texts: tuple[TextPass, TextPass]) -> list[HeadLinks]:
    """Choose the head with the largest attention probabilities in each layer; of many layers the top few, in order.

    Only links between two different tokens count, neither of them special: many heads attend to [CLS] or [SEP] as a
    no-op, which would win everywhere and tell little.
    """
    best: list[tuple[float, HeadLinks]] = []
    for layer, name in enumerate(_names(texts[0], "attn.probs")):
        heads = [
            HeadLinks(layer, head, tuple(_strongest(text, text.taps[name][0, head]) for text in texts))
            for head in range(texts[0].taps[name].shape[1])
        ]
        best.append(max(((sum(link.prob for link in h.links if link), h) for h in heads), key=lambda pair: pair[0]))
    top = sorted(best, key=lambda pair: -pair[0])[:MAX_HEADS]
    return sorted((head for sharpness, head in top if sharpness > 0), key=lambda head: head.layer)


def _strongest(text: TextPass, probs: Tensor) -> AttentionLink | None:
    """The strongest link between two different content tokens.

    Args:
        probs: [T, S]
    """
    inner = probs[text.content][:, text.content].clone().fill_diagonal_(0)
    if len(text.content) < 2 or not float(inner.max()):
        return None
    query, key = divmod(int(inner.argmax()), len(text.content))
    return AttentionLink(text.content[query], text.content[key], float(inner[query, key]))


def _shared_words(first: TextPass, second: TextPass) -> list[SharedWord]:
    """Words of both texts at their first occurrence, longest first, since short ones are mostly function words."""
    in_first, in_second = _words(first), _words(second)
    taps = ["embed.out", *_names(first, "out")]
    if not first.taps["final"].equal(first.taps[taps[-1]]):  # a norm follows the last block
        taps.append("final")
    words: list[SharedWord] = []
    for text in sorted(in_first.keys() & in_second.keys(), key=lambda text: (-len(text), in_first[text])):
        positions, others = in_first[text], in_second[text]
        words.append(
            SharedWord(
                text=text,
                positions=(positions, others),
                same_ids=[first.ids[i] for i in positions] == [second.ids[i] for i in others],
                cosines={tap: _cosine(first.taps[tap][0, positions], second.taps[tap][0, others]) for tap in taps},
            )
        )
    return words


def _words(text: TextPass) -> dict[str, list[int]]:
    """Each word of a text, in lower case, with the positions of its tokens."""
    words: dict[str, list[int]] = {}
    for word in re.finditer(r"\w+", text.text):
        positions = [
            position
            for position in text.content
            if text.spans[position][0] < word.end() and text.spans[position][1] > word.start()
        ]
        if positions:
            words.setdefault(word.group().lower(), positions)
    return words


def _cosine(first: Tensor, second: Tensor) -> float:
    """Cosine similarity of the mean vectors of two words. [tokens, D] each"""
    a, b = first.double().mean(dim=0), second.double().mean(dim=0)
    return float((a @ b) / ((a @ a) * (b @ b)).sqrt())


def _names(text: TextPass, tap: str) -> list[str]:
    """The name of a tap in each block, in order."""
    matches = (re.fullmatch(rf"blocks\.(\d+)\.{re.escape(tap)}", name) for name in text.taps)
    return [match.group() for match in sorted(filter(None, matches), key=lambda match: int(match[1]))]


def stages(tour: Tour) -> Iterator[tuple[str, list[int], str]]:
    """(tap, shape, explanation) of the main tensors in the forward pass of the first text."""
    text = tour.texts[0]
    yield "input_ids", [1, len(text.ids)], "one id per token"
    last = tour.layers - 1
    for tap, explanation in (
        ("embed.out", "token embeddings" + (" + positions" if tour.model.spec.embed.positions else "")),
        ("blocks.0.attn.q", "queries: what tokens look for"),
        ("blocks.0.attn.k", "keys: what tokens offer"),
        ("blocks.0.attn.v", "values: what tokens pass on"),
        ("blocks.0.attn.scores", "dot products of queries and keys"),
        ("blocks.0.attn.probs", "softmax: rows sum to 1"),
        ("blocks.0.attn.z", "sums of v, weighted by probs"),
        ("blocks.0.mid", "attention output + residual"),
        ("blocks.0.ffn.neurons", "hidden layer of the feed-forward"),
        ("blocks.0.out", "output of block 0: same shape"),
        (f"blocks.{last}.out", f"after {last + 1} layers: words in context"),
    ):
        if tap != "blocks.0.out" or last:
            yield tap, list(text.taps[tap].shape), explanation
    yield "encode(text)", [tour.vectors.shape[1]], tour.pooling


def as_data(tour: Tour) -> dict[str, Any]:
    """The tour as JSON data."""

    def link_data(text: TextPass, link: AttentionLink | None) -> dict[str, Any] | None:
        if link is None:
            return None
        tokens = {"from": text.tokens[link.query], "to": text.tokens[link.key]}
        return {"query": link.query, "key": link.key, **tokens, "prob": link.prob}

    return {
        "model": {
            "folder": str(tour.model.folder),
            "model_type": tour.model.family.model_type,
            "layers": tour.layers,
        },
        "texts": [{"text": text.text, "pieces": text.tokens, "ids": text.ids} for text in tour.texts],
        "shapes": [{"tap": tap, "shape": shape, "words": words} for tap, shape, words in stages(tour)],
        "heads": [
            {
                "layer": head.layer,
                "head": head.head,
                "links": [link_data(text, link) for text, link in zip(tour.texts, head.links, strict=True)],
            }
            for head in tour.heads
        ],
        "words": [
            {
                "word": word.text,
                "places": list(word.positions),
                "same_ids": word.same_ids,
                "cosines": word.cosines,
            }
            for word in tour.words
        ],
        "sentences": {"width": int(tour.vectors.shape[1]), "cosine": tour.similarity},
    }
