"""Methods by the number of labels: slices, leaks, cross-validation, resuming, the report, and input that is refused."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from glassformer.cli.app import main
from glassformer.data.rows import write_rows
from glassformer.errors import ConfigError, DataError
from glassformer.few_labels import METHODS, LabelledTexts, Method, method
from glassformer.few_labels.curves import measured_curves
from glassformer.few_labels.method import REHEARSED
from glassformer.files.schema import Schema
from glassformer.studies.few_labels import ANSWERS, FewLabelsEvaluator, few_labels, few_labels_study
from glassformer.studies.options import FewLabelsOptions
from glassformer.studies.report import StudyReport
from tests.few_labels.samples import encoder, one_label, several_labels

__all__ = ["encoder"]

pytestmark = pytest.mark.filterwarnings("ignore:.*labels have a single row:UserWarning")


@dataclass(frozen=True, kw_only=True)
class WordsOptions(Schema):
    """None."""

    lost: int = 0


class Words(Method[WordsOptions]):
    """Knows the labels of words that it has seen."""

    OPTIONS = WordsOptions

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> None:
        assert labelled.texts != REHEARSED, "a method of the user's may cost money"
        FITTED.append((list(labelled.texts), list(unlabelled)))
        self.known = {
            word: labelled.holds[i] for i, text in enumerate(labelled.texts) for word in text.split() if word in TOPICS
        }
        self.width = labelled.holds.shape[1]

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        unknown = np.eye(1, self.width)[0] * 0.3
        rows = [next((self.known[w] * 1.0 for w in text.split() if w in self.known), unknown) for text in texts]
        return np.stack(rows)


class Blind(Words):
    """Answers the first label, and needs none."""

    NEEDS = ()

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> None:
        assert not len(labelled)
        self.known, self.width = {}, len(labelled.kind.names)


TOPICS = ("time", "fruit", "banana")
FITTED: list[tuple[list[str], list[str]]] = []


@pytest.fixture(autouse=True)
def own_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "words", Words)
    monkeypatch.setitem(METHODS, "blind", Blind)
    FITTED.clear()


def numbered(count: int) -> list[dict[str, str]]:
    """Rows whose texts are all different."""
    rows = one_label(count)
    return [{"text": f"{t} {i}", "label": x} for i, (t, x) in enumerate(zip(rows.texts, rows.labels, strict=True))]


def written(path: Path, rows: Sequence[dict[str, Any]]) -> str:
    write_rows(path, rows, list(rows[0]))
    return str(path)


def options(tmp_path: Path, encoder: Path, rows: Sequence[dict[str, Any]], **others: Any) -> FewLabelsOptions:
    given: dict[str, Any] = {"methods": ["words", "blind"], "labels": [4, 8], "seeds": [0, 1], **others}
    data = written(tmp_path / f"rows{len(list(tmp_path.iterdir()))}.csv", rows)
    return FewLabelsOptions(data=[data], model=str(encoder), output=str(tmp_path / "study"), **given)


def test_methods_are_compared_on_the_same_slices(tmp_path: Path, encoder: Path) -> None:
    test = [
        {"text": f"an {'time' if i % 2 else 'fruit'} {i} flies{' away' * 50}", "label": "time" if i % 2 else "fruit"}
        for i in range(20)
    ]
    given = options(tmp_path, encoder, numbered(40), test=[written(tmp_path / "test.csv", test)])
    report = few_labels(options=given)
    by = {(x.levels["method"], x.levels["labels"]): x for x in report.points}
    assert {*by} == {("words", 4), ("words", 8), ("blind", None)}
    assert by["words", 8].metrics["f1_macro"].value == 1.0 and by["blind", None].metrics["accuracy"].value == 0.5
    assert by["blind", None].seeds == [0] and by["words", 4].seeds == [0, 1]
    assert by["words", 4].costs["seconds"].value > 0
    sizes = [len(texts) for texts, _ in FITTED]
    assert sizes == [4, 8, 4, 8], "one fit for each size and seed"
    assert {*FITTED[0][0]} < {*FITTED[1][0]} and {*FITTED[2][0]} < {*FITTED[3][0]} and FITTED[0] != FITTED[2]
    # the other rows of the pool are unlabelled texts, and no test row is
    assert {*FITTED[0][0]} | {*FITTED[0][1]} == {row["text"] for row in numbered(40)}
    assert [x.sentence for x in report.winners][-1] == "With 8 labels, words is best (1.000), beyond chance."
    assert report.examples and all(len(x.text) <= 200 and x.text.endswith("…") for x in report.examples)
    assert report.finding == (
        "Best: words with 4 and 8 labels (1.000, beyond chance). With 8 labels, words is best (1.000), beyond chance."
    )
    assert StudyReport.from_dict(json.loads(json.dumps(report.to_dict()))) == report
    assert report.examples[0].outputs == {"blind": "fruit", "words": "time"} and "flies" in report.examples[0].text
    assert any("blind" in line.name for chart in report.charts()[:1] for line in chart.lines)  # type: ignore[union-attr]


def test_one_number_of_labels_and_a_row_for_each(tmp_path: Path, encoder: Path) -> None:
    rows = [{"text": f"a text about {i}", "label": f"label {i}"} for i in range(12)]
    report = few_labels(options=options(tmp_path, encoder, rows, seeds=[0], labels=[8]))
    assert report.finding.startswith("With 8 labels, ") and "None" not in report.finding
    assert any("no label has two rows" in note for note in report.notes)


def test_few_rows_are_all_tested_by_cross_validation(tmp_path: Path, encoder: Path) -> None:
    report = few_labels(options=options(tmp_path, encoder, numbered(24), seeds=[0], labels=[4, 8, 220]))
    assert len(json.loads((tmp_path / "study" / "words-8-labels" / "seed-0" / ANSWERS).read_text())["answers"]) == 24
    assert all(len(texts) in (4, 8, 18) for texts, _ in FITTED) and len(FITTED) == 12  # 4 folds of 4, 8, and all 18
    assert "each labelled row once, by cross-validation" in report.notes[0]


def test_a_stopped_study_resumes_and_other_settings_are_refused(tmp_path: Path, encoder: Path) -> None:
    given = options(tmp_path, encoder, numbered(24), seeds=[0], labels=[4])
    few_labels(options=given)
    fitted = len(FITTED)
    assert fitted
    few_labels(options=given)
    assert len(FITTED) == fitted
    changed = FewLabelsOptions(**{**vars(given), "settings": {"words.lost": 1}})
    with pytest.raises(ConfigError, match=r"was evaluated otherwise: options\.lost was left out, is now 1"):
        few_labels(options=changed)


def test_a_model_that_a_method_does_not_read_may_be_named_later(tmp_path: Path, encoder: Path) -> None:
    given = options(tmp_path, encoder, numbered(24), seeds=[0], labels=[4])
    few_labels(options=given)
    fitted = len(FITTED)
    few_labels(options=FewLabelsOptions(**{**vars(given), "models": {"masked": str(tmp_path / "other")}}))
    assert fitted and len(FITTED) == fitted


def test_a_slow_method_has_fewer_numbers_of_labels_and_the_plan_says_how_long(tmp_path: Path, encoder: Path) -> None:
    data = written(tmp_path / "rows.csv", numbered(440))
    config = tmp_path / "study.yaml"
    text = f"model: {encoder}\noutput: {tmp_path / 'study'}\ndata: {{train: {data}}}\nfew_labels:\n"
    config.write_text(
        text
        + "  labels: [4, 8, 16]\n  seeds: [0, 1]\n  methods: {words: , blind: , slow: {method: words, labels: [8]}}\n"
    )
    study = few_labels_study(config)
    assert study.plan().remarks() == ["to evaluate: 9 cells"]
    assert [x.name for x in study.plan().trainings if "slow" in x.name] == [
        "slow, 8 labels, seed 0",
        "slow, 8 labels, seed 1",
    ]
    study.run([0])
    planned = study.plan()
    assert planned.remarks() == ["to evaluate: 4 cells; about 1 min for 4 of them, as finished ones took"]
    assert all(x.seconds is not None for x in planned.trainings)
    assert FITTED.count(FITTED[1]) == 2, "the same rows as the others with 8 labels"
    config.write_text(text + "  methods: {words: {labels: [9]}}\n")
    with pytest.raises(ConfigError, match=r"methods.words.labels is \[9\]; it must have one of .*: 8, 16"):
        few_labels_study(config)


def test_rows_without_a_label_are_unlabelled_and_leaks_are_dropped(tmp_path: Path, encoder: Path) -> None:
    rows = [*numbered(24), *({"text": f"new {i}", "label": ""} for i in range(5))]
    more = [{"text": "NEW 1"}, {"text": rows[0]["text"].upper()}, {"text": "quite another"}]
    given = options(tmp_path, encoder, rows, unlabelled=[written(tmp_path / "more.csv", more)], seeds=[0])
    evaluator = few_labels_study(None, given).evaluator
    assert isinstance(evaluator, FewLabelsEvaluator)
    assert sorted(evaluator.rows.unlabelled) == ["new 0", "new 1", "new 2", "new 3", "new 4", "quite another"]
    assert evaluator.rows.notes == [
        "1 unlabelled row left out: among the labelled or test rows too",
        "1 unlabelled row left out: repeated or empty",
    ]


def test_unlabelled_rows_are_a_sample_of_a_stream(tmp_path: Path, encoder: Path) -> None:
    config = {"model": str(encoder), "data": {"train": written(tmp_path / "a.csv", numbered(24))}}
    more = written(tmp_path / "more.csv", [{"text": f"new {i}"} for i in range(500)])
    values = {**config, "output": str(tmp_path / "s"), "few_labels": {"unlabelled": more, "unlabelled_limit": 50}}
    (tmp_path / "few.yaml").write_text(json.dumps(values))
    evaluator = few_labels_study(tmp_path / "few.yaml").evaluator
    assert isinstance(evaluator, FewLabelsEvaluator) and len(evaluator.rows.unlabelled) == 50
    assert np.mean([int(x.split()[1]) for x in evaluator.rows.unlabelled]) == pytest.approx(250, abs=80)


def test_what_cells_share_is_removed_when_all_are_done(
    tmp_path: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[bool] = []

    class Shares(Words):
        """Stores something for the cells after it."""

        def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> None:
            super().learn(labelled, unlabelled)
            assert self.setting.work is not None
            there.append((self.setting.work / "made").is_dir())
            (self.setting.work / "made").mkdir(parents=True, exist_ok=True)

    monkeypatch.setitem(METHODS, "shares", Shares)
    few_labels(options=options(tmp_path, encoder, numbered(24), methods=["shares"], seeds=[0]))
    assert there == [False, *[True] * 7] and not (tmp_path / "study" / ".work").exists()


def test_no_cell_is_charged_with_what_starting_costs(
    tmp_path: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock stands still but for what `Starts` does: 100 seconds when it is first used, 1 each time."""
    now = [0.0]

    class Starts(Words):
        """Takes long when it is first used."""

        STARTED = False

        def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> None:
            now[0] += 1 if Starts.STARTED else 100
            Starts.STARTED = True
            if labelled.texts != REHEARSED:
                super().learn(labelled, unlabelled)

        def scores(self, texts: Sequence[str]) -> np.ndarray:
            return np.zeros((len(texts), 2)) if texts == REHEARSED else super().scores(texts)

    monkeypatch.setitem(METHODS, "starts", Starts)
    monkeypatch.setattr(method, "OWN", method.OWN | {"starts"})  # a method of this package, which is rehearsed
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    given = options(tmp_path, encoder, numbered(24), methods=["starts", "words"], seeds=[0])
    seconds = {
        (x.levels["method"], x.levels["labels"]): x.costs["seconds"].value for x in few_labels(options=given).cells
    }
    assert seconds == {("starts", 4): 4, ("starts", 8): 4, ("words", 4): 0, ("words", 8): 0}, "4 folds of 1 second"


def test_templates_are_compared(tmp_path: Path, encoder: Path) -> None:
    ways = ["like {}", "an arrow {}"]
    rows, methods = numbered(24), ["label-names", "embeddings", "words"]
    given = options(tmp_path, encoder, rows, methods=methods, labels=[4], seeds=[0], templates=ways)
    evaluator = few_labels_study(None, given).evaluator
    assert isinstance(evaluator, FewLabelsEvaluator)
    named = {name: each.options for name, each in evaluator.plan.named.items()}
    assert named == {
        **{f"{method} “{way}”": {"template": way} for method in methods[:2] for way in ways}, "words": {}
    }  # fmt: skip
    report = few_labels(options=FewLabelsOptions(**{**vars(given), "methods": ["label-names"]}))
    assert [x.levels["method"] for x in report.points] == [f"label-names “{way}”" for way in ways]
    assert any("“like {}” by label-names “an arrow {}” " in x.sentence for x in report.effects)
    assert not any("()" in x.sentence for x in report.effects)
    with pytest.raises(ConfigError, match=r"templates has '{text} is {mask}', which suits none of the methods"):
        few_labels(options=FewLabelsOptions(**{**vars(given), "templates": ["{text} is {mask}"]}))


def test_active_learning_has_curves_of_its_own(tmp_path: Path, encoder: Path) -> None:
    """A word that no labelled text has is what `words` is unsure of, so that margin looks for it."""
    names = ["banana"] * 40 + ["fruit"] * 18 + ["time"] * 2
    rows = [{"text": f"an {name} {i}", "label": name} for i, name in enumerate(names)]
    test = written(tmp_path / "test.csv", [{"text": f"like {name}", "label": name} for name in {*names}])
    ways = {"choose": ["random", "margin"], "seeds": [2]}
    given = options(tmp_path, encoder, rows, labels=[4, 8, 12], test=[test], **ways)
    report = few_labels(options=given)
    by = {(x.levels["method"], x.levels["labels"]): x.metrics["accuracy"].value for x in report.points}
    assert {method for method, _ in by} == {"words-random", "words-margin", "blind"}
    assert by["words-margin", 12] == 1.0 > by["words-random", 12]
    of_margin = [{*texts} for texts, _ in FITTED[1:6:2]]
    assert of_margin[0] < of_margin[1] < of_margin[2], "each choice has the ones before it"
    assert of_margin[0] == {*FITTED[0][0]}, "without a classifier both begin with the same rows"
    fitted = len(FITTED)
    few_labels(options=given)
    assert len(FITTED) == fitted
    # of a later cell alone, what the one before it chose is read
    last = tmp_path / "study" / "words-margin-12-labels" / "seed-2" / "cell.json"
    last.unlink()
    few_labels(options=given)
    assert (len(FITTED) == fitted + 1 and FITTED[-1][0] == FITTED[-2 - 1][0]) or len(FITTED[-1][0]) == 12


def test_active_learning_in_cross_validation(tmp_path: Path, encoder: Path) -> None:
    given = options(tmp_path, encoder, numbered(24), labels=[4, 8], seeds=[0], methods=["words"], choose=["both"])
    few_labels(options=given)
    chosen = json.loads((tmp_path / "study" / "words-4-labels" / "seed-0" / "chosen.json").read_text())["next"]
    assert {*chosen} == {"0", "1", "2", "3"} and all(len({*x}) == 8 for x in chosen.values())
    with pytest.raises(ConfigError, match=r"choose.*'closest'"):
        few_labels(options=options(tmp_path, encoder, numbered(24), choose=["closest"]))


def test_several_labels_in_a_cell(tmp_path: Path, encoder: Path) -> None:
    data = several_labels(60)
    rows = [
        {"text": f"{t} {i}", "label": "|".join(x) or "none"}
        for i, (t, x) in enumerate(zip(data.texts, data.labels, strict=True))
    ]
    given = options(tmp_path, encoder, rows, separator="|", methods=["naive-bayes"], labels=[16], seeds=[0])
    report = few_labels(options=given)
    assert report.metric == "f1_macro" and report.points[0].metrics["f1_micro"].value > 0.6


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a", "label": ""}, {"text": "b", "label": ""}], "no row has a label in 'label'; label some"),
        ([{"text": "", "label": "x"}, {"text": "b", "label": "y"}], "line 2: has a label and no text"),
        ([{"text": f"a {i}", "label": "x"} for i in range(9)], "has the label 'x'; there is nothing to tell apart"),
        (
            [{"text": f"a {i}", "label": i / 2} for i in range(9)],
            "numbers with fractions; these methods learn classes",
        ),
        ([{"text": f"a {i}", "label": "xy"[i % 2]} for i in range(4)], "4 labelled rows are too few for 4 labels"),
        ([{"words": "a", "label": "x"}], r"no column 'text'; there are: 'words', 'label'; .* columns={'text': NAME}"),
    ],
)
def test_rows_that_teach_nothing_are_refused(
    tmp_path: Path, encoder: Path, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        few_labels_study(None, options(tmp_path, encoder, rows))


def test_columns_that_look_like_text_and_label_are_named(tmp_path: Path, encoder: Path) -> None:
    rows = [{"id": str(i), "tweet": f"some longer text {i}", "mood": "xy"[i % 2]} for i in range(9)]
    with pytest.raises(DataError, match=r"no column 'text'.*; 'tweet' looks like the text, 'mood' like the label"):
        few_labels_study(None, options(tmp_path, encoder, rows))


def test_labels_that_look_like_several_are_warned_of(tmp_path: Path, encoder: Path) -> None:
    rows = [{"text": f"a {i}", "label": ("x|y", "x", "y", "y|z")[i % 4]} for i in range(24)]
    with pytest.warns(UserWarning, match=r"such as 'x\|y' look like several with '\|' between them, and count as one"):
        few_labels_study(None, options(tmp_path, encoder, rows))


def test_the_plan_of_a_new_study_says_how_long_that_took_on_other_data(tmp_path: Path, encoder: Path) -> None:
    given = options(tmp_path, encoder, numbered(40), methods=["contrastive", "words"], labels=[8, 16], seeds=[0])
    study = few_labels_study(None, given)
    curves = measured_curves()
    minutes = math.ceil(4 * curves.seconds(["contrastive"], [8, 16], 5) / 60)
    assert study.plan([0]).remarks() == [
        f"to evaluate: 4 cells; about {minutes} min for 2 of them, as it took on other data"
    ]


def test_a_class_that_only_the_test_has_is_noted(tmp_path: Path, encoder: Path) -> None:
    test = written(
        tmp_path / "test.csv", [{"text": "like time", "label": "time"}, {"text": "a banana", "label": "banana"}]
    )
    with pytest.warns(UserWarning, match="no labelled row is banana, which test rows are"):  # before the work
        evaluator = few_labels_study(None, options(tmp_path, encoder, numbered(12), test=[test])).evaluator
    assert isinstance(evaluator, FewLabelsEvaluator)
    assert evaluator.rows.notes == ["no labelled row is banana, which test rows are: no method can learn it"]


def test_texts_in_another_language_than_english_are_noted(tmp_path: Path, encoder: Path) -> None:
    rows = [{"text": f"Сегодня хорошая погода и мы идём гулять {i}", "label": "ab"[i % 2]} for i in range(24)]
    with pytest.warns(UserWarning, match=rf"not all texts are English \((ru|cyrillic).*that {encoder.name} reads"):
        evaluator = few_labels_study(None, options(tmp_path, encoder, rows)).evaluator
    assert isinstance(evaluator, FewLabelsEvaluator) and "not all texts are English" in evaluator.notes[-1]


def test_a_slice_of_one_label_answers_it(tmp_path: Path, encoder: Path) -> None:
    rows = [{"text": f"an {i}", "label": "often" if i % 13 else "rare"} for i in range(52)]
    report = few_labels(options=options(tmp_path, encoder, rows, labels=[4], seeds=[0], methods=["naive-bayes"]))
    assert report.points[0].metrics["accuracy"].value == pytest.approx(48 / 52)
    assert report.winners == [], "one method alone is not the best"


def test_a_folder_takes_the_place_of_the_one_of_fetched_data_sets(
    tmp_path: Path, encoder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("huggingface_hub.constants"), "HF_ASSETS_CACHE", str(tmp_path / "none"))
    (tmp_path / "sets" / "emotion").mkdir(parents=True)
    written(tmp_path / "sets" / "emotion" / "rows.csv", numbered(40))
    data = {"fetch": "emotion", "train": "emotion/rows.csv"}
    section = {"methods": ["words"], "labels": [4], "unlabelled": "emotion/rows.csv"}
    config = tmp_path / "few.yaml"
    values = {"model": str(encoder), "output": str(tmp_path / "study"), "data": data, "few_labels": section}
    config.write_text(yaml.safe_dump(values))
    with pytest.raises(SystemExit) as ended:
        main(["few-labels", str(config), "--plan"])
    assert ended.value.code == 2 and "holds emotion/: data.folder in the configuration, or --data FOLDER of" in (
        " ".join(capsys.readouterr().err.split())
    )
    with pytest.raises(SystemExit) as ended:
        main(["few-labels", str(config), "--plan", "--data", str(tmp_path / "sets")])
    assert ended.value.code == 0, capsys.readouterr().err


def test_models_of_methods_are_named_by_what_they_are_for(tmp_path: Path, encoder: Path) -> None:
    with pytest.raises(ConfigError, match=r"a model for 'masked' is needed.*: models= masked=FOLDER \(in the conf"):
        few_labels(options=options(tmp_path, encoder, numbered(40), methods=["prompts"]))
    given = options(tmp_path, encoder, numbered(40), methods=["prompts"], models={"masked": "a/folder"})
    evaluator = few_labels_study(None, given).evaluator
    assert isinstance(evaluator, FewLabelsEvaluator) and evaluator.setting.models == {"masked": "a/folder"}


def test_words_alone_need_no_model_and_more_labels_than_rows_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = written(tmp_path / "rows.csv", numbered(40))
    words = [
        "few-labels",
        "--data",
        data,
        "--methods",
        "naive-bayes",
        "--seeds",
        "1",
        "--output",
        str(tmp_path / "out"),
    ]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--labels", "8,800,8000", "--choose", "stratified,random"])
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    out = " ".join(printed.out.split())
    assert "800, 8,000 labels left out: 30 labelled rows are there to learn from" in out
    assert "naive-bayes-stratified" in out and "naive-bayes-random" in out


def test_test_rows_that_are_all_labelled_rows_are_refused(tmp_path: Path, encoder: Path) -> None:
    data = written(tmp_path / "rows.csv", numbered(40))
    given = FewLabelsOptions(data=[data], test=[data], model=str(encoder), output=str(tmp_path / "out"))
    with pytest.raises(DataError, match="every test row is among the labelled rows too, so there is nothing to test"):
        few_labels_study(None, given)


def test_the_command_prints_the_table_and_the_winner(
    tmp_path: Path, encoder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = written(tmp_path / "rows.csv", numbered(40)), tmp_path / "out"
    words = ["few-labels", "--data", data, "--model", str(encoder), "--methods", "naive-bayes,label-names"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--labels", "8,16", "--seeds", "1", "--output", str(out), "--html", str(tmp_path / "p.html")])
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    assert "With 16 labels, naive-bayes is best (1.000)" in " ".join(printed.out.split()), printed.out
    assert (tmp_path / "p.html").stat().st_size > 10_000
    with pytest.raises(SystemExit) as ended:
        main([*words, "--labels", "8,x", "--output", str(out)])
    assert ended.value.code == 2 and "it must be a whole number" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["few-labels", "--data", data])
    assert "reads texts by a sentence encoder; name one: --model FOLDER" in " ".join(capsys.readouterr().err.split())
