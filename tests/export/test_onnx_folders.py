"""Folders of ONNX files load as models that ONNX Runtime runs: the same numbers; and what is wrong with one is said."""

from __future__ import annotations

import copy
import json
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import glassformer
from glassformer import GlassformerError, Model, UnsupportedError, WeightsError, load
from glassformer.cli.app import main
from glassformer.core import Batch, Flow, Packing, Tape
from glassformer.data.rows import read_rows
from glassformer.engine.onnx_network import OnnxNetwork
from glassformer.engine.pooling import PoolingSettings
from glassformer.evaluation.runs import trained_task
from glassformer.export import export_onnx
from glassformer.tasks.base import metrics_of
from glassformer.tasks.metrics.metric import intervals
from tests.core.small import perturbed
from tests.e2e.tiny_models import word_tokenizer

CONFIG = {
    "model_type": "bert", "vocab_size": 13, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 24, "max_position_embeddings": 16, "pad_token_id": 0,
    "id2label": {"0": "joy", "1": "fear", "2": "calm"}, "label2id": {"joy": 0, "fear": 1, "calm": 2},
}  # fmt: skip
TEXTS = ["time flies like an arrow", "fruit flies like a banana .", "time", "like a fruit fruit fruit"]
Folders = Callable[[str], tuple[Path, Path]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Task → a model folder, and that of its ONNX file; each is made once, and copied where it is changed."""
    made: dict[str, tuple[Path, Path]] = {}

    def make(task: str) -> tuple[Path, Path]:
        if task not in made:
            place = tmp_path_factory.mktemp(task)
            torch.manual_seed(0)
            model = Model.from_config(CONFIG, task=task).eval()
            perturbed(model.network)
            if task == "feature-extraction":
                model.pooling = PoolingSettings(poolings=("mean",), normalise=True, stored=True)
            model.save_pretrained(place / "source")
            word_tokenizer().save(str(place / "source" / "tokenizer.json"))
            export_onnx(load(place / "source"), place / "onnx")
            made[task] = place / "source", place / "onnx"
        return made[task]

    return make


@pytest.fixture
def folder(folders: Folders, tmp_path: Path) -> Path:
    """A copy of a folder with the ONNX file of a body."""
    shutil.copytree(folders("feature-extraction")[1], tmp_path / "body")
    return tmp_path / "body"


# ---------------------------------------------------------------------------------------------------- the same numbers


def test_vectors_are_the_same(folders: Folders, tmp_path: Path) -> None:
    source, exported = map(load, folders("feature-extraction"))
    assert isinstance(exported.network, OnnxNetwork)
    assert exported.pooling == source.pooling
    np.testing.assert_allclose(exported.encode(TEXTS), source.encode(TEXTS), atol=1e-5)
    assert exported.num_parameters() > 0.9 * source.num_parameters()
    inputs = source.tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        ours, theirs = source(**inputs), exported(**inputs)
    keep = inputs["attention_mask"].bool()
    torch.testing.assert_close(theirs.last_hidden_state[keep], ours.last_hidden_state[keep], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(theirs.pooler_output, ours.pooler_output, atol=1e-5, rtol=1e-5)
    for again in (pickle.loads(pickle.dumps(exported)), copy.deepcopy(exported)):
        np.testing.assert_array_equal(again.encode(TEXTS), exported.encode(TEXTS))


def test_pipelines_and_evaluation_are_the_same(folders: Folders, tmp_path: Path) -> None:
    source, exported = folders("text-classification")
    answers = [glassformer.pipeline("classify", str(x), top_k=1)(TEXTS) for x in (source, exported)]
    for ours, theirs in zip(*answers, strict=True):
        assert [x["label"] for x in theirs] == [x["label"] for x in ours]
        assert [x["score"] for x in theirs] == pytest.approx([x["score"] for x in ours], abs=1e-5)
    rows = tmp_path / "rows.csv"
    labels = ["joy", "fear", "calm", "joy"]
    rows.write_text("text,label\n" + "".join(f"{t},{x}\n" for t, x in zip(TEXTS, labels, strict=True)))
    scores = [
        metrics_of(task, list(task.predict(read_rows(rows))))
        for task in (trained_task(x, "classify", {}).for_evaluation() for x in (source, exported))
    ]
    assert [x.value for x in intervals(scores[1]).values()] == pytest.approx(
        [x.value for x in intervals(scores[0]).values()], abs=1e-5, nan_ok=True
    )


def test_texts_of_a_packed_row_stay_apart(folders: Folders) -> None:
    """Tags are by token: texts of a packed row are laid below each other, and end to end again."""
    source, exported = map(load, folders("token-classification"))
    ids = [[1, 4, 5, 2], [1, 6, 2], [1, 4, 9, 5, 6, 2]]
    batch = Batch(input_ids=torch.tensor([[number for text in ids for number in text]]))
    flow = Flow(packing=Packing(tuple(map(len, ids))))
    with torch.inference_mode():
        ours, theirs = source.network(batch, flow), exported.network(batch, flow)
        alone = [exported(input_ids=torch.tensor([text])).logits[0] for text in ids]
    assert theirs.logits.shape == (1, 13, 3)
    torch.testing.assert_close(theirs.logits, ours.logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(theirs.logits[0], torch.cat(alone), atol=1e-5, rtol=1e-5)


def test_search_and_answers_on_the_command_line(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The vectors of `encode`, the hits of `find` and the answers of `ask` are those of the original."""

    def typed(*words: object) -> Any:
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--json"])
        said = capsys.readouterr()
        assert not ended.value.code, said.err
        return json.loads(said.out)

    documents = tmp_path / "documents"
    documents.mkdir()
    for i, text in enumerate(TEXTS):
        (documents / f"{i}.txt").write_text(text)
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS))
    found: list[Any] = []
    for i, (encoder, reader) in enumerate(
        zip(folders("feature-extraction"), folders("question-answering"), strict=True)
    ):
        typed("encode", encoder, tmp_path / "lines.txt", "--output", tmp_path / f"{i}.npy")
        store = tmp_path / f"{i}.store"
        assert (
            typed("index", documents, "--output", store, "--model", encoder, "--size", 14, "--overlap", 0)[
                "document_count"
            ]
            == 4
        )
        hits = typed("find", "fruit flies", "--store", store, "--method", "dense")["matches"]
        answer = typed("ask", "fruit flies", "--store", store, "--reader", reader)
        found.append(([hit["file"] for hit in hits], answer["answer"]))
    np.testing.assert_allclose(np.load(tmp_path / "1.npy"), np.load(tmp_path / "0.npy"), atol=1e-5)
    assert found[0] == found[1] and found[0][0]


@pytest.mark.parametrize("place", ["model.onnx", "onnx/model.onnx", "onnx/model_fp32.onnx"])
def test_places_of_the_file(folder: Path, place: str) -> None:
    vectors = load(folder).encode(TEXTS)
    (folder / place).parent.mkdir(exist_ok=True)
    (folder / "model.onnx").rename(folder / place)
    np.testing.assert_array_equal(load(folder).encode(TEXTS), vectors)
    np.testing.assert_array_equal(load(folder / place).encode(TEXTS), vectors)


def test_a_body_under_the_config_of_a_head(folder: Path) -> None:
    """optimum leaves `architectures` as it was, where it exports a model without its head."""
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "architectures": ["BertForMaskedLM"]}))
    assert load(folder).task == "feature-extraction"
    with pytest.raises(UnsupportedError, match="gives 'last_hidden_state', 'pooler_output' and no logits"):
        load(folder, task="fill-mask")


def test_safetensors_come_first(folders: Folders, folder: Path) -> None:
    shutil.copy(folders("feature-extraction")[0] / "model.safetensors", folder)
    assert not isinstance(load(folder).network, OnnxNetwork)
    assert isinstance(load(folder / "model.onnx").network, OnnxNetwork)


# ------------------------------------------------------------------------------------------ what it has no layers for

REFUSED: dict[str, Callable[[Model], Any]] = {
    "trained": lambda model: model.train(),
    "looked into": lambda model: model.inspect("time flies"),
    "saved": lambda model: model.save_pretrained("nowhere"),
    "prepared in bf16": lambda model: model.prepare("bf16"),
    "computes in its own dtype": lambda model: model.half(),
    "adapted": lambda model: model.add_adapter("extra"),
    "given another vocabulary": lambda model: model.resize_token_embeddings(20),
    "given the weights": lambda model: model.take_weights("nowhere"),
    "exported to ONNX": lambda model: export_onnx(model, "nowhere"),
    "table of embeddings": lambda model: model.get_input_embeddings(),
    "cannot be looked into": lambda model: model(input_ids=torch.ones(1, 3).long(), tape=Tape("attn.probs")),
    "be looked into": lambda model: model(input_ids=torch.ones(1, 3).long(), output_hidden_states=True),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_needs_layers_is_refused(folders: Folders, what: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{what}.*; load the model that it was exported from"):
        REFUSED[what](load(folders("feature-extraction")[1]))


def test_other_dtypes_and_heads_are_refused(folders: Folders) -> None:
    folder = folders("feature-extraction")[1]
    with pytest.raises(UnsupportedError, match="loaded as float16"):
        load(folder, dtype="float16")
    with pytest.raises(UnsupportedError, match="takes no other head"):
        load(folder, head=lambda width: glassformer.core.heads.Pooler(width))
    with pytest.raises(WeightsError, match="gives 3 labels, and the config names 5"):
        load(folders("text-classification")[1], num_labels=5)
    with pytest.raises(WeightsError, match="gives states of width 16"):
        load(folder, overrides={"hidden_size": 32})


# ------------------------------------------------------------------------------------------------------------ bad input


def test_a_folder_without_a_program(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    with pytest.raises(WeightsError, match="holds no weights: looked for model"):
        load(folder)
    for name in ("a.onnx", "b.onnx"):
        (folder / name).write_bytes(b"")
    with pytest.raises(
        WeightsError, match=r"holds 2 ONNX files, none of them model.onnx; name one of 'a.onnx', 'b.onnx'"
    ):
        load(folder)


def test_a_file_that_is_cut(folder: Path) -> None:
    path, draw = folder / "model.onnx", random.Random(0)
    whole = path.read_bytes()
    for length in [0, 1, len(whole) // 2, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(20))]:
        path.write_bytes(whole[:length])
        with pytest.raises(
            (WeightsError, UnsupportedError), match=r"model\.onnx: .*; (copy it|export the model) again"
        ):
            load(folder)


def test_changed_bytes_never_crash(folder: Path) -> None:
    """Whatever a damaged file does, it ends in an error of ours, or in numbers."""
    path, draw = folder / "model.onnx", random.Random(1)
    whole, refused = path.read_bytes(), 0
    for _ in range(60):
        changed = bytearray(whole)
        for _ in range(draw.choice([1, 3, 20])):
            changed[draw.randrange(min(len(whole), 4_000) if draw.random() < 0.7 else len(whole))] = draw.randrange(256)
        path.write_bytes(changed)
        try:
            load(folder).encode(TEXTS[:1])
        except GlassformerError:
            refused += 1
    assert refused > 10


def small_program(path: Path, **changes: Any) -> None:
    """A program of one operation: rows of a table."""
    table = numpy_helper.from_array(np.ones((13, 16), np.float32), "table")
    changes.setdefault("tensor", lambda tensor: None)(table)
    node = helper.make_node(changes.get("operation", "Gather"), ["table", "input_ids"], ["last_hidden_state"])
    ids = helper.make_tensor_value_info("input_ids", changes.get("ids", TensorProto.INT64), ["rows", "tokens"])
    states = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["rows", "tokens", 16])
    graph = helper.make_graph([node], "small", [ids], [states], [table])
    opset = [helper.make_opsetid(changes.get("domain", ""), changes.get("opset", 18))]
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opset": 999}, "onnxruntime .* cannot run it: .*opset"),
        ({"operation": "Unheard"}, "onnxruntime|no ONNX file: .*Unheard"),
        ({"domain": "com.nobody", "operation": "Unheard"}, "Unheard|No opset import"),
        ({"ids": TensorProto.STRING}, r"Type 'tensor\(string\)'"),
        ({"ids": TensorProto.BFLOAT16}, "model.onnx: .*"),
    ],
    ids=lambda x: str(x)[:30],
)
def test_what_the_runtime_lacks(folder: Path, changes: dict[str, Any], message: str) -> None:
    small_program(folder / "model.onnx", **changes)
    with pytest.raises((UnsupportedError, WeightsError), match=message):
        load(folder)


def external(**entries: str) -> Callable[[Any], None]:
    def change(tensor: Any) -> None:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)

    return change


SIZE = 13 * 16 * 4


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "../secret.bin"}, "must lie in a file next to it"),
        ({"location": "/etc/passwd"}, "must lie in a file next to it"),
        ({"location": "a/../../secret.bin"}, "must lie in a file next to it"),
        ({"location": "C:\\secret.bin"}, "must lie in a file next to it"),
        ({}, "must lie in a file next to it"),
        ({"location": "gone.bin"}, "'gone.bin', which is not there"),
        ({"location": "short.bin"}, "832 bytes by its shape, .* which has 100"),
        ({"location": "data.bin", "offset": "1"}, "832 bytes by its shape"),
        ({"location": "data.bin", "offset": "-1"}, "832 bytes by its shape"),
        ({"location": "data.bin", "length": "9999"}, "file says '9999'"),
        ({"location": "data.bin", "length": "many"}, "file says 'many'"),
        ({"location": "link.bin"}, "is a link that leads out of the model's folder"),
    ],
    ids=str,
)
def test_external_data_that_lie(folder: Path, entries: dict[str, str], message: str) -> None:
    (folder.parent / "secret.bin").write_bytes(bytes(SIZE))
    (folder / "short.bin").write_bytes(bytes(100))
    (folder / "data.bin").write_bytes(bytes(SIZE))
    (folder / "link.bin").symlink_to(folder.parent / "secret.bin")
    small_program(folder / "model.onnx", tensor=external(**entries))
    with pytest.raises(WeightsError, match=message):
        load(folder)


def test_external_data_next_to_the_file(folder: Path) -> None:
    (folder / "data.bin").write_bytes(np.full((13, 16), 0.5, np.float32).tobytes())
    small_program(folder / "model.onnx", tensor=external(location="data.bin", offset="0", length=str(SIZE)))
    model = load(folder)
    with torch.no_grad():
        states = model(input_ids=torch.tensor([[1, 2]])).last_hidden_state
    assert states.shape == (1, 2, 16) and bool((states == 0.5).all())
    assert onnx.load(str(folder / "model.onnx"), load_external_data=False).graph.node[0].op_type == "Gather"


# ------------------------------------------------------------------------------------------ engines of other libraries


def test_openvino_runs_the_file(folder: Path) -> None:
    openvino = pytest.importorskip("openvino", reason="needs the package openvino")
    program = openvino.Core().compile_model(folder / "model.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    model = load(folder)
    inputs = model.tokenizer(TEXTS, padding=True, return_tensors="pt")
    states = torch.from_numpy(program({name: x.numpy() for name, x in inputs.items()})["last_hidden_state"])
    with torch.no_grad():
        expected = model(**inputs).last_hidden_state
    keep = inputs["attention_mask"].bool()
    torch.testing.assert_close(states[keep], expected[keep], atol=1e-5, rtol=1e-5)


def test_optimum_and_sentence_transformers_read_the_folder(folder: Path) -> None:
    reason = "needs optimum-onnx, and the transformers that it takes"
    optimum = pytest.importorskip("optimum.onnxruntime.modeling", reason=reason, exc_type=ImportError)
    model = load(folder)
    inputs = model.tokenizer(TEXTS, padding=True, return_tensors="pt")
    theirs = optimum.ORTModelForFeatureExtraction.from_pretrained(folder)(**inputs).last_hidden_state
    with torch.no_grad():
        torch.testing.assert_close(theirs, model(**inputs).last_hidden_state, atol=1e-5, rtol=1e-5)
    from sentence_transformers import SentenceTransformer

    vectors = SentenceTransformer(str(folder), backend="onnx").encode(TEXTS)
    np.testing.assert_allclose(vectors, model.encode(TEXTS), atol=1e-5)
