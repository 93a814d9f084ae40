"""all-MiniLM-L6-v2 on real sentences: the vectors of sentence-transformers, the states of transformers."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

import glassformer
from glassformer.core.flow import Tape


@pytest.fixture(scope="module")
def sentences(shared: Path) -> list[str]:
    """1,000 different sentences of five corpora: short and long, clean and rough, and not all of them English."""
    texts: list[str] = []
    for name, column in (("sst2/dev.tsv", 0), ("stsb/en.dev.tsv", 0), ("stsb/de.dev.tsv", 1)):
        lines = (shared / "data" / name).read_text(encoding="utf-8").splitlines()[1:]
        texts += [line.split("\t")[column] for line in lines][:250]
    with gzip.open(shared / "data" / "stsb" / "en.train.tsv.gz", "rt", encoding="utf-8") as stream:
        texts += [line.split("\t")[1] for line in stream.read().splitlines()[1:600]]
    texts = list(dict.fromkeys(text for text in texts if text.strip()))[:990]
    long = " ".join(texts[:40])
    odd = [
        "",
        " ",
        "naïve café 🙂",
        "[SEP] is a token",
        "中文 和 English",
        "a" * 300,
        long,
        long.upper(),
        "x",
        "\n\t.",
    ]
    return texts + odd


def test_vectors_equal_sentence_transformers(minilm: Path, sentences: list[str]) -> None:
    from sentence_transformers import SentenceTransformer

    assert len(sentences) == 1000
    theirs = SentenceTransformer(str(minilm), device="cpu", local_files_only=True)
    expected = theirs.encode(sentences, batch_size=32, show_progress_bar=False, convert_to_numpy=True)
    with pytest.warns(UserWarning, match="of 1000 texts"):
        vectors = glassformer.load(minilm).encode(sentences)
    assert vectors.shape == (1000, 384) and vectors.dtype == np.float32
    assert np.abs(vectors - expected).max() <= 1e-5


@torch.no_grad()
def test_states_equal_transformers(minilm: Path, sentences: list[str]) -> None:
    from transformers import BertModel

    model = glassformer.load(minilm, strict=True)
    theirs = BertModel.from_pretrained(minilm, local_files_only=True, attn_implementation="eager").eval()
    batch = model.tokenizer(sentences[:32], padding=True, return_tensors="pt")
    given = {name: batch[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in batch}
    expected = theirs(**given, output_hidden_states=True, output_attentions=True)
    output = model(**given, tape=Tape("embed.out", "blocks.*.out", "*.probs"))
    keep = given["attention_mask"].bool()
    taps = [output.taps["embed.out"], *(output.taps[f"blocks.{i}.out"] for i in range(6))]
    for mine, state in zip(taps, expected.hidden_states, strict=True):
        torch.testing.assert_close(mine[keep], state[keep], atol=1e-4, rtol=1e-4)
    for i, probs in enumerate(expected.attentions):
        mine = output.taps[f"blocks.{i}.attn.probs"].transpose(1, 2)[keep]
        torch.testing.assert_close(mine, probs.transpose(1, 2)[keep], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(output.pooler_output, expected.pooler_output, atol=1e-4, rtol=1e-4)
