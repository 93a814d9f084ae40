"""text-classification: which class a text is of, which labels hold, or what number a head says.

    so glad to see you   ──>   joy 0.94 · love 0.03 · …

    head, as its config says            scores                                      told by default
    one of several classes              softmax(logits): together they are 1        the likeliest
    labels that may hold together       sigmoid(logit): each for itself             those above 0.5, or the likeliest
    a number (regression)               the logit itself                            the number

Source: Devlin et al. 2019, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from glassformer.errors import ConfigError, DataError
from glassformer.files import shown
from glassformer.model import Model
from glassformer.tasks.classify.labels import AnyOf, Number
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.packed_pipeline import Reading, said
from glassformer.tasks.pipeline import check_top_k
from glassformer.tasks.results import Estimate, Label, Results

THRESHOLD = 0.5


class Classification(Reading):
    """The label of a text or of a pair of texts, with its probability, best first.

    top_k: how many labels; None = all of them; unsaid = the likeliest, of labels that may hold together those that do
    threshold: from which probability on such a label holds, 0.5 unless said
    truncation: as `Reading`; of a pair, the longer text is cut first

    A pair is {"text": …, "text_pair": …}, or within a list also (text, text_pair).
    """

    HEAD = "text-classification"
    WHY = "it has no head that gives labels to a text; an encoder such as BERT has one, once it is trained for that"
    OWN = ("top_k", "threshold", *Reading.OWN)

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        self.objective = Classify(model)
        super().__init__(model, task, **options)
        self.objective.look_for_first_token(self.objective.encoded(["a"], None)[0][0]["input_ids"])

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_top_k(options.get("top_k"))
        threshold = options.get("threshold")
        if threshold is None:
            return
        if not isinstance(threshold, (int, float)) or isinstance(threshold, bool) or not 0 <= threshold < 1:
            raise ConfigError(
                f"threshold is {shown(threshold)}; it must be a number from 0 up to, not including, 1"
            )
        if not isinstance(self.objective.kind, AnyOf):
            raise ConfigError("threshold is for labels that may hold together; this model says one")
        if "top_k" in options:
            raise ConfigError("top_k and threshold both say how many labels are told; give one of them")

    def merged(self, options: Mapping[str, Any]) -> dict[str, Any]:
        own = {
            "threshold": ("top_k",),
            "top_k": ("threshold",),
        }  # said in a call, one wins over the other of before
        gone = {other for name in options for other in own.get(name, ()) if other not in options}
        return {name: value for name, value in super().merged(options).items() if name not in gone}

    def is_one(self, given: Any) -> bool:
        return isinstance(given, (str, Mapping))

    def check_input(self, given: Any) -> None:
        _pair(given)

    def in_words(self, answer: Any) -> str:
        several = isinstance(self.objective.kind, AnyOf)
        return ", ".join(result.text for result in answer) if several else super().in_words(answer)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        texts = [_pair(given) for given in batch]
        found: dict[int, Tensor] = {}
        for paired in (False, True):  # apart, since of a row all tokens have segments, or none
            chosen = [i for i, (_, pair) in enumerate(texts) if (pair is not None) == paired]
            if not chosen:
                continue
            pairs = [texts[i][1] or "" for i in chosen] if paired else None
            examples, cut = self.objective.encoded([texts[i][0] for i in chosen], pairs)
            self.counted([example["input_ids"] for example in examples], cut, options)
            found.update(zip(chosen, said(self.objective, examples), strict=True))
        return [self._results(found[i], options) for i in range(len(texts))]

    def _results(self, logits: Tensor, options: Mapping[str, Any]) -> Results[Label | Estimate]:
        """logits: [labels]"""
        kind = self.objective.kind
        if len(logits) != len(kind.names):
            raise ConfigError(
                f"the head says {len(logits)} labels, and config.json: id2label names {len(kind.names)}; name all"
            )
        if isinstance(kind, Number):
            return Results([Estimate(kind.names[0], float(logits[0]))])
        scores = logits.sigmoid() if isinstance(kind, AnyOf) else logits.softmax(-1)
        best = scores.sort(descending=True, stable=True)
        if "top_k" in options:
            told = options["top_k"] or len(scores)
        elif isinstance(kind, AnyOf):
            threshold = options.get("threshold")
            told = max(1, int((scores > (THRESHOLD if threshold is None else threshold)).sum()))
        else:
            told = 1
        pairs = zip(best.indices[:told].tolist(), best.values[:told].tolist(), strict=True)
        return Results(Label(kind.names[number], score) for number, score in pairs)


def _pair(given: Any) -> tuple[str, str | None]:
    """The text, and the second one where there are two.

    Raises: DataError: neither.
    """
    if isinstance(given, Mapping) and given.keys() <= {"text", "text_pair"}:
        given = (
            (given.get("text"), given["text_pair"])
            if given.get("text_pair") is not None
            else given.get("text")
        )
    if isinstance(given, str):
        return given, None
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(text, str) for text in given):
        return given[0], given[1]
    raise DataError(
        f"the input is {shown(given)}; it must be a text, or a pair of texts: {{'text': …, 'text_pair': …}}"
    )
