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

    begin: prompt length · max_initial: of the first timestamp, in steps of 0.02 s; None = no limit
    """

    vocabulary: SpeechVocabulary
    begin: int
    max_initial: int | None = 50

    def __call__(self, ids: Tensor, logits: Tensor) -> Tensor:
        first, end = self.vocabulary.first_timestamp, self.vocabulary.end
        new = ids[:, self.begin :]
        banned = torch.zeros_like(logits, dtype=torch.bool)
        banned[:, self.vocabulary.no_timestamps] = True
        stamps = new >= first
        if new.shape[1] == 0:
            banned[:, :first] = True
            if self.max_initial is not None:
                banned[:, first + self.max_initial + 1 :] = True
        else:
            after_stamp = stamps[:, -1]
            pair_complete = stamps[:, -2] if new.shape[1] > 1 else torch.ones_like(after_stamp)
            columns = torch.arange(logits.shape[-1], device=logits.device)
            banned |= (after_stamp & pair_complete)[:, None] & (columns >= first)  # text follows a pair
            banned |= (after_stamp & ~pair_complete)[:, None] & (columns < end)  # no text between the two of a pair
            # A segment has a length: the timestamp that ends it is later than the one that begins it.
            latest = torch.where(stamps, new, first - 1).amax(dim=1)
            lowest = torch.where(after_stamp & ~pair_complete, latest, latest + 1)
            banned |= (columns >= first) & (columns < lowest[:, None])
        logits = logits.masked_fill(banned, -torch.inf)
        likely = logits.log_softmax(-1)
        stamp_likelier = likely[:, first:].logsumexp(-1) > likely[:, :first].amax(-1)
        text = torch.arange(logits.shape[-1], device=logits.device) < first
        return logits.masked_fill(stamp_likelier[:, None] & text, -torch.inf)
