"""Sound as codes: a codec's methods of a model, and those of a language model over codes.

encoded = codec.encode_audio("riff.wav")                     codes [K, T], latents, frame rate
longer = player.continue_codes(encoded.codes, frames=625)    codes [K, T + 625], by a language model over codes
wet = effect.convert_codes(encoded.codes)                    codes [K, T], by a model of pairs
sound = codec.decode_audio(longer)                           samples
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from glassformer.engine.codec import EncodedAudio, decode_audio, encode_audio
from glassformer.models import Network

if TYPE_CHECKING:
    from glassformer.audio.read import AudioInput
    from glassformer.generation.audio_codes import Progress


CODEC = "package:glassformer/checkpoints/guitar_codec"
"""The codec that this package carries."""


class AudioCoder:
    """What a network does with sound as codes; `Model` has these methods too."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def encode_audio(
        self,
        sound: AudioInput,
        *,
        sample_rate_hz: int | None = None,
        codebooks: int | None = None,
        bandwidth: float | None = None,
    ) -> EncodedAudio:
        """The codes of a recording of any length, by an audio codec: `engine.codec.encode_audio`."""
        return encode_audio(self.network, sound, sample_rate_hz, codebooks, bandwidth)

    def decode_audio(self, codes: Tensor | EncodedAudio, *, scales: Tensor | float | None = None) -> Tensor:
        """The sound that codes [K, T] of an audio codec stand for: `engine.codec.decode_audio`. [samples]"""
        return decode_audio(self.network, codes, scales)

    def continue_codes(
        self, /, codes: Tensor | EncodedAudio, frames: int, *, progress: Progress | None = None, **options: object
    ) -> Tensor:
        """Go on from a recording by a language model over codes: `generation.audio_codes.continue_codes`."""
        from glassformer.generation.audio_codes import continue_codes

        return continue_codes(self.network, _of(codes), frames, progress=progress, prepare=True, **options)

    def convert_codes(
        self, /, codes: Tensor | EncodedAudio, *, progress: Progress | None = None, **options: object
    ) -> Tensor:
        """Convert a recording by a model of pairs of recordings: `generation.audio_codes.convert_codes`."""
        from glassformer.generation.audio_codes import convert_codes

        return convert_codes(self.network, _of(codes), progress=progress, prepare=True, **options)


def _of(codes: Tensor | EncodedAudio) -> Tensor:
    return codes.codes if isinstance(codes, EncodedAudio) else codes
