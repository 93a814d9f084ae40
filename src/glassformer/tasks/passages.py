"""passage-reading pipeline: DPR's reader finds the answer in passages that a search has found, the best ones first.

    [CLS] question [SEP] title [SEP] passage ─ reader ─┬─ relevance of the passage          ranks the passages
                                                       └─ start + end logit of each span    ranks the spans of each

Spans of one passage do not contain one another. A title may hold the answer, so it is searched too.
Source: Karpukhin et al. 2020, section 6.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from glassformer.core.heads import not_none
from glassformer.engine.batching import plan_batches
from glassformer.errors import DataError
from glassformer.files import check_count, safe_repr
from glassformer.models import eval_mode
from glassformer.tasks.columns import limit_of, tell_cut
from glassformer.tasks.microbatch import TOKENS, collate_inputs
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import Results, SpanAnswer
from glassformer.tasks.types import MicroBatch

TOP_K, LONGEST, PER_PASSAGE = 16, 64, 4
"""Answers in all, tokens of the longest one, and answers of a passage, where a call says nothing."""


class PassageReading(Pipeline):
    """The answers to a question in passages, by the relevance of the passage, then by the score of the span.

        read(question="Who wrote Emma?", passages=[{"title": "Emma", "text": "A novel by Jane Austen."}])

    top_k: how many answers (default 16) · max_answer_len: tokens of the longest one (default 64)
    per_passage: answers of one passage (default 4) · batch_size: how many questions, each with all its passages

    An input is {"question": …, "passages": …}; a passage is {"title": …, "text": …}, or a text without a title.
    """

    HEAD = "passage-reading"
    WHY = "it has no head that ranks passages and finds answers in them; DPR's reader has"
    ROLES: ClassVar[Mapping[str, str]] = {"question": "text", "passages": "json"}
    OWN = ("top_k", "max_answer_len", "per_passage")

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        for name in ("max_answer_len", "per_passage"):
            check_count(name, options.get(name, 1))

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping)

    def check_input(self, given: Any) -> None:
        question, passages = (given.get(name) if isinstance(given, Mapping) else None for name in self.ROLES)
        whole = isinstance(passages, Sequence) and not isinstance(passages, str) and len(passages) > 0
        if not isinstance(question, str) or not question.strip() or not whole:
            raise DataError(
                f"the input is {safe_repr(given)}; it must be {{'question': 'Who?', 'passages': [{{'title': 'a title', "
                "'text': 'a text'}, …]}"
            )
        for number, passage in enumerate(passages or ()):
            if not all(isinstance(part, str) for part in _parts(passage)):
                raise DataError(
                    f"passage {number} is {safe_repr(passage)}; it must be a text, or {{'title': …, 'text': …}}"
                )

    def in_words(self, answer: Any) -> str:
        return str(answer[0].answer) if answer else ""

    def __call__(self, texts: Any = None, *, question: Any = None, passages: Any = None, **options: Any) -> Any:
        """As any pipeline; a question and its passages may also come by name."""
        if question is not None:
            texts = {"question": question, "passages": passages}
        return super().__call__(texts, **options)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        with eval_mode(self.model.network), torch.inference_mode():
            return [self._ranked(row, options) for row in batch]

    def _ranked(self, row: Mapping[str, Any], options: Mapping[str, Any]) -> Results[SpanAnswer]:
        """The answers in all passages of a question."""
        ids, begin = self.encoded(row)
        logits = self.logits(ids)
        count, longest = options.get("top_k") or TOP_K, options.get("max_answer_len") or LONGEST
        answers: list[SpanAnswer] = []
        for passage in sorted(range(len(ids)), key=lambda number: -logits[number][2]):
            start, end, relevance = logits[passage]
            spans = best_spans(start[begin:], end[begin:], longest, options.get("per_passage") or PER_PASSAGE)
            for first, last, score in spans:
                text = self.model.tokenizer.decode(ids[passage][begin + first : begin + last + 1])
                answers.append(SpanAnswer(text, score, relevance, passage, begin + first, begin + last))
            if len(answers) >= count:
                break
        return Results(answers[:count])

    def logits(self, ids: Sequence[Sequence[int]]) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """The start and end logits of each passage's tokens, and its relevance."""
        logits: dict[int, tuple[np.ndarray, np.ndarray, float]] = {}
        for group in plan_batches([len(each) for each in ids], TOKENS):
            batch, flow = collate_inputs([{"input_ids": np.array(ids[number])} for number in group], 0, packed=True)
            given = MicroBatch(batch, flow, {}).to(self.model.device)
            output = self.model.network(given.batch, given.flow)
            lengths = [len(ids[number]) for number in group]
            start, end = (
                x[0].float().cpu().split(lengths) for x in (not_none(output.start_logits), not_none(output.end_logits))
            )
            for number, own, last, rank in zip(group, start, end, not_none(output.relevance_logits), strict=True):
                logits[number] = own.numpy(), last.numpy(), float(rank)
        return [logits[number] for number in range(len(ids))]

    def encoded(self, row: Mapping[str, Any]) -> tuple[list[list[int]], int]:
        """The ids of each passage behind the question and its title, and where titles begin.

        Raises: DataError: a question that leaves no room for a passage.
        """
        tokenizer, limit = self.model.tokenizer, limit_of(self.model, None)
        titles, texts = zip(*map(_parts, row["passages"]), strict=True)
        framed = tokenizer([row["question"]] * len(titles), list(titles))["input_ids"]
        plain = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        ids = [[*head, *text] for head, text in zip(framed, plain, strict=True)]
        begin = len(tokenizer(row["question"])["input_ids"])
        if limit is not None and begin >= limit:
            raise DataError(
                f"the question has {begin} tokens, special ones counted, and the model reads {limit} with the passage; "
                "shorten it"
            )
        tell_cut("passages", sum(limit is not None and len(each) > limit for each in ids), len(ids), limit or 0)
        return [each[:limit] for each in ids], begin


def best_spans(start: np.ndarray, end: np.ndarray, longest: int, count: int) -> Iterator[tuple[int, int, float]]:
    """The best spans by start + end logit, none of which contains another: first token, last token, score.

    Args:
        start, end: logits. [tokens]
        longest: tokens of a span at most
        count: how many at most
    """
    tokens = len(start)
    scores = np.full((tokens, min(longest, tokens)), -np.inf, dtype=np.float32)  # by first token and length - 1
    for length in range(scores.shape[1]):
        scores[: tokens - length, length] = start[: tokens - length] + end[length:]
    chosen: list[tuple[int, int]] = []
    for place in np.argsort(-scores, axis=None, kind="stable"):
        first, length = divmod(int(place), scores.shape[1])
        last, score = first + length, float(scores[first, length])
        if len(chosen) == count or score == -np.inf:
            return
        if not any((first <= a and b <= last) or (a <= first and last <= b) for a, b in chosen):
            chosen.append((first, last))
            yield first, last, score


def _parts(passage: Any) -> tuple[Any, Any]:
    """The title and the text of a passage."""
    return (passage.get("title", ""), passage.get("text")) if isinstance(passage, Mapping) else ("", passage)
