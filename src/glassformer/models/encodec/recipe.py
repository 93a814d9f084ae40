"""EnCodec: sound as codes, at 24 kHz, at 48 kHz in stereo, and at 32 kHz for MusicGen, 50 to 150 times a second.

    samples ─ convolutions, ELU, LSTM ─ z ─ residual vector quantisation ─ ẑ ─ LSTM, transposed convolutions ─ samples

Source: Défossez et al. 2022, "High Fidelity Neural Audio Compression".
Differs: weight normalisation is a way to train; it is folded into the weights, and saved as the reference reads it.
"""

from __future__ import annotations

import math
from typing import Any

from glassformer.errors import ConfigError
from glassformer.models._config import Keys, Values, flag, multiplier, multipliers, number, rows, size, sizes, text
from glassformer.models._family import Family
from glassformer.models._quantizer import QuantizerSpec
from glassformer.models.encodec.names import names
from glassformer.models.encodec.network import Encodec, EncodecSpec, initialise
from glassformer.models.encodec.seanet import SeanetSpec

KEYS = Keys(
    bandwidths=multipliers("target_bandwidths", (1.5, 3.0, 6.0, 12.0, 24.0)),
    sample_rate_hz=size("sampling_rate", 24_000),
    channels=size("audio_channels", 1, maximum=2),
    normalises=flag("normalize", False),
    chunk_seconds=multiplier("chunk_length_s", None),
    overlap=number("overlap", None),
    width=("hidden_size", 128),
    filters=size("num_filters", 32),
    residual_layers=size("num_residual_layers", 1, maximum=16),
    ratios=sizes("upsampling_ratios", (8, 5, 4, 2)),
    norm=text("norm_type", "weight_norm"),
    kernel=size("kernel_size", 7),
    last_kernel=size("last_kernel_size", 7),
    residual_kernel=size("residual_kernel_size", 3),
    dilation_growth=size("dilation_growth_rate", 2, maximum=64),
    causal=flag("use_causal_conv", True),
    padding=text("pad_mode", "reflect"),
    compress=size("compress", 2),
    lstm_layers=size("num_lstm_layers", 2, maximum=64),
    trim_right=number("trim_right_ratio", 1.0),
    entries=rows("codebook_size", 1024),
    code_width=size("codebook_dim", lambda c: c.width),
    shortcut=flag("use_conv_shortcut", True),
    # these are of our own, by the names of DAC's: no file of others has them
    dropout=("quantizer_dropout", 0.0),
    commitment=number("commitment_loss_weight", 0.25),
    codebook=number("codebook_loss_weight", 1.0),
    dead_codes=number("dead_code_loss_weight", 0.0),
    fixed={"norm_type": ("weight_norm", "time_group_norm"), "pad_mode": ("reflect", "constant", "replicate")},
)


@KEYS.spec
def spec(c: Values) -> EncodecSpec:
    if c.code_width != c.width:
        raise ConfigError(f"config.json: codebook_dim is {c.code_width}; codes are as wide as hidden_size, {c.width}")
    bits = c.entries.bit_length() - 1
    if 1 << bits != c.entries or bits == 0:
        raise ConfigError(f"config.json: codebook_size is {c.entries}; it must be a power of two from 2 up")
    frame_rate = math.ceil(c.sample_rate_hz / math.prod(c.ratios))  # whole, as bandwidths are counted
    counts = {kbps: int(1000 * kbps // (bits * frame_rate)) for kbps in c.bandwidths}
    books = counts[c.bandwidths[-1]]
    if not 1 <= books <= 128:
        raise ConfigError(
            f"config.json: target_bandwidths end with {c.bandwidths[-1]:g} kbit/s, which are {books} codebooks of "
            f"{bits} bits, {frame_rate} times a second; from 1 to 128 are supported"
        )
    return EncodecSpec(
        seanet=SeanetSpec(
            **c("channels filters width ratios residual_layers kernel last_kernel residual_kernel dilation_growth"),
            **c("compress lstm_layers causal trim_right padding shortcut"),
            group_norm=c.norm == "time_group_norm",
        ),
        quantizer=QuantizerSpec(books=books, **c("width entries code_width dropout commitment codebook dead_codes")),
        bandwidths={kbps: min(max(count, 1), books) for kbps, count in counts.items()},
        **_chunks(c),
        **c("sample_rate_hz channels normalises"),
    )


def _chunks(c: Values) -> dict[str, Any]:
    """How a sound is cut into chunks that overlap, if it is."""
    if c.chunk_seconds is None:
        return {}
    if c.overlap is None or not c.overlap < 1:
        raise ConfigError(f"config.json: overlap is {c.overlap}; with chunk_length_s it must be from 0 to below 1")
    samples = int(c.chunk_seconds * c.sample_rate_hz)
    return {"chunk_samples": samples, "chunk_stride": max(1, int((1.0 - c.overlap) * samples))}


FAMILY = Family(
    model_type="encodec",
    distinction="an audio codec with an LSTM: stereo too, loudness apart, codes of chunks that overlap",
    architectures={"EncodecModel": "audio-codec"},
    spec=spec,
    build=Encodec,
    names=names,
    initialise=initialise,
    modality="sound",
    tiny=KEYS.tiny(
        "encodec",
        **{"num_filters": 4, "upsampling_ratios": [5, 4, 2], "codebook_size": 16, "num_lstm_layers": 1},
        **{"sampling_rate": 16_000, "target_bandwidths": [1.6, 4.8]},
    ),
)
