"""Session input of a model over codes: a recording becomes codes by an audio codec, and its tokens are times.

    recording ─ codec ─ codes [K, T] ─ delayed ids, a step late ─> [1, T + K - 1, K]

Position t is where the first codebook's code of frame t is predicted. An encoder-decoder reads the codes themselves.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.engine.codec import EncodedAudio, encode_audio, require_codec
from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.generation.audio_codes import code_pattern, convert_codes, longest_window
from glassformer.inspect.inputs import SessionInput, media_input
from glassformer.models import Network
from glassformer.models._seq2seq import shift_right


def codes_input(network: Network, files: Sequence[str], codec: Network) -> SessionInput:
    """One recording, cut to what the network reads at once; of an encoder-decoder its own conversion is the target.

    Raises: DataError: no file, or not one. ConfigError: the codec's codes are not those that the network reads.
    """
    if len(files) != 1 or not isinstance(files[0], (str, Path)):
        raise DataError(f"a model over codes is inspected on the file of one recording; got {safe_repr(list(files))}")
    encoded = encode_recording(network, str(files[0]), codec)
    pattern, codes = code_pattern(network), encoded.codes.cpu()

    def read(codes: Tensor) -> Tensor:
        """What a decoder reads to predict codes: the padding id, then every step but the last. [1, T, K]"""
        return shift_right(pattern.tokens(codes)[None], pattern.padding, pattern.padding)

    def labels(ids: Tensor) -> list[str]:
        return [f"{step / encoded.frame_rate_hz:.2f} s" for step in range(ids.shape[1])]

    if "decoder_input_ids" not in network.READS:
        ids = read(codes)
        return media_input(str(files[0]), Batch(input_ids=ids), {next(iter(network.stacks())): labels(ids)})
    source, target = codes.T[None], read(convert_codes(network, codes))
    batch = Batch(input_ids=source, decoder_input_ids=target)
    return media_input(str(files[0]), batch, {"source": labels(source), "target": labels(target)})


def encode_recording(network: Network, file: Any, codec: Network, rate_hz: int | None = None) -> EncodedAudio:
    """The codes of a recording, those of them that a network over codes reads at once.

    Raises: ConfigError: it reads codes of another codec.
    """
    pattern, spec = code_pattern(network), require_codec(codec).spec.quantizer
    if (pattern.books, pattern.entries) != (spec.books, spec.entries):
        raise ConfigError(
            f"the model reads {pattern.books} codebooks of {pattern.entries} codes, and the codec makes {spec.books} "
            f"of {spec.entries}; give the codec that it was trained with: codec=FOLDER (--codec)"
        )
    encoded, window = encode_audio(codec, file, rate_hz), longest_window(network)
    frames = encoded.codes.shape[1]
    if frames <= window:
        return encoded
    seconds = window / encoded.frame_rate_hz
    warnings.warn(
        f"the recording is {encoded.seconds:.1f} s long, of which the model reads the first {seconds:.1f} s at once",
        stacklevel=2,
    )
    return encoded.first(window)
