"""`glassformer look` of sound as codes: a codec, a model over codes, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.inspect.test_codes_input import CODEC, PLAYER, made, riff


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a codec and of a decoder over its codes, and a recording."""
    folder = tmp_path_factory.mktemp("home")
    made(CODEC).save_pretrained(folder / "codec")
    made(PLAYER, "text-to-audio").save_pretrained(folder / "player")
    riff(folder, 0.1)
    return folder


def test_a_codec_opens_the_page_of_sounds(command: Command, home: Path, tmp_path: Path) -> None:
    done = command("look", home / "codec", home / "riff.wav", "--html", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("riff.wav: recording 0.10 s · decoded 0.10 s\n  codes: 3 codebooks × 20 frames")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="listening"' in page and str(home) not in page


def test_a_model_over_codes_has_both_pages(command: Command, home: Path, tmp_path: Path) -> None:
    sounds = [home / "player", home / "riff.wav", "--codec", home / "codec"]
    done = command("look", *sounds, "--view", "sound", "--html", tmp_path / "sound.html", "--json")
    assert done.returncode == 0, done.stderr
    assert [sound["name"] for sound in json.loads(done.stdout)["sounds"]] == ["recording", "from its codes"]
    assert 'data-key="attention/0/1"' in (tmp_path / "sound.html").read_text(encoding="utf-8")
    done = command("look", *sounds, "--html", tmp_path / "heads.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("22 sound tokens · self")
    assert 'id="session"' in (tmp_path / "heads.html").read_text(encoding="utf-8")


def test_mistakes(command: Command, home: Path, tmp_path: Path) -> None:
    done = command("look", home / "codec", home / "riff.wav", home / "riff.wav")
    assert done.returncode == 2 and "the file of one recording; got 2" in done.stderr
    done = command("look", home / "player", home / "riff.wav", "--codec", home / "player", "--view", "sound")
    assert done.returncode == 2 and "load an audio codec" in done.stderr
    done = command("look", "package:glassformer_guitar/checkpoints/pedals", home / "riff.wav", "--html", "page.html")
    assert (
        done.returncode == 2
        and "this one has no tokenizer; hear and see what it makes of sounds: glassformer listen" in done.stderr
    )
    done = command("look", home / "codec", tmp_path / "none.wav")
    assert done.returncode == 2 and "none.wav" in done.stderr
