"""DAC, the Descript Audio Codec: 44.1, 24 and 16 kHz sound as codes of a few codebooks, 50 to 87 times a second.

    samples ─ convolutions, Snake ─ z ─ residual vector quantisation ─ ẑ ─ transposed convolutions, Snake ─ samples

Source: Kumar et al. 2023, "High-Fidelity Audio Compression with Improved RVQGAN".
Differs: weight normalisation is a way to train; it is folded into the weights, as in the Hugging Face layout. A sound
that does not end with a whole frame is padded with silence; there, the layers cut what is left over.
"""

from __future__ import annotations

from glassformer.models._config import Keys, Values, number, rows, size, sizes
from glassformer.models._family import Family
from glassformer.models._quantizer import QuantizerSpec
from glassformer.models.dac.names import NAMES
from glassformer.models.dac.network import Codec, CodecSpec, initialise

KEYS = Keys(
    encoder_channels=size("encoder_hidden_size", 64),
    decoder_channels=size("decoder_hidden_size", 1536),
    strides=sizes("downsampling_ratios", (2, 4, 8, 8)),
    up_strides=sizes("upsampling_ratios", lambda c: c.strides[::-1]),
    width=("hidden_size", lambda c: c.encoder_channels * 2 ** len(c.strides)),
    books=size("n_codebooks", 9, maximum=64),
    entries=rows("codebook_size", 1024),
    code_width=size("codebook_dim", 8),
    quantizer_dropout=number("quantizer_dropout", 0.0),
    commitment=number("commitment_loss_weight", 0.25),
    codebook=number("codebook_loss_weight", 1.0),
    dead_codes=number("dead_code_loss_weight", 0.0),  # of our own: no file of others has it
    sample_rate_hz=size("sampling_rate", 16_000),
    unused="hop_length",  # the product of the strides
)


@KEYS.spec
def spec(c: Values) -> CodecSpec:
    return CodecSpec(
        quantizer=QuantizerSpec(
            **c("width books entries code_width commitment codebook dead_codes"), dropout=c.quantizer_dropout
        ),
        **c("encoder_channels decoder_channels strides up_strides sample_rate_hz"),
    )


FAMILY = Family(
    model_type="dac",
    distinction="an audio codec: convolutions, residual vector quantisation, no attention",
    architectures={"DacModel": "audio-codec"},
    spec=spec,
    build=Codec,
    names=NAMES,
    initialise=initialise,
    modality="sound",
    tiny=KEYS.tiny(
        "dac",
        **{"encoder_hidden_size": 4, "decoder_hidden_size": 32, "downsampling_ratios": [2, 4, 5]},
        **{"n_codebooks": 3, "codebook_size": 16, "codebook_dim": 4},
    ),
)
