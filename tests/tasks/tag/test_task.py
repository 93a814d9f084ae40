"""A label for each word: from rows to losses and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from glassformer.core.flow import Output
from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.classify.task import relabelled
from glassformer.tasks.metrics.classes import ClassificationMetric, per_class
from glassformer.tasks.metrics.entities import EntityMetric
from glassformer.tasks.tag.task import Tag, tags_of
from tests.tasks.word_pieces import NUMBER, check_passes, families_for, tiny_model

HEAD = "token-classification"
SENTENCES = [
    ("jeff deans works at time .", "B-PER I-PER O O B-ORG O"),
    ("an arrow", "O O"),
    ("time", "B-ORG"),
]


def rows_of(*sentences: tuple[str, str]) -> RowSequence:
    return read_rows([{"tokens": words.split(), "tags": tags.split()} for words, tags in sentences or SENTENCES])


def tagger(family: str = "bert", rows: RowSequence | None = None, limit: int | None = None, **options: Any) -> Tag:
    return Tag(tiny_model(family, HEAD, tags_of(rows or rows_of()).config(), limit=limit), **options)


@pytest.mark.parametrize("family", families_for(HEAD))
def test_every_family_learns_tags(family: str) -> None:
    objective = tagger(family)
    check_passes(objective, objective.encode(rows_of()))


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_padded_layout_has_the_same_losses(family: str) -> None:
    packed, padded = tagger(family), tagger(family)
    padded.packs = False
    items = [objective.collate([objective.encode(rows_of())[i] for i in range(3)]) for objective in (packed, padded)]
    assert items[0].batch.input_ids.shape == (1, 16)  # type: ignore[union-attr]
    assert items[1].batch.input_ids.shape == (3, 9)  # type: ignore[union-attr]
    losses = [
        float(tag.model.network.loss_sums(item.batch, item.flow, item.labels)["loss"].detach())
        for tag, item in zip((packed, padded), items, strict=True)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    check_passes(padded, padded.encode(rows_of()))


def test_first_tokens_are_labelled_and_nothing_else() -> None:
    objective = tagger()
    example = objective.encode(rows_of())[0]
    pieces = "[CLS] jeff dean ##s works at time . [SEP]".split()
    assert objective.kind.names == ("O", "B-ORG", "B-PER", "I-PER")
    assert example["input_ids"].tolist() == [NUMBER[piece] for piece in pieces]
    assert example["labels"].tolist() == [-100, 2, 3, -100, 0, 0, 1, 0, -100]


def test_all_tokens_may_be_labelled_and_then_an_entity_goes_on() -> None:
    rows = rows_of(("deans deans works", "B-PER I-PER O"), ("deans", "B-ORG"))
    objective = tagger(rows=rows, all_tokens=True)
    examples = objective.encode(rows)
    assert objective.kind.names == ("O", "B-ORG", "B-PER", "I-PER")
    assert examples[0]["labels"].tolist() == [-100, 2, 3, 3, 3, 0, -100]
    assert examples[1]["labels"].tolist() == [-100, 1, 1, -100]  # there is no I-ORG
    assert tagger(rows=rows).encode(rows)[0]["labels"].tolist() == [-100, 2, -100, 3, -100, 0, -100]


def test_what_is_said_is_judged_by_entities() -> None:
    objective = tagger()
    item = objective.collate([objective.encode(rows_of())[i] for i in range(3)])
    said = item.labels.clone()  # type: ignore[union-attr]
    said[0, 2] = 0  # I-PER is missed: Jeff alone is no Jeff Dean
    metric = objective.metric()
    assert isinstance(metric, EntityMetric) and objective.VALIDATION_METRIC == "f1"
    logits = torch.nn.functional.one_hot(said.clamp(min=0), 4).float()
    metric.update(Output(logits=logits), item)
    figures = metric.compute()
    assert figures["accuracy"] == pytest.approx(8 / 9)
    assert figures["f1"] == pytest.approx(2 / 3)
    assert per_class(metric.names, *metric.counts())["PER"]["recall"] == 0


def test_parts_of_speech_are_classes() -> None:
    rows = rows_of(("time flies", "NOUN VERB"), ("fruit flies", "NOUN NOUN"))
    objective = tagger(rows=rows)
    assert type(objective.metric()) is ClassificationMetric and objective.VALIDATION_METRIC == "f1_macro"
    check_passes(objective, objective.encode(rows))


def test_words_that_were_cut_are_counted() -> None:
    objective = tagger(limit=6)
    with pytest.warns(UserWarning, match="1 of 3 rows, with 3 words, were cut to 6 tokens"):
        example = objective.encode(rows_of())[0]
    assert example["labels"].tolist() == [-100, 2, 3, -100, 0, -100]


def test_words_without_a_token_are_told() -> None:
    # The engine reads no token in a space that is no ASCII space.
    rows = read_rows([{"tokens": ["jeff", "\u3000", "an"], "tags": ["B-PER", "O", "O"]}])
    objective = tagger()
    with pytest.warns(UserWarning, match="1 words, such as those of control characters, have no token"):
        assert objective.encode(rows)[0]["labels"].tolist() == [-100, 2, 0, -100]
    silent = read_rows([{"tokens": ["\u3000"], "tags": ["O"]}])
    with pytest.raises(DataError, match="row 0: none of its 1 words has a token"):
        objective.encode(silent)


def test_files_of_words(tmp_path: Path) -> None:
    path = tmp_path / "train.conll"
    path.write_text("jeff\tB-PER\ndeans\tI-PER\n\nan\tO\narrow\tO\n")
    rows = read_rows(path)
    assert tags_of(rows).names == ("O", "B-PER", "I-PER")
    path.write_text("an\tO\n\njeff\tB-PERS\n")
    with pytest.raises(DataError, match=r"train\.conll: line 3: the label 'B-PERS' is none of .*nearest: 'B-PER'"):
        tagger().encode(read_rows(path))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            {"tokens": ["a", "b"], "tags": ["O"]},
            "'tokens' has 2 words and 'tags' has 1 tags; each word has one",
        ),
        ({"tokens": [], "tags": []}, "'tokens' has 0 words"),
        ({"tokens": "a b", "tags": ["O", "O"]}, "'tokens' is 'a b'; it must be a list of words"),
        (
            {"tokens": ["a", "b"], "tags": "O O"},
            "'tags' is 'O O'; it must be a list with a tag for each word",
        ),
        ({"tokens": ["a"], "tags": ["0"]}, "the label '0' is none of the 4"),
    ],
)
def test_rows_that_do_not_fit(row: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"row 0: .*{message}"):
        tagger().encode(read_rows([row]))


def test_white_space_behind_a_tag_is_warned_of() -> None:
    """`B-PER ` would be an entity of another type than the I-PER that follows it."""
    rows = [{"tokens": ["Angela", "Merkel", "lacht"], "tags": ["B-PER ", "I-PER", "O"]}]
    with pytest.warns(UserWarning, match=r"'B-PER ' and 'B-PER'; .*data\.rename="):
        tags_of(read_rows(rows))


def test_numbers_of_tags_are_taken_as_such() -> None:
    rows = read_rows([{"tokens": ["jeff", "deans"], "tags": [2, 3]}])
    assert tagger().encode(rows)[0]["labels"].tolist() == [-100, 2, 3, -100, -100]


def test_the_number_0_is_no_letter_o() -> None:
    rows = rows_of(("jeff works", "B-PER 0"), ("jeff works", "B-PER O"))
    with pytest.raises(DataError, match="row 0: the tag '0' is none of entities, as 'B-PER' is; the letter O"):
        tags_of(rows)
    with pytest.raises(DataError, match="every tag of 'tags' is 'O'; there is nothing to learn"):
        tags_of(rows_of(("an arrow", "O O")))


def test_the_checkpoints_own_head_is_kept_where_it_knows_all_tags() -> None:
    own = {"id2label": {"0": "B-PER", "1": "I-PER", "2": "O", "3": "B-LOC"}}
    assert relabelled(own, tags_of(rows_of(("jeff an", "B-PER O"))), own=True) == own
    assert relabelled(own, tags_of(rows_of(("jeff an", "B-ORG O"))), own=True)["num_labels"] == 2
    assert "problem_type" not in tags_of(rows_of()).config()


def test_columns_are_named() -> None:
    rows = read_rows([{"words": ["jeff", "an"], "ner": ["B-PER", "O"]}])
    columns = {"tokens": "words", "tags": "ner"}
    objective = Tag(tiny_model("bert", HEAD, tags_of(rows, columns).config()), columns=columns)
    assert objective.encode(rows)[0]["labels"].tolist() == [-100, 1, 0, -100]
    with pytest.raises(DataError, match="there is no column 'tokens'"):
        tagger().encode(rows)
    with pytest.raises(ConfigError, match="max_tokens is 0"):
        tagger(max_tokens=0)
