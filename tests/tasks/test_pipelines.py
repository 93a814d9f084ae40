"""What all pipelines share, on one that needs no weights: shapes, batches, bars, and where an error was."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError
from glassformer.tasks.pipelines import Pipeline, first_text
from glassformer.tasks.results import Results, Summary
from tests.e2e.tiny_models import make_folder


class Shout(Pipeline):
    """Every text in capitals."""

    HEAD = WHY = "none"

    def check(self, options: Mapping[str, Any]) -> None:
        if set(options) - {"end"}:
            raise ConfigError(f"unknown: {options}")

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        self.sizes.append((first, len(batch)))
        if "bad" in batch:
            raise DataError("a bad text")
        return [Results([Summary(text.upper() + options.get("end", ""))]) for text in batch]

    def __init__(self, **options: Any) -> None:
        self.sizes: list[tuple[int, int]] = []
        super().__init__(None, "shout", **options)  # type: ignore[arg-type]


def test_shapes_and_batches() -> None:
    shout = Shout(end="!", batch_size=2)
    assert shout("a") == [{"summary_text": "A!"}] and shout("a", end="?")[0].text == "A?"
    assert shout(["a", "b", "c"]) == [shout("a"), shout("b"), shout("c")] == shout(("a", "b", "c"))
    assert isinstance(shout(["a"]), Results) and isinstance(shout(iter(["a"])), Iterator)
    shout.sizes.clear()
    assert shout.texts(["a", "b", "c", "d", "e"]) == ["A!", "B!", "C!", "D!", "E!"]
    assert shout.sizes == [(0, 2), (2, 2), (4, 1)]
    assert first_text([[Summary("deep")]]) == "deep"


def test_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [str(number) for number in range(30)]
    plain = Shout()(texts)
    assert capsys.readouterr().err == ""  # no terminal, no bar
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    assert Shout()(texts, progress=True) == plain
    captured = capsys.readouterr()
    assert "shout" in captured.err and "30/30" in captured.err and captured.out == ""


def test_where_an_error_was() -> None:
    shout = Shout(batch_size=2)
    with pytest.raises(DataError, match=r"^texts 2 to 3: a bad text"):
        shout(["a", "b", "c", "bad"])
    with pytest.raises(DataError, match=r"^text 3: a bad text"):
        shout(["a", "b", "c", "bad"], batch_size=1)
    with pytest.raises(DataError, match=r"^a bad text"):
        shout("bad")
    answers = shout(iter(["a", "b", "bad"]))
    assert [next(answers), next(answers)] == shout(["a", "b"])
    with pytest.raises(DataError, match="text 2"):
        next(answers)
    for wrong in (0, -1, True, "2", 1.5):
        with pytest.raises(ConfigError, match="batch_size is"):
            shout("a", batch_size=wrong)
    for given in (5, None, b"a", {"a": 1}):
        with pytest.raises(DataError, match="it must be a text, or several"):
            shout(given)
    with pytest.raises(ConfigError, match="unknown"):
        shout(iter(["a"]), nosuch=1)  # now, not when the first answer is taken


BODIES = {"bert": "BertModel", "roberta": "RobertaModel", "llama": "LlamaModel"}
TEXTS = ["time flies like an arrow", "a", "what a banana! it's all gold, isn't it?"]
Folders = Callable[..., Path]


@pytest.mark.parametrize("family", BODIES)
def test_as_the_reference_extracts_at_any_batch_size(folder_of: Folders, family: str) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the reference library")
    folder = folder_of(family, BODIES[family], **({"pad_token_id": 1} if family == "roberta" else {}))
    ours = glassformer.pipeline("feature-extraction", folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    theirs = transformers.pipeline("feature-extraction", model=model, tokenizer=tokenizer, device="cpu")
    for size in (1, 2, 256):
        for text, mine in zip(TEXTS, ours(TEXTS, batch_size=size), strict=True):
            np.testing.assert_allclose(mine, np.array(theirs(text)[0]), atol=1e-5)
    assert len(ours(TEXTS[0])) == len(ours.model.tokenizer.encode(TEXTS[0]))


def test_poolings(folder_of: Folders) -> None:
    extract = glassformer.pipeline("features", folder_of("bert", "BertModel"))
    vectors = extract(TEXTS[0])
    for pooling, wanted in {"cls": vectors[0], "mean": vectors.mean(0), "lasttoken": vectors[-1]}.items():
        np.testing.assert_allclose(extract(TEXTS, pooling=pooling)[0], wanted, atol=1e-6)
    np.testing.assert_allclose(np.stack(extract(TEXTS, pooling="mean")), extract.model.encode(TEXTS), atol=1e-5)
    assert extract.texts(["a"]) == [f"3 × {extract.model.network.width} numbers"]
    with pytest.raises(ConfigError, match="pooling is 'median'; it must be None, or one of: cls, "):
        extract("a", pooling="median")


def test_any_head_will_do(folder_of: Folders) -> None:
    """States are read below the head: of a folder with another, and of a model that is loaded."""
    folder = folder_of("bert", "BertForMaskedLM")
    loaded: Any = glassformer.load(folder)
    for model in (folder, loaded):
        assert glassformer.pipeline("features", model)("time").shape == (3, loaded.network.width)


def test_what_is_refused(folder_of: Folders, tmp_path: Path) -> None:
    extract = glassformer.pipeline("features", folder_of("bert", "BertModel", max_position_embeddings=16))
    with pytest.warns(UserWarning, match="1 of 2 texts were cut to 16 tokens"):
        assert [len(vectors) for vectors in extract(["a", "time " * 30])] == [3, 16]
    with pytest.raises(DataError, match="1 of 1 texts have more than 16 tokens"):
        extract("time " * 30, truncation=False)
    with pytest.raises(DataError, match="text 1: the input is 5; it must be a text"):
        extract(["a", 5])
    for size in (0, -1, "8", 1.5):
        with pytest.raises(ConfigError, match=r"batch_size is .*; it must be a whole number from 1 up"):
            glassformer.pipeline("features", extract.model, batch_size=size)
    with pytest.raises(UnsupportedError, match="this model has source and target"):
        glassformer.pipeline("features", make_folder(tmp_path / "bart", "bart", task="features"))
    bare = glassformer.pipeline("features", make_folder(tmp_path / "gpt2", "gpt2"))
    with pytest.raises(DataError, match="a text is empty"):
        bare("")
