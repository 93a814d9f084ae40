"""What is no path is refused in words by everything that saves or loads: 5, None, a list, bytes, an empty text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import glassformer
from glassformer import hf
from glassformer.data.texts import read_texts
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.runs import open_run
from glassformer.export.onnx import export_onnx
from glassformer.files import as_path
from glassformer.inspect.corpus.index import CorpusIndex
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.store import load_ngram, save_ngram
from glassformer.reports.page import write_page
from glassformer.runs.folder import read_event_log
from glassformer.runs.history import read_run
from glassformer.text import Tokenizer
from glassformer.training.trials import SearchResult
from glassformer.vision.processor import ImageProcessor
from tests.e2e.tiny_models import make_folder

WRONG = [5, 2.5, None, ["folder"], b"folder", "", "a\0b"]

CALLS: dict[str, Callable[[glassformer.Model, Any], Any]] = {
    "load": lambda model, path: glassformer.load(path),
    "load an adapter": lambda model, path: model.load_adapter(path),
    "load an image processor": lambda model, path: ImageProcessor.find(path),
    "load a tokenizer": lambda model, path: Tokenizer.from_folder(path),
    "load a tokenizer there": lambda model, path: hf.AutoTokenizer.from_pretrained(path),
    "load a model there": lambda model, path: hf.AutoModel.from_pretrained(path),
    "load a config there": lambda model, path: hf.AutoConfig.from_pretrained(path),
    "load a file there": lambda model, path: hf.AutoConfig.from_json_file(path),
    "load options there": lambda model, path: hf.GenerationConfig.from_pretrained(path),
    "read a log": lambda model, path: list(read_event_log(path)),
    "read a history": lambda model, path: read_run(path),
    "read a run": lambda model, path: open_run(path),
    "read a corpus": lambda model, path: CorpusIndex(path),
    "read an n-gram model": lambda model, path: load_ngram(path),
    "save an n-gram model": lambda model, path: save_ngram(train_ngram([["a", "b"]], order=1), path),
    "save": lambda model, path: model.save_pretrained(path),
    "save a config": lambda model, path: model.config.save_pretrained(path),
    "save a tokenizer": lambda model, path: model.tokenizer.save(path),
    "save a tokenizer there": lambda model, path: hf.AutoTokenizer.from_pretrained(model.folder).save_pretrained(path),
    "save a model there": lambda model, path: hf.AutoModel.from_pretrained(model.folder).save_pretrained(path),
    "save ONNX": lambda model, path: export_onnx(model, path),
    "save a report": lambda model, path: model.inspect("time").lens().save(path),
    "save a page": lambda model, path: write_page(path, "<p>"),
    "save trials": lambda model, path: SearchResult("f1", "maximize").write(path),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> glassformer.Model:
    return glassformer.load(make_folder(tmp_path_factory.mktemp("bert"), "bert", task="fill-mask"))


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_is_no_path_is_refused(call: Callable[[Any, Any], Any], model: glassformer.Model, wrong: Any) -> None:
    with pytest.raises((DataError, ConfigError), match=r"must be a path|NUL character|give a folder|no model|is empty"):
        call(model, wrong)


def test_a_path_is_text_or_a_path(tmp_path: Path) -> None:
    assert as_path("a/b") == as_path(Path("a/b")) == Path("a/b")
    with pytest.raises(DataError, match=r"^folder is 5; it must be a path, as text or as a pathlib\.Path"):
        as_path(5, "folder")


def test_standard_input_is_no_file() -> None:
    with pytest.raises(DataError, match="file is 5; it must be a path"):
        list(read_texts(5))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [5, None, ["attn.z"], b"attn.z"], ids=repr)
def test_a_pattern_of_taps_is_text(model: glassformer.Model, wrong: Any) -> None:
    inputs = model.tokenizer("time", return_tensors="pt")
    for call in (model.inspect("time").trace, lambda each: model(**inputs, tape=glassformer.Tape(each))):
        with pytest.raises(ConfigError, match=r"a pattern is .*; it must be text, such as 'blocks"):
            call(wrong)
