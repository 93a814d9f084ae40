"""The codec: equal to the reference's `DacModel`, its losses and its gradients, and what it refuses."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import glassformer
from glassformer import Model
from glassformer.core.flow import Batch, Flow, Tape
from glassformer.errors import ConfigError, DataError, WeightsError
from glassformer.inspect.summary import summary
from glassformer.models import FAMILIES
from glassformer.models._codec_losses import magnitudes
from glassformer.models.dac import Codec, CodecLoss, spectral_distance
from glassformer.models.dac.convolutions import DownBlock, Snake, UpBlock, field_of_view

TINY = dict(FAMILIES["dac"].tiny)
FIELDS = ("audio_values", "quantized_representation", "audio_codes", "projected_latents")
RATIOS = {"odd": [2, 4, 5], "44.1 kHz": [2, 4, 8, 8], "one": [3]}


def reference(**changes: Any) -> Any:
    """A reference codec, every parameter of it perturbed, and its variances kept near 1."""
    torch.manual_seed(7)
    sizes = {key: value for key, value in TINY.items() if key != "hidden_size"}
    model = transformers.DacModel(transformers.DacConfig.from_dict({**sizes, **changes}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = 0.6 * parameter[0].numel() ** -0.5 if parameter.dim() == 3 and "alpha" not in name else 0.1
            parameter += torch.randn_like(parameter) * spread
    return model.eval()


def waves(rows: int, samples: int) -> Tensor:
    return torch.randn(rows, samples, generator=torch.Generator().manual_seed(3)) * 0.5


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Model, Any]:
    theirs = reference()
    theirs.save_pretrained(tmp_path / "codec")
    return glassformer.load(tmp_path / "codec", strict=True, offline=True), theirs


@pytest.mark.parametrize("ratios", RATIOS.values(), ids=RATIOS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
def test_every_output_is_the_references(ratios: list[int], dtype: torch.dtype, tmp_path: Path) -> None:
    theirs = reference(downsampling_ratios=ratios, quantizer_dropout=0.5, commitment_loss_weight=0.5).to(dtype)
    theirs.save_pretrained(tmp_path)
    ours = glassformer.load(tmp_path, strict=True, offline=True)
    assert ours.dtype == dtype and not ours.report.warnings
    wave = waves(3, 12 * ours.network.spec.hop).to(dtype)
    tape = Tape("encoder.out")
    with torch.no_grad():
        got, wanted = ours(input_values=wave, tape=tape), theirs(wave[:, None])
        z = theirs.encoder(wave[:, None])
    within = 1e-5 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(got.taps["encoder.out"].mT, z, atol=within, rtol=within)
    for field in FIELDS:
        torch.testing.assert_close(got[field], wanted[field], atol=within, rtol=within, msg=field)
    torch.testing.assert_close(got.loss, wanted.loss.mean(), atol=within, rtol=within)
    assert list(got)[:5] == list(wanted) and len(set(got.audio_codes.flatten().tolist())) > 4


@pytest.mark.parametrize("dropout", [0.0, 0.7])
def test_gradients_and_quantizer_dropout_are_the_references(dropout: float, tmp_path: Path) -> None:
    theirs = reference(quantizer_dropout=dropout).double()
    theirs.save_pretrained(tmp_path)
    ours = glassformer.load(tmp_path, strict=True, offline=True).train()
    theirs.train()
    wave = waves(4, 480).double()
    torch.manual_seed(1)
    got = ours(input_values=wave)
    torch.manual_seed(1)
    wanted = theirs(wave[:, None])
    for output in (got, wanted):
        # With dropout, the reference weighs the mean of all rows by how many use a codebook, and not each row's own.
        ((0.0 if dropout else 1.0) * output.loss.mean() + output.audio_values.square().mean()).backward()
    torch.testing.assert_close(got.audio_values, wanted.audio_values, atol=1e-9, rtol=1e-9)
    names = ours.family.names(ours.spec, ours.task)
    gradients = {name: x.grad for name, x in theirs.named_parameters()}
    for name, parameter in ours.network.named_parameters():
        [stored] = names.find(name, prefixed=True)[1]
        assert parameter.grad is not None
        torch.testing.assert_close(parameter.grad, gradients[stored], atol=1e-8, rtol=1e-8, msg=name)


def test_saved_folders_hold_the_same_bytes_and_load_in_the_reference(pair: tuple[Model, Any], tmp_path: Path) -> None:
    ours, theirs = pair
    ours.save_pretrained(tmp_path / "saved")
    again, report = transformers.DacModel.from_pretrained(tmp_path / "saved", output_loading_info=True)
    assert not any(report.values()), report
    state = again.state_dict()
    assert all(torch.equal(x, state[name]) for name, x in theirs.state_dict().items())
    assert again.config.downsampling_ratios == TINY["downsampling_ratios"]


@pytest.mark.parametrize("codebooks", [1, 2, 3])
def test_codes_decode_as_in_the_reference(pair: tuple[Model, Any], codebooks: int) -> None:
    ours, theirs = pair
    wave = waves(1, 800)
    with torch.no_grad():
        wanted = theirs.encode(wave[:, None], n_quantizers=codebooks)
        sound = theirs.decode(audio_codes=wanted.audio_codes).audio_values[0]
    got = ours.encode_audio(wave[0], sample_rate_hz=16_000, codebooks=codebooks)
    assert torch.equal(got.codes, wanted.audio_codes[0])
    torch.testing.assert_close(got.latents, wanted.projected_latents[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.decode_audio(got.codes), sound, atol=1e-5, rtol=1e-5)


def test_the_frames_of_the_encoder_are_the_states(pair: tuple[Model, Any]) -> None:
    """Continuous latents: inputs for a stack of blocks, without an embedding table."""
    ours, theirs = pair
    wave = waves(2, 400)
    with torch.no_grad():
        frames = ours.network.states(Batch(input_values=wave), Flow())
        torch.testing.assert_close(frames.mT, theirs.encoder(wave[:, None]), atol=1e-5, rtol=1e-5)
    assert frames.shape == (2, 10, 32)


def test_its_losses_are_those_of_their_formulas(pair: tuple[Model, Any]) -> None:
    ours, _ = pair
    head = ours.network.head
    assert isinstance(head, CodecLoss)
    wave = waves(2, 2048)
    output = ours(input_values=wave, labels=wave)
    made = output.audio_values
    assert made is not None and output.loss is not None
    codes = ours(input_values=wave).loss
    target = wave[:, : made.shape[1]]
    apart = (made - target).abs().mean(1) / (target.abs().mean(1) + 0.01)
    by_hand = head.waveform * apart.mean() + head.spectral * spectral_distance(made, target).mean()
    torch.testing.assert_close(output.loss, by_hand + codes)
    assert bool((spectral_distance(wave, wave) < 1e-6).all())
    far = spectral_distance(wave, torch.zeros_like(wave))
    assert bool((far > spectral_distance(wave, 0.9 * wave)).all())
    with pytest.raises(DataError, match=r"labels have the shape \[2, 5\]; they must be those of input_values"):
        ours(input_values=wave, labels=wave[:, :5])


def test_silence_has_losses_and_gradients() -> None:
    model = Model.from_config(TINY).train()
    wave = torch.zeros(2, 1200)
    loss = model(input_values=wave, labels=wave).loss
    loss.backward()
    assert all(x.grad is None or bool(x.grad.isfinite().all()) for x in model.network.parameters())


def test_snake_by_hand() -> None:
    snake = Snake(2)
    snake.alpha.data = torch.tensor([0.5, 2.0]).reshape(1, 2, 1)
    x = torch.tensor([[[0.3, -1.0], [0.3, -1.0]]])
    for row, alpha in enumerate((0.5, 2.0)):
        wanted = x[0, row] + torch.sin(alpha * x[0, row]) ** 2 / alpha
        torch.testing.assert_close(snake(x)[0, row], wanted)
    with torch.no_grad():
        torch.testing.assert_close(snake(x), snake(x.requires_grad_()))


def test_the_gradients_of_snake_are_those_of_differences() -> None:
    snake = Snake(3).double()
    snake.alpha.data.uniform_(0.3, 2.0, generator=torch.Generator().manual_seed(1))
    x = waves(2 * 3, 9).double().reshape(2, 3, 9).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, alpha: snake(x), (x, snake.alpha))
    narrow = waves(3, 9).bfloat16()[None].requires_grad_()
    output = Snake(3)(narrow)  # as under autocast: the activations narrow, the parameter not
    output.sum().backward()
    assert narrow.grad is not None and output.dtype == narrow.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("block", [DownBlock(8, 8), DownBlock(12, 4), UpBlock(16, 8, 8), UpBlock(24, 12, 4)])
def test_strides_of_few_channels_are_right_in_bf16(block: nn.Module) -> None:
    channels = block.snake.alpha.shape[1]
    results = []
    for narrow in (False, True):
        x = waves(2 * channels, 1_024).reshape(2, channels, -1).requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=narrow):
            output = block(x).float()
        results.append([output.detach(), *torch.autograd.grad(output.square().sum(), [x, *block.parameters()])])
    for wide, narrow in zip(*results, strict=True):
        assert float((wide - narrow).norm()) < 0.03 * float(wide.norm())
    with torch.no_grad():  # weights that are bf16 themselves
        narrow = copy.deepcopy(block).bfloat16()(x.bfloat16()).float()
    assert float((results[0][0] - narrow).norm()) < 0.03 * float(narrow.norm())


def test_codes_are_compared_in_fp32_under_autocast() -> None:
    network = Model.from_config(TINY).network
    assert isinstance(network, Codec)
    z = waves(2, 32 * 500).reshape(2, 32, 500)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = network.quantizer(z, Flow())
    wide = network.quantizer(z, Flow())
    assert torch.equal(narrow.codes, wide.codes) and torch.equal(narrow.frames, wide.frames)


@pytest.mark.parametrize("samples", [1_000, 1_024])
def test_magnitudes_are_those_of_a_short_time_fourier_transform(samples: int) -> None:
    wave, hann = waves(2, samples), torch.hann_window(256)
    padded = torch.nn.functional.pad(wave, (128, 128))
    wanted = torch.stft(padded, 256, 64, window=hann, center=False, return_complex=True).abs() / 64
    torch.testing.assert_close(magnitudes(wave, 256), wanted.mT, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("ratios", RATIOS.values(), ids=RATIOS)
def test_the_field_of_view_is_where_gradients_reach(ratios: list[int]) -> None:
    model = Model.from_config({**TINY, "downsampling_ratios": ratios, "hidden_size": 8})
    codec = model.network
    assert isinstance(codec, Codec)
    for parameter in codec.double().parameters():  # all positive, so that nothing cancels, and no tanh saturates
        nn.init.constant_(parameter, 0.3 / max(1, parameter[0].numel()))
    hop, frames = codec.spec.hop, 80
    wave = torch.zeros(1, frames * hop, dtype=torch.float64, requires_grad=True)
    codec.encode(wave[:, None], Flow())[0][0, :, 40].sum().backward()
    assert wave.grad is not None
    reached = wave.grad[0].nonzero().flatten() - 40 * hop
    assert (int(reached[0]), int(reached[-1])) == field_of_view(codec.encoder, 1)
    z = torch.zeros(1, 8, frames, dtype=torch.float64, requires_grad=True)
    codec.decode(z)[0, 0, 40 * hop : 41 * hop].sum().backward()
    assert z.grad is not None
    reached = z.grad[0].sum(0).nonzero().flatten() - 40
    assert (int(reached[0]), int(reached[-1])) == field_of_view(codec.decoder, hop)


def test_flops_are_those_that_torch_counts() -> None:
    model = Model.from_config({**TINY, "downsampling_ratios": [2, 4]}).eval()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(input_values=waves(1, 8 * 50))
    counted, ours = counter.get_total_flops(), summary(model.network, tokens=50).flops
    compared = 2 * 50 * TINY["n_codebooks"] * TINY["codebook_size"] * TINY["codebook_dim"]  # frames with codes
    assert ours + compared == pytest.approx(counted, rel=1e-9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_codebooks": 0}, "n_codebooks is 0; it must be a whole number from 1 to 64"),
        ({"codebook_size": -1}, "codebook_size is -1"),
        ({"downsampling_ratios": []}, "downsampling_ratios is []; it must be a list of 1 to 32"),
        ({"upsampling_ratios": [2, 2]}, r"up_strides [2, 2] make frames of 4 samples, strides [2, 4, 5] of 40"),
        ({"decoder_hidden_size": 4}, "decoder_channels 4 cannot be halved 3 times"),
        ({"sampling_rate": "16k"}, "sampling_rate is '16k'"),
    ],
)
def test_configs_that_make_no_codec(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Model.from_config({**TINY, **changes})
    assert message in str(refused.value)


def test_a_folder_that_is_cut_anywhere_is_refused_by_name(pair: tuple[Model, Any], tmp_path: Path) -> None:
    ours, _ = pair
    ours.save_pretrained(tmp_path / "cut")
    file = tmp_path / "cut" / "model.safetensors"
    whole = file.read_bytes()
    for size in (0, 7, 100, len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(WeightsError, match=r"model\.safetensors"):
            glassformer.load(tmp_path / "cut", offline=True)


def test_a_call_says_what_it_reads() -> None:
    model = Model.from_config(TINY).eval()
    with pytest.raises(ConfigError, match=r"reads input_values"):
        model(pixel_values=torch.zeros(1, 3, 4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(input_values=torch.zeros(1, 3)).audio_values.shape == (1, 3)  # three samples: one frame, cut
