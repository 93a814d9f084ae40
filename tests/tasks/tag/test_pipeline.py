"""token-classification: the reference's tags, and entities that are whole wherever tokens split or windows end."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError
from glassformer.tasks.tag import pipeline as tagging
from glassformer.tasks.tag.pipeline import words_in
from glassformer.tasks.tag.task import Tag
from glassformer.text import Tokenizer
from tests.e2e.tiny_models import make_folder
from tests.text import families

ENCODERS = {
    "bert": "BertForTokenClassification",
    "distilbert": "DistilBertForTokenClassification",
    "roberta": "RobertaForTokenClassification",
    "xlm-roberta": "XLMRobertaForTokenClassification",
    "big_bird": "BigBirdForTokenClassification",
}
OWN = {
    "big_bird": {"attention_type": "original_full"},
    "roberta": {"pad_token_id": 1},
    "xlm-roberta": {"pad_token_id": 1},
}
TAGS = ["B-PER", "I-PER", "B-ORG", "I-ORG", "O", "B-LOC"]
TEXTS = ["time flies like an arrow", "unaffable fruit flies like a banana", "what you make of it", "gold"]
Folders = Callable[..., Path]


def labels(names: Sequence[str] = TAGS) -> dict[str, Any]:
    return {"id2label": dict(enumerate(names)), "label2id": {name: i for i, name in enumerate(names)}}


@pytest.fixture
def place(folder_of: Folders) -> Callable[..., Path]:
    def make(family: str = "bert", names: Sequence[str] = TAGS) -> Path:
        asked = {"max_position_embeddings": 64, **labels(names), **OWN.get(family, {})}
        return folder_of(family, ENCODERS[family], **asked)

    return make


def theirs_of(folder: Path, strategy: str) -> Any:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    model = transformers.AutoModelForTokenClassification.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    asked = {"model": model, "tokenizer": tokenizer, "device": "cpu", "aggregation_strategy": strategy}
    return transformers.pipeline("token-classification", **asked)


@pytest.mark.filterwarnings("ignore:Tokenizer does not support real words")  # theirs
@pytest.mark.parametrize("family", ENCODERS)
def test_as_the_reference_tags_at_any_batch_size(place: Callable[..., Path], family: str) -> None:
    tag = glassformer.pipeline("tag", place(family))
    for strategy, field in (("none", "entity"), ("first", "entity_group")):
        theirs = theirs_of(place(family), strategy)
        # Beyond words, the reference takes what WordPiece alone does for a rule: there, "arrow." is one word.
        texts = TEXTS if strategy == "first" else [*TEXTS, "Time, flies! (like) it's an arrow."]
        wanted = [theirs(text) for text in texts]
        assert sum(map(len, wanted)) > 3
        for size in (1, 3, 256):
            found = tag(texts, aggregation_strategy=strategy, batch_size=size)
            for mine, other in zip(found, wanted, strict=True):
                key = ("start", "end", field, "index")
                assert [[one.get(k) for k in key] for one in mine] == [[one.get(k) for k in key] for one in other]
                assert [one.score for one in mine] == pytest.approx([one["score"] for one in other], abs=1e-5)


def test_what_comes_back(place: Callable[..., Path]) -> None:
    tag = glassformer.pipeline("ner", place())
    text = " ".join(TEXTS)
    found = tag(text)
    assert found and found == tag([text])[0]
    for one in found:
        assert text[one.start : one.end] == one.word and one.entity_group in ("PER", "ORG", "LOC")
        assert 0 < one.score <= 1 and set(one) == {"entity_group", "score", "word", "start", "end"}
    words = text.split()
    for one in tag({"tokens": words}):  # the same words, so the same entities; places are numbers of words
        assert " ".join(words[one.start : one.end]) == one.word
    assert [one.word for one in tag({"tokens": words})] == [one.word for one in found]
    assert tag.texts([text]) == [", ".join(f"{one.word} ({one.entity_group})" for one in found)]
    assert tag(["", " ", {"tokens": []}]) == [[], [], []]
    everything = tag("unaffable gold", aggregation_strategy="none", ignore_labels=[])
    assert [one.word for one in everything] == ["un", "##aff", "##able", "gold"]
    assert [one.index for one in everything] == [1, 2, 3, 4]
    within = tag({"tokens": ["unaffable", "gold"]}, aggregation_strategy="none", ignore_labels=[])
    assert [(one.start, one.end) for one in within] == [(0, 1), (0, 1), (0, 1), (1, 2)]


def test_tags_that_are_no_entities(place: Callable[..., Path]) -> None:
    """Parts of speech: each word for itself."""
    tag = glassformer.pipeline("tag", place(names=["NOUN", "VERB", "X"]), ignore_labels=["X"])
    found = tag("time flies like an unaffable banana")
    everything = tag("time flies like an unaffable banana", ignore_labels=[])
    assert [one.word for one in everything] == ["time", "flies", "like", "an", "unaffable", "banana"]
    assert found == [one for one in everything if one.entity_group != "X"]


def test_a_word_has_the_tag_that_training_judges(place: Callable[..., Path]) -> None:
    """The words of a row, as the objective reads them, have the same first tokens."""
    tag = glassformer.pipeline("tag", place("roberta"))
    words = ["Unaffable", "flies", ",", "a", "banana."]
    row = tag.model.tokenizer.batch_words([words], None)[0]
    first = [row.words.index(i) for i in range(len(words))]
    with torch.inference_mode():
        logits = tag.model(torch.tensor([row.ids])).logits[0, first]
    said = [TAGS[i] for i in logits.argmax(-1).tolist()]
    runs = tag({"tokens": words})
    marked = {i for one in runs for i in range(one.start, one.end)}
    assert marked == {i for i, name in enumerate(said) if name != "O"}
    assert isinstance(tag.task_object, Tag)


# ------------------------------------------------------------------------------ whole entities, whatever the tokenizer

GERMAN = "Jeff Dean ist ein Informatiker bei Google in Kalifornien."
NAMES = {"Jeff": "B-PER", "Dean": "I-PER", "Google": "B-ORG", "Kalifornien": "B-LOC"}


def oracle(text: str, wanted: dict[str, str], tag: Any) -> Callable[..., list[torch.Tensor]]:
    """What says the wanted tag at the first token of a word, O at that of others, and nonsense at other tokens."""
    starts = {match.start(): wanted.get(match[0], "O") for match in re.finditer(r"\w+|[^\w\s]", text)}
    row = tag.model.tokenizer(text, add_special_tokens=False).rows[0]
    tags, seen = [], set()
    for start, end in row.offsets:
        first = next((place for place in range(start, end) if place in starts and place not in seen), None)
        seen |= set(range(start, end))
        tags.append("B-LOC" if first is None else starts[first])
    edge = [[0.0] * len(TAGS)]
    logits = torch.tensor([[9.0 * (name == each) for name in TAGS] for each in tags])
    before, after = tag.model.tokenizer.prefix_and_suffix

    def logits_of(task: Any, examples: Any) -> list[torch.Tensor]:
        return [
            torch.cat(
                [
                    torch.tensor(edge * len(before)).view(-1, 6),
                    logits,
                    torch.tensor(edge * len(after)).view(-1, 6),
                ]
            )
        ]

    return logits_of


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tagger that may be given any tokenizer."""
    folder = make_folder(tmp_path_factory.mktemp("tagger") / "bert", "bert", task="tag", **labels())
    return glassformer.load(folder)


@pytest.mark.parametrize(
    "family", ["bert", "roberta", "xlm-roberta", "t5", "llama", "big_bird", "openai-gpt", "clip", "albert"]
)
def test_entities_are_whole_in_every_family(
    family: str, tagger: Any, tmp_path: Path, bert_folder: Path, monkeypatch: Any
) -> None:
    folder = bert_folder if family == "bert" else families.make(family, tmp_path / family)
    monkeypatch.setattr(tagger, "_tokenizer", Tokenizer.from_folder(folder, model_type=family))
    tag = glassformer.pipeline("tag", tagger)
    monkeypatch.setattr(tag, "limit", None)
    monkeypatch.setattr(tagging, "logits_of", oracle(GERMAN, NAMES, tag))
    found = tag(GERMAN)
    assert [(one.word, one.entity_group) for one in found] == [
        ("Jeff Dean", "PER"),
        ("Google", "ORG"),
        ("Kalifornien", "LOC"),
    ]
    assert [GERMAN[one.start : one.end] for one in found] == [one.word for one in found]


@pytest.fixture(scope="module")
def bert_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("word-piece")
    pieces = list("abcdefghijklmnopqrstuvwxyz.我在北京")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces, *(f"##{c}" for c in pieces)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    return folder


def test_chinese(tagger: Any, bert_folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """Characters are words, and those that one token holds are one word."""
    text = "我在北京Google。"
    monkeypatch.setattr(tagger, "_tokenizer", Tokenizer.from_folder(bert_folder, model_type="bert"))
    tag = glassformer.pipeline("tag", tagger)
    monkeypatch.setattr(tag, "limit", None)

    def logits_of(task: Any, examples: Any) -> list[torch.Tensor]:
        names = ["O", "O", "O", "B-PER", "I-PER", "B-ORG", *["B-LOC"] * 5, "O", "O"]
        return [torch.tensor([[9.0 * (name == each) for name in TAGS] for each in names])]

    monkeypatch.setattr(tagging, "logits_of", logits_of)
    assert [(one.word, one.entity_group) for one in tag(text)] == [("北京", "PER"), ("Google", "ORG")]

    from glassformer.tasks.tag.pipeline import join_unspaced

    words, owners = join_unspaced(words_in(text), [0, 2, 4, -1])  # tokens: 我在, 北京, Google
    assert [text[word.start : word.end] for word in words] == ["我在", "北京", "Google", "。"]
    assert owners == [0, 1, 2, -1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (GERMAN, "Jeff Dean ist ein Informatiker bei Google in Kalifornien ."),
        ("Dr. O'Neil's 3.5-litre car (a Fiat),", "Dr . O'Neil 's 3.5-litre car ( a Fiat ) ,"),
        ("In the U.S., 1,000 at 12:30.", "In the U.S . , 1,000 at 12:30 ."),
        ("我在Google工作。", "我 在 Google 工 作 。"),
        ("हिन्दी भाषा, Ελλάδα; cafe\u0301", "हिन्दी भाषा , Ελλάδα ; cafe\u0301"),
        ("«Müller–Schmidt»\u00a0x_y --z", "« Müller – Schmidt » x_y - - z"),
        ("ไทย 서울에", "ไ ท ย 서울에"),
        (" \n\t", ""),
    ],
)
def test_words(text: str, words: str) -> None:
    found = words_in(text)
    assert [text[word.start : word.end] for word in found] == words.split()
    assert all(a.end <= b.start for a, b in pairwise(found))


# ------------------------------------------------------------------------------------------------------- long texts


def test_a_long_text_loses_no_entity(place: Callable[..., Path]) -> None:
    """A head that reads the token alone says of a long text what it says of its words."""
    tag = glassformer.pipeline("tag", place())
    model = tag.model
    with torch.no_grad():
        for name, weight in model.network.named_parameters():
            if ".attn." in name or ".ffn." in name or "position" in name:
                weight.zero_()
    words = random.Random(1).choices("time flies like an arrow unaffable banana fruit gold find , !".split(), k=400)
    text = " ".join(words)
    alone = {word: tag({"tokens": [word]}, ignore_labels=[], aggregation_strategy="none")[0].entity for word in words}
    found = tag(text)
    assert len(model.tokenizer.encode(text)) > 6 * 64 and len(found) > 50
    assert len(set(alone.values())) > 2
    expected, starts = [], [match.start() for match in re.finditer(r"\S+", text)]
    for i, word in enumerate(words):
        name, before = alone[word], alone[words[i - 1]] if i else "O"
        if name == "O":
            continue
        if name[0] == "I" and before != "O" and before[2:] == name[2:]:
            expected[-1][1] = starts[i] + len(word)
        else:
            expected.append([starts[i], starts[i] + len(word), name[2:]])
    assert [[one.start, one.end, one.entity_group] for one in found] == expected


@pytest.mark.parametrize(
    ("given", "asked", "kind", "said"),
    [
        (5, {}, DataError, "the input is 5"),
        (["a", ["b"]], {}, DataError, r"^text 1: .*it must be a text, or its words: \{'tokens'"),
        ({"tokens": "ab"}, {}, DataError, "it must be a text, or its words"),
        ({"tokens": ["a"], "tags": ["O"]}, {}, DataError, "it must be a text, or its words"),
        ("a", {"aggregation_strategy": "last"}, ConfigError, "must be one of these. 'first': .*; 'none': "),
        (
            "a",
            {"aggregation": "none"},
            ConfigError,
            "takes no 'aggregation'; nearest: 'aggregation_strategy'",
        ),
        ("a", {"ignore_labels": "O"}, ConfigError, "must be a list of tags"),
        ("a", {"truncation": True}, ConfigError, "takes no 'truncation'"),
    ],
)
def test_bad_requests(
    place: Callable[..., Path], given: Any, asked: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        glassformer.pipeline("tag", place())(given, **asked)
