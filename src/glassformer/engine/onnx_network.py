"""ONNX Runtime as a network: a model whose forward pass an ONNX file computes, with the interface of all others.

    batch, flow ──texts of a packed row below each other──> session.run ──> Output, in the layout of the batch

Whatever calls a network, such as `encode`, pipelines and evaluation, runs on it; what generates text, by its file of
a step (`OnnxSteps`). It has no layers: training, pruning, quantising and looking inside are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, NoReturn, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from glassformer.core.cache import KeyValueCache
from glassformer.core.embeddings import Embedding
from glassformer.core.flow import Batch, EncoderOutput, Flow, Output
from glassformer.core.gradient_tape import GradientTape
from glassformer.core.heads import Head, Labels
from glassformer.core.stack import AttentionGroup, Stack
from glassformer.engine.onnx_program import OnnxProgram
from glassformer.engine.onnx_steps import OnnxSteps
from glassformer.errors import ConfigError, UnsupportedError, WeightsError
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
FIELDS = frozenset(field.name for field in fields(Output)) - {"cache", "taps", "loss"}


class OnnxNetwork(Network):
    """A network that ONNX Runtime runs.

    Args:
        described: the same network on the meta device: what it reads, its sizes and its head, without weights
        program: the file; of an encoder-decoder that of the encoder
        padding: the id that texts are filled up with
        steps: generates text; of an encoder-decoder it is the decoder
    Raises: UnsupportedError: the file reads or gives other tensors than the network.
    """

    def __init__(
        self, described: Network, program: OnnxProgram, padding: int = 0, steps: OnnxSteps | None = None
    ) -> None:
        inputs = program.inputs
        sizes = described.sizes if "token_type_ids" in inputs else replace(described.sizes, token_types=0)
        super().__init__(sizes)
        self.program, self.padding, self.steps = program, padding, steps
        # In a tuple, so that its parts are no modules of this one: they hold no weights.
        self._described = (described,)
        known = {*described.READS, *MASKS, "position_ids", *(self._no_past(0))}
        if other := [name for name in inputs if name not in known]:
            raise UnsupportedError(
                f"{program.path}: reads {', '.join(map(safe_repr, other))}; a whole forward pass reads "
                f"{', '.join(described.READS)}: export the model without past keys and values"
            )
        of_target = ("decoder_input_ids",) if self._answers else ()
        self.READS = tuple(name for name in described.READS if name in (*inputs, *of_target))  # type: ignore[misc]
        self.POOLING = described.POOLING  # type: ignore[misc]
        self._outputs = {("last_hidden_state" if name in STATES else name): name for name in program.outputs}
        if not self._answers:
            self._check_outputs()
        weights = [*program.weights, *(steps.program.weights if steps is not None and self._answers else ())]
        kind = next((x.dtype for x in weights if x.dtype in ("float16", "float32", "float64")), "float32")
        # The first parameter says where a network computes, and in which dtype.
        self.computes_in = nn.Parameter(torch.zeros(0, dtype=getattr(torch, kind)), requires_grad=False)
        self.weights = nn.ModuleList(map(_held, weights))
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
    def _answers(self) -> bool:
        """Whether it is an encoder-decoder, whose program is the encoder."""
        return self.steps is not None and self.steps.reads_source

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
        if self.steps is not None and (flow.cache is not None or self._answers):
            output = self._continued(self.steps, batch, flow)
        else:
            output = Output({name: x for name, x in self._run(batch, flow).items() if name in FIELDS})
        if flow.last and output.logits is not None and output.logits.dim() == 3:
            output = replace(output, logits=output.logits[:, -flow.last :])
        return output

    def _continued(self, steps: OnnxSteps, batch: Batch, flow: Flow) -> Output:
        """The logits of tokens that follow those of the cache."""
        if flow.tape is not None:
            self.refuse("recorded")
        if flow.positions is not None and "position_ids" not in steps.program.inputs:
            raise ConfigError(f"{steps.program.path}: takes no position_ids; leave them out")
        cache = KeyValueCache(lazy=True) if flow.cache is None else flow.cache
        if not self._answers:
            logits = steps(batch.input_ids, flow.keep, cache, positions=flow.positions)
            return Output(logits=logits, cache=flow.cache)
        memory = self.memory(batch, flow) if flow.memory is None else flow.memory
        return Output(logits=steps(batch.decoder_input_ids, batch.decoder_keep, cache, memory), cache=flow.cache)

    def memory(self, batch: Batch, flow: Flow) -> EncoderOutput | None:
        if self.steps is None or not self._answers:
            return None
        return EncoderOutput(self.steps.joined(self._run(batch, replace(flow, cache=None))), flow.keep)

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
            self.refuse("continued token by token, as text generation does, without step.onnx next to it")
        if flow.memory is not None:
            self.refuse("given the output of an encoder")
        if flow.tape is not None:
            self.refuse("recorded")
        packing = flow.packing
        if packing is not None:
            batch, flow = self._unpacked(batch, flow)
        given = self._given(batch, flow)
        given |= self._no_past(len(next(iter(given.values()))))
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

    def _no_past(self, rows: int) -> dict[str, Tensor]:
        """What its program reads of earlier tokens where there are none, if it is that of the steps too."""
        return self.steps.no_past(rows) if self.steps is not None and self.steps.takes_whole_texts else {}

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
        for name in [x for x in self.program.inputs if x not in self._no_past(0)]:
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
        programs = [self.program, *([self.steps.program] if self.steps is not None and self._answers else [])]
        paths = dict.fromkeys(path for program in programs for path in program.files)
        return hashlib.sha256("".join(map(file_sha256, paths)).encode()).hexdigest()

    def stacks(self) -> dict[str, Stack]:
        """The streams by name, without blocks: none can be seen."""
        return {name: cast("Stack", _NoBlocks(stack)) for name, stack in self._described[0].stacks().items()}

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


class _NoBlocks(tuple[()]):
    """A stack none of whose blocks can be seen."""

    rotary_switches: set[int]

    def __new__(cls, stack: Stack) -> _NoBlocks:
        made = super().__new__(cls)
        made.rotary_switches = stack.rotary_switches
        return made


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
