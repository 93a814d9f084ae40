"""Numbers of comparisons, pinned: computed when runs and texts were compared by two implementations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from glassformer.cli.compare import compare
from glassformer.evaluation.runs import TrainedRun
from tests.evaluation.made import AccuracyTask, make_run

FIRST = (0.5, 0.3868750000000001, 0.6381249999999998)
SECOND = (0.75, 0.6, 0.875)
DIFFERENCE = (0.25, 0.125, 0.37500000000000006)
MEAN = (0.6, 0.35158622882496704, 0.8484137711750329)
WELCH = (0.21666666666666679, 0.009332484296031868, 0.42400084903730173)


def near(value: float, low: float | None, high: float | None) -> Any:
    return {"value": pytest.approx(value, abs=1e-12), "low": pytest.approx(low), "high": pytest.approx(high)}


def compared(capsys: pytest.CaptureFixture[str], systems: list[str], **options: Any) -> dict[str, Any]:
    compare(systems, json=True, **options)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_summaries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")
    path = tmp_path / "rows.csv"
    lines = [
        f"Cat {i} ran. It was {'wet ' * (i % 3)}here. Then it slept. All was well.,"
        f"Cat {i} {'slept' if i % 2 else 'ran'}."
        for i in range(9)
    ]
    path.write_text("\n".join(["article,highlights", *lines]))
    found = compared(capsys, ["lead-3", "lead-1"], data=path, batch=4, examples=1)
    three, one = found["systems"]
    assert (found["rows"], found["words"], three["words"], one["words"]) == (9, 3.0, 10.0, 3.0)
    assert three["differences"] == {} and len(three["metrics"]) == len(one["differences"]) == 12
    assert three["metrics"]["ROUGE-2 f"] == near(0.28451178451178455, 0.22121212121212122, 0.3434343434343434)
    assert one["metrics"]["ROUGE-1 precision"] == near(0.8518518518518517, 0.7407407407407407, 0.9629629629629629)
    assert one["differences"]["ROUGE-1 f"] == near(0.38848188848188836, 0.27369251119251115, 0.4953347578347581)
    assert one["differences"]["ROUGE-Lsum recall"] == near(
        -0.14814814814814825, -0.2592592592592593, -0.03703703703703709
    )
    assert found["shown"] == dict.fromkeys(("ROUGE-1 f", "ROUGE-2 f", "ROUGE-L f", "ROUGE-Lsum f"), 3)
    assert found["notes"][0].startswith("ROUGE (F): words not stemmed, by rouge-score")
    assert found["examples"][0]["outputs"] == {
        "lead-3": "Cat 0 ran. It was here. Then it slept.",
        "lead-1": "Cat 0 ran.",
    }


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrainedRun, "task_for_evaluation", lambda self, **options: AccuracyTask())


@pytest.mark.usefixtures("no_model")
def test_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = make_run(tmp_path / "small", [i % 2 == 0 for i in range(40)], seconds=90)
    large = make_run(tmp_path / "large", [i % 4 != 1 for i in range(40)])
    found = compared(capsys, [str(small), str(large)])
    first, second, dummy = found["systems"]
    assert first["metrics"]["accuracy"] == near(*FIRST)
    assert second["metrics"]["accuracy"] == near(*SECOND)
    assert second["differences"]["accuracy"] == near(*DIFFERENCE)
    assert dummy["differences"]["accuracy"] == near(-0.5, -0.6, -0.4) and dummy["seeds"] == 0
    assert (found["metric"], found["higher"], found["methods"]) == ("accuracy", True, {"accuracy": "by hand"})
    assert first["cost"] == {
        "seconds": 90.0, "cpu_seconds": 180.0, "steps": 60, "precision": None, "parameters": 1234,
        "bytes": first["cost"]["bytes"], "weights": None, "flops": None, "read": None,
    }  # fmt: skip
    assert (first["rows"], first["seconds_per_row"]) == (40, 0.05)
    assert found["caption"] == (
        "classify, by accuracy: small, large; differences are to small, in brackets 95% intervals over rows"
    )


@pytest.mark.usefixtures("no_model")
def test_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, counts in (("a", (10, 12, 14)), ("b", (15, 16, 18))):
        for seed, right in enumerate(counts):
            make_run(tmp_path / name / f"seed-{seed}", [i < right for i in range(20)], seed=seed, seconds=30)
    a, b, _ = compared(capsys, [str(tmp_path / "a"), str(tmp_path / "b")])["systems"]
    assert a["metrics"]["accuracy"] == near(*MEAN)
    assert b["differences"]["accuracy"] == near(*WELCH)
