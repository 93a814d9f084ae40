from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import processors

from glassformer.core.masks import AttentionPattern
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.seq2seq.task import SequenceToSequence, TeacherForcingStep, teacher_forcing
from glassformer.text.settings import TokenizerSettings
from glassformer.text.tokenizer import Tokenizer
from tests.parity.families import BY_FAMILY
from tests.parity.sides import load_ours, load_theirs, make
from tests.tasks.words import (
    BOS,
    EOS,
    NUMBER,
    PAD,
    Listed,
    judged,
    loss_of,
    pairs,
    tiny,
    trained,
    word_tokenizer,
    words_of,
)
from tests.text import families

ROWS = pairs(
    ("the cat sat on a mat", "a dog ran home"),
    ("time flies", "fruit flies like a banana"),
    ("we saw it", "yes"),
)
# family → what stands around its texts, what its decoder begins with, and what it then reads and says of "yes"
FAMILIES = {
    "bart": ("bart", {"decoder_start_token_id": EOS}, "</s> <s> yes", "<s> yes </s>"),
    "t5": ("t5", {"decoder_start_token_id": PAD}, "[PAD] yes", "yes </s>"),
    "pegasus": ("t5", {"decoder_start_token_id": PAD}, "[PAD] yes", "yes </s>"),
    "marian": ("t5", {"decoder_start_token_id": PAD}, "[PAD] yes", "yes </s>"),
    "transformer": ("none", {"decoder_start_token_id": BOS}, "<s> yes", "yes </s>"),
}
ARCHITECTURES = {
    "bart": "BartForConditionalGeneration",
    "t5": "T5ForConditionalGeneration",
    "pegasus": "PegasusForConditionalGeneration",
    "marian": "MarianMTModel",
    "mbart": "MBartForConditionalGeneration",
}


def learner(family: str, **options: Any) -> SequenceToSequence:
    frame, config, _, _ = FAMILIES[family]
    return SequenceToSequence(tiny(family, "translation", frame, **config), **options)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_decoder_reads_the_target_shifted_right(family: str) -> None:
    objective = learner(family)
    _, _, read, say = FAMILIES[family]
    examples = objective.encode(ROWS)
    item = objective.collate([examples[2]])
    assert item.batch.decoder_input_ids is not None and isinstance(item.labels, torch.Tensor)
    assert words_of(item.batch.decoder_input_ids[0]) == read
    assert words_of(item.labels[0]) == say
    assert examples.lengths[2] == item.tokens == item.batch.input_ids.numel() + item.labels.numel()  # type: ignore[union-attr]


def test_what_the_decoder_begins_with_is_not_said_again() -> None:
    model = tiny("transformer", "translation", "bart", decoder_start_token_id=BOS)
    objective = SequenceToSequence(model)
    item = objective.collate([objective.encode(ROWS)[2]])
    assert item.batch.decoder_input_ids is not None and isinstance(item.labels, torch.Tensor)
    assert words_of(item.batch.decoder_input_ids[0]) == "<s> yes"
    assert words_of(item.labels[0]) == "yes </s>"


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_padding_changes_nothing(family: str) -> None:
    """Sources and targets of different lengths in one pass: the sum of what each loses alone."""
    objective = learner(family)
    examples = objective.encode(ROWS)
    item = objective.collate([examples[i] for i in range(3)], indices=[0, 1, 2])
    assert isinstance(item.labels, torch.Tensor) and item.flow.keep is not None and item.indices == (0, 1, 2)
    assert (item.labels == -100).any() and item.tokens == int(examples.lengths.sum())
    counts = [int((objective.collate([examples[i]]).labels != -100).sum()) for i in range(3)]  # type: ignore[union-attr]
    alone = [loss_of(objective, objective.collate([examples[i]])) * counts[i] for i in range(3)]
    torch.testing.assert_close(loss_of(objective, item), sum(alone) / sum(counts))
    assert judged(objective, [item])["loss"] == pytest.approx(float(sum(alone)) / sum(counts), rel=1e-5)


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_the_loss_is_the_references(family: str, tmp_path: Path) -> None:
    """Given the labels alone: the reference shifts them itself."""
    row = BY_FAMILY[family]
    folder = make(row, ARCHITECTURES[family], tmp_path)
    theirs, model = load_theirs(folder, row), load_ours(folder)
    model._tokenizer = word_tokenizer("bart" if family in ("bart", "mbart") else "t5")
    model.config |= {"eos_token_id": EOS, "pad_token_id": PAD}
    model.generation_config.clear()
    objective = SequenceToSequence(model)
    if family == "mbart":  # the reference begins with the last token of a target, whatever the config says
        objective.start = EOS
    else:
        theirs.config.decoder_start_token_id = objective.start
    theirs.config.pad_token_id = PAD
    examples = objective.encode(ROWS)
    item = objective.collate([examples[i] for i in range(3)])
    assert isinstance(item.labels, torch.Tensor) and item.flow.keep is not None
    said = theirs(input_ids=item.batch.input_ids, attention_mask=item.flow.keep[:, 0].long(), labels=item.labels)
    torch.testing.assert_close(loss_of(objective, item), said.loss, atol=1e-5, rtol=1e-5)


def test_a_prefix_tells_the_task() -> None:
    objective = learner("t5", prefix="why is this : ")
    assert words_of(objective.encode(ROWS)[2]["input_ids"]) == "why is this [UNK] we saw it </s>"


def test_both_sides_are_cut_and_counted() -> None:
    objective = learner("bart", max_source=5, max_target=4)
    with pytest.warns(UserWarning) as told:
        examples = objective.encode(ROWS)
    assert [str(warning.message) for warning in told] == [
        "1 of 3 sources were cut to 5 tokens",
        "2 of 3 targets were cut to 4 tokens",
    ]
    assert words_of(examples[0]["input_ids"]) == "<s> the cat sat </s>"
    assert words_of(examples[1]["labels"]) == "<s> fruit flies </s>"


@pytest.mark.parametrize("frame", ["$A </s> a", "a $A </s>"])
def test_languages_of_source_and_target(frame: str) -> None:
    """mBART's two ways: the language behind a text is what the decoder begins with; before it, it is said first."""
    engine = word_tokenizer("t5").engine
    engine.add_special_tokens(["one", "two"])
    engine.post_processor = processors.TemplateProcessing(
        single=frame.replace("a", "one"), special_tokens=[("one", NUMBER["one"]), ("</s>", EOS)]
    )
    tokenizer = Tokenizer(engine, TokenizerSettings(roles={"pad": "[PAD]", "unk": "[UNK]", "eos": "</s>"}))
    model = tiny("mbart", "translation", "none", tokenizer=tokenizer, decoder_start_token_id=EOS)
    objective = SequenceToSequence(model, target_language="two")
    item = objective.collate([objective.encode(ROWS)[2]])
    assert item.batch.decoder_input_ids is not None and isinstance(item.labels, torch.Tensor)
    read, say = words_of(item.batch.decoder_input_ids[0]), words_of(item.labels[0])
    if frame.startswith("$A"):
        assert (read, say) == ("two yes </s>", "yes </s> two")
    else:
        assert (read, say) == ("</s> two yes", "two yes </s>")
    with pytest.raises(ConfigError, match="no token 'eleven'"):
        SequenceToSequence(model, target_language="eleven")


def test_the_table_of_shifted_labels() -> None:
    tokenizer = word_tokenizer("t5")
    labels = [NUMBER["a"], NUMBER["cat"], EOS, -100, -100]
    assert teacher_forcing(labels, tokenizer, start=PAD, padding=PAD) == [
        TeacherForcingStep(("[PAD]",), "a"),
        TeacherForcingStep(("[PAD]", "a"), "cat"),
        TeacherForcingStep(("[PAD]", "a", "cat"), "</s>"),
        TeacherForcingStep(("[PAD]", "a", "cat", "</s>"), None),
        TeacherForcingStep(("[PAD]", "a", "cat", "</s>", "[PAD]"), None),
    ]


def test_nobody_looks_ahead() -> None:
    """What the decoder says at a place does not change with what comes after it."""
    assert not AttentionPattern(causal=True).keep(3, 3)[0, 1]
    objective = learner("t5")
    examples = objective.encode(ROWS)
    item = objective.collate([examples[1]])
    assert item.batch.decoder_input_ids is not None
    with torch.no_grad():
        before = objective.model.network(item.batch, item.flow).logits
        item.batch.decoder_input_ids[0, -1] = NUMBER["dog"]
        after = objective.model.network(item.batch, item.flow).logits
    torch.testing.assert_close(before[0, :-1], after[0, :-1])
    assert (before[0, -1] != after[0, -1]).any()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (pairs(("the cat", "")), "rows.csv: line 2: 'target' has no token"),
        (pairs(("a", "b"), (" ", "b")), "rows.csv: line 3: 'source' has no token"),
        (Listed({"source": "a", "target": None}), "line 2: 'target' is None"),
        (Listed({"source": "a", "answer": "b"}), "no column 'target'"),
    ],
)
def test_bad_rows_are_said(rows: Listed, message: str) -> None:
    with pytest.raises(DataError, match=message):
        learner("t5", prefix="why ").encode(rows)


def test_it_learns() -> None:
    objective = learner("t5")
    losses = list(trained(objective, objective.encode(ROWS), 40, 1e-2))
    assert losses[-1] < losses[0] / 2


def test_marian_writes_with_pieces_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "marian"
    families.make("marian", folder)
    source, target = Tokenizer.from_folder(folder), Tokenizer.find_target(folder)
    size = {"vocab_size": source.largest_id + 1, "decoder_start_token_id": source.pad_token_id}
    model = tiny("marian", "translation", "t5", tokenizer=source, eos_token_id=source.eos_token_id, **size)
    model.folder = folder
    texts = ["the head of a layer", "time flies like an arrow"]
    examples = SequenceToSequence(model).encode(pairs(*zip(texts, texts, strict=True)))
    assert target is not None
    assert [examples[i]["input_ids"].tolist() for i in range(2)] == source(texts)["input_ids"]
    assert [examples[i]["labels"].tolist() for i in range(2)] == target(texts)["input_ids"]
    assert source(texts)["input_ids"] != target(texts)["input_ids"]
