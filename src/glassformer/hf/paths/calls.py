"""Parts of a model called by themselves, by the reference library's paths: `model.encoder.layer[0](x)`.

embeddings  ids ──> x              Embedding
encoder     x ──> Output           Stack
layer       x ──> out              Block
mlp         x ──> out              FeedForward
pooler      x ──> [B, D]           Pooler
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.call import encoder_of
from glassformer.core.blocks import Block, ParallelBlock, run_block
from glassformer.core.embeddings import Embedding
from glassformer.core.feed_forward import FeedForward, GatedFeedForward
from glassformer.core.flow import Flow, Output
from glassformer.core.heads import Pooler
from glassformer.core.stack import Stack
from glassformer.edge import TOKEN_INPUTS, keep_of
from glassformer.engine.prepare import unprepare
from glassformer.errors import UnsupportedError
from glassformer.hf.paths.hooks import LAYERS_IN_TUPLES
from glassformer.models import ConfigReader, Network
from glassformer.models._seq2seq import EncoderDecoder
from glassformer.models.resize import layer_key
from glassformer.pretrained import is_bare, names_of

CALLED = (Stack, Block, ParallelBlock, FeedForward, GatedFeedForward, Embedding, Pooler)
MASKS = ("attention_mask", "hidden_states_mask")


def call_part(network: nn.Module, family: str, path: str, names: Collection[str], *args: Any, **inputs: Any) -> Any:
    """The output of a part with these parameters of ours, and no others; None: there is no such part, or input.

    Args:
        args: token ids, or states [B, T, D], and then a mask
        inputs: by name: `attention_mask`, `token_type_ids`, `position_ids`
    """
    module = next(_modules(network, path, {*names}), None)
    first = args[0] if args else next((inputs[x] for x in ("hidden_states", "input_ids") if x in inputs), None)
    mask = next((inputs[x] for x in MASKS if x in inputs), args[1] if len(args) > 1 else None)
    if module is None or not isinstance(first, Tensor) or not isinstance(mask, Tensor | None):
        return None
    if not isinstance(module, Embedding) and not first.is_floating_point():
        return None
    flow = Flow(keep=_keep(mask), positions=inputs.get("position_ids"))
    if isinstance(module, Embedding):
        return module(first, flow, inputs.get("token_type_ids"))
    if isinstance(module, Pooler):
        return module.pooled(first, flow)
    if isinstance(module, Stack):
        return Output(last_hidden_state=module(first, flow))
    if isinstance(module, FeedForward | GatedFeedForward):
        return module(first, flow)
    stack = next(x for x in network.modules() if isinstance(x, Stack) and module in list(x))
    output = run_block(module, first, stack.prepare(first, flow))  # type: ignore[arg-type] # a block
    return (output,) if family in LAYERS_IN_TUPLES else output


def _modules(network: nn.Module, path: str, names: set[str]) -> Iterator[nn.Module]:
    """Our modules with just these parameters; the only layer of a stack is no stack."""
    layer = path.rpartition(".")[2].isdigit()
    for at, module in network.named_modules():
        own = {f"{at}.{name}" for name, _ in module.named_parameters(remove_duplicate=False)}
        if isinstance(module, CALLED) and own == names and not (layer and isinstance(module, Stack)):
            yield module


def _keep(mask: Tensor | None) -> Tensor | None:
    """Which keys are attended to, of a mask of ones and zeros [B, S], or of numbers added to scores [B, 1, T, S]."""
    if mask is None:
        return None
    if mask.dim() == 2:
        return mask[:, None] != 0
    return (mask[:, 0] if mask.dtype == torch.bool else mask[:, 0] == 0) if mask.dim() == 4 else mask != 0


def layer_list(network: nn.Module, names: Collection[str]) -> str | None:
    """The path of the stack whose layers have these parameters; None: there is none."""
    stacks = (at for at, module in network.named_modules() if isinstance(module, Stack))
    return next(
        (at for at in stacks if {n for n, _ in network.named_parameters() if n.startswith(f"{at}.")} == {*names}), None
    )


def with_layers(network: Any, at: str, chosen: list[int]) -> None:
    """Keep these layers of a stack of a network, in this order; their parameters stay the same objects."""
    old: Stack = network.get_submodule(at)
    blocks = [old[i] for i in chosen]
    made = Stack(replace(old.spec, blocks=tuple(old.spec.blocks[i] for i in chosen)))
    for i, block in enumerate(blocks):
        made._modules[str(i)] = block
    made.bias = old.bias
    stem, _, name = at.rpartition(".")
    setattr(network.get_submodule(stem), name, made)
    network.name_nodes()


@dataclass(frozen=True)
class PartCalls:
    """What a model does with its parts, by their paths in the reference library's model."""

    model: Any

    @property
    def family(self) -> str:
        return str(self.model.family.model_type)

    def __call__(self, path: str, parameters: Collection[str], *args: Any, **inputs: Any) -> Any:
        """The output of a part that is called by itself: of the body, or of the encoder.

        Args:
            parameters: those of ours that it holds
            inputs: as of the model
        Raises: UnsupportedError: another part.
        """
        network: Network = self.model.network
        if isinstance(network, EncoderDecoder) and path.rpartition(".")[2] == "encoder":
            return encoder_of(network, self.family)(*args, **inputs)
        body = {name for name, _ in network.named_parameters() if not name.startswith("head.")}
        if not body <= {*parameters}:
            if (alone := call_part(network, self.family, path, parameters, *args, **inputs)) is not None:
                return alone
            raise UnsupportedError(
                f"{path} is a view of its parameters; call the model: model(…, output_hidden_states=True), or "
                "model(…, tape=Tape('blocks.*.out')) for any activation"
            )
        inputs = {**dict(zip(TOKEN_INPUTS, args, strict=False)), **inputs}
        as_tuple = inputs.pop("return_dict", None) is False
        output: Output = self.model(**inputs)
        states = output.last_hidden_state
        keep = None if states is None else keep_of("attention_mask", inputs.get("attention_mask"), states, None)
        output = self.body_output(parameters, output, Flow(keep=keep))
        return output.to_tuple() if as_tuple else output

    def tensors(self) -> dict[str, list[str]]:
        """Our parameters → the names of their tensors there."""
        names = names_of(self.model)
        prefixed = not is_bare(self.model) and names.prefixed
        every = (name for name, _ in self.model.network.named_parameters(remove_duplicate=False))
        return {ours: list(names.find(ours, prefixed=prefixed)[1]) for ours in every}

    def body_output(self, parameters: Collection[str], output: Output, flow: Flow) -> Output:
        """The output of the body, of the network's: without what the head made, pooled where files have a pooler."""
        head, states = self.model.network.head, output.last_hidden_state
        if head is None or states is None:
            return output
        poolers = (node for at, node in head.named_nodes() if f"head.{at}.dense.weight" in parameters)
        pooled = next((node.pooled(states, flow) for node in poolers if isinstance(node, Pooler)), None)
        fields: dict[str, Any] = {**dict.fromkeys(head.FIELDS), "pooler_output": pooled}
        return replace(output, **fields)

    def keep_layers(self, parameters: Collection[str], chosen: list[int]) -> bool:
        """Keep these layers of the stack with these parameters; False: there is no such stack."""
        network, family, config = self.model.network, self.model.family, self.model.config
        at = layer_list(network, parameters)
        if at is None:
            return False
        config[layer_key(family, config, at)] = len(chosen)
        with_layers(network, at, chosen)
        self.model.spec = family.spec(ConfigReader(config))
        return True

    def unprepare(self) -> None:
        """Put the linear layers back that hooks are on; those stay as they are when the model is prepared again."""
        unprepare(self.model.network)
