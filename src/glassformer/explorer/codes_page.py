"""Sound view of codecs and of models over codes: a recording, its codes, and attention over musical time.

The page is that of sounds (listening_page.py): waveform, spectrogram, codes and attention on one axis of time, in step
with their sound. The other views of a model over codes are those of the explorer, whose tokens are times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from glassformer.audio.listening import AttentionOverTime, Sound, SoundExample
from glassformer.audio.read import read_audio
from glassformer.engine.codec import decoded_sound, encode_audio, require_codec
from glassformer.inspect.codes_input import encode_recording
from glassformer.inspect.head import pooled
from glassformer.inspect.session import Session
from glassformer.models import Network

MAX_HEADS, MAX_FRAMES = 64, 384
"""Heads that a page holds, and rows and columns of each; of longer sounds a cell is the largest of several."""


def codec_example(codec: Network, file: str | Path) -> SoundExample:
    """A recording, and what a codec decodes from its codes."""
    spec = require_codec(codec).spec
    encoded = encode_audio(codec, file)
    books, frames = encoded.codes.shape
    bits = spec.frame_rate_hz * books * math.log2(spec.quantizer.entries)
    facts = {
        "codes": f"{books} codebooks × {frames} frames, {encoded.frame_rate_hz:g} a second",
        "bit rate": f"{bits / 1000:.3g} kbit/s, of {16 * spec.sample_rate_hz / 1000:.0f} as 16-bit samples",
    }
    sounds = [_recording(codec, file), decoded_sound(require_codec(codec), "decoded", encoded)]
    return SoundExample(Path(file).name, sounds, "A recording, and what its codes alone say of it.", facts)


def attention_example(session: Session, codec: Network) -> SoundExample:
    """A recording as a model over codes reads it, and where its heads look.

    Of an encoder-decoder: the recording, and what it was converted into.
    """
    file = session.texts[0]
    encoded = encode_recording(session.network, file, codec)
    attention = attention_over_time(session, encoded.frame_rate_hz)
    heads = sum(map(len, _heads_by_map(session)))
    facts = {"heads": f"{len(attention.heads)} of {heads}"} if len(attention.heads) < heads else {}
    if "target" not in session.streams:
        sound = decoded_sound(require_codec(codec), "from its codes", encoded, attention=attention)
        return SoundExample(Path(file).name, [_recording(codec, file), sound], ABOUT, facts)
    ids = session.batch.decoder_input_ids
    assert ids is not None  # an encoder-decoder's
    sounds = [
        _recording(codec, file),
        decoded_sound(require_codec(codec), "converted", _read_back(ids[0]), attention=attention),
    ]
    return SoundExample(Path(file).name, sounds, ABOUT, facts)


ABOUT = "At each moment the model reads the codes so far, and a head looks at some of them: a row of its map."


def attention_over_time(session: Session, frame_rate_hz: float) -> AttentionOverTime:
    """The attention of all heads, as many as a page holds, over the time of the sound."""
    best = next(iter(session.findings), None)
    frames = max(map(len, session.streams.values()))
    pool = math.ceil(frames / MAX_FRAMES)
    names, probs, first = list[str](), list[Tensor](), 0
    for name, layer, head in _heads(session):
        if best is not None and (name, layer, head) == (best.map, best.layer, best.head):
            first = len(names)
        names.append(f"{name + ' · ' if len(session.maps) > 1 else ''}layer {layer} · head {head}")
        rows = pooled(session.head(layer, head, name).probs().float(), pool, pool)
        probs.append(torch.nn.functional.pad(rows, (0, -(-frames // pool) - rows.shape[1])))
        if len(names) == MAX_HEADS:
            break
    most = max(len(each) for each in probs)
    even = [torch.nn.functional.pad(each, (0, 0, 0, most - len(each))) for each in probs]
    sentence = "" if best is None else best.sentence
    return AttentionOverTime(names, torch.stack(even).clamp(0, 1), frame_rate_hz / pool, first, sentence)


def _heads_by_map(session: Session) -> Iterator[list[tuple[str, int, int]]]:
    for about in session.maps.values():
        yield [(about.name, layer, head) for layer in range(about.layers) for head in range(about.heads)]


def _heads(session: Session) -> Iterator[tuple[str, int, int]]:
    """Map, layer and number of each head, those of the opening map first."""
    best = next(iter(session.findings), None)
    groups = sorted(_heads_by_map(session), key=lambda heads: best is not None and heads[0][0] != best.map)
    for heads in groups:
        yield from heads


def _read_back(ids: Tensor) -> Tensor:
    """The codes that a decoder read, without the last frame, of which it read a part. [T + K - 1, K] → [K, T - 1]"""
    steps, books = ids.shape
    return torch.stack([ids[1 + book : 1 + book + steps - books, book] for book in range(books)])


def _recording(codec: Network, file: str | Path) -> Sound:
    rate = require_codec(codec).spec.sample_rate_hz
    return Sound("recording", read_audio(file, rate), rate)
