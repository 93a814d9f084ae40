"""Options of transcription are checked one by one."""

from __future__ import annotations

from typing import Any

import pytest

from glassformer import ConfigError
from glassformer.speech.options import TEMPERATURES, TranscriptionOptions


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_beams": 0}, "num_beams is 0; it must be a whole number from 1 to 1,000,000,000,000,000"),
        ({"temperature": []}, "temperature is"),
        ({"temperature": [0, -1]}, "a number from 0 to 10"),
        ({"task": "sing"}, "task is 'sing'; allowed: transcribe, translate"),
        ({"language": 3}, "language is 3"),
        ({"no_speech_threshold": 2}, "from 0 to 1"),
        ({"word_timestamp": True}, "word_timestamps"),
        ({"language_model": "talks.arpa"}, "load_ngram"),
        ({"batch_size": []}, "batch_size is"),
    ],
)
def test_errors_name_what_is_allowed(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        TranscriptionOptions.read(given)


def test_names_of_other_software() -> None:
    read = TranscriptionOptions.read({"beam_size": 2, "vad_filter": True, "temperature": 0})
    assert (read.num_beams, read.voice_filter, read.temperatures) == (2, True, (0.0,))
    assert TranscriptionOptions().temperatures == TEMPERATURES
