"""Clips of recordings: windows that tile their time, parts that share none of it, pedals as of the synthetic guitar."""

from __future__ import annotations

import json
import warnings
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from glassformer_guitar import apply_pedals
from glassformer_guitar.pedals import full_scale
from glassformer_guitar.recording_clips import RecordingClips

from glassformer.data.rows import read_rows
from glassformer.data.streams import stream_rows
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.transcribe.sounds import sound_title

RATE = 8_000


def write(path: Path, samples: np.ndarray, rate: int = RATE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", "not compressed"))
        file.writeframes((samples * 32_767).astype("<i2").tobytes())
    return path


def ramp(seconds: float) -> np.ndarray:
    """Samples that say at which time they are: from 0 to 1 in 10 seconds."""
    return np.arange(round(seconds * RATE)) / (10.0 * RATE)


def clips(folder: Path, **options: Any) -> RecordingClips:
    defaults = {"clips": 10, "seconds": 1.0, "sample_rate_hz": RATE, "pedals": None}
    made = read_rows(folder, kind="guitar", **{**defaults, **options})
    assert isinstance(made, RecordingClips)
    return made


def test_windows_tile_the_time_of_a_recording(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", 0.05 + 0.9 * ramp(10.0))
    made = clips(tmp_path)
    for index in range(10):
        (waveform, rate), notes, pedals, recipe = made.clip(index)
        assert index <= recipe["start_s"] < index + 1 or recipe["start_s"] == 9.0
        assert waveform.shape == (RATE,) and rate == RATE and notes == [] and pedals == []
        peak = float(np.abs(waveform).max())
        assert peak == pytest.approx(recipe["level"], abs=1e-6) and 0.4 <= peak <= 0.9
        expected = 0.05 + 0.9 * ramp(10.0)[round(recipe["start_s"] * RATE) :][:RATE]
        assert np.allclose(waveform / peak, expected / expected.max(), atol=1e-3)
    assert [made.recipe(i) for i in range(3)] == [clips(tmp_path).recipe(i) for i in range(3)]
    assert made.recipe(0) != clips(tmp_path, seed=1).recipe(0)


def test_parts_share_no_second(tmp_path: Path) -> None:
    for number in range(10):
        write(tmp_path / f"{number}.wav", ramp(3.0) + 0.1)
    heard = {part: set[tuple[str, int]]() for part in ("train", "test")}
    for part, places in heard.items():
        for clip in clips(tmp_path, part=part, clips=60, seconds=0.5).items():
            recipe = clip.recipe
            steps = range(round(recipe["start_s"] * 100), round(recipe["end_s"] * 100))
            places.update((Path(recipe["recording"]).name, step) for step in steps)
    assert not heard["train"] & heard["test"]
    assert len({name for name, _ in heard["test"]}) == 2, "the last fifth of the time"
    assert len({name for name, _ in heard["train"]}) == 8


def test_one_recording_is_cut_for_both_parts(tmp_path: Path) -> None:
    write(tmp_path / "hour.wav", ramp(10.0) + 0.1)
    assert max(clip.recipe["end_s"] for clip in clips(tmp_path, part="train").items()) <= 8.0
    assert min(clip.recipe["start_s"] for clip in clips(tmp_path, part="test").items()) >= 8.0


def test_pedals_are_those_of_the_synthetic_guitar(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", 0.5 * np.sin(np.arange(3 * RATE) * 0.3))
    made = clips(tmp_path, pedals={"overdrive": {"gain": 8}, "delay": 0.5}, dry=True)
    row = made[2]
    assert row["pedals"][0] == "overdrive" and Path(row["file"]["path"]).name == "a.wav"
    assert sound_title(made, 2) == made.recipe(2)["title"] == f"a.wav, {made.recipe(2)['start_s']:.1f} s"
    recipe, dry = made.recipe(2), made.clip(2, dry=True)
    assert recipe["pedals"][0]["gain"] == 8 and dry.pedals == []
    assert np.array_equal(row["dry"]["array"], dry.sound[0])
    wet = full_scale(apply_pedals(dry.sound[0].astype(np.float64), RATE, recipe["pedals"])) * recipe["level"]
    assert np.abs(wet - row["file"]["array"]).max() < 1e-4
    assert json.loads(json.dumps(recipe)) == recipe
    made.write(tmp_path / "written")
    assert read_rows(tmp_path / "written", kind="guitar")[2]["pedals"] == made.clip(2).pedals


def test_notes_are_those_of_the_window(tmp_path: Path) -> None:
    write(tmp_path / "audio" / "a.wav", ramp(4.0) + 0.1)
    event = "<event><pitch>45</pitch><onsetSec>1.5</onsetSec><offsetSec>2.5</offsetSec></event>"
    (tmp_path / "annotation").mkdir()
    (tmp_path / "annotation" / "a.xml").write_text(f"<a>{event}</a>")
    for clip in clips(tmp_path, clips=8).items():
        start, end = clip.recipe["start_s"], clip.recipe["end_s"]
        (begin, finish) = max(1.5 - start, 0.0), min(2.5, end) - start
        sounding = [(note["start_s"], note["seconds"]) for note in clip.notes]
        assert sounding == ([pytest.approx((begin, finish - begin))] if finish > begin else [])


def test_recordings_that_are_wet_already(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", ramp(1.0) + 0.1)
    write(tmp_path / "b.wav", ramp(1.0) + 0.1)
    (tmp_path / "metadata.csv").write_text("file_name,pedals\na.wav,overdrive\nb.wav,\n")
    with pytest.warns(UserWarning, match="1 of 2 recordings went through pedals already"):
        made = clips(tmp_path, pedals={"delay": 1.0})
    assert {(Path(clip.recipe["recording"]).name, *clip.pedals) for clip in made.items()} == {("b.wav", "delay")}
    kept = {(Path(clip.recipe["recording"]).name, *clip.pedals) for clip in clips(tmp_path, pedals=None).items()}
    assert kept == {("a.wav", "overdrive"), ("b.wav",)}
    (tmp_path / "metadata.csv").write_text("file_name,pedals\na.wav,overdrive\n")
    with pytest.warns(UserWarning), pytest.raises(DataError, match="all recordings went through pedals already"):
        clips(tmp_path, pedals={"delay": 1.0})


def test_short_silent_and_other_recordings(tmp_path: Path) -> None:
    write(tmp_path / "short.wav", ramp(0.3) + 0.1)
    with pytest.warns(UserWarning, match=r"last 0\.3 s, and a clip 1 s: the rest of each is silence"):
        samples = clips(tmp_path).clip(0).sound[0]
    assert samples.shape == (RATE,) and not samples[round(0.3 * RATE) :].any() and samples[: RATE // 4].all()
    silence = np.zeros(5 * RATE)
    silence[-RATE // 2 :] = 0.5
    (tmp_path / "short.wav").unlink()
    write(tmp_path / "nearly silent.wav", silence)
    loud = [bool(clip.sound[0].any()) for clip in clips(tmp_path, clips=1, seconds=1.0).items()]
    assert loud == [True], "silent windows are drawn again"
    write(tmp_path / "nearly silent.wav", 0 * silence)
    with pytest.raises(DataError, match=r"nearly silent\.wav: is silent throughout"):
        clips(tmp_path)
    for number in range(9):
        write(tmp_path / f"{number}.wav", ramp(5.0) + 0.1)
    assert all(clip.sound[0].any() for clip in clips(tmp_path).items()), "others take the place of a silent one"
    for number in range(9):
        (tmp_path / f"{number}.wav").unlink()
    write(tmp_path / "nearly silent.wav", 0.5 * np.sin(np.arange(44_100) * 0.1), rate=44_100)
    assert clips(tmp_path).clip(0).sound[1] == RATE


@pytest.mark.filterwarnings("ignore:.*the rest of each is silence")
def test_recordings_of_next_to_nothing(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", ramp(0.4) + 0.1)
    with pytest.raises(DataError, match=r"of which this is the part test, last 0\.08 s; needed are 0\.1 s and more"):
        clips(tmp_path, part="test")
    assert clips(tmp_path, part="train").clip(0).recipe["end_s"] <= 0.33
    write(tmp_path / "a.wav", np.zeros(0))
    with pytest.raises(DataError, match=r"its recordings, last 0 s; needed"):
        clips(tmp_path)


def test_hidden_files_are_none(tmp_path: Path) -> None:
    write(tmp_path / ".trash" / "a.wav", ramp(1.0))
    (tmp_path / "._b.wav").write_bytes(b"what macOS keeps of b.wav")
    (tmp_path / "folder.wav").mkdir()
    with pytest.raises(DataError, match="holds no audio; files must end in"):
        clips(tmp_path)
    write(tmp_path / "b.wav", ramp(1.0) + 0.1)
    assert {Path(clip.recipe["recording"]).name for clip in clips(tmp_path).items()} == {"b.wav"}


def test_other_files_are_other_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", ramp(1.0) + 0.1)
    before = clips(tmp_path).fingerprint
    assert before == clips(tmp_path).fingerprint != clips(tmp_path, seed=1).fingerprint
    write(tmp_path / "a.wav", ramp(2.0) + 0.1)
    assert clips(tmp_path).fingerprint != before


def test_they_can_be_streamed(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", ramp(1.0) + 0.1)
    stream = stream_rows(str(tmp_path), kind="guitar", clips=3, seconds=0.2, pedals=None, buffer=2)
    assert sorted(len(row["file"]["array"]) for row in stream) == [3_200] * 3


def test_a_mistyped_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recordings").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="recordigns: no such folder, so it is a synthetic guitar .* 'recordings'"):
        read_rows("recordigns", kind="guitar", clips=1)
    with warnings.catch_warnings(action="error"):
        read_rows("a guitar", kind="guitar", clips=1)


def test_bad_folders_and_options(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no audio"):
        read_rows(tmp_path, kind="guitar", clips=3)
    with pytest.raises(DataError, match="no such folder of recordings; a synthetic guitar has a name that is no path"):
        read_rows(tmp_path / "recordigns", kind="guitar", clips=3)
    (tmp_path / "a.wav").write_bytes(b"no sound")
    with pytest.raises(DataError, match=r"a\.wav is not readable audio"):
        read_rows(tmp_path, kind="guitar", clips=3)
    write(tmp_path / "a.wav", ramp(1.0))
    with pytest.raises(DataError, match=r"of dry recordings without any of these, clips can be made"):
        read_rows(tmp_path, kind="guitar")
    with pytest.raises(ConfigError, match="guitar: 'clip' is no option; nearest: 'clips'"):
        read_rows(tmp_path, kind="guitar", clip=3)
    with pytest.raises(ConfigError, match=r"contents is \['riff'\], and .* is a folder of recordings"):
        read_rows(tmp_path, kind="guitar", clips=3, contents=["riff"])
