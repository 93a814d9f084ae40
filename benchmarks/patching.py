"""CPU time of a patching sweep of a random GPT-2 (124M) over 12 layers × 20 positions, compared with TransformerLens.

    python benchmarks/patching.py --model FOLDER --make       # writes the model and the ids; needs transformers
    python benchmarks/patching.py --model FOLDER              # ours: one pass a patch, and rows of one pass
    python benchmarks/patching.py --model FOLDER --lens       # in an environment with transformer-lens 2

Both print CPU seconds of one core for each patch, peak memory, and write the values; the second to run compares them.
"""

from __future__ import annotations

import argparse
import resource
import time
from pathlib import Path
from typing import Any

import torch

LAYERS, TOKENS, TARGET, AGAINST = 12, 20, 5, 7
CELLS = [(layer, position) for layer in range(0, LAYERS, 2) for position in (0, 9, TOKENS - 1)]


def make(folder: Path) -> None:
    """Write a random model and two texts."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config())
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:  # else every text predicts the same
                parameter.mul_(2.0)
    model.save_pretrained(folder)
    torch.save(torch.randint(0, 50257, (2, TOKENS)), folder / "ids.pt")


def ours(folder: Path, ids: torch.Tensor) -> dict[tuple[int, int], float]:
    import glassformer
    from glassformer.core.flow import Batch
    from glassformer.inspect import Session, SessionInput, Token
    from glassformer.inspect.patching import effects, patches

    network = glassformer.load(folder).network

    def session(row: torch.Tensor) -> Session:
        tokens = [Token(str(at), str(at), int(at)) for at in row]
        return Session(network, SessionInput(("ids",), Batch(input_ids=row[None]), {"text": tokens}))

    clean, corrupt = session(ids[0]), session(ids[1])
    options: Any = {"source": clean, "target": TARGET, "against": AGAINST}
    start = time.process_time()
    values = corrupt.sweep("residual", **options).values
    report("glassformer, rows of one pass", start, values.numel())
    patches.TOKENS_AT_ONCE = TOKENS
    setting = effects.patching(corrupt, options)
    cells = [[patches.Component(f"blocks.{layer}.before", None, (position,))] for layer, position in CELLS]
    apart, start = setting.patches(cells), time.process_time()
    list(setting.run(apart))
    report("glassformer, one pass a patch", start, len(CELLS))
    return {(layer, position): float(values[layer, position]) for layer, position in CELLS}


def lens(folder: Path, ids: torch.Tensor) -> dict[tuple[int, int], float]:
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    from transformer_lens.pretrained.weight_conversions import convert_gpt2_weights
    from transformers import GPT2LMHeadModel

    config = HookedTransformerConfig(
        n_layers=LAYERS, d_model=768, n_ctx=1024, d_head=64, n_heads=12, d_mlp=3072, d_vocab=50257,
        act_fn="gelu_new", normalization_type="LN", device="cpu", eps=1e-5,
    )  # fmt: skip
    model = HookedTransformer(config)
    model.load_state_dict(convert_gpt2_weights(GPT2LMHeadModel.from_pretrained(folder), config), strict=False)
    values = {}
    with torch.inference_mode():
        _, cache = model.run_with_cache(ids[:1])
        start = time.process_time()
        for layer, position in CELLS:

            def swap(x: torch.Tensor, hook: Any, layer: int = layer, position: int = position) -> torch.Tensor:
                x[:, position] = cache["resid_pre", layer][:, position]
                return x

            logits = model.run_with_hooks(ids[1:], fwd_hooks=[(f"blocks.{layer}.hook_resid_pre", swap)])[0, -1]
            values[layer, position] = float(logits[TARGET] - logits[AGAINST])
    report("TransformerLens", start, len(CELLS))
    return values


def report(name: str, start: float, patches: int) -> None:
    seconds = (time.process_time() - start) / patches
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(f"{name}: {seconds:.3f} s a patch, peak {peak:,.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--lens", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.make:
        make(options.model)
        return
    ids = torch.load(options.model / "ids.pt")
    own, other = (options.model / f"{name}.pt" for name in (("lens", "ours") if options.lens else ("ours", "lens")))
    values = (lens if options.lens else ours)(options.model, ids)
    torch.save(values, own)
    if other.is_file():
        theirs = torch.load(other)
        print(f"largest difference {max(abs(values[cell] - theirs[cell]) for cell in CELLS):.1e}")


if __name__ == "__main__":
    main()
