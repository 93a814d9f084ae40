"""Whisper: spectrograms of one size, keys without a bias, positions that are read and never trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import glassformer
from glassformer import ConfigError, DataError, Model
from glassformer.core.flow import Batch, Flow, Tape
from glassformer.generation.generate import greedy_search
from glassformer.inspect.summary import summary
from glassformer.models import ConfigReader, Network
from glassformer.models.whisper import FAMILY, SpectrogramStem, Whisper, WhisperClassifier
from tests.parity.families import BY_FAMILY
from tests.parity.inputs import draw_inputs, draw_labels
from tests.parity.sides import PRECISIONS, close, lifted, load_ours, load_theirs, make, tolerance

ROW = BY_FAMILY["whisper"]
WRITES, CLASSIFIES = "WhisperForConditionalGeneration", "WhisperForAudioClassification"
HIDES = {
    "apply_spec_augment": True,
    "mask_time_prob": 0.3,
    "mask_time_length": 4,
    "mask_feature_prob": 0.4,
    "mask_feature_length": 2,
}


def network(task: str = "automatic-speech-recognition", **changes: Any) -> Network:
    spec = FAMILY.spec(ConfigReader({**FAMILY.tiny, **changes}))
    built = FAMILY.build(spec, task)
    FAMILY.initialise(built, spec)
    return built.eval()


def features(rows: int = 2, bins: int = 12, frames: int = 26) -> Tensor:
    return torch.randn(rows, bins, frames, generator=torch.Generator().manual_seed(1))


# ------------------------------------------------------------------------------------------------------------ config


def test_every_key_is_read_and_an_unknown_one_is_reported() -> None:
    from transformers import WhisperConfig

    for changes in ({}, {"suppress_tokens": [1], "forced_decoder_ids": [[1, 5]], "encoder_layerdrop": 0.1}):
        full = WhisperConfig.from_dict({**FAMILY.tiny, **changes}).to_dict()
        reader = ConfigReader(full)
        FAMILY.spec(reader)
        assert reader.unused_key_warnings() == []
    reader = ConfigReader({**FAMILY.tiny, "sharpness": 3})
    FAMILY.spec(reader)
    assert reader.unused_key_warnings() == ["config.json: sharpness = 3 is not read"]


def test_defaults_are_the_reference_librarys() -> None:
    from transformers import WhisperConfig

    left_out = ("num_mel_bins", "max_source_positions", "max_target_positions", "classifier_proj_size")
    few = {key: value for key, value in FAMILY.tiny.items() if key not in left_out}
    full = WhisperConfig.from_dict(dict(few)).to_dict()
    assert FAMILY.spec(ConfigReader(few)) == FAMILY.spec(ConfigReader(full))


def test_an_odd_width_is_refused() -> None:
    with pytest.raises(ConfigError, match="d_model is 9; it must be even"):
        network(d_model=9, encoder_attention_heads=3, decoder_attention_heads=3)


# -------------------------------------------------------------------------------------------------------------- stem


@pytest.mark.parametrize("task", FAMILY.tasks)
@pytest.mark.parametrize("shape", [(2, 11, 26), (2, 12, 25), (2, 12, 52), (1, 26, 12)])
def test_another_number_of_bins_or_frames_is_refused(task: str, shape: tuple[int, ...]) -> None:
    batch = Batch(input_features=torch.zeros(shape), decoder_input_ids=torch.tensor([[1]]))
    with pytest.raises(DataError, match=r"must be \[B, 12, 26\], .*num_mel_bins, max_source_positions") as raised:
        network(task)(batch, Flow())
    assert str(list(shape)) in str(raised.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError, match=r"input_features \[B, mel bins, frames\]"):
        network()(Batch(decoder_input_ids=torch.tensor([[1]])), Flow())
    with pytest.raises(ConfigError, match="decoder_input_ids"):
        network()(Batch(input_features=features()), Flow())
    with pytest.raises(ConfigError, match=r"input_features \[B, mel bins, frames\]"):
        network("audio-classification")(Batch(), Flow())


def test_fields_that_it_does_not_read_are_refused() -> None:
    model = Model.from_config({**FAMILY.tiny, "architectures": [CLASSIFIES]})
    with pytest.raises(ConfigError, match="reads input_features; it takes no decoder_input_ids"):
        model(input_features=features(), decoder_input_ids=torch.tensor([[1], [1]]))


def test_a_transcript_longer_than_the_decoder_has_positions() -> None:
    ids = torch.ones(1, 41, dtype=torch.long)
    with pytest.raises(DataError, match="41 tokens, the model has 40 positions"):
        network()(Batch(input_features=features(1), decoder_input_ids=ids), Flow())


def test_places_are_the_times_of_frames() -> None:
    batch = Batch(input_features=features())
    names = [f"{i * 0.02:.2f} s" for i in range(13)]
    assert names[:3] == ["0.00 s", "0.02 s", "0.04 s"]
    assert network().token_labels(batch) == {"source": names}
    assert network("audio-classification").token_labels(batch) == {"sound": names}


def test_the_first_convolution_runs_twice_a_state() -> None:
    """As torch counts it."""
    built = network("audio-classification")
    assert isinstance(built, WhisperClassifier)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        built.encoder(features(1), Flow(tape=Tape("*.probs").attach(built)))
    counted = summary(built, tokens=13)
    assert counted.uncounted == ()
    assert next(part for part in counted.root.children if part.name == "encoder").flops == counter.get_total_flops()


# --------------------------------------------------------------------------------------------------------- positions


def test_waves_of_a_fresh_network_are_the_references() -> None:
    from transformers import WhisperConfig, WhisperModel

    for width in (32, 2, 6):
        heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}
        ours = network(d_model=width, **heads)
        theirs = (
            WhisperModel(WhisperConfig.from_dict({**FAMILY.tiny, "d_model": width, **heads}))
            if width > 2  # theirs divides by 0
            else None
        )
        assert isinstance(ours, Whisper) and isinstance(ours.encoder.embed, SpectrogramStem)
        mine = ours.encoder.embed.positions.weight
        assert mine[0, : width // 2].eq(0).all() and mine[0, width // 2 :].eq(1).all()
        if theirs is not None:
            close(mine, theirs.encoder.embed_positions.weight, 1e-6, "waves")


def test_waves_are_never_trained() -> None:
    built = network().train()
    output = built(Batch(input_features=features(), decoder_input_ids=torch.tensor([[1], [1]])), Flow())
    assert output.logits is not None
    output.logits.sum().backward()
    without = [name for name, parameter in built.named_parameters() if parameter.grad is None]
    assert without == ["encoder.embed.positions.weight"]


# ------------------------------------------------------------------------------------------------ keys without a bias


def test_keys_have_no_bias_and_get_none(tmp_path: Path) -> None:
    """It is 0, its gradient is 0, and it is in no file."""
    folder = make(ROW, WRITES, tmp_path / "theirs")
    model = load_ours(folder, torch.float64).train()
    inputs = draw_inputs(model.config, "none")
    labels, _ = draw_labels("translation", inputs, model.config)
    output = model(**inputs.ours, labels=labels)
    assert output.loss is not None
    output.loss.backward()
    gradients: list[Tensor] = []
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None or name == "encoder.embed.positions.weight"
        if parameter.grad is not None and name.endswith(("qkv.bias", "kv.bias")):
            rows = slice(32, 64) if name.endswith("qkv.bias") else slice(0, 32)
            assert parameter[rows].eq(0).all() and parameter[: rows.start].ne(0).all()
            gradients.append(parameter.grad[rows])
    assert len(gradients) == 3 + 2 * 2
    assert all(gradient.abs().max() < 1e-15 for gradient in gradients)
    model.save_pretrained(tmp_path / "ours")
    saved = load_file(tmp_path / "ours" / "model.safetensors")
    assert saved.keys() == load_file(folder / "model.safetensors").keys()
    assert not any(name.endswith("k_proj.bias") for name in saved)


# ----------------------------------------------------------------------------------------------------- classification


@pytest.mark.parametrize("dtype", PRECISIONS, ids=["fp32", "fp64"])
@pytest.mark.parametrize(
    "changes",
    [
        {"use_weighted_layer_sum": True},
        {"use_weighted_layer_sum": True, "encoder_layers": 1},
        {"id2label": {str(i): f"word {i}" for i in range(5)}},
        {"classifier_proj_size": 7, "id2label": {"0": "one", "1": "other"}, "use_weighted_layer_sum": True},
    ],
)
def test_labels_of_a_sound(tmp_path: Path, changes: dict[str, Any], dtype: torch.dtype) -> None:
    folder = make(ROW, CLASSIFIES, tmp_path, **changes)
    ours, theirs, within = load_ours(folder, dtype), load_theirs(folder, ROW, dtype), tolerance(ROW, dtype)
    inputs = draw_inputs(ours.config, "none")
    labels, their_labels = draw_labels("audio-classification", inputs, ours.config)
    output = ours(**inputs.ours, labels=labels)
    with lifted(ROW, dtype):
        expected = theirs(**inputs.theirs, **their_labels)
    close(output.logits, expected.logits, within, "logits")
    close(output.loss, expected.loss, within, "loss")
    assert output.loss is not None
    output.loss.backward()
    expected.loss.backward()
    if isinstance(ours.network, WhisperClassifier) and ours.network.mix is not None:
        close(ours.network.mix.weights.grad, theirs.layer_weights.grad, within, "gradient of the mix")  # type: ignore[arg-type, union-attr]


def test_a_classifier_is_made_of_a_whole_checkpoint(tmp_path: Path) -> None:
    """The encoder is taken out of it; the head is new; what is saved has no prefix, like theirs."""
    folder = make(ROW, WRITES, tmp_path / "whole")
    model = glassformer.load(folder, task="audio-classification")
    assert model.report.new == [f"head.{part}" for part in (
        "projection.weight", "projection.bias", "classifier.weight", "classifier.bias"
    )]  # fmt: skip
    assert all("decoder" in name for name in model.report.unused)
    x = features(3)
    encoded = model(input_features=x).last_hidden_state
    full = load_ours(folder)(input_features=x, decoder_input_ids=torch.ones(3, 1, dtype=torch.long))
    assert torch.equal(encoded, full.encoder_last_hidden_state)
    model.save_pretrained(tmp_path / "saved")
    assert "encoder.conv1.weight" in load_file(tmp_path / "saved" / "model.safetensors")
    again = load_ours(tmp_path / "saved")
    close(again(input_features=x).logits, load_theirs(tmp_path / "saved", ROW)(x).logits, ROW.fp32, "logits")


# ----------------------------------------------------------------------------------------------------------- training


def test_training_hides_stretches_of_time_and_of_bins() -> None:
    built = network(**HIDES)
    assert isinstance(built, Whisper)
    batch = Batch(input_features=features(8) + 5)  # no 0 of its own
    assert torch.equal(built.encoder_input(batch), features(8) + 5)
    hidden = built.train().encoder_input(batch).eq(0)
    columns, rows = hidden.all(dim=1), hidden.all(dim=2)  # [8, frames], [8, bins]
    assert torch.equal(hidden, columns[:, None] | rows[..., None])
    assert columns.any(dim=1).all() and rows.any(dim=1).all() and not columns.all(dim=1).any()
    assert len({tuple(row) for row in columns.tolist()}) > 1, "each row has its own"
    torch.manual_seed(2)
    one = built.encoder_input(batch)
    torch.manual_seed(3)
    assert not torch.equal(one, built.encoder_input(batch))


@pytest.mark.parametrize("changes", [{}, {**HIDES, "apply_spec_augment": False}])
def test_spec_augment_is_off_by_default(changes: dict[str, Any]) -> None:
    built = network(**changes).train()
    assert isinstance(built, Whisper)
    assert torch.equal(built.encoder_input(Batch(input_features=features())), features())


# ------------------------------------------------------------------------------------------------------------ writing


@torch.no_grad()
def test_greedy_equals_the_references_own_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tokens; the encoder hears once, and the keys of its memory are made once."""
    folder = make(ROW, WRITES, tmp_path, decoder_layers=1)
    ours, theirs = load_ours(folder, torch.float64), load_theirs(folder, ROW, torch.float64)
    x = 3 * features(3)
    calls = []
    stem = SpectrogramStem.forward
    monkeypatch.setattr(SpectrogramStem, "forward", lambda *inputs: calls.append(1) or stem(*inputs))  # type: ignore[func-returns-value]
    prompt = torch.tensor([[1, 7]] * 3)
    mine = greedy_search(ours.network, prompt, encoder_batch=Batch(input_features=x), max_new_tokens=12, stop_ids=(2,))
    assert len(calls) == 1
    ids, running = prompt, torch.ones(3, dtype=torch.bool)
    with lifted(ROW, torch.float64):
        while ids.shape[1] < mine.shape[1]:
            chosen = theirs(input_features=x, decoder_input_ids=ids).logits[:, -1].argmax(-1).where(running, 0)
            ids = torch.cat([ids, chosen[:, None]], dim=1)
            running &= chosen != 2
    assert torch.equal(mine, ids)
    assert len({tuple(row) for row in mine.tolist()}) > 1, "the sounds were heard"
