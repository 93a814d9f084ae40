"""wav2vec 2.0 and HuBERT: old files, errors, CTC losses, weighted layer sums, SpecAugment."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.models.wav2vec2.modeling_wav2vec2 import _compute_mask_indices

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.inspect import Session
from glassformer.inspect.inputs import media_input
from glassformer.model import Model, load
from glassformer.models import FAMILIES, ConfigReader
from glassformer.models._speech import SpansSpec, random_spans
from tests.parity.sides import perturb, read_config, write_config

BOTH = pytest.mark.parametrize("family", ["wav2vec2", "hubert"])
LAYOUTS = {
    "base": {"feat_extract_norm": "group", "conv_bias": False, "do_stable_layer_norm": False},
    "large": {"feat_extract_norm": "layer", "conv_bias": True, "do_stable_layer_norm": True},
}
LETTERS = torch.tensor([[5, 5, 7, 2], [9, 3, 3, -100], [4, -100, 0, 8]])
KEEP = torch.arange(1400)[None] < torch.tensor([1400, 1100, 700])[:, None]


def wave(rows: int = 3, samples: int = 1400) -> Tensor:
    return torch.randn(rows, samples, generator=torch.Generator().manual_seed(1))


def theirs_of(architecture: str, folder: Path, **changes: Any) -> Any:
    """A model of the reference library in a folder, every parameter perturbed."""
    torch.manual_seed(0)
    kind = getattr(transformers, architecture)
    family = kind.config_class.model_type
    model = kind(kind.config_class.from_dict({**FAMILIES[family].tiny, **changes}))
    perturb(model)
    model.save_pretrained(folder)
    return model.eval()


def model_of(family: str, task: str = "automatic-speech-recognition", **changes: Any) -> Model:
    torch.manual_seed(0)
    return Model.from_config({**FAMILIES[family].tiny, **changes}, task=task)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
@torch.no_grad()
def test_files_with_the_old_spelling_of_normed_weights(family: str, pickled: bool, tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    theirs_of("Wav2Vec2ForCTC" if family == "wav2vec2" else "HubertForCTC", new)
    shutil.copytree(new, old)
    (old / "model.safetensors").unlink()
    tensors = load_file(new / "model.safetensors")
    spelled = {
        name.replace("parametrizations.weight.original0", "weight_g").replace(
            "parametrizations.weight.original1", "weight_v"
        ): tensor
        for name, tensor in tensors.items()
    }
    assert sum(name.endswith(("weight_g", "weight_v")) for name in spelled) == 2
    if pickled:
        torch.save(spelled, old / "pytorch_model.bin")
    else:
        save_file(spelled, old / "model.safetensors", {"format": "pt"})
    model = load(old, strict=True, allow_pickle=pickled)
    assert torch.equal(model(input_values=wave()).logits, load(new)(input_values=wave()).logits)
    model.save_pretrained(tmp_path / "saved")
    saved = load_file(tmp_path / "saved" / "model.safetensors")
    assert set(saved) == set(tensors), "written as files of today are"
    assert all(saved[name].numpy().tobytes() == tensors[name].numpy().tobytes() for name in tensors)


def test_a_file_with_both_spellings_has_a_surplus(tmp_path: Path) -> None:
    theirs_of("Wav2Vec2Model", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["encoder.pos_conv_embed.conv.weight_g"] = torch.ones(1, 1, 8)
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    assert load(tmp_path).report.unused == ["encoder.pos_conv_embed.conv.weight_g"]
    with pytest.raises(WeightsError, match=r"1 surplus.*weight_g"):
        load(tmp_path, strict=True)


@torch.no_grad()
def test_the_body_of_a_pre_trained_model(tmp_path: Path) -> None:
    """Its quantiser and projections are for training it further, which is not done here."""
    theirs = theirs_of("Wav2Vec2ForPreTraining", tmp_path)
    with pytest.raises(UnsupportedError, match=r"Wav2Vec2ForPreTraining.*task='feature-extraction'"):
        load(tmp_path)
    model = load(tmp_path, task="feature-extraction")
    heads = ("quantizer.", "project_hid.", "project_q.")
    assert len(model.report.unused) == 7 and all(name.startswith(heads) for name in model.report.unused)
    expected = theirs.wav2vec2(wave())
    output = model(input_values=wave())
    close(output.last_hidden_state, expected.last_hidden_state)
    close(output.extract_features, expected.extract_features)
    tuned = load(tmp_path, task="automatic-speech-recognition")
    assert tuned.report.new == ["head.decoder.weight", "head.decoder.bias"]
    assert tuned(input_values=wave(), labels=LETTERS).loss.isfinite()


@BOTH
@torch.no_grad()
def test_a_file_without_the_vector_that_training_hides_behind(family: str, tmp_path: Path) -> None:
    """So were the first models published."""
    architecture = "Wav2Vec2ForCTC" if family == "wav2vec2" else "HubertForCTC"
    theirs = theirs_of(architecture, tmp_path, mask_time_prob=0.05)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors[f"{family}.masked_spec_embed"]
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    model = load(tmp_path)
    assert not model.network.embed.augment.vector.any()
    close(model(input_values=wave()).logits, theirs(wave()).logits)


# ── configs ──────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"add_adapter": True}, UnsupportedError, "add_adapter = True is not supported"),
        ({"adapter_attn_dim": 16}, UnsupportedError, "adapter_attn_dim = 16 is not supported"),
        (
            {"feat_extract_norm": "batch"},
            UnsupportedError,
            "feat_extract_norm = .*supported: 'group', 'layer'",
        ),
        ({"feat_extract_activation": "selu"}, UnsupportedError, "activation 'selu' is not supported"),
        ({"ctc_loss_reduction": "none"}, UnsupportedError, "ctc_loss_reduction = .*supported: 'sum', 'mean'"),
        ({"conv_dim": [8, 8]}, ConfigError, "have 2, 3 and 3 numbers"),
        ({"conv_kernel": []}, ConfigError, r"conv_kernel is \[\]; it must be a list"),
        ({"conv_stride": [5, 4, 0]}, ConfigError, "conv_stride is .*each from 1 to"),
        ({"conv_stride": [5, 4, True]}, ConfigError, "conv_stride is"),
        ({"conv_dim": [8] * 33}, ConfigError, "list of 1 to 32 whole numbers"),
        ({"num_conv_pos_embedding_groups": 5}, ConfigError, "width 32 is not a multiple of groups 5"),
        ({"mask_time_prob": 1.5}, ConfigError, "mask_time_prob is 1.5"),
        ({"pad_token_id": 99}, ConfigError, "the blank has id 99"),
        ({"num_attention_heads": 5}, ConfigError, "width 32 is not a multiple of heads 5"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    family: str, changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        model_of(family, **changes)


@BOTH
def test_what_a_bare_config_means_is_what_the_reference_means(family: str) -> None:
    """Of the published base model, and of the large one; no number of a weight is needed to count them."""
    size = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
    large = {
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    }
    kind = getattr(transformers, "Wav2Vec2ForCTC" if family == "wav2vec2" else "HubertForCTC")
    for config in (size, {**large, **LAYOUTS["large"]}):
        with torch.device("meta"):
            theirs = kind(kind.config_class(**config))
        record = FAMILIES[family]
        spec = record.spec(ConfigReader({"model_type": family, **config}))
        ours = record.build_on_meta(spec, "automatic-speech-recognition")
        assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())
        defaults = theirs.config
        assert (spec.reduction, spec.zero_infinity, spec.head_dropout) == (
            defaults.ctc_loss_reduction,
            defaults.ctc_zero_infinity,
            defaults.final_dropout,
        )
        time = spec.embed.augment.time
        assert (time.share, time.length, time.minimum) == (
            defaults.mask_time_prob,
            defaults.mask_time_length,
            defaults.mask_time_min_masks,
        )
        block = spec.blocks.blocks[0]
        assert (block.residual.dropout, block.attention.dropout, block.feed_forward.dropout) == (
            defaults.hidden_dropout,
            defaults.attention_dropout,
            defaults.activation_dropout,
        )
        assert (spec.waveform.samples, spec.waveform.hop) == (400, 320)


# ── calls ────────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_calls_that_are_refused(family: str) -> None:
    model = model_of(family).eval()
    left = torch.ones(3, 1400)
    left[1, :5] = 0
    with pytest.raises(DataError, match="row 1 of attention_mask hides samples before the sound ends"):
        model(input_values=wave(), attention_mask=left)
    with pytest.raises(DataError, match="input_values has 59 samples; the first frame is made of 60"):
        model(input_values=wave(samples=59))
    with pytest.raises(ConfigError, match=r"reads input_values \[B, samples\]; got none"):
        model()
    with pytest.raises(ConfigError, match="reads input_values; it takes no input_ids"):
        model(torch.ones(1, 4, dtype=torch.long), input_values=wave())
    with pytest.raises(DataError, match="labels hold numbers from 1 to 99; allowed: 0 to 98"):
        model(input_values=wave(), labels=torch.tensor([[1], [99], [2]]))
    with pytest.raises(UnsupportedError, match="no text"):
        model.network.embedding  # noqa: B018


@BOTH
@pytest.mark.parametrize("layout", LAYOUTS)
@torch.no_grad()
def test_padding_is_heard_by_base_models_alone(family: str, layout: str) -> None:
    model = model_of(family, **LAYOUTS[layout]).eval()
    for parameter in model.parameters():
        parameter += torch.randn_like(parameter) * 0.2
    padded = model(input_values=wave().where(KEEP, 0.0), attention_mask=KEEP.long())
    assert padded.frames.tolist() == [34, 27, 17]
    gaps = []
    for row, samples in enumerate(KEEP.sum(1).tolist()):
        alone = model(input_values=wave()[row : row + 1, :samples])
        assert alone.frames.tolist() == [padded.frames[row]]
        gaps.append(float((padded.logits[row, : alone.logits.shape[1]] - alone.logits[0]).abs().max()))
    assert gaps[0] < 1e-5
    assert all((gap > 1e-2) == (layout == "base") for gap in gaps[1:]), gaps


@BOTH
@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("zero_infinity", [False, True])
@torch.no_grad()
def test_losses_are_the_references(family: str, reduction: str, zero_infinity: bool, tmp_path: Path) -> None:
    architecture = "Wav2Vec2ForCTC" if family == "wav2vec2" else "HubertForCTC"
    changes = {"ctc_loss_reduction": reduction, "ctc_zero_infinity": zero_infinity}
    theirs = theirs_of(architecture, tmp_path, **changes)
    model = load(tmp_path)
    masked = {"attention_mask": KEEP.long()}
    for labels in (LETTERS, torch.full((3, 20), 5)):  # the second are too many for the frames
        for mask in ({}, masked):
            expected = theirs(wave(), labels=labels, **mask).loss
            close(model(input_values=wave(), labels=labels, **mask).loss, expected)
    assert zero_infinity or not expected.isfinite()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "architecture",
    [
        "Wav2Vec2ForSequenceClassification",
        "Wav2Vec2ForAudioFrameClassification",
        "HubertForSequenceClassification",
    ],
)
@torch.no_grad()
def test_a_head_may_read_a_mix_of_all_layers(layout: str, architecture: str, tmp_path: Path) -> None:
    theirs = theirs_of(architecture, tmp_path, use_weighted_layer_sum=True, **LAYOUTS[layout])
    model = load(tmp_path, strict=True)
    mask = {"attention_mask": KEEP.long()}
    output, expected = model(input_values=wave(), **mask).logits, theirs(wave(), **mask).logits
    visible = slice(None) if output.dim() == 2 else model.network.features.frame_mask(KEEP[:, None])[:, 0]
    close(output[visible], expected[visible])
    before = output.clone()
    model.network.head.mix.weights[1] += 1.0
    assert (model(input_values=wave(), **mask).logits - before).abs().max() > 1e-2
    body = load(tmp_path, task="feature-extraction")
    assert not hasattr(body.network.head, "mix"), "whose states are mixed by a head alone"


# ── training ─────────────────────────────────────────────────────────────────────────────────────────────


@BOTH
def test_training_hides_and_looking_does_not(family: str) -> None:
    hides = {"mask_time_prob": 0.5, "mask_time_length": 3, "mask_feature_prob": 0.3, "mask_feature_length": 4}
    model = model_of(family, **hides)
    inputs = {"input_values": wave(), "attention_mask": KEEP.long(), "labels": LETTERS}
    assert torch.equal(model.eval()(**inputs).logits, model(**inputs).logits)
    model.train()
    torch.manual_seed(1)
    first = model(**inputs)
    assert not torch.equal(first.logits, model(**inputs).logits)
    torch.manual_seed(1)
    assert torch.equal(first.logits, model(**inputs).logits)
    first.loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.network.embed.augment.vector.grad.abs().max() > 0


@BOTH
def test_a_config_may_have_the_vector_and_hide_nothing(family: str) -> None:
    model = model_of(family, mask_time_prob=0.5, apply_spec_augment=False).train()
    unmasked = model(input_values=wave()).logits
    assert torch.equal(unmasked, model.eval()(input_values=wave()).logits)
    assert model_of(family, mask_time_prob=0.0).network.embed.augment is None


@pytest.mark.parametrize(("share", "length", "minimum"), [(0.05, 10, 2), (0.5, 10, 2), (0.65, 3, 0)])
def test_training_hides_as_much_as_the_reference(share: float, length: int, minimum: int) -> None:
    frames, rows = 50, 400
    torch.manual_seed(0)
    np.random.seed(0)
    ours = [random_spans([frames], frames, SpansSpec(share=share, length=length, minimum=minimum)) for _ in range(rows)]
    theirs = [_compute_mask_indices((1, frames), share, length, min_masks=minimum) for _ in range(rows)]
    hidden, expected = torch.cat(ours).float(), torch.from_numpy(np.concatenate(theirs)).float()
    assert float(hidden.mean()) == pytest.approx(float(expected.mean()), abs=0.02)
    assert (hidden.mean(0) - expected.mean(0)).abs().max() < 0.15


@BOTH
@torch.no_grad()
def test_a_new_model_says_something_sensible(family: str) -> None:
    """Numbers of a size that can be trained: convolutions neither die away nor blow up."""
    for layout in LAYOUTS.values():
        model = model_of(family, mask_time_prob=0.05, **layout).eval()
        output = model(input_values=wave())
        assert 0.3 < output.extract_features.std() < 3
        assert 0.01 < output.last_hidden_state.std() < 3
        positions = model.network.embed.positions
        assert 0 < positions(torch.randn(1, 40, 32)).std() < 1


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────


def test_frames_are_called_by_their_time() -> None:
    record = FAMILIES["wav2vec2"]
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    network = record.build_on_meta(record.spec(ConfigReader({"model_type": "wav2vec2", **sizes})), "feature-extraction")
    labels = network.token_labels(Batch(input_values=torch.zeros(1, 16_000)))["sound"]
    assert labels[:3] == ["0.00 s", "0.02 s", "0.04 s"] and labels[-1] == "0.96 s" and len(labels) == 49


@BOTH
@torch.no_grad()
def test_attention_of_a_sound_can_be_looked_at(family: str) -> None:
    model = model_of(family).eval()
    batch = Batch(input_values=wave(1))
    session = Session(model.network, media_input("a sound", batch, model.network.token_labels(batch)))
    assert list(session.maps) == ["self"] and session.maps["self"].queries == "sound"
    assert [token.text for token in session.streams["sound"]][:2] == ["0.00 s", "0.00 s"]
    tape = Tape("blocks.1.attn.probs").attach(model.network)
    model.network(batch, Flow(tape=tape))
    close(session.head(1, 2).probs(), tape.taps["blocks.1.attn.probs"][0, 2])
    assert model.taps()[:2] == ["final", "logits"] and "features.out" in model.taps()


@BOTH
def test_a_config_of_a_saved_model_is_the_one_that_was_read(family: str, tmp_path: Path) -> None:
    theirs_of("Wav2Vec2ForCTC" if family == "wav2vec2" else "HubertForCTC", tmp_path)
    write_config(tmp_path, {**read_config(tmp_path), "conv_dim": [12, 16, 20], "layerdrop": 0.3})
    load(tmp_path).save_pretrained(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "config.json").read_text())
    assert (saved["conv_dim"], saved["layerdrop"]) == ([12, 16, 20], 0.3)
