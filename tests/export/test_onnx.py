"""ONNX files give the numbers of the models that they were made from, in onnxruntime, at sizes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from torch import Tensor

from glassformer import ConfigError, DataError, Model, UnsupportedError
from glassformer.export import export_folder, export_onnx
from tests.test_export import call, made

SIZES = ((3, 11), (1, 5))
soak = pytest.mark.soak
SMALL = {family: {"num_hidden_layers": 1} for family in ("bert", "llama", "mpnet")}
"""Shallow networks: a file takes seconds to make. An encoder is in docs/export.md, which is executed too."""


class Engine:
    """A file in onnxruntime."""

    def __init__(self, path: Path) -> None:
        self.session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.inputs = [entry.name for entry in self.session.get_inputs()]
        self.outputs = [entry.name for entry in self.session.get_outputs()]

    def __call__(self, **given: Tensor) -> dict[str, Tensor]:
        arrays = {name: x.numpy() for name, x in given.items()}
        assert arrays.keys() == set(self.inputs)
        return dict(zip(self.outputs, map(torch.from_numpy, self.session.run(None, arrays)), strict=True))


def assert_near(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("family", "task"),
    [
        pytest.param("bert", "text-classification", marks=soak),
        pytest.param("deberta-v2", "token-classification", marks=soak),
        pytest.param("roberta", "fill-mask", marks=soak),
        pytest.param("distilbert", "question-answering", marks=soak),
        pytest.param("vit", "image-classification", marks=soak),
        pytest.param("wav2vec2", "automatic-speech-recognition", marks=soak),
        pytest.param("clip", "zero-shot-image-classification", marks=soak),
        pytest.param("t5", "feature-extraction", marks=soak),
        pytest.param("mpnet", "feature-extraction"),
    ],
)
def test_forward_pass(family: str, task: str, tmp_path: Path) -> None:
    model = made(family, task, **SMALL.get(family, {}))
    assert export_onnx(model, tmp_path) == [tmp_path / "model.onnx"]
    assert (tmp_path / "config.json").is_file()
    engine = Engine(tmp_path / "model.onnx")
    for rows, tokens in SIZES:
        given = call(model, rows, tokens)
        expected = {name: x for name, x in model(**given).present().items() if isinstance(x, Tensor)}
        actual = engine(**given)
        assert actual.keys() == expected.keys()
        for name, x in expected.items():
            assert_near(actual[name], x)


def cached(model: Model, engine: Engine, ids: Tensor, mask: Tensor, fixed: dict[str, Tensor]) -> Tensor:
    """Logits of each token, the first three at once, with keys and values handed from step to step."""
    caches = {name: x for name, x in ((n, n.rpartition("_")[0]) for n in engine.inputs) if x in ("keys", "values")}
    heads = model.network.stacks()
    spec = next(iter(heads.get("target", next(iter(heads.values()))))).attn.spec
    state = {name: torch.zeros(len(ids), spec.K, 0, spec.E) for name in caches}
    logits = []
    for begin, end in [(0, 3), *((at, at + 1) for at in range(3, ids.shape[1]))]:
        masks = {"attention_mask": mask[:, begin:end], "past_mask": mask[:, :begin]}
        output = engine(input_ids=ids[:, begin:end], **masks, **state, **fixed)
        state = {name: output[f"new_{name}"] for name in caches}
        logits.append(output["logits"])
    return torch.cat(logits, dim=1)


@pytest.mark.parametrize(
    "family", ["llama", *(pytest.param(family, marks=soak) for family in ("gpt2", "gemma2", "mixtral"))]
)
def test_decoder(family: str, tmp_path: Path) -> None:
    model = made(family, "text-generation", **SMALL.get(family, {}))
    assert [path.name for path in export_onnx(model, tmp_path)] == ["model.onnx", "step.onnx", "weights.data"]
    ids = torch.randint(3, 20, (3, 6))
    mask = torch.ones(3, 6, dtype=torch.bool)
    mask[0, :2] = False
    expected = model(input_ids=ids, attention_mask=mask.long()).logits
    whole = Engine(tmp_path / "model.onnx")(input_ids=ids, attention_mask=mask.long())["logits"]
    steps = cached(model, Engine(tmp_path / "step.onnx"), ids, mask, {})
    for logits in (whole, steps):
        assert_near(logits[mask], expected[mask])


@pytest.mark.parametrize("family", [pytest.param(f, marks=soak) for f in ("bart", "t5", "whisper")])
def test_encoder_decoder(family: str, tmp_path: Path) -> None:
    model = made(family, "automatic-speech-recognition" if family == "whisper" else "translation")
    assert [path.name for path in export_onnx(model, tmp_path)] == ["encoder.onnx", "step.onnx", "weights.data"]
    given = call(model, 3, 7)
    source = {name: x for name, x in given.items() if not name.startswith("decoder_")}
    ids = torch.randint(3, 20, (3, 5))
    expected = model(**source, decoder_input_ids=ids).logits
    memory: dict[str, Any] = Engine(tmp_path / "encoder.onnx")(**source)
    length = next(iter(memory.values())).shape[2]
    memory["encoder_mask"] = source.get("attention_mask", torch.ones(3, length)).bool()
    steps = cached(model, Engine(tmp_path / "step.onnx"), ids, torch.ones(3, 5, dtype=torch.bool), memory)
    assert_near(steps, expected)


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    model = made("bert", "feature-extraction")
    with pytest.raises(ConfigError, match="format is 'tflite'; it must be one of onnx, pt2"):
        export_folder(model, tmp_path, "tflite")
    with pytest.raises(ConfigError, match="training mode"):
        export_onnx(model.train(), tmp_path)
    with pytest.raises(ConfigError, match="bfloat16"):
        export_onnx(model.eval().to(torch.bfloat16), tmp_path)
    with pytest.raises(UnsupportedError, match="visual_feats, visual_pos, of which no example"):
        export_onnx(made("lxmert", "feature-extraction"), tmp_path)
    with pytest.raises(UnsupportedError, match="another for long ones"):
        export_onnx(made("big_bird", "feature-extraction"), tmp_path)
    with pytest.raises(DataError, match="must be a tensor"):
        export_onnx(model.float(), tmp_path, input_ids=[[1, 2]])  # type: ignore[arg-type]
    with pytest.raises(DataError, match="must be a path"):
        export_onnx(model, None)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@soak
def test_program_of_torch_export(tmp_path: Path) -> None:
    model = made("bert", "feature-extraction")
    (path,) = export_folder(model, tmp_path / "a" / "b", "pt2")
    given = call(model, 3, 5)
    with torch.no_grad():
        assert_near(torch.export.load(path).module()(**given)["pooler_output"], model(**given).pooler_output)
    assert (path.parent / "config.json").is_file()
