"""Language models are evaluated by every character of a text, whatever its tokens are."""

from __future__ import annotations

import lzma
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from glassformer.core.flow import Batch, Flow
from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.evaluate import evaluate
from glassformer.model import Model
from glassformer.tasks.causal.baselines import Ngrams, compressed
from glassformer.tasks.causal.evaluation import STRETCH
from glassformer.tasks.causal.task import Answers, Causal
from glassformer.tasks.metrics.metric import intervals
from glassformer.text.train import train_tokenizer
from glassformer.training.state import seed_all

TEXT = "Once upon a time there was a little girl. She had a red ball, and a dog that ran after it. " * 40
SHORT = [
    "A cat sat on the mat.",
    "Où est-elle? 中文 🙂",
    "Fruit flies like a banana, time flies like an arrow.",
]


@pytest.fixture(scope="module")
def model() -> Model:
    """A fresh GPT-2 that reads 16 tokens."""
    seed_all(1)
    tokenizer = train_tokenizer([TEXT], size=300)
    config = {"model_type": "gpt2", "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16}
    whole = {**config, "vocab_size": tokenizer.largest_id + 1, "eos_token_id": tokenizer.eos_token_id}
    return Model.from_config(whole, task="text-generation", tokenizer=tokenizer)


def rows_of(texts: Sequence[str]) -> Any:
    return read_rows([{"text": text} for text in texts])


def test_a_fresh_model_is_undecided_among_its_vocabulary(model: Model) -> None:
    report = evaluate("generate", Causal(model).for_evaluation(), rows_of([TEXT]), resamples=10).report
    perplexity, size = report.metrics["perplexity"].value, model.network.vocabulary
    assert abs(perplexity / size - 1) < 0.2
    assert report.baselines["uniform"].metrics["perplexity"].value == pytest.approx(size)
    assert report.metric == "bits_per_character" and not report.higher


@pytest.mark.parametrize("isolated", [True, False])
def test_every_character_and_every_token_counts_once(model: Model, isolated: bool) -> None:
    texts = [TEXT, *SHORT]
    task = Causal(model, isolated=isolated).for_evaluation()
    records = list(task.predict(rows_of(texts)))
    assert sum(r.details["characters"] for r in records) == sum(map(len, texts))
    assert "".join(r.row["text"] for r in records) == "".join(texts)
    end = model.tokenizer.eos_token_id
    said = [number for record in records for number in record.details["ids"]]
    assert said == [i for text in texts for i in [*model.tokenizer.encode(text), end]]
    assert [r.index for r in records] == list(range(len(records)))
    assert sorted({r.details["row"] for r in records}) == list(range(len(texts)))
    assert "".join(r.row["text"] for r in records if r.details["row"] == 0) == TEXT
    assert dict(task.metrics(records).amounts) == {"characters": sum(map(len, texts))}
    assert all(0.7 * STRETCH < r.details["characters"] < 1.5 * STRETCH for r in records[: -len(SHORT)])
    assert "characters 0 to " in records[0].where and "characters" not in records[-1].where
    # Before the first token of a text that is alone nothing stands; of texts that see each other only the first is so.
    alone = sum(len(r.details["ids"]) - r.details["tokens"] for r in records)
    assert alone == (len(texts) if isolated else 1)


@pytest.mark.parametrize("step", [1, 5, 8, 15])
def test_windows_say_what_a_plain_loop_says(model: Model, step: int) -> None:
    task = Causal(model).for_evaluation(stride=16 - step)
    (record,) = task.predict(rows_of([SHORT[2]]))
    ids, head = torch.tensor(record.details["ids"]), math.log(model.network.vocabulary)
    wanted, first = [head], 1
    for start in range(0, len(ids), step):
        window = ids[start : start + 16]
        with torch.no_grad():
            logits = model.network.eval()(Batch(input_ids=window[None]), Flow()).logits[0].log_softmax(-1)
        wanted += [-float(logits[at - start - 1, ids[at]]) for at in range(first, start + len(window))]
        first = max(first, start + len(window))
    assert record.details["losses"] == pytest.approx(wanted, abs=1e-3)
    assert record.details["nats"] == pytest.approx(sum(wanted), rel=1e-5)
    assert record.loss == pytest.approx(np.mean(wanted[1:]), rel=1e-5)
    values = task.metrics([record]).values()
    assert values["bits_per_character"] == pytest.approx(sum(wanted) / math.log(2) / len(SHORT[2]), rel=1e-5)
    assert values["perplexity"] == pytest.approx(math.exp(np.mean(wanted[1:])), rel=1e-5)


def test_texts_are_judged_as_they_were_trained(model: Model) -> None:
    """Joined texts see what stands before them; isolated ones are as if each were the only one."""
    joined, isolated = (
        list(Causal(model, isolated=isolated).for_evaluation().predict(rows_of(SHORT))) for isolated in (False, True)
    )
    only = list(Causal(model).for_evaluation().predict(rows_of(SHORT[1:2])))
    assert isolated[1].details["nats"] == pytest.approx(only[0].details["nats"], rel=1e-5)
    assert joined[1].details["nats"] != pytest.approx(only[0].details["nats"], rel=1e-5)
    assert joined[0].details["nats"] == pytest.approx(isolated[0].details["nats"], rel=1e-5)


def test_baselines_are_judged_by_the_same_code(model: Model) -> None:
    task = Causal(model).for_evaluation()
    records = list(task.predict(rows_of(SHORT)))
    found = {b.name: task.metrics(b.predictions).values() for b in task.baselines(rows_of([TEXT]), records)}
    assert list(found) == ["uniform", "unigram", "trigram", "xz"]
    characters, end = sum(map(len, SHORT)), model.tokenizer.eos_token_id
    table = Ngrams([[*model.tokenizer.encode(TEXT), end]], 3, model.network.vocabulary)
    nats = sum(table.losses([*model.tokenizer.encode(text), end]).sum() for text in SHORT)
    assert found["trigram"]["bits_per_character"] == pytest.approx(nats / math.log(2) / characters)
    size = compressed(TEXT, "".join("\n" + text for text in SHORT))
    assert found["xz"]["bits_per_character"] == pytest.approx(8 * size / characters)
    assert [b.name for b in task.baselines(None, records)] == ["uniform"]
    drawn = intervals(task.metrics(records), resamples=20)["bits_per_character"]
    assert drawn.low is not None and drawn.high is not None and drawn.low <= drawn.value <= drawn.high


def test_a_table_of_runs_is_a_distribution() -> None:
    table = Ngrams([[0, 1, 2, 0, 1, 3], [2, 2]], 3, 5)
    for before in ([], [0], [0, 1], [4, 4], [3, 0, 1]):
        assert sum(table.probability(token, before) for token in range(5)) == pytest.approx(1)
    assert table.probability(2) == pytest.approx((3 + 1) / (8 + 5))  # each counted once more
    # "0 1" was seen twice before something, of which there were two kinds, and so was "1"
    shorter = (1 + 2 * 4 / 13) / (2 + 2)
    assert table.probability(2, [0, 1]) == pytest.approx((1 + 2 * shorter) / (2 + 2))
    assert table.losses([2], [0, 1])[0] == pytest.approx(-math.log(table.probability(2, [0, 1])))


def test_compression_knows_what_it_has_seen() -> None:
    assert compressed(TEXT, TEXT) < 60 < len(lzma.compress(TEXT.encode()))


def test_answers_alone_count(model: Model) -> None:
    rows = read_rows([{"prompt": "a red", "answer": " ball"}, {"prompt": "She had ", "answer": "a dog."}])
    task = Answers(model, prompts=True).for_evaluation()
    records = list(task.predict(rows))
    assert [r.details["characters"] for r in records] == [5, 6]
    assert model.tokenizer.decode(records[0].details["ids"], skip_special_tokens=True) == " ball"
    assert all(r.details["tokens"] == len(r.details["ids"]) for r in records)
    assert [b.name for b in task.baselines(rows, records)] == ["uniform", "unigram", "trigram", "xz"]
    cut = read_rows([{"prompt": "a", "answer": TEXT[:300]}])
    with pytest.warns(UserWarning, match="were cut to 16 tokens"):
        (record,) = task.predict(cut)
    assert record.details["characters"] < 60 and TEXT.startswith(record.row["answer"])


def test_what_cannot_be_judged(model: Model) -> None:
    with pytest.raises(DataError, match="no text has two tokens"):
        list(Causal(model).for_evaluation().predict(rows_of([""])))
    with pytest.raises(DataError, match="no column 'text'"):
        list(Causal(model).for_evaluation().predict(read_rows([{"said": "a"}])))
    with pytest.raises(ConfigError, match="share 1 to 15"):
        Causal(model).for_evaluation(stride=16)
