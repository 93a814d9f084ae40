"""Models over codes are trained by a configuration, their reports have scores and baselines, and one hears them."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from glassformer_guitar import GuitarRows
from torch import Tensor
from torch.nn import functional as F

import glassformer
from glassformer.cli.train import next_commands
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.evaluation.evaluate import evaluate
from glassformer.evaluation.runs import open_run
from glassformer.model import Model
from glassformer.models import FAMILIES
from glassformer.runs.config import parse_config
from glassformer.tasks.audio_codes.convert import AudioToAudio
from glassformer.tasks.audio_codes.generate import CodeNgrams, GenerateAudio
from glassformer.training.run import make_trainer
from tests.core.small import perturbed

CODEC = {**FAMILIES["dac"].tiny, "downsampling_ratios": [4, 4, 10]}  # 100 frames a second, 3 codebooks of 16
DECODER = {
    "model_type": "musicgen_decoder",
    **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 32},
    **{"max_position_embeddings": 33, "dropout": 0.0},
}
CLIPS = {"kind": "guitar", "seconds": 0.5, "contents": ["note"], "pedals": {"overdrive": 1.0}}
PAIRS = {**CLIPS, "dry": True}
COLUMNS = {"source": "dry", "target": "file"}


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("codec")
    model = Model.from_config(CODEC).eval()
    perturbed(model.network)
    model.save_pretrained(folder)
    return str(folder)


def config(folder: Path, codec: str, task: str, **changes: Any) -> Any:
    converts = task == "audio-to-audio"
    clips = PAIRS if converts else CLIPS
    return parse_config(
        {
            "task": task,
            "output": str(folder),
            "scratch": {**DECODER, "max_position_embeddings": 36} if converts else DECODER,
            "data": {
                "train": "a guitar",
                "format": {**clips, "clips": 6, "part": "train"},
                "validation": "another guitar",
                "validation_format": {**clips, "clips": 2, "part": "test"},
                "ignore": ["notes", "pedals"],
                **({"columns": COLUMNS} if converts else {}),
            },
            "task_options": {"codec": codec, "seconds": 0.3},
            "training": {"steps": 8, "batch_size": 4, "learning_rate": 1e-2, "validate_every": 4},
            **changes,
        }
    )


def trained(folder: Path, codec: str, task: str) -> tuple[Model, Any]:
    made = config(folder, codec, task)
    trainer = make_trainer(made)
    result = trainer.train()
    assert next_commands(made, trainer)[0] == f"glassformer listen {folder}"
    assert {"loss", "window_perplexity", "window_bits"} <= set(result.metrics)
    assert result.metrics["loss"] < math.log(16)
    return glassformer.load(folder, strict=True, offline=True), result


def test_a_decoder_of_codes_is_trained_and_evaluated(tmp_path: Path, codec: str) -> None:
    model, result = trained(tmp_path / "run", codec, "generate-audio")
    assert model.task == "text-to-audio" and model.config["frame_rate_hz"] == 100.0
    task = GenerateAudio(model, codec=codec, seconds=0.3).for_evaluation()
    train, rows = (read_rows("clips", **CLIPS, clips=4, part=part) for part in ("train", "test"))
    found = evaluate("generate-audio", task, rows, train=train, resamples=20)
    scores = found.report.metrics
    assert scores["bits_per_code"].low <= scores["bits_per_code"].value <= scores["bits_per_code"].high
    assert scores["perplexity"].value == pytest.approx(2 ** scores["bits_per_code"].value)
    assert list(found.report.baselines) == ["bigrams", "unigrams"] and not found.report.higher
    assert not set(result.metrics) & set(scores)  # of one window of each recording, not of whole ones
    (example,) = task.listen(read_rows("one", **CLIPS, clips=1))
    recording, continued = example.sounds
    assert continued.seconds == pytest.approx(0.15 + 0.6) and continued.marks[0].start_s == pytest.approx(0.15)
    assert recording.seconds == 0.5


def test_a_report_learns_its_bigrams_from_the_codes_that_the_run_keeps(
    tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    made = config(folder, codec, "generate-audio", training={"steps": 1, "batch_size": 4})
    make_trainer(replace(made, data=replace(made.data, cache=True))).train()
    run, read, original = open_run(folder), list[int](), GenerateAudio.codes_of
    monkeypatch.setattr(GenerateAudio, "codes_of", lambda task, x: read.append(len(x)) or original(task, x))
    kept = run.evaluate(resamples=20).report.baselines
    assert len(read) == 2, "the rows that are evaluated, once each"
    shutil.rmtree(folder / "examples")
    assert run.evaluate(resamples=20).report.baselines == kept and len(read) == 2 + 2 + 6


def test_bits_are_those_of_the_whole_pass(codec: str) -> None:
    torch.manual_seed(0)
    sizes = {"num_codebooks": 3, "vocab_size": 16, "pad_token_id": 16, "bos_token_id": 16}
    model = Model.from_config({**DECODER, **sizes}, task="text-to-audio").eval()
    perturbed(model.network)
    task = GenerateAudio(model, codec=codec).for_evaluation()
    rows = read_rows("clips", **CLIPS, clips=2)
    predictions = list(task.predict(rows))
    codes = task.codes_of(rows[0]["file"]["array"])  # [50, 3], two windows of 30 frames at most
    expected = np.zeros(3)
    for window in (codes[:30], codes[30:]):
        batch = task.collate([{"labels": window}])
        with torch.no_grad():
            logits = model(input_ids=batch.batch.input_ids).logits
        labels = batch.labels
        assert isinstance(labels, Tensor)
        for book in range(3):
            loss = F.cross_entropy(logits[0, :, book], labels[0, :, book], ignore_index=-100, reduction="sum")
            expected[book] += float(loss) / math.log(2)
    assert predictions[0].details["bits"] == pytest.approx(expected.tolist(), rel=1e-4)
    assert predictions[0].details["frames"] == 50
    assert float(task.metrics(predictions).scores(np.array([[1.0, 0.0]]))["bits_per_code"][0]) == pytest.approx(
        expected.sum() / 150, rel=1e-4
    )


def test_a_decoder_converts_recordings(tmp_path: Path, codec: str) -> None:
    model, _ = trained(tmp_path / "run", codec, "audio-to-audio")
    task = AudioToAudio(model, codec=codec, columns=COLUMNS).for_evaluation()
    rows = read_rows("clips", **PAIRS, clips=2, part="test")
    found = evaluate("audio-to-audio", task, rows, train=rows, resamples=20)
    assert found.report.metric == "mel_distance" and not found.report.higher
    assert 0 <= found.report.metrics["code_accuracy"].value <= 1
    chroma = {name: one.metrics["chroma"].value for name, one in found.report.baselines.items()}
    assert chroma["source"] > 0.9 and -1 <= found.report.metrics["chroma"].value <= 1
    assert list(found.report.baselines) == ["source", "source codes", "target codes"]
    own, true = (torch.from_numpy(task.codes_of(rows[0][name]["array"])).T for name in ("dry", "file"))
    made = model.convert_codes(own, seed=0)
    assert found.predictions[0].details["code_accuracy"] == pytest.approx(float((made == true).float().mean()))
    (before, after, truth), *_ = (example.sounds for example in task.listen(rows))
    assert before.seconds == after.seconds == truth.seconds == 0.5
    assert not np.array_equal(before.samples, truth.samples)
    (alone,) = task.listen(read_rows([{"dry": rows[0]["dry"]}]))  # a recording of one's own, without a truth
    assert [sound.name for sound in alone.sounds] == ["before", "after"] and not alone.facts
    assert np.array_equal(alone.sounds[1].samples, after.samples)


def converter() -> Model:
    sizes = {"num_codebooks": 6, "vocab_size": 16, "pad_token_id": 16, "bos_token_id": 16}
    return Model.from_config({**DECODER, **sizes}, task="text-to-audio")


def test_the_same_window_of_both_recordings(codec: str) -> None:
    task = AudioToAudio(converter(), codec=codec, seconds=0.2)
    example = {"source": np.arange(90).reshape(30, 3) % 16, "labels": np.arange(90).reshape(30, 3) % 16}
    window = task.augment(example, np.random.default_rng(0))
    assert np.array_equal(window["source"], window["labels"]) and len(window["labels"]) == 20
    batch = task.collate(
        [window, task.augment({name: codes[:9] for name, codes in example.items()}, np.random.default_rng(0))]
    )
    assert isinstance(batch.labels, Tensor) and batch.labels.shape == (2, 25, 6)
    assert bool((batch.labels[..., :3] == -100).all()), "the source is not learnt"
    assert int((batch.labels != -100).sum()) == 3 * (20 + 9)
    ids = batch.batch.input_ids
    assert ids is not None and torch.equal(ids[:, 0], torch.full((2, 6), 16))
    assert torch.equal(ids[0, 1:, 3:][2:], batch.labels[0, :-1, 3:][2:].where(batch.labels[0, :-1, 3:][2:] >= 0, 16))
    assert ids[0, 1:21, 0].tolist() == window["source"][:, 0].tolist()


def test_hidden_codes_of_the_target_are_not_read_but_learnt(codec: str) -> None:
    task = AudioToAudio(converter(), codec=codec, word_dropout=0.5)
    codes = np.arange(90).reshape(30, 3) % 16
    example = {"source": codes, "labels": codes}
    hidden = task.perturb(example, np.random.default_rng(0))
    shown, whole = task.collate([hidden]), task.collate([example])
    assert torch.equal(shown.labels, whole.labels)  # type: ignore[arg-type]
    ours, theirs = shown.batch.input_ids, whole.batch.input_ids
    assert ours is not None and theirs is not None and torch.equal(ours[..., :3], theirs[..., :3])
    frames = np.flatnonzero(hidden["hidden"])
    assert 5 < len(frames) < 25
    for book in range(3, 6):
        changed = (ours[0, :, book] != theirs[0, :, book]).nonzero()[:, 0] - 1 - book
        assert changed.tolist() == frames.tolist() and bool((ours[0, frames + 1 + book, book] == 16).all())
    assert task.augment(hidden, np.random.default_rng(0))["hidden"].shape == (27,)
    with pytest.raises(ConfigError, match=r"word_dropout is 1\.0"):
        AudioToAudio(converter(), codec=codec, word_dropout=1.0)


def test_codes_that_the_codec_takes_for_alike_have_embeddings_that_begin_alike(codec: str, tmp_path: Path) -> None:
    own = glassformer.load(codec)
    book: Any = own.network.quantizer.books[1]  # type: ignore[union-attr, index]
    with torch.no_grad():
        book.codebook.weight[5] = book.codebook.weight[3]
    own.save_pretrained(tmp_path / "codec")
    model = converter()
    AudioToAudio.initialise(model, {"codec": str(tmp_path / "codec")})
    table: Any = model.network.embed.tokens.weight.unflatten(0, (6, 17))  # type: ignore[union-attr]
    for number in (1, 4):  # of the source, of the target
        assert torch.allclose(table[number, 5], table[number, 3]) and not torch.allclose(
            table[number, 5], table[number, 4]
        )
    assert not torch.allclose(table[1, 5], table[4, 5])
    head: Any = model.network.head.decoder.weight.unflatten(0, (6, 16))  # type: ignore[union-attr]
    assert not bool(head[:3].any()) and bool(head[3:].all())


def test_ngrams_of_codes_are_a_distribution() -> None:
    draw = np.random.default_rng(0)
    recordings = [draw.integers(0, 4, (20, 2)) for _ in range(3)]
    for order in (1, 2):
        model = CodeNgrams(recordings, order, books=2, entries=4)
        for book in model.books:
            assert sum(book.probability(code, [1] if order == 2 else []) for code in range(4)) == pytest.approx(1.0)
        assert sum(
            2 ** -sum(model.bits(np.array([[a, b + 1]]))) for a in range(4) for b in (-1, 0, 1, 2)
        ) == pytest.approx(1.0)


def wrong_codec(model: Model, codec: str) -> None:
    GenerateAudio(
        Model.from_config(dict(FAMILIES["musicgen_decoder"].tiny, num_codebooks=2), task="text-to-audio"), codec=codec
    )


WRONG: dict[str, tuple[Callable[[Model, str], Any], str]] = {
    "other codebooks": (wrong_codec, "the model reads 2 codebooks of 16 codes, and .* makes 3 of 16"),
    "a long window": (lambda model, codec: GenerateAudio(model, codec=codec, seconds=9.0), "windows of 1 to 37 frames"),
    "no number": (lambda model, codec: GenerateAudio(model, codec=codec, seconds=True), "it must be a number"),
}


@pytest.mark.parametrize(("call", "message"), WRONG.values(), ids=WRONG)
def test_what_is_refused(call: Callable[[Model, str], Any], message: str, codec: str) -> None:
    model = Model.from_config(dict(FAMILIES["musicgen_decoder"].tiny), task="text-to-audio")
    with pytest.raises(ConfigError, match=message):
        call(model, codec)


def test_a_configuration_without_a_codec(tmp_path: Path, codec: str) -> None:
    with pytest.raises(ConfigError, match="name the audio codec that makes the codes"):
        make_trainer(config(tmp_path / "run", codec, "generate-audio", task_options={"seconds": 0.3}))


def test_codes_of_another_family_and_codes_without_their_loudness(tmp_path: Path) -> None:
    sizes = {"num_filters": 2, "upsampling_ratios": [5, 4, 4, 2], "target_bandwidths": [1.2]}
    tiny = {**FAMILIES["encodec"].tiny, **sizes}  # 100 frames a second, 3 codebooks of 16
    Model.from_config(tiny).save_pretrained(tmp_path / "plain")
    trainer = make_trainer(config(tmp_path / "run", str(tmp_path / "plain"), "generate-audio"))
    assert trainer.train().metrics["window_perplexity"] > 1.0
    loud = {**tiny, "normalize": True, "chunk_length_s": 0.1, "overlap": 0.1}
    Model.from_config(loud).save_pretrained(tmp_path / "loud")
    with pytest.raises(UnsupportedError, match="loud normalises loudness, which its codes do not hold"):
        make_trainer(config(tmp_path / "run", str(tmp_path / "loud"), "generate-audio"))


def test_recordings_of_different_lengths_are_no_pair(codec: str) -> None:
    model = converter()
    sound = {"array": np.zeros(8000, np.float32), "sampling_rate": 16_000}
    rows = read_rows([{"source": sound, "target": {**sound, "array": np.zeros(6000, np.float32)}}])
    with pytest.raises(DataError, match=r"row 0: the source has 0\.50 seconds and the target 0\.38"):
        AudioToAudio(model, codec=codec).encode(rows)


def test_a_clip_is_made_once_for_all_that_is_read_of_it(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    original = GuitarRows.row
    monkeypatch.setattr(GuitarRows, "row", lambda rows, index: made.append(index) or original(rows, index))
    model = converter()
    AudioToAudio(model, codec=codec, columns=COLUMNS).encode(read_rows("clips", **PAIRS, clips=3))
    assert made == [0, 1, 2]
