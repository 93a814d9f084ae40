"""text-classification pipeline: the class of a text, the labels that hold, or a number.

    so glad to see you   ──>   joy 0.94 · love 0.03 · …

    head, as its config says            scores                                      answered by default
    one of several classes              softmax(logits): together they are 1        the most likely
    labels that may hold together       sigmoid(logit): each for itself             those above 0.5, maybe none
    a number (regression)               the logit itself                            the number

Source: Devlin et al. 2019, section 4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from glassformer.engine.scores import ACTIVATIONS
from glassformer.errors import ConfigError, DataError
from glassformer.files import check_count, safe_repr
from glassformer.files.schema import BelowOne, check
from glassformer.model import Model
from glassformer.tasks.classify.kinds import MultiLabel, RegressionTarget
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.label_options import check_activation, ranked
from glassformer.tasks.pipelines import PackedPipeline, logits_of
from glassformer.tasks.results import Estimate, Label, Results


class TextClassification(PackedPipeline):
    """The label of a text or of a pair of texts, with its probability, best first.

    top_k: how many labels; None = all of them; not given = the most likely class, or all labels above the threshold
    threshold: from which probability on such a label holds, 0.5 by default
    function_to_apply: "softmax", "sigmoid" or "none" (logits), instead of what the config says
    truncation: as `PackedPipeline`; of a pair, the longer text is cut first
    max_length: tokens of a text at most; None = as many as the model reads

    A pair is {"text": …, "text_pair": …}, or within a list also (text, text_pair).
    """

    HEAD = "text-classification"
    WHY = "it has no head that gives labels to a text; an encoder such as BERT has one, once it is trained for that"
    OWN = ("top_k", "threshold", "function_to_apply", "max_length", *PackedPipeline.OWN)

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        self.task_object = Classify(model)
        super().__init__(model, task, **options)
        self.task_object.look_for_first_token(self.task_object.encoded(["a"], None)[0][0]["input_ids"])

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_activation(options)
        if options.get("max_length") is not None:
            check_count("max_length", options["max_length"])
        threshold = options.get("threshold")
        if threshold is None:
            return
        check(BelowOne, threshold, "threshold")
        if not isinstance(self.task_object.kind, MultiLabel):
            raise ConfigError("threshold is for labels that may hold together; this model predicts one")
        if "top_k" in options:
            raise ConfigError("top_k and threshold both say how many labels are answered; give one of them")

    def merged(self, options: Mapping[str, Any]) -> dict[str, Any]:
        # Said in a call, one of both wins over the other of before.
        other = {"threshold": "top_k", "top_k": "threshold"}
        gone = {other[name] for name in options if name in other} - options.keys()
        return {name: value for name, value in super().merged(options).items() if name not in gone}

    def is_one(self, given: Any) -> bool:
        return isinstance(given, (str, Mapping))

    def check_input(self, given: Any) -> None:
        _pair(given)

    def in_words(self, answer: Any) -> str:
        several = isinstance(self.task_object.kind, MultiLabel)
        return ", ".join(result.text for result in answer) if several else super().in_words(answer)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        texts = [_pair(given) for given in batch]
        length = options.get("max_length")
        task = self.task_object if length is None else Classify(self.model, max_tokens=length)
        logits_of_text: dict[int, Tensor] = {}
        for paired in (False, True):  # apart, since of a row all tokens have segments, or none
            chosen = [i for i, (_, pair) in enumerate(texts) if (pair is not None) == paired]
            if not chosen:
                continue
            pairs = [texts[i][1] or "" for i in chosen] if paired else None
            examples, cut = task.encoded([texts[i][0] for i in chosen], pairs)
            self.count_truncated([example["input_ids"] for example in examples], cut, options)
            logits_of_text.update(zip(chosen, logits_of(task, examples), strict=True))
        return [self._results(logits_of_text[i], options) for i in range(len(texts))]

    def _results(self, logits: Tensor, options: Mapping[str, Any]) -> Results[Label | Estimate]:
        """The results of one text, of its logits [labels]."""
        kind = self.task_object.kind
        if len(logits) != len(kind.names):
            raise ConfigError(
                f"the head has {len(logits)} outputs, and config.json: id2label names {len(kind.names)}; name all"
            )
        function = options.get("function_to_apply")
        if isinstance(kind, RegressionTarget):
            return Results([Estimate(kind.names[0], float(ACTIVATIONS[function or "none"](logits)[0]))])
        scores = kind.probabilities(logits) if function is None else ACTIVATIONS[function](logits)
        every, threshold = "top_k" in options, options.get("threshold")
        count = (options["top_k"] or len(scores)) if every else kind.chosen(scores, threshold)
        return Results(Label(*pair) for pair in ranked(kind.names, scores, count))


def _pair(given: Any) -> tuple[str, str | None]:
    """The text, and the second one where there are two.

    Raises: DataError: neither.
    """
    if isinstance(given, Mapping) and given.keys() <= {"text", "text_pair"}:
        text, pair = given.get("text"), given.get("text_pair")
        given = text if pair is None else (text, pair)
    if isinstance(given, str):
        return given, None
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(isinstance(text, str) for text in given):
        return given[0], given[1]
    raise DataError(
        f"the input is {safe_repr(given)}; it must be a text, or a pair of texts: {{'text': …, 'text_pair': …}}"
    )
