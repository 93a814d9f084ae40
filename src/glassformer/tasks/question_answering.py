"""question-answering pipeline: the part of a context that answers a question.

    question   how long ?
    context    It plays 6000 hours of music.      ──>      6000 hours   0.94   from character 9 to 19

Source: Devlin et al. 2019, sections 4.2 and 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import check_count, safe_repr
from glassformer.files.schema import check
from glassformer.model import Model
from glassformer.tasks.metrics.answers import ranked_spans
from glassformer.tasks.microbatch import run_examples
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import ExtractedAnswer, Results
from glassformer.tasks.span import AnswerText, Question, check_asked, tuned_threshold

if TYPE_CHECKING:
    from glassformer.text.engine import EncodedRow
    from glassformer.text.tokenizer import Tokenizer

LONGEST = 15
"""Tokens of the longest answer."""

OF_WINDOWS = ("max_answer_len", "doc_stride", "max_seq_len", "max_question_len")
"""Options of how a question and a long context are read."""

Span = tuple[float, int, int]
"""Probability, start and end of an answer."""


class QuestionAnswering(Pipeline):
    """The part of a context that answers a question, with its probability; a long context is read in windows.

        answer(question="Who wrote Emma?", context="Emma is a novel by Jane Austen.")

    top_k: how many answers (default 1) · max_answer_len: tokens of the longest one (default 15)
    doc_stride: tokens that neighbouring windows share · max_seq_len: tokens of a window
    max_question_len: tokens of a question, after which it is cut (default: none is cut)
    handle_impossible_answer: also "no answer", an empty text: where the model has a threshold for it, tuned on
        validation rows without an answer, the first where its score exceeds that of the best span by more; else by its
        probability. Default: where there is a threshold. A report of `glassformer evaluate` counts it always
    align_to_words: answers begin and end with whole words, unless False

    The probabilities of spans that are the same answer add up: spans of tokens in the same words, and those of windows
    that share the answer (a score may then exceed 1).

    An input is {"question": …, "context": …}; several are a list of them.
    """

    HEAD = "question-answering"
    WHY = "it has no head that finds answers; an encoder such as BERT has one, once it is trained for that"
    BATCH = 64
    ROLES: ClassVar[Mapping[str, str]] = {"question": "text", "context": "text"}
    OWN = (*OF_WINDOWS, "top_k", "handle_impossible_answer", "align_to_words")

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        if "bbox" in model.network.READS:
            raise UnsupportedError(
                "this model reads words with their places on a page: pipeline('document-question-answering', …) does; "
                "or give a model that reads text alone"
            )
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_windows(options)
        for name in ("handle_impossible_answer", "align_to_words"):
            check(bool, options.get(name, False), name)

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping)

    def check_input(self, given: Any) -> None:
        fields = {name: given.get(name) for name in self.ROLES} if isinstance(given, Mapping) else {"": None}
        for name, text in fields.items():
            if not isinstance(text, str):
                raise DataError(
                    f"the input is {safe_repr(given)}; it must be {{'question': 'Who?', 'context': 'a text'}}"
                )
            check_asked(name, text)

    def in_words(self, answer: Any) -> str:
        return str((answer[0] if isinstance(answer, list) else answer).answer)

    def __call__(self, texts: Any = None, *, question: Any = None, context: Any = None, **options: Any) -> Any:
        """As any pipeline; a question and its context may also come by name, or lists of them."""
        if texts is None:
            questions = [question] if isinstance(question, str) else list(question or ())
            contexts = [context] * len(questions) if isinstance(context, str) else list(context or ())
            if not questions or len(questions) != len(contexts):
                raise DataError(
                    f"there are {len(questions)} questions and {len(contexts)} contexts; give question= and context=, "
                    "as many of the one as of the other, or one context for all"
                )
            rows = [{"question": q, "context": c} for q, c in zip(questions, contexts, strict=True)]
            texts = rows[0] if isinstance(question, str) else rows
        return super().__call__(texts, **options)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        task = AnswerText(self.model, max_tokens=options.get("max_seq_len"), stride=options.get("doc_stride"))
        asked = [shortened(self.model.tokenizer, row["question"], options.get("max_question_len")) for row in batch]
        encoding = task.windows(asked, [row["context"] for row in batch])
        questions = [Question(question, row["context"], []) for question, row in zip(asked, batch, strict=True)]
        owned = zip(encoding.rows, encoding.overflow_to_sample, strict=True)
        examples = [task.example(window, questions[owner]) for window, owner in owned]
        outputs = run_examples(task, examples, tokens=task.evaluation.tokens, labelled=False)
        candidates: list[list[Span]] = [[] for _ in batch]
        best_of = [-math.inf] * len(batch)
        longest = options.get("max_answer_len") or LONGEST
        none_of: list[tuple[float, float]] = [(1.0, math.inf)] * len(batch)
        owners = encoding.overflow_to_sample
        for window, example, owner, (start, end) in zip(encoding.rows, examples, owners, outputs, strict=True):
            context = example["context"].tolist()
            begins, ends = ends_of(start, end, *context)
            none = float(begins[0] * ends[0]), float(start[0]) + float(end[0])
            none_of[owner] = min(none_of[owner][0], none[0]), min(none_of[owner][1], none[1])
            best_of[owner] = max([best_of[owner], *(score for score, *_ in ranked_spans(start, end, context, longest))])
            candidates[owner].extend(_spans(window, begins, ends, options))
        ranked = []
        for row, spans, best, (share, score) in zip(batch, candidates, best_of, none_of, strict=True):
            answers = [ExtractedAnswer(*span, row["context"][slice(*span[1:])]) for span in merged(spans)]
            answers.sort(key=lambda each: -each.score)
            ranked.append(self._with_none(answers, ExtractedAnswer(share, 0, 0, ""), score - best, options))
        count = options.get("top_k") or 1
        return [answers[0] if count == 1 else Results(answers[:count]) for answers in ranked]

    def _with_none(
        self, answers: list[ExtractedAnswer], none: ExtractedAnswer, difference: float, options: Mapping[str, Any]
    ) -> list[ExtractedAnswer]:
        """Answers, best first, and "no answer" among them, where it is asked for.

        Args:
            difference: the score of "no answer" minus that of the best span, as logits
        """
        own = tuned_threshold(self.model)
        asked = options.get("handle_impossible_answer")
        if not answers:  # no token of the context is one of the model's
            return [none]
        if not (own is not None and math.isfinite(own) if asked is None else asked):
            return answers
        if own is None:  # by probability, as the reference library
            return sorted([*answers, none], key=lambda each: -each.score)
        if difference > own:
            return [none, *answers]
        return [*answers[:1], *sorted([*answers[1:], none], key=lambda each: -each.score)]


def _spans(window: EncodedRow, begins: Tensor, ends: Tensor, options: Mapping[str, Any]) -> Iterator[Span]:
    """The best spans of a window, in characters.

    Args:
        begins, ends: probabilities, 0 outside of the context. [tokens]
    """
    words = options.get("align_to_words", True)
    for score, first, last in token_spans(begins, ends, options, merging=words):
        if words:
            yield score, word_place(window, first)[0], word_place(window, last)[1]
        else:
            yield score, window.offsets[first][0], window.offsets[last][1]


def token_spans(begins: Tensor, ends: Tensor, options: Mapping[str, Any], *, merging: bool) -> Iterator[Span]:
    """The best spans of a window, in tokens; the first token, "no answer", is in none.

    Args:
        begins, ends: the probability of each token to begin and to end the answer. [tokens]
        merging: some will become the same answer, so that more are needed (as many as the reference library takes)
    """
    begins, ends = begins.clone(), ends.clone()
    begins[0] = ends[0] = 0
    joint = torch.outer(begins, ends).triu().tril((options.get("max_answer_len") or LONGEST) - 1)
    count = options.get("top_k") or 1
    best = joint.flatten().topk(min(2 * count + 10 if merging else count, joint.numel()))
    for score, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
        if score > 0:
            yield score, *divmod(place, len(begins))


def merged(spans: Iterable[Span], combine: Callable[[float, float], float] = add) -> list[Span]:
    """Each span once.

    Args:
        combine: makes one probability of two: their sum, or the larger one
    """
    scores: dict[tuple[int, int], float] = {}
    for score, start, end in spans:
        scores[start, end] = combine(scores.get((start, end), 0.0), score)
    return [(score, *place) for place, score in scores.items()]


def check_windows(options: Mapping[str, Any]) -> None:
    """Raises: ConfigError: a length of answers, questions or windows that is no whole number from 1 up."""
    for name in OF_WINDOWS:
        check_count(name, options.get(name, 1))


def shortened(tokenizer: Tokenizer, question: str, most: int | None) -> str:
    """A question up to the end of its token number `most`; None = all of it."""
    if most is None:
        return question
    offsets = tokenizer(question, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    return question if len(offsets) <= most else question[: offsets[most - 1][1]]


def ends_of(start: Tensor, end: Tensor, first: int, last: int) -> tuple[Tensor, Tensor]:
    """The probability of each token to begin and to end the answer: of the context, or of the first token (none).

    Args:
        start, end: logits [tokens]
        first, last: tokens of the context
    """
    allowed = torch.zeros(len(start), dtype=torch.bool)
    allowed[first : last + 1] = True
    allowed[0] = True
    begins, ends = (logits.float().cpu().masked_fill(~allowed, float("-inf")).softmax(-1) for logits in (start, end))
    return begins, ends


def word_place(window: EncodedRow, token: int) -> tuple[int, int]:
    """The characters of the word that a token of the context is of."""
    word = window.word_ids[token]
    offsets: Sequence[tuple[int, int]] = [
        window.offsets[t]
        for t, (w, text) in enumerate(zip(window.word_ids, window.sequence_ids, strict=True))
        if text == 1 and w == word and w is not None
    ] or [window.offsets[token]]
    return offsets[0][0], offsets[-1][1]
