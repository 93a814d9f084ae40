"""Extractive question answering: where in a context a question is answered.

    row        {"question": "how long ?", "context": "It plays 6000 hours of music.", "answers": 6000 hours, from 9}
    example    [CLS] how long ? [SEP] it plays 6000 hours of music . [SEP]
                                               └start   └end                  positions 7 and 8

    a long context falls into windows that share `stride` tokens, each an example with the question before it
    [CLS] question [SEP] it plays 6000 hours [SEP]      6, 7
    [CLS] question [SEP] hours of music .    [SEP]      0, 0: no answer in here is an answer at the first token

Source: Devlin et al. 2019, sections 4.2 and 4.3; windows: released code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from glassformer.core.classification_heads import SpanClassifier
from glassformer.core.flow import Output
from glassformer.errors import ConfigError, DataError
from glassformer.files import is_number, safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.tasks.base import EvaluationOptions, Progress
from glassformer.tasks.columns import RowTask, limit_of, listed, reads_segments, row_chunks, text_of
from glassformer.tasks.metrics.answers import LONGEST, SpanMetric, best_threshold, exact_match, ranked_spans, word_f1
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapSums, Metric
from glassformer.tasks.microbatch import run_examples
from glassformer.tasks.types import Baseline, Dataset, Example, Examples, MicroBatch, Prediction
from glassformer.text.sentences import split_sentences
from glassformer.version import __version__

if TYPE_CHECKING:
    from glassformer.text.encoding import Encoding
    from glassformer.text.engine import EncodedRow

ENDS = ("start_positions", "end_positions")

METHOD = f"glassformer {__version__}, words as in SQuAD: lower case, without punctuation and articles"

MOST_LISTED = 20
"""Places of wrong rows in one message."""

THRESHOLD = "no_answer_threshold"
"""Key of `config.json`, below `task_specific_params` and the name of the task, and of a validation's metrics."""

WINDOW = 384
"""Tokens of question and context, as BERT was trained on SQuAD."""
STRIDE = 128
"""Tokens of a window, and of those that neighbours share; Devlin et al. 2019, released code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanBatch(MicroBatch):
    """A micro-batch of questions.

    context: the first and last token of each text that an answer may be of. [texts, 2]
    windows: what each text is scored by
    """

    context: Tensor
    windows: tuple[AnswerWindow, ...]


@dataclass(frozen=True, slots=True)
class AnswerWindow:
    """The text of a window, and what its question is scored by.

    question: the number of its row
    text: the part of the context that it holds
    offsets: where each of its tokens begins and ends in there
    answers: the true ones of the whole question; none = it has no answer
    """

    question: int
    text: str
    offsets: np.ndarray
    answers: list[str]

    @classmethod
    def of(cls, example: Example) -> AnswerWindow:
        """The window of an example."""
        text, answers = (np.asarray(example[name]).tobytes().decode("utf-8") for name in ("text", "answers"))
        return cls(int(example["question"]), text, np.asarray(example["offsets"]), json.loads(answers))

    def text_of(self, span: Sequence[int]) -> str:
        """The text from the first to the last token of a span; empty where the window has nothing of the context."""
        first, last = span
        return self.text[self.offsets[first][0] : self.offsets[last][1]]


class Question(NamedTuple):
    """What a row asks.

    answers: where each begins and ends in the context, in characters
    """

    question: str
    context: str
    answers: list[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class AnswerEvaluation(EvaluationOptions):
    """How a model that finds answers is evaluated.

    no_answer_threshold: there is no answer where its score is higher than that of the best span by more than this;
        None = the threshold of the model, see `tuned_threshold`
    """

    no_answer_threshold: float | None = None


def tuned_threshold(model: LoadedModel) -> float | None:
    """By how much the score of "no answer" must exceed that of the best span to be the answer, as tuned in training.

    None where the model says nothing of it; infinity where each question of its validation rows had an answer.

    Raises: ConfigError: it is no number.
    """
    own = (model.config.get("task_specific_params") or {}).get(AnswerText.HEAD) or {}
    if THRESHOLD not in own:
        return None
    value = own[THRESHOLD]
    if value is not None and not is_number(value):
        raise ConfigError(
            f"config.json: task_specific_params: {THRESHOLD} is {safe_repr(value)}; it must be a number, or null where "
            "each question has an answer"
        )
    return np.inf if value is None else float(value)


def keep_threshold(model: LoadedModel, threshold: float) -> None:
    """Note the threshold of "no answer" in the config of a model, with which it is saved."""
    settings = dict(model.config.get("task_specific_params") or {})
    value = threshold if np.isfinite(threshold) else None  # JSON has no infinity
    settings[AnswerText.HEAD] = {**(settings.get(AnswerText.HEAD) or {}), THRESHOLD: value}
    model.config["task_specific_params"] = settings


def check_rows(rows: Dataset, numbers: Sequence[int], results: Sequence[object]) -> None:
    """Raises: DataError: what is wrong with the first of these rows that makes no question, and the places of others.

    Args:
        results: what each row makes, or its error
    """
    wrong = {number: error for number, error in zip(numbers, results, strict=True) if isinstance(error, DataError)}
    if not wrong:
        return
    (first, error), *others = wrong.items()
    listed_rows = ", ".join(rows.where(number) for number, _ in others[:MOST_LISTED])
    more = f", and {len(others) - MOST_LISTED} more" if len(others) > MOST_LISTED else ""
    also = f". As wrong are the questions or answers of: {listed_rows}{more}" if others else ""
    raise DataError(f"{rows.where(first)}: {error}{also}") from error


def check_asked(name: str, text: str) -> None:
    """Raises: DataError: a question or a context without a word."""
    if not text.strip():
        raise DataError(f"the {name} is {safe_repr(text)}; it must have a word")


def check_question(where: str, tokens: int, most: int, *, window: int, stride: int) -> None:
    """Raises: DataError: a question of more tokens than leave room for its context in each window."""
    if tokens > most:
        raise DataError(
            f"{where}: the question has {tokens} tokens; in a window of {window} with a stride of {stride} it may have "
            f"{most}; shorten it, or take a smaller stride (doc_stride= of a pipeline)"
        )


class AnswerText(RowTask):
    """Where a context answers a question, or that it does not.

    `answers` is as in SQuAD: a list of {"text", "answer_start"}, or an object with a list of each. Or it is a text, and
    `start` the column of the character at which it begins in the context. No text means no answer. The first answer is
    learned; metrics take each as right.

    Which questions have no answer is decided by a threshold, as in SQuAD 2.0: training keeps the one that is best on
    the validation rows with the model (`tuned_threshold`).

    Args:
        columns: role → column
        max_tokens: of a window; None = 384, or what the model can take, if that is less
        stride: how many tokens of a context neighbouring windows share; None = 128, or a third of a smaller window
        longest: tokens of the longest answer that is looked for
    Raises: ConfigError: the model has no head, or sizes do not go together.
    """

    HEAD = "question-answering"
    COLUMNS: ClassVar[Mapping[str, str]] = {
        "question": "question",
        "context": "context",
        "answers": "answers",
        "start": "answer_start",
    }
    TARGETS = ("answers", "start")
    METRIC = VALIDATION_METRIC = "f1"
    EVALUATION = AnswerEvaluation

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
        stride: int | None = None,
        longest: int = LONGEST,
    ) -> None:
        super().__init__(model, columns)
        self.longest = longest
        self.window = limit_of(model, max_tokens or WINDOW) or WINDOW
        self.stride = stride = min(STRIDE, self.window // 3) if stride is None else stride
        special = len(model.tokenizer("", "")["input_ids"])
        # One token more than it shares is what a window has to bring of the context, or it would never move on.
        self._question_room = self.window - special - stride - 1
        if stride < 0 or self._question_room < 1:
            raise ConfigError(
                f"stride is {stride}, and a window has {self.window} tokens, {special} of them special; the stride "
                f"must be from 0 to {self.window - special - 2}, which leaves room for a question"
            )
        self._segments = reads_segments(model)
        self.how = {"window": self.window, "stride": stride, "scored by": "text"}

    def columns_read(self) -> dict[str, str]:
        return {role: self.columns[role] for role in ("question", "context", "answers")}

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        for number, row, windows in self._read(rows):
            for window in windows:
                yield self.example(window, row, number)

    def _read(self, rows: Dataset) -> Iterator[tuple[int, Question, list[EncodedRow]]]:
        """Each row: its number, what it asks, and its windows."""

        def parse(row: Mapping[str, Any]) -> Question | DataError:
            try:
                question, context = (text_of(row, self.columns[role]) for role in ("question", "context"))
                return Question(question, context, answers_of(row, context, self.columns))
            except DataError as error:
                return error  # all of the wrong rows are listed together

        for numbers, results in row_chunks(rows, parse):
            check_rows(rows, numbers, results)
            parsed = [result for result in results if not isinstance(result, DataError)]
            questions = [row.question for row in parsed]
            contexts = [row.context for row in parsed]
            encoding = self.windows(questions, contexts, [rows.where(number) for number in numbers])
            windows: list[list[EncodedRow]] = [[] for _ in numbers]
            for window, owner in zip(encoding.rows, encoding.overflow_to_sample, strict=True):
                windows[owner].append(window)
            yield from zip(numbers, parsed, windows, strict=True)

    def windows(self, questions: list[str], contexts: list[str], where: Sequence[str] | None = None) -> Encoding:
        """The windows of contexts, each with its question; `overflow_to_sample` says whose each is.

        Args:
            where: the place of each question, for messages; None = the question itself
        Raises: DataError: a question that leaves no room for its context.
        """
        ids, _ = self.model.tokenizer.batch_ids(questions, None)
        special = len(self.model.tokenizer("")["input_ids"])
        for place, row in zip(where or map(safe_repr, questions), ids, strict=True):
            check_question(place, len(row) - special, self._question_room, window=self.window, stride=self.stride)
        return self.model.tokenizer(
            questions,
            contexts,
            truncation="only_second",
            max_length=self.window,
            stride=self.stride,
            return_overflowing_tokens=True,
        )

    def example(self, window: EncodedRow, row: Question, number: int = 0) -> Example:
        """A window of a row as an example, with the first answer that is in it.

        Args:
            number: of the row
        """
        of_context = [token for token, text in enumerate(window.sequence_ids) if text == 1]
        context = (of_context[0], of_context[-1]) if of_context else (1, 0)
        spans = (span_of(window.offsets, context, *each) for each in row.answers)
        start, end = next((span for span in spans if span is not None), (0, 0))
        offsets = np.zeros((len(window.ids), 2), dtype=np.int32)
        if of_context:
            offsets[of_context] = np.array(window.offsets, dtype=np.int32)[of_context]
        begin = int(offsets[context[0]][0])
        texts = row.context[begin : int(offsets[:, 1].max())], json.dumps([row.context[a:b] for a, b in row.answers])
        text, answers = (np.frombuffer(each.encode("utf-8", "replace"), dtype=np.uint8) for each in texts)
        example: dict[str, Any] = {
            "input_ids": np.array(window.ids, dtype=np.int32),
            "start_positions": np.array(start, dtype=np.int64),
            "end_positions": np.array(end, dtype=np.int64),
            "context": np.array(context, dtype=np.int64),
            "question": np.array(number, dtype=np.int64),
            "text": text,
            "offsets": np.maximum(offsets - begin, 0),
            "answers": answers,
        }
        if self._segments:
            example["token_type_ids"] = np.array(window.type_ids, dtype=np.int8)
        return example

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> SpanBatch:
        item = super().collate(examples, indices)
        return SpanBatch(
            item.batch,
            item.flow,
            item.labels,
            item.indices,
            item.tokens,
            context=torch.from_numpy(np.stack([example["context"] for example in examples])),
            windows=tuple(map(AnswerWindow.of, examples)),
        )

    def with_siblings(self, examples: Examples, indices: np.ndarray) -> np.ndarray:
        chosen: dict[int, None] = {}
        for index in map(int, indices):
            if index in chosen:
                continue
            question, first, last = (int(examples[index]["question"]), index, index)
            while first and int(examples[first - 1]["question"]) == question:
                first -= 1
            while last + 1 < len(examples) and int(examples[last + 1]["question"]) == question:
                last += 1
            chosen.update(dict.fromkeys(range(first, last + 1)))
        return np.array(list(chosen), dtype=np.int64)

    def labels(self, examples: Sequence[Example], flow: Any) -> dict[str, Tensor]:
        return {name: torch.tensor([int(example[name]) for example in examples]) for name in ENDS}

    def split_packed(self, output: Output, batch: MicroBatch) -> Output:
        return SpanClassifier.one_text_per_row(output, batch.flow)

    def unbatch(self, output: Output, batch: MicroBatch) -> list[tuple[Tensor, Tensor]]:
        """How well each token of an example begins an answer, and how well it ends one. [tokens] each"""
        assert output.start_logits is not None and output.end_logits is not None
        return list(zip(output.start_logits, output.end_logits, strict=True))

    @property
    def threshold(self) -> float:
        """The threshold of "no answer": that of the evaluation, else that of the model, else 0."""
        given, own = self.evaluation.no_answer_threshold, tuned_threshold(self.model)
        return next((float(value) for value in (given, own) if value is not None), 0.0)

    def check_evaluation(self) -> None:
        given = self.evaluation.no_answer_threshold
        if given is not None and not is_number(given):
            raise ConfigError(f"evaluation: {THRESHOLD} is {safe_repr(given)}; it must be a number")

    def note_validation(self, metrics: Mapping[str, float]) -> None:
        keep_threshold(self.model, metrics.get(THRESHOLD, np.inf))

    def tune_threshold(self, rows: Dataset) -> float:
        """The threshold of "no answer" with the highest F1 on rows, such as validation rows; the model keeps it.

        Raises: DataError: each of the rows has an answer, so there is nothing to choose.
        """
        predictions = list(self.predict(rows))
        if all(x.label for x in predictions):
            raise DataError(f"each of the {len(predictions):,} questions has an answer; give some that have none, too")
        threshold, _ = _best_threshold(predictions)
        keep_threshold(self.model, threshold)
        return threshold

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """The best span of all windows of a row, unless "no answer" beats it by more than the threshold.

        The score of "no answer" is that of the window which is least for it.

        windows   [CLS] question [SEP] it plays 6000 hours [SEP]     best span 5.9    none 1.2
                  [CLS] question [SEP] hours of music .    [SEP]     best span 0.3    none 4.0    answer: 1.2 - 5.9 ≤ 0

        The `details` of a prediction: `best`, the best span as a text; `start` and `stop`, its characters in the
        context; `no_answer`, how far the score of "no answer" is above that of the span. They are missing where the
        context has no token.
        """
        examples, threshold = self.encode(rows), self.threshold
        outputs = enumerate(run_examples(self, examples, tokens=self.evaluation.tokens))
        for index, row, windows in self._read(rows):
            logits = [(*pair, examples[number]) for number, pair in islice(outputs, len(windows))]
            details, loss = self._best_span(windows, logits, row.context)
            answer = details["best"] if details and details["no_answer"] <= threshold else ""
            label = [row.context[start:end] for start, end in row.answers]
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={"question": row.question, "context": row.context},
                label=label,
                predicted=answer,
                correct=bool(exact_match(answer, label)),
                loss=loss,
                details=details,
            )
            if progress is not None:
                progress(1)

    def _best_span(
        self, windows: Sequence[EncodedRow], logits: Sequence[tuple[Tensor, Tensor, Example]], context: str
    ) -> tuple[dict[str, Any], float]:
        """The details of a prediction: the best span of all windows; and the mean of their losses."""
        best, no_answer, losses = (-np.inf, 0, 0), np.inf, []
        for window, (start, end, example) in zip(windows, logits, strict=True):
            start, end = start.float().cpu(), end.float().cpu()
            no_answer = min(no_answer, float(start[0] + end[0]))
            for score, first, last in ranked_spans(start, end, example["context"].tolist(), self.longest):
                if score > best[0]:
                    best = score, window.offsets[first][0], window.offsets[last][1]
            ends = zip((start, end), ENDS, strict=True)
            losses.append(-sum(float(x.log_softmax(-1)[int(example[name])]) for x, name in ends) / 2)
        score, begin, stop = best
        if score == -np.inf:
            return {}, float(np.mean(losses))
        details = {"best": context[begin:stop], "start": begin, "stop": stop, "no_answer": no_answer - score}
        return details, float(np.mean(losses))

    def metric(self) -> Metric:
        return SpanMetric(self.head, self.longest)

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        """F1 and exact match of all questions; where some have no answer, also of those that have one, and of these.

        The official script of SQuAD 2.0 calls the two kinds HasAns and NoAns.
        """
        scores = {"f1": word_f1, "exact_match": exact_match}
        values = np.array([[score(x.predicted, x.label) for score in scores.values()] for x in predictions])
        answerable = np.array([bool(x.label) for x in predictions], dtype=float)
        kinds = {"": np.ones(len(predictions))}
        if 0 < answerable.sum() < len(predictions):
            kinds |= {"_answerable": answerable, "_unanswerable": 1 - answerable}
        names = [name + kind for kind in kinds for name in scores]

        def means(sums: np.ndarray) -> dict[str, np.ndarray]:
            # Of each kind the sums of both scores, then how many there are; a resample may have none of a kind.
            parts = sums.reshape(len(sums), len(kinds), len(scores) + 1)
            shares = parts[..., :-1] / np.maximum(parts[..., -1:], 1)
            return dict(zip(names, shares.reshape(len(sums), -1).T, strict=True))

        rows = [np.column_stack((values * of_kind[:, None], of_kind)) for of_kind in kinds.values()]
        return BootstrapSums(np.concatenate(rows, axis=1), means, dict.fromkeys(names, METHOD))

    def baselines(self, train: Dataset | None, predictions: Sequence[Prediction]) -> Iterator[Baseline]:
        """Two that learn nothing: no answer, and the first sentence of the context."""
        simple: tuple[tuple[str, str, Callable[[str], str]], ...] = (
            ("no answer", "predicts that there is none", lambda context: ""),
            ("first sentence", "answers with it", lambda context: (split_sentences(context) or [""])[0]),
        )
        for name, about, answer in simple:
            texts = [answer(x.row["context"]) for x in predictions]
            scored = zip(predictions, texts, strict=True)
            own = [x.by_baseline(text, bool(exact_match(text, x.label))) for x, text in scored]
            yield Baseline(name, about, own)

    def notes(self, predictions: Sequence[Prediction]) -> list[str]:
        unanswerable = sum(not x.label for x in predictions)
        if not unanswerable:
            return []
        notes = [f"{unanswerable:,} of {len(predictions):,} questions have no answer"]
        if all("no_answer" in x.details for x in predictions):
            best, f1 = _best_threshold(predictions)
            notes.append(
                f"{THRESHOLD} is {self.threshold:.2f}; the best for these rows is {best:.2f}, with an F1 of {f1:.3f}"
            )
        return notes


def _best_threshold(predictions: Sequence[Prediction]) -> tuple[float, float]:
    """The threshold of "no answer" with the highest F1 of predictions, and that F1."""
    of_none = [word_f1("", x.label) for x in predictions]
    of_span = [word_f1(x.details.get("best", ""), x.label) for x in predictions]
    return best_threshold([x.details.get("no_answer", np.inf) for x in predictions], of_span, of_none)


def answers_of(row: Mapping[str, Any], context: str, columns: Mapping[str, str]) -> list[tuple[int, int]]:
    """Where the answers of a row begin and end in its context, in characters; nothing where it has none.

    Raises: DataError: an answer that is not where the row says.
    """
    return [_placed_answer(text, start, context) for text, start in located_answers(row, columns)]


def located_answers(row: Mapping[str, Any], columns: Mapping[str, str]) -> list[tuple[object, object]]:
    """The answers of a row, each with where it begins, as SQuAD has them or the Hub.

    Raises: DataError: they are in no such form.
    """
    name, value = columns["answers"], row.get(columns["answers"])
    if value is None or isinstance(value, str):
        return [(value, row.get(columns["start"]))] if value else []
    if isinstance(value, Mapping):
        texts, starts = (_listed(value.get(key), f"{name}.{key}") for key in ("text", "answer_start"))
        if len(texts) != len(starts):
            raise DataError(f"{name!r} has {len(texts)} texts and {len(starts)} starts; each text has one")
        return list(zip(texts, starts, strict=True))
    return [
        (each.get("text"), each.get("answer_start")) if isinstance(each, Mapping) else (each, None)
        for each in _listed(value, name)
    ]


def _listed(value: object, name: str) -> list[Any]:
    if (answers := listed(value)) is None:
        raise DataError(
            f"{name!r} is {safe_repr(value)}; answers are a text, or a list of objects with text and answer_start"
        )
    return answers


def _placed_answer(text: object, start: object, context: str) -> tuple[int, int]:
    if not isinstance(text, str) or not text:
        raise DataError(f"an answer is {safe_repr(text)}; it must be a text, and where there is none, nothing")
    try:
        first = int(start)  # type: ignore[call-overload]  # a number, or its letters from a table
    except (TypeError, ValueError):
        raise DataError(
            f"the answer {safe_repr(text)} begins at {safe_repr(start)}; that must be the number of a "
            "character in the context"
        ) from None
    there = context[max(first, 0) : max(first, 0) + len(text)]
    if first < 0 or there != text:
        position = context.find(text)
        hint = f"it is at {position}" if position >= 0 else "it is nowhere in it"
        raise DataError(
            f"the answer {safe_repr(text)} is not what the context has at character {first}, {safe_repr(there)}; {hint}"
        )
    return first, first + len(text)


def span_of(
    offsets: Sequence[tuple[int, int]], context: tuple[int, int], start: int, end: int
) -> tuple[int, int] | None:
    """The first and last token of a window that share a character with an answer; None = it is not whole in there.

    Args:
        offsets: where tokens begin and end
        context: first and last token of it
        start, end: of the answer
    """
    first, last = context
    if first > last or offsets[first][0] > start or offsets[last][1] < end:
        return None
    touched = [t for t in range(first, last + 1) if offsets[t][0] < end and offsets[t][1] > start]
    return (touched[0], touched[-1]) if touched else None
