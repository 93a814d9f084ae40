"""Timestamp rules ban what the reference library's bans."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from glassformer.speech.vocabulary import SpeechVocabulary
from glassformer.speech.window import TimestampRules

FIRST, VOCABULARY, BEGIN = 12, 40, 3
WORDS = SpeechVocabulary(start=9, end=8, previous=10, no_speech=7, no_timestamps=11, languages={}, tasks={}, context=64)


@pytest.mark.parametrize("max_initial", [None, 5])
def test_the_references_rules(max_initial: int | None) -> None:
    from transformers import WhisperTimeStampLogitsProcessor

    config = SimpleNamespace(
        no_timestamps_token_id=11, eos_token_id=8, bos_token_id=8, max_initial_timestamp_index=max_initial
    )
    theirs = WhisperTimeStampLogitsProcessor(config, begin_index=BEGIN)  # type: ignore[arg-type]
    ours = TimestampRules(WORDS, BEGIN, max_initial)
    draw = torch.Generator().manual_seed(0)
    for length in range(7):
        for _ in range(20):
            ids = torch.randint(0, 8, (4, BEGIN + length), generator=draw)
            # timestamps at random places, never going back
            stamps = torch.randint(FIRST, VOCABULARY - 8, (4, length), generator=draw).sort(dim=1).values
            chosen = torch.rand(4, length, generator=draw) < 0.5
            ids[:, BEGIN:] = torch.where(chosen, stamps, ids[:, BEGIN:])
            logits = torch.randn(4, VOCABULARY, generator=draw) * 2
            expected = theirs(ids, logits.clone())
            got = ours(ids, logits)
            # where a pair is open, the reference lets the end token stand; so do we
            assert torch.equal(got.isneginf(), expected.isneginf()), ids
