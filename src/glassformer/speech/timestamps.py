"""Timestamp rules: a logit filter that makes a transcript a sequence of segments with begin and end times.

    <|0.00|> And so my fellow Americans <|3.20|><|3.20|> ask not … <|7.10|>

Source: Radford et al. 2022, section 4.5 and appendix on decoding: timestamps come in pairs and never go back; the
first is at most one second; a timestamp is forced where all timestamps together are likelier than any text token.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from glassformer.speech.vocabulary import SpeechVocabulary


@dataclass(frozen=True)
class TimestampRules:
    """Logit filter: (ids [R, T], logits [R, V]) → logits [R, V].

    begin: prompt length
    max_initial: of the first timestamp, in steps of 0.02 s; None = no limit
    """

    vocabulary: SpeechVocabulary
    begin: int
    max_initial: int | None = 50

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        first, end = self.vocabulary.first_timestamp, self.vocabulary.end
        new, logits = ids[:, self.begin :], logits.clone()
        logits[:, self.vocabulary.no_timestamps] = -torch.inf
        if new.shape[1] == 0:
            logits[:, :first] = -torch.inf
            if self.max_initial is not None:
                logits[:, first + self.max_initial + 1 :] = -torch.inf
        # A few rows of a large vocabulary: ranges of each are cheaper to ban than masks of all are to make.
        for row, tokens in zip(logits, new.tolist() if new.shape[1] else (), strict=False):
            opened = tokens[-1] >= first and (len(tokens) > 1 and tokens[-2] < first)  # a pair that lacks its second
            if opened:
                row[:end] = -torch.inf
            elif tokens[-1] >= first:
                row[first:] = -torch.inf  # text follows a pair
            # A segment has a length: the timestamp that ends it is later than the one that begins it.
            latest = max(tokens) if max(tokens) >= first else first - 1
            row[first : latest if opened else latest + 1] = -torch.inf
        stamp_likelier = logits[:, first:].logsumexp(-1) > logits[:, :first].amax(-1)
        logits[:, :first].masked_fill_(stamp_likelier[:, None], -torch.inf)
        return logits
