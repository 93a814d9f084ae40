"""ONNX in 8 bits: operations are fused, weights and inputs of products quantised by ONNX Runtime, the result checked.

    model.onnx ──fuse──> fewer operations ──quantise──> int8 ──check──> cosines with the original at five lengths

    dynamic   weights int8 with a scale for each column; the scale of inputs is that of each call's own numbers
    static    the same weights; ranges of inputs from calibration examples

The scale of dynamic inputs is one of the whole batch: a text's numbers depend, within that rounding, on its neighbours.
Source: ONNX Runtime documentation, "Quantize ONNX models" and "Transformers optimizer".
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.errors import ConfigError, import_optional
from glassformer.loaded_model import LoadedModel
from glassformer.reports.table import Table

LENGTHS = (4, 8, 16, 32, 64)
"""Tokens of the texts on which a program is compared with its original."""
PRODUCTS = ("MatMul", "Attention")
"""Operations that are quantised: the layers of the blocks. A head on a pooled vector, a `Gemm`, stays wide."""


def fuse(path: Path, heads: int, width: int) -> Table:
    """Fuse operations of a file, in place, as encoders have them. Returns: what was fused, and how often."""
    optimizer = import_optional("onnxruntime.transformers.optimizer", "onnxruntime", "onnx", "fusing operations")
    with _quiet():
        made = optimizer.optimize_model(str(path), model_type="bert", num_heads=heads, hidden_size=width, opt_level=0)
        made.save_model_to_file(str(path))
    counts = {name: count for name, count in made.get_fused_operator_statistics().items() if count}
    rows = [[name, str(count)] for name, count in counts.items()] or [["none", "0"]]
    return Table(["fused operation", "count"], rows, caption="Fused operations")


def quantise_dynamic(path: Path, *, embeddings: bool = True) -> None:
    """Quantise the weights of a file in place; the scale of a product's inputs is computed in each call."""
    runtime = import_optional("onnxruntime.quantization", "onnxruntime", "onnx", "quantising ONNX files")
    with _replaced(path) as made:
        runtime.quantize_dynamic(_program(path), made, op_types_to_quantize=_operations(embeddings), per_channel=True)


def quantise_static(path: Path, batches: Sequence[Mapping[str, Tensor]], *, embeddings: bool = True) -> None:
    """Quantise the weights of a file in place, and fix the ranges of inputs to the extremes of calibration batches.

    Args:
        batches: what the program reads, by name
    Raises: ConfigError: no batches.
    """
    if not batches:
        raise ConfigError("static ranges need calibration rows, and there are none")
    runtime = import_optional("onnxruntime.quantization", "onnxruntime", "onnx", "quantising ONNX files")
    with _replaced(path) as made:
        runtime.quantize_static(
            path,
            made,
            _CalibrationBatches(iter(batches)),
            quant_format=runtime.QuantFormat.QDQ,
            op_types_to_quantize=_operations(embeddings),
            per_channel=True,
            activation_type=runtime.QuantType.QUInt8,
            # Products of two activations, in attention, stay wide.
            extra_options={"MatMulConstBOnly": True},
        )


def _program(path: Path) -> Any:
    """A file's program without the shapes of its weights, some of which ONNX Runtime turns round."""
    onnx = import_optional("onnx", "onnx", "onnx", "quantising ONNX files")
    model = onnx.load(str(path))
    weights = {x.name for x in model.graph.initializer}
    others = [x for x in model.graph.value_info if x.name not in weights]
    del model.graph.value_info[:]
    model.graph.value_info.extend(others)
    return model


def _operations(embeddings: bool) -> list[str]:
    return [*PRODUCTS, *(["Gather"] if embeddings else [])]


@dataclass
class _CalibrationBatches:
    """Calibration batches as ONNX Runtime asks for them."""

    batches: Iterator[Mapping[str, Tensor]]

    def get_next(self) -> dict[str, Any] | None:
        batch = next(self.batches, None)
        return None if batch is None else {name: x.numpy() for name, x in batch.items()}


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A file that takes the place of another at the end."""
    with TemporaryDirectory(dir=path.parent, prefix=".int8-") as folder, _quiet():
        made = Path(folder) / path.name
        yield made
        os.replace(made, path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without advice of ONNX Runtime's tools, which log by the root logger, and print."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(StringIO()):
            yield
    finally:
        logging.disable(before)


@dataclass(frozen=True)
class LengthDifference:
    """How far a program is from its original on a text: alone, and padded among others.

    largest: difference of a number
    cosine: of all numbers of the text
    """

    tokens: int
    padded: bool
    largest: float
    cosine: float


def differences_by_length(original: LoadedModel, exported: LoadedModel, ids: Sequence[int]) -> list[LengthDifference]:
    """Compare a program with its original at five lengths, each alone and all of them padded to the longest.

    Args:
        ids: tokens of texts, one text behind another; of which the compared texts are the beginnings
    """
    longest = min(original.network.max_tokens or LENGTHS[-1], len(ids))
    lengths = sorted({min(n, longest) for n in LENGTHS})
    with torch.inference_mode():
        exact = [_numbers(original(input_ids=torch.tensor([ids[:n]])))[0] for n in lengths]
        alone = [_numbers(exported(input_ids=torch.tensor([ids[:n]])))[0] for n in lengths]
        rows = torch.zeros(len(lengths), lengths[-1], dtype=torch.long)
        mask = torch.zeros_like(rows)
        for row, n in enumerate(lengths):
            rows[row, :n], mask[row, :n] = torch.tensor(ids[:n]), 1
        padded = _numbers(exported(input_ids=rows, attention_mask=mask))
    together = [x if x.dim() == 1 else x[:n] for x, n in zip(padded, lengths, strict=True)]
    return [
        LengthDifference(n, whether, float((x - y).abs().max()), _cosine(x, y))
        for whether, made in ((False, alone), (True, together))
        for n, x, y in zip(lengths, exact, made, strict=True)
    ]


def _numbers(output: Output) -> Tensor:
    """What the model is asked for: logits, of texts or tokens; else states. [B, …]"""
    first = next(x for x in (output.logits, output.start_logits, output.last_hidden_state) if x is not None)
    return first.float()


def _cosine(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.flatten(), b.flatten(), dim=0))


def difference_table(differences: Sequence[LengthDifference]) -> Table:
    """The differences as a table for a report."""
    rows = [
        [str(x.tokens), "padded" if x.padded else "alone", f"{x.largest:.2g}", f"{x.cosine:.5f}"] for x in differences
    ]
    return Table(["tokens", "", "largest difference", "cosine"], rows, caption="Differences from the original")


def check_differences(differences: Sequence[LengthDifference], gate: float) -> None:
    """Raises: ConfigError: a cosine is below the gate; which, and by how much."""
    worst = min(differences, key=lambda x: x.cosine)
    if not worst.cosine >= gate:
        how = "padded among others" if worst.padded else "alone"
        raise ConfigError(
            f"the ONNX program differs too much from the model: at {worst.tokens} tokens, {how}, its cosine is "
            f"{worst.cosine:.7f}, and the gate is {gate:g}; give other calibration rows, embeddings: false, or a lower "
            "gate if its scores are good enough"
        )
