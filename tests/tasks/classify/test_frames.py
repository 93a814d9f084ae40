"""Frames of sound get labels: the reference's loss, a run from the command line that overfits, segments by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import glassformer
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.classify.frames import TagAudio, segments_of
from glassformer.training.trainer import Trainer
from tests.cli.conftest import run_here
from tests.e2e.tiny_models import make_folder
from tests.tasks.resumed import assert_resumes

RATE = 16_000
LABELS = {"id2label": {"0": "none", "1": "high", "2": "low"}}
STILL = dict.fromkeys(
    "hidden_dropout attention_dropout activation_dropout feat_proj_dropout final_dropout layerdrop".split(), 0.0
)


def sound_table(folder: Path, count: int = 6, *, even: bool = False) -> Path:
    """Silence, then a low tone, then a high one, of changing lengths."""
    soundfile = pytest.importorskip("soundfile")
    rows = []
    for number in range(count):
        ends = np.cumsum([0.02, 0.03 + 0.005 * (number % 3), 0.04 + 0.01 * number * (not even)])
        if even:
            ends[2] = 0.1
        time = np.arange(round(ends[2] * RATE)) / RATE
        hertz = np.where(time < ends[1], 300, 3_000)
        wave = np.where(time < ends[0], 0.0, 0.4 * np.sin(2 * np.pi * hertz * time))
        soundfile.write(folder / f"{number}.wav", wave, RATE)
        segments = [(ends[0], ends[1], "low"), (ends[1], ends[2], "high")]
        named = [{"start": round(a, 4), "end": round(b, 4), "label": label} for a, b, label in segments]
        rows.append({"file": f"{number}.wav", "segments": named})
    (folder / "sounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "sounds.jsonl"


def speech_encoder(folder: Path, **changes: Any) -> Path:
    return make_folder(folder, "wav2vec2", task="audio-frame-classification", **{**STILL, **LABELS, **changes})


def perturbed(folder: Path) -> glassformer.Model:
    model = glassformer.load(folder, task="tag-audio")
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    return glassformer.load(folder, task="tag-audio")


def test_the_loss_and_its_gradient_are_the_references(tmp_path: Path) -> None:
    """Of sounds of one length, since the reference learns the frames of padding too."""
    transformers = pytest.importorskip("transformers")
    folder = speech_encoder(tmp_path / "encoder")
    task, rows = TagAudio(perturbed(folder)), read_rows(sound_table(tmp_path, even=True))
    reference = transformers.Wav2Vec2ForAudioFrameClassification.from_pretrained(folder).eval()
    examples = task.encode(rows)
    trainer = Trainer(task.model, task, TrainingOptions(steps=1), train=examples, validation=examples)
    trainer.network.eval()
    batch = task.collate(list(examples))
    assert isinstance(batch.labels, torch.Tensor) and set(batch.labels.flatten().tolist()) == {0, 1, 2}
    one_hot = torch.nn.functional.one_hot(batch.labels, 3)
    theirs = reference(input_values=batch.batch.input_values, labels=one_hot).loss
    theirs.backward()
    loss, _ = trainer.gradients.accumulate([batch])
    assert loss == pytest.approx(float(theirs.detach()), rel=1e-5)
    assert trainer.validate()["loss"] == pytest.approx(loss, rel=1e-5)
    gradient = trainer.network.get_parameter("head.classifier.weight").grad
    torch.testing.assert_close(gradient, reference.classifier.weight.grad, rtol=1e-4, atol=1e-6)


def test_from_a_file_to_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Trained by the command line until nearly every frame has its label; the head is new."""
    folder = make_folder(tmp_path / "encoder", "wav2vec2", task="feature-extraction", **STILL)
    table, run = sound_table(tmp_path), tmp_path / "run"
    given = ("--task", "tag-audio", "--model", folder, "--data", table, "--validation", table, "--output", run)
    given += ("--steps", "150", "--batch-size", "6", "--lr", "1e-2", "--set", "training.schedule=constant")
    given += ("--set", "training.validate_every=150", "--set", "training.save_every=150")
    done = run_here(capsys, "train", *given)
    assert done.returncode == 0, done.stderr
    report = json.loads((run / "evaluation" / "validation" / "report.json").read_text("utf-8"))
    scores = {name: score["value"] for name, score in report["metrics"].items()}
    assert scores["accuracy"] > 0.95 and scores["f1_macro"] > 0.9
    assert report["baselines"]["most frequent"]["metrics"]["accuracy"]["value"] < 0.7
    done = run_here(capsys, "errors", run, "--json")
    assert json.loads(done.stdout)["label_kind"] == "texts"
    model = glassformer.load(run)
    assert model.config["id2label"] == LABELS["id2label"]
    (first, *_) = TagAudio(model).predict(read_rows(table))
    assert [each["label"] for each in first.details["segments"]] == ["low", "high"]
    assert first.details["segments"][1]["start"] == pytest.approx(0.05, abs=0.006)
    done = run_here(capsys, "predict", "tag-audio", run, tmp_path / "0.wav")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["low", "high"], done.stderr


def test_the_pipeline_gives_the_segments_of_the_task(tmp_path: Path) -> None:
    model, table = perturbed(speech_encoder(tmp_path / "encoder")), sound_table(tmp_path)
    expected = [x.details["segments"] for x in TagAudio(model).predict(read_rows(table))]
    tag = glassformer.pipeline("audio-frame-classification", model)
    files = [str(tmp_path / f"{number}.wav") for number in range(6)]
    found = tag(files)
    assert [[(x.label, x.start, x.end) for x in each] for each in found] == [
        [(x["label"], x["start"], x["end"]) for x in each] for each in expected
    ]
    assert found[0] == tag(files[0]) and all(1 / 3 < x.score <= 1 for each in found for x in each)
    model.config["problem_type"] = "multi_label_classification"
    everything = tag(files[0], threshold=0.0)
    assert [x.label for x in everything] == ["high", "low"] and {x.start for x in everything} == {0.0}
    with pytest.raises(ConfigError, match="threshold is 2"):
        tag(files[0], threshold=2)


def test_each_method_of_the_trainer_and_of_any_batch_size(tmp_path: Path) -> None:
    folder, rows = speech_encoder(tmp_path / "encoder"), read_rows(sound_table(tmp_path))
    task = TagAudio(perturbed(folder))
    examples = task.encode(rows, cache=tmp_path / "cache")
    options = TrainingOptions(epochs=2, batch_size=3, learning_rate=1e-2)
    trainer = Trainer(task.model, task, options, train=examples, validation=examples, folder=tmp_path / "run")
    before = trainer.validate()
    one, all_ = (list(task.for_evaluation(tokens=tokens).predict(rows)) for tokens in (1, 4_096))
    assert task.metrics(all_).values()["f1_macro"] == pytest.approx(before["f1_macro"])
    for a, b in zip(one, all_, strict=True):
        assert a.predicted == b.predicted and a.loss == pytest.approx(b.loss, abs=1e-4)
    assert trainer.train_step().loss > 0
    trainer.train_epoch()
    assert trainer.state.step == 2
    assert [len(logits) for logits in trainer.predict(examples)] == [len(x["labels"]) for x in examples]
    assert_resumes(lambda: TagAudio(glassformer.load(folder, task="tag-audio")), rows, tmp_path)


def test_a_frame_has_the_label_at_its_middle(tmp_path: Path) -> None:
    task = TagAudio(glassformer.load(speech_encoder(tmp_path / "encoder"), task="tag-audio"))
    spec = task.features.spec
    classes = task._classes([(0.0, 0.01, "low"), (0.02, 9.0, "high")], RATE // 20)
    assert len(classes) == task.features.frames(RATE // 20)
    for frame, number in enumerate(classes):
        middle = (frame * spec.hop + spec.samples / 2) / RATE
        assert task.kind.names[number] == ("low" if middle < 0.01 else "high" if middle >= 0.02 else "none")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"segments": [{"start": 0.2, "end": 0.1, "label": "low"}]}, "a segment is .*in seconds"),
        ({"segments": [{"start": -1, "end": 0.1, "label": "low"}]}, "a segment is"),
        ({"segments": [{"start": 0, "label": "low"}]}, "a segment is"),
        ({"segments": "low"}, "a segment is"),
        ({"segments": [{"start": 0, "end": 1, "label": ""}]}, "the label is empty"),
        ({"segments": [{"start": 0, "end": 1, "label": "middle"}]}, "'middle' is none of the 3 that the model knows"),
        (
            {"segments": [{"start": 0, "end": 1, "label": "low"}, {"start": 0.5, "end": 2, "label": "high"}]},
            r"'low' ends at 1 s, and 'high' begins at 0\.5 s; .*must not overlap",
        ),
        ({"file": "none.wav"}, r"none\.wav"),
        ({"file": {"array": [0.0] * 5, "sampling_rate": RATE}}, "the sound has 5 samples, fewer than a frame"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    (row, *_) = read_rows(sound_table(tmp_path))
    row = {**row, "file": str(tmp_path / row["file"])}
    task = TagAudio(glassformer.load(speech_encoder(tmp_path / "encoder"), task="tag-audio"))
    with pytest.raises(DataError, match=rf"row 0.*{message}"):
        task.encode(read_rows([{**row, **given}]))


def test_other_models_and_other_heads(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="load it with task='audio-frame-classification'"):
        TagAudio(glassformer.load(make_folder(tmp_path / "w", "wav2vec2", task="audio-classification", **LABELS)))
    several = speech_encoder(tmp_path / "several", problem_type="multi_label_classification")
    with pytest.raises(ConfigError, match="a frame has one class of several"):
        TagAudio(glassformer.load(several, task="tag-audio"))
    rows = read_rows([{"file": "a.wav", "segments": []}])
    with pytest.raises(DataError, match="no row has a segment in 'segments'"):
        TagAudio.head_config(rows, {}, own=False, columns=None, options={})


def test_segments_are_sorted_and_may_touch() -> None:
    given = [{"start": 1, "end": 2, "label": "b"}, {"start": "0", "end": 1.0, "label": 7}]
    assert segments_of(np.array(given, dtype=object), "segments") == [(0.0, 1.0, "7"), (1.0, 2.0, "b")]
    assert segments_of(None, "segments") == segments_of([], "segments") == []
