"""Contrastive sentence fine-tuning next to SetFit: quality and time at a few labels, and memory with many rows.

    python benchmarks/few_labels.py emotion --train train.txt.gz --test val.txt
    python benchmarks/few_labels.py memory --rows 100000

`emotion`: the same encoder (all-MiniLM-L6-v2), the same slices, the same number of pairs, one thread, each fit in a
process of its own, the two in turn, ours without the names of labels. Ours compares all texts of a batch, 120 pairs for
16 forward passes; SetFit encodes both texts of each pair. Times are of the processor, for other work on the machine
changes the clock more: learning with the head, without loading and without the test. `--default-pairs` gives SetFit its
own number (20 iterations) instead.
`memory`: the largest resident memory of a fit over that of the loaded encoder; of SetFit, of its pairs alone.

setfit is no dependency: pip install setfit.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from _measure import environment, installed_minilm

SIZES, BATCH = (8, 64), 16
TESTED = 500


def read(path: str) -> tuple[list[str], list[str]]:
    """Texts and labels of `text;label` lines."""
    from glassformer.data.rows import read_rows

    rows = read_rows(path, kind="csv", delimiter=";", names=("text", "label"), header=False, quotes=False)
    return [row["text"] for row in rows], [row["label"] for row in rows]


def fit_ours(model: str, texts: list[str], labels: list[str], seed: int, pairs: int) -> Any:
    """Learn with at most this many pairs. Returns: what answers texts, and the seconds."""
    from glassformer.few_labels import LabelledTexts, Setting, make_method

    steps = max(1, round(pairs / (BATCH * (BATCH - 1) / 2)))
    method = make_method("contrastive", Setting(model=model, seed=seed), steps=steps, epochs=1000, names=0)
    labelled = LabelledTexts.of(texts, labels)
    start = time.process_time()
    method.fit(labelled)
    return method.predict, time.process_time() - start


def fit_setfit(model: str, texts: list[str], labels: list[str], seed: int, iterations: int) -> Any:
    """The same with SetFit; the pairs are 2 × iterations × texts."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    names = sorted({*labels})
    own = SetFitModel.from_pretrained(model)
    own.model_body.max_seq_length = 128
    arguments = TrainingArguments(
        batch_size=BATCH, num_epochs=1, num_iterations=iterations, seed=seed, body_learning_rate=2e-5,
        output_dir="/tmp/setfit", save_strategy="no", report_to="none",
    )  # fmt: skip
    rows = Dataset.from_dict({"text": texts, "label": [names.index(label) for label in labels]})
    trainer = Trainer(model=own, args=arguments, train_dataset=rows)
    start = time.process_time()
    trainer.train()
    seconds = time.process_time() - start
    return lambda new: [names[int(number)] for number in own.predict(new)], seconds


def one(options: argparse.Namespace) -> dict[str, Any]:
    """One fit and its answers."""
    import torch
    from sklearn.metrics import f1_score

    from glassformer.data.splits import slices

    torch.set_num_threads(1)
    texts, labels = read(options.train)
    chosen = slices(labels, [8, 16, 32, 64], seed=options.seed)[[8, 16, 32, 64].index(options.size)]
    own_texts, own_labels = [texts[i] for i in chosen], [labels[i] for i in chosen]
    tests, answers = read(options.test)
    some = slices(answers, [TESTED])[0]
    pairs = 120 * min(60, 30 * options.size // BATCH)  # of the steps that are the default here
    iterations = 20 if options.default_pairs else round(pairs / (2 * options.size))
    model = str(installed_minilm())
    if options.system == "ours":
        predict, seconds = fit_ours(model, own_texts, own_labels, options.seed, pairs)
    else:
        predict, seconds = fit_setfit(model, own_texts, own_labels, options.seed, iterations)
    predicted, right = predict([tests[i] for i in some]), [answers[i] for i in some]
    return {
        "seconds": seconds, "pairs": pairs if options.system == "ours" else 2 * iterations * options.size,
        "accuracy": float(np.mean([a == b for a, b in zip(predicted, right, strict=True)])),
        "f1_macro": float(f1_score(right, predicted, average="macro")),
        "right": [a == b for a, b in zip(predicted, right, strict=True)],
    }  # fmt: skip


def memory(options: argparse.Namespace) -> dict[str, Any]:
    """How many MB a fit on many rows takes beyond the loaded encoder."""
    import torch

    torch.set_num_threads(1)
    draw, words = np.random.default_rng(0), np.array("time fruit flies like an arrow banana the cat reads".split())
    texts = [f"{' '.join(draw.choice(words, 8))} {i}" for i in range(options.rows)]
    labels = [str(i % 6) for i in range(options.rows)]
    if options.system == "setfit":
        from setfit.sampler import ContrastiveDataset

        before = peak()
        ContrastiveDataset(texts, labels, multilabel=False, num_iterations=1)
        return {"rows": options.rows, "mb": peak() - before}
    from glassformer.few_labels import LabelledTexts
    from glassformer.few_labels.contrastive import ContrastiveOptions, tune_encoder
    from glassformer.model import load

    load(installed_minilm()).encode(texts[:BATCH])
    labelled, before = LabelledTexts.of(texts, labels), peak()
    tune_encoder(str(installed_minilm()), labelled, ContrastiveOptions(steps=20), 128, 0)
    return {"rows": options.rows, "mb": peak() - before}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def in_process(arguments: list[str]) -> dict[str, Any]:
    """Run this file once more, and read what it prints last."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    result: dict[str, Any] = json.loads(done.stdout.strip().split("\n")[-1])
    return result


def compare(options: argparse.Namespace) -> None:
    """Both systems in turn, for each size and seed; then the paired difference over seeds and rows."""
    results: dict[tuple[str, int], list[dict[str, Any]]] = {}
    extra = ["--default-pairs"] if options.default_pairs else []
    for size in options.sizes:
        for seed in range(options.seeds):
            for system in ("ours", "setfit"):
                paths = ["--train", options.train, "--test", options.test, *extra]
                given = ["one", "--system", system, "--size", str(size), "--seed", str(seed), *paths]
                result = in_process(given)
                results.setdefault((system, size), []).append(result)
                shown = {name: round(value, 3) for name, value in result.items() if name != "right"}
                print(size, seed, system, shown, flush=True)
    for size in options.sizes:
        ours, theirs = results["ours", size], results["setfit", size]
        ratio = np.median([a["seconds"] / b["seconds"] for a, b in zip(ours, theirs, strict=True)])
        gap = np.array([x["right"] for x in ours], float) - np.array([x["right"] for x in theirs], float)
        low, high = np.quantile(bootstrap(gap), [0.025, 0.975])
        means = [np.mean([x[name] for x in side]) for name in ("accuracy", "f1_macro") for side in (ours, theirs)]
        print(
            f"{size} labels: accuracy {means[0]:.3f} and {means[1]:.3f}, difference {gap.mean():+.3f} [{low:+.3f}, "
            f"{high:+.3f}]; macro F1 {means[2]:.3f} and {means[3]:.3f}; time {ratio:.2f} x that of SetFit"
        )
    print(environment("setfit", "sentence-transformers"))


def bootstrap(gap: np.ndarray) -> np.ndarray:
    """Means of resamples of seeds and rows together. [seeds, rows] → [2000]"""
    draw = np.random.default_rng(0)
    seeds, rows = gap.shape
    return np.array([
        gap[draw.integers(seeds, size=seeds)][:, draw.integers(rows, size=rows)].mean() for _ in range(2_000)
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["emotion", "memory", "one"])
    parser.add_argument("--train")
    parser.add_argument("--test")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--default-pairs", action="store_true")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--system", choices=["ours", "setfit"], default="ours")
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.what == "emotion":
        compare(options)
    else:
        print(json.dumps(one(options) if options.what == "one" else memory(options)))


if __name__ == "__main__":
    main()
