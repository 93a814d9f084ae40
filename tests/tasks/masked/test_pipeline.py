"""fill-mask: the reference's words and scores; gaps, targets, and why a decoder cannot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError, WeightsError
from tests.e2e.tiny_models import make_folder

ENCODERS = {
    "bert": "BertForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "xlm-roberta": "XLMRobertaForMaskedLM",
    "big_bird": "BigBirdForMaskedLM",
}
LONG = {"max_position_embeddings": 64}
OWN = {
    "big_bird": {"attention_type": "original_full"},  # the sparse kind changes with padding, theirs too
    "roberta": {"pad_token_id": 1},  # as its tokenizer has it: the reference counts positions by it
    "xlm-roberta": {"pad_token_id": 1},
}
encoders = pytest.mark.parametrize("family", ENCODERS)
Folders = Callable[..., Path]


@pytest.fixture
def place(folder_of: Folders, family: str) -> Path:
    return folder_of(family, ENCODERS[family], **LONG, **OWN.get(family, {}))


@pytest.fixture
def bert(folder_of: Folders) -> Any:
    return glassformer.pipeline("fill-mask", folder_of("bert", "BertForMaskedLM", **LONG))


def theirs_of(folder: Path) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer, device="cpu")


def close(ours: Any, theirs: Any) -> None:
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        if isinstance(mine, list):
            close(mine, other)
        else:
            assert {**mine, "score": 0} == {**other, "score": 0}
            assert mine.score == pytest.approx(other["score"], abs=1e-5)


@encoders
def test_as_the_reference_fills(family: str, place: Path) -> None:
    ours, theirs = glassformer.pipeline("fill-mask", place), theirs_of(place)
    gap = ours.model.tokenizer.mask_token
    texts = [f"Time {gap} like an arrow.", f"{gap}, what a banana {gap}! {gap}", f"don't {gap}"]
    for text in texts:
        close(ours(text), theirs(text))
    close(ours(texts), theirs(texts))
    close(ours(texts, batch_size=1, top_k=2), theirs(texts, top_k=2))
    assert len({result.token for result in ours(texts[0])}) == 5
    vocabulary = ours.model.tokenizer.engine.get_vocab(True)
    targets = sorted(vocabulary, key=vocabulary.__getitem__)[9:16]
    for asked in ({"targets": targets}, {"targets": targets[2]}, {"targets": targets, "top_k": 3}):
        close(ours(texts[0], **asked), theirs(texts[0], **asked))


@encoders
def test_a_batch_changes_nothing(family: str, place: Path) -> None:
    fill = glassformer.pipeline("fill-mask", place)
    gap = fill.model.tokenizer.mask_token
    texts = [f"a {gap}", f"time flies like {gap} arrow, and fruit flies like a banana", f"so {gap} what"]
    close(fill(texts), [[dict(result) for result in fill(text)] for text in texts])
    assert list(fill(iter(texts), batch_size=2)) == fill(texts, batch_size=2)


def test_what_comes_back(bert: Any) -> None:
    found = bert("time [MASK] like an arrow", top_k=3)
    best = found[0]
    assert set(best) == {"score", "token", "token_str", "sequence"} and best["score"] == best.score
    assert best.sequence == f"time {best.token_str} like an arrow"
    assert [r.score for r in found] == sorted((r.score for r in found), reverse=True)
    several = bert("[MASK] flies like [MASK]")
    assert [len(gap) for gap in several] == [5, 5] and several[0][0].sequence.count("[MASK]") == 1
    assert bert.texts(["[MASK] flies", "[MASK] and [MASK]"])[0] == bert("[MASK] flies")[0].sequence
    assert bert(["[MASK] flies"]) == [bert("[MASK] flies")]  # a list gives a list, of one too
    assert "<th>token_str</th>" in several._repr_html_()
    everything = bert("time [MASK]", top_k=10**6)
    assert len(everything) == len(bert.model.tokenizer) and sum(r.score for r in everything) == pytest.approx(1)


def test_targets_that_are_no_token(bert: Any) -> None:
    with pytest.warns(UserWarning, match="'unaffable' is no token of the vocabulary; its first piece 'un'"):
        found = bert("time [MASK]", targets=["unaffable", "flies"])
    assert {result.token_str for result in found} == {"un", "flies"}
    assert len(bert("time [MASK]", targets=["flies", "flies"])) == 1


BAD: list[tuple[Any, dict[str, Any], str]] = [
    ("time flies", {}, r"the text 'time flies' has no gap; mark one by \[MASK\]"),
    (["time [MASK]", "flies"], {}, r"texts 0 to 1: the text 'flies' has no gap"),
    ("[MASK] " * 70, {}, r"has 72 tokens, and the model reads 64"),
    (5, {}, "the input is 5; it must be a text, or several"),
    (["[MASK]", 5], {"batch_size": 1}, "text 1: the input is 5; it must be a text"),
    ({"text": "[MASK]"}, {}, "it must be a text, or several"),
]


@pytest.mark.parametrize(("texts", "asked", "said"), BAD, ids=range(len(BAD)))
def test_bad_texts(bert: Any, texts: Any, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        bert(texts, **asked)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"top_k": 0}, "top_k is 0; it must be a whole number from 1 up"),
        ({"top_k": True}, "top_k is True"),
        ({"targets": []}, r"targets is \[\]; it must be a word"),
        ({"targets": ["a", 1]}, "it must be a word, or a list of words"),
        ({"targets": ""}, "it must be a word"),
        ({"topk": 3}, "takes no 'topk'; nearest: 'top_k'"),
        ({"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_bad_options(bert: Any, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        bert("[MASK]", **asked)


def test_a_decoder_is_refused_and_told_why(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "gpt2", "gpt2")
    why = (
        "a 'gpt2' model cannot do 'fill-mask': a decoder reads from left to right, so at a gap it has not seen what "
        "comes after it; a gap is filled by an encoder, such as BERT"
    )
    for model in (folder, str(folder), glassformer.load(folder)):
        with pytest.raises(UnsupportedError, match=why):
            glassformer.pipeline("fill-mask", model)


def test_a_body_without_a_head_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bert", "bert", task="feature-extraction")
    with pytest.raises(WeightsError, match="holds no head for 'fill-mask', so its answers would be drawn at random"):
        glassformer.pipeline("fill-mask", folder)


def test_a_tokenizer_without_a_mask(tmp_path: Path) -> None:
    fill = glassformer.pipeline("fill-mask", make_folder(tmp_path / "bert", "bert", task="fill-mask"))
    with pytest.raises(ConfigError, match="has no mask token"):
        fill("time")
