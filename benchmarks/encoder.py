"""The encoder compared with its peers: the same weights, the same ids, one run, in turn.

    python benchmarks/encoder.py                         BERT-base shape: variable lengths, 32 × 128, 8 × 512
    python benchmarks/encoder.py --shape minilm          MiniLM shape
    python benchmarks/encoder.py --real                  the real MiniLM on real text, and sentence-transformers
    python benchmarks/encoder.py --quick                 two rounds, a quarter of the texts: within five minutes a load
    python benchmarks/encoder.py --json

Every system turns ids into mean-pooled vectors. "given" means batches of 32 in the given order, "sorted" batches of 32
after sorting by length. Peers compute in the precision that ours is named by where they and the processor have it,
else in fp32. A ratio is ours / theirs in tokens of real text a second, the median over the rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from _measure import Timing, environment, in_turn, installed_minilm, matmul_peak, rows_as_dicts

import glassformer
from glassformer.core.processor import is_fast
from glassformer.engine.encoder import encode
from glassformer.engine.prepare import PRECISIONS, prepare

SHAPES = {
    "bert-base": {},
    "bert-base-4": {"num_hidden_layers": 4},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536},
}


@dataclass(frozen=True)
class Row:
    """One system on one load."""

    load: str
    system: str
    precision: str
    tokens_per_second: float
    ratio_of_ours: float  # ours in the same precision / this system
    share_of_fp32_peak: float


class Ids:
    """Stands in for a tokenizer: text number i is the list of ids number i."""

    def __init__(self, ids: Sequence[list[int]]) -> None:
        self.ids = ids

    def batch_ids(self, texts: Sequence[str], max_tokens: int | None) -> tuple[list[list[int]], int]:
        return [self.ids[int(text)] for text in texts], 0


def lengths_of(load: str, count: int) -> list[int]:
    """Token counts: "variable" is lognormal around 30, from 4 to 128; "32x128" is 32 texts of 128."""
    if load != "variable":
        texts, length = map(int, load.split("x"))
        return [length] * texts
    drawn = np.random.default_rng(0).lognormal(math.log(30), 0.6, count)
    return np.clip(np.round(drawn), 4, 128).astype(int).tolist()


def batches(ids: Sequence[list[int]], ordered: bool, size: int = 32) -> list[list[list[int]]]:
    rows = sorted(ids, key=len) if ordered else list(ids)
    return [rows[i : i + size] for i in range(0, len(rows), size)]


def padded(rows: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    longest = max(map(len, rows))
    ids, mask = np.zeros((2, len(rows), longest), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return ids, mask


# ------------------------------------------------------------------------------------------------ systems


def of_transformers(folder: Path, dtype: torch.dtype, attention: str) -> Callable[..., None]:
    from transformers import AutoModel

    model = AutoModel.from_pretrained(folder, dtype=dtype, attn_implementation=attention).eval()

    def run(ids: Sequence[list[int]], ordered: bool) -> None:
        with torch.inference_mode():
            for rows in batches(ids, ordered):
                inputs, mask = (torch.from_numpy(part) for part in padded(rows))
                states = model(input_ids=inputs, attention_mask=mask).last_hidden_state
                weights = mask[..., None].to(states.dtype)
                (states * weights).sum(1) / weights.sum(1)

    return run


def of_onnxruntime(folder: Path, quantised: bool) -> Callable[..., None]:
    import onnxruntime
    from transformers import AutoModel

    path = folder / "model.onnx"
    if not path.exists():
        model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

        class States(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
                return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

        example = torch.ones(2, 8, dtype=torch.long)
        axes = {name: {0: "batch", 1: "tokens"} for name in ("ids", "mask", "states")}
        with redirect_stdout(StringIO()), torch.no_grad():
            torch.onnx.export(
                States(), (example, example), str(path),
                input_names=["ids", "mask"], output_names=["states"], dynamic_axes=axes, opset_version=17, dynamo=False,
            )  # fmt: skip
        from onnxruntime.transformers import optimizer

        config = model.config
        optimised = optimizer.optimize_model(
            str(path), model_type="bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size
        )
        optimised.save_model_to_file(str(path))
    if quantised:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        int8 = folder / "model-int8.onnx"
        if not int8.exists():
            quantize_dynamic(
                path,
                int8,
                weight_type=QuantType.QInt8,
                per_channel=True,
                extra_options={"DefaultTensorType": 1},
            )
        path = int8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # or it steals the others' cores
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(ids: Sequence[list[int]], ordered: bool) -> None:
        for rows in batches(ids, ordered):
            inputs, mask = padded(rows)
            (states,) = session.run(None, {"ids": inputs, "mask": mask})
            (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)

    return run


def of_ctranslate2(folder: Path, compute_type: str) -> Callable[..., None]:
    import ctranslate2

    converted = folder / "ctranslate2"
    if not converted.exists():
        ctranslate2.converters.TransformersConverter(str(folder)).convert(str(converted))
    encoder = ctranslate2.Encoder(
        str(converted), device="cpu", intra_threads=torch.get_num_threads(), compute_type=compute_type
    )

    def run(ids: Sequence[list[int]], ordered: bool) -> None:
        for rows in batches(ids, ordered):
            states = np.asarray(encoder.forward_batch(rows).last_hidden_state)
            for i, row in enumerate(rows):
                states[i, : len(row)].mean(0)

    return run


def of_ours(folder: Path, precision: str) -> Callable[..., None]:
    model = glassformer.load(folder)
    prepare(model.network, precision)

    def run(ids: Sequence[list[int]], ordered: bool) -> None:
        names = [str(i) for i in range(len(ids))]
        encode(model.network, Ids(ids), names, progress=False)

    return run


def systems_of(folder: Path, precision: str) -> dict[str, Callable[..., None]]:
    """Name → run(ids, ordered), ours first."""
    ours: dict[str, Callable[..., None]] = {"glassformer": of_ours(folder, precision)}
    if precision == "int8":
        return ours | {
            "onnxruntime": of_onnxruntime(folder, quantised=True),
            "ctranslate2": of_ctranslate2(folder, "int8"),
        }
    if precision == "bf16" and is_fast(torch.bfloat16):
        return ours | {"transformers sdpa": of_transformers(folder, torch.bfloat16, "sdpa")}
    return ours | {
        "transformers eager": of_transformers(folder, torch.float32, "eager"),
        "transformers sdpa": of_transformers(folder, torch.float32, "sdpa"),
        "onnxruntime": of_onnxruntime(folder, quantised=False),
        "ctranslate2": of_ctranslate2(folder, "float32"),
    }


# --------------------------------------------------------------------------------------------------- loads


def random_bert(folder: Path, shape: str) -> dict[str, Any]:
    """A BERT of this shape with random weights, as a folder that every peer can read."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(0)
    config = BertConfig(**SHAPES[shape], position_embedding_type="absolute")
    BertModel(config).save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(config.vocab_size - 5))]
    (folder / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return config.to_dict()


def flops(config: dict[str, Any], lengths: Sequence[int]) -> float:
    """Floating-point operations of the blocks: 2 per multiply-add, without padding."""
    width, hidden, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    matrices = 2 * (4 * width * width + 2 * width * hidden)
    return float(layers * sum(n * matrices + 4 * n * n * width for n in lengths))


def measure(folder: Path, config: dict[str, Any], load: str, precision: str, count: int, rounds: int) -> list[Row]:
    lengths = lengths_of(load, count)
    random = np.random.default_rng(1)
    ids = [random.integers(1000, 30_000, n).tolist() for n in lengths]
    orders = (False, True) if load == "variable" else (False,)
    systems: dict[str, Callable[[], None]] = {}
    for name, run in systems_of(folder, precision).items():
        for ordered in orders[:1] if name == "glassformer" else orders:
            label = name if len(orders) == 1 or name == "glassformer" else f"{name}, {'sorted' if ordered else 'given'}"
            systems[label] = lambda run=run, ordered=ordered: run(ids, ordered)
    timings = in_turn(systems, rounds)
    peak, work = matmul_peak(), flops(config, lengths)
    return [
        row_of(load, precision, timing, timings["glassformer"], sum(lengths), work, peak) for timing in timings.values()
    ]


def row_of(load: str, precision: str, timing: Timing, ours: Timing, tokens: int, work: float, peak: float) -> Row:
    return Row(
        load=load,
        system=timing.name,
        precision=precision,
        tokens_per_second=round(tokens / timing.median, 1),
        ratio_of_ours=round(ours.ratio(timing), 3),
        share_of_fp32_peak=round(work / timing.median / 1e9 / peak, 3),
    )


def measure_real(folder: Path, texts: list[str], rounds: int) -> list[Row]:
    """The real MiniLM, from text to vectors, tokenising included, compared with sentence-transformers."""
    from sentence_transformers import SentenceTransformer

    rows: list[Row] = []
    config = json.loads((folder / "config.json").read_text())
    for precision in PRECISIONS:
        model = glassformer.load(folder)
        lengths = [len(ids) for ids in model.tokenizer.batch_ids(texts, 256)[0]]
        model.prepare(precision)
        kind = "bfloat16" if precision == "bf16" and is_fast(torch.bfloat16) else "float32"
        peer = SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": kind})
        timings = in_turn(
            {
                "glassformer": lambda model=model: model.encode(texts, progress=False),
                f"sentence-transformers {kind}": lambda peer=peer: peer.encode(texts, batch_size=32),
            },
            rounds,
        )
        peak, work = matmul_peak(), flops(config, lengths)
        rows += [
            row_of("real text", precision, timing, timings["glassformer"], sum(lengths), work, peak)
            for timing in timings.values()
        ]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="bert-base")
    parser.add_argument("--loads", nargs="+", help="[default: variable 32x128 8x512]")
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--texts", type=int, default=96, help="texts of the variable load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds: 32 texts, 8x128, 2x512")
    parser.add_argument("--real", action="store_true", help="the real MiniLM, from text to vectors")
    parser.add_argument(
        "--minilm", type=Path, default=installed_minilm(), help="its folder [default: the installed one]"
    )
    parser.add_argument("--file", type=Path, help="its texts, one a line [default: a sample of everyday text]")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.texts, options.rounds = 32, 2
    options.loads = options.loads or ["variable", *(("8x128", "2x512") if options.quick else ("32x128", "8x512"))]
    warnings.filterwarnings("ignore")
    transformers.utils.logging.disable_progress_bar()

    rows: list[Row] = []
    if options.real:
        if options.minilm is None:
            parser.error("no MiniLM is installed (requirements/minilm.txt); name its folder with --minilm")
        from glassformer.evaluation.bench import sample_texts

        texts = options.file.read_text("utf-8").splitlines()[:512] if options.file else sample_texts(512)
        rows = measure_real(options.minilm, texts, options.rounds)
    else:
        with tempfile.TemporaryDirectory() as place:
            config = random_bert(Path(place), options.shape)
            for load in options.loads:
                for precision in options.precisions:
                    rows += measure(Path(place), config, load, precision, options.texts, options.rounds)
                    if not options.json:
                        show(
                            rows[-1].load,
                            [row for row in rows if (row.load, row.precision) == (load, precision)],
                        )
    if options.json:
        packages = ("transformers", "sentence-transformers", "onnxruntime", "ctranslate2")
        print(json.dumps({"environment": environment(*packages), "rows": rows_as_dicts(rows)}, indent=2))
    elif options.real:
        show("real text", rows)


def show(load: str, rows: Sequence[Row]) -> None:
    print(f"\n{load:<32}{'precision':>10}{'tokens/s':>10}{'ours / this':>13}{'of fp32 peak':>14}")
    for row in rows:
        print(
            f"  {row.system:<30}{row.precision:>10}{row.tokens_per_second:>10.0f}"
            f"{row.ratio_of_ours:>13.2f}{row.share_of_fp32_peak:>14.2f}"
        )


if __name__ == "__main__":
    main()
