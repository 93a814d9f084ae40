from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from glassformer.errors import ConfigError, DataError
from glassformer.tasks.seq2seq.denoise import Denoising, GapSentences, SpanCorruption
from glassformer.tasks.seq2seq.task import TwoSided
from tests.tasks.words import (
    EOS,
    MASK,
    NUMBER,
    PAD,
    drawing,
    ids_of,
    shown,
    texts,
    tiny,
    trained,
    words_of,
)

TEXT = "time flies like an arrow .\nthe bird eats figs .\na cat sat on the mat ."
ROWS = texts(*[TEXT, "old river runs slow .\nwe saw it ."] * 3)


def bart(**options: Any) -> Denoising:
    return Denoising(tiny("bart", "translation", "bart", decoder_start_token_id=EOS), **options)


def t5(kind: type[TwoSided] = SpanCorruption, family: str = "t5", **options: Any) -> Any:
    return kind(tiny(family, "translation", "t5", decoder_start_token_id=PAD), **options)


def test_infilling_and_permutation_and_the_whole_text_again() -> None:
    objective = bart()
    example = objective.encode(ROWS)[0]
    assert example["sentences"].tolist() == [6, 5, 7]
    draw = drawing()
    for _ in range(60):
        pair = objective.augment(example, draw)
        assert words_of(pair["labels"]) == f"<s> {TEXT} </s>".replace("\n", " ")
        assert words_of(pair["input_ids"][[0, -1]]) == "<s> </s>"
        kept = pair["input_ids"][1:-1]
        assert (kept == MASK).any() or len(kept) < 18


@pytest.mark.parametrize("noise", ["infill", "hide", "delete", "rotate", "permute"])
def test_each_noise_by_its_name(noise: str) -> None:
    objective = bart(noises=(noise,))
    examples = objective.encode(texts(TEXT, TEXT.replace("time", "fruit")))
    ids, seen = sorted(ids_of(TEXT)), set()
    for seed in range(5):
        pair = objective.augment(examples[0], drawing(seed))
        read = pair["input_ids"][1:-1].tolist()
        seen.add(tuple(read))
        if noise in ("rotate", "permute"):
            assert sorted(read) == ids
        else:
            assert set(read) <= {*ids, MASK} and (MASK in read) == (noise != "delete")
        assert pair["labels"][1:-1].tolist() == ids_of(TEXT)
    assert len(seen) > 2, "another draw, another text"


def test_span_corruption_as_in_the_papers_figure() -> None:
    objective = t5(rate=0.3, mean=2.0)
    examples = objective.encode(texts("time flies like an arrow and the bird eats figs"))
    pair = objective.augment(examples[0], drawing(5))
    read, said = words_of(pair["input_ids"]), words_of(pair["labels"])
    assert read.endswith(" </s>") and said.endswith(" </s>")
    assert said.count("<extra_id_") == read.count("<extra_id_") + 1
    parts = [part.split() for part in said.removesuffix(" </s>").split("<extra_id_")[1:]]
    for number, (_, *words) in enumerate(parts):
        read = read.replace(f"<extra_id_{number}>", " ".join(words))
    assert read == "time flies like an arrow and the bird eats figs </s>"


def test_long_texts_go_on_and_keep_to_the_limit() -> None:
    objective = t5(max_source=8, max_target=6)
    examples = objective.encode(texts(TEXT, "", "yes"))
    assert [words_of(examples[i]["input_ids"]) for i in range(len(examples))] == [
        "time flies like an arrow . the",
        "bird eats figs . a cat sat",
        "on the mat .",
    ]
    for seed in range(20):
        for pair in shown(objective, examples, seed):
            assert len(pair["input_ids"]) <= 8 and len(pair["labels"]) <= 6
    bounded = bart(max_source=9, max_target=9)
    for seed in range(20):
        for pair in shown(bounded, bounded.encode(ROWS), seed):
            assert len(pair["input_ids"]) <= 9 and len(pair["labels"]) <= 9


def test_gap_sentences_are_the_target() -> None:
    objective = t5(GapSentences, "pegasus")
    said = "the cat sat on a mat ."
    rows = texts(f"the cat sat .\n{said}\nfigs .\non a mat we saw it .")
    example = objective.encode(rows)[0]
    assert words_of(example["labels"]) == f"{said} </s>"
    assert words_of(example["input_ids"]) == "the cat sat . <mask_1> figs . on a mat we saw it . </s>"
    assert objective.augment(example, drawing()) is example, "nothing is drawn"
    with pytest.warns(UserWarning, match="1 of 1 targets were cut to 4 tokens"):
        short = t5(GapSentences, "pegasus", max_target=4).encode(rows)
    assert words_of(short[0]["labels"]) == "the cat sat </s>"


@pytest.mark.parametrize(
    ("objective", "steps"),
    [(bart, 40), (t5, 40), (lambda: t5(GapSentences, "pegasus"), 40)],
    ids=["bart", "t5", "pegasus"],
)
def test_a_toy_run_learns(objective: Any, steps: int) -> None:
    learner = objective()
    losses = np.array(list(trained(learner, learner.encode(ROWS), steps, 5e-3)))
    assert losses[-5:].mean() < losses[:5].mean() * 0.7


def test_the_pass_is_that_of_a_translation() -> None:
    objective = t5()
    item = objective.collate(shown(objective, objective.encode(ROWS)))
    assert isinstance(item.labels, torch.Tensor) and item.batch.decoder_input_ids is not None
    assert (item.batch.decoder_input_ids[:, 0] == PAD).all()
    assert (item.labels[:, 0] == NUMBER["<extra_id_0>"]).all()


def test_what_cannot_be_is_said() -> None:
    with pytest.raises(ConfigError, match=r"'infil'; nearest: 'infill'"):
        bart(noises=("infil",))
    with pytest.raises(ConfigError, match="rate is 1"):
        t5(GapSentences, "pegasus", rate=1)
    with pytest.raises(ConfigError, match=r"mean 0\.5"):
        t5(mean=0.5)
    with pytest.raises(DataError, match="two sentences"):
        t5(GapSentences, "pegasus").encode(texts("the cat sat ."))
    with pytest.raises(DataError, match="two tokens"):
        t5().encode(texts("yes", ""))
    with pytest.raises(DataError, match="must not be blank"):
        bart().encode(texts("", " \n"))
