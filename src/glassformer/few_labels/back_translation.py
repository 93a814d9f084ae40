"""Back-translation: a text is translated into another language and back, which says the same in other words.

    the screen stays black  ──there──>  der Bildschirm bleibt schwarz  ──back──>  the display remains black

Translators are any two encoder-decoders, such as two trained by `examples/multi30k.yaml`. Words are drawn at random, so
that copies of one text differ. What a translator leaves empty or as it was is counted, and the text stays as it is.
Source: Sennrich et al. 2016, "Improving Neural Machine Translation Models with Monolingual Data"; as augmentation: Xie
et al. 2020, "Unsupervised Data Augmentation for Consistency Training", section 2.2.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from glassformer.few_labels.method import Setting
from glassformer.files import counted
from glassformer.reports.table import Table
from glassformer.tasks.generate.pipeline import TranslationPipeline

BATCH = 16


@dataclass
class TranslationCounts:
    """What became of texts.

    other: came back in other words
    same: came back as they were
    nothing: a translator gave no word for them
    long: have more tokens than a translator takes, and were not translated
    """

    other: int = 0
    same: int = 0
    nothing: int = 0
    long: int = 0


class BackTranslation:
    """Translates texts there and back.

    Args:
        temperature: of drawing words; near 0 always the most likely one
    Raises: ConfigError: no translators are named.
    """

    def __init__(self, setting: Setting, temperature: float) -> None:
        self.there, self.back = (
            TranslationPipeline(setting.loaded_for(role, "translation"), "translation") for role in ("there", "back")
        )
        self.temperature, self.counts = temperature, TranslationCounts()

    def __call__(self, texts: Sequence[str], draw: np.random.Generator) -> list[str]:
        """Each text in other words, where there are some."""
        changed = list(texts)
        abroad = self._translated(self.there, dict(enumerate(texts)), draw)
        for i, text in self._translated(self.back, abroad, draw).items():
            if text.split() == texts[i].split():
                self.counts.same += 1
            else:
                self.counts.other += 1
                changed[i] = text
        if texts and changed == list(texts):
            warnings.warn(
                f"back-translation changed none of {counted(len(texts), 'text')}: the translators gave nothing, or the "
                "same again, so there are no copies to learn from; try the translators: glassformer predict translate",
                stacklevel=2,
            )
        return changed

    def _translated(
        self, translator: TranslationPipeline, texts: dict[int, str], draw: np.random.Generator
    ) -> dict[int, str]:
        """The translations that there are."""
        room = translator.model.network.max_tokens
        short = {
            i: x for i, x in texts.items() if room is None or len(translator.model.tokenizer(x)["input_ids"]) <= room
        }
        if not short:
            self.counts.long += len(texts)
            return {}
        with torch.random.fork_rng():
            torch.manual_seed(int(draw.integers(2**32)))
            answers = translator.texts(
                list(short.values()), batch_size=BATCH, do_sample=True, num_beams=1, temperature=self.temperature
            )
        made = {i: answer.strip() for i, answer in zip(short, answers, strict=True) if answer.strip()}
        self.counts.long += len(texts) - len(short)
        self.counts.nothing += len(short) - len(made)
        return made

    def tables(self) -> list[Table]:
        """What became of texts."""
        counts = self.counts
        rows = [
            ["came back in other words", str(counts.other)],
            ["came back as they were", str(counts.same)],
            ["a translator gave no word", str(counts.nothing)],
            ["too long for a translator", str(counts.long)],
        ]
        return [Table(["back-translation", "texts"], rows, folded=True)]
