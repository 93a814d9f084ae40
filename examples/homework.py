"""Recordings for the homework studies: spoken digits, and sentences read by espeak-ng; speakers are in one part each.

    git clone https://github.com/Jakobovski/free-spoken-digit-dataset        CC BY-SA 4.0
    python examples/homework.py digits free-spoken-digit-dataset/recordings
    glassformer study examples/homework.yaml

    apt install espeak-ng
    python examples/homework.py ukrainian                                    sentences of a small grammar
    glassformer study examples/homework-uk.yaml                              Whisper
    glassformer study examples/homework-uk-ctc.yaml                          wav2vec 2.0, from scratch

    python examples/homework.py english captions.txt                         a sentence a line, any text

Each writes runs/homework-data/NAME/ with train.csv, validation.csv and test.csv: file, text, speaker. No speaker is in
two parts; of read sentences no sentence is, either. A speaker of espeak-ng is a voice with a speed and a pitch.
"""

from __future__ import annotations

import csv
import random
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

from glassformer.data.splits import split

PLACE = Path("runs/homework-data")
PARTS = ("train", "validation", "test")
DIGITS = "zero one two three four five six seven eight nine".split()
VOICES = ("m1", "m2", "m3", "m4", "m5", "m6", "m7", "f1", "f2", "f3", "f4", "f5")
SENTENCES = 600

SUBJECTS = (
    "моя сестра", "старий учитель", "наш сусід", "молода лікарка", "веселий хлопчик", "бабуся", "водій автобуса",
    "студентка", "рибалка", "маленька дівчинка", "дідусь", "кухар", "поштар", "художниця", "мій брат", "продавчиня",
)  # fmt: skip
VERBS = (
    "купує", "шукає", "бачить", "малює", "несе", "знаходить", "показує", "бере", "згадує", "описує", "тримає", "ховає",
)  # fmt: skip
OBJECTS = (
    "червоне яблуко", "стару книгу", "теплий хліб", "новий велосипед", "білу чашку", "довгий лист", "срібний ключ",
    "зелений зошит", "свіже молоко", "великий кавун", "синю парасольку", "дерев'яний стілець", "гарячий борщ",
    "жовту квітку", "вовняну шапку", "солодкий пиріг",
)  # fmt: skip
PLACES = (
    "на вокзалі", "біля річки", "у школі", "на ринку", "в саду", "за містом", "у бібліотеці", "на площі", "в лісі",
    "біля вікна", "на кухні", "під дощем",
)  # fmt: skip
TIMES = ("щоранку", "сьогодні", "увечері", "щонеділі", "завжди", "взимку", "о сьомій годині", "після роботи")


def digits(recordings: Path) -> None:
    """Spoken digits, DIGIT_SPEAKER_TAKE.wav in a folder or a zip file: three speakers, one, and two."""
    folder = fresh_folder("digits")
    target = folder / "recordings"
    if zipfile.is_zipfile(recordings):
        with zipfile.ZipFile(recordings) as archive:
            names = [name for name in archive.namelist() if name.endswith(".wav")]
            for name in names:
                (target / Path(name).name).write_bytes(archive.read(name))
    else:
        for path in recordings.glob("*.wav"):
            shutil.copy(path, target)
    rows = []
    for path in sorted(target.glob("*.wav")):
        digit, speaker, _ = path.stem.split("_")
        rows.append((f"recordings/{path.name}", DIGITS[int(digit)], speaker))
    if not rows:
        sys.exit(f"{recordings}: holds no DIGIT_SPEAKER_TAKE.wav; give the folder `recordings` of the data set")
    parts = split(len(rows), (1 / 2, 1 / 6, 1 / 3), seed=0, groups=[speaker for *_, speaker in rows])
    write_parts(folder, [[rows[i] for i in part] for part in parts])


def read_aloud(name: str, language: str, sentences: Sequence[str]) -> None:
    """Sentences read by espeak-ng, with other voices in each part."""
    if shutil.which("espeak-ng") is None:
        sys.exit("espeak-ng is not installed; on Debian and Ubuntu: apt install espeak-ng")
    folder, draw = fresh_folder(name), random.Random(0)
    texts = list(dict.fromkeys(sentences))
    draw.shuffle(texts)
    voices = list(VOICES)
    draw.shuffle(voices)
    ends = [0, len(texts) * 7 // 10, len(texts) * 8 // 10, len(texts)]
    its_texts = [texts[begin:end] for begin, end in pairwise(ends)]
    its_voices = [voices[:8], voices[8:10], voices[10:]]
    parts, jobs = [], []
    for part, of_part, read_by in zip(PARTS, its_texts, its_voices, strict=True):
        rows = []
        for number, text in enumerate(of_part):
            voice = read_by[number % len(read_by)]
            file = f"recordings/{part}-{number:04}.wav"
            speed, pitch = draw.choice((130, 150, 170)), draw.choice((35, 50, 65))
            command = ["espeak-ng", "-v", f"{language}+{voice}", "-s", str(speed), "-p", str(pitch)]
            jobs.append([*command, "-w", str(folder / file), "--", text])
            rows.append((file, text, voice))
        parts.append(rows)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda command: subprocess.run(command, check=True, capture_output=True), jobs))
    write_parts(folder, parts)


def ukrainian_sentences() -> Iterable[str]:
    """Sentences of a small grammar, in an order that is always the same."""
    draw = random.Random(1)
    while True:
        words = [draw.choice(each) for each in (SUBJECTS, VERBS, OBJECTS)]
        words.insert(draw.choice((0, 1)), draw.choice(TIMES))
        yield " ".join([*words, draw.choice(PLACES)])


def fresh_folder(name: str) -> Path:
    """The folder of a data set, emptied."""
    folder = PLACE / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "recordings").mkdir(parents=True)
    return folder


def write_parts(folder: Path, parts: Sequence[Sequence[tuple[str, str, str]]]) -> None:
    """A table for each part."""
    for name, rows in zip(PARTS, parts, strict=True):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([("file", "text", "speaker"), *rows])
        print(f"{folder / name}.csv: {len(rows):,} recordings, {len({row[2] for row in rows})} speakers")


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["digits", recordings]:
            digits(Path(recordings))
        case ["ukrainian"]:
            sentences = ukrainian_sentences()
            read_aloud("ukrainian", "uk", [next(sentences) for _ in range(SENTENCES)])
        case ["english", file]:
            lines = Path(file).read_text("utf-8").splitlines()
            read_aloud("english", "en", [line.strip() for line in lines if line.strip()][:SENTENCES])
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
