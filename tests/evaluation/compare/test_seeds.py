"""Several seeds: their means and intervals, their folders, and one command for all of them."""

from __future__ import annotations

import json
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from glassformer import ConfigError, DataError
from glassformer.evaluation.compare.costs import LatencySummary, read_cost
from glassformer.evaluation.compare.seeds import (
    SeedSummary,
    difference_of,
    load_seed_run,
    mean_of,
    parse_seeds,
    summarise_seeds,
)
from glassformer.evaluation.runs import open_run
from glassformer.runs.folder import seed_folders
from tests.cli.test_train import config, typed
from tests.evaluation.made import make_run

__all__ = ["config"]  # a fixture
stats = pytest.importorskip("scipy.stats", reason="needs scipy: pip install 'glassformer[evaluate]'")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    for seed, right in enumerate((15, 16, 18)):
        make_run(tmp_path / "mood" / f"seed-{seed}", [i < right for i in range(20)], seed=seed, seconds=60.0 + seed)
    return tmp_path / "mood"


def test_means_and_differences_are_those_of_scipy() -> None:
    generator = np.random.default_rng(0)
    for count in (2, 3, 7):
        mine, theirs = generator.normal(size=(2, count)).tolist()
        low, high = stats.t.interval(0.95, count - 1, np.mean(mine), stats.sem(mine))
        found = mean_of(mine)
        assert found.half is not None and found.interval.low == pytest.approx(low)
        assert found.interval.high == pytest.approx(high)
        apart = difference_of(mine, theirs)
        wanted = stats.ttest_ind(mine, theirs, equal_var=False).confidence_interval()
        assert apart is not None and (apart.low, apart.high) == pytest.approx((wanted.low, wanted.high))
    assert mean_of([0.5]).half is None and difference_of([0.5], [0.4, 0.3]) is None
    assert str(difference_of([1.0, 1.0], [0.5, 0.5])) == "0.500 [0.500, 0.500]"
    with pytest.raises(DataError, match="no value"):
        mean_of([])


def test_a_folder_of_seeds(three: Path) -> None:
    assert [path.name for path in seed_folders(three)] == ["seed-0", "seed-1", "seed-2"]
    found = summarise_seeds(three)
    assert found.means["accuracy"].written() == "0.817 ± 0.190"  # 49/60; 4.3027 · 0.0764 / √3
    assert found.baselines["<most> frequent"]["accuracy"].value == 0.25
    assert found.seconds is not None and found.seconds.value == 61
    for words in ("3 seeds", "seed 2", "0.900 [", "training, CPU minutes  2.0", "20 rows of a.csv"):
        assert words in str(found), words

    kept = SeedSummary.load(three / "seeds.json")
    assert kept.to_dict() == found.to_dict() and len(json.dumps(found.to_dict())) < 6_000
    assert json.loads((three / "seeds.json").read_text())["means"]["accuracy"]["half"] == pytest.approx(
        0.1897, abs=1e-4
    )


def test_seeds_of_several_machines_add_up(three: Path, tmp_path: Path) -> None:
    found = summarise_seeds(three)
    other = [load_seed_run(open_run(make_run(tmp_path / f"run-{seed}", [True] * 20, seed=seed))) for seed in (2, 9)]
    merged = found.merged(SeedSummary(name="elsewhere", runs=other))
    assert merged.name == "mood" and merged.seeds == [0, 1, 2, 9]
    assert [run.report.metrics["accuracy"].value for run in merged.runs] == [0.75, 0.8, 1.0, 1.0]


def test_what_cannot_be_summarised(three: Path, tmp_path: Path) -> None:
    runs = summarise_seeds(three).runs
    with pytest.raises(ConfigError, match="seeds 0, 0; one of them is there twice"):
        SeedSummary(name="x", runs=[runs[0], runs[0]])
    other = load_seed_run(open_run(make_run(tmp_path / "tags", [True], task="tag", seed=5)))
    with pytest.raises(ConfigError, match="classify by accuracy and tag by accuracy"):
        SeedSummary(name="x", runs=[runs[0], other])
    with pytest.raises(ConfigError, match="no such folder"):
        summarise_seeds(tmp_path / "nowhere")
    (three / "seeds.json").write_text('{"kind": "seeds", "version": 1, "name": "three", "runs": [{"report": 3}]}')
    with pytest.raises(DataError, match=r"seeds\.json"):
        SeedSummary.load(three / "seeds.json")
    (tmp_path / "tags" / "model").mkdir()
    (tmp_path / "tags" / "model" / "metrics.json").write_text('{"seconds": "long"}')
    with pytest.raises(ConfigError, match="seconds is 'long'"):
        read_cost(tmp_path / "tags")


def test_rows_that_differ_from_seed_to_seed_are_told(three: Path) -> None:
    make_run(three / "seed-3", [True] * 20, seed=3, fingerprint="others")
    assert "each seed was evaluated on other rows" in str(summarise_seeds(three))


@pytest.mark.parametrize(("text", "numbers"), [("3", [0, 1, 2]), ("0,5", [0, 5]), ("7,", [7]), (" 1 , 2 ", [1, 2])])
def test_seeds_as_they_are_typed(text: str, numbers: list[int]) -> None:
    assert parse_seeds(text) == numbers


@pytest.mark.parametrize("text", ["", "-1", "1,1", "a", "1,a", "1.5", ",", "³", "9" * 5_000])
def test_what_are_no_seeds(text: str) -> None:
    with pytest.raises(ConfigError, match="give how many") as caught:
        parse_seeds(text)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", ["0", "00", "1001", "99999999"])
def test_a_number_alone_is_how_many_seeds_and_the_message_says_so(text: str) -> None:
    with pytest.raises(
        ConfigError, match=f"'{text}': a number alone is how many seeds, 1 to 1,000; .* {int(text)},$"
    ) as caught:
        parse_seeds(text)
    assert parse_seeds(str(caught.value).rpartition(" ")[2]) == [int(text)]


def test_latencies_are_summed() -> None:
    found = LatencySummary.of([10.0, 20.0, 30.0, 40.0])
    assert (found.mean, found.p50, found.runs) == (25, 25, 4) and found.p95 == pytest.approx(38.5)
    assert str(found).startswith("25.0 ± 11.2 ms")


def test_one_command_for_several_seeds(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", config, "--column", "label=mood", "--seeds")
    code, out, err = typed(capsys, *words, "2", "-q")
    assert code == 0 and "2 seeds" in out and "seed 1" in out, err
    run = tmp_path / "run"
    first = (run / "seed-0" / "journal.jsonl").read_bytes()
    assert {path.name for path in run.iterdir()} == {"seed-0", "seed-1", "seeds.json"}
    assert "seed: 1" in (run / "seed-1" / "config.yaml").read_text()
    cost = read_cost(run / "seed-0")
    assert cost.seconds and cost.cpu_seconds and cost.steps == 3

    code, out, _ = typed(capsys, *words, "0,1,2", "--json")
    assert code == 0 and json.loads(out)["seeds"] == [0, 1, 2]
    assert (run / "seed-0" / "journal.jsonl").read_bytes() == first, "a finished seed is not trained again"

    code, out, _ = typed(capsys, "evaluate", run)
    assert code == 0 and "3 seeds" in out
    code, out, _ = typed(capsys, "compare", run / "seed-0", run)
    assert code == 0 and "run" in out
    for more, message in (
        (("0", "--lr", "1"), "a number alone is how many seeds"),
        (("0,", "--lr", "1"), "another configuration"),
    ):
        code, _, err = typed(capsys, *words, *more)
        assert code == 2 and message in err and "Traceback" not in err
    code, _, err = typed(capsys, *words, "2", "--output", run / "seed-0")
    assert code == 2 and "holds a run of a single seed already" in err


def test_the_table_of_results_is_made_again_from_what_is_kept(three: Path, tmp_path: Path) -> None:
    script = the_script()
    docs = tmp_path / "docs"
    docs.mkdir()
    page = docs / "results.md"
    places = [f"{script.BEGIN.format(name)}\nold\n{script.END.format(name)}" for name in ("results", "transfer")]
    page.write_text("\n".join(["before", *places, "after\n"]))
    three.rename(emotion := tmp_path / "emotion")
    study = tmp_path / "transfer"
    study.mkdir()
    rows = [["de", "5,000", "0.688 [0.661, 0.714]"], ["fr-125", "125", ""]]
    found = {"table": {"headings": ["trained on", "rows", "de"], "rows": rows}, "sentences": ["Already."]}
    (study / "study.json").write_text(json.dumps(found))
    for folder in (emotion, study):
        assert all(kept.is_file() for kept in script.take(folder, docs / "results"))
    script.redraw(docs)
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("| emotion")]
    assert "**accuracy 0.817 ± 0.190**, within ±" in line, "0.92 lies within the interval: not missed"
    assert "2: 0.900 [" in line and "&lt;most> frequent 0.250" in line and "| 2.0 |" in line
    assert "| CLINC150, within scope | MiniLM, fine-tuned | accuracy ≥ 0.95 | not run yet |" in text

    assert "| de | 5,000 | 0.688 [0.661, 0.714] |\n| fr-125 | 125 |  |\n\nAlready.\n<!-- /transfer -->" in text

    again = page.read_text()
    list(script.take(emotion, docs / "results"))  # the same seeds once more change nothing
    script.redraw(docs)
    assert page.read_text() == again
    with pytest.raises(ConfigError, match="no such folder"):
        list(script.take(tmp_path / "nowhere", docs / "results"))


def the_script() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "results.py"
    spec = util.spec_from_file_location("results_script", path)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module
