"""Methods that read names of labels, against the numbers of the pipelines and the network that they use."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors

from glassformer import Model, load
from glassformer.cli.options import value_of
from glassformer.errors import ConfigError, WeightsError
from glassformer.few_labels import LabelledTexts, Setting, make_method
from glassformer.studies.options import FewLabelsOptions
from glassformer.tasks import pipeline
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.state import seed_all
from tests.e2e.tiny_models import WORDS, word_tokenizer
from tests.training.tiny import BERT

NAMES = LabelledTexts.names_only(["time", "fruit", "banana"])
SEVERAL = LabelledTexts.names_only(["time", "fruit", "banana"], several=True)
TEXTS = ["like an arrow", "flies like a banana"]


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A masked language model with new weights."""
    folder = tmp_path_factory.mktemp("masked")
    engine = word_tokenizer(words=[*WORDS, "[MASK]"])
    engine.add_special_tokens(["[MASK]"])
    engine.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"mask_token": "[MASK]"}')
    seed_all(1)
    tokenizer = Tokenizer.find(folder, model_type="bert")
    model = Model.from_config({**BERT, "vocab_size": len(WORDS) + 1}, task="fill-mask", tokenizer=tokenizer)
    model.save_pretrained(folder / "model")
    return str(folder / "model")


@pytest.fixture(scope="module")
def inference(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of natural language inference with new weights."""
    folder = tmp_path_factory.mktemp("inference")
    engine = word_tokenizer()
    engine.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    engine.save(str(folder / "tokenizer.json"))
    seed_all(2)
    labels = {str(i): name for i, name in enumerate(["entailment", "neutral", "contradiction"])}
    config = {**BERT, "id2label": labels, "num_labels": 3}
    tokenizer = Tokenizer.find(folder, model_type="bert")
    Model.from_config(config, task="text-classification", tokenizer=tokenizer).save_pretrained(folder / "model")
    return str(folder / "model")


def setting_with(folder: Path | str, **models: str) -> Setting:
    return Setting(model=str(folder), models=models)


def test_entailment_scores_are_those_of_the_pipeline(inference: str) -> None:
    setting = setting_with(inference, entailment=inference)
    zero_shot = pipeline("zero-shot-classification", load(inference, task="text-classification"))
    for names, several in ((NAMES, False), (SEVERAL, True)):
        method = make_method("entailment", setting, template="a {} .").fit(names)
        scores = method.scores(TEXTS)
        for text, row in zip(TEXTS, scores, strict=True):
            expected = zero_shot(
                text, candidate_labels=list(names.kind.names), hypothesis_template="a {} .", multi_label=several
            )
            by_label = dict(zip(expected["labels"], expected["scores"], strict=True))
            assert row.tolist() == pytest.approx([by_label[name] for name in names.kind.names], abs=1e-6)
    assert [len(x) for x in method.predict(TEXTS)] == [1, 1]
    assert method.predict(TEXTS) == [[SEVERAL.kind.names[i]] for i in scores.argmax(1)]


def test_a_method_without_its_model_says_which(inference: str) -> None:
    with pytest.raises(ConfigError, match="a model for 'entailment' is needed, and none is named"):
        make_method("entailment", Setting(model=inference)).fit(NAMES)


def test_prompts_score_the_words_of_labels_in_the_gap(masked: str) -> None:
    method = make_method("prompts", setting_with(masked, masked=masked), template="{text} . a {mask}").fit(NAMES)
    model = load(masked, task="fill-mask")
    for text, row in zip(TEXTS, method.scores(TEXTS), strict=True):
        batch = model.tokenizer(f"{text} . a [MASK]", return_tensors="pt")
        with torch.inference_mode():
            logits = model(**batch).logits[0]
        place = batch["input_ids"][0].tolist().index(WORDS.index(".") + 1)
        words = [WORDS.index(name) for name in NAMES.kind.names]
        assert row.tolist() == pytest.approx(logits[place, words].softmax(-1).tolist(), abs=1e-6)


def test_an_encoder_without_a_trained_head_is_refused(masked: str, tmp_path: Path) -> None:
    load(masked, task="feature-extraction").save_pretrained(tmp_path / "body")
    method = make_method("prompts", setting_with(masked, masked=str(tmp_path / "body")))
    with pytest.raises(WeightsError, match="holds no head for 'fill-mask', so its predictions would be random"):
        method.fit(NAMES)


def test_words_that_are_no_single_piece_are_refused(masked: str) -> None:
    setting = setting_with(masked, masked=masked)
    odd = LabelledTexts.names_only(["time", "like an"])
    with pytest.raises(ConfigError, match="of 1 label are several pieces of the vocabulary") as refused:
        make_method("prompts", setting).fit(odd)
    study, training = (shlex.split(x) for x in re.findall(r"--set '.*?}'", str(refused.value)))
    assert study == ["--set", 'prompts.words={"like an": "WORD"}']
    options = FewLabelsOptions(settings={"prompts.words": value_of(study[1].partition("=")[2])})
    values: dict[str, Any] = {"few_labels": {"methods": ["prompts"]}}
    options.apply(values, {})
    assert values["few_labels"]["methods"]["prompts"]["options"] == {"words": {"like an": "WORD"}}
    assert training == ["--set", 'method.options.words={"like an": "WORD"}']
    with pytest.raises(ConfigError, match="two labels have one word"):
        make_method("prompts", setting, words={"like an": "time"}).fit(odd)
    assert make_method("prompts", setting, words={"like an": "fruit"}).fit(odd).scores(TEXTS).shape == (2, 2)
    with pytest.raises(ConfigError, match=r"prompts.template is 'a {mask}'; it must be a text with one {text} and one"):
        make_method("prompts", setting, template="a {mask}")


def test_a_gap_in_a_text_is_no_gap_of_the_prompt(masked: str) -> None:
    method = make_method("prompts", setting_with(masked, masked=masked), template="{text} . a {mask}").fit(NAMES)
    assert np.allclose(method.scores(["time [MASK] flies", TEXTS[0]]), method.scores(["time flies", TEXTS[0]]))


def test_entailment_reads_no_more_tokens_than_the_setting_says(inference: str) -> None:
    setting = Setting(model=inference, models={"entailment": inference}, max_tokens=12)
    method = make_method("entailment", setting, template="a {} .").fit(NAMES)
    with pytest.warns(UserWarning, match="3 of 6 texts were cut to 12 tokens"):
        cut = method.scores(["time flies " * 6, "time flies " * 2])
    whole = make_method("entailment", setting_with(inference, entailment=inference), template="a {} .").fit(NAMES)
    assert np.allclose(whole.scores(["time flies " * 2]), cut[1:], atol=1e-6)


def test_a_long_text_keeps_the_gap(masked: str) -> None:
    method = make_method("prompts", setting_with(masked, masked=masked)).fit(NAMES)
    assert np.isfinite(method.scores(["time flies " * 500])).all()
