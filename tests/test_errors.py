"""Errors are the built-ins that other libraries raise too, and handlers in the library do not swallow them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from glassformer import errors, hf
from glassformer.data.rows import read_rows
from glassformer.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    MissingModelError,
    MissingNameError,
    UnknownNameError,
    UnknownOptionError,
    UnsupportedError,
    WeightsError,
)
from glassformer.foreign.vocabulary import read_token_list
from glassformer.generation.constrain import json_schema


def test_every_error_is_a_built_in_too() -> None:
    fitting = {
        ValueError: (ConfigError, DataError, WeightsError, UnsupportedError),
        TypeError: (UnknownOptionError,),
        KeyError: (UnknownNameError,),
        AttributeError: (MissingNameError, errors.MissingPartError),
        ImportError: (MissingExtraError, errors.MissingImportError),
        FileNotFoundError: (MissingModelError,),
    }
    for builtin, ours in fitting.items():
        assert all(issubclass(each, builtin) and issubclass(each, errors.GlassformerError) for each in ours)
    for kind in (UnknownNameError, MissingModelError, MissingNameError, UnknownOptionError):
        assert str(kind("it's 'quoted'")) == "it's 'quoted'" and kind.exit_code == 2
    assert "pip install" in str(MissingExtraError("x", "y", "z"))


def test_code_for_the_reference_library_catches_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(OSError, match="no such folder"):
        hf.AutoModel.from_pretrained(tmp_path / "none")
    with pytest.raises(OSError, match="no folder of that name here"):
        hf.AutoTokenizer.from_pretrained("org/nothing-of-this-name")
    with pytest.raises(TypeError, match="no option 'learnin_rate'"):
        hf.TrainingArguments(tmp_path, learnin_rate=1)
    with pytest.raises(KeyError, match="no pipeline for the task 'sing'"):
        hf.pipeline("sing")
    assert "nothing" not in hf.ACT2FN and "gelu" in hf.ACT2FN
    with pytest.raises(ValueError, match="eval_strategy is 'often'"):
        hf.TrainingArguments(tmp_path, eval_strategy="often")


def test_a_missing_name_is_an_attribute_error_and_from_import_an_import_error() -> None:
    assert not hasattr(hf, "AutoModelForEverything") and not hasattr(hf, "TFBertModel")
    for line, words in (
        ("from glassformer.hf import AutoModelForEverything", "nearest: "),
        ("from glassformer.hf import TFBertModel", "write BertModel"),
        ("from glassformer.hf.models.bert.modeling_bert import BertSelfAttention", "parts of a model are views"),
        ("from glassformer.hf.models.bert import BertNothing", "families are recipes"),
        ("from glassformer.hf.utils import nothing", "nothing"),
        ("from glassformer.hf import _nothing", "_nothing"),
        ("import glassformer.hf.nothing", "no 'nothing'"),
    ):
        with pytest.raises(ImportError, match=words):
            exec(line)
    exec("from glassformer.hf.models.bert import modeling_bert, BertModel")
    assert "glassformer.hf.models.bert.BertNothing" not in sys.modules


def test_handlers_of_built_ins_leave_our_own_errors_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^json_schema is \[1\]; a schema is an object"):
        json_schema(json.dumps([1]))
    with pytest.raises(DataError, match=r"^\S+: cannot be opened: No such file"):
        read_rows(tmp_path / "none.json", kind="squad")
    (tmp_path / "vocabulary.json").write_bytes(b"")
    (tmp_path / "vocabulary.json").chmod(0o600)
    with pytest.raises(DataError, match="is no JSON list of tokens"):
        read_token_list(tmp_path)
