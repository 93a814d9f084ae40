"""Generating compared with the peers: tokens a second, one process a library, in turn.

    python benchmarks/decoder.py                        every case, five rounds
    python benchmarks/decoder.py --case gpt2 --rounds 3
    python benchmarks/decoder.py --quick                one round: within five minutes a case
    python benchmarks/decoder.py --json

Cases: the shape of GPT-2 small, one prompt of 64 tokens and eight of them, with five beams, and a prompt of 512 tokens
read alone; a Llama of 100 million weights; T5-small and a translator of 6 + 6 layers of width 512, 30 tokens read, one
text and eight, greedy and with four beams. Random weights, the same for all; 64 new tokens (32 for the
encoder-decoders), and no end before.

Libraries that share a process slow each other down, so each has its own. Seconds are those of all new tokens but the
first, which comes out of the prompt's pass: (time for N tokens - time for 1) / (N - 1).
A ratio is ours / theirs, the median over rounds: larger is better. `limit` is the share of the memory's bandwidth that
reading every weight once a step would take; the bandwidth is that of a sum over 256 MB, measured alongside.
llama.cpp reads the GGUF file that we export, with the output layer in 6 bits next to 4, as its own tool writes it. It
takes part where `cyllama` is installed (`pip install cyllama`); the others come with `make bench`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _measure import environment

SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_positions": 1024,
        "n_embd": 768, "n_layer": 12, "n_head": 12, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2,
    },
    "llama": {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 32000, "hidden_size": 768,
        "intermediate_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 12, "num_key_value_heads": 4,
        "max_position_embeddings": 1024, "tie_word_embeddings": True, "bos_token_id": 0, "eos_token_id": 1,
        "pad_token_id": 2,
    },
    "t5-small": {
        "model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 32128, "d_model": 512,
        "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_decoder_layers": 6, "num_heads": 8, "decoder_start_token_id": 0,
        "pad_token_id": 0, "eos_token_id": 1,
    },
    "6x512": {
        "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "vocab_size": 32000, "d_model": 512,
        "encoder_layers": 6, "decoder_layers": 6, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
        "encoder_ffn_dim": 2048, "decoder_ffn_dim": 2048, "max_position_embeddings": 512, "decoder_start_token_id": 2,
        "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "forced_eos_token_id": None, "normalize_before": False,
        "normalize_embedding": True, "add_final_layer_norm": False,
    },
}  # fmt: skip
DECODERS = ("gpt2", "llama")
"""The shapes that have no encoder."""


@dataclass(frozen=True)
class Case:
    """What is generated: rows of `read` tokens, `new` tokens each; 0 = the prompt's pass alone."""

    name: str
    shape: str
    rows: int = 1
    read: int = 64
    new: int = 64
    beams: int = 1


CASES = [
    Case("gpt2", "gpt2"),
    Case("gpt2, 8 rows", "gpt2", rows=8),
    Case("gpt2, 5 beams", "gpt2", beams=5),
    Case("gpt2, 512 read", "gpt2", read=512, new=0),
    Case("llama", "llama"),
    Case("t5-small", "t5-small", read=30, new=32),
    Case("t5-small, 8 rows", "t5-small", rows=8, read=30, new=32),
    Case("t5-small, 8 rows, 4 beams", "t5-small", rows=8, read=30, new=32, beams=4),
    Case("6x512", "6x512", read=30, new=32),
    Case("6x512, 4 beams", "6x512", read=30, new=32, beams=4),
]

BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "int8": 1, "int4": 0.625}  # 4 bits: with a scale in fp32 for 32 weights
SYSTEMS = [
    *(("glassformer", precision) for precision in BYTES),
    ("transformers", "fp32"),
    ("transformers", "bf16"),
    ("ctranslate2", "fp32"),
    ("ctranslate2", "int8"),
    ("llama.cpp", "fp32"),
    ("llama.cpp", "bf16"),
    ("llama.cpp", "int8"),
    ("llama.cpp", "int4"),
]
PLACE = os.environ.get("GLASSFORMER_BENCH_PACKAGES")
"""A folder with further packages, such as a llama.cpp that was built for this machine."""


def takes_part(system: str, precision: str, case: Case) -> bool:
    if system == "transformers" and precision == "bf16":
        import torch

        from glassformer.core.processor import is_fast

        return is_fast(torch.bfloat16)  # emulated, it takes minutes
    if system != "llama.cpp":
        return True
    # Here it reads one row without beams; GGUF files of ours hold decoders.
    return find_spec("cyllama") is not None and case.shape in DECODERS and case.rows == case.beams == 1


# ------------------------------------------------------------------------------------------- a child: one library

Generate = Callable[[int], int]
"""(new tokens) → how many came, over all rows"""


def ours(folder: Path, case: Case, precision: str) -> Generate:
    import torch

    import glassformer

    # In 4 bits weights of blocks are levels alone, and the table of tokens has 8 bits.
    narrow = precision == "int4"
    model = glassformer.load(folder, dtype="int4" if narrow else None).prepare("fp32" if narrow else precision)
    ids = torch.tensor(prompts(case))

    def run(new: int) -> int:
        out = model.generate(ids, max_new_tokens=new, min_new_tokens=new, num_beams=case.beams)
        begun = 1 if model.task == "translation" else ids.shape[1]
        return (out.shape[1] - begun) * len(out)

    return run


def transformers(folder: Path, case: Case, precision: str) -> Generate:
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM

    kind = AutoModelForCausalLM if case.shape in DECODERS else AutoModelForSeq2SeqLM
    model = kind.from_pretrained(folder, dtype=torch.bfloat16 if precision == "bf16" else torch.float32).eval()
    ids = torch.tensor(prompts(case))
    mask = torch.ones_like(ids)

    def run(new: int) -> int:
        with torch.inference_mode():
            out = model.generate(
                ids, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, num_beams=case.beams,
                do_sample=False,
            )  # fmt: skip
        begun = ids.shape[1] if case.shape in DECODERS else 1
        return int((out.shape[1] - begun) * len(out))

    return run


def ctranslate2(folder: Path, case: Case, precision: str) -> Generate:
    import ctranslate2 as library

    kind = "int8" if precision == "int8" else "float32"
    place = folder / f"ctranslate2-{kind}"
    if not place.exists():
        library.converters.TransformersConverter(str(folder)).convert(str(place), quantization=kind)
    rows = [[f"t{number}" for number in row] for row in prompts(case)]
    threads = {"inter_threads": 1, "intra_threads": cores(), "compute_type": kind}
    if case.shape in DECODERS:
        generator = library.Generator(str(place), **threads)

        def run(new: int) -> int:
            found = generator.generate_batch(
                rows, max_length=new, min_length=new, beam_size=case.beams, include_prompt_in_result=False,
                sampling_topk=1,
            )  # fmt: skip
            return sum(len(one.sequences_ids[0]) for one in found)

        return run
    translator = library.Translator(str(place), **threads)

    def run(new: int) -> int:
        found = translator.translate_batch(rows, max_decoding_length=new, min_decoding_length=new, beam_size=case.beams)
        return sum(len(one.hypotheses[0]) for one in found)

    return run


def llama_cpp(folder: Path, case: Case, precision: str) -> Generate:
    import cyllama.llama.llama_cpp as library

    library.disable_logging()
    model = library.LlamaModel(str(gguf_file(folder, precision)), library.LlamaModelParams())
    options = library.LlamaContextParams()
    options.n_ctx, options.n_batch, options.n_threads, options.n_threads_batch = 1024, 512, cores(), cores()
    context = library.LlamaContext(model, options)
    batch = library.LlamaBatch(n_tokens=512, embd=0, n_seq_max=1)
    prompt = prompts(case)[0]

    def run(new: int) -> int:
        context.kv_cache_clear()
        batch.set_batch(prompt, 0, False)
        context.decode(batch)
        for past in range(len(prompt), len(prompt) + new - 1):  # its binding has no fast way to the likeliest token
            batch.set_batch([prompt[0]], past, False)
            context.decode(batch)
        return max(new, 1)

    return run


def gguf_file(folder: Path, precision: str) -> Path:
    """The exported model, made once."""
    import glassformer
    from glassformer.export.gguf import export_gguf

    types = {"fp32": "f32", "bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}
    place = folder / f"gguf-{precision}"
    file = place / "model.gguf"
    return file if file.exists() else export_gguf(glassformer.load(folder), place, types[precision])[0]


CHILDREN = {
    "glassformer": ours,
    "transformers": transformers,
    "ctranslate2": ctranslate2,
    "llama.cpp": llama_cpp,
}


def child(system: str, precision: str, case: Case, folder: Path) -> float:
    """Tokens a second of one library in this process."""
    run = CHILDREN[system](folder, case, precision)
    run(4)
    if case.new == 0:
        seconds = min(timed(run, 1)[0] for _ in range(3))
        return case.read * case.rows / seconds
    first = min(timed(run, 1)[0] for _ in range(3))
    seconds, tokens = min(timed(run, case.new) for _ in range(2))
    if tokens != case.new * case.rows:
        raise SystemExit(f"{system} wrote {tokens} tokens instead of {case.new * case.rows}")
    return (case.new - 1) * case.rows / (seconds - first)


def timed(run: Generate, new: int) -> tuple[float, int]:
    start = time.perf_counter()
    tokens = run(new)
    return time.perf_counter() - start, tokens


def prompts(case: Case) -> list[list[int]]:
    from random import Random

    draw = Random(0)
    return [[draw.randrange(300, 30_000) for _ in range(case.read)] for _ in range(case.rows)]


def cores() -> int:
    import torch

    return torch.get_num_threads()


# ----------------------------------------------------------------------------------------------------- checkpoints


def write(folder: Path, shape: str) -> None:
    """A random checkpoint, and a tokenizer for peers' converters: bytes, and tokens `t0`, `t1`, … by their ids."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    from glassformer.model import Model

    torch.manual_seed(0)
    config = SHAPES[shape]
    model = Model.from_config(config)
    model.save_pretrained(folder)
    words = {f"t{number}": number for number in range(config["vocab_size"])}
    for number, byte in enumerate(sorted(ByteLevel.alphabet()), 3):  # after the special tokens
        del words[f"t{number}"]
        words[byte] = number
    words["ab"] = words.pop(f"t{len(words) - 1}")  # llama.cpp asks for a merge
    tokenizer = Tokenizer(BPE(words, [("a", "b")]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {
        "pad_token": f"t{config['pad_token_id']}",
        "eos_token": f"t{config['eos_token_id']}",
    }
    start = config.get("bos_token_id", config.get("decoder_start_token_id"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": f"t{start}", **special}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


# ------------------------------------------------------------------------------------------------------ the parent


@dataclass(frozen=True)
class Row:
    """One library in one precision on one case: medians over the rounds."""

    case: str
    system: str
    precision: str
    tokens_per_second: float
    limit: float | None  # share of the bandwidth; None where weights are read for many tokens at once
    ratios_of_ours: dict[str, float]  # our tokens a second in each precision / its own


def measured(system: str, precision: str, case: Case, folder: Path) -> float:
    """Tokens a second, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, "--child", system, precision, case.name, str(folder)],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"{system} {precision} failed on {case.name}:\n{done.stderr}")
    return float(done.stdout.splitlines()[-1])


def bandwidth() -> float:
    """Bytes a second of a sum that reads 256 MB."""
    import torch

    x = torch.ones(2**26)
    x.sum()
    return 4 * x.numel() / min(timed(lambda _: int(x.sum()), 0)[0] for _ in range(8))


def weights_of(shape: str, folder: Path) -> int:
    """How many weights a step of the decoder reads: its blocks, and the table as the head."""
    from safetensors import safe_open

    with safe_open(folder / "model.safetensors", "np") as file:
        sizes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    tables = ("wpe", "embed_positions", "encoder.", "relative_attention_bias")
    matrices = {name: s for name, s in sizes.items() if len(s) == 2 and not any(t in name for t in tables)}
    return sum(rows * columns for rows, columns in matrices.values())


def compare(case: Case, rounds: int, folder: Path) -> list[Row]:
    systems = [(system, precision) for system, precision in SYSTEMS if takes_part(system, precision, case)]
    rates: dict[tuple[str, str], list[float]] = {each: [] for each in systems}
    speeds = []
    for number in range(rounds):
        speeds.append(bandwidth())
        for each in systems:
            rates[each].append(measured(*each, case, folder))
        print(f"{case.name}: round {number + 1} of {rounds}", file=sys.stderr)
    read = weights_of(case.shape, folder)
    steps = None if case.new == 0 or case.rows > 1 else read / statistics.median(speeds)

    def ratio(precision: str, theirs: list[float]) -> float:
        ours = rates["glassformer", precision]
        return round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2)

    return [
        Row(
            case.name, system, precision, round(statistics.median(found), 1),
            None if steps is None else round(statistics.median(found) * steps * BYTES[precision], 2),
            {name: ratio(name, found) for name in BYTES},
        )
        for (system, precision), found in rates.items()
    ]  # fmt: skip


def show(rows: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold")
    for column in ("case", "system", "precision", "tokens/s", "limit", *(f"ours {p} /" for p in BYTES)):
        table.add_column(column, justify="left" if column in ("case", "system", "precision") else "right")
    for row in rows:
        cells = [f"{row.ratios_of_ours[p]:.2f}" for p in BYTES]
        limit = "" if row.limit is None else f"{row.limit:.2f}"
        table.add_row(row.case, row.system, row.precision, f"{row.tokens_per_second:.1f}", limit, *cells)
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", help="only cases whose name begins so")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_const", const=1, dest="rounds", help="one round")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        system, precision, name, folder = asked.child
        case = next(case for case in CASES if case.name == name)
        print(child(system, precision, case, Path(folder)))
        return
    cases = [case for case in CASES if case.name.startswith(asked.case or "")]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as place:
        for case in cases:
            folder = Path(place) / case.shape
            if not folder.exists():
                write(folder, case.shape)
            rows += compare(case, asked.rounds, folder)
    if asked.json:
        report = {
            "environment": environment("transformers", "ctranslate2"),
            "rows": [asdict(row) for row in rows],
        }
        print(json.dumps(report, indent=2))
    else:
        show(rows)


if __name__ == "__main__":
    if PLACE:
        sys.path.append(PLACE)
    main()
