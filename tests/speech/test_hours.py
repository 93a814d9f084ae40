"""Hours of sound: a process that transcribes them needs no more memory than promised, whatever their length."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from glassformer.model import Model
from glassformer.models.whisper.foreign_names import preprocessor_config
from tests.peak import PEAK_KB
from tests.tasks.transcribe.tones import RATE_HZ, WORDS, letters_folder, spoken, whisper_folder

HOURS = 3
LIMIT_MB = 1_536
"""Of a process, next to its model, which is tiny here: R13 promises it for two hours."""
GREEDY = ["--beams", "1", "--temperature", "0"]
"""Without fallback, by which a random model decodes everything six times."""
KINDS: dict[str, list[str]] = {"letters": [], "words": [*GREEDY, "--words"]}
BATCHES = {"windows": "0", "batches": "8"}
LONG = ("letters", *BATCHES)
COMMAND = f"""{PEAK_KB}
import sys
from glassformer.cli.app import main
try:
    main(sys.argv[1:])
except SystemExit as ended:
    print(ended.code or 0, peak_kb() // 1024)
"""
JOB = f"""{PEAK_KB}
import sys
from pathlib import Path
import glassformer
from glassformer.speech.job import TranscriptionJob
from glassformer.speech.options import TranscriptionOptions
model, sound, folder, batch = sys.argv[1:]
# Without timestamps, by which a random model goes on a second at a time.
options = TranscriptionOptions(num_beams=1, temperature=0.0, timestamps=False, batch_size=int(batch) or None)
TranscriptionJob(glassformer.load(model), Path(sound), Path(folder), ["srt", "json"], options).run(lambda *step: None)
print(0, peak_kb() // 1024)
"""


def talk(path: Path, seconds: int) -> None:
    """Words and pauses of a quarter of a second, again and again."""
    draw = np.random.default_rng(0)
    pause = np.zeros(RATE_HZ // 4, np.float32)
    words = np.concatenate([part for word in WORDS * 10 for part in (spoken(word, draw), pause)])
    with soundfile.SoundFile(path, "w", RATE_HZ, 1, subtype="PCM_16") as file:
        for start in range(0, seconds * RATE_HZ, len(words)):
            file.write(words[: seconds * RATE_HZ - start])


def windows_folder(folder: Path) -> Path:
    """A Whisper of next to nothing that reads windows of 30 s, as real ones do."""
    whisper_folder(folder)
    config = json.loads((folder / "config.json").read_text()) | {"max_source_positions": 1_500}
    Model.from_config(config, task="automatic-speech-recognition").save_pretrained(folder / "long")
    for name in ("tokenizer.json", "generation_config.json"):
        shutil.copy(folder / name, folder / "long")
    (folder / "long" / "preprocessor_config.json").write_text(json.dumps(preprocessor_config(16, 1_500)))
    return folder / "long"


def transcribed(code: str, *words: str | Path) -> int:
    """The peak memory in MB of a process that transcribes."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    status, peak_mb = map(int, done.stdout.splitlines()[-1].split())
    assert status == 0, done.stderr
    return peak_mb


@pytest.mark.parametrize(
    ("kind", "seconds"),
    [("words", 40), *(pytest.param(kind, HOURS * 3600, marks=pytest.mark.soak) for kind in LONG)],
)
def test_memory_is_bounded(tmp_path: Path, kind: str, seconds: int) -> None:
    sound, out = tmp_path / "talk.wav", tmp_path / "out"
    talk(sound, seconds)
    model = letters_folder(tmp_path / "model") if kind == "letters" else windows_folder(tmp_path / "model")
    if kind in BATCHES:
        peak_mb = transcribed(JOB, model, sound, out, BATCHES[kind])
    else:
        formats = ["--format", "srt", "--format", "json"]
        peak_mb = transcribed(COMMAND, "transcribe", model, sound, "--output", out, *formats, *KINDS[kind])
    assert peak_mb < LIMIT_MB, f"{peak_mb} MB"
    assert json.loads((out / "talk.json").read_text())["duration"] == pytest.approx(seconds, abs=0.1)
