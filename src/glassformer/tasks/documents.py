"""document-question-answering pipeline: the words of a scanned page that answer a question.

    question     what is the total ?
    word_boxes   ("Total", [70, 900, 120, 920]), ("12.50", [800, 900, 860, 920])     ──>     12.50   0.91   word 1

Words and their boxes come from an OCR program. Source: Xu et al. 2020 (LayoutLM), section 2.2; answers as in Devlin et
al. 2019, section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from glassformer.errors import DataError, UnsupportedError
from glassformer.files import safe_repr
from glassformer.model import Model
from glassformer.models import eval_mode
from glassformer.tasks.columns import limit_of
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.question_answering import (
    OF_WINDOWS,
    Span,
    check_windows,
    ends_of,
    merged,
    shortened,
    token_spans,
)
from glassformer.tasks.results import PageAnswer, Results
from glassformer.tasks.span import check_question

if TYPE_CHECKING:
    from glassformer.text.encoding import Encoding

SHARED = 256
"""Tokens that neighbouring windows share, where a window has more than twice as many."""
SEPARATOR_BOX, NO_BOX = [1000] * 4, [0] * 4
"""Boxes of what is on no place of the page: separators, and the question."""


class DocumentQuestionAnswering(Pipeline):
    """The words of a page that answer a question, with their probability; a long page is read in windows.

        ask(question="What is the total?", word_boxes=[("Total", [70, 900, 120, 920]), ("12.50", [800, 900, 860, 920])])

    top_k: how many answers (default 1) · max_answer_len: tokens of the longest one (default 15)
    doc_stride: tokens that neighbouring windows share · max_seq_len: tokens of a window
    max_question_len: tokens of a question, after which it is cut (default: none is cut)
    handle_impossible_answer: also "no answer", an empty text, where that is likelier

    An input is {"question": …, "word_boxes": …}; several are a list of them. A box is left, top, right, bottom, in
    thousandths of the page. The picture itself is not read.
    """

    HEAD = "question-answering"
    WHY = "it does not read words with their places on a page; LayoutLM does"
    ROLES: ClassVar[Mapping[str, str]] = {"question": "text", "word_boxes": "json"}
    OWN = (*OF_WINDOWS, "top_k", "handle_impossible_answer")

    def __init__(self, model: Model, task: str, **options: Any) -> None:
        if "bbox" not in model.network.READS:
            raise UnsupportedError(f"a {model.family.model_type!r} model cannot do {task!r}: {self.WHY}")
        super().__init__(model, task, **options)

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        check_windows(options)

    def is_one(self, given: Any) -> bool:
        return isinstance(given, Mapping)

    def check_input(self, given: Any) -> None:
        if (
            not isinstance(given, Mapping)
            or not isinstance(given.get("question"), str)
            or not given["question"].strip()
        ):
            raise DataError(
                f"the input is {safe_repr(given)}; it must be {{'question': 'Who?', 'word_boxes': [(word, box), …]}}"
            )
        if (words := given.get("word_boxes")) is None:
            raise UnsupportedError(
                "words are not read off a picture here: give word_boxes=[(word, [left, top, right, bottom]), …], in "
                "thousandths of the page, from an OCR program such as Tesseract"
            )
        whole = isinstance(words, Sequence) and bool(words) and not isinstance(words, str)
        if not whole or not all(len(pair) == 2 and isinstance(pair[0], str) and len(pair[1]) == 4 for pair in words):
            raise DataError(
                f"word_boxes is {safe_repr(words)}; it must be a list of (word, [left, top, right, bottom]), in "
                "thousandths of the page"
            )

    def in_words(self, answer: Any) -> str:
        return str(answer[0].answer)

    def __call__(
        self, texts: Any = None, *, question: Any = None, word_boxes: Any = None, image: Any = None, **options: Any
    ) -> Any:
        """As any pipeline; a question and a page may also come by name.

        Args:
            image: not read
        """
        if question is not None:
            texts = {"question": question, **({} if word_boxes is None else {"word_boxes": word_boxes})}
        return super().__call__(texts, **options)

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        with eval_mode(self.model.network), torch.inference_mode():
            return [self._page(page, options) for page in batch]

    def _page(self, page: Mapping[str, Any], options: Mapping[str, Any]) -> Results[PageAnswer]:
        window = limit_of(self.model, options.get("max_seq_len") or self.model.network.max_tokens)
        assert window is not None  # the family has a table of positions
        stride, tokenizer = options.get("doc_stride") or min(window // 2, SHARED), self.model.tokenizer
        special = len(tokenizer("", "")["input_ids"])
        question = shortened(tokenizer, page["question"], options.get("max_question_len"))
        tokens = len(tokenizer(question, add_special_tokens=False)["input_ids"])
        most = window - special - stride - 1
        check_question(safe_repr(question), tokens, most, window=window, stride=stride)
        encoding = tokenizer(
            question.split(),
            [word for word, _ in page["word_boxes"]],
            is_split_into_words=True,
            return_token_type_ids=True,
            return_overflowing_tokens=True,
            truncation="only_second",
            max_length=window,
            stride=stride,
        )
        spans: list[Span] = []
        none = 1.0
        for number in range(len(encoding["input_ids"])):
            impossible, best = self._window(encoding, number, page["word_boxes"], options)
            none = min(none, impossible)
            spans.extend(best)
        answers = [
            PageAnswer(score, start, end, " ".join(word for word, _ in page["word_boxes"][start : end + 1]))
            for score, start, end in merged(spans, max)  # the reference keeps the score of a window
        ]
        if options.get("handle_impossible_answer"):
            answers.append(PageAnswer(none, 0, 0, ""))
        return Results(sorted(answers, key=lambda each: -each.score)[: options.get("top_k") or 1])

    def _window(
        self, encoding: Encoding, number: int, words: Sequence[Any], options: Mapping[str, Any]
    ) -> tuple[float, list[Span]]:
        """The probability that a window holds no answer, and its best answers, in words."""
        texts, places = encoding.sequence_ids(number), encoding.word_ids(number)
        names = ("input_ids", "token_type_ids", "attention_mask")
        rows = {name: encoding[name][number] for name in names}
        separator = self.model.tokenizer.sep_token_id
        boxes = [
            words[place or 0][1] if text == 1 else SEPARATOR_BOX if token == separator else NO_BOX
            for token, text, place in zip(rows["input_ids"], texts, places, strict=True)
        ]
        rows["bbox"] = boxes
        tensors: dict[str, Any] = {name: torch.tensor([row]).to(self.model.device) for name, row in rows.items()}
        output = self.model(**tensors)
        context = [place for place, text in enumerate(texts) if text == 1]
        if not context:
            return 1.0, []
        assert output.start_logits is not None and output.end_logits is not None  # its head finds spans
        begins, ends = ends_of(output.start_logits[0], output.end_logits[0], context[0], context[-1])
        none = float(begins[0] * ends[0])
        best = token_spans(begins, ends, options, merging=True)
        words_of = ((score, places[first], places[last]) for score, first, last in best)
        return none, [(score, start, end) for score, start, end in words_of if start is not None and end is not None]
