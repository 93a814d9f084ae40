"""Class names of the reference library: what stands behind each, and what says why nothing does."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import datasets
import dill
import pytest
import torch
import transformers
from datasets.utils._dill import dumps as hashed_by_datasets

import glassformer
from glassformer import hf, load, train_tokenizer
from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.models import FAMILIES
from tests.e2e.tiny_models import make_folder

OURS = {"TransformerForConditionalGeneration"}  # the paper's own, which the reference library has not


def test_every_family_has_its_classes() -> None:
    for family in FAMILIES.values():
        for name, task in family.architectures.items():
            assert (task,) == getattr(hf, name).TASKS and family.model_type == getattr(hf, name).FAMILY
            assert name in OURS or hasattr(transformers, name)
    for name in ("BertTokenizerFast", "GPT2Tokenizer", "T5Config", "WhisperProcessor", "CLIPProcessor"):
        assert hasattr(hf, name) and hasattr(transformers, name)
    assert hf.BertConfig(hidden_size=8).model_type == "bert"
    assert all(hasattr(hf, name) and hasattr(transformers, name) for name in hf.__all__ if name != "PretrainedConfig")


CLASSES = """AutoModelForCausalLM AutoModelForMaskedLM BertTokenizerFast PreTrainedTokenizerFast BertPreTrainedModel
    PreTrainedModel BertForMaskedLM BertConfig TextClassificationPipeline BatchEncoding DynamicCache Adafactor
    TrainingArguments AutoModelForMultipleChoice""".split()


@pytest.mark.parametrize("dumps", [pickle.dumps, dill.dumps, hashed_by_datasets], ids=["pickle", "dill", "datasets"])
@pytest.mark.parametrize("name", CLASSES)
def test_classes_and_packages_are_pickled_by_name(name: str, dumps: Callable[[Any], bytes]) -> None:
    """`datasets.map(num_proc=2)` pickles what a function reads: the copy of a class is another class."""
    value = getattr(hf, name)
    assert pickle.loads(dumps(value)) is value is getattr(hf, name)
    assert len(dumps(value)) < 300 and len(dumps(hf)) < 300
    assert pickle.loads(dumps(hf)) is hf and pickle.loads(dumps(glassformer)) is glassformer


def test_a_function_of_names_in_several_processes() -> None:
    """Of a cell of a notebook, whose names are those of the process that dill copies."""
    rows = datasets.Dataset.from_dict({"text": ["a", "b c", "d", "e f g"]})
    names = {"transformers": hf, "glassformer": glassformer, "Auto": hf.AutoModelForCausalLM, "Own": hf.PreTrainedModel}
    source = (
        "def count(row): return {'n': len(row['text']), 'of': f'{transformers.BertConfig.__name__} {Auto.__name__}'}"
    )
    exec(source, names)
    counted = rows.map(names["count"], num_proc=2)
    assert counted["n"] == [1, 3, 1, 5] and set(counted["of"]) == {"BertConfig AutoModelForCausalLM"}


def test_a_class_of_a_family_loads_its_head(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="feature-extraction")
    assert hf.BertForMaskedLM.from_pretrained(folder).task == "fill-mask"
    assert hf.AutoModelForPreTraining.from_pretrained(folder).task == "pre-training"
    assert hf.AutoModel.from_config(hf.AutoConfig.from_pretrained(folder)).training
    refused: list[tuple[type[GlassformerError], str, object]] = [
        (UnsupportedError, "loads 'gpt2' models, and this is a 'bert' model", hf.GPT2Model.from_pretrained),
        (UnsupportedError, "no head for 'automatic-speech-recognition'", hf.AutoModelForCTC.from_pretrained),
        (DataError, "texts are read by AutoTokenizer|AutoTokenizer", hf.AutoFeatureExtractor.from_pretrained),
        (UnsupportedError, r"prepare\('int8'\)", hf.BitsAndBytesConfig),
        (UnsupportedError, r"torch\.optim\.AdamW", hf.AdamW),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call(folder)  # type: ignore[operator]
    with pytest.raises(ConfigError, match="makes no model"):
        hf.AutoModelForMaskedLM()
    for wrong, words in (
        ("AutoModelForEverything", "; nearest: .*AutoModelFor"),
        ("AutoModelForSequenceClasification", "; nearest: 'AutoModelForSequenceClassification'"),
        ("DataCollatorForTokenClassifcation", "; nearest: 'DataCollatorForTokenClassification'"),
        ("SamVisionModel", "SamVisionModel'$"),  # no kin of any family
        ("KeypointMatching", "KeypointMatching'$"),
    ):
        with pytest.raises(AttributeError, match=words):
            getattr(hf, wrong)


def test_a_tokenizer_with_options(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert")
    assert hf.AutoTokenizer.from_pretrained(folder, padding_side="left", use_fast=True).padding_side == "left"
    with pytest.raises(ConfigError, match="takes no 'nothing'"):
        hf.AutoTokenizer.from_pretrained(folder, nothing=1)
    with pytest.raises(DataError, match="the model is None"):
        hf.AutoTokenizer.from_pretrained(None)  # type: ignore[arg-type]


def test_a_pipeline_with_another_tokenizer_leaves_the_models_own(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert", task="text-classification")
    model = load(folder)
    own, other = model.tokenizer, hf.AutoTokenizer.from_pretrained(folder, padding_side="left")
    made = hf.pipeline("text-classification", model, tokenizer=other)
    assert made.tokenizer is other and model.tokenizer is own
    assert made("time flies") == hf.pipeline("text-classification", model)("time flies")


def test_a_name_of_a_model_without_a_counterpart_says_what_to_write(tmp_path: Path) -> None:
    model = hf.AutoModelForCausalLM.from_pretrained(make_folder(tmp_path, "gpt2", task="text-generation"))
    with pytest.raises(
        AttributeError, match=r"a GPT2LMHeadModel has no 'prepare_inputs_for_generation': model\.generate"
    ):
        model.prepare_inputs_for_generation(None)
    with pytest.raises(AttributeError, match=r"has no 'layers': the modules are model\.network's"):
        model.layers()
    assert not hasattr(model, "layers")


def test_options_of_a_call_change_nothing_where_a_tokenizer_is_read(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, "bert")
    with pytest.warns(UserWarning, match=r"max_length=, return_tensors=, truncation= changes nothing here"):
        tokenizer = hf.AutoTokenizer.from_pretrained(folder, return_tensors="pt", max_length=3, truncation=True)
    assert len(tokenizer("time flies like an arrow")["input_ids"]) > 3


def test_values_by_their_classes(tmp_path: Path) -> None:
    tokenizer = hf.AutoTokenizer.from_pretrained(make_folder(tmp_path, "bert"), pad_token="[PAD]")
    texts = ["time flies like an arrow", "time"]
    options = {
        "padding": hf.PaddingStrategy.LONGEST,
        "truncation": hf.TruncationStrategy.ONLY_FIRST,
        "return_tensors": hf.TensorType.PYTORCH,
    }
    assert tokenizer(texts, max_length=4, **options)["input_ids"].shape == (2, 4)
    for name in ("PaddingStrategy", "TruncationStrategy", "OptimizerNames"):
        assert {x.value for x in getattr(hf, name)} <= {x.value for x in _theirs(name)}
    assert hf.TrainingArguments(tmp_path, optim=hf.OptimizerNames.ADAMW_TORCH).optim == "adamw_torch"
    assert float(hf.get_activation("relu")(torch.tensor(-1.0))) == 0


def _theirs(name: str) -> Any:
    from transformers.tokenization_utils_base import PaddingStrategy, TruncationStrategy
    from transformers.training_args import OptimizerNames

    return {"PaddingStrategy": PaddingStrategy, "TruncationStrategy": TruncationStrategy}.get(name, OptimizerNames)


def test_a_tokenizer_of_few_texts_has_fewer_tokens(tmp_path: Path) -> None:
    texts = ["time flies like an arrow", "fruit flies like a banana"] * 3
    for kind, size in (("byte-bpe", 262), ("wordpiece", 40), ("unigram", 30)):
        train_tokenizer(texts, kind=kind, size=size).save(tmp_path / kind)
        new = hf.AutoTokenizer.from_pretrained(tmp_path / kind).train_new_from_iterator(texts, 52_000)
        assert size < len(new) < 52_000
        assert new.decode(new("time flies")["input_ids"], skip_special_tokens=True).strip() == "time flies"


@pytest.mark.parametrize("options", [{}, {"min_frequency": 0}, {"min_frequency": 3}], ids=str)
@pytest.mark.parametrize("size", [270, 290, 52_000])
def test_a_tokenizer_trained_again_has_the_vocabulary_of_the_reference(
    options: dict[str, Any], size: int, tmp_path: Path
) -> None:
    """Pairs that occur once are merged, too."""
    texts = ["time flies like an arrow", "fruit flies like a banana", "time and again", "an arrow 24"]
    train_tokenizer(["the quick brown fox"] * 2, kind="byte-bpe", size=262).save(tmp_path)
    new = [
        library.AutoTokenizer.from_pretrained(tmp_path).train_new_from_iterator(iter([texts]), size, **options)
        for library in (hf, transformers)
    ]
    assert new[0].get_vocab() == new[1].get_vocab()
    assert new[0]("time flies 24")["input_ids"] == new[1]("time flies 24")["input_ids"]


def test_booleans_on_the_command_line() -> None:
    @dataclass
    class Options:
        needed: bool
        on: bool = True
        off: bool = False
        perhaps: bool | None = None

    parser = hf.HfArgumentParser(Options)
    theirs = transformers.HfArgumentParser(Options)
    for line in ("", "--no_on", "--no-on", "--on false --off", "--needed --perhaps no"):
        (own,), (other,) = (each.parse_args_into_dataclasses(line.split()) for each in (parser, theirs))
        assert own == other, line


def test_a_schedule_takes_its_own_arguments(tmp_path: Path) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    for name, own in (
        ("cosine", {"num_cycles": 2}),
        ("polynomial", {"power": 3.0}),
        ("inverse_sqrt", {"timescale": 7}),
    ):
        both = [
            library.get_scheduler(name, optimizer, 3, 20, scheduler_specific_kwargs=own)
            for library in (hf, transformers)
        ]
        ours, theirs = ([schedule.lr_lambdas[0](step) for step in range(20)] for schedule in both)
        assert ours == pytest.approx(theirs)
    with pytest.raises(TypeError, match="'cosine' takes no 'cycles'; nearest: 'num_cycles'"):
        hf.get_scheduler("cosine", optimizer, 3, 20, scheduler_specific_kwargs={"cycles": 2})
    args = hf.TrainingArguments(tmp_path, lr_scheduler_type="polynomial", lr_scheduler_kwargs={"power": 2.0})
    trainer = hf.Trainer(torch.nn.Linear(1, 1), args, train_dataset=[])
    trainer.create_optimizer()
    assert trainer.create_scheduler(10).lr_lambdas[0](5) == pytest.approx(0.25, abs=1e-2)


def test_a_tokenizer_is_read_with_new_tokens_and_a_space_before_texts(tmp_path: Path) -> None:
    texts = ["time flies like an arrow", "fruit flies like a banana"] * 3
    train_tokenizer(texts, kind="byte-bpe", size=280).save(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text()) | {"tokenizer_class": "GPT2Tokenizer"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    both = [
        library.AutoTokenizer.from_pretrained(tmp_path, add_prefix_space=True, pad_token="<new>")
        for library in (hf, transformers)
    ]
    own, theirs = both
    assert len(own) == len(theirs) == 281 and own.pad_token_id == theirs.pad_token_id == 280
    for words in ("time flies", "flies<new>"):
        assert (
            own(words)["input_ids"] == theirs(words)["input_ids"] != hf.AutoTokenizer.from_pretrained(tmp_path)(words)
        )
    assert own.convert_ids_to_tokens(own("flies")["input_ids"])[0].startswith("Ġ")
    with pytest.warns(UserWarning, match="add_prefix_space changes nothing"):
        hf.AutoTokenizer.from_pretrained(make_folder(tmp_path / "bert", "bert"), add_prefix_space=True)


def test_options_of_saving_a_tokenizer(tmp_path: Path) -> None:
    tokenizer = hf.AutoTokenizer.from_pretrained(make_folder(tmp_path, "bert"))
    assert len(tokenizer.save_pretrained(tmp_path / "saved", legacy_format=False, save_jinja_files=False)) == 2
    for error, option in ((UnsupportedError, {"filename_prefix": "a"}), (TypeError, {"nothing": 1})):
        with pytest.raises(error, match="save_pretrained"):
            tokenizer.save_pretrained(tmp_path / "saved", **option)
    assert tokenizer.add_special_tokens({"extra_special_tokens": ["<x>"]}, replace_extra_special_tokens=False) == 1
    assert "<x>" in tokenizer.extra_special_tokens
    with pytest.raises(UnsupportedError, match="leave replace_"):
        tokenizer.add_special_tokens({"extra_special_tokens": ["<y>"]}, replace_extra_special_tokens=True)


def test_tokenizers_of_families_that_are_not_here_are_refused_by_name() -> None:
    for name in ("XLNetTokenizerFast", "ReformerTokenizer"):
        with pytest.raises(AttributeError, match=rf"{name} is not there: .*PreTrainedTokenizerFast\(tokenizer_object="):
            getattr(hf, name)
