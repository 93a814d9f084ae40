"""AudioProcessor: read from a folder, read by the folder's own settings, saved as it was."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import soundfile
import torch
from transformers import Wav2Vec2FeatureExtractor, Wav2Vec2Processor, WhisperFeatureExtractor

from glassformer.audio import AudioProcessor
from glassformer.audio.features import LogMel, Waveform
from glassformer.errors import ConfigError, DataError, UnsupportedError
from tests.audio.sounds import RATE_HZ, speech_like

WHISPER = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80}
WAVE = {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "return_attention_mask": True}


# ----------------------------------------------------------------------------------------------------------- folders


def test_a_folder_without_any_has_none(tmp_path: Path) -> None:
    assert AudioProcessor.find(tmp_path) is None
    (tmp_path / "processor_config.json").write_text('{"processor_class": "WhisperProcessor"}')
    assert AudioProcessor.find(tmp_path) is None


@pytest.mark.parametrize(
    ("kind", "options", "front", "own_options"),
    [
        (WhisperFeatureExtractor, {}, LogMel, {}),
        (
            WhisperFeatureExtractor,
            {"feature_size": 128, "chunk_length": 15, "hop_length": 80},
            LogMel,
            {"bins": 128, "seconds": 15, "hop_samples": 80},
        ),
        (Wav2Vec2FeatureExtractor, {}, Waveform, {}),
        (
            Wav2Vec2FeatureExtractor,
            {"do_normalize": False, "return_attention_mask": True, "padding_value": 0.5, "sampling_rate": 8_000},
            Waveform,
            {"normalised": False, "masked": True, "padding_value": 0.5, "sample_rate_hz": 8_000},
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
def test_what_the_reference_saves_is_read_and_saved_again(
    tmp_path: Path,
    kind: Any,
    options: dict[str, Any],
    front: type[LogMel | Waveform],
    own_options: dict[str, Any],
    nested: bool,
) -> None:
    theirs, expected = kind(**options), front(**own_options)
    theirs.save_pretrained(tmp_path / "theirs")
    file = tmp_path / "theirs" / "preprocessor_config.json"
    if nested:  # as newer releases save a processor with its tokenizer
        whole = {"feature_extractor": json.loads(file.read_text()), "processor_class": "P"}
        file.unlink()
        file = tmp_path / "theirs" / "processor_config.json"
        file.write_text(json.dumps(whole))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # every key is known
        processor = AudioProcessor.find(tmp_path / "theirs")
    assert processor is not None and processor.extractor == expected
    assert processor.sample_rate_hz == expected.sample_rate_hz

    processor.save(tmp_path / "ours")
    assert [path.name for path in (tmp_path / "ours").iterdir()] == [file.name]
    assert json.loads((tmp_path / "ours" / file.name).read_text()) == json.loads(file.read_text())
    assert AudioProcessor.find(tmp_path / "ours").extractor == expected  # type: ignore[union-attr]
    if not nested:
        assert type(theirs).from_pretrained(tmp_path / "ours").to_dict() == theirs.to_dict()


def test_a_processor_that_the_reference_saves_whole(tmp_path: Path) -> None:
    from transformers import Wav2Vec2CTCTokenizer

    (tmp_path / "vocab.json").write_text('{"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, "|": 4, "a": 5}')
    tokenizer = Wav2Vec2CTCTokenizer(str(tmp_path / "vocab.json"))
    whole = Wav2Vec2Processor(Wav2Vec2FeatureExtractor(return_attention_mask=True), tokenizer)
    whole.save_pretrained(tmp_path / "saved")
    processor = AudioProcessor.find(tmp_path / "saved")
    assert processor is not None and processor.extractor == Waveform(masked=True)


def test_the_nested_one_counts_where_there_are_both(tmp_path: Path) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(WAVE))
    (tmp_path / "processor_config.json").write_text(json.dumps({"feature_extractor": WHISPER}))
    processor = AudioProcessor.find(tmp_path)
    assert processor is not None and isinstance(processor.extractor, LogMel)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": NaN}', '{"n_fft": 1, "n_fft": 2}', "[" * 9_999])
def test_damaged_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "preprocessor_config.json").write_text(content)
    with pytest.raises(ConfigError, match=r"preprocessor_config\.json"):
        AudioProcessor.find(tmp_path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        AudioProcessor.from_config(WAVE).save(tmp_path / "file")


# ------------------------------------------------------------------------------------------------------------ config


def test_old_files_do_not_say_what_kind_they_are() -> None:
    assert AudioProcessor.from_config({"feature_size": 1, "do_normalize": True}).extractor == Waveform()
    old = {
        "feature_size": 80,
        "n_fft": 400,
        "mel_filters": [[0.0]],
        "n_samples": 480_000,
        "nb_max_frames": 3000,
    }
    assert AudioProcessor.from_config(old).extractor == LogMel()


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        ({}, UnsupportedError, "feature_extractor_type = None is not supported; supported: DacFeatureExtractor"),
        ({"feature_extractor_type": "ASTFeatureExtractor"}, UnsupportedError, "'ASTFeatureExtractor' is not supported"),
        ({"feature_extractor_type": ["Whisper"]}, UnsupportedError, "is not supported"),
        ({"feature_extractor": 7}, ConfigError, "feature_extractor is 7; it must be an object"),
        ({**WHISPER, "dither": 0.1}, UnsupportedError, r"dither = 0\.1 is not supported"),
        ({**WHISPER, "do_normalize": True}, UnsupportedError, "do_normalize = True is not supported"),
        ({**WHISPER, "padding_side": "left"}, UnsupportedError, "padding_side = 'left' is not supported"),
        ({**WHISPER, "feature_size": 0}, ConfigError, "feature_size is 0; it must be a whole number from 1 to 1024"),
        ({**WHISPER, "feature_size": 10**12}, ConfigError, "feature_size"),
        ({**WHISPER, "hop_length": 1.5}, ConfigError, "hop_length"),
        ({**WHISPER, "sampling_rate": True}, ConfigError, "sampling_rate"),
        ({**WHISPER, "sampling_rate": 10**9}, ConfigError, "sampling_rate"),
        ({**WHISPER, "chunk_length": -1}, ConfigError, "chunk_length"),
        ({**WHISPER, "chunk_length": 1, "sampling_rate": 1000, "n_fft": 4000}, ConfigError, "exceed the 1000"),
        ({**WHISPER, "padding_value": "0"}, ConfigError, "padding_value is '0'; it must be a number"),
        ({**WAVE, "feature_size": 2}, UnsupportedError, "feature_size = 2 is not supported; supported: 1"),
        ({**WAVE, "do_normalize": 1}, ConfigError, "do_normalize is 1; it must be true or false"),
        ({**WAVE, "return_attention_mask": "yes"}, ConfigError, "return_attention_mask"),
    ],
)  # fmt: skip
def test_what_is_refused(config: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        AudioProcessor.from_config(config)


def test_an_unknown_key_is_named() -> None:
    with pytest.warns(UserWarning, match=r"preprocessor_config\.json: 'window' = 'hann' is not read"):
        AudioProcessor.from_config({**WHISPER, "window": "hann"})


# ------------------------------------------------------------------------------------------------------------ sounds


def test_files_and_samples_of_any_rate_in_one_batch(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "a.wav", speech_like(1.0, 44_100), 44_100, subtype="FLOAT")
    processor = AudioProcessor.from_config(WAVE)
    batch = processor([tmp_path / "a.wav", str(tmp_path / "a.wav"), speech_like(0.5, 8_000)], sample_rate_hz=8_000)
    assert batch["input_values"].shape == batch["attention_mask"].shape == (3, RATE_HZ)
    assert batch["attention_mask"].sum(1).tolist() == [RATE_HZ, RATE_HZ, RATE_HZ // 2]
    assert torch.equal(batch["input_values"][0], batch["input_values"][1])


def test_one_sound_in_each_form_gives_one_row(tmp_path: Path) -> None:
    sound = speech_like(0.3)
    soundfile.write(tmp_path / "a.wav", sound, RATE_HZ, subtype="FLOAT")
    processor = AudioProcessor.from_config(WHISPER)
    rows = [
        processor(source, sample_rate_hz=RATE_HZ)["input_features"]
        for source in (
            tmp_path / "a.wav",
            str(tmp_path / "a.wav"),
            sound,
            torch.from_numpy(sound),
            [sound],
            (sound,),
        )
    ]
    assert all(row.shape == (1, 80, 3000) and torch.equal(row, rows[0]) for row in rows)


@pytest.mark.parametrize("value", [[], (), b"RIFF", {"array": [0.0]}, None, 3])
def test_what_is_no_sound(value: Any) -> None:
    with pytest.raises(DataError):
        AudioProcessor.from_config(WHISPER)(value, sample_rate_hz=RATE_HZ)


def test_samples_need_a_rate() -> None:
    with pytest.raises(DataError, match="give sample_rate_hz"):
        AudioProcessor.from_config(WHISPER)(speech_like(0.1))


# ------------------------------------------------------------------------------------------------- sounds that are long


def test_a_long_sound_is_cut_with_a_warning_that_names_the_way() -> None:
    sound = speech_like(42.5)
    processor = AudioProcessor.from_config(WHISPER)
    with pytest.warns(
        UserWarning, match=r"audio 1 is 42\.5 s long, of which the first 30 s are read; processor\.windows"
    ):
        cut = processor([speech_like(1.0), sound], sample_rate_hz=RATE_HZ)["input_features"]
    assert torch.equal(cut[1:], processor(sound[: 30 * RATE_HZ], RATE_HZ)["input_features"])


@pytest.mark.parametrize("seconds", [0.5, 30.0, 30.001, 60.0, 75.0])
def test_windows_hold_all_of_a_sound(seconds: float) -> None:
    sound = speech_like(seconds)
    processor = AudioProcessor.from_config(WHISPER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        windows = processor.windows(sound, RATE_HZ)["input_features"]
        count = -(-len(sound) // (30 * RATE_HZ))
        assert windows.shape == (count, 80, 3000)
        for i, window in enumerate(windows):
            part = sound[i * 30 * RATE_HZ : (i + 1) * 30 * RATE_HZ]
            torch.testing.assert_close(window, processor(part, RATE_HZ)["input_features"][0], atol=1e-6, rtol=0)


def test_a_wave_is_never_cut() -> None:
    processor = AudioProcessor.from_config(WAVE)
    sound = speech_like(31.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert processor(sound, RATE_HZ)["input_values"].shape == (1, len(sound))
        assert torch.equal(processor.windows(sound, RATE_HZ)["input_values"], processor(sound, RATE_HZ)["input_values"])


def test_it_says_what_it_is() -> None:
    assert "bins=80" in repr(AudioProcessor.from_config(WHISPER))
