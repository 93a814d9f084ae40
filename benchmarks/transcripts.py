"""Transcripts compared with openai-whisper, recording by recording: segments, their times, and where they part.

    python benchmarks/transcripts.py --model tiny.en/ --language en --beams 1 5
    python benchmarks/transcripts.py --model base/ --beams 5 --minutes 10 --json > base.json

The same weights, samples and options; temperature 0 unless `--fallback`, so that nobody samples. Recordings are the
clips of a folder with manifest.tsv, or one of `--minutes`, joined from those of a language. Two transcripts are equal
where every segment has the same tokens and the same times; where they part, the first segments that differ are shown.
Needs openai-whisper: pip install openai-whisper.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from speech import RATE, SPEECH, as_openai, clips_of, installed_whisper, joined

import glassformer


@dataclass(frozen=True)
class Comparison:
    """One recording, heard by both. equal_until: how many segments are equal from the beginning on"""

    recording: str
    seconds: float
    beams: int
    segments: int
    equal_until: int
    equal: bool
    largest_difference: float | None  # of segment times, in seconds, where the texts are equal
    part: tuple[str, str] | None  # the first two segments that differ, theirs and ours
    took: tuple[float, float]  # processor seconds, theirs and ours


def compare(theirs: Any, ours: Any, name: str, samples: np.ndarray, beams: int, options: dict[str, Any]) -> Comparison:
    start = time.process_time()
    reference = theirs.transcribe(
        samples, beam_size=beams if beams > 1 else None, best_of=5, fp16=False, **options
    )["segments"]  # fmt: skip
    middle = time.process_time()
    done = ours.transcribe(samples, sample_rate_hz=RATE, num_beams=beams, like_openai=True, **options)
    end = time.process_time()
    a = [(round(each["start"], 2), round(each["end"], 2), tuple(each["tokens"]), each["text"]) for each in reference]
    b = [(round(each.start, 2), round(each.end, 2), each.tokens, each.text) for each in done.segments]
    same = [x == y for x, y in zip(a, b, strict=False)]
    until = same.index(False) if False in same else len(same)
    equal = len(a) == len(b) and all(same)
    texts_equal = [x[3] for x in a] == [y[3] for y in b]
    times = [abs(x[i] - y[i]) for x, y in zip(a, b, strict=False) for i in (0, 1)] if texts_equal else None
    shown = [f"{x[until][0]} {x[until][1]}{x[until][3]}" if until < len(x) else "" for x in (a, b)]
    return Comparison(
        recording=name,
        seconds=len(samples) / RATE,
        beams=beams,
        segments=len(a),
        equal_until=until,
        equal=equal,
        largest_difference=max(times, default=0.0) if times is not None else None,
        part=None if equal else (shown[0], shown[1]),
        took=(middle - start, end - middle),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=installed_whisper(), help="a Whisper: folder, file, or name on the Hub")
    parser.add_argument("--sounds", type=Path, default=SPEECH, help="a folder with manifest.tsv")
    parser.add_argument("--language", help="only clips of this language")
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--minutes", type=float, default=0.0, help="only a recording of this many minutes, joined")
    parser.add_argument("--fallback", action="store_true", help="the default temperatures, which sample")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.model is None or not arguments.sounds.is_dir() or not find_spec("whisper"):
        return print("left out: needs --model (a Whisper), --sounds and openai-whisper", file=sys.stderr)
    import torch
    import whisper

    with tempfile.TemporaryDirectory() as folder:
        glassformer.load(arguments.model, dtype="float32").save_pretrained(folder)
        theirs, ours = whisper.load_model(str(as_openai(Path(folder)))), glassformer.load(folder, dtype="float32")
    if arguments.minutes:
        clips = clips_of(arguments.sounds, arguments.language or "en")
        recordings = [(f"joined {arguments.minutes:g} min", "en", joined(clips, arguments.minutes * 60).samples)]
    else:
        recordings = [
            (each.name, each.language, each.samples) for each in clips_of(arguments.sounds, arguments.language)
        ]
    rows = []
    for beams in arguments.beams:
        for name, language, samples in recordings:
            options: dict[str, Any] = {"language": language}
            if not arguments.fallback:
                options["temperature"] = 0.0
            with torch.inference_mode():
                row = compare(theirs, ours, name, samples, beams, options)
            rows.append(row)
            line = "equal" if row.equal else f"{row.equal_until} of {row.segments} segments equal; then {row.part}"
            print(f"{name:60} {beams} beams  {line}", file=sys.stderr if arguments.json else sys.stdout, flush=True)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
