"""The core and the weights know no family: none of their identifiers and strings names one.

Docstrings and comments are free to: they cite the papers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "glassformer"

# "moe", "opt" and "clip" are left out: a kind of layer and two plain words.
FAMILIES = set(
    "albert bart bert bloom deberta deepseek distilbert electra falcon gemma gpt gpt2 hubert llama longformer mamba "
    "marian mbart mistral mixtral modernbert mpnet mpt mt5 neox pegasus phi phi3 qwen qwen2 qwen3 reformer roberta "
    "starcoder t5 vit wav2vec wav2vec2 whisper xlm xlmr xlnet".split()
)


def words(text: str) -> set[str]:
    """`BertLayer`, `bert_layer` and `bert.encoder` all hold the word `bert`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return set(re.findall(r"[a-z]+[0-9]*|[0-9]+", spaced.lower()))


def names_and_strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of every identifier and every string that is no docstring."""
    docstrings = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield line, node.value
        for field in ("id", "attr", "name", "arg", "module", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield line, value


def families_in(source: str) -> list[tuple[int, str]]:
    return [(line, text) for line, text in names_and_strings(ast.parse(source)) if words(text) & FAMILIES]


@pytest.mark.parametrize("package", ["core", "weights"])
def test_package_names_no_family(package: str) -> None:
    paths = sorted((SOURCE / package).rglob("*.py"))
    assert paths, f"src/glassformer/{package} has no module"
    for path in paths:
        assert not (words(path.stem) & FAMILIES), path.name
        found = families_in(path.read_text("utf-8"))
        assert not found, f"{package}/{path.name} names a family: {found}"


@pytest.mark.parametrize(
    "source",
    [
        "class BertLayer: ...",
        "bert_width = 1",
        "name = 'bert.encoder'",
        "x.llama",
        "import transformers.models.gpt2",
        "f(t5=1)",
    ],
)
def test_the_search_finds_a_family(source: str) -> None:
    assert families_in(source)


@pytest.mark.parametrize(
    "source", ['"""As in BERT."""', "x = 1  # BERT has a bias", "y = 'adapter'", "vital = 'white whisperer'"]
)
def test_the_search_leaves_prose_and_other_words(source: str) -> None:
    assert not families_in(source)
