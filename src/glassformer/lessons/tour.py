"""A tour of a forward pass of two texts: tokens, tensor shapes, attention, and how context changes a word's vector.

    tour(model, ["time flies like an arrow", "fruit flies like a banana"])

`glassformer demo` shows it, and then the attention explorer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from glassformer.errors import DataError, UnsupportedError
from glassformer.reports.report import Report
from glassformer.reports.table import Table, amount, bar, shown_text

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from glassformer.inspect.opening import HeadFinding
    from glassformer.model import Model

MAX_WORDS = 3
"""Words that its table compares: the tour gives a first look; the explorer has every word."""


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
class SharedWord:
    """A word of both texts: the positions of its tokens, and the cosine of its two vectors at each tap."""

    text: str
    positions: tuple[list[int], list[int]]
    same_ids: bool
    cosines: dict[str, float]


@dataclass(frozen=True, repr=False)
class Tour(Report, kind="tour", keys=("model", "texts", "shapes", "heads", "words", "sentences")):
    """What two texts become in a forward pass of a model.

    loaded: the model
    passes: of each text
    findings: what stands out where a model reads both texts as a pair: what the page of the same texts opens with
    shared: words of both texts
    vectors: the embeddings of both texts [2, D]
    pooling: how a text becomes one vector, in words
    """

    loaded: Model
    passes: tuple[TextPass, TextPass]
    findings: list[HeadFinding]
    shared: list[SharedWord]
    vectors: np.ndarray
    pooling: str

    @property
    def layers(self) -> int:
        return sum(re.fullmatch(r"blocks\.\d+\.out", name) is not None for name in self.passes[0].taps)

    @property
    def similarity(self) -> float:
        """Cosine similarity of the two sentence embeddings."""
        first, second = self.vectors.astype("float64")
        return float(first @ second / ((first @ first) * (second @ second)) ** 0.5)

    @property
    def model(self) -> dict[str, Any]:
        family = self.loaded.family.model_type
        return {"folder": str(self.loaded.folder), "model_type": family, "layers": self.layers}

    @property
    def texts(self) -> list[dict[str, Any]]:
        return [{"text": text.text, "pieces": text.tokens, "ids": text.ids} for text in self.passes]

    @property
    def shapes(self) -> list[dict[str, Any]]:
        """The main tensors in the forward pass of the first text."""
        return [{"tap": tap, "shape": shape, "words": words} for tap, shape, words in _stages(self)]

    @property
    def heads(self) -> list[dict[str, Any]]:
        return [asdict(finding) for finding in self.findings]

    @property
    def words(self) -> list[dict[str, Any]]:
        return [
            {"word": x.text, "places": list(x.positions), "same_ids": x.same_ids, "cosines": x.cosines}
            for x in self.shared
        ]

    @property
    def sentences(self) -> dict[str, Any]:
        return {"width": int(self.vectors.shape[1]), "cosine": self.similarity}

    @property
    def caption(self) -> str:
        heads = self.passes[0].taps["blocks.0.attn.probs"].shape[1]
        size = amount(sum(parameter.numel() for parameter in self.loaded.parameters()))
        family = self.loaded.family.model_type
        return (
            "Two sentences, seen through clear glass\n"
            f"A model of the {family} family: {size} parameters, {self.layers} layers of {heads} heads"
        )

    def tables(self) -> list[Table]:
        """Tokens, shapes, attention heads, words of both texts, and the similarity of the texts."""
        return [self._token_table(), self._shape_table(), self._head_table(), self._word_table(), self._text_table()]

    def _token_table(self) -> Table:
        words = "The tokenizer splits a text into tokens of its vocabulary; each token has a number, its id."
        special = [token for text in self.passes for i, token in enumerate(text.tokens) if i not in text.content]
        if special:
            words += f" Special tokens: {' '.join(dict.fromkeys(special))}."
        rows = [
            ["  ".join(f"{token} {number}" for token, number in zip(text.tokens, text.ids, strict=True))]
            for text in self.passes
        ]
        return Table(["token id"], rows, f"Tokens and ids\n{words}", longest=5_000)

    def _shape_table(self) -> Table:
        text = self.passes[0]
        q, width = text.taps["blocks.0.attn.q"].shape, text.taps["embed.out"].shape[-1]
        about = (
            f"First text: batch size 1, {len(text.ids)} tokens, hidden size {width}, which attention splits into "
            f"{q[1]} heads of size {q[3]}. Each name is a tap: a tensor that you can inspect or replace."
        )
        rows = [[tap, str(shape), words] for tap, shape, words in _stages(self)]
        return Table(["tap", "shape", "meaning"], rows, f"Tensor shapes\n{about}", left=3)

    def _head_table(self) -> Table:
        title = "Attention heads"
        if not self.findings:
            return Table([], [], f"{title}\nIn texts of so few tokens no head stands out.")
        about = (
            f"What stands out where the model reads both texts as a pair. {self.findings[0].sentence} "
            "With that head the page opens."
        )
        rows = [[str(each.layer), str(each.head), each.short] for each in self.findings]
        return Table(["layer", "head", "what it does"], rows, f"{title}\n{about}", left=3)

    def _word_table(self) -> Table:
        title = "One word in two contexts"
        if not self.shared:
            return Table([], [], f"{title}\nThe two texts have no word in common, so there is none to compare.")
        rows = [
            [tap, *(f"{word.cosines[tap]:.3f} {bar(word.cosines[tap], 12)}" for word in self.shared)]
            for tap in self.shared[0].cosines
        ]
        names = [_short(word.text, 18) for word in self.shared]
        return Table(["cosine at", *names], rows, f"{title}\n{_explain(self.shared[0])}", left=1 + len(names))

    def _text_table(self) -> Table:
        about = f"One vector per text ({self.pooling}). Cosine similarity: 1 = same direction, 0 = orthogonal."
        cells = [f"{self.similarity:.3f} {bar(self.similarity, 30)}"]
        return Table(["cosine"], [cells], f"Sentence embeddings\n{about}")


def tour(model: Model, texts: Sequence[str]) -> Tour:
    """Run one forward pass per text, with a tape, and compute the embeddings of both.

    Raises: DataError: not two texts, or one without words. UnsupportedError: a model of several stacks.
    """
    from glassformer.engine.pooling import read_pooling_settings

    if len(texts) != 2:
        raise DataError(f"the demo compares two texts, got {len(texts)}; put each in quotes")
    if "blocks.0.attn.probs" not in model.taps():
        raise UnsupportedError(
            f"the demo needs a model with one stack of blocks; a {model.family.model_type!r} model has several"
        )
    first, second = (_trace(model, text) for text in texts)
    settings = read_pooling_settings(model.folder)
    pooling = " + ".join(name.replace("mean", "the mean") for name in settings.poolings) + " over the tokens"
    return Tour(
        loaded=model,
        passes=(first, second),
        findings=model.inspect(*texts).findings,
        shared=_shared_words(first, second)[:MAX_WORDS],
        vectors=model.encode(list(texts)),
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
    tape = Tape("embed.out", "blocks.0.*", "blocks.0.*.*", "blocks.*.out", "final")
    with torch.inference_mode():
        model(**encoding, tape=tape)
    return TextPass(text, encoding.tokens(), ids, content, encoding.offsets(), tape.taps)


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


def _stages(tour: Tour) -> Iterator[tuple[str, list[int], str]]:
    """(tap, shape, explanation) of the main tensors in the forward pass of the first text."""
    text = tour.passes[0]
    yield "input_ids", [1, len(text.ids)], "one id per token"
    last = tour.layers - 1
    for tap, explanation in (
        ("embed.out", "token embeddings" + (" + positions" if tour.loaded.spec.embed.positions else "")),
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


def _short(text: str, width: int) -> str:
    """The text, on one line, in at most this many characters."""
    shown = shown_text(text).replace("\n", "\\n")
    return shown if len(shown) <= width else shown[: width - 1] + "…"


def _explain(word: SharedWord) -> str:
    """Why the two vectors of a word start equal or not, and what the layers do to them."""
    name = f"“{shown_text(word.text)}”"
    first, second = (positions[0] for positions in word.positions)
    cosines = list(word.cosines.values())
    if not word.same_ids:
        start = f"{name} is split into other tokens in the second text, so its vectors differ from the start."
    elif cosines[0] > 0.9999:
        where = "the same id at the same position" if first == second else "the same id"
        start = f"{name} has {where} in both texts, so its vectors start equal: cosine 1."
    else:
        where = f"the same id in both texts, at positions {first} and {second}"
        start = f"{name} has {where}: its vectors differ in the position embedding only."
    apart = ", and the two drift apart" if cosines[-1] < cosines[0] - 0.01 else ""
    return f"{start} Each layer then mixes in the context{apart}."
