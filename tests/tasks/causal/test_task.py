from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers

from glassformer.core.flow import Batch, Flow
from glassformer.data.store import ExampleStore
from glassformer.errors import ConfigError, DataError
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.causal.task import Answers, Causal
from glassformer.text.tokenizer import Tokenizer
from glassformer.training import Trainer
from tests.parity.families import BY_FAMILY
from tests.parity.sides import load_ours, load_theirs, make
from tests.tasks.words import (
    BOS,
    EOS,
    Listed,
    both_layouts,
    ids_of,
    judged,
    loss_of,
    texts,
    tiny,
    trained,
    word_tokenizer,
    words_of,
)

ROWS = texts("time flies like an arrow", "fruit flies", "the bird eats figs", "a cat sat on the mat")


def test_blocks_of_texts_with_an_end_after_each() -> None:
    examples = Causal(tiny("gpt2", "text-generation", "gpt2"), block=8).encode(ROWS)
    assert [words_of(examples[i]["input_ids"]) for i in range(len(examples))] == [
        "time flies like an arrow </s> fruit flies",
        "</s> the bird eats figs </s> a cat",
        "sat on the mat </s>",
    ]
    assert [examples[i]["documents"].tolist() for i in range(3)] == [[6, 2], [1, 5, 2], [5]]
    assert examples.lengths.tolist() == [8, 8, 5]


@pytest.mark.parametrize("isolated", [True, False])
def test_nothing_crosses_from_text_to_text(isolated: bool) -> None:
    """The first token of what sees itself alone is nobody's to say."""
    objective = Causal(tiny("gpt2", "text-generation", "gpt2"), block=8, isolated=isolated)
    examples = objective.encode(ROWS)
    item = objective.collate([examples[0], examples[1]])
    assert item.batch.input_ids is not None and isinstance(item.labels, torch.Tensor)
    hidden = (item.labels[0] == -100).nonzero().flatten().tolist()
    assert hidden == ([0, 6, 8, 9, 14] if isolated else [0, 8])
    shown = item.labels[0] != -100
    assert (item.labels[0][shown] == item.batch.input_ids[0][shown]).all()
    assert item.tokens == 16


@pytest.mark.parametrize("family", ["gpt2", "llama"])
@pytest.mark.parametrize("isolated", [True, False])
def test_both_layouts_have_one_loss(family: str, isolated: bool) -> None:
    objective = Causal(tiny(family, "text-generation", family), block=8, isolated=isolated)
    examples = objective.encode(ROWS)
    packed, padded = both_layouts(objective, [examples[i] for i in range(len(examples))])
    torch.testing.assert_close(packed, padded)


@torch.no_grad()
def test_isolated_texts_have_the_losses_that_they_have_alone() -> None:
    model = tiny("gpt2", "text-generation", "gpt2")
    objective = Causal(model, block=30)
    together = objective.encode(ROWS)
    assert len(together) == 1 and len(together[0]["documents"]) == 4
    total = count = 0.0
    assert model.network.head is not None
    for row in range(4):
        ids = torch.tensor([[*ids_of(ROWS[row]["text"]), EOS]])
        loss = model.network.head.loss(model.network(Batch(input_ids=ids), Flow()), ids)
        total, count = total + float(loss) * (ids.shape[1] - 1), count + ids.shape[1] - 1
    assert float(loss_of(objective, objective.collate([together[0]]))) == pytest.approx(total / count, rel=1e-5)
    joined = Causal(model, block=30, isolated=False)
    whole = joined.collate([joined.encode(ROWS)[0]])
    assert float(loss_of(joined, whole)) != pytest.approx(total / count, rel=1e-3), "they do see each other"


def test_the_loss_is_the_references(tmp_path: Path) -> None:
    row = BY_FAMILY["gpt2"]
    folder = make(row, "GPT2LMHeadModel", tmp_path)
    theirs, model = load_theirs(folder, row), load_ours(folder)
    model._tokenizer = word_tokenizer("gpt2")
    objective = Causal(model, block=20, isolated=False)
    examples = objective.encode(ROWS)
    item = objective.collate([examples[0]])
    assert isinstance(item.labels, torch.Tensor)
    reference = theirs(input_ids=item.batch.input_ids, labels=item.labels).loss
    torch.testing.assert_close(loss_of(objective, item), reference, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_perplexity_is_over_all_tokens() -> None:
    """However the blocks fall into passes."""
    objective = Causal(tiny("gpt2", "text-generation", "gpt2"), block=8)
    examples = objective.encode(ROWS)
    apart = judged(objective, [objective.collate([examples[i]]) for i in range(3)])
    whole = objective.collate([examples[i] for i in range(3)])
    assert apart == pytest.approx(judged(objective, [whole]), rel=1e-5)
    assert apart["block_perplexity"] == pytest.approx(float(loss_of(objective, whole).exp()), rel=1e-5)
    assert objective.VALIDATION_METRIC in apart


def test_a_tokenizer_without_an_end_and_any_column() -> None:
    rows = Listed({"story": "the cat"}, {"story": ""}, {"story": "a dog"})
    model = tiny("gpt2", "text-generation", "none")
    examples = Causal(model, block=3, rest="drop", columns={"text": "story"}).encode(rows)
    assert [words_of(examples[0]["input_ids"])] == ["the cat a"] and len(examples) == 1
    assert examples[0]["documents"].tolist() == [2, 1]


def test_blocks_are_kept(tmp_path: Path) -> None:
    model = tiny("gpt2", "text-generation", "gpt2")
    objective = Causal(model, block=8)
    first = objective.encode(ROWS, cache=tmp_path)
    again = objective.encode(ROWS, cache=tmp_path)
    assert isinstance(first, ExampleStore) and first.fingerprint == again.fingerprint
    assert all(np.array_equal(first[i]["input_ids"], again[i]["input_ids"]) for i in range(3))
    other = Causal(model, block=8, isolated=False).encode(ROWS, cache=tmp_path)
    assert other[0]["documents"].tolist() == [8], "other options make others"


# ------------------------------------------------------------------------------------------------------ answers

ASKED = Listed(
    {"prompt": "why did the bird ", "answer": "it saw figs"},
    {"prompt": "is this so ", "answer": "yes"},
)


@pytest.mark.parametrize("prompts", [False, True])
def test_only_answers_count(prompts: bool) -> None:
    objective = Answers(tiny("llama", "text-generation", "llama"), prompts=prompts)
    examples = objective.encode(ASKED)
    assert words_of(examples[0]["input_ids"]) == "<s> why did the bird it saw figs </s>"
    item = objective.collate([examples[0], examples[1]])
    assert isinstance(item.labels, torch.Tensor)
    said = words_of(item.labels[0])
    if prompts:
        assert said == "- why did the bird it saw figs </s> - is this so yes </s>"
    else:
        assert said == "- - - - - it saw figs </s> - - - - yes </s>"
    packed, padded = both_layouts(objective, [examples[0], examples[1]])
    torch.testing.assert_close(packed, padded)


def test_what_stands_between_is_the_prompts() -> None:
    objective = Answers(tiny("llama", "text-generation", "llama"), between=" . and ")
    example = objective.encode(Listed({"prompt": "why", "answer": "yes"}))[0]
    assert words_of(example["input_ids"]) == "<s> why . and yes </s>"
    assert words_of(example["labels"]) == "- - - - yes </s>"


def test_a_long_prompt_loses_its_beginning() -> None:
    objective = Answers(tiny("llama", "text-generation", "llama"), max_tokens=6)
    with pytest.warns(UserWarning, match="1 of 2 prompts with their answers were cut to 6 tokens"):
        examples = objective.encode(ASKED)
    assert words_of(examples[0]["input_ids"]) == "<s> bird it saw figs </s>"
    shorter = Answers(tiny("llama", "text-generation", "llama"), max_tokens=4)
    with pytest.warns(UserWarning, match="2 of 2"):
        examples = shorter.encode(ASKED)
    assert words_of(examples[0]["input_ids"]) == "<s> it saw </s>"
    assert words_of(examples[0]["labels"]) == "- it saw </s>"


@pytest.mark.parametrize(("prompt", "answer"), [("the cat", " sat on"), ("the cat ", "sat on")])
def test_a_token_across_the_seam_is_of_the_answer(prompt: str, answer: str) -> None:
    """GPT-2's words begin with their space, on whichever side it was written."""
    words = ["the", "\u0120cat", "\u0120sat", "\u0120on", "\u0120", "sat"]
    engine = tokenizers.Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="the"))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model = tiny("gpt2", "text-generation", "none", tokenizer=Tokenizer(engine))
    examples = Answers(model).encode(Listed({"prompt": prompt, "answer": answer}))
    assert examples[0]["input_ids"].tolist() == [0, 1, 2, 3]
    assert examples[0]["labels"].tolist() == [-100, -100, 2, 3]


# ------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (Listed({"text": "the cat"}, {"text": 5}), r"rows.csv: line 3: 'text' is 5"),
        (Listed({"txt": "the cat"}), "no column 'text'.*nearest: 'txt'"),
        (texts("", " "), "no row makes an example"),
        (texts("the \ud800"), "line 2.*surrogate"),
    ],
)
def test_bad_rows_are_said(rows: Listed, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Causal(tiny("gpt2", "text-generation", "none")).encode(rows)


def test_another_head_is_refused() -> None:
    with pytest.raises(ConfigError, match="load it with task='text-generation'"):
        Causal(tiny("gpt2", "text-classification", "gpt2"))


def test_an_answer_without_a_token_is_said() -> None:
    with pytest.raises(DataError, match=r"line 2: the answer ' ' has no token"):
        Answers(tiny("llama", "text-generation", "llama")).encode(Listed({"prompt": "why", "answer": " "}))


def test_a_frame_that_leaves_no_room_is_said() -> None:
    with pytest.raises(ConfigError, match="no room"):
        Answers(tiny("llama", "text-generation", "llama"), max_tokens=2).encode(ASKED)


def test_it_learns() -> None:
    objective = Causal(tiny("gpt2", "text-generation", "llama"), block=16)
    losses = list(trained(objective, objective.encode(ROWS), 30, 1e-2))
    assert losses[-1] < losses[0] / 2
    assert BOS in objective.encode(ROWS)[0]["input_ids"]


def test_a_validation_makes_no_whole_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a vocabulary of 50,000 they would take gigabytes; the loss is the same."""
    model = tiny("gpt2", "text-generation", "gpt2")
    task = Causal(model)
    examples = task.encode(texts("time flies like an arrow", "fruit flies like a banana"))
    trainer = Trainer(model, task, TrainingOptions(steps=1), train=examples, validation=examples)
    expected = judged(task, [task.collate([examples[i]]) for i in range(len(examples))])["loss"]
    monkeypatch.setattr(model.network.head, "forward", lambda *given: pytest.fail("whole logits"))
    assert trainer.validate()["loss"] == pytest.approx(expected, abs=1e-6)
