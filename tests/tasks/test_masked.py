"""Masked language modelling: what is masked, learnt, evaluated, and filled in by the pipeline."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
from tokenizers import models, pre_tokenizers, processors

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.data.order import example_generator
from glassformer.data.rows import read_rows
from glassformer.evaluation.evaluate import evaluate
from glassformer.tasks.masked import Masked, Masking
from glassformer.tasks.microbatch import dummy_batch
from glassformer.text.settings import TokenizerSettings
from glassformer.text.tokenizer import Tokenizer
from tests.e2e.tiny_models import make_folder
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
    judged,
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


def test_a_process_without_a_share_has_a_batch_all_the_same() -> None:
    """What is masked is drawn when an example is shown: as it is stored it has no labels."""
    task = Masked(tiny("bert", "fill-mask", "bert"))
    batch = dummy_batch(task, task.encode(ROWS))
    assert isinstance(batch.labels, torch.Tensor) and (batch.labels != -100).any()


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


TEXTS = [
    "time flies like an arrow . fruit flies like a banana .",
    "the bird eats figs",
    "a dog ran home . " * 4,
]
EVALUATED_ROWS = read_rows([{"text": text} for text in TEXTS])


def objective(**options: object) -> Masked:
    return Masked(tiny("bert", "fill-mask", "bert"), rate=0.4, **options)  # type: ignore[arg-type]


def test_figures_are_those_of_a_validation_on_the_same_masks() -> None:
    learner = objective(max_tokens=10)  # the long texts go on in further examples
    task = learner.for_evaluation()
    records = list(task.predict(EVALUATED_ROWS))
    assert len(records) == len(EVALUATED_ROWS) and [r.row["text"] for r in records] == TEXTS
    examples = learner.encode(EVALUATED_ROWS)
    seen = [learner.augment(examples[i], example_generator(0, 0, i)) for i in range(len(examples))]
    assert len(seen) > len(EVALUATED_ROWS)
    wanted = judged(learner, [learner.collate([example]) for example in seen])
    values = task.metrics(records).values()
    assert values["loss"] == pytest.approx(wanted["loss"], rel=1e-5)
    assert values["perplexity"] == pytest.approx(math.exp(wanted["loss"]), rel=1e-5)
    hidden = sum(int((example["labels"] >= 0).sum()) for example in seen)
    assert sum(len(r.label) for r in records) == hidden
    right = sum(a == b for r in records for a, b in zip(r.label, r.predicted, strict=True))
    assert values["accuracy"] == pytest.approx(right / hidden)
    again = list(task.predict(EVALUATED_ROWS))
    assert [r.details for r in again] == [r.details for r in records]


def test_the_most_frequent_token_is_to_be_beaten() -> None:
    task = objective(whole_words=True).for_evaluation()
    found = evaluate("fill", task, EVALUATED_ROWS, train=EVALUATED_ROWS, resamples=10)
    (unigram,) = task.baselines(EVALUATED_ROWS, found.predictions)
    assert {word for record in unigram.predictions for word in record.predicted} == {"."}
    words = " ".join(TEXTS).split()
    loss = -math.log((words.count("flies") + 1) / (len(words) + task.model.network.vocabulary))
    each = [
        loss
        for record in unigram.predictions
        for number, loss in zip(record.details["ids"], record.details["losses"], strict=True)
        if number == NUMBER["flies"]
    ]
    assert np.allclose(each, loss, atol=1e-4)
    assert found.report.metric == "perplexity" and found.report.baselines["unigram"].difference is not None


def test_a_text_too_short_to_hide_anything_is_told() -> None:
    rows = read_rows([{"text": "time flies like an arrow . fruit flies like a banana"}, {"text": ""}])
    task = objective().for_evaluation()
    records = list(task.predict(rows))
    assert records[1].loss is None and records[1].correct is None
    assert task.notes(records) == ["1 texts are too short for a token of theirs to be hidden"]
    with pytest.raises(DataError, match="must not be blank"):
        list(task.predict(rows.select([1])))


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


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_spaces_are_cleaned_up_as_the_folder_says(family: str, place: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(place, tmp_path / "cleaned")
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text("utf-8")) if path.exists() else {}
    path.write_text(json.dumps({**config, "clean_up_tokenization_spaces": True}), encoding="utf-8")
    ours, theirs = glassformer.pipeline("fill-mask", folder), theirs_of(folder)
    for text in ("time do n't {} , like 's an arrow !", "{} . don't"):
        text = text.format(ours.model.tokenizer.mask_token)
        close(ours(text), theirs(text))
        assert ours(text) != glassformer.pipeline("fill-mask", place)(text) or family != "bert"


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
    assert ">token_str</th>" in several._repr_html_()
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
    with pytest.raises(WeightsError, match="holds no head for 'fill-mask', so its predictions would be random"):
        glassformer.pipeline("fill-mask", folder)


def test_a_tokenizer_without_a_mask(tmp_path: Path) -> None:
    fill = glassformer.pipeline("fill-mask", make_folder(tmp_path / "bert", "bert", task="fill-mask"))
    with pytest.raises(ConfigError, match="has no mask token"):
        fill("time")
