"""Sound of any format, rate and number of channels becomes one row; what is no sound is refused."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import resample_poly

from glassformer.audio import read as reading
from glassformer.audio.read import audio_seconds, read_audio, resample
from glassformer.errors import DataError, MissingExtraError
from tests.audio.sounds import RATE_HZ, encoded, speech_like, wav_bytes
from tests.peak import PEAK_KB


def likeness(one: Any, other: Any) -> float:
    """Correlation of two sounds, cut to the shorter."""
    n = min(len(one), len(other))
    return float(np.corrcoef(one[:n], other[:n])[0, 1])


# ------------------------------------------------------------------------------------------------------------ files


@pytest.mark.parametrize(
    ("name", "subtype", "within"),
    [
        ("a.wav", "PCM_16", 1e-4), ("a.wav", "PCM_24", 1e-6), ("a.wav", "FLOAT", 0.0), ("a.wav", "DOUBLE", 0.0),
        ("a.wav", "PCM_U8", 1e-2), ("a.wav", "ULAW", 2e-2), ("a.flac", "PCM_16", 1e-4), ("a.flac", "PCM_24", 1e-6),
        ("a.aiff", "PCM_24", 1e-6), ("a.w64", "PCM_24", 1e-6), ("a.caf", "FLOAT", 0.0),
    ],
)  # fmt: skip
def test_files_without_loss(tmp_path: Path, name: str, subtype: str, within: float) -> None:
    sound = speech_like(0.5)
    soundfile.write(tmp_path / name, sound, RATE_HZ, subtype=subtype)
    read = read_audio(tmp_path / name, RATE_HZ)
    assert read.dtype == np.float32 and read.shape == sound.shape
    assert np.abs(read - sound).max() <= within


@pytest.mark.parametrize(("name", "form"), [("a.ogg", "VORBIS"), ("a.opus", "OPUS"), ("a.mp3", "MPEG_LAYER_III")])
def test_files_with_loss(tmp_path: Path, name: str, form: str) -> None:
    sound = speech_like(1.0, 48_000)
    container = "MP3" if form.startswith("MPEG") else "OGG"
    soundfile.write(tmp_path / name, sound, 48_000, format=container, subtype=form)
    read = read_audio(str(tmp_path / name), 48_000)
    assert likeness(read, sound) > 0.99
    assert len(read) == pytest.approx(len(sound), rel=0.05)


@pytest.mark.parametrize(
    ("name", "codec", "rate_hz", "channels"),
    [
        ("a.m4a", "aac", 44_100, 1),
        ("a.mp4", "aac", 48_000, 2),
        ("a.webm", "libopus", 48_000, 1),
        ("a.mkv", "flac", 16_000, 1),
    ],
)  # fmt: skip
def test_files_that_soundfile_does_not_know(tmp_path: Path, name: str, codec: str, rate_hz: int, channels: int) -> None:
    sound = speech_like(1.0, rate_hz)
    path = encoded(tmp_path / name, sound, rate_hz, codec, channels=channels)
    with pytest.raises(soundfile.LibsndfileError):
        soundfile.info(path)
    read = read_audio(path, RATE_HZ)
    assert likeness(read, resample_poly(sound, RATE_HZ, rate_hz)) > 0.98
    assert len(read) == pytest.approx(RATE_HZ, rel=0.1)


@pytest.mark.parametrize("rate_hz", [RATE_HZ, 22_050])
def test_stereo_is_read_as_it_is_and_mono_twice(rate_hz: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sounds = np.stack([speech_like(0.5), speech_like(0.5)[::-1]])
    alone = np.stack([read_audio(sound, rate_hz, RATE_HZ) for sound in sounds], 1)
    whole = read_audio(sounds, rate_hz, RATE_HZ, channels=2)
    assert whole.dtype == np.float32 and np.allclose(whole, alone, atol=1e-6)
    monkeypatch.setattr(reading, "BLOCK_SAMPLES", 999)
    assert np.allclose(read_audio(sounds, rate_hz, RATE_HZ, channels=2), whole, atol=1e-6)
    twice = read_audio(sounds[0], rate_hz, RATE_HZ, channels=2)
    assert np.array_equal(twice[:, 0], twice[:, 1]) and np.allclose(twice[:, 0], alone[:, 0], atol=1e-6)
    assert torch.from_numpy(twice).shape == twice.shape  # it can be written to
    with pytest.raises(DataError, match=r"it must be \[2, samples\], or \[samples\]"):
        read_audio(np.zeros((3, 9)), rate_hz, RATE_HZ, channels=2)


@pytest.mark.parametrize("channels", [2, 5])
def test_channels_are_mixed(tmp_path: Path, channels: int) -> None:
    sounds = np.random.default_rng(0).uniform(-0.9, 0.9, (70_000, channels)).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", sounds, RATE_HZ, subtype="FLOAT")
    np.testing.assert_allclose(read_audio(tmp_path / "a.wav", RATE_HZ), sounds.mean(axis=1), atol=1e-6)


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 22_050, 44_100, 48_000, 96_000])
def test_rates(tmp_path: Path, rate_hz: int) -> None:
    soundfile.write(tmp_path / "a.wav", speech_like(1.5, rate_hz), rate_hz, subtype="FLOAT")
    read = read_audio(tmp_path / "a.wav", RATE_HZ)
    assert len(read) == pytest.approx(1.5 * RATE_HZ, abs=1)
    middle = slice(2_000, -2_000)  # beyond both ends the filter sees silence
    assert np.abs(read[:24_000] - speech_like(1.5))[middle].max() < 2e-3


def test_real_speech_is_as_long_as_it_should_be(shared: Path) -> None:
    folder = shared / "data" / "speech"
    if not folder.is_dir():
        pytest.skip("needs ../shared/data/speech next to the repository")
    rows = [line.split("\t") for line in (folder / "manifest.tsv").read_text("utf-8").splitlines()[1:]]
    assert len(rows) > 40
    for name, _, _, seconds, *_ in rows:
        read = read_audio(folder / name, RATE_HZ)
        assert len(read) / RATE_HZ == pytest.approx(float(seconds), abs=0.011), name
        assert 0.001 < np.abs(read).max() <= 1.5, name  # one of them is very quiet


# ------------------------------------------------------------------------------------------------- files gone wrong


@pytest.mark.parametrize("content", [b"", b"hello", b"RIFF", b"\x00" * 5_000, b"fLaC" + b"\x00" * 40, b"OggS" * 9])
def test_what_is_no_sound_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.wav is not readable audio, or damaged"):
        read_audio(tmp_path / "a.wav", RATE_HZ)


def test_a_playlist_is_refused(tmp_path: Path) -> None:
    """It names further files and addresses, which are none of the caller's choosing."""
    encoded(tmp_path / "part.m4a", speech_like(1.0), RATE_HZ, "aac")
    (tmp_path / "a.m3u8").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:1,\npart.m4a\n#EXT-X-ENDLIST\n")
    (tmp_path / "b.txt").write_text("ffconcat version 1.0\nfile part.m4a\n")
    for name in ("a.m3u8", "b.txt"):
        with pytest.raises(DataError, match="is not readable audio"):
            read_audio(tmp_path / name, RATE_HZ)


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.wav")
    for name in ("nothing.wav", ".", "pipe.wav"):
        with pytest.raises(DataError):
            read_audio(tmp_path / name, RATE_HZ)


def test_a_hole_in_the_middle_is_damage(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.flac", speech_like(4.0), RATE_HZ)
    content = bytearray((tmp_path / "a.flac").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 400] = bytes(400)
    (tmp_path / "a.flac").write_bytes(content)
    with pytest.raises(DataError, match="damaged"):
        read_audio(tmp_path / "a.flac", RATE_HZ)


def test_half_a_file_is_refused_or_read_as_far_as_it_goes(tmp_path: Path) -> None:
    sound = speech_like(4.0)
    soundfile.write(tmp_path / "a.wav", sound, RATE_HZ)
    soundfile.write(tmp_path / "a.flac", sound, RATE_HZ)
    encoded(tmp_path / "a.m4a", sound, RATE_HZ, "aac")
    for name in ("a.wav", "a.flac", "a.m4a"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"its header claims 4\.0 s, and it holds 2\.0 s; it may be truncated"):
        assert len(read_audio(tmp_path / "a.wav", RATE_HZ)) == pytest.approx(2 * RATE_HZ, abs=30)
    samples = (sound * 2**14).astype(np.int16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a stream that ended, from a writer that could not know its size
        assert len(read_audio(wav_bytes(samples, claimed_bytes=2**32 - 1), RATE_HZ)) == len(sound)
    for name in ("a.flac", "a.m4a"):  # they end with what a reader needs
        with pytest.raises(DataError, match="damaged"):
            read_audio(tmp_path / name, RATE_HZ)


@pytest.mark.parametrize("name", ["a.mp3", "a.wav", "a.txt", "a"])
def test_the_content_counts_not_the_name(tmp_path: Path, name: str) -> None:
    sound = speech_like(1.0)
    soundfile.write(tmp_path / "a.flac", sound, RATE_HZ, subtype="PCM_24")
    (tmp_path / "a.flac").rename(tmp_path / name)
    assert np.abs(read_audio(tmp_path / name, RATE_HZ) - sound).max() < 1e-6


def test_mp3_that_is_cut_off_says_so(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.mp3", speech_like(8.0), RATE_HZ)
    content = (tmp_path / "a.mp3").read_bytes()
    (tmp_path / "a.mp3").write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"its header claims 8\.\d s, and it holds [34]\.\d s; it may be truncated"):
        read_audio(tmp_path / "a.mp3", RATE_HZ)


def never_finished(form: str, subtype: str) -> bytes:
    """A second of sound whose header states no length, as that of a recorder that was killed."""
    buffer = io.BytesIO()
    soundfile.write(buffer, np.sin(np.arange(16_000) * 0.05) * 0.3, 16_000, format=form, subtype=subtype)
    file = bytearray(buffer.getvalue())
    data = file.find(b"data") + 4
    if form == "RF64":
        file[file.find(b"ds64") + 8 : file.find(b"ds64") + 32] = bytes(24)
    elif form == "AU":
        file[8:12] = bytes(4)
    else:
        file[4:8], file[data : data + 4] = (36).to_bytes(4, "little"), bytes(4)
    return bytes(file)


@pytest.mark.parametrize(
    ("form", "subtype"),
    [
        ("WAV", "PCM_16"),
        ("WAV", "PCM_24"),
        ("WAV", "FLOAT"),
        ("WAV", "ULAW"),
        ("WAVEX", "PCM_16"),
        ("RF64", "PCM_16"),
        ("AU", "PCM_16"),
    ],
)
def test_a_header_without_a_length_is_read_to_the_end(tmp_path: Path, form: str, subtype: str) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(never_finished(form, subtype))
    whole = np.sin(np.arange(16_000) * 0.05) * 0.3
    for source in (path, path.read_bytes()):
        with pytest.warns(UserWarning, match=r"claims no length.* all 1\.0 s after it are read"):
            read = read_audio(source, 16_000)
        assert len(read) == 16_000 and np.abs(read - whole).max() < 0.02
    assert audio_seconds(path) == 1.0


@pytest.mark.parametrize("subtype", ["PCM_16", "PCM_24", "FLOAT", "ULAW"])
def test_a_length_of_0_before_samples_is_wrong_though_the_files_own_is_right(tmp_path: Path, subtype: str) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.sin(np.arange(16_000) * 0.05) * 0.3, 16_000, subtype=subtype)
    file = bytearray(path.read_bytes())
    data = file.find(b"data") + 4
    file[data : data + 4] = bytes(4)
    path.write_bytes(file)
    with pytest.warns(UserWarning, match="claims no length"):
        assert len(read_audio(path, 16_000)) == 16_000


def test_an_empty_wav_that_is_finished_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(0), 16_000)
    data = path.read_bytes() + b"LIST" + (12).to_bytes(4, "little") + b"INFOISFTabcd"
    path.write_bytes(data[:4] + (len(data) - 8).to_bytes(4, "little") + data[8:])
    with pytest.raises(DataError, match="not a single sample"):
        read_audio(path, 16_000)


def test_flac_from_a_pipe_states_no_length(tmp_path: Path) -> None:
    path = tmp_path / "a.flac"
    soundfile.write(path, np.sin(np.arange(16_000) * 0.05) * 0.3, 16_000)
    file = bytearray(path.read_bytes())
    file[21] &= 0xF0
    file[22:26] = bytes(4)  # the number of samples
    path.write_bytes(file)
    assert len(read_audio(path, 16_000)) == 16_000 and audio_seconds(path) == 1.0


def test_ten_hours_in_a_header_take_no_memory(tmp_path: Path) -> None:
    """What is read counts, not what is claimed; measured in a process of its own."""
    samples = (speech_like(1.0) * 2**14).astype(np.int16)
    (tmp_path / "a.wav").write_bytes(wav_bytes(samples, claimed_bytes=36_000 * 2 * RATE_HZ))
    code = PEAK_KB + (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from glassformer.audio import read_audio\n"
        "before = peak_kb()\n"
        f"samples = read_audio({str(tmp_path / 'a.wav')!r}, {RATE_HZ})\n"
        "print(len(samples), peak_kb() - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    read, grown_kb = map(int, done.stdout.split())
    assert read == RATE_HZ and grown_kb < 300_000


THREE_HOURS = 3 * 3600
READ = (
    PEAK_KB
    + """
import sys, warnings
warnings.simplefilter("ignore")
from glassformer.audio.read import audio_blocks
from glassformer.errors import DataError
before, samples = peak_kb(), 0
try:
    for block in audio_blocks(sys.argv[1], 16_000):
        samples += len(block)
except DataError as problem:
    print(problem)
print(samples, peak_kb() - before)
"""
)


def read_blocks(path: Path) -> tuple[str, int, int]:
    """What a process of its own says of a recording: its error, samples at 16 kHz, and memory in kB."""
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    *said, last = done.stdout.splitlines()
    samples, grown_kb = map(int, last.split())
    return "".join(said), samples, grown_kb


def silence(path: Path, seconds: int, rate_hz: int, channels: int, *, encoding: int, width: int) -> None:
    """An .au file as long as the file says, a hole that takes no disk. Args: encoding: 3 = int16, 6 = float."""
    with path.open("wb") as stream:
        stream.write(struct.pack(">4s5I", b".snd", 24, 2**32 - 1, encoding, rate_hz, channels))
        stream.truncate(24 + seconds * rate_hz * channels * width)


@pytest.mark.parametrize("seconds", [120, pytest.param(THREE_HOURS, marks=pytest.mark.soak)])
def test_hours_of_eight_channels_take_the_memory_of_a_block(tmp_path: Path, seconds: int) -> None:
    silence(tmp_path / "a.au", seconds, 96_000, 8, encoding=3, width=2)
    said, samples, grown_kb = read_blocks(tmp_path / "a.au")
    assert (said, samples) == ("", seconds * RATE_HZ) and grown_kb < 300_000


@pytest.mark.parametrize("seconds", [120, pytest.param(THREE_HOURS, marks=pytest.mark.soak)])
def test_nan_after_hours_is_located(tmp_path: Path, seconds: int) -> None:
    silence(tmp_path / "a.au", seconds, RATE_HZ, 1, encoding=6, width=4)
    with (tmp_path / "a.au").open("r+b") as stream:
        stream.seek(-4 * RATE_HZ, io.SEEK_END)
        stream.write(struct.pack(">f", np.nan))
    said, _, grown_kb = read_blocks(tmp_path / "a.au")
    assert f"has a NaN or infinite sample at {seconds - 1}.000 s" in said and grown_kb < 300_000


def test_a_sound_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes of flac can hold hours of silence."""
    monkeypatch.setattr(reading, "MAX_SECONDS", 60)
    soundfile.write(tmp_path / "a.flac", np.zeros(61 * RATE_HZ, np.float32), RATE_HZ)
    with pytest.raises(DataError, match="the limit; cut it into parts"):
        read_audio(tmp_path / "a.flac", RATE_HZ)


@pytest.mark.parametrize("rate_hz", [0, 1, 999, 384_001, 2**31 - 1])
def test_impossible_rates_in_a_header(tmp_path: Path, rate_hz: int) -> None:
    (tmp_path / "a.wav").write_bytes(wav_bytes(np.zeros(100, np.int16), rate_hz=rate_hz))
    with pytest.raises(DataError, match=r"Hz; allowed: a whole number from 1000 to 384000|not readable audio|no audio"):
        read_audio(tmp_path / "a.wav", RATE_HZ)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_located(tmp_path: Path, bad: float) -> None:
    sound = speech_like(2.0)
    sound[24_000] = bad
    soundfile.write(tmp_path / "a.wav", sound, RATE_HZ, subtype="FLOAT")
    for source in (tmp_path / "a.wav", sound):
        with pytest.raises(DataError, match=r"has a NaN or infinite sample at 1\.500 s"):
            read_audio(source, RATE_HZ, RATE_HZ)


def test_a_sample_beyond_any_format_is_located(tmp_path: Path) -> None:
    """Its power would overflow, and the error would be one of the network."""
    sound = speech_like(1.0)
    sound[8_000] = -1e30
    soundfile.write(tmp_path / "a.wav", sound, RATE_HZ, subtype="FLOAT")
    with pytest.raises(DataError, match=r"has a sample of -1e\+30 at 0\.500 s, where full scale is 1\.0"):
        read_audio(tmp_path / "a.wav", RATE_HZ)


def test_an_empty_sound_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(wav_bytes(np.zeros(0, np.int16)))
    for source in (tmp_path / "a.wav", np.zeros(0, np.float32)):
        with pytest.raises(DataError, match="holds no audio: not a single sample"):
            read_audio(source, RATE_HZ, RATE_HZ)


def test_a_film_without_sound_says_what_it_holds(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="needs av: pip install 'glassformer[audio]'")
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for _ in range(3):
            container.mux(stream.encode(av.VideoFrame(32, 32, "yuv420p")))
        container.mux(stream.encode(None))
    with pytest.raises(DataError, match="holds no audio, only video"):
        read_audio(tmp_path / "a.mp4", RATE_HZ)


@settings(max_examples=60, deadline=None)
@given(
    at=st.integers(0, 3_000),
    new=st.binary(min_size=1, max_size=40),
    name=st.sampled_from(["a.wav", "a.flac", "a.ogg", "a.caf"]),
)
def test_damage_anywhere_is_an_error_of_ours_or_read(
    tmp_path_factory: pytest.TempPathFactory, at: int, new: bytes, name: str
) -> None:
    path = tmp_path_factory.mktemp("damage") / name
    soundfile.write(path, speech_like(0.3), RATE_HZ)
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    path.write_bytes(content)
    try:
        read = read_audio(path, RATE_HZ)
    except DataError:
        return
    assert read.dtype == np.float32 and np.isfinite(read).all() and len(read)


# ----------------------------------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_and_arrays_of_floats(dtype: torch.dtype) -> None:
    sound = speech_like(0.1)
    read = read_audio(torch.from_numpy(sound).to(dtype).requires_grad_(), RATE_HZ, RATE_HZ)
    assert read.dtype == np.float32 and np.abs(read - sound).max() < 5e-3
    np.testing.assert_array_equal(read_audio(sound.astype(np.float64), RATE_HZ, RATE_HZ), sound)


def test_whole_numbers_are_scaled() -> None:
    for dtype, full in ((np.int16, 2**15), (np.int32, 2**31)):
        read = read_audio(np.array([0, full // 2, -full], dtype), RATE_HZ, RATE_HZ)
        assert read.tolist() == [0.0, 0.5, -1.0]


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        (np.zeros((2, 100), np.float32), r"shape \[2, 100\]; it must be \[samples\]"),
        (np.zeros(9, np.int64), "int64; it must be floats with full scale 1.0, or int16 or int32"),
        (np.zeros(9, bool), "bool; it must be floats"),
        (torch.zeros(9, dtype=torch.uint8), "uint8; it must be floats"),
        (0.5, "audio is 0.5; it must be a file, an array or a tensor of samples"),
        (None, "audio is None"),
    ],
)  # fmt: skip
def test_what_is_no_row_of_samples(sound: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_audio(sound, RATE_HZ, RATE_HZ)


def test_samples_need_a_rate() -> None:
    with pytest.raises(DataError, match=r"give sample_rate_hz=…, or the audio file"):
        read_audio(speech_like(0.1), RATE_HZ)
    for rate in (0, -16_000, 16_000.0, True, "16k", 2**40):
        with pytest.raises(DataError, match="Hz; allowed"):
            read_audio(speech_like(0.1), RATE_HZ, rate)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- resampling


RATES_HZ = [8_000, 11_025, 22_050, 44_100, 48_000, 44_101, 192_000]


@pytest.mark.soak  # at the real size of a block, the best part of a second each
@settings(max_examples=200, deadline=None)
@given(own_hz=st.sampled_from(RATES_HZ), samples=st.integers(1, 700_000), cut=st.integers(1, 300_000))
def test_blocks_are_resampled_as_the_whole_at_full_size(own_hz: int, samples: int, cut: int) -> None:
    assert_blocks_are_resampled_as_the_whole(own_hz, samples, cut)


@given(own_hz=st.sampled_from(RATES_HZ), samples=st.integers(1, 40_000), cut=st.integers(1, 16_000))
def test_blocks_are_resampled_as_the_whole(own_hz: int, samples: int, cut: int) -> None:
    with patch.object(reading, "BLOCK_SAMPLES", 1 << 13):  # several blocks fit into a short sound
        assert_blocks_are_resampled_as_the_whole(own_hz, samples, cut)


def test_a_whole_block_and_more_at_every_rate() -> None:
    """The sizes of which a short sound says nothing: one block of 2¹⁸ samples, and a few more."""
    for own_hz in RATES_HZ:
        assert_blocks_are_resampled_as_the_whole(own_hz, reading.BLOCK_SAMPLES + 50_000, reading.BLOCK_SAMPLES)


def assert_blocks_are_resampled_as_the_whole(own_hz: int, samples: int, cut: int) -> None:
    sound = np.random.default_rng(samples).standard_normal(samples).astype(np.float32)
    blocks = (sound[at : at + cut] for at in range(0, samples, cut))
    parts = list(resample(blocks, RATE_HZ, own_hz))
    shared = int(np.gcd(RATE_HZ, own_hz))
    whole = resample_poly(sound, RATE_HZ // shared, own_hz // shared)
    joined = np.concatenate(parts)
    case = f"{samples} samples at {own_hz} Hz in blocks of {cut}"
    assert joined.dtype == np.float32 and len(joined) == len(whole), case
    assert np.abs(joined - whole).max() <= 1e-6, case


def test_a_rate_that_is_right_already_costs_nothing() -> None:
    block = speech_like(0.1)
    assert next(resample([block], RATE_HZ, RATE_HZ)) is block


# -------------------------------------------------------------------------------------------------- missing packages


@pytest.mark.parametrize(
    ("package", "name", "purpose"),
    [
        ("soundfile", "a.wav", "reading a.wav"),
        ("av", "a.m4a", "reading a.m4a, whose format soundfile does not know"),
        ("scipy.signal", "a.wav", "resampling audio from 8000 to 16000 Hz"),
    ],
)  # fmt: skip
def test_a_missing_package_is_named_with_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, name: str, purpose: str
) -> None:
    if name.endswith("wav"):
        soundfile.write(tmp_path / name, speech_like(0.5, 8_000), 8_000)
    else:
        encoded(tmp_path / name, speech_like(0.5), RATE_HZ, "aac")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'glassformer\[audio\]'") as raised:
        read_audio(tmp_path / name, RATE_HZ)
    assert purpose in str(raised.value)
