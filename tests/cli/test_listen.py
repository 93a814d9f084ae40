"""`glassformer listen`: a codec by its task, wav files, a page, recordings of one's own, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from glassformer.model import Model
from tests.cli.conftest import Command
from tests.tasks.codec.test_reconstruct import SMALL


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("codec") / "codec"
    Model.from_config(SMALL).save_pretrained(folder)
    return folder


def test_a_page_and_wav_files(command: Command, codec: Path, tmp_path: Path) -> None:
    page, sounds = tmp_path / "page.html", tmp_path / "sounds"
    soundfile.write(tmp_path / "mine.wav", np.sin(np.arange(64_000) * 0.1), 16_000)
    where_to = ("--html", page, "--output", sounds)
    done = command("listen", codec, "--task", "reconstruct", "--data", tmp_path / "mine.wav", *where_to)
    assert done.returncode == 0, done.stderr
    first, *facts, files, where = done.stdout.splitlines()
    assert first == "mine.wav: original 4.00 s · decoded 4.00 s"
    assert [fact.split(":")[0].strip() for fact in facts] == ["mel distance", "SI-SNR", "bit rate"]
    assert files == f"2 wav files in {sounds}" and where.startswith(f"saved in {page}")
    assert 'id="listening"' in page.read_text(encoding="utf-8")
    assert sorted(path.name.rsplit("-", 1)[1] for path in sounds.iterdir()) == ["decoded.wav", "original.wav"]


def test_recordings_of_ones_own_as_data(command: Command, codec: Path, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "mine.wav", np.sin(np.arange(4_410) * 0.1), 22_050)
    done = command("listen", codec, "-t", "reconstruct", "-d", tmp_path / "mine.wav", "--json")
    assert done.returncode == 0, done.stderr
    (example,) = json.loads(done.stdout)["examples"]
    original, decoded = example["sounds"]
    assert example["title"] == "mine.wav" and original["seconds"] == pytest.approx(0.2)
    assert len(decoded["codes"]) == 2 and len(decoded["codes"][0]) == decoded["frame_rate_hz"] * 0.2


def test_a_list_of_recordings_in_another_format(command: Command, codec: Path, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "mine.wav", np.sin(np.arange(4_410) * 0.1), 22_050)
    (tmp_path / "list.csv").write_text("1;mine.wav\n")
    format = ("--delimiter", ";", "--names", "number,file")
    done = command("listen", codec, "-t", "reconstruct", "-d", tmp_path / "list.csv", *format, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["examples"]) == 1
    done = command("listen", codec, "-t", "reconstruct", *format)
    assert done.returncode == 2 and "give --data too" in done.stderr


def test_mistakes(command: Command, codec: Path) -> None:
    done = command("listen", codec)
    assert done.returncode == 2 and "is no run; give the task of the model, such as --task reconstruct" in done.stderr
    done = command("listen", codec, "--task", "reconstruct")
    assert done.returncode == 2 and "give sounds to listen to: --data FILE.wav" in done.stderr
    done = command("listen", codec, "--task", "reconstruct", "--html", "page.txt")
    assert done.returncode == 2 and ".html" in done.stderr
