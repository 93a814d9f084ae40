"""`glassformer guitar`: every part is made by its model, printed, and on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from glassformer_guitar import GuitarOptions, GuitarRows
from glassformer_guitar import tour as guitar
from glassformer_guitar.naming import NamePedals
from glassformer_guitar.tour import GuitarDemo, GuitarModels
from guitar_tests.test_name_pedals import SMALL

from glassformer.model import Model
from tests.cli.conftest import Command
from tests.inspect.test_codes_input import CODEC, PLAYER, made

TITLES = ["Sound as codes", "Dry to wet", "Played on"]
SLOW = {"downsampling_ratios": [8, 8, 5], "sampling_rate": 16_000}
"""50 frames a second, so that there are few to generate."""


@pytest.fixture(scope="module")
def models() -> GuitarModels:
    torch.manual_seed(0)
    config: Any = NamePedals.head_config(None, SMALL, own=False, columns=None, options={})  # type: ignore[arg-type]
    return GuitarModels(
        pedals=Model.from_config(config, task=NamePedals.HEAD).eval(),
        codec=made({**CODEC, **SLOW}),
        wet=made({**PLAYER, "num_codebooks": 6, "frame_rate_hz": 50.0}, "text-to-audio"),
        player=made({**PLAYER, "frame_rate_hz": 50.0}, "text-to-audio"),
    )


@pytest.fixture
def carried(models: GuitarModels, monkeypatch: pytest.MonkeyPatch) -> None:
    """These in the place of the checkpoints that the package carries, which are slower."""
    monkeypatch.setattr(guitar.GuitarModels, "load", classmethod(lambda cls, folder=None: models))


def test_each_part_is_what_its_model_makes(models: GuitarModels) -> None:
    demo = GuitarDemo(models, seed=3, seconds=0.2)
    riff, codes, wet, played_on = (section.example for section in demo.sections(guitar.no_bar))
    assert dict(riff.facts)["truly"] == " → ".join(demo.clip.pedals) and 1 <= len(demo.clip.pedals) <= 3
    assert [sound.name for sound in riff.sounds] == ["dry", "through its pedals"]
    encoded = models.codec.encode_audio(demo.dry.sound[0], sample_rate_hz=16_000)
    assert np.array_equal(codes.sounds[1].codes, encoded.codes)
    assert [sound.name for sound in wet.sounds] == ["dry", "by the model", "by the pedal"]
    chord = models.codec.encode_audio(demo.chord.sound[0], sample_rate_hz=16_000)
    assert np.array_equal(wet.sounds[1].codes, models.wet.convert_codes(chord.codes, seed=3))
    assert demo.driven.pedals == ["overdrive"] and demo.driven.notes == demo.chord.notes
    more = models.player.continue_codes(encoded.codes, 10, seed=3, **guitar.SAMPLING)
    assert np.array_equal(played_on.sounds[1].codes, more)
    assert played_on.sounds[1].marks[-1].label == "continued from here" and played_on.sounds[1].marks[-1].start_s == 3.0


@pytest.mark.usefixtures("carried")
def test_on_screen_and_as_a_page(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "guitar.html"
    done = command("guitar", "--seconds", 0.2, "--html", page)
    assert done.returncode == 0, done.stderr
    for words in ("Sound as codes", "Dry to wet", "Played on", "pedals named", "× real time", f"saved in {page}"):
        assert words in done.stdout, words
    assert 'id="listening"' in page.read_text(encoding="utf-8")


@pytest.mark.usefixtures("carried")
def test_as_data_and_by_a_seed(command: Command) -> None:
    def sections(*arguments: object) -> Any:
        done = command("guitar", "--seconds", 0.2, "--json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["sections"]

    first, again, other = sections(), sections("--seed", 0), sections("--seed", 1)
    assert len(first) == 4 and first[3]["sounds"][1]["codes"] == again[3]["sounds"][1]["codes"]
    assert first[0]["facts"]["notes"] != other[0]["facts"]["notes"]


def test_recordings_take_the_place_of_the_guitar(models: GuitarModels, tmp_path: Path) -> None:
    GuitarRows(GuitarOptions(clips=3, seconds=6.0, pedals=None)).write(tmp_path / "recordings")
    demo = GuitarDemo(models, seed=1, seconds=0.2, recordings=tmp_path / "recordings")
    sections = list(demo.sections(guitar.no_bar))
    assert [section.title for section in sections] == [demo.clip.recipe["title"], *TITLES]
    assert demo.clip.recipe["recording"].startswith(str(tmp_path)) and demo.driven.pedals == ["overdrive"]
    command = guitar.page_of(sections, demo).command
    assert command == "glassformer guitar --seed 1 --seconds 0.2 --recordings '…/recordings'"


def test_models_of_ones_own(models: GuitarModels, tmp_path: Path) -> None:
    for name in ("pedals", "codec", "wet", "player"):
        getattr(models, name).save_pretrained(tmp_path / name)
    mine = GuitarModels.load(tmp_path)
    assert mine.wet.network.sizes.codebooks == 6
    assert GuitarDemo(mine, 3).command(4) == f"glassformer guitar --seed 4 --models {tmp_path}"


def test_folders_that_are_not_there(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recordings").mkdir()
    monkeypatch.chdir(tmp_path)
    for option, what in (("--recordings", "recordings"), ("--models", "models")):
        done = command("guitar", option, "recordigns", "--html", "page.html")
        assert done.returncode == 2 and f"recordigns: no such folder of {what}; nearest: 'recordings'" in done.stderr


def test_its_models_are_carried() -> None:
    models = GuitarModels.load()
    assert models.player.network.sizes.codebooks == 4 and models.codec.family.model_type == "dac"
    assert models.wet.network.sizes.codebooks == 8


def test_the_pedal_is_that_of_the_example() -> None:
    example = yaml.safe_load((Path(__file__).parents[3] / "examples" / "guitar-wet.yaml").read_text(encoding="utf-8"))
    assert example["data"]["format"]["pedals"] == guitar.OVERDRIVE
