"""Alignment heads: the heads of the decoder's cross-attention that look at the sound of the next word.

Published models name theirs in generation_config.json. Those of other models, fine-tuned or trained from scratch, are
found on the recording itself: a head is scored by how much of its attention lies on the path that dynamic time warping
finds through it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from glassformer.audio.read import AudioInput
from glassformer.errors import ConfigError
from glassformer.files import safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.speech.alignment import WordAligner, token_starts
from glassformer.speech.options import TranscriptionOptions
from glassformer.speech.spectrogram import Spectrogram
from glassformer.speech.window import WindowDecoder

HEADS = 4
"""N heads are averaged where none are published: word times of tiny.en and base are then 0.02 s from those of the
published heads at the median; with 10 heads 0.12 s and 0.02 s."""
MAX_WINDOWS = 3
"""Windows of a recording that are scored."""
KEY = "alignment_heads"
SCORING = TranscriptionOptions(num_beams=1, temperature=0.0)


def published_heads(model: LoadedModel) -> list[tuple[int, int]] | None:
    """(layer, head) pairs of generation_config.json; None where it has none. Raises: ConfigError: not pairs."""
    pairs = model.generation_config.get(KEY)
    if pairs is None:
        return None
    every = all_heads(model)
    try:
        heads = [(int(layer), int(head)) for layer, head in pairs]
        valid = bool(heads) and set(heads) <= set(every)
    except (TypeError, ValueError):
        valid = False
    if not valid:
        raise ConfigError(
            f"generation_config.json: {KEY} is {safe_repr(pairs)}; it must be a list of [layer, head] of the decoder, "
            f"which has {every[-1][0] + 1} layers; remove the key, and the heads are found on the recording"
        )
    return heads


def all_heads(model: LoadedModel) -> list[tuple[int, int]]:
    """Every (layer, head) of the decoder's cross-attention."""
    crosses = [block.cross for block in model.network.stacks()["target"]]
    return [(i, head) for i, cross in enumerate(crosses) if cross is not None for head in range(cross.spec.heads)]


def find_alignment_heads(
    model: LoadedModel, sounds: Iterable[AudioInput], *, language: str = "en", sample_rate_hz: int | None = None
) -> list[tuple[int, int]]:
    """The alignment heads of a model, by score on a few recordings in one language; three with many words suffice.

    model.generation_config["alignment_heads"] = find_alignment_heads(model, ["a.wav", "b.wav", "c.wav"])
    """
    processor: Any = model.processor
    decoder = WindowDecoder(model, SCORING)
    read = (Spectrogram.read(processor, sound, sample_rate_hz) for sound in sounds)
    return best_heads([score for spectrogram in read for score in window_scores(decoder, spectrogram, language)])


def window_scores(
    decoder: WindowDecoder, spectrogram: Spectrogram, language: str, windows: int = MAX_WINDOWS
) -> list[dict[tuple[int, int], float]]:
    """The score of each head on the first windows of a recording: normalised attention along its own path."""
    heads, size, scores = all_heads(decoder.model), spectrogram.window_frames, list[dict[tuple[int, int], float]]()
    for begin in range(0, min(spectrogram.frames, windows * size), size):
        end = min(begin + size, spectrogram.frames)
        memory = decoder.encode(spectrogram.window(begin, end)[None])
        text = [token for token in decoder.decode(memory, language)[0].tokens if token < decoder.vocabulary.end]
        if text:
            matrix, _ = WordAligner(decoder, heads).attention(memory, text, end - begin, language)
            scores.append({pair: _score(weights) for pair, weights in zip(heads, matrix, strict=True)})
    return scores


def best_heads(scores: Sequence[dict[tuple[int, int], float]], count: int = HEADS) -> list[tuple[int, int]]:
    """The heads with the highest mean score over several windows; the first one where nothing was said."""
    if not scores:
        return [(0, 0)]
    totals = {pair: sum(each[pair] for each in scores) / len(scores) for pair in scores[0]}
    return sorted(sorted(totals, key=lambda pair: -totals[pair])[:count])


def _score(weights: Tensor) -> float:
    """Mean attention of each token from the frame where its path begins to where the next one does. [T, frames]"""
    starts = token_starts(-weights.double().numpy())
    ends = [*starts[1:], weights.shape[1]]
    edges = zip(starts, ends, strict=True)
    spans = [weights[row, begin : max(end, begin + 1)] for row, (begin, end) in enumerate(edges)]
    return float(sum(span.mean() for span in spans[:-1]) / max(1, len(spans) - 1))
