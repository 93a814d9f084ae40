"""fill-mask pipeline: the most likely tokens for a masked position.

Time [MASK] like an arrow.   ──>   flies 0.41 · goes 0.07 · …
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from glassformer.errors import ConfigError, DataError
from glassformer.files import safe_repr
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import Filling, Results

TOP_K = 5


class FillMask(Pipeline):
    """The most likely tokens for each masked position of a text.

    top_k: how many, 5 unless said · targets: only these words; their probabilities stay those among all words

    One masked place gives a list of results, several give a list of lists, in the order of the places. The places are
    filled each for itself, the others still masked. A word that is no token of the vocabulary stands for its first
    piece, with a warning.
    """

    HEAD = "fill-mask"
    WHY = (
        "a decoder reads from left to right, so at a gap it has not seen what comes after it; a gap is filled by an "
        "encoder, such as BERT or RoBERTa; a decoder continues the text before the gap: 'text-generation'"
    )

    OWN = ("top_k", "targets")

    def check(self, options: Mapping[str, Any]) -> None:
        super().check(options)
        targets = options.get("targets")
        words = [targets] if isinstance(targets, str) else targets
        if words is not None and not (
            isinstance(words, (list, tuple)) and words and all(isinstance(w, str) and w for w in words)
        ):
            raise ConfigError(f"targets is {safe_repr(targets)}; it must be a word, or a list of words")

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        tokenizer = self.model.tokenizer
        mask = tokenizer.mask_token_id
        if mask is None:
            raise ConfigError(
                "this tokenizer has no mask token, so no gap can be marked; look at its special_tokens_map.json"
            )
        encoded = tokenizer(batch, padding=len(batch) > 1, return_tensors="pt")
        ids = encoded["input_ids"]
        limit = self.model.network.max_tokens
        if limit is not None and ids.shape[1] > limit:
            raise DataError(
                f"the text has {ids.shape[1]} tokens, and the model reads {limit}; shorten it around the gap"
            )
        missing = (ids == mask).sum(dim=1).eq(0)
        if bool(missing.any()):
            text = batch[int(missing.long().argmax())]
            raise DataError(
                f"the text {safe_repr(text)} has no gap; mark one by {tokenizer.mask_token}: "
                f"'Time flies like an {tokenizer.mask_token}.'"
            )
        with torch.inference_mode():
            output = self.model(**{name: x.to(self.model.device) for name, x in encoded.items()})
        assert output.logits is not None  # its head is that of a masked language model
        targets = self._ids(options.get("targets"))
        top_k = options.get("top_k") or TOP_K
        answers = []
        for row, logits, keep in zip(ids, output.logits, encoded["attention_mask"], strict=True):
            places = (row == mask).nonzero()[:, 0]
            probs = logits[places.to(logits.device)].float().softmax(-1).cpu()  # [gaps, V]
            shown_ids, alone = row[keep == 1], len(places) == 1  # a pad may stand on the left
            candidates = [
                self._best(shown_ids, int(place - keep.argmax()), share, targets, top_k, alone=alone)
                for place, share in zip(places, probs, strict=True)
            ]
            answers.append(candidates[0] if len(candidates) == 1 else Results(candidates))
        return answers

    def _best(
        self,
        ids: torch.Tensor,
        place: int,
        probs: torch.Tensor,
        targets: torch.Tensor | None,
        top_k: int,
        *,
        alone: bool,
    ) -> Results[Filling]:
        """The most likely tokens for one position. ids: [T], without padding · probs: [V] · targets: [targets]"""
        tokenizer = self.model.tokenizer
        shares = probs if targets is None else probs[targets]
        best = shares.topk(min(top_k, len(shares)))
        chosen = best.indices if targets is None else targets[best.indices]
        candidates = Results[Filling]()
        for score, token in zip(best.values.tolist(), chosen.tolist(), strict=True):
            filled = ids.clone()
            filled[place] = token
            # The text as one reads it; beside another gap, which is a special token, all of them.
            sequence = tokenizer.decode(filled, skip_special_tokens=alone)
            candidates.append(Filling(score, token, tokenizer.decode([token]), sequence))
        return candidates

    def _ids(self, targets: str | Sequence[str] | None) -> torch.Tensor | None:
        """The tokens of the words that are allowed. [targets]"""
        if targets is None:
            return None
        tokenizer = self.model.tokenizer
        candidates: dict[int, None] = {}
        for word in [targets] if isinstance(targets, str) else targets:
            number = tokenizer.engine.token_to_id(word)
            if number is None:
                pieces = tokenizer.encode(word, add_special_tokens=False)
                if not pieces:
                    raise DataError(f"the target {safe_repr(word)} is no word that this tokenizer knows; leave it out")
                number = pieces[0]
                warnings.warn(
                    f"the target {safe_repr(word)} is no token of the vocabulary; its first piece "
                    f"{tokenizer.convert_ids_to_tokens(number)!r} stands for it",
                    stacklevel=2,
                )
            candidates[number] = None
        return torch.tensor(list(candidates))
