"""The main interface: what `load`, `Model` and its methods promise beyond parity and bad input."""

from __future__ import annotations

import gc
import json
import pickle
import warnings
import weakref
from inspect import signature
from pathlib import Path

import pytest
import torch

from glassformer import Model, Tape, load
from glassformer.compression.adapter_set import AdapterSet
from glassformer.errors import ConfigError, MissingPartError
from glassformer.sentence_embeddings import SentenceEmbedder
from tests.e2e.tiny_models import make_folder

TEXT = "time flies like an arrow"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("bert"), "bert", task="feature-extraction")
    roles = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | roles))
    return folder


def test_a_head_that_reads_the_first_token_misses_its_marker(bert: Path) -> None:
    """CL-25: the classifier warns when the input does not begin with [CLS]."""
    model = load(bert, task="classify")
    bare = model.tokenizer(TEXT, add_special_tokens=False, return_tensors="pt")
    with pytest.warns(UserWarning, match=r"reads the first token, which should be '\[CLS\]'"):
        model(**bare)
    left = model.tokenizer([TEXT, "time"], padding=True, padding_side="left", return_tensors="pt")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(**model.tokenizer(TEXT, return_tensors="pt")).logits.shape == (1, 2)
        model(**left)  # the first token that is not padding is [CLS]
        load(bert)(**bare)  # a bare body judges nothing


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_prepared_model_can_be_called_as_any_other(bert: Path, precision: str) -> None:
    plain, model = load(bert), load(bert).prepare(precision)
    ids = torch.tensor([[1, 4, 5, 2]])
    torch.testing.assert_close(model(ids).last_hidden_state, plain(ids).last_hidden_state, atol=0.1, rtol=0.1)


def test_narrow_weights_have_no_gradients_and_say_so(bert: Path) -> None:
    model = load(bert).prepare("int8").train()
    with pytest.raises(ConfigError, match="gradients are asked for"):
        model(torch.tensor([[1, 4, 5, 2]]))


def test_one_string_gives_one_vector(bert: Path) -> None:
    model = load(bert)
    assert model.encode(TEXT).shape == (8,) and model.encode([TEXT]).shape == (1, 8)
    assert (model.encode(TEXT) == model.encode([TEXT])[0]).all()


def test_taps_arrive_with_the_output(bert: Path) -> None:
    model = load(bert)
    output = model(**model.tokenizer(TEXT, return_tensors="pt"), tape=Tape("attn.probs", "final"))
    assert list(output.taps) == ["blocks.0.attn.probs", "final"]
    assert "taps: 2 tensors" in repr(output)


# ------------------------------------------------------------------------------------------------- how answers begin


def answering(folder: Path, **generation: object) -> Model:
    """A translator whose folder says how it generates."""
    made = make_folder(folder, "bart")
    if generation:
        (made / "generation_config.json").write_text(json.dumps(generation))
    return load(made)


SOURCE = torch.tensor([[4, 5, 6]])


def test_an_answer_begins_with_what_is_forced(tmp_path: Path) -> None:
    plain = answering(tmp_path / "plain")
    start = plain.config["decoder_start_token_id"]
    model = answering(tmp_path / "forced", forced_bos_token_id=7)
    assert model.generate(SOURCE, max_new_tokens=3)[0, :2].tolist() == [start, 7]
    assert model.generate(SOURCE, max_new_tokens=3).shape[1] <= 4, "a forced token is a new one"
    assert model.generate(SOURCE, max_new_tokens=0).tolist() == [[start]]
    longer = answering(tmp_path / "longer", forced_decoder_ids=[[2, 9], [1, 8]])
    assert longer.generate(SOURCE, max_new_tokens=5)[0, :3].tolist() == [start, 8, 9]
    assert [token.id for token in longer.inspect("time flies", "fruit flies").streams["target"]][:3] == [
        start,
        8,
        9,
    ]


def test_language_detection(tmp_path: Path) -> None:
    """A forced token that is null is the likeliest language; then, unless times are told, the token that says so."""
    options = {"lang_to_id": {"<|en|>": 8, "<|de|>": 9}, "no_timestamps_token_id": 11}
    model = answering(tmp_path / "older", forced_decoder_ids=[[1, None], [2, 10]], **options)
    answer = model.generate(SOURCE, max_new_tokens=5)[0].tolist()
    assert answer[1] in (8, 9) and answer[2:4] == [10, 11]
    newer = answering(tmp_path / "newer", task_to_id={"transcribe": 10, "translate": 12}, **options)
    assert newer.generate(SOURCE, max_new_tokens=5)[0].tolist() == answer
    ids = torch.tensor([answer[:1]])
    logits = model(SOURCE, decoder_input_ids=ids).logits[0, -1]
    assert answer[1] == (8 if logits[8] > logits[9] else 9)


def test_generation_config_comes_before_config_and_is_saved(tmp_path: Path) -> None:
    model = answering(tmp_path / "one", decoder_start_token_id=9, forced_bos_token_id=8)
    assert model.generate(SOURCE, max_new_tokens=2)[0, :2].tolist() == [9, 8]
    model.save_pretrained(tmp_path / "two")
    assert load(tmp_path / "two").generation_config == model.generation_config


def test_suppressed_tokens_are_not_generated(tmp_path: Path) -> None:
    answer = answering(tmp_path / "plain").generate(SOURCE, max_new_tokens=6)[0, 1:].tolist()
    never = answering(tmp_path / "never", suppress_tokens=[answer[0]])
    assert answer[0] not in never.generate(SOURCE, max_new_tokens=6)[0, 1:-1].tolist()  # the last is forced
    first = answering(tmp_path / "first", begin_suppress_tokens=[answer[0]])
    assert first.generate(SOURCE, max_new_tokens=2)[0, 1] != answer[0]


@pytest.mark.parametrize("listed", [7, [7], [[0, 7]], [[1, 7], [3, 8]], [["a", 7]], [[1, 9999]]])
def test_forced_ids_that_are_none(tmp_path: Path, listed: object) -> None:
    model = answering(tmp_path, forced_decoder_ids=listed)
    with pytest.raises(ConfigError, match=r"forced_decoder_ids is .*positions from 1 up"):
        model.generate(SOURCE)


def test_methods_of_its_parts_are_its_own(bert: Path) -> None:
    """With their arguments and documentation, and by names that a process finds again."""
    model = load(bert)
    parts = {"encode": SentenceEmbedder.encode, "rank": SentenceEmbedder.rank, "set_adapter": AdapterSet.activate}
    for name, method in parts.items():
        own = getattr(Model, name)
        assert signature(own) == signature(method) and own.__doc__ == method.__doc__
        assert own.__qualname__ == f"Model.{name}" and own.__module__ == "glassformer.model"
        assert pickle.loads(pickle.dumps(getattr(model, name))).__name__ == name
    assert (model.encode(TEXT) == model.embedder.encode(TEXT)).all()
    model.add_adapter("a")
    assert dict(model.adapters) == {"a": model.adapters["a"]} and "active: 'a'" in repr(model.adapters)
    assert pickle.loads(pickle.dumps(load)) is load and "precision" in signature(load).parameters


def test_its_memory_is_free_when_nobody_has_it(bert: Path) -> None:
    """Without waiting for the garbage collector: its parts hold it no longer than they are used."""
    model = load(bert)
    model.encode(TEXT)
    assert not model.adapters and model.codec
    network = weakref.ref(model.network)
    gc.disable()
    try:
        del model
        assert network() is None
    finally:
        gc.enable()


def test_tokenizer_and_processor_are_set(bert: Path) -> None:
    model, other = load(bert), load(bert)
    model.tokenizer = None  # type: ignore[assignment] # which takes it away
    assert not model.has_tokenizer and not model.has_processor
    with pytest.raises(MissingPartError, match="has no tokenizer"):
        model.encode(TEXT)
    model.tokenizer = other.tokenizer
    assert model.has_tokenizer and (model.encode(TEXT) == other.encode(TEXT)).all()


def test_a_notebook_shows_what_a_model_is(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "<b>", "bert", task="text-classification")
    labels = {"0": "joy", "1": "<sad>"}
    table = load(folder, overrides={"id2label": labels})._repr_html_()
    for cells in ("task</th><td>text-classification", "weights</th><td>float32 on cpu", "joy, &lt;sad&gt;"):
        assert cells in table
    assert "<sad>" not in table and "&lt;b&gt;" in table
