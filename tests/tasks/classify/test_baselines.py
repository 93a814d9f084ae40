"""Baselines: what scikit-learn says, of every kind of label, and the same each time."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

from glassformer import Model
from glassformer.core.flow import Batch, Flow
from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import ConfigError, DataError, MissingExtraError, UnsupportedError
from glassformer.tasks import columns as learning
from glassformer.tasks.classify.baselines import FeatureClassifier, class_baselines, vectors
from glassformer.tasks.classify.task import labels_of
from glassformer.tasks.tag.baselines import tag_baselines
from glassformer.tasks.tag.task import tags_of
from glassformer.tasks.types import Baseline, Prediction
from tests.tasks.bodies import tiny_body

WORDS = "time flies like an arrow fruit a banana".split()
COLUMNS = {"text": "text", "text_pair": "text_pair", "label": "label"}
LEFT_OUT = "the baseline of embeddings is left out"


def rows_of(count: int, seed: int = 0, **label: Any) -> RowSequence:
    """Texts of four words; a text with a banana is glad, mostly."""
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(WORDS, 4)) for _ in range(count)]
    return read_rows([{"text": text, "label": label["of"](text)} for text in texts])


def mood(text: str) -> str:
    return "joy" if "banana" in text else "fear" if text.startswith("time") else "anger"


def asked_of(rows: RowSequence, roles: Sequence[str] = ("text",)) -> list[Prediction]:
    return [
        Prediction(
            index=i,
            where=rows.where(i),
            row={role: row[COLUMNS[role]] for role in roles},
            label=row["label"],
            predicted="?",
            loss=9.0,
            details={"old": 1},
        )
        for i, row in enumerate(rows)
    ]


def found_of(train: RowSequence, records: Sequence[Prediction], body: Any = None, **named: Any) -> dict[str, Baseline]:
    objective: Any = SimpleNamespace(kind=labels_of(train, "label", **named), columns=COLUMNS)
    return {each.name: each for each in class_baselines(objective, train, records, body)}


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return tiny_body(tmp_path_factory.mktemp("body"))


def said(baseline: Baseline) -> list[Any]:
    return [record.predicted for record in baseline.predictions]


def test_classes(body: Model) -> None:
    train, held_out = rows_of(120, of=mood), rows_of(40, seed=1, of=mood)
    records = asked_of(held_out)
    found = found_of(train, records, lambda: body)
    assert list(found) == ["most frequent", "bag of words", "embeddings + logistic regression"]
    texts, labels = [row["text"] for row in train], [row["label"] for row in train]
    new, true = [row["text"] for row in held_out], [row["label"] for row in held_out]

    dummy = DummyClassifier(strategy="most_frequent").fit(texts, labels)
    assert said(found["most frequent"]) == dummy.predict(new).tolist()

    bag = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    learner = OneVsRestClassifier(LogisticRegression(C=10, solver="liblinear"))
    learner.fit(bag.fit_transform(texts), labels)
    assert said(found["bag of words"]) == learner.predict(bag.transform(new)).tolist()
    likely = dict(zip(learner.classes_, learner.predict_proba(bag.transform(new[:1]))[0], strict=True))
    first = found["bag of words"].predictions[0]
    assert first.loss == pytest.approx(-math.log(likely[true[0]])) and first.correct == (first.predicted == true[0])
    assert first.details == {"scores": pytest.approx(likely)} and first.row == records[0].row
    assert "scikit-learn" in found["bag of words"].about

    classifier = FeatureClassifier(body).fit(texts, labels)
    assert said(found["embeddings + logistic regression"]) == classifier.predict(new).tolist()
    assert found_of(train, records, lambda: body) == found, "the same each time"


def test_several_labels() -> None:
    def both(text: str) -> list[str]:
        return [word for word in ("banana", "time") if word in text]

    train, held_out = rows_of(120, of=both), rows_of(30, seed=1, of=both)
    with pytest.warns(UserWarning, match=LEFT_OUT):
        found = found_of(train, asked_of(held_out))
    often = max([["banana"], ["time"], ["banana", "time"], []], key=[row["label"] for row in train].count)
    assert said(found["most frequent"]) == [often] * 30
    words = found["bag of words"].predictions
    assert sum(record.predicted == record.label for record in words) >= 28 == sum(map(bool, words)) - 2
    assert all(record.correct == (record.predicted == record.label) for record in words)
    scores = words[0].details["scores"]
    p = [scores[name] if name in words[0].label else 1 - scores[name] for name in ("banana", "time")]
    assert words[0].loss == pytest.approx(-np.log(p).mean())


def test_numbers() -> None:
    def length(text: str) -> float:
        return len(text) + 0.5

    train, held_out = rows_of(120, of=length), rows_of(30, seed=1, of=length)
    with pytest.warns(UserWarning, match=LEFT_OUT):
        found = found_of(train, asked_of(held_out))
    mean = float(np.mean([row["label"] for row in train], dtype=np.float32))
    assert said(found["mean"]) == pytest.approx([mean] * 30)
    assert found["mean"].predictions[0].loss == pytest.approx((mean - held_out[0]["label"]) ** 2)
    bag = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    ridge = Ridge().fit(bag.fit_transform([row["text"] for row in train]), [row["label"] for row in train])
    plain = ridge.predict(bag.transform([row["text"] for row in held_out]))
    assert said(found["bag of words"]) == pytest.approx(plain.tolist(), abs=1e-3)


def test_pairs_are_read_as_pairs(body: Model) -> None:
    draw = np.random.default_rng(2)
    made = [(str(draw.choice(WORDS)), str(draw.choice(WORDS[:3]))) for _ in range(300)]
    rows = read_rows([{"text": a, "text_pair": b, "label": "same" if a == b else "other"} for a, b in made])
    found = found_of(rows[:200], asked_of(rows[200:], ("text", "text_pair")), lambda: body)
    for name in ("bag of words", "embeddings + logistic regression"):  # neither text alone says it
        right = [bool(record.correct) for record in found[name].predictions]
        assert np.mean(right) > 0.95 > np.mean([bool(r.correct) for r in found["most frequent"].predictions])


def test_what_cannot_be_learnt_is_left_out_and_said(body: Model) -> None:
    rows = rows_of(30, of=mood)
    signs = read_rows([{"text": "!?" * (i % 3), "label": "joy" if i % 3 else "fear"} for i in range(9)])

    def gone() -> Model:
        raise UnsupportedError("no such model")

    with pytest.warns(UserWarning, match=f"{LEFT_OUT}: no such model"):
        assert list(found_of(rows, asked_of(rows), gone)) == ["most frequent", "bag of words"]
    with pytest.warns(UserWarning, match="no training text has a word"):
        assert "bag of words" not in found_of(signs, asked_of(signs), lambda: body)
    objective: Any = SimpleNamespace(kind=labels_of(rows, "label"), columns=COLUMNS)
    assert list(class_baselines(objective, None, asked_of(rows))) == []
    alike = rows.filter(lambda row: bool(row["label"] == "joy"))
    with pytest.warns(UserWarning, match="has the same label"):
        assert [each.name for each in class_baselines(objective, alike, asked_of(rows))] == ["most frequent"]
    strange = read_rows([{"text": "time", "label": "awe"}])
    with pytest.raises(DataError, match="row 0: the label 'awe' is none of the 3"):
        list(class_baselines(objective, strange, asked_of(rows)))


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    rows = rows_of(30, of=mood)
    objective: Any = SimpleNamespace(kind=labels_of(rows, "label"), columns=COLUMNS)
    found = class_baselines(objective, rows, asked_of(rows))
    assert next(found).name == "most frequent"
    with pytest.raises(MissingExtraError, match=r"pip install 'glassformer\[evaluate\]'"):
        next(found)


def test_of_many_rows_a_sample_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "MOST_ROWS", 50)
    rows = rows_of(120, of=mood)
    with pytest.warns(UserWarning, match=LEFT_OUT):
        found = found_of(rows, asked_of(rows))
    assert all(each.about.endswith("; learnt from 50 of 120 training rows") for each in found.values())


# ── tags ─────────────────────────────────────────────────────────────────────────────────────────────────

TAGGED = [
    (["Ann", "Lee", "met", "Bo", "in", "Rome"], ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC"]),
    (["Lee", "met", "Ann"], ["B-PER", "O", "B-PER"]),
    (["Ann", "Lee", "left", "Rome"], ["B-PER", "I-PER", "O", "B-LOC"]),
    (["Ivo", "Maas", "left", "Oslo"], ["B-PER", "I-PER", "O", "B-LOC"]),
] * 3


def tagged(pairs: Sequence[tuple[list[str], list[str]]], train: RowSequence | None) -> Iterator[Baseline]:
    rows = read_rows([{"tokens": words, "tags": tags} for words, tags in TAGGED])
    objective: Any = SimpleNamespace(kind=tags_of(train or rows), columns={"tokens": "tokens", "tags": "tags"})
    records = [
        Prediction(index=i, where="", row={"tokens": words}, label=tags, predicted=[])
        for i, (words, tags) in enumerate(pairs)
    ]
    return tag_baselines(objective, train, records)


def test_tags_of_entities() -> None:
    train = read_rows([{"tokens": words, "tags": tags} for words, tags in TAGGED])
    pairs = [(["Ann", "saw", "Lee"], ["B-PER", "O", "B-PER"]), (["Eva", "Lund", "met", "Rome"], ["O"] * 4)]
    found = {each.name: each for each in tagged(pairs, train)}
    assert list(found) == ["all O", "dictionary", "words and shapes"]
    assert said(found["all O"]) == [["O"] * 3, ["O"] * 4]
    assert [record.correct for record in found["all O"].predictions] == [False, True]
    # Lee is I-PER most often, and nobody goes on here: it begins.
    assert said(found["dictionary"]) == [["B-PER", "O", "B-PER"], ["O", "O", "O", "B-LOC"]]
    learnt = found["words and shapes"].predictions
    assert learnt[1].predicted[:3] == ["B-PER", "I-PER", "O"], "names that are new, by their shape and place"
    assert learnt[0].loss == pytest.approx(np.mean(learnt[0].details["losses"]))
    assert {each.name: each for each in tagged(pairs, train)} == found, "the same each time"
    assert [each.name for each in tagged(pairs, None)] == ["all O"]


def test_other_tags() -> None:
    train = read_rows([{"tokens": ["time", "flies", "time"], "tags": ["N", "V", "N"]}] * 4)
    found = {each.name: each for each in tagged([(["flies", "new"], ["V", "N"])], train)}
    assert list(found) == ["most frequent", "dictionary", "words and shapes"]
    assert said(found["most frequent"]) == [["N", "N"]] and said(found["dictionary"]) == [["V", "N"]]
    assert not list(tagged([(["flies"], ["V"])], None))[1:]


TEXTS = [f"{a} {b}" for a in ("time", "fruit") for b in ("flies", "like", "an", "arrow", "banana")]
LABELS = ["joy"] * 5 + ["anger"] * 5


def test_it_is_scikit_learn_on_vectors(body: Model) -> None:
    features = StandardScaler().fit(body.encode(TEXTS)).transform(body.encode(TEXTS))
    plain = LogisticRegression(max_iter=1_000).fit(features, LABELS)
    found = FeatureClassifier(body).fit(TEXTS, LABELS)
    assert found.predict(TEXTS).tolist() == plain.predict(features).tolist() and found.classes == [
        "anger",
        "joy",
    ]
    np.testing.assert_allclose(found.predict_proba(TEXTS), plain.predict_proba(features), atol=1e-6)
    forest = RandomForestClassifier(20, random_state=0)
    assert FeatureClassifier(body, forest).fit(TEXTS, LABELS).predict(TEXTS).tolist() == LABELS


def test_the_state_of_the_first_token(body: Model) -> None:
    ids = torch.tensor([body.tokenizer.encode("time flies")])
    states = body.network.eval().states(Batch(input_ids=ids), Flow())
    np.testing.assert_allclose(vectors(body, ["time flies"], "cls")[0], states[0, 0].detach(), atol=1e-5)
    with pytest.raises(ConfigError, match="pooling is 'clss'; nearest: 'cls'"):
        vectors(body, TEXTS, "clss")


def test_vectors_of_pairs(body: Model) -> None:
    u, v = body.encode(TEXTS[:3]), body.encode(TEXTS[3:6])
    pairs = list(zip(TEXTS[:3], TEXTS[3:6], strict=True))
    np.testing.assert_allclose(vectors(body, pairs), np.concatenate((u, v, np.abs(u - v), u * v), axis=1), atol=1e-6)


def test_what_a_classifier_refuses(body: Model) -> None:
    with pytest.raises(DataError, match="10 texts and 2 labels"):
        FeatureClassifier(body).fit(TEXTS, LABELS[:2])
    with pytest.raises(DataError, match="nothing to tell apart"):
        FeatureClassifier(body).fit(TEXTS[:5], LABELS[:5])


def test_multi_label_baselines_of_one_label():
    from glassformer.tasks.classify.baselines import MultiLabelBaselines
    from glassformer.tasks.types import Prediction

    row = Prediction(index=0, where="x: line 1", row={"text": "a"}, label=["toxic"], predicted=[])
    baselines = MultiLabelBaselines(["toxic"], np.array([[0.0], [0.0], [1.0], [1.0]]), [row])
    features = np.array([[0.0], [0.0], [1.0], [1.0]])
    (predicted,) = baselines.fit_and_predict(baselines.of_vectors(), features, np.array([[1.0]]))
    assert predicted.predicted == ["toxic"] and predicted.correct
