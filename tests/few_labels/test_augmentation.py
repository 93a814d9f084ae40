"""Changed copies of texts: what each kind of change may do, seeds, and labels that stay."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from glassformer.errors import ConfigError
from glassformer.few_labels import Setting, make_method
from glassformer.few_labels.augmentation import Augmented, delete, in_context, insert, swap, with_synonyms
from glassformer.model import load
from glassformer.tasks.masked import FillMask
from tests.few_labels.samples import encoder, one_label, setting
from tests.few_labels.test_zero_shot import masked

__all__ = ["encoder", "masked", "setting"]

WORDS = "the screen stays black today".split()


@pytest.mark.parametrize("seed", range(20))
def test_changes_alter_what_they_say(seed: int) -> None:
    draw = np.random.default_rng(seed)
    assert not Counter(delete(WORDS, 2, draw)) - Counter(WORDS) and len(delete(WORDS, 2, draw)) == 3
    assert delete(["alone"], 1, draw) == ["alone"] == swap(["alone"], 1, draw)
    swapped = swap(WORDS, 1, draw)
    assert sorted(swapped) == sorted(WORDS) and sum(a != b for a, b in zip(swapped, WORDS, strict=True)) == 2
    longer = insert(WORDS, 2, draw)
    assert len(longer) == 7 and set(longer) == set(WORDS) and not Counter(WORDS) - Counter(longer)
    changed = with_synonyms(["The", *WORDS[1:]], 3, draw, {"screen": ["display", "monitor"], "the": ["a"]})
    assert changed[0] == "a" and changed[1] in ("display", "monitor") and changed[2:] == WORDS[2:]
    assert with_synonyms(WORDS, 3, draw, {}) == WORDS


def test_a_masked_model_replaces_words(masked: str) -> None:
    fill = FillMask(load(masked, task="fill-mask"), "fill-mask")
    words = ["time", "flies", "like", "an"]
    changed = in_context(words, 2, np.random.default_rng(0), fill)
    assert len(changed) == 4 and 1 <= sum(a != b for a, b in zip(changed, words, strict=True)) <= 2


def test_copies_have_the_labels_of_their_texts_and_depend_on_the_seed(setting: Setting) -> None:
    labelled = one_label(12)

    def copies(seed: int) -> list[str]:
        method = make_method("augmented", setting.seeded(seed), copies=3, rate=0.3)
        assert isinstance(method, Augmented)
        made = method.augmented(labelled)
        assert list(made.texts[:12]) == list(labelled.texts) and 12 < len(made) <= 48
        # swapping and inserting leave the word that decides, which deleting may take away
        for text, label in zip(made.texts, made.labels, strict=True):
            assert not ({"time", "fruit"} - {label}) & set(text.split())
        return list(made.texts)

    assert copies(0) == copies(0) != copies(1)


def test_synonyms_need_a_table(setting: Setting) -> None:
    with pytest.raises(ConfigError, match="synonym without a table: give synonyms"):
        make_method("augmented", setting, changes=["synonym"])
