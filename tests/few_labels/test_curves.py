"""Measured curves: those of the package, the nearest point by labels a class, and ranks over data sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from glassformer.errors import ConfigError
from glassformer.few_labels import METHODS
from glassformer.few_labels.curves import FILE, MeasuredCurve, MeasuredCurves, MeasuredData, MeasuredPoint, read_curves


def data(name: str, classes: int, words: float = 20, **values: dict[int | None, float]) -> MeasuredData:
    curves = [
        MeasuredCurve(
            name=method.replace("_", "-"),
            points=[MeasuredPoint(labels=n, value=x, seconds=2) for n, x in points.items()],
        )
        for method, points in values.items()
    ]
    return MeasuredData(
        name=name, about="texts", classes=classes, tested=100, words=words, seeds=3, model="small", metric="f1_macro",
        curves=curves,
    )  # fmt: skip


def test_those_of_the_package_are_of_methods_that_there_are() -> None:
    curves = read_curves()
    assert all({curve.name for curve in x.curves} <= {*METHODS} for x in curves.data_sets)
    assert FILE.stat().st_size < 40_000 and all("/" not in x.model for x in curves.data_sets)


def test_the_nearest_point_is_by_labels_a_class() -> None:
    first = data("first", 6, quick={8: 0.1, 32: 0.2, 128: 0.4})
    assert first.labels_as(64, 2) == 192
    assert first.curves[0].near(first.labels_as(64, 2)).value == 0.4
    assert first.curves[0].near(16).result == "0.20 with 32" or first.curves[0].near(16).result == "0.10 with 8"
    assert first.curves[0].near(17).result == "0.20 with 32"
    assert first.described == "first: texts, 6 labels, 100 test rows, 3 seeds, small"


def test_ranks_are_means_over_data_sets_of_methods_that_all_have() -> None:
    curves = MeasuredCurves(
        data_sets=[
            data("a", 2, quick={8: 0.5}, slow={8: 0.6}),
            data("b", 2, quick={8: 0.9}, slow={8: 0.7}, more={8: 1}),
        ]
    )
    assert [name for name, _ in curves.ranked(8, 2, unlabelled=True)] == ["quick", "slow"]
    assert curves.seconds(["quick", "slow"], [8, 16], 20) == 8


def test_time_is_that_of_texts_that_are_alike_in_length() -> None:
    long = data("long", 2, words=64, quick={8: 0.5})
    long.curves[0].points[0] = replace(long.curves[0].points[0], seconds=30)
    curves = MeasuredCurves(data_sets=[data("short", 2, words=17, quick={8: 0.5}), long])
    assert [curves.seconds(["quick"], [8], words) for words in (0, 10, 17, 60, 64)] == [2, 2, 2, 30, 30]
    assert curves.seconds(["quick"], [8], 34) == 30 and curves.seconds(["quick"], [8], 32) == pytest.approx(2 * 32 / 17)
    assert curves.seconds(["quick"], [8], 128) == 60


def test_methods_are_compared_at_a_number_that_all_have() -> None:
    first = data("first", 2, quick={8: 0.1, 64: 0.42, 128: 0.49}, reader={8: 0.1, 128: 0.45}, names={None: 0.3})
    assert first.common(70, ["quick"]) == 64 and first.common(70, ["quick", "reader"]) == 128
    ranked = [(curve.name, point.value) for curve, point in first.compared(70, ["quick", "reader", "names"])]
    assert ranked == [("quick", 0.49), ("reader", 0.45), ("names", 0.3)]
    apart = data("apart", 2, quick={8: 0.1}, reader={128: 0.45})
    assert [curve.name for curve, _ in apart.compared(10, ["quick", "reader"])] == ["quick"]
    assert MeasuredCurves(data_sets=[first]).ranked(70, 2, unlabelled=True)[0] == ("quick", 0.49)


def test_files_that_hold_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "curves.json").write_text(json.dumps({"data_sets": []}))
    with pytest.raises(ConfigError, match="need data sets"):
        read_curves(tmp_path / "curves.json")
