"""Where a question is answered: from rows to losses and figures."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from glassformer.core.classification_heads import SpanClassifier
from glassformer.core.flow import Output
from glassformer.data.rows import RowSequence, read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.tasks.span import AnswerText, AnswerWindow, answers_of, span_of, tuned_threshold
from tests.tasks.word_pieces import NUMBER, check_passes, families_for, tiny_model

HEAD = "question-answering"
LONG = "a banana works . a fruit flies . an arrow flies . time flies like an arrow"
ROWS: list[dict[str, Any]] = [
    {"question": "time ?", "context": "jeff deans works at fruit", "answers": "deans", "answer_start": 5},
    {"question": "an arrow ?", "context": "a banana .", "answers": "", "answer_start": 0},
    {"question": "an ?", "context": LONG, "answers": "arrow", "answer_start": 36},
]


def reader(family: str = "bert", *, max_tokens: int = 14, stride: int = 3, **options: Any) -> AnswerText:
    return AnswerText(tiny_model(family, HEAD), max_tokens=max_tokens, stride=stride, **options)


def rows_of(*rows: dict[str, Any]) -> RowSequence:
    return read_rows(list(rows) or ROWS)


@pytest.mark.parametrize("family", families_for(HEAD))
def test_every_family_learns_spans(family: str) -> None:
    objective = reader(family)
    assert isinstance(objective.head, SpanClassifier)
    check_passes(objective, objective.encode(rows_of()))


def test_the_padded_layout_has_the_same_losses() -> None:
    packed, padded = reader(), reader()
    padded.packs = False
    losses = []
    for objective in (packed, padded):
        examples = objective.encode(rows_of())
        item = objective.collate([examples[i] for i in range(len(examples))])
        sums = objective.model.network.loss_sums(item.batch, item.flow, item.labels)
        losses.append({name: float(x.detach()) for name, x in sums.items()})
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    check_passes(padded, padded.encode(rows_of()))


def test_what_an_example_is() -> None:
    examples = reader().encode(rows_of())
    words = "[CLS] time ? [SEP] jeff dean ##s works at fruit [SEP]".split()
    assert examples[0]["input_ids"].tolist() == [NUMBER[word] for word in words]
    assert examples[0]["token_type_ids"].tolist() == [0] * 4 + [1] * 7
    assert (examples[0]["start_positions"], examples[0]["end_positions"]) == (5, 6)
    assert examples[0]["context"].tolist() == [4, 9]
    assert (examples[1]["start_positions"], examples[1]["end_positions"]) == (0, 0)  # no answer


def test_a_long_context_falls_into_windows() -> None:
    examples = reader().encode(rows_of(ROWS[2]))
    windows = [[list(NUMBER)[i] for i in examples[n]["input_ids"]] for n in range(len(examples))]
    assert all(window[:4] == "[CLS] an ? [SEP]".split() and len(window) <= 14 for window in windows)
    texts = [window[4:-1] for window in windows]
    for before, after in itertools.pairwise(texts):
        assert before[-3:] == after[:3]  # the stride
    said = [(examples[n]["start_positions"], examples[n]["end_positions"]) for n in range(len(examples))]
    found = [windows[n][s : e + 1] for n, (s, e) in enumerate(said) if s]
    assert found == [["arrow"]]  # once: the other arrow is another one


def test_the_answer_is_found_again_in_real_texts(minilm: Path, shared: Path) -> None:
    import glassformer

    model = glassformer.load(minilm, task=HEAD)
    questions = read_rows(shared / "data" / "xquad" / "xquad.en.shared.json.gz")[:60]
    objective = AnswerText(model, max_tokens=128, stride=32)
    examples = objective.encode(questions)
    wanted = {row["answers"][0]["text"].lower().replace(" ", "") for row in questions}
    found = set()
    for example in (examples[i] for i in range(len(examples))):
        start, end = example["start_positions"], example["end_positions"]
        if start:
            found.add(model.tokenizer.decode(example["input_ids"][start : end + 1]).replace(" ", ""))
    exact = {text for text in wanted if text in found}
    assert len(exact) > 0.9 * len(wanted)  # the others share a token with what stands next to them
    assert all(any(text in token for token in found) for text in wanted)


def test_what_is_said_is_judged() -> None:
    objective = reader()
    item = objective.collate([objective.encode(rows_of())[i] for i in range(2)], range(2))
    moved = item.to(torch.device("meta"))
    assert moved.labels["start_positions"].is_meta and moved.windows is item.windows  # type: ignore[index]
    start, end = torch.zeros(1, 20), torch.zeros(1, 20)
    start[0, 5], end[0, 5] = 9, 9  # dean, and not ##s
    start[0, 11], end[0, 11] = 9, 9
    metric = objective.metric()
    metric.update(objective.split_packed(Output(start_logits=start, end_logits=end), item), item)
    figures = metric.compute()
    assert figures["exact_match"] == figures["f1"] == 0.5  # "dean" is no word of "deans", and there is no answer twice


def test_each_of_several_answers_is_right() -> None:
    answers = {"text": ["jeff deans", "deans"], "answer_start": [0, 5]}
    for given in (
        answers,
        [dict(zip(("text", "answer_start"), each, strict=True)) for each in zip(*answers.values(), strict=True)],
    ):
        row = {"question": "time ?", "context": "jeff deans works", "answers": given}
        objective = reader()
        example = objective.encode(rows_of(row))[0]
        assert AnswerWindow.of(example).answers == ["jeff deans", "deans"]
        assert (example["start_positions"], example["end_positions"]) == (4, 6)  # the first is learned


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"answer_start": 6},
            "the answer 'deans' is not what the context has at character 6, 'eans '; it is at 5",
        ),
        ({"answers": "dean's"}, "it is nowhere in it"),
        ({"answer_start": None}, "the answer 'deans' begins at None; that must be the number of a character"),
        ({"answers": [3]}, "an answer is 3; it must be a text"),
        ({"answers": 3}, "'answers' is 3; answers are a text, or a list of objects"),
        ({"answers": {"text": ["deans"], "answer_start": []}}, "has 1 texts and 0 starts"),
        ({"context": None}, "'context' is None; it must be a text"),
        ({"question": "time " * 9}, "the question has 9 tokens; in a window of 14 .* it may have 7"),
    ],
)
def test_rows_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f"row 0: .*{message}"):
        reader().encode(rows_of({**ROWS[0], **change}))


def test_answers_may_come_from_a_table() -> None:
    columns = dict(AnswerText.COLUMNS)
    row = {"answers": "deans", "answer_start": "5"}
    assert answers_of(row, "jeff deans works", columns) == [(5, 10)]
    assert answers_of({"answers": None}, "jeff", columns) == answers_of({"answers": []}, "jeff", columns) == []


def test_a_span_is_all_tokens_that_share_a_character_with_the_answer() -> None:
    offsets = [(0, 0), (0, 4), (0, 0), (0, 4), (4, 9), (9, 10), (0, 0)]  # the space belongs to what follows
    assert span_of(offsets, (3, 5), 5, 9) == (4, 4)
    assert span_of(offsets, (3, 5), 2, 7) == (3, 4)
    assert span_of(offsets, (4, 5), 2, 7) is None  # it begins before the window
    assert span_of(offsets, (3, 4), 5, 10) is None  # it ends behind it
    assert span_of(offsets, (1, 0), 0, 1) is None  # a window without a context


def test_a_stride_that_leaves_no_room() -> None:
    with pytest.raises(ConfigError, match="the stride must be from 0 to 9"):
        reader(stride=10)
    assert reader(stride=9).stride == 9


def test_a_reader_is_validated_while_it_trains() -> None:
    """Its head's losses are of one text a row, and a packed batch has several in one."""
    from glassformer.runs.config import TrainingOptions
    from glassformer.training import Trainer

    task = reader()
    examples = task.encode(rows_of())
    options = TrainingOptions(steps=2, batch_size=4, learning_rate=1e-3)
    result = Trainer(task.model, task, options, train=examples, validation=examples).train()
    assert {"loss", "exact_match", "f1"} <= set(result.metrics)


class Planted:
    """Logits of a packed row with a best span for each text; (0, 0) is no answer."""

    def __init__(self, spans: list[tuple[int, int]], scores: list[float]) -> None:
        self.spans, self.scores = spans, scores

    def __call__(self, task: AnswerText, item: Any) -> Output:
        start, end = torch.zeros(2, 1, item.tokens)
        firsts = itertools.accumulate(item.flow.packing.lengths, initial=0)
        for first, index in zip(firsts, item.indices, strict=False):
            begin, last = self.spans[index]
            start[0, first + begin] = end[0, first + last] = self.scores[index]
        return task.split_packed(Output(start_logits=start, end_logits=end), item)


def metrics_of(task: AnswerText, rows: RowSequence, planted: Planted) -> dict[str, float]:
    examples, metric = task.encode(rows), task.metric()
    for index in range(len(examples)):  # a batch a window: the windows of a question may be far apart
        item = task.collate([examples[index]], [index])
        metric.update(planted(task, item), item)
    return metric.compute()


def test_a_question_counts_once_with_the_answer_of_all_its_windows() -> None:
    """Windows that say truly that the answer is not in them make no right answers of a reader that never answers."""
    task, rows = reader(), rows_of(ROWS[2])
    examples = task.encode(rows)
    spans = [(int(examples[i]["start_positions"]), int(examples[i]["end_positions"])) for i in range(len(examples))]
    (where,) = [i for i, (start, _) in enumerate(spans) if start]
    silent = Planted([(0, 0)] * len(spans), [3.0] * len(spans))
    right = Planted(spans, [3.0] * len(spans))
    astray = [(5, 5) if i != where else spans[i] for i in range(len(spans))]
    wrong = Planted(astray, [4.0 if i != where else 3.0 for i in range(len(spans))])
    f1 = [metrics_of(task, rows, planted)["f1"] for planted in (silent, right, wrong)]
    assert len(spans) > 2 and f1 == [0.0, 1.0, 0.0]


def test_a_sample_has_all_windows_of_its_questions() -> None:
    task = reader()
    examples = task.encode(rows_of())
    last = len(examples) - 1
    assert last > 3 and task.with_siblings(examples, np.array([last])).tolist() == list(range(2, last + 1))
    assert task.with_siblings(examples, np.array([1, 0])).tolist() == [1, 0]


def task_of(tokens: int = 4_096) -> AnswerText:
    task = AnswerText(tiny_model("bert", "question-answering"), max_tokens=14, stride=3)
    return task.for_evaluation(tokens=tokens)


def plant(task: AnswerText, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    """A head that begins and ends its answers at a word, the later in the text the surer, and else says none."""

    def answers(output: Any, item: Any) -> list[tuple[Tensor, Tensor]]:
        found = []
        texts = item.batch.input_ids[0].split(list(item.flow.packing.lengths))
        for index, ids in zip(item.indices, texts, strict=True):
            scores = torch.where(ids == NUMBER[word], 2.0 + index, 0.0)
            scores[0] = 1.0
            found.append((scores, scores))
        return found

    monkeypatch.setattr(task, "unbatch", answers)


def test_the_best_window_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of()
    assert len(task.encode(rows_of())) > 4  # the last row is several
    plant(task, monkeypatch, "arrow")
    records = list(task.predict(rows_of()))
    assert [record.predicted for record in records] == ["", "", "arrow"]  # not the "arrow" of the question
    assert [record.label for record in records] == [["deans"], [], ["arrow"]]
    assert [record.correct for record in records] == [False, True, True]
    shares = {"": 2 / 3, "_answerable": 1 / 2, "_unanswerable": 1}
    expected = {score + kind: pytest.approx(x) for kind, x in shares.items() for score in ("f1", "exact_match")}
    assert task.metrics(records).values() == expected
    assert task.notes(records) == [
        "1 of 3 questions have no answer",
        "no_answer_threshold is 0.00; the best for these rows is -4.00, with an F1 of 0.667",
    ]
    plant(task, monkeypatch, "##s")
    assert [record.predicted for record in task.predict(rows_of())] == ["s", "", ""]


def test_the_same_score_at_any_batch_size() -> None:
    few, many = (list(task_of(tokens).predict(rows_of())) for tokens in (14, 4_096))
    assert [record.predicted for record in few] == [record.predicted for record in many]
    assert [record.loss for record in few] == pytest.approx([record.loss for record in many], rel=1e-4)


def test_baselines_and_progress() -> None:
    task, done = task_of(), []
    records = list(task.predict(rows_of(), done.append))
    assert sum(done) == len(ROWS)
    found = {baseline.name: baseline for baseline in task.baselines(None, records)}
    assert task.metrics(found["no answer"].predictions).values()["exact_match"] == pytest.approx(1 / 3)
    assert found["first sentence"].predictions[0].predicted == ROWS[0]["context"]
    assert all(record.loss is None for record in found["no answer"].predictions)


# ---------------------------------------------------------------------------------------- unanswerable questions


def test_the_threshold_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of()
    plant(task, monkeypatch, "arrow")
    records = list(task.predict(rows_of()))
    assert [record.details["no_answer"] for record in records] == [2.0, 2.0, -10.0]  # none 2, spans 0, 0 and 12
    last = records[2].details
    assert LONG[last["start"] : last["stop"]] == last["best"] == "arrow"
    for threshold, answered in ((-11.0, 0), (-10.0, 1), (1.9, 1), (2.0, 3)):
        other = task.for_evaluation(no_answer_threshold=threshold)
        monkeypatch.setattr(other, "unbatch", task.unbatch)
        assert sum(bool(record.predicted) for record in other.predict(rows_of())) == answered
    with pytest.raises(ConfigError, match="evaluation: no_answer_threshold is 'high'; it must be a number"):
        task.for_evaluation(no_answer_threshold="high")


def test_a_threshold_can_be_tuned_on_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of()
    assert tuned_threshold(task.model) is None and task.threshold == 0
    plant(task, monkeypatch, "arrow")
    rows = rows_of(ROWS[1], ROWS[2], ROWS[1])
    threshold = task.tune_threshold(rows)
    assert threshold == task.threshold == tuned_threshold(task.model) == (-8 + 2) / 2
    assert task.metrics(list(task.predict(rows))).values()["f1"] == 1
    with pytest.raises(DataError, match="each of the 1 questions has an answer; give some that have none"):
        task.tune_threshold(rows_of(ROWS[2]))


def test_a_run_keeps_the_threshold_of_its_validation_rows(tmp_path: Path) -> None:
    """Validation, the saved model, the reference library and a resumed run have the same one."""
    from transformers import AutoConfig, AutoModelForQuestionAnswering

    from glassformer.model import load
    from glassformer.runs.config import TrainingOptions
    from glassformer.training import Trainer

    def trainer(steps: int, folder: Path) -> Trainer:
        task = reader()
        examples = task.encode(rows_of())
        options = TrainingOptions(steps=steps, batch_size=4, learning_rate=1e-3, validate_every=1, save_every=1)
        return Trainer(task.model, task, options, train=examples, validation=examples, folder=folder)

    first = trainer(3, tmp_path / "run")
    metrics = first.train().metrics
    loaded = load(tmp_path / "run" / "model", task=HEAD)
    assert tuned_threshold(loaded) == tuned_threshold(first.model) == metrics["no_answer_threshold"]
    task = AnswerText(loaded, max_tokens=14, stride=3)
    values = task.metrics(list(task.predict(rows_of()))).values()
    assert {name: values[name] for name in ("f1", "exact_match")} == pytest.approx(
        {name: metrics[name] for name in ("f1", "exact_match")}
    )
    again = trainer(3, tmp_path / "run")  # nothing is left to train
    again.train()
    assert tuned_threshold(again.model) == metrics["no_answer_threshold"]
    kept = AutoConfig.from_pretrained(tmp_path / "run" / "model").task_specific_params
    assert kept == {HEAD: {"no_answer_threshold": metrics["no_answer_threshold"]}}
    AutoModelForQuestionAnswering.from_pretrained(tmp_path / "run" / "model")


def test_where_each_question_has_an_answer_each_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of()
    plant(task, monkeypatch, "banana")  # "no answer" scores more than any span
    rows = rows_of(ROWS[0], ROWS[2])
    assert [record.predicted for record in task.predict(rows_of(ROWS[0]))] == [""]
    task.note_validation(metrics_of(task, rows, Planted([(0, 0)] * 9, [3.0] * 9)))
    assert task.model.config["task_specific_params"] == {HEAD: {"no_answer_threshold": None}}  # as JSON has it
    assert tuned_threshold(task.model) == np.inf
    assert all(record.predicted for record in task.predict(rows))
    task.model.config["task_specific_params"] = {HEAD: {"no_answer_threshold": "low"}}
    with pytest.raises(ConfigError, match="no_answer_threshold is 'low'; it must be a number, or null"):
        list(task.predict(rows))


def test_wrong_answers_are_listed_with_their_places(tmp_path: Path) -> None:
    good, bad = ROWS[0], ROWS[0] | {"answers": "dean's"}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (good, bad, good, bad | {"answer_start": 1}, bad)))
    with pytest.raises(DataError) as caught:
        reader().encode(read_rows(path))
    first, _, others = str(caught.value).partition(". As wrong are the questions or answers of: ")
    wrong = f"{path}: line 2: the answer \"dean's\" is not what the context has at character 5, 'deans '"
    assert first == f"{wrong}; it is nowhere in it"
    assert others == f"{path}: line 4, {path}: line 5"
    with pytest.raises(DataError, match=r"and 979 more$"):
        reader().encode(rows_of(*[bad] * 1_000))
