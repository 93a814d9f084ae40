"""In-context classification: probabilities against those of the decoder, the prompt, and calibration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from glassformer import Model, load
from glassformer.errors import ConfigError, DataError
from glassformer.few_labels import LabelledTexts, Setting, make_method
from glassformer.few_labels.in_context import InContext, balanced_order
from glassformer.text.tokenizer import Tokenizer
from glassformer.training.state import seed_all
from tests.e2e.tiny_models import WORDS, word_tokenizer
from tests.training.tiny import GPT2, STILL_GPT2

LABELLED = LabelledTexts.of(["an arrow", "a banana", "flies", "like a banana"], ["time", "fruit", "time", "fruit"])
TEMPLATE = "{text} . {label}"


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A decoder of the words of these texts, with new weights."""
    folder = tmp_path_factory.mktemp("decoder")
    word_tokenizer().save(str(folder / "tokenizer.json"))
    seed_all(3)
    config = {**GPT2, **STILL_GPT2, "vocab_size": len(WORDS), "n_positions": 64}
    tokenizer = Tokenizer.find(folder, model_type="gpt2")
    model = Model.from_config(config, task="text-generation", tokenizer=tokenizer)
    model.save_pretrained(folder / "model")
    return str(folder / "model")


def method_of(decoder: str, **options: object) -> InContext:
    method = make_method(
        "in-context", Setting(model=decoder, models={"decoder": decoder}), template=TEMPLATE, **options
    )
    assert isinstance(method, InContext)
    return method


def test_scores_are_the_mean_log_probabilities_of_the_tokens_of_labels(decoder: str) -> None:
    several_pieces = LabelledTexts.of(LABELLED.texts, ["time flies", "fruit", "time flies", "fruit"])
    method = method_of(decoder, calibration="none", shots=2, between=" ").fit(several_pieces)
    model = load(decoder, task="text-generation")
    words = {word: i for i, word in enumerate(WORDS)}
    shown = method._demonstrations
    logs = []
    for label in method.kind.names:
        prompt = [words["[CLS]"], *shown, *(words[x] for x in "like an arrow .".split())]
        own = [words[x] for x in label.split()]
        with torch.inference_mode():
            logits = model(input_ids=torch.tensor([[*prompt, *own]])).logits[0].log_softmax(-1)
        logs.append(np.mean([float(logits[len(prompt) + i - 1, x]) for i, x in enumerate(own)]))
    expected = np.exp(logs) / np.exp(logs).sum()
    assert method.scores(["like an arrow"])[0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_the_prompt_has_labelled_texts_of_each_label_and_fits(decoder: str) -> None:
    method = method_of(decoder, shots=2).fit(LABELLED)
    assert method._shown == [1, 1]
    crowded = method_of(decoder, shots=200).fit(LabelledTexts.of(["an arrow"] * 40, ["time", "fruit"] * 20))
    assert abs(crowded._shown[0] - crowded._shown[1]) <= 1 and 4 <= sum(crowded._shown) < 40
    long = " ".join(["banana"] * 500)
    scores = crowded.scores([long, "an arrow"])
    assert np.isfinite(scores).all()
    prompt = [*crowded._start, *crowded._demonstrations, *crowded._prompted(long)]
    assert len(prompt) + max(map(len, crowded._labels)) <= 64
    same = method_of(decoder, shots=200).fit(LabelledTexts.of(["an arrow"] * 40, ["time", "fruit"] * 20))
    assert same._demonstrations == crowded._demonstrations


def test_texts_are_cut_as_for_other_methods(decoder: str) -> None:
    setting = Setting(model=decoder, models={"decoder": decoder}, max_tokens=3)
    method = make_method("in-context", setting, template=TEMPLATE, shots=2, between=" ")
    assert isinstance(method, InContext)
    method.fit(LabelledTexts.of(["like an arrow flies an arrow", "a banana"], ["time", "fruit"]))
    longest = 3 + len(method._after) + 1  # text, what is after it, label
    assert method._prompted("time flies like an arrow") == method._prompted("time flies like")
    assert len(method._demonstrations) <= longest + len(method._prompted("a banana")) + 1


def test_calibration_divides_by_what_texts_that_say_nothing_get(decoder: str) -> None:
    plain, calibrated = (method_of(decoder, calibration=x).fit(LABELLED) for x in ("none", "contextual"))
    prior = plain.scores(["N/A", "[MASK]", ""]).mean(0)
    assert abs(prior[0] - 0.5) > 1e-4 and calibrated._prior.tolist() == pytest.approx(prior.tolist())
    shares = plain.scores(["a banana"])[0] / prior
    assert calibrated.scores(["a banana"])[0].tolist() == pytest.approx((shares / shares.sum()).tolist())


def test_several_labels_get_the_first_ones(decoder: str) -> None:
    several = LabelledTexts.of(LABELLED.texts, [["time"], ["fruit", "banana"], [], ["fruit"]])
    method = method_of(decoder, top_k=2).fit(several)
    assert [len(x) for x in method.predict(["an arrow", "a banana"])] == [2, 2]
    assert sum(map(int, (row[1] for row in method.tables()[0].rows))) == 4  # one of them twice, one without a label


def test_rows_take_turns_by_label() -> None:
    holds = np.eye(3, dtype=bool)[[0, 0, 0, 0, 1, 1, 2]]
    order = balanced_order(holds, np.random.default_rng(0))
    assert sorted(order) == [*range(7)] and {int(holds[i].argmax()) for i in order[:3]} == {0, 1, 2}
    assert [int(holds[i].argmax()) for i in order[5:]] == [0, 0]


def test_what_cannot_be_a_prompt_is_refused(decoder: str) -> None:
    with pytest.raises(ConfigError, match=r"in-context.template is 'a {text}'; it must be a text with one {text} and"):
        make_method("in-context", Setting(model=decoder), template="a {text}")
    with pytest.raises(ConfigError, match="a model for 'decoder' is needed"):
        make_method("in-context", Setting(model=decoder)).fit(LABELLED)
    with pytest.raises(DataError, match=r"have 4. tokens, and the decoder takes 64; give a shorter template"):
        make_method(
            "in-context", Setting(model="", models={"decoder": decoder}), template="a " * 40 + "{text} . {label}"
        ).fit(LABELLED)
