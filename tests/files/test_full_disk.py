"""Files that may not grow, as on a full disk: one clear error, nothing half-written, and what was there stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from glassformer_guitar.clips import GuitarOptions, GuitarRows

from glassformer.data.rows import write_rows
from glassformer.data.store import ExampleStore
from glassformer.data.versions import write_version
from glassformer.errors import GlassformerError
from glassformer.evaluation.error_analysis.review import write_sheet
from glassformer.export import export_folder, export_gguf
from glassformer.files.atomic import atomic_file, write_json
from glassformer.inspect.embeddings.embedding_map import EmbeddingMap
from glassformer.model import Model, load
from glassformer.models import FAMILIES
from glassformer.ngram.arpa import write_arpa
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.store import save_ngram
from glassformer.reports.page import write_page
from glassformer.tasks.types import Prediction
from tests.full_disk import full_disk

Write = Callable[[Path], object]
LIMIT = 3_000


def encoder() -> Model:
    """Larger than the limit, and exported in seconds."""
    torch.manual_seed(0)
    return Model.from_config(FAMILIES["bert"].tiny, task="feature-extraction").eval()


@pytest.fixture(scope="module")
def model(shared: Path) -> Model:
    return load(shared / "models" / "stories260k")


TEXTS = [[f"w{i % 977}", f"v{i % 1009}"] for i in range(4_000)]
NGRAM = train_ngram(TEXTS, 2)
VECTORS = EmbeddingMap.of_vectors(np.random.default_rng(0).normal(size=(300, 9)).astype("f4"))
RECORD = Prediction(
    index=0,
    where="a.csv: row 1",
    row={"text": "x " * 900},
    label="joy",
    predicted="sad",
    loss=0.7,
    details={"scores": {"sad": 0.6, "joy": 0.4}},
)

WRITERS: dict[str, Write] = {
    "rows": lambda path: write_rows(path / "rows.csv", [{"a": "x" * 50}] * 900, ["a"]),
    "lines": lambda path: write_rows(path / "rows.jsonl", [{"a": "x" * 50}] * 900, ["a"]),
    "store": lambda path: ExampleStore.make([{"ids": [*range(90)]}] * 90, path / "store", "k"),
    "version": lambda path: write_version(path / "set", "1.0.0", {path.parent / "large.txt": 3}, "card"),
    "map": lambda path: VECTORS.save(path / "map"),
    "n-grams": lambda path: save_ngram(NGRAM, path / "n.safetensors"),
    "ARPA": lambda path: write_arpa(NGRAM, path / "n.arpa"),
    "page": lambda path: write_page(path / "page.html", "x" * 9_000),
    "JSON": lambda path: write_json(path / "x.json", [*range(9_000)]),
    "clips": lambda path: GuitarRows(GuitarOptions(clips=1)).write(path / "clips"),
    "sheet": lambda path: write_sheet(path / "sheet.csv", [RECORD] * 9),
}


def check(path: Path, write: Write) -> None:
    path.mkdir()
    with (
        full_disk(LIMIT),
        pytest.raises(GlassformerError, match=r"File too large|\d+ requested and \d+ written") as raised,
    ):
        write(path)
    assert "\n" not in str(raised.value)
    assert [file for file in path.rglob("*") if file.is_file()] == []
    write(path)
    files = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    assert any(len(content) > LIMIT for content in files.values())
    with full_disk(LIMIT), pytest.raises(GlassformerError):
        write(path)
        raise GlassformerError("it was there already, and is kept")
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == files


@pytest.mark.parametrize("kind", WRITERS)
def test_nothing_is_left_half_written(tmp_path: Path, kind: str) -> None:
    (tmp_path / "large.txt").write_text("x" * 9_000)
    check(tmp_path / "out", WRITERS[kind])


@pytest.mark.parametrize(
    "kind", ["model", "tokenizer", "standalone page", pytest.param("ONNX", marks=pytest.mark.soak), "PT2", "GGUF"]
)
def test_nothing_of_a_model_is_left_half_written(tmp_path: Path, model: Model, kind: str) -> None:
    writers: dict[str, Write] = {
        "model": lambda path: model.save_pretrained(path / "model"),
        "tokenizer": lambda path: model.tokenizer.save(path / "tokenizer"),
        "standalone page": lambda path: model.look("time flies", html=path / "page.html"),
        "ONNX": lambda path: export_folder(encoder(), path / "onnx", "onnx"),
        "PT2": lambda path: export_folder(encoder(), path / "pt2", "pt2"),
        "GGUF": lambda path: export_gguf(model, path / "gguf"),
    }
    check(tmp_path / "out", writers[kind])


def test_counting_on_a_full_disk(tmp_path: Path) -> None:
    """Temporary files; a mapped one that cannot grow would end the process."""
    with full_disk(LIMIT), pytest.raises(GlassformerError, match="what is counted cannot be written"):
        train_ngram(TEXTS, 3, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_error_names_the_file(tmp_path: Path) -> None:
    with full_disk(LIMIT), pytest.raises(OSError) as caught, atomic_file(tmp_path / "a.yaml") as stream:
        stream.write(b"x" * 2 * LIMIT)
    assert caught.value.filename == str(tmp_path / "a.yaml")


def test_an_array_says_that_the_disk_is_full(tmp_path: Path) -> None:
    """NumPy's error of a short write has neither a number nor a reason."""
    with full_disk(LIMIT), pytest.raises(OSError, match="No space left on device") as caught:  # noqa: SIM117
        with atomic_file(tmp_path / "v.npy") as stream:
            np.save(stream, np.ones(LIMIT))
    assert caught.value.filename == str(tmp_path / "v.npy") and not list(tmp_path.iterdir())
