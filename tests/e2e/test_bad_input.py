"""What bad input gets, through the public face: the exact kind of error, and what its message says.

Every message is one line that says what is wrong, what was got, what is allowed, what to do.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from glassformer import (
    ConfigError,
    DataError,
    GlassformerError,
    Model,
    Tape,
    UnsupportedError,
    WeightsError,
    load,
)
from glassformer.core.cache import KeyValueCache
from glassformer.errors import MissingModelError, MissingPartError, UnknownNameError, UnknownOptionError
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder, word_tokenizer
from tests.peak import measured

FAMILIES = ("bert", "gpt2", "llama", "transformer")
TEXT = "time flies like an arrow"
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"

Error = type[GlassformerError]


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One whole folder a family; never changed."""
    home = tmp_path_factory.mktemp("whole")
    return {family: make_folder(home / family, family) for family in FAMILIES}


@pytest.fixture
def bert(whole: dict[str, Path], tmp_path: Path) -> Path:
    """A folder of one's own to damage."""
    return Path(shutil.copytree(whole["bert"], tmp_path / "model"))


@pytest.fixture(scope="session")
def models(whole: dict[str, Path]) -> dict[str, Model]:
    return {family: load(folder) for family, folder in whole.items()}


def refused(error: Error, part: str, call: Callable[[], object]) -> None:
    """`call` raises this very class, with one printable line that holds `part`."""
    start = time.process_time()
    with pytest.raises(GlassformerError) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is error, f"{type(caught.value).__name__}: {message}"
    assert part in message
    assert message.isprintable() and len(message) < 2_000
    assert time.process_time() - start < 5


def change(folder: Path, **values: Any) -> Path:
    """Set keys of `config.json`; ... removes one."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not ...}))
    return folder


# ── the folder ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name, error, message",
    [
        ("no/such/folder", MissingModelError, "no such folder"),
        ("", DataError, "is empty; give a folder, or a name on the Hub"),
        ("a\0b", DataError, "NUL"),
        ("x" * 5_000, DataError, "cannot be a folder"),
        (None, DataError, "the model is None; give a folder, or a name on the Hub"),
        (7, DataError, "the model is 7"),
        (["a"], DataError, "the model is ['a']"),
        (b"folder", DataError, "the model is b'folder'"),
    ],
)
def test_a_name_that_is_no_model(name: Any, error: Error, message: str, tmp_path: Path) -> None:
    refused(error, message, lambda: load(tmp_path / name if name == "no/such/folder" else name, offline=True))


def test_a_file_in_place_of_the_folder(bert: Path) -> None:
    refused(DataError, "is a file; give the folder that holds it", lambda: load(bert / "config.json"))


def test_an_empty_folder(tmp_path: Path) -> None:
    refused(ConfigError, "holds no config.json; give a model folder", lambda: load(tmp_path))
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    refused(WeightsError, "is no GGUF file", lambda: load(tmp_path))
    (tmp_path / "smaller.gguf").write_bytes(b"GGUF")
    refused(
        ConfigError,
        "'small.gguf' is one of several GGUF files, or an old one: give the file itself",
        lambda: load(tmp_path),
    )


def test_a_folder_without_weights(bert: Path) -> None:
    (bert / WEIGHTS).unlink()
    refused(WeightsError, "holds no weights: looked for model.safetensors", lambda: load(bert))


@pytest.mark.parametrize("name", ["tf_model.h5", "bert_model.ckpt.index", "flax_model.msgpack", "q4.ggml", "m.mlmodel"])
def test_a_folder_with_weights_of_other_software(bert: Path, name: str) -> None:
    (bert / WEIGHTS).rename(bert / name)
    refused(WeightsError, f"'{name}' is ", lambda: load(bert))


def test_a_folder_with_pickles_alone(bert: Path) -> None:
    (bert / WEIGHTS).rename(bert / "pytorch_model.bin")
    refused(WeightsError, "a pickle can run any code", lambda: load(bert))


# ── the weights ───────────────────────────────────────────────────────────────────────────────────────────


def test_weights_cut_at_any_place(bert: Path) -> None:
    data = (bert / WEIGHTS).read_bytes()
    for length in (0, 7, 8, 100, len(data) // 2, len(data) - 1):
        (bert / WEIGHTS).unlink()
        (bert / WEIGHTS).write_bytes(data[:length])
        refused(WeightsError, WEIGHTS, lambda: load(bert))


def test_weights_with_a_flipped_header(bert: Path) -> None:
    data = bytearray((bert / WEIGHTS).read_bytes())
    data[9] ^= 0x20
    (bert / WEIGHTS).unlink()
    (bert / WEIGHTS).write_bytes(data)
    refused(WeightsError, "header", lambda: load(bert))


def test_weights_of_another_size(bert: Path) -> None:
    message = "misshapen: embeddings.word_embeddings.weight is [20, 8], the config asks for [21, 8]"
    refused(WeightsError, message, lambda: load(change(bert, vocab_size=21)))


def test_weights_of_another_depth(bert: Path) -> None:
    refused(WeightsError, "encoder.layer.1.attention", lambda: load(change(bert, num_hidden_layers=2)))


def test_weights_that_are_whole_numbers(bert: Path) -> None:
    data = (bert / WEIGHTS).read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = data[8:end].replace(b'"F32"', b'"I32"')
    (bert / WEIGHTS).unlink()
    (bert / WEIGHTS).write_bytes(struct.pack("<Q", len(header)) + header + data[end:])
    refused(WeightsError, "not floating-point: ", lambda: load(bert))


def test_a_surplus_tensor_is_reported_and_under_strict_refused(bert: Path) -> None:
    change(bert, architectures=["BertForTokenClassification"])
    refused(WeightsError, "missing: classifier.weight (for head.classifier.weight", lambda: load(bert))
    change(bert, architectures=["BertForQuestionAnswering"])
    model = load(bert, task="fill-mask")
    assert model.report.new and "pooler.dense.weight" in " ".join(model.report.unused)
    change(bert, num_hidden_layers=1, architectures=["BertModel"])
    refused(WeightsError, "surplus: ", lambda: load(bert, task="fill-mask", strict=True))


@pytest.mark.parametrize(
    "shard, message",
    [
        ("../outside.safetensors", "plain file name"),
        ("/etc/passwd", "plain file name"),
        ("absent.safetensors", "not there"),
        (3, "plain file name"),
    ],
)
def test_an_index_that_points_elsewhere(tmp_path: Path, shard: Any, message: str) -> None:
    folder = make_folder(tmp_path / "model", "bert", max_shard_bytes=2_000)
    shutil.copy(next(folder.glob("model-*.safetensors")), tmp_path / "outside.safetensors")
    index = json.loads((folder / INDEX).read_text())
    assert load(folder).report.loaded
    index["weight_map"][next(iter(index["weight_map"]))] = shard
    (folder / INDEX).write_text(json.dumps(index))
    refused(WeightsError, message, lambda: load(folder))


# ── the config ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text, message",
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[1, 2]", "must be a JSON object, got list"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"hidden_size": 1e999}', "too large"),
        (b'{"model_type": "bert", "model_type": "gpt2"}', "duplicate key 'model_type'"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"a":[' + b"0," * 3_000_000 + b"0]}", "JSON values"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not valid JSON"),
    ],
)
def test_a_config_that_is_no_config(bert: Path, text: bytes, message: str) -> None:
    (bert / "config.json").write_bytes(text)
    refused(ConfigError, message, lambda: load(bert))


def test_a_config_that_is_a_folder(bert: Path) -> None:
    (bert / "config.json").unlink()
    (bert / "config.json").mkdir()
    refused(ConfigError, "config.json: ", lambda: load(bert))


WRONG: list[tuple[dict[str, Any], Error, str]] = [
    ({"model_type": "mamba9"}, UnsupportedError, "model_type 'mamba9' is not supported; supported: "),
    ({"model_type": "brt"}, UnsupportedError, "nearest: 'bert'"),
    ({"model_type": ...}, UnsupportedError, "model_type None is not supported"),
    ({"model_type": ["bert"]}, UnsupportedError, "model_type ['bert'] is not supported"),
    ({"model_type": "x" * 10**6}, UnsupportedError, "(1000002 characters)"),
    ({"architectures": ["BertForMultipleChoice"]}, UnsupportedError, "architectures = ['BertForMultipleChoice'] is"),
    ({"architectures": "BertModel"}, UnsupportedError, "to load its body with one of their heads, give task="),
    ({"architectures": [["BertModel"]]}, UnsupportedError, "architectures = [['BertModel']]"),
    ({"architectures": [7]}, UnsupportedError, "architectures = [7]"),
    ({"hidden_size": ...}, ConfigError, "config.json: has no 'hidden_size', which a 'bert' model needs"),
    ({"hidden_size": "8"}, ConfigError, "hidden_size is '8'; it must be a whole number from 1"),
    ({"hidden_size": 8.0}, ConfigError, "hidden_size is 8.0; it must be a whole number"),
    ({"hidden_size": True}, ConfigError, "hidden_size is True"),
    ({"hidden_size": -8}, ConfigError, "hidden_size is -8"),
    ({"hidden_size": 0}, ConfigError, "hidden_size is 0"),
    ({"hidden_size": [8]}, ConfigError, "hidden_size is [8]"),
    ({"hidden_size": 10**12}, ConfigError, "hidden_size is 1000000000000; it must be a whole number from 1 to 1000000"),
    ({"hidden_size": 10**4000}, ConfigError, "characters); it must be a whole number"),
    ({"vocab_size": 10**12}, ConfigError, "vocab_size is 1000000000000"),
    ({"vocab_size": 10**8}, WeightsError, "the config asks for [100000000, 8]"),
    ({"max_position_embeddings": 10**12}, ConfigError, "max_position_embeddings is 1000000000000"),
    ({"intermediate_size": 10**6}, WeightsError, "the config asks for [1000000, 8]"),
    ({"num_hidden_layers": 0}, ConfigError, "num_hidden_layers is 0"),
    ({"num_hidden_layers": 10**12}, ConfigError, "num_hidden_layers is 1000000000000"),
    ({"num_hidden_layers": 512}, WeightsError, "missing: "),
    ({"num_attention_heads": 3}, ConfigError, "width 8 is not a multiple of heads 3"),
    ({"num_attention_heads": 0}, ConfigError, "num_attention_heads is 0"),
    ({"type_vocab_size": -1}, ConfigError, "type_vocab_size is -1"),
    ({"hidden_dropout_prob": 1.5}, ConfigError, "hidden_dropout_prob is 1.5; it must be a number from 0"),
    ({"classifier_dropout": "0.1"}, ConfigError, "classifier_dropout is '0.1'"),
    ({"layer_norm_eps": -1e-5}, ConfigError, "layer_norm_eps is -1e-05; it must be a number from 0 up"),
    ({"layer_norm_eps": None}, None, ""),  # type: ignore[list-item]  # null is as good as absent
    ({"hidden_act": "os.system"}, UnknownNameError, "activation 'os.system' is not supported"),
    ({"hidden_act": "gelo"}, UnknownNameError, "nearest: 'gelu'"),
    ({"hidden_act": {"a": 1}}, ConfigError, "hidden_act is {'a': 1}; it must be a string"),
    ({"is_decoder": "yes"}, UnsupportedError, "is_decoder = 'yes' is not supported for a 'bert' model"),
    ({"position_embedding_type": "relative_key"}, UnsupportedError, "position_embedding_type = 'relative_key'"),
    ({"position_embedding_type": []}, UnsupportedError, "position_embedding_type = []"),
    ({"sliding_window": 128}, UnsupportedError, "sliding_window = 128 changes what a 'bert' model computes"),
    ({"quantization_config": {"bits": 4}}, UnsupportedError, "quant_method is None; quantised folders are read"),
    ({"problem_type": "guess"}, UnsupportedError, "problem_type = 'guess' is not supported"),
    ({"problem_type": ["regression"]}, UnsupportedError, "problem_type = ['regression'] is not supported"),
    ({"num_labels": -1}, ConfigError, "num_labels is -1"),
    ({"num_labels": "many"}, ConfigError, "num_labels is 'many'"),
    ({"num_labels": 10**12}, ConfigError, "num_labels is 1000000000000"),
    ({"initializer_range": "wide"}, ConfigError, "initializer_range is 'wide'"),
]  # fmt: skip


@pytest.mark.parametrize("values, error, message", WRONG, ids=[f"{values}"[:60] for values, _, _ in WRONG])
def test_a_wrong_value_in_the_config(bert: Path, values: dict[str, Any], error: Error, message: str) -> None:
    change(bert, **values)
    if error is None:
        load(bert)
    else:
        refused(error, message, lambda: load(bert))


YARN = {"type": "yarn", "factor": 2.0}
LONG = {"type": "longrope", "short_factor": [1.0] * 2, "long_factor": [2.0] * 2}
LLAMA: list[tuple[dict[str, Any], Error, str]] = [
    ({"num_key_value_heads": 3}, ConfigError, "heads 2 is not a multiple of kv_heads 3"),
    ({"head_dim": 0}, ConfigError, "head_dim is 0"),
    ({"head_dim": 3}, ConfigError, "it must be even"),
    ({"rope_scaling": 3}, ConfigError, "rope_scaling is 3; it must be an object or null"),
    ({"rope_scaling": {"type": "yran"}}, UnsupportedError, "rotary scaling 'yran' is not supported; supported: d"),
    ({"rope_scaling": {"type": ["linear"]}}, ConfigError, "rope_scaling: type is ['linear']; it must be a string"),
    ({"rope_scaling": {"type": "linear"}}, ConfigError, "rope_scaling: has no 'factor'"),
    ({"rope_scaling": {"type": "linear", "factor": 0}}, ConfigError, "factor is 0.0; it must be a number above 0"),
    ({"rope_scaling": {"type": "dynamic"}}, ConfigError, "rope_scaling: has no 'factor'"),
    ({"rope_scaling": {"type": "dynamic", "factor": True}}, ConfigError, "rope_scaling: factor is True"),
    ({"rope_scaling": {"type": "yarn"}}, ConfigError, "rope_scaling: has no 'factor'"),
    ({"rope_scaling": YARN | {"factor": -2}}, ConfigError, "rope_scaling: factor is -2; it must be a number"),
    ({"rope_scaling": YARN | {"beta_fast": 1, "beta_slow": 2}}, ConfigError, "beta_fast is 1.0 and beta_slow 2.0"),
    ({"rope_scaling": YARN | {"beta_slow": 0}}, ConfigError, "beta_slow is 0.0; it must be a number above 0"),
    ({"rope_scaling": YARN | {"truncate": 1}}, ConfigError, "truncate is 1; it must be true or false"),
    ({"rope_scaling": YARN | {"mscale": "1"}}, ConfigError, "mscale is '1'"),
    ({"rope_scaling": YARN | {"attention_factor": -1}}, ConfigError, "attention_factor is -1"),
    ({"rope_scaling": YARN | {"original_max_position_embeddings": 0}}, ConfigError, "position_embeddings is 0"),
    ({"rope_scaling": YARN, "original_max_position_embeddings": 1.5}, ConfigError, "position_embeddings is 1.5"),
    ({"rope_scaling": YARN, "rope_theta": 0.5}, ConfigError, "RotarySpec.theta is 0.5"),
    ({"rope_scaling": {"type": "longrope"}}, ConfigError, "rope_scaling: has no 'short_factor'"),
    ({"rope_scaling": LONG | {"long_factor": 3}}, ConfigError, "long_factor is 3; it must be a list of"),
    ({"rope_scaling": LONG | {"long_factor": []}}, ConfigError, "long_factor is []; it must be a list of"),
    ({"rope_scaling": LONG | {"short_factor": ["1"]}}, ConfigError, "short_factor is ['1']; it must be a list of"),
    ({"rope_theta": 0}, ConfigError, "rope_theta is 0.0; it must be a number above 0"),
    ({"rope_theta": "10000"}, ConfigError, "rope_theta is '10000'"),
    ({"attention_bias": "yes"}, ConfigError, "attention_bias is 'yes'; it must be true or false"),
    ({"partial_rotary_factor": 0.5}, UnsupportedError, "partial_rotary_factor = 0.5 is not supported"),
]  # fmt: skip


@pytest.mark.parametrize("values, error, message", LLAMA, ids=[f"{values}"[:60] for values, _, _ in LLAMA])
def test_a_wrong_value_in_a_rotary_config(
    whole: dict[str, Path], tmp_path: Path, values: dict[str, Any], error: Error, message: str
) -> None:
    folder = Path(shutil.copytree(whole["llama"], tmp_path / "model"))
    refused(error, message, lambda: load(change(folder, **values)))


def test_no_size_in_a_config_is_allocated(bert: Path) -> None:
    """A new head is nothing but a number in the config: 10⁸ labels would be 3 GB, of which nothing is taken."""
    _, grown = measured(refuse_a_new_head, change(bert, num_labels=10**8))
    assert grown < 100_000_000


def refuse_a_new_head(folder: Path) -> None:
    refused(WeightsError, "the new head needs 3.6 GB", lambda: load(folder, task="text-classification"))


def test_a_key_nobody_reads_is_a_warning_of_one_line(bert: Path) -> None:
    report = load(change(bert, **{"flux\ncapacitor": "x" * 10**5})).report
    assert len(report.warnings) == 1 and report.warnings[0].isprintable() and len(report.warnings[0]) < 300


# ── heads, dtype, device ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options, error, message",
    [
        (
            {"task": "text-generation"},
            UnsupportedError,
            "is_decoder = None is not supported for 'text-generation' with a 'bert' model; it must be True",
        ),
        ({"task": "make coffee"}, UnsupportedError, "no head for 'make coffee'"),
        ({"task": 3}, UnsupportedError, "no head for 3"),
        ({"task": ["fill-mask"]}, UnsupportedError, "no head for ['fill-mask']"),
        ({"dtype": "float8"}, ConfigError, "dtype is 'float8'; allowed: float32, float64, float16, bfloat16"),
        ({"dtype": torch.int32}, ConfigError, "dtype is torch.int32; allowed: float32"),
        ({"dtype": 16}, ConfigError, "dtype is 16"),
        ({"device": "warp"}, ConfigError, "device is 'warp', which this machine or this build of torch"),
        ({"device": "cuda:77"}, ConfigError, "device is 'cuda:77'"),
        ({"device": 3.5}, ConfigError, "device is 3.5"),
        ({"device": "auto!"}, ConfigError, "'auto' takes the accelerator"),
    ],
)
def test_a_wrong_option_of_load(whole: dict[str, Path], options: dict[str, Any], error: Error, message: str) -> None:
    refused(error, message, lambda: load(whole["bert"], **options))


def test_an_unknown_architecture_still_loads_with_a_head_of_ours(bert: Path) -> None:
    change(bert, architectures=["BertForMultipleChoice"])
    model = load(bert, task="fill-mask")
    assert model.task == "fill-mask" and all(name.startswith("head.") for name in model.report.new)


# ── the tokenizer ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_tokenizer_with_more_ids_than_the_vocabulary(bert: Path) -> None:
    words = [*"[PAD] [CLS] [SEP] [UNK]".split(), *(f"word{i}" for i in range(30))]
    word_tokenizer(words=words).save(str(bert / "tokenizer.json"))
    refused(ConfigError, "the tokenizer makes ids up to 33, the model's embedding has 20 rows", lambda: load(bert))


def test_a_missing_tokenizer_is_missed_when_it_is_needed(bert: Path) -> None:
    (bert / "tokenizer.json").unlink()
    model = load(bert)
    assert model(input_ids=torch.tensor([[1, 2]])).last_hidden_state is not None
    refused(MissingPartError, "holds neither tokenizer.json nor vocabulary files", lambda: model.encode([TEXT]))


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff", b'{"version": "\x1b[31m"}', b"[" * 100_000])
def test_a_damaged_tokenizer(bert: Path, content: bytes) -> None:
    (bert / "tokenizer.json").write_bytes(content)
    refused(DataError, "tokenizer.json is not a usable tokenizer", lambda: load(bert))


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────────────

ENCODERS = ("bert", "gpt2", "llama")


@pytest.mark.parametrize("family", ENCODERS)
def test_no_text_and_empty_text(models: dict[str, Model], family: str) -> None:
    model = models[family]
    assert model.encode([]).shape == (0, 8) and model.encode([]).dtype == np.float32
    vectors = model.encode(["", TEXT, "", "\n\t "])
    assert vectors.shape == (4, 8) and np.isfinite(vectors).all()
    assert np.abs(vectors[1] - model.encode(TEXT)).max() < 1e-5
    assert model.encode("").shape == (8,)


def test_texts_from_a_generator(models: dict[str, Model]) -> None:
    vectors = models["bert"].encode(text for text in (TEXT, "fruit"))  # type: ignore[arg-type]
    assert np.abs(vectors - models["bert"].encode([TEXT, "fruit"])).max() < 1e-5


@pytest.mark.parametrize(
    "texts, message",
    [
        (None, "texts is NoneType; give a list of strings"),
        (7, "texts is int"),
        (b"bytes", "texts is bytes"),
        ({"a": 1}, "texts is dict"),
        ([TEXT, None], "text 1 is None, NoneType; each text must be a string"),
        ([TEXT, b"bytes"], "text 1 is b'bytes', bytes"),
        ([[TEXT]], f"text 0 is ['{TEXT}'], list"),
        ([TEXT, "half \ud800"], "half of a surrogate pair"),
        ("\udfff", "half of a surrogate pair"),
    ],
)
def test_what_is_no_text(models: dict[str, Model], texts: Any, message: str) -> None:
    refused(DataError, message, lambda: models["bert"].encode(texts))


def test_long_text_is_cut_with_one_warning_or_refused(models: dict[str, Model]) -> None:
    model = models["bert"]
    long = " ".join([TEXT] * 10)
    with pytest.warns(UserWarning, match="2 of 3 texts were cut to 16 tokens") as caught:
        vectors = model.encode([long, TEXT, long])
    assert len(caught) == 1 and np.isfinite(vectors).all()
    refused(
        DataError,
        "1 of 2 texts have more than 16 tokens; shorten or split them, or let them be cut with truncate=True",
        lambda: model.encode([TEXT, long], truncate=False),
    )


@pytest.mark.parametrize("family", ENCODERS)
def test_a_megabyte_of_text(models: dict[str, Model], family: str) -> None:
    words = "fruit flies like a banana . " * 40_000
    wild = "\u0301\u202e\U0001f600é\0" * 100_000
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if family == "llama":  # rotary positions have no end: the memory has, so a limit is the caller's
            assert len(models[family].tokenizer.encode(words)) == 240_000
        else:
            vectors = models[family].encode([words, wild, "x" * 1_000_000])
            assert vectors.shape == (3, 8) and np.isfinite(vectors).all()
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"batch_tokens": 0}, ConfigError, "batch_tokens is 0; it must be a whole number from 1 up"),
        ({"batch_tokens": "many"}, ConfigError, "batch_tokens is 'many'"),
        ({"precision": "fp7"}, ConfigError, "fp7"),
    ],
)
def test_wrong_options_of_encode(models: dict[str, Model], options: dict[str, Any], error: Error, message: str) -> None:
    refused(error, message, lambda: models["bert"].encode([TEXT], **options))


def test_encode_needs_one_stack(models: dict[str, Model]) -> None:
    refused(UnsupportedError, "this one has source and target: ", lambda: models["transformer"].encode([TEXT]))


# ── sentence-transformers files ───────────────────────────────────────────────────────────────────────────

TRANSFORMER, POOLING = {"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"}


@pytest.mark.parametrize(
    "files, error, message",
    [
        ({"modules.json": b"{"}, ConfigError, "modules.json: cannot be read as JSON"),
        ({"modules.json": b"[" * 100_000}, ConfigError, "modules.json: cannot be read as JSON"),
        ({"modules.json": b"[" + b" " * 2**21 + b"]"}, ConfigError, "a list of steps may have"),
        ({"modules.json": {}}, ConfigError, "must be a JSON list of objects"),
        ({"modules.json": [1]}, ConfigError, "must be a JSON list of objects"),
        ({"modules.json": [TRANSFORMER, {"type": "a.CNN"}]}, UnsupportedError, "the step 'CNN' is not supported"),
        ({"modules.json": [{"type": "os.system\n"}]}, UnsupportedError, r"the step 'system\n'"),
        ({"modules.json": [POOLING | {"path": "../outside"}]}, ConfigError, "leaves the model folder"),
        ({"modules.json": [POOLING | {"path": "/etc"}]}, ConfigError, "leaves the model folder"),
        ({"modules.json": [POOLING | {"path": "a\0b"}]}, ConfigError, "leaves the model folder"),
        ({"modules.json": [POOLING | {"path": 3}]}, ConfigError, "must be the name of a folder"),
        ({"modules.json": [POOLING]}, ConfigError, "1_Pooling/config.json: cannot be opened"),
        ({"modules.json": [POOLING], "1_Pooling/config.json": []}, ConfigError, "must be a JSON object"),
        ({"modules.json": [POOLING], "1_Pooling/config.json": {}}, UnsupportedError, "pooling [] is not supported"),
        (
            {"modules.json": [POOLING], "1_Pooling/config.json": {"pooling_mode": "median"}},
            UnsupportedError,
            "pooling ['median'] is not supported; supported: cls, lasttoken, max, mean",
        ),
        (
            {"modules.json": [POOLING], "1_Pooling/config.json": {"pooling_mode": [["mean"], 3]}},
            UnsupportedError,
            "pooling [['mean'], 3] is not supported",
        ),
        (
            {"modules.json": [POOLING], "1_Pooling/config.json": {"pooling_mode": ["mean"] * 100_000}},
            ConfigError,
            "has a duplicate",
        ),
        (
            {"modules.json": [TRANSFORMER], "sentence_bert_config.json": {"max_seq_length": "512"}},
            ConfigError,
            "max_seq_length is '512'; it must be a whole number from 1 up, or null",
        ),
        (
            {"modules.json": [TRANSFORMER], "sentence_bert_config.json": {"max_seq_length": 1}},
            ConfigError,
            "leaves no room for the 2 special tokens",
        ),
        (
            {"modules.json": [TRANSFORMER], "sentence_bert_config.json": {"do_lower_case": "no"}},
            ConfigError,
            "do_lower_case is 'no'; it must be true, false or null",
        ),
    ],
)  # fmt: skip
def test_damaged_sentence_settings(bert: Path, files: dict[str, Any], error: Error, message: str) -> None:
    for name, content in files.items():
        (bert / name).parent.mkdir(exist_ok=True)
        (bert / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    refused(error, message, lambda: load(bert).encode([TEXT]))


# ── one call ──────────────────────────────────────────────────────────────────────────────────────────────

IDS = torch.tensor([[1, 4, 5, 2], [1, 6, 2, 0]])


@pytest.mark.parametrize(
    "inputs, error, message",
    [
        ({}, ConfigError, "this model reads input_ids [B, T]; got none"),
        ({"input_ids": [[1, 2]]}, DataError, "input_ids is list; it must be a tensor [B, T]"),
        ({"input_ids": np.array([[1, 2]])}, DataError, "input_ids is ndarray"),
        ({"input_ids": IDS[0]}, DataError, "input_ids is int64 of shape [4]; it must be int64 or int32 of"),
        ({"input_ids": IDS[None]}, DataError, "of shape [1, 2, 4]"),
        ({"input_ids": IDS.float()}, DataError, "input_ids is float32"),
        ({"input_ids": IDS.bool()}, DataError, "input_ids is bool"),
        ({"input_ids": IDS[:, :0]}, DataError, "input_ids has shape [2, 0], which holds no token"),
        ({"input_ids": IDS + 20}, DataError, "input_ids holds numbers from 20 to 26; allowed: 0 to 19"),
        ({"input_ids": -IDS}, DataError, "input_ids holds numbers from -6 to 0"),
        ({"input_ids": torch.ones(1, 17, dtype=torch.long)}, DataError, "the text has 17 tokens, the model has 16 pos"),
        ({"input_ids": IDS, "attention_mask": IDS[:, :3]}, ConfigError, "has shape [2, 3]; it must be a tensor of sh"),
        ({"input_ids": IDS, "attention_mask": [[1]]}, ConfigError, "attention_mask is list; it must be a tensor"),
        ({"input_ids": IDS, "attention_mask": torch.ones(2, 1, 4, 4)}, ConfigError, "has shape [2, 1, 4, 4]"),
        ({"input_ids": IDS, "attention_mask": torch.tensor([[0, 0, 0, -1e9]] * 2)}, ConfigError, "mask == 0"),
        ({"input_ids": IDS, "token_type_ids": IDS}, DataError, "token_type_ids holds numbers from 0 to 6; allowed: 0"),
        ({"input_ids": IDS, "token_type_ids": IDS[:, :2] * 0}, DataError, "must be that of input_ids, [2, 4]"),
        ({"input_ids": IDS, "position_ids": IDS + 15}, DataError, "position_ids holds numbers from 15 to 21; allow"),
        ({"input_ids": IDS, "position_ids": IDS[:, :1]}, DataError, "position_ids has shape [2, 1]"),
        ({"input_ids": IDS, "inputs_embeds": IDS}, ConfigError, "are two forms of one input; give one of them"),
        ({"input_ids": IDS, "head_mask": IDS}, UnknownOptionError, "replace what a head gives with a tape"),
        ({"input_ids": IDS, "inputs_embeds": 1}, ConfigError, "give one of them"),
        ({"input_ids": IDS, "tape": "*.probs"}, ConfigError, "tape is '*.probs'; it must be a Tape"),
        ({"input_ids": IDS, "tape": Tape("blocks.9.out")}, ConfigError, "no tap matches 'blocks.9.out'; nearest: "),
        ({"input_ids": IDS, "tape": Tape(edit={"final": torch.ones(3)})}, ConfigError, "the edit of final changed its"),
    ],
    ids=str,
)  # fmt: skip
def test_a_wrong_call(models: dict[str, Model], inputs: dict[str, Any], error: Error, message: str) -> None:
    refused(error, message, lambda: models["bert"](**inputs))


def test_segments_that_a_family_does_not_know(models: dict[str, Model]) -> None:
    refused(
        ConfigError,
        "a 'gpt2' model has no token types; leave token_type_ids out",
        lambda: models["gpt2"](input_ids=IDS, token_type_ids=IDS * 0),
    )


def test_a_cache_and_a_mask_of_the_new_tokens_alone(models: dict[str, Model]) -> None:
    cache = KeyValueCache()
    models["gpt2"](input_ids=IDS, cache=cache)
    refused(
        ConfigError,
        "attention_mask has shape [2, 1]; it must be a tensor of shape [2, 5], past and present tokens",
        lambda: models["gpt2"](input_ids=IDS[:, :1], attention_mask=torch.ones(2, 1), cache=cache),
    )


def test_a_cache_that_is_full(models: dict[str, Model]) -> None:
    cache = KeyValueCache()
    models["gpt2"](input_ids=torch.ones(1, 16, dtype=torch.long), cache=cache)
    refused(DataError, "the text has 17 tokens", lambda: models["gpt2"](input_ids=IDS[:1, :1], cache=cache))


@pytest.mark.parametrize("family", ENCODERS)
def test_a_row_that_hides_everything_is_finite(models: dict[str, Model], family: str) -> None:
    mask = torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]])
    for tape in (None, Tape("*.probs")):
        output = models[family](input_ids=IDS, attention_mask=mask, tape=tape)
        assert all(torch.isfinite(x).all() for x in output.present().values() if isinstance(x, torch.Tensor))
    alone = models[family](input_ids=IDS[:1])
    assert torch.allclose(output.last_hidden_state[0], alone.last_hidden_state[0], atol=1e-5)


def test_the_encoder_decoder_says_what_it_needs(models: dict[str, Model]) -> None:
    model = models["transformer"]
    refused(
        ConfigError,
        "needs decoder_input_ids [B, T], beginning with the start token",
        lambda: model(input_ids=IDS),
    )
    refused(ConfigError, "reads input_ids", lambda: model(decoder_input_ids=IDS))
    refused(DataError, "decoder_input_ids holds numbers", lambda: model(input_ids=IDS, decoder_input_ids=IDS + 20))


# ── labels ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "task, labels, error, message",
    [
        (None, IDS, ConfigError, "Pooler has no loss of its own; load the model with a task"),
        ("fill-mask", IDS[:, :2], DataError, "labels have shape [2, 2], logits [2, 4, 20]; labels must be [2, 4]"),
        ("fill-mask", IDS + 20, DataError, "labels hold numbers from 20 to 26; allowed: 0 to 19, and -100"),
        ("fill-mask", IDS.float(), DataError, "labels are torch.float32; a label is the number of a class"),
        ("fill-mask", IDS.tolist(), DataError, "labels is list; it must be a tensor"),
        ("fill-mask", {"labels": IDS}, DataError, "this head takes one tensor"),
        ("text-classification", IDS, DataError, "labels have shape [2, 4], logits [2, 2]; labels must be [2]"),
        ("text-classification", torch.tensor([0, 2]), DataError, "labels hold numbers from 0 to 2; allowed: 0 to 1"),
        ("text-classification", torch.ones(2, 3), DataError, "a multi problem needs them to be [2, 2]"),
        ("token-classification", torch.tensor([0, 1]), DataError, "labels must be [2, 4]"),
        ("question-answering", IDS, DataError, "a span needs labels={'start_positions': [B]"),
        (
            "question-answering",
            {"start_positions": IDS, "end_positions": IDS},
            DataError,
            "it must be int64 of shape [B]",
        ),
        ("pre-training", IDS, DataError, "pre-training needs labels="),
    ],
)  # fmt: skip
def test_wrong_labels(whole: dict[str, Path], task: str | None, labels: Any, error: Error, message: str) -> None:
    model = load(whole["bert"], task=task)
    refused(error, message, lambda: model(input_ids=IDS, labels=labels))


def test_labels_without_a_head(whole: dict[str, Path]) -> None:
    model = load(whole["llama"], task="feature-extraction")
    refused(ConfigError, "labels need a head", lambda: model(input_ids=IDS, labels=IDS))


# ── generate ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "prompt, options, error, message",
    [
        (IDS[:, :0], {}, DataError, "the prompt is empty; give at least one token"),
        ("", {}, DataError, "the prompt is empty"),
        (["", TEXT], {}, DataError, "prompt 0 is empty: a continuation begins where the row ends"),
        (b"bytes", {}, DataError, "the prompt is b'bytes'"),
        ([TEXT, None], {}, DataError, "text 1 must be a string, got NoneType"),
        (IDS[0], {}, DataError, "input_ids is int64 of shape [4]"),
        (IDS + 20, {}, DataError, "allowed: 0 to 19"),
        (TEXT, {"max_new_tokens": -1}, ConfigError, "max_new_tokens is -1; it must be a whole number from 0 up"),
        (TEXT, {"temprature": 0.7}, UnknownOptionError, "generate(…) takes no 'temprature'; nearest: 'temperature'"),
        (TEXT, {"temperature": 0.7}, ConfigError, "greedy search does not sample; add do_sample=True"),
        (TEXT, {"max_new_tokens": 2.0}, ConfigError, "max_new_tokens is 2.0"),
        (TEXT, {"max_new_tokens": 13}, DataError, "the model has 16 positions; shorten the prompt, or ask for at most"),
        (IDS, {"attention_mask": IDS[:, :2]}, ConfigError, "attention_mask has shape [2, 2]"),
        (
            IDS,
            {"attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])},
            DataError,
            "prompt 1 is padded on the right; pad on the left",
        ),
    ],
)  # fmt: skip
def test_a_wrong_prompt(
    models: dict[str, Model], prompt: Any, options: dict[str, Any], error: Error, message: str
) -> None:
    refused(error, message, lambda: models["gpt2"].generate(prompt, **options))


@pytest.mark.parametrize("texts", [TEXT, [TEXT, TEXT]])
def test_texts_in_the_place_of_ids(models: dict[str, Model], texts: Any) -> None:
    refused(DataError, "model(**model.tokenizer(text, return_tensors='pt'))", lambda: models["bert"](texts))


def test_generate_up_to_the_last_position(models: dict[str, Model]) -> None:
    model = models["gpt2"]
    grown = model.generate(IDS[:1], max_new_tokens=13)
    assert grown.shape[1] <= 17 and model.generate(IDS[:1], max_new_tokens=0).equal(IDS[:1])
    assert model.generate([]) == [] and len(model.generate((t for t in [TEXT] * 2), max_new_tokens=3)) == 2


def test_generate_without_a_language_model(models: dict[str, Model]) -> None:
    refused(
        UnsupportedError,
        "load it with task='text-generation', overrides={'is_decoder': True}",
        lambda: models["bert"].generate(TEXT),
    )


def test_an_encoder_decoder_answers_instead_of_continuing(models: dict[str, Model]) -> None:
    model = models["transformer"]
    mask = torch.ones_like(IDS)
    mask[0, -1] = 0  # padding of the source may stand on either side
    answers = [model.generate(IDS, attention_mask=mask, max_new_tokens=6, use_cache=c) for c in (True, False)]
    assert answers[0].equal(answers[1]) and 1 < answers[0].shape[1] <= 7
    assert (answers[0][:, 0] == model.config["decoder_start_token_id"]).all()
    assert isinstance(model.generate(TEXT, max_new_tokens=3), str)


def test_generate_with_another_head(whole: dict[str, Path]) -> None:
    model = load(whole["gpt2"], task="classify")
    refused(UnsupportedError, "load it with task='text-generation'", lambda: model.generate(TEXT))


@pytest.mark.parametrize("stops", [None, 1, [1, 2], [], -1, 10**9, [10**9, 1]])
@pytest.mark.parametrize("pad", [None, -1, 10**9, 0])
def test_stop_and_pad_tokens_of_any_kind(whole: dict[str, Path], stops: Any, pad: Any) -> None:
    model = load(whole["gpt2"])
    model.config |= {"eos_token_id": stops, "pad_token_id": pad}
    grown = model.generate(IDS, max_new_tokens=12)
    assert 0 <= int(grown.min()) <= int(grown.max()) < 20


@pytest.mark.parametrize("stops", ["</s>", [[1]], True, {"a": 1}, 1.0])
def test_stop_tokens_that_are_none(whole: dict[str, Path], stops: Any) -> None:
    model = load(whole["gpt2"])
    model.config["eos_token_id"] = stops
    refused(ConfigError, "eos_token_id is", lambda: model.generate(TEXT, max_new_tokens=3))


# ── saving ────────────────────────────────────────────────────────────────────────────────────────────────


def test_saving_to_a_file(models: dict[str, Model], tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    refused(WeightsError, "is a file; give a folder", lambda: models["bert"].save_pretrained(tmp_path / "taken"))
    refused(WeightsError, "cannot be written", lambda: models["bert"].save_pretrained(tmp_path / "taken" / "in"))
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_saving_to_a_read_only_folder(models: dict[str, Model], tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    refused(WeightsError, "cannot be written", lambda: models["bert"].save_pretrained(tmp_path / "locked"))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("before, after", [(10**9, 10**9), (2_000, 10**9), (10**9, 2_000), (2_000, 2_000)])
def test_saving_over_the_folder_the_model_is_mapped_from(tmp_path: Path, family: str, before: int, after: int) -> None:
    """The numbers in use stay the numbers in use, whatever becomes of the files under them."""
    folder = make_folder(tmp_path / "model", family, max_shard_bytes=before)
    model = load(folder)
    old = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    for _ in range(2):
        model.save_pretrained(folder, max_shard_bytes=after)
        assert all(tensor.equal(old[name]) for name, tensor in model.state_dict().items())
        assert all(tensor.equal(old[name]) for name, tensor in load(folder).state_dict().items())
    assert not list(folder.glob(".*"))
    assert (folder / WEIGHTS).exists() != (folder / INDEX).exists()


# ── the command line: one clear line, no traceback, exit code 2 ───────────────────────────────────────────


@pytest.mark.parametrize(
    "command, message",
    [
        (("info", "no/such/folder"), "no/such/folder"),
        (("tokens", "{model}/config.json", TEXT), "is a file; give the folder that holds it"),
        (("encode", "{model}", "{model}/absent.txt", "--output", "{model}/v.npy"), "absent.txt"),
        (("info", "{cut}"), "is cut short"),
        (("encode", "{cut}", "{model}/texts.txt", "--output", "{model}/v.npy"), "is cut short"),
        (("info", "{odd}"), "model_type 'mamba9' is not supported"),
    ],
)
def test_the_command_line_says_it_in_one_line(
    bert: Path, command: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (bert / "texts.txt").write_text(f"{TEXT}\n")
    cut, odd = (Path(shutil.copytree(bert, bert.parent / name)) for name in ("cut", "odd"))
    os.truncate(cut / WEIGHTS, 900)
    change(odd, model_type="mamba9")
    done = run_here(capsys, *(part.format(model=bert, cut=cut, odd=odd) for part in command))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and message in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    assert not (bert / "v.npy").exists()
