from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors

from glassformer.errors import ConfigError, DataError
from glassformer.tasks.masked.task import Masked, Masking
from glassformer.text.settings import TokenizerSettings
from glassformer.text.tokenizer import Tokenizer
from tests.parity.families import BY_FAMILY
from tests.parity.sides import load_ours, load_theirs, make
from tests.tasks.words import (
    CLS,
    MASK,
    NUMBER,
    SEP,
    SPECIAL,
    VOCABULARY,
    both_layouts,
    drawing,
    loss_of,
    shown,
    texts,
    tiny,
    trained,
    word_tokenizer,
    words_of,
)

ROWS = texts(*["time flies like an arrow . fruit flies like a banana . the bird eats figs ."] * 12)


def masking() -> Masking:
    return Masking.of(word_tokenizer("bert"))


def test_rates_over_a_million_tokens() -> None:
    """15 % are chosen; of them 80 % masked, 10 % replaced by any ordinary word, 10 % left; on short texts too."""
    hide, draw = masking(), drawing()
    ordinary = np.array([number for number in range(len(VOCABULARY)) if number in hide.words])
    tokens = chosen = masked = kept = 0
    others = np.zeros(len(VOCABULARY))
    first = np.zeros(9)
    while tokens < 1_000_000:
        length = int(draw.choice([9, 37, 510]))
        ids = np.array([CLS, *draw.choice(ordinary, length), SEP])
        read, said = hide(ids, draw)
        places = said != -100
        assert not places[[0, -1]].any() and (read[~places] == ids[~places]).all()
        assert (said[places] == ids[places]).all()
        if length == 9:
            first += places[1:-1]
        tokens, chosen = tokens + length, chosen + int(places.sum())
        masked += int((read[places] == MASK).sum())
        kept += int((read[places] == ids[places]).sum())
        np.add.at(others, read[places & (read != MASK) & (read != ids)], 1)
    assert chosen / tokens == pytest.approx(0.15, abs=0.001)
    assert masked / chosen == pytest.approx(0.8, abs=0.005)
    by_chance = 0.1 / len(ordinary)  # a word may be replaced by itself
    assert kept / chosen == pytest.approx(0.1 + by_chance, abs=0.003)
    assert others.sum() / chosen == pytest.approx(0.1 - by_chance, abs=0.003)
    special = [*range(len(SPECIAL)), *(NUMBER[f"<extra_id_{i}>"] for i in range(12)), NUMBER["<mask_1>"]]
    assert others[special].sum() == 0 and others[ordinary].min() > 0
    assert first.min() / first.mean() > 0.8, "every place is as likely"


def test_the_draw_decides_and_nothing_else() -> None:
    """The same generator hides the same, as a validation wants it; another one hides others."""
    objective = Masked(tiny("bert", "fill-mask", "bert"))
    example = objective.encode(ROWS)[0]
    before = example["input_ids"].copy()
    first, again, other = (objective.augment(example, drawing(seed)) for seed in (3, 3, 4))
    assert (first["input_ids"] == again["input_ids"]).all() and (first["labels"] == again["labels"]).all()
    assert (first["labels"] != other["labels"]).any()
    assert (example["input_ids"] == before).all(), "the example stays as it was"


def pieces_tokenizer() -> Tokenizer:
    words = [*SPECIAL[:5], "un", "##believ", "##able", "cat", "s", "##at"]
    number = {word: i for i, word in enumerate(words)}
    engine = tokenizers.Tokenizer(models.WordPiece(number, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    engine.add_special_tokens(SPECIAL[:5])
    return Tokenizer(engine, TokenizerSettings(roles={"mask": "[MASK]", "cls": "[CLS]", "sep": "[SEP]"}))


def test_whole_words_are_hidden_whole() -> None:
    model = tiny("bert", "fill-mask", "bert", tokenizer=pieces_tokenizer())
    objective = Masked(model, whole_words=True, rate=0.4)
    example = objective.encode(texts("unbelievable cat sat unbelievable"))[0]
    assert example["words"].tolist() == [-1, 0, 0, 0, 1, 2, 2, 3, 3, 3, -1]
    draw, chosen = drawing(), np.zeros(11)
    for _ in range(4_000):
        places = objective.augment(example, draw)["labels"] != -100
        for word in range(4):
            assert len(set(places[example["words"] == word])) == 1
        chosen += places
    assert chosen[[0, -1]].sum() == 0
    assert chosen[1:-1] / 4_000 == pytest.approx(np.full(9, 0.4), abs=0.04), "the rate holds for tokens too"


def test_long_texts_go_on() -> None:
    objective = Masked(tiny("bert", "fill-mask", "bert"), max_tokens=6)
    examples = objective.encode(texts("the cat sat on the red mat", "", "we saw it"))
    assert [words_of(examples[i]["input_ids"]) for i in range(len(examples))] == [
        "[CLS] the cat sat on [SEP]",
        "[CLS] the red mat [SEP]",
        "[CLS] we saw it [SEP]",
    ]
    whole = Masked(tiny("bert", "fill-mask", "bert"), max_tokens=6, whole_words=True)
    assert whole.encode(texts("the cat sat on the red mat"))[1]["words"].tolist() == [-1, 4, 5, 6, -1]


def test_both_layouts_have_one_loss() -> None:
    objective = Masked(tiny("bert", "fill-mask", "bert"))
    rows = texts("the cat sat on the mat", "time flies like an arrow and a banana", "we saw it run home")
    packed, padded = both_layouts(objective, shown(objective, objective.encode(rows), 5))
    torch.testing.assert_close(packed, padded)


def test_the_loss_is_the_references(tmp_path: Path) -> None:
    row = BY_FAMILY["bert"]
    folder = make(row, "BertForMaskedLM", tmp_path)
    theirs, model = load_theirs(folder, row), load_ours(folder)
    model._tokenizer = word_tokenizer("bert")
    objective = Masked(model)
    objective.packs = False
    examples = objective.encode(texts("the cat sat on the mat", "time flies like an arrow", "we saw it run"))
    item = objective.collate(shown(objective, examples, 2))
    assert isinstance(item.labels, torch.Tensor) and item.flow.keep is not None
    assert (item.labels != -100).any()
    reference = theirs(
        input_ids=item.batch.input_ids, attention_mask=item.flow.keep[:, 0].long(), labels=item.labels
    ).loss
    torch.testing.assert_close(loss_of(objective, item), reference, atol=1e-5, rtol=1e-5)


def test_what_cannot_be_is_said() -> None:
    unmasked = Tokenizer(word_tokenizer("none").engine, TokenizerSettings(roles={"unk": "[UNK]"}))
    gpt = tiny("bert", "fill-mask", "none", tokenizer=unmasked)
    with pytest.raises(ConfigError, match="no mask token"):
        Masked(gpt)
    with pytest.raises(ConfigError, match="rate is 1"):
        Masked(tiny("bert", "fill-mask", "bert"), rate=1.0)
    with pytest.raises(DataError, match="must not be blank"):
        Masked(tiny("bert", "fill-mask", "bert")).encode(texts(" ", ""))
    with pytest.raises(ConfigError, match="no room"):
        Masked(tiny("bert", "fill-mask", "bert"), max_tokens=2)


def test_it_learns() -> None:
    objective = Masked(tiny("bert", "fill-mask", "bert"))
    losses = list(trained(objective, objective.encode(ROWS), 50, 5e-3))
    assert sum(losses[-5:]) < sum(losses[:5]) / 2
