"""Times of words compared with faster-whisper: how far apart they begin and end, recording by recording.

    python benchmarks/word_times.py                                        Whisper tiny.en, the English recordings
    python benchmarks/word_times.py --model openai/whisper-base --language de fr --json

The same weights in fp32, greedy, temperature 0. Words are those that both wrote, in the order of the recording; what
one of them heard otherwise is left out, and counted. Needs faster-whisper: pip install faster-whisper.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from difflib import SequenceMatcher
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from speech import RATE, SPEECH, as_ctranslate2, clips_of, installed_whisper

import glassformer


class Word(NamedTuple):
    text: str
    start: float
    end: float


def differences(theirs: list[Word], ours: list[Word]) -> list[float]:
    """Seconds between the beginnings, and between the ends, of each word that both wrote."""
    blocks = SequenceMatcher(None, [word.text for word in theirs], [word.text for word in ours], autojunk=False)
    pairs = [(theirs[a + i], ours[b + i]) for a, b, size in blocks.get_matching_blocks() for i in range(size)]
    return [abs(x[part] - y[part]) for x, y in pairs for part in (1, 2)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=installed_whisper(), help="a Whisper: folder, file, or name on the Hub")
    parser.add_argument("--sounds", type=Path, default=SPEECH, help="a folder with manifest.tsv")
    parser.add_argument("--language", nargs="+", default=["en"])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.model is None or not arguments.sounds.is_dir() or not find_spec("faster_whisper"):
        return print("left out: needs --model (a Whisper), --sounds and faster-whisper", file=sys.stderr)
    from faster_whisper import WhisperModel

    with tempfile.TemporaryDirectory() as folder:
        glassformer.load(arguments.model, dtype="float32").save_pretrained(folder)
        ours = glassformer.load(folder, dtype="float32")
        theirs = WhisperModel(str(as_ctranslate2(Path(folder))), device="cpu", compute_type="float32", cpu_threads=1)
    seconds, words = list[float](), 0
    for clip in (each for language in arguments.language for each in clips_of(arguments.sounds, language)):
        options = {"language": clip.language, "temperature": 0.0, "word_timestamps": True}
        segments, _ = theirs.transcribe(clip.samples, beam_size=1, **options)
        reference = [Word(word.word.strip(), word.start, word.end) for part in segments for word in part.words or ()]
        done = ours.transcribe(clip.samples, sample_rate_hz=RATE, num_beams=1, **options)
        own = [Word(word.word.strip(), word.start, word.end) for word in done.words]
        apart = differences(reference, own)
        seconds += apart
        words += len(reference)
        print(
            f"{clip.name:60} {len(apart) // 2} of {len(reference)} words; {max(apart, default=0.0):.2f} s at most",
            file=sys.stderr if arguments.json else sys.stdout,
            flush=True,
        )
    summary = {
        "words": words,
        "compared": len(seconds) // 2,
        "median": statistics.median(seconds),
        "percentile_95": float(np.percentile(seconds, 95)),
        "largest": max(seconds),
    }
    print(json.dumps(summary) if arguments.json else "  ".join(f"{key} {x:.3g}" for key, x in summary.items()))


if __name__ == "__main__":
    main()
