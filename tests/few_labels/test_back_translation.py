"""Back-translation: what comes back, what does not, and seeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from glassformer import Model
from glassformer.errors import ConfigError
from glassformer.few_labels import Setting, make_method
from glassformer.few_labels.augmentation import Augmented
from glassformer.few_labels.back_translation import BackTranslation
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.state import seed_all
from tests.e2e.tiny_models import PAIR, WORDS, word_tokenizer
from tests.few_labels.samples import encoder, one_label, setting

__all__ = ["encoder", "setting"]

TEXTS = ["time flies", "an arrow", "a banana", "fruit flies like an arrow"]


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An encoder-decoder with new weights."""
    folder = tmp_path_factory.mktemp("translator")
    word_tokenizer().save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"pad_token": "[PAD]", "eos_token": "[SEP]"}')
    seed_all(5)
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = {"model_type": "bart", "vocab_size": len(WORDS), **PAIR, **ids}
    tokenizer = Tokenizer.find(folder, model_type="bart")
    Model.from_config(config, task="translation", tokenizer=tokenizer).save_pretrained(folder / "model")
    return str(folder / "model")


class Fixed:
    """A translator with a table; it takes three words."""

    def __init__(self, table: dict[str, str]) -> None:
        self.table = table
        tokenizer = lambda text: {"input_ids": text.split()}  # noqa: E731
        self.model = SimpleNamespace(network=SimpleNamespace(max_tokens=3), tokenizer=tokenizer)

    def texts(self, texts: list[str], **options: Any) -> list[str]:
        return [self.table[text] for text in texts]


def test_nothing_and_the_same_are_counted(translator: str) -> None:
    both = BackTranslation(Setting(model="", models={"there": translator, "back": translator}), 0.9)
    both.there = Fixed({"time flies": "Zeit", "an arrow": " ", "a banana": "Banane"})  # type: ignore[assignment]
    both.back = Fixed({"Zeit": "time goes", "Banane": "a  banana"})  # type: ignore[assignment]
    assert both(TEXTS, np.random.default_rng(0)) == ["time goes", *TEXTS[1:]]
    assert vars(both.counts) == {"other": 1, "same": 1, "nothing": 1, "long": 1}
    assert [row[1] for row in both.tables()[0].rows] == ["1", "1", "1", "1"]


def test_translators_that_give_nothing_are_named(translator: str) -> None:
    both = BackTranslation(Setting(models={"there": translator, "back": translator}), 0.9)
    both.there = Fixed({"time flies": "", "an arrow": " "})  # type: ignore[assignment]
    with pytest.warns(UserWarning, match="changed none of 2 texts: the translators gave nothing, or the same again"):
        assert both(["time flies", "an arrow"], np.random.default_rng(0)) == ["time flies", "an arrow"]


def test_copies_are_translations_that_depend_on_the_seed(setting: Setting, translator: str) -> None:
    setting.models = {"there": translator, "back": translator}
    labelled = one_label(6)

    def copies(seed: int) -> list[str]:
        method = make_method("augmented", setting.seeded(seed), changes=["translate"], copies=2)
        assert isinstance(method, Augmented)
        made = method.augmented(labelled)
        counts = method._copies._translator.counts
        assert sum(vars(counts).values()) == 12 and len(made) == 6 + counts.other
        assert made.labels[:6] == labelled.labels
        return list(made.texts)

    assert copies(0) == copies(0) != copies(1)


def test_translators_are_needed(setting: Setting) -> None:
    with pytest.raises(ConfigError, match="a model for 'there' is needed, and none is named: models= there=FOLDER"):
        make_method("augmented", setting, changes=["translate"]).fit(one_label(6))
