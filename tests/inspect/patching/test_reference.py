"""Patched passes are those of hooks on Hugging Face transformers, in which heads and layers have other names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import glassformer
from glassformer.core.flow import Batch
from glassformer.inspect import Session, SessionInput, Token

transformers = pytest.importorskip("transformers", reason="needs transformers, the reference: pip install transformers")

T, LAYERS, HEADS, WIDTH = 7, 2, 4, 32
SIZES = {"gpt2": {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 16}, "llama": {}, "bert": {}}
COMMON = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 48}
CLASSES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "bert": "BertForMaskedLM"}
PATHS = {  # layers, what the heads go through, the feed-forward layer
    "gpt2": ("transformer.h", "attn.c_proj", "mlp"),
    "llama": ("model.layers", "self_attn.o_proj", "mlp"),
    "bert": ("bert.encoder.layer", "attention.output.dense", "output.dense"),
}


@contextmanager
def hooked(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def before(module: Any, change: Callable[[Tensor], None]) -> Any:
    """A hook on what a module reads."""

    def hook(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        x = args[0].clone()
        change(x)
        return (x, *args[1:])

    return hooked(module.register_forward_pre_hook(hook))


def after(module: Any, change: Callable[[Tensor], None]) -> Any:
    """A hook on what a module gives."""

    def hook(_: Any, __: Any, output: Any) -> Any:
        x = (output[0] if isinstance(output, tuple) else output).clone()
        change(x)
        return (x, *output[1:]) if isinstance(output, tuple) else x

    return hooked(module.register_forward_hook(hook))


@pytest.mark.parametrize("family", CLASSES)
def test_patches_of_the_reference(family: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(family, vocab_size=50, **(SIZES[family] or COMMON))
    reference = getattr(transformers, CLASSES[family])(config).eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    reference.save_pretrained(tmp_path)
    network = glassformer.load(tmp_path).network
    clean_ids, corrupt_ids = torch.randint(0, 50, (2, 1, T))

    def session(ids: Tensor) -> Session:
        tokens = [Token(str(at), str(at), int(at)) for at in ids[0]]
        return Session(network, SessionInput(("a text",), Batch(input_ids=ids), {"text": tokens}))

    clean, corrupt = session(clean_ids), session(corrupt_ids)
    options: Any = {"source": clean, "target": 3, "against": 5, "position": T - 1}
    layers, heads_path, mlp_path = PATHS[family]
    stack = reference.get_submodule(layers)

    def run() -> float:
        with torch.inference_mode():
            logits = reference(corrupt_ids).logits[0, -1]
        return float(logits[3] - logits[5])

    head = slice(2 * WIDTH // HEADS, 3 * WIDTH // HEADS)
    for layer in range(LAYERS):
        block = stack[layer]
        for module, side, part, component in (
            (block.get_submodule(heads_path), before, (..., head), f"blocks.{layer}.attn.z[2]"),
            (block.get_submodule(mlp_path), after, (slice(None), 3), f"blocks.{layer}.ffn.out@3"),
            (block, before, (slice(None), 4), f"blocks.{layer}.before@4"),
        ):
            values = clean_values(reference, clean_ids, module, side)
            with side(module, partial(put, part=part, values=values)):
                value = run()
            assert corrupt.patch(component, **options).after == pytest.approx(value, abs=1e-5), component


def put(x: Tensor, part: Any, values: Tensor) -> None:
    x[part] = values[part]


def clean_values(reference: Any, ids: Tensor, module: Any, side: Callable[..., Any]) -> Tensor:
    """What a module reads or gives in the clean pass."""
    seen: list[Tensor] = []
    with torch.inference_mode(), side(module, lambda x: seen.append(x.clone())):
        reference(ids)
    return seen[0]
