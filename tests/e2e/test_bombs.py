"""Small files of a model's folder that ask for much: refused with a short sentence, and little memory.

RELIABILITY's budget is five seconds and 1 GiB; nothing here takes a tenth of either, and a hang would end the suite.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import glassformer
from glassformer.errors import GlassformerError
from tests.e2e.tiny_models import make_folder
from tests.peak import measured

MAX_GROWTH_BYTES = 300_000_000
MAX_MESSAGE = 1_000
KEPT: list[bytes] = []


def written(text: str) -> Callable[[str], str]:
    return lambda before: text


def changed(**values: Any) -> Callable[[str], str]:
    return lambda before: json.dumps({**json.loads(before), **values})


def added(*path: str, **values: Any) -> Callable[[str], str]:
    """More entries of a mapping within the file."""

    def change(before: str) -> str:
        document = json.loads(before)
        place = document
        for name in path:
            place = place[name]
        place.update(values)
        return json.dumps(document)

    return change


def deep(opening: str, closing: str, depth: int) -> str:
    return '{"a":' + opening * depth + "1" + closing * depth + "}"


CONFIGS: dict[str, tuple[Callable[[str], str], str]] = {
    "lists in lists": (written(deep("[", "]", 200_000)), "nested too deeply"),
    "objects in objects": (written(deep('{"a":', "}", 100_000)), "nested too deeply"),
    "two million digits": (lambda before: before.rstrip()[:-1] + ',"x":' + "9" * 2_000_000 + "}", "is not valid JSON"),
    "a billion layers": (changed(num_hidden_layers=10**9), "num_hidden_layers is 1000000000; it must be"),
    "a billion heads": (changed(num_attention_heads=10**9), "num_attention_heads is 1000000000; it must be"),
    "10^12 positions": (changed(max_position_embeddings=10**12), "max_position_embeddings is 1000000000000"),
    "10^12 words": (changed(vocab_size=10**12), "vocab_size is 1000000000000"),
    "10^12 types": (changed(type_vocab_size=10**12), "type_vocab_size is 1000000000000"),
    "two million labels": (
        lambda before: changed(id2label={str(i): "x" for i in range(2_000_000)})(before),
        "JSON values; at most",
    ),
    "a long value": (changed(hidden_act="g" * 20_000_000), r"hidden_act is 'g{50,200}… \(20000002 characters\)"),
    "a long type": (changed(model_type="b" * 20_000_000), r"model_type 'b{50,200}…"),
}
TOKENIZERS: dict[str, tuple[Callable[[str], str], str]] = {
    "lists in lists": (written(deep("[", "]", 200_000)), "nested too deeply"),
    "an id of 2^32 - 1": (added("model", "vocab", zz=2**32 - 1), "token 'zz' has the id 4294967295"),
    "three million words": (
        # Made when it is needed: each process that measures imports this module.
        lambda before: added("model", "vocab", **{f"w{i}": 1_000 + i for i in range(3_000_000)})(before),
        "JSON values; at most",
    ),
}
PATTERNS = {
    "nested repeats": ("(a+)+$|(x+x+)+y", "a" * 5_000 + "b" + "x" * 5_000),
    "two ways": ("(a|aa)+c", "a" * 60 + "b"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "model", "bert")


def loaded(folder: Path) -> None:
    glassformer.load(folder)


def encoded(folder: Path, text: str) -> None:
    glassformer.load(folder).encode([text])


def error_of(act: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(GlassformerError) as error:
        act(*arguments)
    return str(error.value)


def refused(message: str, act: Callable[..., object], *arguments: object) -> None:
    """It ends in this error, in a process of its own, which takes little memory."""
    error, grown = measured(error_of, act, *arguments)
    assert re.search(message, error) and len(error) < MAX_MESSAGE, error
    assert grown < MAX_GROWTH_BYTES, f"{grown:,} bytes"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_that_asks_for_much(name: str, folder: Path) -> None:
    change, message = CONFIGS[name]
    path = folder / "config.json"
    path.write_text(change(path.read_text("utf-8")))
    refused(message, loaded, folder)


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_that_asks_for_much(name: str, folder: Path) -> None:
    change, message = TOKENIZERS[name]
    path = folder / "tokenizer.json"
    path.write_text(change(path.read_text("utf-8")))
    refused(message, loaded, folder)


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_that_backtracks_without_end(name: str, folder: Path) -> None:
    pattern, text = PATTERNS[name]
    path = folder / "tokenizer.json"
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    path.write_text(changed(pre_tokenizer=step)(path.read_text("utf-8")))
    refused("text cannot be tokenised: .*retry-limit", encoded, folder, text)


def leaking(folder: Path) -> None:
    KEPT.append(b"x" * MAX_GROWTH_BYTES)  # written to: pages of zeros take no memory
    glassformer.load(folder)


def test_what_takes_much_memory_is_seen(folder: Path) -> None:
    """A bound that nothing exceeds would bound nothing: here a refusal takes as much as is allowed."""
    path = folder / "config.json"
    path.write_text(changed(num_hidden_layers=10**9)(path.read_text("utf-8")))
    with pytest.raises(AssertionError, match=r"3\d\d,\d{3},\d{3} bytes"):
        refused("num_hidden_layers is 1000000000", leaking, folder)


def test_a_config_of_many_unknown_keys_is_read_with_few_warnings(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(changed(**{f"key_{i}": i for i in range(500_000)})(path.read_text("utf-8")))
    warnings = glassformer.load(folder).report.warnings
    assert len(warnings) < 60 and warnings[-1] == "config.json: 499,950 more keys are not read"


def test_ninety_thousand_tensors_of_no_element_take_seconds(folder: Path) -> None:
    """They fit nowhere, and each has to be reported: not by comparing every name with every other."""
    path = folder / "model.safetensors"
    empty = {f"x.{number}": torch.zeros(0) for number in range(90_000)}
    save_file({**load_file(path), **empty}, path)
    begin = time.process_time()
    report = glassformer.load(folder).report
    assert len(report.unused) == 90_000 and time.process_time() - begin < 10
