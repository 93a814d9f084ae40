from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import models

from glassformer.errors import ConfigError, DataError
from glassformer.tasks.pretrain import NextSentence, PreTraining, SentenceOrder
from glassformer.tasks.windows import sentences
from glassformer.text.tokenizer import Tokenizer
from tests.parity.families import BY_FAMILY
from tests.parity.sides import load_ours, load_theirs, make
from tests.tasks.words import (
    CLS,
    PAD,
    SEP,
    Listed,
    both_layouts,
    drawing,
    judged,
    loss_of,
    shown,
    texts,
    tiny,
    trained,
    word_tokenizer,
    words_of,
)

HEAD = "next-sentence-prediction"
ROWS = texts(
    "The cat sat on a mat . The cat ran home . A cat eats figs .",
    "Time flies like an arrow . Time runs slow . Time did not know .",
    "Old river runs . Blue river falls .",
    "We saw it .",
)


def learner(rows: Listed = ROWS, kind: type[NextSentence] = NextSentence, **options: object) -> tuple:  # type: ignore[type-arg]
    task = kind.HEAD
    engine_lowers = word_tokenizer("bert")
    model = tiny("bert", task, "bert", tokenizer=engine_lowers)
    objective = kind(model, **options)  # type: ignore[arg-type]
    return objective, objective.encode(lowered(rows))


def lowered(rows: Listed) -> Listed:
    """The words of the tests have no capitals, by which sentences are found: so a sentence stands on a line."""
    return texts(*(rows[i]["text"].lower().replace(" . ", " .\n") for i in range(len(rows))))


def test_sentences_are_found_in_tokens_of_the_whole_text() -> None:
    tokenizer = word_tokenizer("bert")
    parts = sentences(tokenizer, "the cat sat .\nwe saw it .  \n\n yes")
    assert [words_of(part) for part in parts] == ["the cat sat .", "we saw it .", "yes"]
    assert np.concatenate(parts).tolist() == tokenizer.encode(
        "the cat sat .\nwe saw it . yes", add_special_tokens=False
    )
    assert sentences(tokenizer, " \n") == []


def test_sentences_without_a_space_between() -> None:
    letters = {"猫": 0, "犬": 1, "。": 2}
    engine = tokenizers.Tokenizer(models.BPE(letters, merges=[]))
    parts = sentences(Tokenizer(engine), "猫。犬。", "ja")
    assert [part.tolist() for part in parts] == [[0, 2], [1, 2]]


def test_half_follow_and_half_are_of_another_text() -> None:
    objective, examples = learner()
    documents = [lowered(ROWS)[row]["text"].replace("\n", " ") for row in range(3)]
    assert len(examples) == 3, "a text of one sentence has no next"
    draw, strangers, cuts = drawing(), 0, set()
    for _ in range(1_000):
        index = int(draw.integers(3))
        pair = objective.augment(examples[index], draw)
        ids, types = pair["input_ids"], pair["token_type_ids"]
        assert ids[0] == CLS and ids[-1] == SEP and (ids == SEP).sum() == 2
        border = int(np.flatnonzero(ids == SEP)[0])
        assert types.tolist() == [0] * (border + 1) + [1] * (len(ids) - border - 1)
        first, second = words_of(ids[1:border]), words_of(ids[border + 1 : -1])
        assert documents[index].startswith(first)
        if pair["next_sentence_label"]:
            strangers += 1
            assert any(other.endswith(second) for place, other in enumerate(documents) if place != index)
        else:
            assert f"{first} {second}" == documents[index]
        cuts.add((index, len(first)))
    assert strangers / 1_000 == pytest.approx(0.5, abs=0.05)
    assert len(cuts) == 5, "each text is cut between any two of its sentences"


def test_pairs_keep_to_the_limit() -> None:
    objective, examples = learner(max_tokens=14)
    draw = drawing()
    for _ in range(200):
        for index in range(len(examples)):
            assert len(objective.augment(examples[index], draw)["input_ids"]) <= 14


@pytest.mark.parametrize("kind", [NextSentence, PreTraining])
def test_both_layouts_have_one_loss(kind: type[NextSentence]) -> None:
    objective, examples = learner(kind=kind)
    packed, padded = both_layouts(objective, shown(objective, examples, 1))
    torch.testing.assert_close(packed, padded)


@pytest.mark.parametrize(
    ("kind", "family", "architecture"),
    [
        (NextSentence, "bert", "BertForNextSentencePrediction"),
        (PreTraining, "bert", "BertForPreTraining"),
        (SentenceOrder, "albert", "AlbertForPreTraining"),
    ],
)
def test_the_loss_is_the_references(kind: type[NextSentence], family: str, architecture: str, tmp_path: Path) -> None:
    row = BY_FAMILY[family]
    folder = make(row, architecture, tmp_path)
    theirs, model = load_theirs(folder, row), load_ours(folder)
    model._tokenizer = word_tokenizer("bert")
    objective = kind(model)
    objective.packs = False
    item = objective.collate(shown(objective, objective.encode(lowered(ROWS)), 1))
    labels = item.labels if isinstance(item.labels, dict) else {"labels": item.labels}
    assert item.batch.input_ids is not None and (item.batch.input_ids != PAD).any()
    keep = torch.ones_like(item.batch.input_ids) if item.flow.keep is None else item.flow.keep[:, 0].long()
    reference = theirs(
        input_ids=item.batch.input_ids,
        token_type_ids=item.batch.token_type_ids,
        attention_mask=keep,
        **labels,
    ).loss
    torch.testing.assert_close(loss_of(objective, item), reference, atol=1e-5, rtol=1e-5)


def test_pre_training_hides_words_of_both_segments() -> None:
    objective, examples = learner(kind=PreTraining, rate=0.3)
    item = objective.collate(shown(objective, examples, 1))
    assert isinstance(item.labels, dict) and item.batch.input_ids is not None
    said, read = item.labels["labels"], item.batch.input_ids
    assert item.labels["next_sentence_label"].shape == (3,) and said.shape == read.shape
    assert (said[(read == CLS) | (read == SEP)] == -100).all() and (said != -100).any()
    segments = item.batch.token_type_ids
    assert segments is not None and set(segments[said != -100].tolist()) == {0, 1}


@pytest.mark.parametrize("kind", [NextSentence, PreTraining])
def test_figures(kind: type[NextSentence]) -> None:
    objective, examples = learner(kind=kind)
    item = objective.collate(shown(objective, examples, 1))
    figures = judged(objective, [item])
    assert objective.METRIC in figures
    assert figures["loss"] == pytest.approx(float(loss_of(objective, item).detach()), rel=1e-5)


def test_half_of_the_pairs_are_swapped() -> None:
    task = SentenceOrder(tiny("albert", SentenceOrder.HEAD, "bert", tokenizer=word_tokenizer("bert")), rate=0.15)
    rows = lowered(texts("The cat sat on a mat . The cat ran home . A cat eats figs ."))
    (window,) = task.encode(rows)  # one document is enough
    document, draw, swapped = rows[0]["text"].replace("\n", " "), drawing(), 0
    for _ in range(400):
        pair = task.pair(window, draw)
        ids, types = pair["input_ids"], pair["token_type_ids"]
        border = int(np.flatnonzero(ids == SEP)[0])
        assert types.tolist() == [0] * (border + 1) + [1] * (len(ids) - border - 1)
        parts = [words_of(ids[1:border]), words_of(ids[border + 1 : -1])]
        swapped += pair["sentence_order_label"]
        assert " ".join(parts[::-1] if pair["sentence_order_label"] else parts) == document
    assert swapped / 400 == pytest.approx(0.5, abs=0.1)
    item = task.collate([task.augment(window, draw) for _ in range(4)])
    assert isinstance(item.labels, dict) and item.labels["sentence_order_label"].shape == (4,)
    assert (item.labels["labels"] != -100).any()


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(DataError, match="one document"):
        learner(texts("The cat sat . The dog ran ."))
    with pytest.raises(DataError, match="two sentences"):
        learner(texts("The cat sat .", "The dog ran ."))
    with pytest.raises(ConfigError, match="does not tell two segments apart"):
        NextSentence(tiny("distilbert", "fill-mask", "bert"))


def test_it_learns_above_chance() -> None:
    """Documents of one kind of words each: whether the second segment follows can be told from what it is about."""
    topics = ["the cat sat", "a dog ran", "old river falls", "time flies slow", "blue bird eats"]
    rows = texts(*(" .\n".join([topic] * 4) for topic in topics for _ in range(4)))
    model = tiny("bert", HEAD, "bert")
    objective = NextSentence(model)
    examples = objective.encode(rows)
    losses = list(trained(objective, examples, 60, 3e-3, each=16))
    assert losses[-1] < losses[0]
    model.eval()
    draw = drawing(99)
    tested = [objective.augment(examples[int(i)], draw) for i in draw.integers(len(examples), size=100)]
    with torch.no_grad():
        item = objective.collate(tested)
        said = model.network(item.batch, item.flow).logits
    assert said is not None and isinstance(item.labels, torch.Tensor)
    # Four documents share a topic, so 3 of 19 strangers cannot be told from what follows.
    assert float((said.argmax(-1) == item.labels).float().mean()) > 0.75
