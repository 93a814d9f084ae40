"""feature-extraction: the reference's vectors, a row a token, in any company."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, UnsupportedError
from tests.e2e.tiny_models import make_folder

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
    with pytest.raises(UnsupportedError, match="this model has source and target"):
        glassformer.pipeline("features", make_folder(tmp_path / "bart", "bart", task="features"))
    bare = glassformer.pipeline("features", make_folder(tmp_path / "gpt2", "gpt2"))
    with pytest.raises(DataError, match="a text is empty"):
        bare("")
