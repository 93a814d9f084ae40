"""ONNX Runtime as a network: a model whose forward pass an ONNX file computes, with the interface of all others.

    batch, flow ──texts of a packed row below each other──> session.run ──> Output, in the layout of the batch

Whatever calls a network, such as `encode`, pipelines and evaluation, runs on it. It has no layers: training, pruning,
quantising and looking inside are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import fields, replace
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any, NoReturn, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, Flow, Output
from glassformer.core.gradient_tape import GradientTape
from glassformer.core.heads import Head, Labels
from glassformer.core.stack import AttentionGroup, Stack
from glassformer.errors import ConfigError, UnsupportedError, WeightsError, import_optional
from glassformer.files import file_sha256, safe_repr
from glassformer.models import Network
from glassformer.weights.onnx_files import OnnxWeight

MASKS = {
    "attention_mask": ("input_ids", "input_values"),
    "decoder_attention_mask": ("decoder_input_ids",),
    "visual_attention_mask": ("visual_feats",),
}
"""Name of a mask → the inputs that it may be the mask of."""
STATES = ("last_hidden_state", "token_embeddings")
"""What files call the final hidden states."""
DTYPES = {
    "tensor(int64)": torch.int64,
    "tensor(int32)": torch.int32,
    "tensor(bool)": torch.bool,
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(double)": torch.float64,
}
"""The types of a program's inputs."""
FIELDS = frozenset(field.name for field in fields(Output)) - {"cache", "taps", "loss"}


class OnnxProgram:
    """An ONNX file in ONNX Runtime, on the CPU; a copy or a pickle of it opens the same file again.

    path: the file
    weights: the tensors that it holds
    """

    def __init__(self, path: Path, weights: list[OnnxWeight]) -> None:
        self.path, self.weights = path, weights

    @cached_property
    def session(self) -> Any:
        """Raises: WeightsError, UnsupportedError: the runtime cannot run the file, and why."""
        runtime = import_optional("onnxruntime", "onnxruntime", "onnx", "running ONNX files")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 4  # what is wrong is raised as well
        try:
            with redirect_stdout(StringIO()):  # where it tells of an error that it raises as well
                return runtime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        except Exception as problem:  # the runtime's errors have no base class of their own
            raise self._refusal(runtime, problem) from problem

    def _refusal(self, runtime: Any, problem: Exception) -> WeightsError | UnsupportedError:
        reason = _reason(problem)
        damaged = type(problem).__name__ in ("InvalidProtobuf", "InvalidGraph", "NoModel", "UnicodeDecodeError")
        if damaged:
            return WeightsError(f"{self.path}: is damaged, or no ONNX file: {reason}; export the model again")
        return UnsupportedError(
            f"{self.path}: onnxruntime {runtime.__version__} cannot run it: {reason}; a newer onnxruntime may, or "
            "export the model again"
        )

    @cached_property
    def inputs(self) -> dict[str, torch.dtype]:
        """The names of what it reads. Raises: UnsupportedError: an input of a type that no network reads."""
        types = {entry.name: entry.type for entry in self.session.get_inputs()}
        if other := next((name for name, kind in types.items() if kind not in DTYPES), None):
            raise UnsupportedError(f"{self.path}: reads {safe_repr(other)} as {types[other]}, which is not given here")
        return {name: DTYPES[kind] for name, kind in types.items()}

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The names of what it gives."""
        return tuple(entry.name for entry in self.session.get_outputs())

    def width(self, output: str) -> int | None:
        """The last size of an output; None = it gives no such one, or the size is free."""
        shapes = {entry.name: entry.shape for entry in self.session.get_outputs()}
        last = shapes[output][-1] if shapes.get(output) else None
        return last if isinstance(last, int) else None

    def __call__(self, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Run it. Raises: UnsupportedError: the runtime refuses these inputs."""
        arrays = {name: given[name].to(dtype).contiguous().numpy() for name, dtype in self.inputs.items()}
        try:
            results = self.session.run(None, arrays)
        except Exception as problem:
            shapes = ", ".join(f"{name} {list(x.shape)}" for name, x in given.items())
            reason = _reason(problem)
            raise UnsupportedError(f"{self.path}: cannot run {shapes}: {reason}") from problem
        return dict(zip(self.outputs, map(torch.from_numpy, results), strict=True))

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "weights": self.weights}

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxProgram:
        return self  # it changes nothing that it holds


class OnnxNetwork(Network):
    """A network that ONNX Runtime runs.

    Args:
        described: the same network on the meta device: what it reads, its sizes and its head, without weights
        program: the file
        padding: the id that texts are filled up with
    Raises: UnsupportedError: the file reads or gives other tensors than the network.
    """

    def __init__(self, described: Network, program: OnnxProgram, padding: int = 0) -> None:
        inputs = program.inputs
        sizes = described.sizes if "token_type_ids" in inputs else replace(described.sizes, token_types=0)
        super().__init__(sizes)
        self.program, self.padding = program, padding
        # In a tuple, so that its parts are no modules of this one: they hold no weights.
        self._described = (described,)
        known = {*described.READS, *MASKS, "position_ids"}
        if other := [name for name in inputs if name not in known]:
            raise UnsupportedError(
                f"{program.path}: reads {', '.join(map(safe_repr, other))}; a whole forward pass reads "
                f"{', '.join(described.READS)}: export the model without past keys and values"
            )
        self.READS = tuple(name for name in described.READS if name in inputs)  # type: ignore[misc]
        self.POOLING = described.POOLING  # type: ignore[misc]
        self._outputs = {("last_hidden_state" if name in STATES else name): name for name in program.outputs}
        self._check_outputs()
        kind = next((x.dtype for x in program.weights if x.dtype in ("float16", "float32", "float64")), "float32")
        # The first parameter says where a network computes, and in which dtype.
        self.computes_in = nn.Parameter(torch.zeros(0, dtype=getattr(torch, kind)), requires_grad=False)
        self.weights = nn.ModuleList(map(_held, program.weights))
        self.eval()
        self.name_nodes()

    def _check_outputs(self) -> None:
        """Raises: UnsupportedError: the file does not give what the head would. WeightsError: another width."""
        for name in STATES:
            if (width := self.program.width(name)) not in (None, self.width):
                raise WeightsError(
                    f"{self.program.path}: gives states of width {width}, and config.json says {self.width}; they "
                    "belong to different models"
                )
        head, gives = self._described[0].head, set(self._outputs)
        if head is not None and head.FIELDS == ("pooler_output",) and "pooler_output" not in gives:
            self._described[0].head = head = None  # a body may have been exported without its pooler
        needed = {"last_hidden_state"} if head is None else set(head.FIELDS)
        if missing := sorted(needed - gives):
            raise UnsupportedError(
                f"{self.program.path}: gives {', '.join(map(safe_repr, self.program.outputs))} and no "
                f"{' or '.join(missing)}, which this head needs; load it for its own task, or export the model for "
                "this one"
            )

    @property
    def head(self) -> Head | None:  # type: ignore[override]
        """The head without its weights: what it is called, and how its loss is computed."""
        return self._described[0].head

    @property
    def fixed_precision(self) -> str:
        narrow = any(x.dtype in ("int8", "uint8") and len(x.shape) > 1 for x in self.program.weights)
        return "int8" if narrow else "fp16" if self.computes_in.dtype == torch.float16 else "fp32"

    # ------------------------------------------------------------------------------------------------ its call

    def forward(self, batch: Batch, flow: Flow) -> Output:
        output = Output({name: x for name, x in self._run(batch, flow).items() if name in FIELDS})
        if flow.last and output.logits is not None and output.logits.dim() == 3:
            output = replace(output, logits=output.logits[:, -flow.last :])
        return output

    def states(self, batch: Batch, flow: Flow) -> Tensor:
        if "last_hidden_state" not in self._outputs:
            raise UnsupportedError(
                f"{self.program.path}: gives {', '.join(self.program.outputs)}, and no hidden states to make a vector "
                "of; export the model with its body: glassformer export MODEL"
            )
        return self._run(batch, flow)["last_hidden_state"]

    def _run(self, batch: Batch, flow: Flow) -> dict[str, Tensor]:
        """The outputs by the names that networks give them, texts packed as they were."""
        if flow.cache is not None:
            self.refuse("continued token by token with a cache, as text generation does")
        if flow.memory is not None:
            self.refuse("given the output of an encoder")
        if flow.tape is not None:
            self.refuse("recorded")
        packing = flow.packing
        if packing is not None:
            batch, flow = self._unpacked(batch, flow)
        given = self._given(batch, flow)
        results = self.program(given)
        outputs = {name: results[own] for name, own in self._outputs.items()}
        if packing is None:
            return outputs
        joined = {name for name, x in outputs.items() if self._is_by_token(name, x)}
        lengths = packing.lengths
        return {
            name: torch.cat([row[:n] for row, n in zip(x, lengths, strict=True)])[None] if name in joined else x
            for name, x in outputs.items()
        }

    def _is_by_token(self, name: str, x: Tensor) -> bool:
        """Whether an output has numbers for each token, and not for a text."""
        by_token = name in ("start_logits", "end_logits") or (self.head is not None and self.head.LOGIT_A_TOKEN)
        return x.dim() == 3 or (by_token and name.endswith("logits"))

    def _unpacked(self, batch: Batch, flow: Flow) -> tuple[Batch, Flow]:
        """The texts of a packed row below each other, padded on the right."""
        assert flow.packing is not None
        lengths = list(flow.packing.lengths)

        def rows(x: Tensor | None, fill: int) -> Tensor | None:
            return None if x is None else pad_sequence(list(x[0].split(lengths)), True, fill)

        keep = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
        ids, types, boxes = rows(batch.input_ids, self.padding), rows(batch.token_type_ids, 0), rows(batch.bbox, 0)
        positions = rows(flow.positions, 0)
        padded = replace(batch, input_ids=ids, token_type_ids=types, bbox=boxes)
        return padded, replace(flow, packing=None, keep=keep[:, None], positions=positions)

    def _given(self, batch: Batch, flow: Flow) -> dict[str, Tensor]:
        """What the file reads. Raises: ConfigError: a mask of pairs of tokens, or positions, which it does not take."""
        keeps = {
            "attention_mask": flow.keep,
            "decoder_attention_mask": batch.decoder_keep,
            "visual_attention_mask": batch.visual_keep,
        }
        if flow.keep is not None and flow.keep.shape[1] != 1:
            raise ConfigError(f"{self.program.path}: takes a mask of tokens, and not of pairs of them [B, T, T]")
        if flow.positions is not None and "position_ids" not in self.program.inputs:
            raise ConfigError(f"{self.program.path}: takes no position_ids; leave them out")
        given: dict[str, Tensor] = {}
        for name in self.program.inputs:
            if name in MASKS:
                keep, masked = keeps[name], next(x for n in MASKS[name] if (x := getattr(batch, n)) is not None)
                given[name] = torch.ones(masked.shape[:2]) if keep is None else keep[:, -1]
            elif name == "position_ids":
                assert batch.input_ids is not None
                given[name] = flow.token_positions(batch.input_ids).expand(batch.input_ids.shape[:2])
            elif (x := getattr(batch, name)) is not None:
                given[name] = x
            elif name == "token_type_ids" and batch.input_ids is not None:
                given[name] = torch.zeros_like(batch.input_ids)
            else:
                raise ConfigError(f"{self.program.path}: reads {', '.join(self.READS)}; got no {name}")
            if given[name].is_floating_point() != self.program.inputs[name].is_floating_point and name not in MASKS:
                raise ConfigError(f"{self.program.path}: reads {name} as numbers of tokens; got vectors")
        return given

    # ------------------------------------------------------------------------- what belongs to networks with layers

    def refuse(self, action: str) -> NoReturn:
        raise UnsupportedError(
            f"{self.program.path} is run by ONNX Runtime as a whole and cannot be {action}; load the model that it was "
            "exported from"
        )

    def train(self, mode: bool = True) -> OnnxNetwork:
        if mode:
            self.refuse("trained")
        return super().train(mode)

    def check_trainable(self, action: str = "trained") -> None:
        self.refuse(action)

    def fingerprint(self, names: Any = None, *, dtypes: bool = True) -> str:
        return self._digest[:10]

    @cached_property
    def _digest(self) -> str:
        return file_sha256(self.program.path)

    def stacks(self) -> dict[str, Stack]:
        """The streams by name, without blocks: none can be seen."""
        return dict.fromkeys(self._described[0].stacks(), cast("Stack", ()))

    @property
    def embedding(self) -> Embedding:
        self.refuse("asked for its table of embeddings")

    def taps(self) -> list[str]:
        self.refuse("looked into")

    def stream_taps(self) -> dict[str, tuple[str, ...]]:
        self.refuse("looked into")

    def attention_layout(self) -> dict[str, AttentionGroup]:
        self.refuse("looked into")

    def gradients(
        self, batch: Batch, flow: Flow, score: Callable[[Output], Tensor], *patterns: str, **options: Any
    ) -> tuple[Tensor, GradientTape]:
        self.refuse("looked into")

    def read_stream(self, x: Tensor, batch: Batch, flow: Flow) -> Output:
        self.refuse("looked into")

    def loss_sums(self, batch: Batch, flow: Flow, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        """From the outputs: a validation loss, without gradients."""
        return self.loss_sums_from_output(batch, flow, labels, smoothing=smoothing)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> OnnxNetwork:
        moved = fn(self.computes_in)
        if moved.device.type != "cpu" or moved.dtype != self.computes_in.dtype:
            kind = str(moved.dtype).removeprefix("torch.")
            self.refuse(f"moved to {moved.device} as {kind}: it computes in its own dtype on the CPU")
        return self


def _reason(problem: Exception) -> str:
    """What the runtime says, without its codes and the places in its source."""
    text = " ".join(str(problem).split()).rpartition("failed:")[2]
    return re.sub(r"^.*onnxruntime_src\S+ .*?\) (?=[A-Z])", "", text)[:300]


def _held(weight: OnnxWeight) -> nn.Module:
    """A weight of the file as a module of its size, on the meta device: it is counted, and takes no memory."""
    dtype = getattr(torch, weight.dtype, torch.uint8)
    x = torch.empty(weight.shape, dtype=dtype, device="meta")
    if weight.is_table:
        rows, columns = weight.shape
        return nn.Embedding(rows, columns, _weight=x, _freeze=True)
    held = nn.Module()
    held.register_parameter("weight", nn.Parameter(x, requires_grad=False))
    return held
