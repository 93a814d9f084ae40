"""Export to ONNX: programs with their weights as files that onnxruntime and other engines run.

    model.onnx     a forward pass with its head: any encoder, any decoder                inputs as in model(…)
    encoder.onnx   an encoder-decoder's source: keys and values of all layers
    step.onnx      a step of text generation: past keys and values in, those with the new tokens out
    weights.data   the weights that two of these programs have, once for both

Next to them lie config.json, the tokenizer's files, and those of the processor. Batch size and lengths are free.
Source: the ONNX standard, operator set 18; PyTorch documentation, "torch.onnx".
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule
from torch.utils import _pytree

from glassformer.core.quantised import check_not_quantised
from glassformer.errors import ConfigError, DataError, UnsupportedError, import_optional
from glassformer.export.programs import export_encoder, export_program, export_step
from glassformer.files import as_path, safe_repr
from glassformer.files.atomic import disk_errors
from glassformer.loaded_model import LoadedModel
from glassformer.pretrained import save_files

DTYPES = (torch.float32, torch.float16)
"""What engines compute in."""
MAX_ONE_FILE_BYTES = 1_500_000_000
"""A protocol buffer holds 2 GB; weights of more go to a second file, model.onnx.data."""
WEIGHTS, LEAST_SHARED, ALIGNED = "weights.data", 1_024, 64
"""The file of the weights of two programs; bytes from which a weight is in it; where each begins, in bytes."""
ROWS, TOKENS, SAMPLES = 2, 4, 1_600
"""Of the example; a size of 1 would be fixed in the program."""
NEW = "new_"
"""Beginning of output names that inputs have too: keys and values."""


def export_onnx(model: LoadedModel, folder: str | Path, **example: Tensor) -> list[Path]:
    """Export a model to ONNX files: model.onnx, or encoder.onnx and step.onnx of an encoder-decoder that writes.

    A decoder that generates text gives model.onnx, logits of whole texts, and step.onnx, which takes and returns keys
    and values by names such as `keys_0` and `new_keys_0`. The folder holds config, tokenizer and processor as well.

    Args:
        example: the arguments of a call, made here for texts, images and sounds; two rows and two tokens at least.
    Returns: the files.
    Raises: as `export_folder`.
    """
    return export_folder(model, folder, "onnx", **example)


def export_folder(model: LoadedModel, folder: str | Path, format: str, **example: Tensor) -> list[Path]:
    """Export a model to a folder of programs; format: one of `FORMATS`.

    Raises: ConfigError: another format, training mode, packed or quantised weights, or a dtype that engines do not
            compute in.
        UnsupportedError: a model that cannot be exported. MissingExtraError: onnx or onnxscript is not installed.
        DataError: the folder cannot be written.
    """
    if format not in FORMATS:
        raise ConfigError(f"format is {safe_repr(format)}; it must be one of {', '.join(FORMATS)}")
    if model.dtype not in DTYPES:
        raise ConfigError(
            f"the model is {str(model.dtype).removeprefix('torch.')}, which engines do not compute in; load it with "
            "dtype='float32' or 'float16'"
        )
    if format == "onnx":  # whose operations neither unpack levels nor round inputs token by token at free lengths
        check_not_quantised(model.network, "exported to ONNX")
    suffix, packages, save = FORMATS[format]
    for package in packages:  # before the work
        import_optional(package, package, "onnx", "exporting to ONNX")
    folder, paths = as_path(folder, "folder"), []
    with disk_errors(folder, DataError):
        folder.mkdir(parents=True, exist_ok=True)
        # Written elsewhere first, so that an interrupted export leaves no partial file.
        with TemporaryDirectory(dir=folder, prefix=".export-") as partial:
            for name, program in _programs(model, example):
                paths.append(Path(partial) / f"{name}{suffix}")
                with _quiet():
                    save(program, paths[-1])
                del program  # else the weights of one are in memory with those of the next
            if format == "onnx" and len(paths) > 1:
                paths.append(_share_weights(paths))
            for file in Path(partial).iterdir():
                os.replace(file, folder / file.name)
    dtype = str(model.dtype).removeprefix("torch.")
    own = {key: value for key, value in model.config.items() if key not in ("torch_dtype", "dtype")}
    save_files(model, folder, {**own, "dtype": dtype})
    return [folder / path.name for path in paths]


def example_inputs(model: LoadedModel, *, decoder: bool = True) -> dict[str, Tensor]:
    """The arguments of a small call `model(…)`, by the sizes in the config; decoder: those of the target too.

    Raises: UnsupportedError: a network that reads more than texts, images and sounds.
    """
    reads, config, device = model.network.READS, model.config, model.device
    sized = {**config, **(config.get("vision_config") or {})}

    def numbers(*shape: int) -> Tensor:
        return torch.zeros(ROWS, *shape, device=device, dtype=model.dtype)

    def tokens(*shape: int) -> Tensor:
        return torch.ones(ROWS, *shape, device=device, dtype=torch.long)

    given: dict[str, Tensor] = {}
    if "input_ids" in reads:
        given |= {"input_ids": tokens(TOKENS), "attention_mask": tokens(TOKENS)}
        types = model.network.token_types
        if types and "token_type_ids" in reads:
            width = (TOKENS, len(types)) if isinstance(types, tuple) else (TOKENS,)
            given["token_type_ids"] = torch.zeros_like(tokens(*width))
    if "bbox" in reads:
        given["bbox"] = tokens(TOKENS, 4)
    if "pixel_values" in reads:
        size = sized.get("image_size", 224)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        given["pixel_values"] = numbers(sized.get("num_channels", 3), height, width)
    if "input_values" in reads:
        given |= {"input_values": numbers(SAMPLES), "attention_mask": tokens(SAMPLES)}
    if "input_features" in reads:
        given["input_features"] = numbers(model.spec.bins, 2 * model.spec.positions)
    if "decoder_input_ids" in reads and decoder:
        given |= {"decoder_input_ids": tokens(TOKENS + 1), "decoder_attention_mask": tokens(TOKENS + 1)}
    if _changes_with_length(model):
        raise UnsupportedError(
            f"attention of this {model.family.model_type!r} model is computed in one way for short texts and in "
            "another for long ones, and a program holds one: give an example as long as its texts will be, "
            "export_onnx(model, folder, input_ids=…, attention_mask=…)"
        )
    if not given or "visual_feats" in reads:
        raise UnsupportedError(
            f"a {model.family.model_type!r} model reads {', '.join(reads)}, of which no example is made here; "
            "give one: export_onnx(model, folder, " + ", ".join(f"{name}=…" for name in reads) + ")"
        )
    return given


def _changes_with_length(model: LoadedModel) -> bool:
    """Whether what a token sees follows another rule in long texts than in short ones, as in block-sparse attention."""
    patterns = [block.attn.pattern for stack in model.network.stacks().values() for block in stack]
    longest = model.network.max_tokens or TOKENS
    return any(pattern.is_distance_based(TOKENS) != pattern.is_distance_based(longest) for pattern in patterns)


def _programs(model: LoadedModel, example: Mapping[str, Tensor]) -> Iterator[tuple[str, ExportedProgram]]:
    """The programs of a model by name."""
    if model.is_encoder_decoder:
        source = {name: x for name, x in example.items() if not name.startswith("decoder_")}
        yield "encoder", _trace(export_encoder, model, source or example_inputs(model, decoder=False))
    else:
        yield "model", _trace(export_program, model, example or example_inputs(model))
    if model.writes:
        yield "step", _trace(export_step, model, {})


def _trace(
    export: Callable[..., ExportedProgram], model: LoadedModel, example: Mapping[str, Tensor]
) -> ExportedProgram:
    """A program. Raises: UnsupportedError: the network branches on numbers, or fixes a size."""
    try:
        with _quiet():
            program = export(model, **example)
    except RuntimeError as problem:  # whatever torch.export cannot follow
        raise UnsupportedError(_refusal(model, problem)) from problem
    for module in program.graph_module.modules():
        for node in module.graph.nodes if isinstance(module, GraphModule) else ():
            node.meta.pop("stack_trace", None)  # the paths of this machine, which files would hold
    return program


def _refusal(model: LoadedModel, problem: Exception) -> str:
    first = (str(problem).strip().splitlines() or [""])[0]
    return (
        f"this {model.family.model_type!r} model for {model.task} cannot be exported: {first[:200]}; load it without "
        "what computes by length (block-sparse attention), or give an example of the inputs that it is to take"
    )


def _save_onnx(program: ExportedProgram, path: Path) -> None:
    """Write a program as an ONNX file, with the names of its arguments and results."""
    size = sum(x.numel() * x.element_size() for x in program.state_dict.values())
    try:
        with torch.no_grad():  # else attention with a bias is rewritten as what a gradient needs, a view that cannot be
            made = torch.onnx.export(program, dynamo=True, verbose=False, output_names=_output_names(program))
    except (torch.onnx.errors.OnnxExporterError, RuntimeError) as problem:
        reason = str(problem.__cause__ or problem).strip().splitlines()[:1] or [""]
        raise UnsupportedError(f"{path.name}: an operation has no ONNX form: {reason[0][:300]}") from problem
    assert made is not None  # None is returned where a file was given
    made.save(path, external_data=size > MAX_ONE_FILE_BYTES)


def _share_weights(paths: Sequence[Path]) -> Path:
    """Move the weights of several ONNX files into one next to them, those that are the same in several once.

    Returns: that file.
    """
    onnx = import_optional("onnx", "onnx", "onnx", "exporting to ONNX")
    data, places = paths[0].with_name(WEIGHTS), dict[bytes, int]()  # digest → offset
    with data.open("wb") as stream:
        for path in paths:
            model = onnx.load(str(path))  # with the weights that are in a second file
            for tensor in model.graph.initializer:
                raw = onnx.numpy_helper.to_array(tensor).tobytes()
                if len(raw) < LEAST_SHARED:
                    continue
                digest = hashlib.sha256(raw).digest()
                if digest not in places:
                    stream.write(bytes(-stream.tell() % ALIGNED))
                    places[digest] = stream.tell()
                    stream.write(raw)
                plain = onnx.TensorProto(name=tensor.name, dims=tensor.dims, data_type=tensor.data_type, raw_data=raw)
                onnx.external_data_helper.set_external_data(plain, data.name, places[digest], len(raw))
                plain.ClearField("raw_data")
                tensor.CopyFrom(plain)
            path.write_bytes(model.SerializeToString())
            path.with_name(f"{path.name}.data").unlink(missing_ok=True)  # which the exporter made
    return data


def _output_names(program: ExportedProgram) -> list[str]:
    """The names of a program's results, which are a dict of tensors and of lists of them."""
    tree = program.call_spec.out_spec
    assert tree is not None
    results: Mapping[str, Any] = _pytree.tree_unflatten(list(range(tree.num_leaves)), tree)
    names = []
    for name, leaf in results.items():
        many = isinstance(leaf, list)
        again = many and any(name == given for given in ("keys", "values"))
        names += [f"{NEW if again else ''}{name}_{i}" for i in range(len(leaf))] if many else [name]
    return names


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's progress and advice, which are not for users."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


class _LateErrors(io.FileIO):
    """A file that keeps its first error for later: one within torch's writer of archives ends the process."""

    error: OSError | None = None

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        try:
            while self.error is None and rest:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return len(data)


def _save_pt2(program: ExportedProgram, path: Path) -> None:
    with _LateErrors(path, "wb") as file:
        torch.export.save(program, file)
    if file.error is not None:
        raise file.error


FORMATS: Mapping[str, tuple[str, tuple[str, ...], Callable[[ExportedProgram, Path], None]]] = {
    "onnx": (".onnx", ("onnx", "onnxscript"), _save_onnx),
    "pt2": (".pt2", (), _save_pt2),
}
"""Format → the ending of its files, the packages it needs, and what writes one."""
