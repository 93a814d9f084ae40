"""text-classification: the reference's labels and scores, in any company; what is told by default, cut, and refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.reports.table import bar
from glassformer.tasks.results import Estimate, Label
from tests.e2e.tiny_models import make_folder

ENCODERS = {
    "bert": "BertForSequenceClassification",
    "distilbert": "DistilBertForSequenceClassification",
    "roberta": "RobertaForSequenceClassification",
    "xlm-roberta": "XLMRobertaForSequenceClassification",
    "big_bird": "BigBirdForSequenceClassification",
}
OWN = {
    "big_bird": {"attention_type": "original_full"},
    "roberta": {"pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
}
NAMES = {0: "bad", 1: "so so", 2: "good", 3: "<b>"}
LABELS = {"id2label": NAMES, "label2id": {name: number for number, name in NAMES.items()}}
TEXTS = ["time flies like an arrow", "a", "", "what a banana! it's all gold, isn't it?", "fruit flies"]
Folders = Callable[..., Path]


@pytest.fixture
def place(folder_of: Folders) -> Callable[..., Path]:
    def make(family: str = "bert", **changes: Any) -> Path:
        asked = {"max_position_embeddings": 64, **LABELS, **OWN.get(family, {}), **changes}
        return folder_of(family, ENCODERS[family], **asked)

    return make


def theirs_of(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")


def close(ours: Any, theirs: Any) -> None:
    assert [one["label"] for one in ours] == [one["label"] for one in theirs]
    assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs], abs=1e-5)


@pytest.mark.parametrize("family", ENCODERS)
def test_as_the_reference_classifies_at_any_batch_size(place: Callable[..., Path], family: str) -> None:
    ours, theirs = glassformer.pipeline("classify", place(family)), theirs_of(place(family))
    pairs = [{"text": text, "text_pair": "so it goes"} for text in TEXTS]
    wanted = [theirs(given, top_k=None) for given in (*TEXTS, *pairs)]
    for size in (1, 3, 256):
        for mine, other in zip(ours([*TEXTS, *pairs], top_k=None, batch_size=size), wanted, strict=True):
            close(mine, other)
    many = ours(TEXTS * 40, top_k=None)  # so many are worth packed weights
    for mine, other in zip(many[-len(TEXTS) :], wanted, strict=False):
        close(mine, other)
    close(ours(TEXTS[0]), theirs(TEXTS[0]))
    close(ours(TEXTS[3], top_k=2), theirs(TEXTS[3], top_k=2))


def test_the_head_gives_logits(place: Callable[..., Path]) -> None:
    classify = glassformer.pipeline("text-classification", place())
    model = classify.model
    logits = model(**model.tokenizer(TEXTS, padding=True, return_tensors="pt")).logits
    assert logits.shape == (len(TEXTS), len(NAMES)) and (logits < 0).any()  # no probabilities yet
    for row, answer in zip(logits, classify(TEXTS, top_k=None), strict=True):
        found = {result.label: result.score for result in answer}
        assert [found[name] for name in NAMES.values()] == pytest.approx(row.softmax(-1).tolist(), abs=1e-5)
        assert sum(found.values()) == pytest.approx(1)


def test_what_comes_back(place: Callable[..., Path]) -> None:
    classify = glassformer.pipeline("sentiment-analysis", place())
    one = classify("time flies")
    assert len(one) == 1 and isinstance(one[0], Label) and one[0] == {"label": one[0].label, "score": one[0]["score"]}
    everything = classify("time flies", top_k=None)
    scores = [result.score for result in everything]
    assert scores == sorted(scores, reverse=True) and everything[0] == one[0] and len(scores) == 4
    assert classify.texts(TEXTS) == [answer[0].label for answer in classify(TEXTS)]
    html = everything._repr_html_()
    assert html.count("<td>0.") == 4 and "&lt;b&gt;" in html
    assert f"{scores[0]:.4f} {bar(scores[0], 12).strip()}<" in html
    # pairs in all their forms; only within a list are two texts a pair
    pair, alone = classify({"text": "a", "text_pair": "fruit"}, top_k=None), classify("a", top_k=None)
    found = classify([("a", "fruit"), ["a", "fruit"], {"text": "a"}, {"text": "a", "text_pair": None}], top_k=None)
    for mine, other in zip(found, (pair, pair, alone, alone), strict=True):
        close(mine, other)
    assert len(classify(("a", "fruit"))) == 2


def test_names_that_nobody_gave(place: Callable[..., Path]) -> None:
    plain = {"id2label": {0: "LABEL_0", 1: "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}}
    assert glassformer.pipeline("classify", place(**plain))("a")[0].label in ("LABEL_0", "LABEL_1")


def test_labels_that_hold_together(place: Callable[..., Path]) -> None:
    folder = place(problem_type="multi_label_classification")
    classify, theirs = glassformer.pipeline("classify", folder), theirs_of(folder)
    close(classify(TEXTS[0], top_k=None), theirs(TEXTS[0], top_k=None))
    for text in TEXTS:
        everything = {one.label: one.score for one in classify(text, top_k=None)}
        for threshold in (0.5, 0.2, 0.999):
            holds = {name for name, score in everything.items() if score > threshold}  # none, too
            asked = {} if threshold == 0.5 else {"threshold": threshold}
            assert {one.label for one in classify(text, **asked)} == holds
    strict = glassformer.pipeline("classify", folder, threshold=0.999)
    assert len(strict("a", top_k=3)) == 3 and strict("a") == []  # a call wins over what was said before
    assert strict.texts(["a"], top_k=2)[0].count(", ") == 1


def test_a_number(place: Callable[..., Path]) -> None:
    folder = place(problem_type="regression", id2label={0: "stars"}, label2id={"stars": 0})
    rate, theirs = glassformer.pipeline("classify", folder), theirs_of(folder)
    found = rate(TEXTS)
    assert all(isinstance(one, Estimate) and one.label == "stars" for (one,) in found)
    assert [one.score for (one,) in found] == pytest.approx([one["score"] for one in theirs(TEXTS)], abs=1e-5)
    assert rate("a", top_k=None) == rate("a") and "█" not in rate("a")._repr_html_()
    assert float(rate.texts(["a"])[0]) == pytest.approx(found[1][0].score, abs=1e-5)


def test_long_texts_are_cut_and_counted(place: Callable[..., Path]) -> None:
    classify = glassformer.pipeline("classify", place())
    long = "time " * 99
    with pytest.warns(UserWarning, match="^3 of 5 texts were cut to 64 tokens$") as caught:
        found = classify(["a", long, "b", long, long + "flies"], batch_size=2)  # one word for all batches
    assert len(caught) == 1
    with pytest.warns(UserWarning, match="1 of 1 texts were cut"):
        close(classify(long), found[1])  # another batch: equal but for rounding
    with pytest.warns(UserWarning, match="1 of 1 texts were cut"):
        next(iter(classify(iter([long, "a"]), batch_size=1)))  # who stops early hears it, too
    with pytest.raises(DataError, match=r"^texts 0 to 1: 1 of 2 texts have more than 64 tokens; .* truncation=True"):
        classify(["a", long], truncation=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classify(TEXTS)


def test_decoders_and_encoder_decoders(folder_of: Folders) -> None:
    """A decoder reads its last token; an encoder-decoder keeps no texts apart in a row, and takes rectangles."""
    for family, architecture in (
        ("llama", "LlamaForSequenceClassification"),
        ("bart", "BartForSequenceClassification"),
    ):
        classify = glassformer.pipeline("classify", folder_of(family, architecture, **LABELS))
        texts = [text for text in TEXTS if text]
        for mine, alone in zip(classify(texts, top_k=None), map(classify, texts), strict=True):
            close(mine[:1], alone)


@pytest.mark.parametrize(
    ("given", "asked", "kind", "said"),
    [
        (5, {}, DataError, "the input is 5; it must be a text, or several"),
        (
            ["a", 5],
            {},
            DataError,
            r"^text 1: the input is 5; it must be a text, or a pair of texts: \{'text': …",
        ),
        ([("a", "b", "c")], {}, DataError, "it must be a text, or a pair"),
        ({"text": "a", "label": "b"}, {}, DataError, "it must be a text, or a pair"),
        ({"text_pair": "a"}, {}, DataError, "it must be a text, or a pair"),
        (b"a", {}, DataError, "it must be a text, or several"),
        ("\ud800", {}, DataError, "half of a surrogate pair"),
        ("a", {"top_k": 0}, ConfigError, "top_k is 0"),
        ("a", {"topk": 1}, ConfigError, "takes no 'topk'; nearest: 'top_k'"),
        ("a", {"threshold": 0.3}, ConfigError, "this model predicts one"),
        ("a", {"threshold": 1.5}, ConfigError, "threshold is 1.5; it must be a number from 0 up to"),
        ("a", {"truncation": "longest_first"}, ConfigError, "it must be True .* or False"),
    ],
)
def test_bad_requests(
    place: Callable[..., Path], given: Any, asked: dict[str, Any], kind: type[Exception], said: str
) -> None:
    classify = glassformer.pipeline("classify", place())
    with pytest.raises(kind, match=said):
        classify(given, **asked)


def test_two_ways_to_say_how_many(place: Callable[..., Path]) -> None:
    folder = place(problem_type="multi_label_classification")
    with pytest.raises(ConfigError, match="top_k and threshold both say how many"):
        glassformer.pipeline("classify", folder, top_k=2, threshold=0.3)


def test_a_text_without_a_token(tmp_path: Path) -> None:
    classify = glassformer.pipeline("classify", make_folder(tmp_path / "gpt2", "gpt2", task="classify"))
    with pytest.raises(DataError, match="a text is empty, and makes no token"):
        classify(["time", ""])


def test_models_without_the_head(folder_of: Folders, tmp_path: Path) -> None:
    body = folder_of("bert", "BertModel")
    with pytest.raises(
        WeightsError, match="holds no head for 'text-classification', so its predictions would be random"
    ):
        glassformer.pipeline("classify", body)
    # A tagger's head has the names and, here, the shape of a classifier's.
    with pytest.raises(WeightsError, match=r"predictions would be random .*head\.classifier\.weight"):
        glassformer.pipeline("classify", folder_of("bert", "BertForTokenClassification"))
    with pytest.raises(UnsupportedError, match="loaded for 'token-classification'; for 'text-classification' load it"):
        glassformer.pipeline("classify", glassformer.load(folder_of("bert", "BertForTokenClassification")))
    with pytest.raises(UnsupportedError, match="a 'vit' model cannot do 'text-classification'"):
        glassformer.pipeline("classify", make_folder(tmp_path / "vit", "vit"))
