"""Transcription as a task: it trains, is evaluated the same in validation and evaluation, alone and in any batch."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.core.flow import Batch, Flow
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError
from glassformer.evaluation.runs import open_run
from glassformer.model import Model
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.vocabulary import SpeechVocabulary
from glassformer.speech.window import WindowDecoder
from glassformer.tasks.metrics.speech import word_errors
from glassformer.tasks.transcribe.task import Transcribe
from glassformer.training.run import make_trainer
from tests.tasks.transcribe.tones import LETTERS, configured, whisper_folder

ASR = "automatic-speech-recognition"


def loaded(folder: Path) -> Model:
    return glassformer.load(folder, task=ASR, offline=True)


# ------------------------------------------------------------------------------------------------ training


def test_letters_are_learnt_from_nothing(clips: Path, tmp_path: Path) -> None:
    data = {"train": str(clips), "validation": 0.34, "groups": "speaker"}
    config = configured(
        tmp_path / "run",
        data,
        scratch=LETTERS,
        tokenizer={"kind": "characters"},
        training={"steps": 110, "validate_every": 110, "training_sample": 4},
    )
    trainer = make_trainer(config)
    assert [len(trainer.train_examples), len(trainer.validation_examples or ())] == [16, 8]  # of three speakers, one
    result = trainer.train()
    assert trainer.model.tokenizer.convert_ids_to_tokens([5, 6]) == ["a", "b"]
    assert result.metrics["wer"] <= 0.25 and result.metrics["train_wer"] <= 0.25

    found = open_run(tmp_path / "run").evaluate(resamples=20)
    assert found.report.metrics["wer"].value == pytest.approx(result.metrics["wer"])
    assert found.report.metrics["cer"].value == pytest.approx(result.metrics["cer"])
    assert found.report.baselines == {}, "it had no letters before the training"
    ours = word_errors([x.label for x in found.predictions], [x.predicted for x in found.predictions])
    assert ours.wer.value == pytest.approx(result.metrics["wer"])
    first = found.predictions[0]
    heard = loaded(tmp_path / "run" / "model").transcribe(first.row["audio"], num_beams=1).text
    assert heard == first.predicted
    beams = open_run(tmp_path / "run").evaluate(str(clips), resamples=20, beams=4, baselines=False, by="speaker")
    groups = beams.report.groups
    assert groups is not None and {group.name for group in groups.groups} == {f"speaker {i}" for i in range(3)}
    assert all(
        group.rows == group.amounts["words"] == 8 and 2 < group.amounts["seconds"] < 5 for group in groups.groups
    )
    assert "beam search with 4 beams" in str(beams.report.notes)


def test_a_checkpoint_that_never_wrote_gets_letters(clips: Path, tmp_path: Path) -> None:
    Model.from_config(LETTERS, task="feature-extraction").save_pretrained(tmp_path / "body")
    data = {"train": str(clips), "ignore": ["speaker"]}
    values = {"model": str(tmp_path / "body"), "tokenizer": {"kind": "characters"}}
    trainer = make_trainer(configured(tmp_path / "run", data, **values))
    assert trainer.model.vocabulary == 7 and trainer.model.tokenizer.convert_ids_to_tokens([0, 5, 6])[1:] == ["a", "b"]
    assert np.isfinite(trainer.train_step().loss)
    with pytest.raises(glassformer.DataError, match=r"no tokenizer.*tokenizer: \{kind: characters\}"):
        make_trainer(configured(tmp_path / "none", data, model=str(tmp_path / "body")))


@pytest.mark.parametrize("adapter", [None, {"rank": 4, "target_modules": ["q", "v", "up"]}])
def test_whisper_is_fine_tuned(clips: Path, whisper_of_bytes: Path, tmp_path: Path, adapter: Any) -> None:
    steps = 12 if adapter else 100
    config = configured(
        tmp_path / "run",
        {"train": str(clips), "validation": str(clips), "ignore": ["speaker"]},
        model=str(whisper_of_bytes),
        task_options={
            "audio_context": "sound",
            "augmentation": {"gain_db": 3, "time_masks": 1, "time_mask_seconds": 0.05},
        },
        training={"steps": steps, "validate_every": steps, "learning_rate": 4e-3},
        adapter=adapter,
    )
    trainer = make_trainer(config)
    before = trainer.validate()
    result = trainer.train()
    assert result.metrics["loss"] < (0.99 if adapter else 0.8) * before["loss"]
    if adapter:
        return
    assert result.metrics["wer"] <= 0.75 < before["wer"]
    found = open_run(tmp_path / "run").evaluate(resamples=20)
    assert found.report.metrics["wer"].value == pytest.approx(result.metrics["wer"])
    assert found.report.baselines["before training"].metrics["wer"].value >= 1
    assert np.mean([x.loss for x in found.predictions if x.loss is not None]) == pytest.approx(
        result.metrics["loss"], rel=1e-4
    )
    labels = json.loads((tmp_path / "run" / "model" / "preprocessor_config.json").read_text("utf-8"))
    assert labels["chunk_length"] == 2, "the model can be loaded by anyone"


# ------------------------------------------------------------------------------------------------ examples


def test_the_decoder_is_taught_the_prompt_the_tokens_and_the_end(tmp_path: Path, clips: Path) -> None:
    model = loaded(whisper_folder(tmp_path / "several", multilingual=True))
    vocabulary = SpeechVocabulary.of(model)
    with pytest.raises(ConfigError, match="multilingual; say which language"):
        Transcribe(model)
    with pytest.raises(ConfigError, match="language is 'xx'; this model knows en, uk"):
        Transcribe(model, language="xx")
    task = Transcribe(model, language="Ukrainian", translate=True)
    rows = read_rows(str(clips))
    batch = task.collate([task.encode(rows[:2])[i] for i in (0, 1)])
    prompt = vocabulary.prompt("uk", "translate", timestamps=False)
    text = model.tokenizer(" aa", add_special_tokens=False)["input_ids"]
    assert isinstance(batch.labels, torch.Tensor) and batch.batch.decoder_input_ids is not None
    assert batch.labels[0].tolist() == [*prompt[1:], *text, vocabulary.end]
    assert batch.batch.decoder_input_ids[0].tolist() == [*prompt, *text]
    assert batch.texts == ("aa", "ab")


@pytest.mark.parametrize("context", ["window", "sound", None])
def test_the_same_numbers_alone_and_in_any_batch(
    clips: Path, whisper_of_bytes: Path, letters: Path, context: str | None
) -> None:
    """`None`: of letters. Each sound has the encoder context of its own length, whatever stands next to it."""
    options = {} if context is None else {"audio_context": context}
    task = Transcribe(loaded(letters if context is None else whisper_of_bytes), **options)
    rows = read_rows(str(clips))[:6]
    alone, together = (list(task.for_evaluation(tokens=tokens).predict(rows)) for tokens in (1, 100_000))
    assert len({len(np.asarray(task.encode(rows)[i]["samples"])) for i in range(6)}) > 3
    assert [x.predicted for x in alone] == [x.predicted for x in together]
    assert [x.loss for x in alone] == pytest.approx([x.loss for x in together], rel=1e-4)


def test_a_cut_encoder_context_of_the_whole_window_is_the_window(whisper_of_bytes: Path) -> None:
    network: Any = loaded(whisper_of_bytes).network.eval()
    features = torch.randn(2, 16, 200, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whole = network.memory(Batch(input_features=features), Flow()).states
        same = network.memory(Batch(input_features=features), Flow(positions=torch.arange(100)[None])).states
        half = network.memory(Batch(input_features=features[:, :, :40]), Flow(positions=torch.arange(20)[None])).states
    torch.testing.assert_close(whole, same)
    assert half.shape[1] == 20


def test_a_short_clip_is_heard_as_it_was_trained(whisper_of_bytes: Path, clips: Path) -> None:
    model, rows = loaded(whisper_of_bytes), read_rows(str(clips))[:1]
    task = Transcribe(model, audio_context="sound")
    batch = task.collate([task.encode(rows)[0]])
    decoder = WindowDecoder(model, TranscriptionOptions(audio_context="sound"))
    processor: Any = model.processor
    spectrogram = Spectrogram.read(processor, rows[0]["file"])
    features = spectrogram.window(0, spectrogram.frames, quiet=decoder.quiet_frames)[None]
    with torch.inference_mode():
        trained: Any = model.network.eval().memory(batch.batch, batch.flow)
    heard = decoder.encode(features, [spectrogram.frames])
    assert heard.states.shape == trained.states.shape and heard.states.shape[1] < 60
    torch.testing.assert_close(heard.states, trained.states, rtol=1e-3, atol=1e-3)
    with pytest.raises(ConfigError, match="audio_context is 'half'; allowed: window, sound"):
        TranscriptionOptions(audio_context="half")


def test_a_letter_that_the_vocabulary_lacks_is_said(letters: Path, clips: Path) -> None:
    task = Transcribe(loaded(letters))
    rows = read_rows([{"file": str(clips / "clips" / "0-0.wav"), "text": text} for text in ("A-a", "xxx")])
    with pytest.warns(UserWarning, match="lacks are left out of transcripts: 'x' 3 times, '-' 1 times"):
        examples = task.encode(rows)
    assert examples[0]["labels"].tolist() == [5, 5] and len(examples) == 1
    assert "no letter of the vocabulary" in task.dropped[0].reason
    with pytest.raises(ConfigError, match=r"masks its frames by itself.*mask_time_prob"):
        Transcribe(loaded(letters), augmentation={"time_masks": 1})
    with pytest.raises(ConfigError, match="leave translate and audio_context out"):
        Transcribe(loaded(letters), audio_context="sound")


def test_recordings_that_do_not_fit_are_transcribed_all_the_same(whisper_of_bytes: Path, letters: Path) -> None:
    long = {"array": np.tile(np.sin(np.arange(16_000)), 3).tolist(), "sampling_rate": 16_000}
    short = {"array": [0.1] * 40, "sampling_rate": 16_000}
    rows = read_rows([{"file": long, "text": "a a"}, {"file": short, "text": "a"}])
    for folder, misfit in ((whisper_of_bytes, 0), (letters, 1)):
        found = list(Transcribe(loaded(folder)).for_evaluation().predict(rows))
        assert [x.loss is None for x in found] == [index == misfit for index in (0, 1)]
        assert found[0].row == {}, "samples are not written into the file of predictions"
    assert found[1].predicted == ""


def test_options_are_checked(letters: Path, whisper_of_bytes: Path, clips: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="audio_context is 'all'; it must be one of: window, sound"):
        Transcribe(loaded(whisper_of_bytes), audio_context="all")
    with pytest.raises(ConfigError, match="'speeds' is no option"):
        Transcribe(loaded(letters), augmentation={"speeds": [1.0]})
    with pytest.raises(ConfigError, match="normaliser is 'lower'"):
        Transcribe(loaded(letters), normaliser="lower")
    with pytest.raises(ConfigError, match="num_beams is 0"):
        Transcribe(loaded(letters)).for_evaluation(beams=0)
    with pytest.raises(glassformer.GlassformerError, match=r"nothing\.ngram"):
        Transcribe(loaded(letters)).for_evaluation(language_model=str(tmp_path / "nothing.ngram"))
    task = Transcribe(loaded(letters))
    next(task.model.network.parameters()).full_tensor = None  # type: ignore[attr-defined] # as FSDP's have
    with pytest.raises(ConfigError, match="set sharded: false"):
        task.metric()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(Transcribe(loaded(letters)).encode(read_rows(str(clips))[:2])) == 2
