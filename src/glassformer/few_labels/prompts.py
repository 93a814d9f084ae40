"""Fill-mask prompts: a masked language model fills the gap of a sentence about the text with the word of a label.

    i miss him so much. It was about [MASK].        sadness 0.012    joy 0.001    …        their shares are the scores

The word of a label is one piece of the vocabulary; of a longer one the first piece would stand for many others, so it
is refused, and `words` names another one.
Source: Schick and Schütze 2021, "Exploiting Cloze Questions for Few Shot Text Classification and Natural Language
Inference".
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from glassformer.errors import ConfigError
from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files import counted, safe_repr
from glassformer.files.schema import Allowed, Count, Doc, Schema
from glassformer.tasks.masked import FillMask

BATCH = 16
Prompted = Annotated[
    str,
    Allowed(
        "a text with one {text} and one {mask}",
        lambda x: x.count("{text}") == x.count("{mask}") == 1 and x.count("{") == 2,
    ),
]


@dataclass(frozen=True, kw_only=True)
class MaskPromptOptions(Schema):
    """The sentence, and the words of labels."""

    template: Annotated[Prompted, Doc("Sentence around the text and the gap.")] = "{text} It was about {mask}."
    words: Annotated[Mapping[str, str], Doc("Word for a label in the gap, label=word. Default: its name.")] = field(
        default_factory=dict
    )
    top_k: Annotated[Count, Doc("Of several labels: how many each text gets.")] = 1


class MaskPrompts(Method[MaskPromptOptions]):
    """The word of a label in the gap of a sentence."""

    OPTIONS = MaskPromptOptions
    NEEDS = ("masked",)

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        self._model = self.setting.loaded_for("masked", "fill-mask")
        self._pipeline = FillMask(self._model, "fill-mask")
        words = {name: self.options.words.get(name, name) for name in labelled.kind.names}
        pieces = {name: self._piece(word) for name, word in words.items()}
        if lacking := [name for name, piece in pieces.items() if piece is None]:
            named = ", ".join(f"{safe_repr(name)} ({safe_repr(words[name])})" for name in lacking)
            raise ConfigError(
                f"the words of {counted(len(lacking), 'label')} are several pieces of the vocabulary, or unknown: "
                f"{named}; name words that are a single piece: {self._command(lacking)}"
            )
        self._words = [str(piece) for piece in pieces.values()]
        if again := [name for name, piece in pieces.items() if self._words.count(str(piece)) > 1]:
            raise ConfigError(
                f"two labels have one word: {', '.join(self._words)}; name others: {self._command(again)}"
            )
        self.top_k = self.options.top_k
        return None

    def _piece(self, word: str) -> str | None:
        """The piece of the vocabulary that a word is; None = it is several, or unknown."""
        tokenizer = self._model.tokenizer
        for spelled in (f" {word}", word):  # vocabularies such as GPT-2's mark the beginning of a word by a space
            ids = tokenizer(spelled, add_special_tokens=False)["input_ids"]
            if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
                return str(tokenizer.convert_ids_to_tokens(ids)[0])
        return None

    def _command(self, labels: Sequence[str]) -> str:
        """How to name other words for labels, at the command line."""
        words = json.dumps({**self.options.words, **dict.fromkeys(labels, "WORD")}, ensure_ascii=False)
        return (
            f"--set {shlex.quote(f'{self.name}.words={words}')} of few-labels, "
            f"--set {shlex.quote(f'method.options.words={words}')} of train, or words= in Python"
        )

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        mask = str(self._model.tokenizer.mask_token)
        around = self.options.template.replace("{mask}", mask)
        prompts = [around.replace("{text}", self._shortened(text.replace(mask, " "))) for text in texts]
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))  # a batch of like lengths has little padding
        tokenizer, count = self._model.tokenizer, len(self._words)
        size = 1 if tokenizer.pad_token_id is None else BATCH
        answers = self._pipeline([prompts[i] for i in order], targets=self._words, top_k=count, batch_size=size)
        numbers = tokenizer.convert_tokens_to_ids(self._words)
        values = np.zeros((len(texts), count))
        for i, fillings in zip(order, answers, strict=True):
            scores = {x.token: x.score for x in fillings}
            values[i] = [scores[number] for number in numbers]
        return np.asarray(values / np.maximum(values.sum(1, keepdims=True), 1e-30))

    def _shortened(self, text: str) -> str:
        """The text without what would be cut together with the gap behind it."""
        tokenizer = self._model.tokenizer
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        around = len(tokenizer(self.options.template)["input_ids"])
        room = self.setting.tokens_of(self._model) - around
        return text if len(ids) <= room else str(tokenizer.decode(ids[: max(room, 1)]))
