"""EnCodec: equal to the reference's `EncodecModel`, in pieces as at once, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import glassformer
from glassformer import Model
from glassformer.audio import AudioProcessor, CodePattern
from glassformer.core.flow import Batch, Flow, Tape
from glassformer.errors import ConfigError, DataError, UnsupportedError
from glassformer.explorer.codes_page import codec_example
from glassformer.hf.processors import SoundReader
from glassformer.inspect.summary import summary
from glassformer.models import FAMILIES
from glassformer.models._codec import AudioCodec
from glassformer.models.encodec import Encodec
from glassformer.weights.read import open_checkpoint
from glassformer.weights.write import write_checkpoint

TINY = dict(FAMILIES["encodec"].tiny)
STEREO = {
    **{"audio_channels": 2, "normalize": True, "norm_type": "time_group_norm", "use_causal_conv": False},
    **{"chunk_length_s": 0.1, "overlap": 0.1},
}
KINDS: dict[str, dict[str, Any]] = {
    "24 kHz": {"num_lstm_layers": 2},
    "32 kHz": {
        "use_causal_conv": False,
        "use_conv_shortcut": False,
        "num_residual_layers": 2,
        "upsampling_ratios": [5, 8],
    },
    "48 kHz": STEREO,
    "others": {
        **{"trim_right_ratio": 0.3, "pad_mode": "constant", "compress": 1, "upsampling_ratios": [3], "kernel_size": 4},
        **{"num_residual_layers": 3, "dilation_growth_rate": 3, "target_bandwidths": [21.3, 64.0], "normalize": True},
    },
}
OTHER_EDGES = {"pad_mode": "replicate", "kernel_size": 8, "upsampling_ratios": [3, 4], "target_bandwidths": [16.1]}
kinds = pytest.mark.parametrize("kind", KINDS)


def reference(kind: str, **changes: Any) -> Any:
    """A reference codec, every parameter of it and every code perturbed, so that many codes are used."""
    torch.manual_seed(7)
    model = transformers.EncodecModel(transformers.EncodecConfig.from_dict({**TINY, **KINDS[kind], **changes}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += torch.randn_like(parameter) * 0.1
            if name.endswith("original0"):
                parameter.copy_(0.9 + 0.2 * torch.randn_like(parameter))
        z = model.encoder(torch.randn(1, model.config.audio_channels, 20_000) * 0.5)[0]
        for layer in model.quantizer.layers:
            layer.codebook.embed.copy_(z.mean(1) + torch.randn_like(layer.codebook.embed) * z.std(1))
            z = z - z.mean(1, keepdim=True)
    return model.eval()


def pair(folder: Path, kind: str, dtype: torch.dtype = torch.float32, **changes: Any) -> tuple[Model, Any]:
    theirs = reference(kind, **changes).to(dtype)
    theirs.save_pretrained(folder)
    ours = glassformer.load(folder, strict=True, offline=True)
    assert ours.dtype == dtype and not ours.report.warnings
    return ours, theirs


def waves(model: Model, rows: int, samples: int) -> Tensor:
    """Noise as the reference reads it. [rows, channels, samples]"""
    draw = torch.Generator().manual_seed(3)
    return (torch.randn(rows, model.network.sizes.channels, samples, generator=draw) * 0.5).to(model.dtype)


def as_read(wave: Tensor) -> Tensor:
    """As ours reads it: mono without channels."""
    return wave[:, 0] if wave.shape[1] == 1 else wave


def side_by_side(codes: Tensor, pad: int | None) -> Tensor:
    """The reference's codes of chunks [N, B, K, F], one behind the other. [B, K, T]"""
    codes = codes.permute(1, 2, 0, 3).flatten(2)
    return codes[:, :, : codes.shape[2] - (pad or 0)]


@kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
@torch.no_grad()
def test_every_output_is_the_references(kind: str, dtype: torch.dtype, tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path, kind, dtype)
    within = 1e-5 if dtype == torch.float32 else 1e-9
    for samples in (1, 3, 120, 4_011):
        wave, tape = waves(ours, 2, samples), Tape("encoder.out")
        got = ours(input_values=as_read(wave), tape=tape)
        encoded = theirs.encode(wave, bandwidth=TINY["target_bandwidths"][-1] if kind != "others" else 64.0)
        wanted = theirs.decode(
            encoded.audio_codes, encoded.audio_scales, last_frame_pad_length=encoded.last_frame_pad_length
        )
        codes = side_by_side(encoded.audio_codes, encoded.last_frame_pad_length)
        assert torch.equal(got.audio_codes, codes)
        sound = wanted.audio_values[..., :samples]
        torch.testing.assert_close(got.audio_values, as_read(sound), atol=within, rtol=within)
        frames = theirs.quantizer.decode(codes.transpose(0, 1))
        torch.testing.assert_close(got.quantized_representation, frames, atol=within, rtol=within)
        if kind in ("24 kHz", "32 kHz"):
            torch.testing.assert_close(got.taps["encoder.out"].mT, theirs.encoder(wave), atol=within, rtol=within)
    assert len(set(got.audio_codes.flatten().tolist())) > 8


@kinds
def test_sounds_are_encoded_and_decoded_as_in_the_reference_at_each_bandwidth(kind: str, tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path, kind)
    wave = waves(ours, 1, 4_000)
    for kbps, books in ours.spec.bandwidths.items():
        with torch.no_grad():
            wanted = theirs.encode(wave, bandwidth=kbps)
            pad = {"last_frame_pad_length": wanted.last_frame_pad_length}
            sound = theirs.decode(wanted.audio_codes, wanted.audio_scales, **pad).audio_values[0]
        got = ours.encode_audio(as_read(wave)[0], sample_rate_hz=16_000, bandwidth=kbps)
        assert torch.equal(got.codes, side_by_side(wanted.audio_codes, wanted.last_frame_pad_length)[0])
        assert got.codes.shape[0] == books and got.samples == 4_000
        assert torch.equal(ours.encode_audio(as_read(wave)[0], sample_rate_hz=16_000, codebooks=books).codes, got.codes)
        decoded = ours.decode_audio(got)
        torch.testing.assert_close(decoded, as_read(sound[None])[0][..., :4_000], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(
            ours.decode_audio(got.codes, scales=got.scales)[..., :4_000], decoded, atol=1e-6, rtol=1e-6
        )


@pytest.mark.parametrize("kind", ["24 kHz", "32 kHz"])
@pytest.mark.parametrize("changes", [{}, OTHER_EDGES], ids=["", "replicated"])
@pytest.mark.parametrize("samples", [1, 39, 41, 400, 1_611])
def test_pieces_give_what_the_whole_gives(
    kind: str, changes: dict[str, Any], samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(5)
    trim = {"trim_right_ratio": 0.4} if changes and kind == "24 kHz" else {}
    model = Model.from_config({**TINY, **KINDS[kind], **changes, **trim}).eval().double()
    sound = waves(model, 1, samples)[0, 0]
    whole = model.encode_audio(sound, sample_rate_hz=16_000)
    decoded = model.decode_audio(whole.codes)
    at_once = model(input_values=sound[None])
    assert torch.equal(at_once.audio_codes[0], whole.codes)
    torch.testing.assert_close(at_once.audio_values[0].float(), decoded[:samples], atol=1e-6, rtol=1e-6)
    for size in (1, 100, 400):
        monkeypatch.setattr(AudioCodec, "CHUNK_SAMPLES", size)
        monkeypatch.setattr("glassformer.audio.read.BLOCK_SAMPLES", 97)
        pieces = model.encode_audio(sound, sample_rate_hz=16_000)
        assert torch.equal(pieces.codes, whole.codes)
        torch.testing.assert_close(pieces.latents, whole.latents, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(model.decode_audio(pieces.codes), decoded, atol=1e-6, rtol=1e-6)


def test_what_is_normalised_as_a_whole_is_encoded_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model.from_config({**TINY, "norm_type": "time_group_norm", "normalize": True}).eval()
    sound = waves(model, 1, 3_000)[0, 0]
    with torch.no_grad():
        whole = model(input_values=sound[None])
    monkeypatch.setattr(AudioCodec, "CHUNK_SAMPLES", 40)
    encoded = model.encode_audio(sound, sample_rate_hz=16_000)
    assert torch.equal(encoded.codes, whole.audio_codes[0])
    torch.testing.assert_close(model.decode_audio(encoded), whole.audio_values[0], atol=1e-6, rtol=1e-6)


def test_saved_folders_load_in_the_reference(tmp_path: Path) -> None:
    for kind in ("24 kHz", "48 kHz"):
        ours, theirs = pair(tmp_path / kind, kind)
        ours.save_pretrained(tmp_path / "saved")
        again, report = transformers.EncodecModel.from_pretrained(tmp_path / "saved", output_loading_info=True)
        assert not any(report.values()), report
        wave = waves(ours, 1, 2_880)
        with torch.no_grad():
            got, wanted = again.eval()(wave, bandwidth=4.8), theirs(wave, bandwidth=4.8)
        assert torch.equal(got.audio_codes, wanted.audio_codes)
        torch.testing.assert_close(got.audio_values, wanted.audio_values, atol=1e-6, rtol=1e-6)
        own = glassformer.load(tmp_path / "saved", strict=True, offline=True).network.state_dict()
        assert all(torch.equal(x, own[name]) for name, x in ours.network.state_dict().items())


def test_files_with_the_older_spelling_of_weight_normalisation_load(tmp_path: Path) -> None:
    ours, _ = pair(tmp_path, "24 kHz")
    spelled = {"parametrizations.weight.original0": "weight_g", "parametrizations.weight.original1": "weight_v"}
    with open_checkpoint(tmp_path, allow_pickle=False) as checkpoint:
        tensors = {name: checkpoint.read(name).clone() for name in checkpoint.tensors}
    for new, old in spelled.items():
        tensors = {name.replace(new, old): x for name, x in tensors.items()}
    assert "encoder.layers.0.conv.weight_g" in tensors
    write_checkpoint(tmp_path, tensors)
    again = glassformer.load(tmp_path, strict=True, offline=True)
    assert again.network.fingerprint() == ours.network.fingerprint()


def test_silence_and_loudness(tmp_path: Path) -> None:
    ours, theirs = pair(tmp_path, "48 kHz")
    silence = torch.zeros(1, 2, 2_000)
    with torch.no_grad():
        wanted = theirs.encode(silence, bandwidth=4.8)
    encoded = ours.encode_audio(silence[0], sample_rate_hz=16_000)
    assert encoded.scales is not None and encoded.scales.shape == encoded.codes.shape[1:]
    assert torch.equal(encoded.scales[:1], wanted.audio_scales[0][0])
    assert float(ours.decode_audio(encoded).abs().max()) < 1e-6
    sound = waves(ours, 1, 4_000)[0]
    loud, soft = (ours.encode_audio(sound * factor, sample_rate_hz=16_000) for factor in (1.0, 0.125))
    assert torch.equal(loud.codes, soft.codes)  # a power of two: nothing is rounded
    torch.testing.assert_close(ours.decode_audio(loud) / 8, ours.decode_audio(soft), atol=1e-6, rtol=1e-5)
    assert ours.decode_audio(loud.codes, scales=0.1).shape[0] == 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_narrow_weights_hear_silence_and_fade_chunks(dtype: torch.dtype) -> None:
    model = Model.from_config({**TINY, **STEREO}).eval()
    sound = torch.cat([torch.zeros(2, 2_000), waves(model, 1, 2_000)[0]], 1)
    wide = model.decode_audio(model.encode_audio(sound, sample_rate_hz=16_000))
    model.to(dtype)
    encoded = model.encode_audio(sound, sample_rate_hz=16_000)
    assert encoded.scales is not None and encoded.scales.dtype == torch.float32
    assert bool(model.decode_audio(encoded).isfinite().all()) and wide.shape == sound.shape


def test_a_last_chunk_within_the_overlap_is_whole_or_cut() -> None:
    """The reference refuses such a sound: its last chunk but one would be shorter than the others."""
    model = Model.from_config({**TINY, **STEREO}).eval()
    for samples in (1_440 + 1, 3 * 1_440 + 7):
        encoded = model.encode_audio(waves(model, 1, samples)[0], sample_rate_hz=16_000)
        assert encoded.codes.shape[1] == (samples // 1_440) * 40 + 1
        assert model.decode_audio(encoded).shape == (2, samples)
    assert encoded.frame_rate_hz == pytest.approx(40 * 16_000 / 1_440)
    first = encoded.first(50)
    assert first.scales is not None and first.codes.shape[1] == len(first.scales) == 50
    assert model.decode_audio(first).shape == (2, first.samples)


def test_mono_and_stereo(tmp_path: Path) -> None:
    import soundfile

    stereo, mono = Model.from_config({**TINY, **STEREO}).eval(), Model.from_config(TINY).eval()
    samples = waves(stereo, 1, 2_000)[0].clamp(-1, 1)
    soundfile.write(tmp_path / "two.wav", samples.T.numpy(), 16_000, subtype="FLOAT")
    soundfile.write(tmp_path / "one.wav", samples[0].numpy(), 16_000, subtype="FLOAT")
    soundfile.write(tmp_path / "six.wav", samples[[0] * 6].T.numpy(), 16_000, subtype="FLOAT")
    assert torch.equal(
        stereo.encode_audio(tmp_path / "two.wav").codes, stereo.encode_audio(samples, sample_rate_hz=16_000).codes
    )
    twice = stereo.encode_audio(samples[[0, 0]], sample_rate_hz=16_000).codes
    assert torch.equal(stereo.encode_audio(tmp_path / "one.wav").codes, twice)
    assert torch.equal(stereo.encode_audio(samples[0], sample_rate_hz=16_000).codes, twice)
    mixed = mono.encode_audio(samples.mean(0), sample_rate_hz=16_000).codes
    assert torch.equal(mono.encode_audio(tmp_path / "two.wav").codes, mixed)
    assert stereo.encode_audio(samples, sample_rate_hz=8_000).samples == 4_000  # resampled, both channels
    with pytest.raises(DataError, match=r"has 6 channels; this model reads stereo"):
        stereo.encode_audio(tmp_path / "six.wav")
    with pytest.raises(DataError, match=r"audio has shape \[2, 2000\]; it must be \[samples\]"):
        mono.encode_audio(samples, sample_rate_hz=16_000)
    with pytest.raises(DataError, match=r"audio has shape \[2000, 2\]; it must be \[2, samples\]"):
        stereo.encode_audio(samples.T, sample_rate_hz=16_000)
    with pytest.raises(DataError, match=r"a NaN or infinite sample at 0\.100 s"):
        stereo.encode_audio(samples.index_fill(1, torch.tensor([1_600]), torch.nan), sample_rate_hz=16_000)
    with pytest.raises(DataError, match=r"\[B, channels, samples\]"):
        stereo(input_values=samples)
    with pytest.raises(DataError, match=r"this codec reads \[B, 2, samples\]"):
        stereo(input_values=samples[None, :1])
    with pytest.raises(DataError, match=r"\[B, samples\]"):
        mono(input_values=samples[None])
    page = codec_example(stereo.network, tmp_path / "two.wav")
    assert [np.shape(sound.samples) for sound in page.sounds] == [(2_000,), (2_000,)]


@pytest.mark.parametrize(("kind", "settings"), [("24 kHz", {}), ("48 kHz", {"chunk_length_s": 0.1, "overlap": 0.1})])
def test_the_processor_is_the_references(kind: str, settings: dict[str, Any], tmp_path: Path) -> None:
    channels = KINDS[kind].get("audio_channels", 1)
    theirs = transformers.EncodecFeatureExtractor(feature_size=channels, sampling_rate=16_000, **settings)
    theirs.save_pretrained(tmp_path)
    ours = AudioProcessor.find(tmp_path)
    assert ours is not None
    draw = np.random.default_rng(2)
    for lengths in ([1_600], [1_440], [3_000, 500]):
        sounds = [
            draw.normal(size=(channels, n)).astype(np.float32).squeeze(0 if channels == 1 else ()) for n in lengths
        ]
        wanted = theirs(list(sounds), sampling_rate=16_000, return_tensors="pt")["input_values"]
        got = ours(sounds, 16_000)["input_values"]
        torch.testing.assert_close(got, as_read(wanted))
        assert torch.equal(SoundReader(ours)(sounds, 16_000, return_tensors="pt")["input_values"], got)
    Model.from_config({**TINY, **KINDS[kind]})(input_values=got)
    (tmp_path / "preprocessor_config.json").write_text(
        '{"feature_extractor_type": "EncodecFeatureExtractor", "chunk_length_s": 1, "overlap": 1.5}'
    )
    with pytest.raises(ConfigError, match=r"chunk_length_s is 1\.0 and overlap 1\.5"):
        AudioProcessor.find(tmp_path)


def test_it_learns_to_give_sounds_back() -> None:
    """Straight-through: gradients reach the encoder as if nothing were quantised, and codes by their own loss."""
    model = Model.from_config(TINY).train()
    wave = torch.sin(torch.arange(2_000) * 0.1)[None]
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = model(input_values=wave, labels=wave).loss
        loss.backward()
        losses.append(float(loss.detach()))
        assert all(x.grad is not None and bool(x.grad.isfinite().all()) for x in model.network.parameters())
        optimizer.step()
    assert losses[-1] < 0.8 * losses[0]
    encoder = model.network.encoder.layers[0].conv.weight  # type: ignore[union-attr, index]
    assert bool(encoder.grad.abs().sum() > 0)  # type: ignore[union-attr, operator]


def test_a_language_model_goes_on_from_its_codes() -> None:
    codec = Model.from_config(TINY).eval()
    player = Model.from_config(
        {**FAMILIES["musicgen_decoder"].tiny, "num_codebooks": 3, "vocab_size": 16}, task="text-to-audio"
    ).eval()
    encoded = codec.encode_audio(torch.sin(torch.arange(800) * 0.1), sample_rate_hz=16_000)
    pattern = CodePattern(kind="delayed", books=3, entries=16)
    assert torch.equal(pattern.codes(pattern.tokens(encoded.codes)), encoded.codes)
    longer = player.continue_codes(encoded, frames=5, seed=1)
    assert torch.equal(longer[:, :20], encoded.codes)
    assert codec.decode_audio(longer).shape == (25 * 40,)


def test_its_arithmetic_is_counted() -> None:
    network = Model.from_config({**TINY, "num_lstm_layers": 2}).network
    assert isinstance(network, Encodec)
    counted = summary(network, tokens=50)
    assert not counted.uncounted
    nodes = dict(counted.root.walk())
    lstm = nodes["encoder.layers.10.lstm"]
    width = 4 * 2**3
    assert lstm.own_flops == 50 * 2 * 2 * 2 * 4 * width * width  # layers, input and state, four gates
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(Batch(input_values=torch.zeros(1, 50 * 40)), Flow())
    recurrences = sum(node.own_flops for node in nodes.values() if node.kind == "Recurrence")
    compared = 2 * 50 * 3 * 16 * 32  # frames with codes
    # torch counts no LSTM; of the transposed convolutions it counts the outputs that are cut, and of the others all.
    assert counted.flops - recurrences + compared == pytest.approx(counter.get_total_flops(), rel=0.02)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"norm_type": "layer_norm"},
            "norm_type = 'layer_norm' is not supported for a 'encodec' model; supported: 'wei",
        ),
        ({"pad_mode": "circular"}, "pad_mode = 'circular' is not supported"),
        ({"target_bandwidths": []}, "target_bandwidths is []; it must be a list of 1 to 32 numbers above 0"),
        ({"target_bandwidths": [0.1]}, "target_bandwidths end with 0.1 kbit/s, which are 0 codebooks of 4 bits"),
        ({"codebook_size": 12}, "codebook_size is 12; it must be a power of two"),
        ({"codebook_dim": 8}, "codebook_dim is 8; codes are as wide as hidden_size, 32"),
        ({"audio_channels": 3}, "audio_channels is 3; it must be a whole number from 1 to 2"),
        ({"chunk_length_s": 1.0}, "overlap is None; with chunk_length_s it must be from 0 to below 1"),
        ({"chunk_length_s": 1.0, "overlap": 1.0}, "overlap is 1.0"),
        ({"chunk_length_s": 1e-6, "overlap": 0.0}, "chunk_samples is 0"),
        ({"trim_right_ratio": 0.5, "use_causal_conv": False}, "trim_right_ratio must be 1.0 where use_causal_conv is"),
        ({"compress": 5}, "compress 5 leaves none of the 4 filters"),
        ({"num_lstm_layers": 0}, "num_lstm_layers is 0"),
    ],
)
def test_configs_that_make_no_codec(changes: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, UnsupportedError)) as refused:
        Model.from_config({**TINY, **changes})
    assert message in str(refused.value)


def test_codes_that_are_none() -> None:
    model = Model.from_config(TINY).eval()  # of 1 or 3 codebooks of 16
    sound = torch.zeros(100)
    for codes, message in (
        (torch.full((3, 2), 16), r"codes hold 16 in codebook 0, frame 0; allowed: 0 to 15"),
        (torch.zeros(2, 4, dtype=torch.long), r"codes have 2 codebooks, which .*: it was trained with 1 or 3"),
        (torch.zeros(4, 4, dtype=torch.long), r"at most 3 codebooks"),
    ):
        with pytest.raises(DataError, match=message):
            model.decode_audio(codes)
    for wrong, message in (
        ({"codebooks": 2}, r"codebooks is 2; this codec has 3: it was trained with 1 or 3"),
        ({"bandwidth": 2.0}, r"bandwidth is 2\.0; of this codec it must be one of 1\.6, 4\.8 kbit/s"),
        ({"bandwidth": "6"}, r"bandwidth is '6'"),
        ({"bandwidth": 1.6, "codebooks": 1}, r"give one of them"),
    ):
        with pytest.raises(ConfigError, match=message):
            model.encode_audio(sound, sample_rate_hz=16_000, **wrong)  # type: ignore[arg-type]
    dac = Model.from_config(FAMILIES["dac"].tiny).eval()
    with pytest.raises(ConfigError, match=r"bandwidth is 1\.5; of this codec it must be none: give codebooks=…"):
        dac.encode_audio(sound, sample_rate_hz=16_000, bandwidth=1.5)
    stereo = Model.from_config({**TINY, **STEREO}).eval()
    codes = torch.zeros(3, 41, dtype=torch.long)
    for scales, message in ((None, r"scales are None; this codec normalises"), (torch.ones(3), r"of the shape \[3\]")):
        with pytest.raises(DataError, match=message):
            stereo.decode_audio(codes, scales=scales)
    assert stereo.decode_audio(codes, scales=torch.ones(41)).shape == (2, 1_600)
