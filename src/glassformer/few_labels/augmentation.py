"""Data augmentation: changed copies of labelled texts, which keep their labels, before another method learns.

    delete      the screen stays black    →  the screen black
    swap                                  →  the stays screen black
    insert                                →  the screen stays black screen        another word of the text
    synonym                               →  the display stays black              by a table: word → words
    context                               →  the picture stays black              by a masked language model
    translate                             →  the display remains black            there and back (back_translation.py)

Source: Wei and Zou 2019, "EDA: Easy Data Augmentation Techniques for Boosting Performance on Text Classification
Tasks"; context: Kobayashi 2018, "Contextual Augmentation".
Differs: EDA inserts a synonym; without a table for the language an inserted word is another one of the same text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np

from glassformer.errors import ConfigError
from glassformer.few_labels.back_translation import BackTranslation
from glassformer.few_labels.method import Method, Setting, find_method, make_method, out_of_fold
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files.schema import BelowOne, Count, Doc, Positive, Schema
from glassformer.reports.table import Table
from glassformer.tasks.classify.scorer import TextScorer
from glassformer.tasks.classify.task import Classify
from glassformer.tasks.masked import FillMask

Change = Literal["delete", "swap", "insert", "synonym", "context", "translate"]
Words = list[str]
ROLES: dict[str, tuple[str, ...]] = {"context": ("masked",), "translate": ("there", "back")}
"""Change → the roles of the models that make it."""


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(Schema):
    """How texts are changed."""

    changes: Annotated[Sequence[Change], Doc("Kinds of change, one of which each copy has.")] = (
        "delete", "swap", "insert",
    )  # fmt: skip
    rate: Annotated[BelowOne, Doc("Share of the words that change, at least one.")] = 0.1
    synonyms: Annotated[Mapping[str, Sequence[str]], Doc("Word → words of the same meaning.")] = field(
        default_factory=dict
    )
    translation_temperature: Annotated[Positive, Doc("Of translate: higher draws rarer words.")] = 0.9

    def validate(self) -> None:
        if not self.changes or ("synonym" in self.changes and not self.synonyms):
            raise ConfigError("changes names none, or synonym without a table: give synonyms, word → words")

    @property
    def roles(self) -> set[str]:
        """The roles of the models that make these changes."""
        return {role for change in self.changes for role in ROLES.get(change, ())}


@dataclass(frozen=True, kw_only=True)
class AugmentationOptions(ChangeOptions):
    """How texts are changed, and what learns from them."""

    method: Annotated[str, Doc("Method that learns from the texts and their copies.")] = "naive-bayes"
    options: Annotated[dict[str, Any], Doc("Options of that method.")] = field(default_factory=dict)
    copies: Annotated[Count, Doc("Copies of each text.")] = 4


class Augmented(Method[AugmentationOptions]):
    """Another method, on labelled texts and changed copies of them."""

    OPTIONS = AugmentationOptions

    def __init__(self, options: AugmentationOptions, setting: Setting) -> None:
        super().__init__(options, setting)
        self._copies = ChangedCopies(options, setting)

    @classmethod
    def brief(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        inner = find_method(options.get("method", AugmentationOptions.method))
        return {**options, "options": inner.brief(options.get("options", {}))}

    def _made(self) -> Method[Any]:
        """The method that learns, not fitted yet."""
        return make_method(self.options.method, self.setting, **self.options.options)

    @property
    def roles(self) -> set[str]:
        return self.options.roles | self._made().roles

    @property
    def needs_encoder(self) -> bool:
        return self._made().needs_encoder

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        def fitted(part: LabelledTexts) -> Method[Any]:
            return self._made().fit(self.augmented(part), unlabelled)

        self._inner = fitted(labelled)
        if not labelled.several:
            return None
        # Copies of a text that is left out must not be learned from, so the folds are made before the copies.
        return out_of_fold(labelled, self.setting.seed, lambda part, texts: fitted(part).scores(texts))

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return self._inner.scores(texts)

    def saved(self) -> Classify | TextScorer:
        saved = self._inner.saved()
        if isinstance(saved, TextScorer):
            return replace(saved, method=self.name, thresholds=self.thresholds)
        return saved

    def tables(self) -> list[Table]:
        """Those of the method that learns, and what translators did."""
        return [*self._inner.tables(), *self._copies.tables()]

    def augmented(self, labelled: LabelledTexts) -> LabelledTexts:
        """The texts and their copies; a copy that is no other text is left out."""
        source = [i for i in range(len(labelled)) for _ in range(self.options.copies)]
        copies = self._copies.of([labelled.texts[i] for i in source], np.random.default_rng(self.setting.seed))
        made = [(text, i) for text, i in zip(copies, source, strict=True) if text != labelled.texts[i]]
        if not made:
            return labelled
        texts, rows = [text for text, _ in made], labelled.holds[[i for _, i in made]]
        return labelled.joined(LabelledTexts(texts, rows, labelled.kind))


class ChangedCopies:
    """Changed copies of texts; models that change them are loaded when first used."""

    def __init__(self, options: ChangeOptions, setting: Setting) -> None:
        self.options, self.setting = options, setting

    def of(self, texts: Sequence[str], draw: np.random.Generator) -> list[str]:
        """One copy of each text, changed in one of the ways; a text that cannot be changed is copied as it is."""
        names = [self.options.changes[int(i)] for i in draw.integers(len(self.options.changes), size=len(texts))]
        abroad = [text for text, name in zip(texts, names, strict=True) if name == "translate"]
        returned = iter(self._translator(abroad, draw) if abroad else ())  # together: one text at a time takes longer
        return [
            next(returned) if name == "translate" else self._changed(text, name, draw) or text
            for text, name in zip(texts, names, strict=True)
        ]

    def tables(self) -> list[Table]:
        """What became of texts that were translated."""
        return self._translator.tables() if "_translator" in vars(self) else []

    def _changed(self, text: str, name: Change, draw: np.random.Generator) -> str:
        words = text.split()
        count = max(1, round(self.options.rate * len(words)))
        if name == "synonym":
            return " ".join(with_synonyms(words, count, draw, self.options.synonyms))
        if name == "context":
            return " ".join(in_context(words, count, draw, self._filler))
        return " ".join({"delete": delete, "swap": swap, "insert": insert}[name](words, count, draw))

    @cached_property
    def _translator(self) -> BackTranslation:
        return BackTranslation(self.setting, self.options.translation_temperature)

    @cached_property
    def _filler(self) -> FillMask:
        return FillMask(self.setting.loaded_for("masked", "fill-mask"), "fill-mask")


def delete(words: Words, count: int, draw: np.random.Generator) -> Words:
    """The words without some of them; one at least remains."""
    gone = set(draw.choice(len(words), min(count, len(words) - 1), replace=False).tolist())
    return [word for i, word in enumerate(words) if i not in gone]


def swap(words: Words, count: int, draw: np.random.Generator) -> Words:
    """The words with neighbours exchanged."""
    changed = list(words)
    for _ in range(count if len(words) > 1 else 0):
        i = int(draw.integers(len(words) - 1))
        changed[i], changed[i + 1] = changed[i + 1], changed[i]
    return changed


def insert(words: Words, count: int, draw: np.random.Generator) -> Words:
    """The words with some of them once more, elsewhere."""
    changed = list(words)
    for word in draw.choice(words, count).tolist():
        changed.insert(int(draw.integers(len(changed) + 1)), word)
    return changed


def with_synonyms(words: Words, count: int, draw: np.random.Generator, table: Mapping[str, Sequence[str]]) -> Words:
    """The words with some of those that the table has replaced."""
    changed, known = list(words), [i for i, word in enumerate(words) if table.get(word.lower())]
    for i in draw.permutation(known)[:count] if known else ():
        changed[i] = str(draw.choice(list(table[words[i].lower()])))
    return changed


def in_context(words: Words, count: int, draw: np.random.Generator, fill: FillMask) -> Words:
    """The words with some replaced by what a masked language model puts there."""
    changed, mask = list(words), str(fill.model.tokenizer.mask_token)
    limit = fill.model.network.max_tokens
    for i in draw.choice(len(words), min(count, len(words)), replace=False).tolist():
        gap = " ".join([*changed[:i], mask, *changed[i + 1 :]])
        if limit is not None and len(fill.model.tokenizer(gap)["input_ids"]) > limit:
            break  # too long for the model: the text stays as it is
        answers = [x for x in fill(gap) if x.token_str.strip() and x.token_str.strip() != words[i].lower()]
        if answers:
            shares = np.array([x.score for x in answers])
            changed[i] = answers[int(draw.choice(len(answers), p=shares / shares.sum()))].token_str.strip()
    return changed
