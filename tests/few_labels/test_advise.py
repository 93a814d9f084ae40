"""Advice on rows of few labels: the branches of the tree, problems, commands that parse, and expectations by curves."""

from __future__ import annotations

import csv
import json
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from glassformer.cli.app import main
from glassformer.data.options import ReadingOptions
from glassformer.errors import ConfigError, DataError
from glassformer.few_labels import advise as module
from glassformer.few_labels.advice import Advice
from glassformer.few_labels.advise import ENGLISH, MULTILINGUAL, advise
from glassformer.few_labels.curves import MeasuredCurves
from glassformer.few_labels.options import AdviceOptions
from glassformer.files.schema import parse

CURVES = parse(
    MeasuredCurves,
    {
        "data_sets": [
            {
                "name": "tweets", "about": "texts and moods", "classes": 4, "tested": 100, "words": 200,
                "seeds": 1, "model": "small",
                "metric": "f1_macro",
                "curves": [
                    {"name": "label-names", "points": [{"labels": None, "value": 0.3}]},
                    {"name": "quick", "points": [
                        {"labels": 8, "value": 0.2, "seconds": 60},
                        {"labels": 64, "value": 0.5, "low": 0.4, "high": 0.6, "seconds": 120},
                    ]},
                    {"name": "reader", "unlabelled": True, "points": [{"labels": 64, "value": 0.9}]},
                ],
            }
        ]
    },
)  # fmt: skip


@pytest.fixture(autouse=True)
def curves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measured_curves", lambda: CURVES)


def write(path: Path, rows: Sequence[Sequence[Any]], headings: Sequence[str] = ("text", "label")) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([headings, *rows])
    return path


def rows_of(labels: Sequence[str], count: int, without: int = 0) -> list[list[str]]:
    labelled = [[f"a text of some kind, number {i}, about the weather", labels[i % len(labels)]] for i in range(count)]
    return [*labelled, *([f"another text without a label, number {i}, in English", ""] for i in range(without))]


def test_few_labels_are_compared_and_unlabelled_rows_used(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", rows_of(["calm", "wild"], 40, without=300))
    advice = advise(path)
    assert (advice.branch, advice.facts.labelled, advice.facts.unlabelled) == ("few", 40, 300)
    assert [step.what for step in advice.steps] == [
        "Compare methods on your rows", "Learn from the rows without labels too", "Label 40 more rows",
        "Then learn from all labels by the best method, and save it",
    ]  # fmt: skip
    compare, learn, save = advice.commands
    assert shlex.split(save)[4:] == [
        *("--task", "classify", "--method", "quick", "--model", ENGLISH, "--output", "runs/rows")
    ]
    assert shlex.split(compare) == [
        *("glassformer", "few-labels", "--data", str(path), "--model", ENGLISH, "--output", "runs/rows-few"),
        *("--methods", "quick,label-names"),
    ]
    assert shlex.split(learn)[6:8] == ["--output", "runs/rows-few-unlabelled"]  # another study than the first
    assert shlex.split(learn)[-2:] == ["--methods", "quick,reader"]
    # 40 rows of 2 labels are 20 a label, as 80 of the 4 that were measured: nearest is 64
    expected = advice.steps[0].expected
    assert expected == "On other data, tweets (f1_macro with 64 labels): quick 0.50, label-names 0.30 without any."
    assert advice.steps[1].expected == "On other data, tweets (f1_macro with 64 labels): reader 0.90, quick 0.50."
    # 8, 16 and all 30 rows: nearest are 8 (60 s), 8 and 64 (120 s); 3 seeds and 4 folds
    assert "; about 48 min" in advice.steps[0].why
    assert (
        advice.finding
        == "40 labelled rows (20 of a label in the median) are few: compare methods on them before you train one."
    )


def curves_of(**methods: dict[str, Any]) -> MeasuredCurves:
    """Curves of one data set of two classes: of each method the values and seconds by the number of labels."""
    known = [
        {"name": name.replace("_", "-"), "unlabelled": name in ("self_training", "uda", "domain_adaptation"),
         "points": [{"labels": n, "value": x, "seconds": y} for n, (x, y) in points.items()]}
        for name, points in methods.items()
    ]  # fmt: skip
    first = {**CURVES.data_sets[0].to_dict(), "classes": 2, "curves": known}
    return parse(MeasuredCurves, {"data_sets": [first]})


def test_methods_that_read_texts_are_tried_where_they_beat_plain_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = curves_of(
        contrastive={32: (0.4, 1), 128: (0.49, 1)}, fine_tuning={32: (0.3, 1), 64: (0.46, 1), 128: (0.44, 1)},
        self_training={128: (0.45, 1)}, uda={128: (0.45, 1)}, domain_adaptation={128: (0.11, 1)},
    )  # fmt: skip
    monkeypatch.setattr(module, "measured_curves", lambda: known)
    step = advise(write(tmp_path / "rows.csv", rows_of(["calm", "wild"], 64, without=300))).steps[1]
    assert step.expected == (
        "On other data, tweets (f1_macro with 128 labels): contrastive 0.49, self-training 0.45, uda 0.45, "
        "fine-tuning 0.44."
    )
    assert shlex.split(step.command)[-1] == "contrastive,fine-tuning,self-training,uda"
    assert "without domain-adaptation, worse than fine-tuning" in step.why


@pytest.mark.parametrize(
    ("seconds", "said", "words"),
    [
        (40, "intervals; about 49 min", []),
        (60, "; with 32 and 48 labels; about 49 min", ["--labels", "32,48"]),
        (400, "; with 1 seed, 48 labels; about 54 min", ["--labels", "48", "--seeds", "1"]),
    ],
)
def test_a_comparison_takes_about_an_hour(
    seconds: float, said: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = curves_of(quick={8: (0.4, 1), 64: (0.5, 1)}, slow={8: (0.4, seconds), 64: (0.5, seconds * 2)})
    monkeypatch.setattr(module, "measured_curves", lambda: known)
    step = advise(write(tmp_path / "rows.csv", rows_of(["calm", "wild"], 64))).steps[0]
    assert step.why.endswith(said) and shlex.split(step.command)[10:] == words


def test_slow_methods_are_compared_after_the_first_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = {8: (0.4, 1), 64: (0.5, 1)}
    known = curves_of(quick=fast, other=fast, slow={8: (0.4, 2_000), 64: (0.5, 2_000)})
    monkeypatch.setattr(module, "measured_curves", lambda: known)
    first, second, *_ = advise(write(tmp_path / "rows.csv", rows_of(["calm", "wild"], 64))).steps
    assert shlex.split(first.command)[-1] == "quick,other" and second.what == "Then compare the slow ones"
    assert "--methods slow" in second.command and second.why.endswith("; with 1 seed, 48 labels; about 2 h 14 min")


def test_without_a_label_some_are_labelled_first(tmp_path: Path) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(f"a text about something, number {i}" for i in range(30)))
    advice = advise(path, AdviceOptions(label_names=["calm", "wild", "odd"]))
    assert advice.branch == "none" and advice.steps[1].what == "Label 24 rows, 8 of each label"
    assert shlex.split(advice.commands[0])[-1] == 'method.labels=["calm", "wild", "odd"]'
    assert "labelled.csv, with the columns text and label" in advice.steps[1].why
    assert advice.steps[1].expected == "On other data, tweets: label-names 0.30 without any, quick 0.50 with 64."
    words = shlex.split(advice.commands[1])
    assert (
        "label-names,quick" in words
        and words[2:4] == ["--data", "labelled.csv"]
        and words[-2:] == ["--unlabelled", str(path)]
    )
    empty = write(tmp_path / "empty.csv", rows_of(["calm"], 0, without=20))
    assert (
        advise(empty).steps[0].what == "Label 8 rows of each label" and f"--data {empty}" in advise(empty).commands[0]
    )


def test_one_label_alone_is_nothing_to_tell_apart(tmp_path: Path) -> None:
    advice = advise(write(tmp_path / "rows.csv", rows_of(["calm"], 20)))
    assert advice.branch == "one" and "all 20 labelled rows are calm" in advice.steps[0].why
    assert advice.commands == [f"glassformer advise {tmp_path / 'rows.csv'}"]


def test_many_labels_are_fine_tuned_on(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", rows_of(["calm", "wild"], 600, without=50))
    advice = advise(path)
    assert advice.branch == "many" and advice.steps[0].what == "Fine-tune an encoder"
    assert shlex.split(advice.commands[0])[:4] == ["glassformer", "train", "--data", str(path)]
    assert "--skip-bad-rows" in advice.commands[0], "training refuses rows without a label"
    rare = advise(write(tmp_path / "rare.csv", [*rows_of(["calm", "wild"], 600), ["a text of a rare kind", "odd"]]))
    assert rare.steps[-1].what == "Label 7 more rows, so that each label has 8" and "odd" in rare.steps[-1].why


def test_conflicts_and_spellings_come_first(tmp_path: Path) -> None:
    rows = [*rows_of(["calm", "wild"], 40), ["one text twice, with two labels", "calm"]]
    rows += [["one text twice, with two labels", "wild"], ["a text of another spelling", "Calm"]]
    advice = advise(write(tmp_path / "rows.csv", rows))
    assert [x.what for x in advice.steps[:2]] == ["Decide which label is right", "Write each label in one way"]
    assert advice.steps[0].command.startswith("glassformer data inspect")
    assert advice.facts.problems == {"conflict": 1, "repeat": 1, "spelling": 1}


def test_separators_are_seen_and_named_in_commands(tmp_path: Path) -> None:
    advice = advise(write(tmp_path / "rows.csv", rows_of(["bug|docs", "bug", "docs", "docs|wish"], 40)))
    assert advice.facts.several and advice.facts.labels == {"docs": 30, "bug": 20, "wish": 10}
    assert """--set 'task_options.separator="|"'""" in advice.commands[-1]
    assert "--separator '|'" in advice.commands[0] and any("are read as several" in note for note in advice.notes)
    plain = advise(write(tmp_path / "plain.csv", rows_of(["Sci/Tech", "World", "rock-and-roll"], 40)))
    assert not plain.facts.several and len(plain.facts.labels) == 3


def test_a_plain_column_of_labels_is_found_and_others_are_named(tmp_path: Path) -> None:
    rows = [[str(i), f"some text about the weather, number {i}", "calm" if i % 2 else "wild", ""] for i in range(40)]
    rows += [[str(i), f"another text, number {i}", "", ""] for i in range(40, 60)]
    advice = advise(write(tmp_path / "rows.csv", rows, ("id", "tweet", "mood", "note")))
    assert advice.facts.guessed and advice.facts.labels == {"wild": 20, "calm": 20}
    assert "--column text=tweet --column label=mood" in advice.commands[0]
    assert "labels from 'mood' (a guess; another: --column label=NAME)" in advice.heading
    two = advise(
        write(
            tmp_path / "two.csv",
            [[*row, "ab"[i % 2]] for i, row in enumerate(rows)],
            ("id", "tweet", "mood", "note", "part"),
        )
    )
    assert (
        two.branch == "none"
        and "no column 'label': if labels are in one of 'id', 'mood', 'note', 'part'" in two.heading
    )


def test_an_export_of_a_spreadsheet_is_read_as_it_is(tmp_path: Path) -> None:
    """Marks, semicolons, quotes, numbers of rows, dates, and columns behind the last one that have no name."""
    path = tmp_path / "export.csv"
    names = ["angry", "glad", "sad"]
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=";", quoting=csv.QUOTE_ALL, lineterminator="\r\n")
        writer.writerow(["ID", "Subject", "Comment", "Mood", "Date", "Score", "", ""])
        for i in range(300):
            mood = names[i % 3] if i < 64 else ""
            row = [i, "hello", f"it is; the {i}th\ncomment", mood, f"2024-01-{i % 28 + 1:02}", f"{i % 9},5", "", ""]
            writer.writerow(row)
    advice = advise(path, reading=ReadingOptions(delimiter=";"))
    facts = advice.facts
    assert facts.columns == {"text": "Comment", "label": "Mood"} and (facts.labelled, facts.unlabelled) == (64, 236)
    assert facts.labels == {"angry": 22, "glad": 21, "sad": 21}
    assert "--column text=Comment --column label=Mood --delimiter ';'" in advice.steps[0].command
    again = shlex.split(advice.steps[0].command)[1:]
    with pytest.raises(SystemExit, match="0"):
        main([*again, "--plan", "--methods", "naive-bayes", "--model", "", "--output", str(tmp_path / "few")])


@pytest.mark.parametrize("name", ["NaN", "n/a", "None"])
def test_labels_that_look_missing_are_named_first(name: str, tmp_path: Path) -> None:
    rows = [*rows_of(["a", "b"], 40), *([f"another text, number {i}", name] for i in range(30))]
    step = advise(write(tmp_path / "rows.csv", rows)).steps[0]
    assert step.what.startswith(f"Empty the cells of {name}") and f"rows whose label is {name}: 30" in step.why


def test_languages_choose_the_encoder(tmp_path: Path) -> None:
    german = [[f"Ein Mann mit einem Hut steht auf der Straße, Nummer {i}", "m"] for i in range(20)]
    english = [[f"A woman with a hat is standing in the street, number {i}", "w"] for i in range(20)]
    path = write(tmp_path / "rows.csv", german + english)
    advice = advise(path)
    assert {*advice.facts.languages} == {"de", "en"} and advice.model == MULTILINGUAL
    own = advise(path, AdviceOptions(model="runs/own"))
    assert own.model == "runs/own" and any("check that runs/own reads them" in note for note in own.notes)


def test_scripts_are_told_apart_without_an_identifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "py3langid.langid", None)
    cyrillic = [[f"чоловік у капелюсі стоїть на вулиці {i}", "m"] for i in range(20)]
    advice = advise(write(tmp_path / "rows.csv", [*cyrillic, *rows_of(["calm"], 20)]))
    assert advice.facts.scripts and {*advice.facts.languages} == {"cyrillic", "latin"} and advice.model == MULTILINGUAL
    assert any("glassformer[clean]" in note for note in advice.notes)


def test_150_classes_and_long_texts_change_the_command(tmp_path: Path) -> None:
    rows = [[f"{'words ' * 120} number {i}", f"class {i % 150}"] for i in range(1500)]
    advice = advise(write(tmp_path / "rows.csv", rows))
    words = shlex.split(advice.commands[0])
    assert "--set method.max_tokens=512" in advice.commands[-1]
    assert words[words.index("--labels") + 1] == "150,300,600" and words[words.index("--max-tokens") + 1] == "512"


def test_tens_of_thousands_of_rows_take_seconds(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", rows_of(["calm", "wild"], 60, without=50_000))
    start = time.process_time()
    assert advise(path).facts.unlabelled == 50_000
    assert time.process_time() - start < 20


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([["", "calm"], ["b", "wild"]], {}, "has a label and no text"),
        ([["a", "0.5"], ["b", "1.5"]], {}, "the labels are numbers with fractions"),
        ([["a", "calm"], ["b", "wild"]], {"columns": {"label": "mood"}}, "no column 'mood'"),
        ([["", ""]], {}, "no row has a text in 'text'"),
        ([["a", "calm"], ["b", "wild"]], {"label_names": ["x"]}, "label_names= are of labels that no row has yet"),
        ([["a", ""], ["b", ""]], {"label_names": ["x"]}, "label_names= is x alone; there is nothing to tell apart"),
    ],
)
def test_bad_rows_are_refused(rows: list[list[str]], options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises((ConfigError, DataError), match=message):
        advise(write(tmp_path / "rows.csv", rows), AdviceOptions(**options))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "rows.csv", rows_of(["calm", "wild"], 40, without=300), ("tweet", "mood"))
    page = tmp_path / "page.html"
    options = [str(path), "-c", "text=tweet", "-c", "label=mood", "--delimiter", ",", "--html", str(page)]
    with pytest.raises(SystemExit, match="0"):
        main(["advise", *options])
    shown = capsys.readouterr().out
    assert "what to do next" in shown and "--column text=tweet --column label=mood --delimiter ," in shown
    assert page.stat().st_size > 10_000
    with pytest.raises(SystemExit, match="0"):
        main(["advise", *options, "--json"])
    advice = advise(path, AdviceOptions(columns={"text": "tweet", "label": "mood"}), ReadingOptions(delimiter=","))
    assert Advice.from_dict(json.loads(capsys.readouterr().out)).commands == advice.commands
    assert [(x.title, x.folded) for x in advice.charts()] == [("Other data: tweets", False)]
