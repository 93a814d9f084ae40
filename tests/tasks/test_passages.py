"""Passages are ranked by relevance and spans by their logits, as the reference library's tokenizer decodes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

import glassformer
import glassformer.hf
from glassformer import ConfigError, DataError, UnsupportedError
from glassformer.tasks.passages import PassageReading, best_spans
from tests.core.small import perturbed
from tests.e2e.tiny_models import make_folder

QUESTION = "a banana"
PASSAGES = [
    {"title": "fruit", "text": "fruit flies like a banana ."},
    {"title": "an arrow", "text": "time flies like an arrow ."},
    {"title": "time", "text": "time flies like fruit flies . a banana flies like an arrow ."},
]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> PassageReading:
    folder = make_folder(
        tmp_path_factory.mktemp("reader") / "dpr", "dpr", task="passage-reading", max_position_embeddings=32
    )
    engine = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pair = "[CLS] $A [SEP] $B [SEP]"
    engine.post_processor = TemplateProcessing(single=pair[:14], pair=pair, special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    engine.save(str(folder / "tokenizer.json"))
    model = glassformer.load(folder)
    perturbed(model.network)
    pipeline = glassformer.pipeline("passage-reading", model)
    assert isinstance(pipeline, PassageReading)
    return pipeline


def theirs(read: PassageReading, **options: Any) -> list[Any]:
    """The spans that the reference's tokenizer decodes from the same logits."""
    transformers = pytest.importorskip("transformers")
    mixin = pytest.importorskip("transformers.models.dpr.tokenization_dpr").CustomDPRReaderTokenizerMixin
    tokenizer = read.model.tokenizer

    class Decoder(mixin):  # type: ignore[misc, valid-type]
        sep_token_id, pad_token_id = tokenizer.sep_token_id or 2, tokenizer.pad_token_id

        def decode(self, ids: list[int]) -> str:
            return tokenizer.decode(ids)

    framed = [tokenizer(QUESTION, passage["title"])["input_ids"] for passage in PASSAGES]
    plain = [tokenizer(passage["text"], add_special_tokens=False)["input_ids"] for passage in PASSAGES]
    ids = [[*head, *text] for head, text in zip(framed, plain, strict=True)]
    longest = max(map(len, ids))
    padded = torch.tensor([[*each, *[tokenizer.pad_token_id] * (longest - len(each))] for each in ids])
    keep = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in ids])
    with torch.no_grad():
        output = read.model(input_ids=padded, attention_mask=keep)
    assert transformers.__version__
    return Decoder().decode_best_spans({"input_ids": padded.tolist()}, tuple(output[:3]), **options)


@pytest.mark.parametrize(
    ("ours", "options"),
    [
        ({}, {}),
        ({"top_k": 5}, {"num_spans": 5}),
        (
            {"top_k": 9, "max_answer_len": 2, "per_passage": 6},
            {"num_spans": 9, "max_answer_length": 2, "num_spans_per_passage": 6},
        ),
        ({"max_answer_len": 1, "per_passage": 99}, {"max_answer_length": 1, "num_spans_per_passage": 99}),
    ],
)
def test_answers_are_the_spans_of_the_reference(
    read: PassageReading, ours: dict[str, int], options: dict[str, int]
) -> None:
    answers, expected = read(question=QUESTION, passages=PASSAGES, **ours), theirs(read, **options)
    keys = "answer", "passage", "start_index", "end_index"
    assert [tuple(answer[key] for key in keys) for answer in answers] == [
        (span.text, span.doc_id, span.start_index, span.end_index) for span in expected
    ]
    for name, their in (("score", "span_score"), ("relevance", "relevance_score")):
        ranks = [float(getattr(span, their)) for span in expected]
        np.testing.assert_allclose([answer[name] for answer in answers], ranks, atol=1e-5)


def test_passages_are_ranked_alone_and_in_company(read: PassageReading) -> None:
    both = read([{"question": QUESTION, "passages": PASSAGES}] * 2, top_k=1)
    assert both[0] == both[1] == read(question=QUESTION, passages=PASSAGES, top_k=1)
    assert read.in_words(both[0]) == both[0][0].answer
    (alone,) = read(question=QUESTION, passages=[PASSAGES[both[0][0].passage]], top_k=1)
    assert alone.answer == both[0][0].answer and alone.relevance == pytest.approx(both[0][0].relevance, abs=1e-5)
    untitled = read(question=QUESTION, passages=["time flies like an arrow ."])
    assert untitled == read(question=QUESTION, passages=[{"title": "", "text": "time flies like an arrow ."}])


def test_spans_do_not_contain_one_another() -> None:
    start, end = np.array([0.0, 3.0, 0.0, 2.0], np.float32), np.array([0.0, 0.0, 3.0, 1.0], np.float32)
    spans = list(best_spans(start, end, longest=3, count=9))
    assert spans[0] == (1, 2, 6.0)
    for i, (a, b, _) in enumerate(spans):
        assert not any((a <= c and d <= b) or (c <= a and b <= d) for c, d, _ in spans[:i])
    assert all(b - a < 2 for a, b, _ in best_spans(start, end, longest=2, count=9))
    assert list(best_spans(start[:0], end[:0], longest=3, count=9)) == []


def test_a_long_passage_is_cut_with_a_warning(read: PassageReading) -> None:
    with pytest.warns(UserWarning, match="1 of 2 passages were cut to"):
        answers = read(question=QUESTION, passages=["time flies", "time flies " * 400], top_k=3)
    assert len(answers) == 3
    with pytest.raises(DataError, match=r"the question has .* tokens, special ones counted"):
        read(question="time " * 400, passages=["time"])


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"question": "time", "passages": []}, DataError, "'passages'"),
        ({"question": " ", "passages": ["time"]}, DataError, "'question': 'Who"),
        ({"question": "time", "passages": "time"}, DataError, "'passages'"),
        ({"question": "time", "passages": [{"title": "time"}]}, DataError, "passage 0 is"),
        ({"question": "time", "passages": ["time", 5]}, DataError, "passage 1 is 5"),
        ({"question": "time", "passages": ["time"], "max_answer_len": 0}, ConfigError, "from 1 up"),
    ],
)
def test_what_is_refused(read: PassageReading, given: dict[str, Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        read(**given)


def test_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="DPR's reader has"):
        glassformer.pipeline("passage-reading", make_folder(tmp_path / "bert", "bert", task="question-answering"))
    reader = make_folder(tmp_path / "dpr", "dpr", task="passage-reading")
    with pytest.raises(ConfigError, match="no token types"):
        glassformer.load(reader)(input_ids=torch.tensor([[1, 5]]), token_type_ids=torch.tensor([[0, 0]]))


def test_the_reference_libraries_tokenizer_is_named() -> None:
    with pytest.raises(UnsupportedError, match="passage-reading"):
        glassformer.hf.DPRReaderTokenizer.from_pretrained("reader")
