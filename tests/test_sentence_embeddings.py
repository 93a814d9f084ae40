"""Sentence embeddings have the numbers of sentence-transformers, whichever of both has written the folder."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer import ConfigError, DataError, Model, UnsupportedError
from glassformer.engine.prepare import prepared_copy
from glassformer.sentence_embeddings import quantized
from tests.e2e.tiny_models import make_folder

TEXTS = ["time flies like an arrow", "fruit flies", "a banana . " * 9]
PROMPTS = {"query": "fruit ", "passage": "a "}


def tiny_folder(folder: Path, **changes: Any) -> Path:
    make_folder(folder, "bert", task="feature-extraction", **changes)
    settings = {"pad_token": "[PAD]", "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 12}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


def theirs(folder: Path, steps: str) -> Any:
    """A model of sentence-transformers with these steps behind the tiny body."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules

    torch.manual_seed(0)
    body = modules.Transformer(str(tiny_folder(folder)))
    chain: list[Any] = [body, modules.Pooling(8, pooling_mode=("mean", "max") if "two" in steps else "mean")]
    width = 16 if "two" in steps else 8
    if "dense" in steps:
        chain.append(modules.Dense(width, 6))
        width = 6
    if "norm" in steps:
        chain.append(modules.LayerNorm(width))
        torch.nn.init.normal_(chain[-1].norm.weight)
    if "unit" in steps:
        chain.append(modules.Normalize())
    prompted = {"prompts": dict(PROMPTS), "default_prompt_name": "query"} if "prompts" in steps else {}
    size = {"truncate_dim": 5} if "short" in steps else {}
    return SentenceTransformer(modules=chain, device="cpu", similarity_fn_name="dot", **prompted, **size)


@pytest.mark.parametrize(
    "steps", ["", "two, unit", "dense, norm, unit", "two, dense, prompts", "dense, short, prompts"]
)
def test_folders_go_both_ways(steps: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    reference = theirs(tmp_path / "body", steps)
    reference.save(str(tmp_path / "theirs"))
    model = glassformer.load(tmp_path / "theirs")
    expected = reference.encode(TEXTS)
    np.testing.assert_allclose(quietly(model, TEXTS), expected, atol=1e-5)
    assert model.get_sentence_embedding_dimension() == expected.shape[1]
    assert model.similarity_fn_name == "dot"
    if "prompts" in steps:
        np.testing.assert_allclose(model.encode_query(TEXTS[0]), reference.encode_query(TEXTS[0]), atol=1e-5)
        np.testing.assert_allclose(model.encode_document(TEXTS[0]), reference.encode_document(TEXTS[0]), atol=1e-5)

    model.save_pretrained(tmp_path / "ours")
    np.testing.assert_array_equal(quietly(glassformer.load(tmp_path / "ours"), TEXTS), quietly(model, TEXTS))
    again = SentenceTransformer(str(tmp_path / "ours"), device="cpu")
    np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-5)


def test_a_default_prompt_of_questions_stands_before_no_document(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    reference = theirs(tmp_path / "body", "prompts")
    reference.prompts = {"query": "fruit "}
    reference.save(str(tmp_path / "theirs"))
    reference, model = (
        SentenceTransformer(str(tmp_path / "theirs"), device="cpu"),
        glassformer.load(tmp_path / "theirs"),
    )
    for method in ("encode", "encode_query", "encode_document"):
        ours, expected = (getattr(m, method)("time flies") for m in (model, reference))
        np.testing.assert_allclose(ours, expected, atol=1e-5)
    assert not np.allclose(model.encode_document("time flies"), model.encode("time flies"), atol=1e-3)


def quietly(model: Model, texts: list[str], **options: Any) -> np.ndarray:
    """The long text is cut to the limit of the folder, with a warning."""
    with pytest.warns(UserWarning, match="1 of 3 texts were cut to 12 tokens"):
        return model.encode(texts, **options)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return glassformer.load(tiny_folder(tmp_path_factory.mktemp("bert")))


def test_the_keywords_of_the_field(model: Model) -> None:
    short = TEXTS[:2]
    vectors = model.encode(short)
    assert np.array_equal(model.encode(short, batch_size=1, show_progress_bar=False), vectors)
    tensor = model.encode(short, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor) and np.array_equal(tensor.numpy(), vectors)
    listed = model.encode(short, convert_to_numpy=False)
    assert isinstance(listed, list) and torch.equal(listed[1], tensor[1])
    unit = model.encode(short, normalize_embeddings=True, truncate_dim=3)
    np.testing.assert_allclose(unit, vectors[:, :3] / np.linalg.norm(vectors[:, :3], axis=1, keepdims=True), atol=1e-6)
    tokens = model.encode(short, output_value="token_embeddings")
    assert [x.shape[0] for x in tokens] == [7, 4]
    np.testing.assert_allclose(tokens[0].mean(0), vectors[0], atol=1e-6)
    assert np.array_equal(model.encode(iter(short)), vectors) and model.encode(short[0]).shape == (8,)


def test_columns_are_lists_and_tables_are_refused(model: Model) -> None:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    expected = model.encode(TEXTS[:2])
    frame = pandas.DataFrame({"text": TEXTS[:2]})
    table = arrow.table({"text": TEXTS[:2]})
    for column in (frame["text"], table["text"], table["text"].chunk(0), np.array(TEXTS[:2]), tuple(TEXTS[:2])):
        assert np.array_equal(model.encode(column), expected)
    features = glassformer.pipeline("feature-extraction", model)
    assert len(features(frame["text"])) == len(features(table["text"])) == 2
    for whole in (frame, table):
        with pytest.raises(DataError, match="give one of its columns"):
            features(whole)
        with pytest.raises(DataError, match=r"a table, .*; give one of its columns"):
            model.encode(whole)


def test_what_is_computed_narrowly_leaves_the_model_as_it_was(model: Model) -> None:
    exact = model.encode(TEXTS[:2])
    narrow = model.encode(TEXTS[:2], compute="int8")
    assert not np.array_equal(narrow, exact) and np.array_equal(model.encode(TEXTS[:2]), exact)
    copied = {id(parameter) for parameter in prepared_copy(model.network, "int8").parameters()}
    assert copied == {id(parameter) for parameter in model.parameters()}  # the weights are shared
    plain: list[np.ndarray] = []  # what another thread gets meanwhile
    beside = threading.Thread(target=lambda: plain.extend(model.encode(TEXTS[:2]) for _ in range(20)))
    beside.start()
    for _ in range(5):
        model.encode(TEXTS[:2], compute="bf16")
    beside.join()
    assert len(plain) == 20 and all(np.array_equal(vectors, exact) for vectors in plain)
    with pytest.raises(ConfigError, match="for the weights write compute='bf16'"):
        model.encode(TEXTS[:2], precision="bf16")


@pytest.mark.parametrize("precision", ["int8", "uint8", "binary", "ubinary"])
def test_quantized_vectors_are_those_of_the_field(precision: str) -> None:
    from sentence_transformers.util.quantization import quantize_embeddings

    vectors = np.random.default_rng(0).normal(size=(120, 16)).astype(np.float32)
    ours, expected = quantized(vectors, precision), quantize_embeddings(vectors, precision)
    assert ours.dtype == expected.dtype and ours.shape == expected.shape
    assert np.array_equal(ours, expected)
    if precision == "int8":
        assert np.array_equal(ours.astype(int), quantized(vectors, "uint8").astype(int) - 128)


def test_blocks_that_share_ranges_are_quantized_as_one() -> None:
    from sentence_transformers.util.quantization import quantize_embeddings

    vectors = np.random.default_rng(0).normal(size=(150, 6)).astype(np.float32)
    ranges = np.stack([vectors[:120].min(axis=0), vectors[:120].max(axis=0)])
    ours = np.concatenate([quantized(block, "int8", ranges=ranges) for block in (vectors[:40], vectors[40:120])])
    assert np.array_equal(ours, quantized(vectors[:120], "int8"))
    inside = ((vectors >= ranges[0]) & (vectors <= ranges[1])).all(axis=1)
    theirs = quantize_embeddings(vectors, "uint8", ranges=ranges)
    assert np.array_equal(quantized(vectors, "uint8", ranges=ranges)[inside], theirs[inside])
    beyond = quantized(np.add(ranges, [[-5], [5]]), "int8", ranges=ranges)
    assert (beyond == [[-128], [127]]).all()  # held at the extremes, where the field's wraps around


def test_similarity(model: Model) -> None:
    vectors = model.encode(TEXTS[:2])
    cosine = vectors @ vectors.T / np.outer(*[np.linalg.norm(vectors, axis=1)] * 2)
    np.testing.assert_allclose(model.similarity(vectors, vectors), cosine, atol=1e-6)
    np.testing.assert_allclose(
        model.similarity_pairwise(vectors, vectors[::-1].copy()), cosine[[0, 1], [1, 0]], atol=1e-6
    )
    tensors = list(torch.from_numpy(vectors).requires_grad_())
    np.testing.assert_allclose(model.similarity(tensors, vectors).detach(), cosine, atol=1e-6)
    assert model.similarity_pairwise(vectors[:0], vectors[:0]).shape == (0,)
    with pytest.raises(ConfigError, match="vectors of 8 and of 5 dimensions"):
        model.similarity(vectors, vectors[:, :5])
    for wrong in (None, "text", [[1.0, 2.0], [3.0]], 3.0, vectors[None]):
        with pytest.raises(DataError, match=r"give (what encode gives|one vector)"):
            model.similarity(wrong, vectors)


def test_the_length_of_texts_can_be_set(tmp_path: Path) -> None:
    model = glassformer.load(tiny_folder(tmp_path / "bert"))
    model.max_seq_length = 4
    with pytest.warns(UserWarning, match="1 of 1 texts were cut to 4 tokens"):
        assert len(model.encode(TEXTS[0], output_value="token_embeddings")) == 4
    with pytest.warns(UserWarning, match="cut to 4 tokens"):
        cut = model.encode(TEXTS[0])
    model.save_pretrained(tmp_path / "copy")
    again = glassformer.load(tmp_path / "copy")
    with pytest.warns(UserWarning, match="cut to 4 tokens"):
        np.testing.assert_array_equal(again.encode(TEXTS[0]), cut)
    for wrong in (0, True, "4", 10**6):
        with pytest.raises(ConfigError, match="max_seq_length is"):
            model.max_seq_length = wrong
    model.max_seq_length = None
    assert model.max_seq_length == model.network.max_tokens
    with pytest.warns(UserWarning, match="truncate_dim is 9; the vectors have 8 dimensions"):
        assert model.encode("fruit", truncate_dim=9).shape == (8,)


def test_a_cross_encoder_scores_and_ranks_as_theirs(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    folder = tiny_folder(tmp_path / "one")
    make_folder(tmp_path / "pairs", "bert", task="text-classification", num_labels=1, id2label={"0": "LABEL_0"})
    (tmp_path / "pairs" / "tokenizer_config.json").write_text((folder / "tokenizer_config.json").read_text())
    model, reference = glassformer.load(tmp_path / "pairs"), CrossEncoder(str(tmp_path / "pairs"), device="cpu")
    pairs = [(TEXTS[0], "fruit"), ("a", TEXTS[1]), ("time", "banana")]
    np.testing.assert_allclose(model.score(pairs), reference.predict(pairs), atol=1e-5)
    assert model.score(pairs[0]) == pytest.approx(float(model.score(pairs)[0]), abs=1e-6)
    ours = model.rank("time", [*TEXTS[:2], "a"], top_k=2, return_documents=True)
    expected = reference.rank("time", [*TEXTS[:2], "a"], top_k=2, return_documents=True)
    for one, other in zip(ours, expected, strict=True):
        assert one["text"] == other["text"] and one["score"] == pytest.approx(float(other["score"]), abs=1e-5)
    assert np.array_equal(model.score(np.array(pairs)), model.score(iter(pairs)))
    for wrong in ([("a", "b"), "ab"], [("a", "b"), None], [("a", "b"), {"a": 1, "b": 2}]):
        with pytest.raises(DataError, match="pair 1 is"):
            model.score(wrong)
    for top_k in (0, -1, "2", True):
        with pytest.raises(ConfigError, match=r"top_k is .*; it must be a whole number from 1 up"):
            model.rank("time", TEXTS[:2], top_k=top_k)
    for nothing in (None, 3, "text"):
        with pytest.raises(DataError, match="give a list of pairs of texts"):
            model.score(nothing)
        with pytest.raises(DataError, match="give a list of strings"):
            model.rank("time", nothing)


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"precision": "int4"}, ConfigError, "precision is 'int4'.*allowed: float32"),
        ({"compute": "int4"}, ConfigError, "compute is 'int4'"),
        ({"truncate_dim": 0}, ConfigError, "truncate_dim is 0"),
        ({"output_value": "tokens"}, ConfigError, "output_value is 'tokens'"),
        ({"batch_size": 0}, ConfigError, "batch_size is 0; it must be a whole number from 1 up"),
        ({"batch_size": -1}, ConfigError, "batch_size is -1"),
        ({"batch_size": "32"}, ConfigError, "batch_size is '32'"),
        ({"device": "cuda"}, ConfigError, r"model.to\(device\)"),
        ({"pool": 3}, UnsupportedError, "leave it out"),
        ({"prompt_name": "query"}, ConfigError, "prompt_name is 'query'"),
        ({"prompt_name": ["query"]}, ConfigError, "prompt_name is \\['query'\\]"),
    ],
)
def test_what_is_refused(model: Model, options: dict[str, Any], kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        model.encode(TEXTS[:1], **options)
    with pytest.raises(UnsupportedError, match="pairs are scored by a model for text-classification"):
        model.score([("a", "b")])


def test_a_sentence_encoder_ranks_by_the_similarity_of_its_vectors(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer, util

    folder = tiny_folder(tmp_path)
    model, reference = glassformer.load(folder), SentenceTransformer(str(folder), device="cpu")
    documents = [*TEXTS, "fruit", "a banana"]
    ranking = model.rank("time", documents, top_k=3, return_documents=True)
    expected = util.semantic_search(reference.encode_query(["time"]), reference.encode_document(documents), top_k=3)[0]
    assert [each["text"] for each in ranking] == [documents[each["corpus_id"]] for each in expected]
    assert [each["score"] for each in ranking] == pytest.approx([float(each["score"]) for each in expected], abs=1e-5)
    assert model.rank("time", []) == []
    assert len(model.rank("time", documents, prompt="a ", truncate_dim=4)) == len(documents)
    with pytest.raises(DataError, match="text 0 is 3"):
        model.rank(3, documents)  # type: ignore[arg-type]


def test_an_unknown_option_of_encode_names_the_nearest(tmp_path: Path) -> None:
    model = glassformer.load(tiny_folder(tmp_path))
    for call in (model.encode, model.encode_query, model.encode_document):
        with pytest.raises(ConfigError, match=r"encode\(…\) takes no 'poolng'; nearest: 'pooling'"):
            call("time", poolng="mean")
