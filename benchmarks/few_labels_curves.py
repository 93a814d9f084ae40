"""Learning curves of few labels for `glassformer advise`: from the folders of studies into the package, as JSON.

    python benchmarks/few_labels_curves.py emotion=runs/few_labels github=runs/few_github

A folder is the output of `glassformer few-labels`. What its texts are is in `ABOUT`. Other data sets, which are not
named, stay in the file; `--fresh` leaves them out.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from glassformer.few_labels import find_method
from glassformer.few_labels.curves import (
    FILE,
    MeasuredCurve,
    MeasuredCurves,
    MeasuredData,
    MeasuredPoint,
    read_curves,
)
from glassformer.reports.report import plain
from glassformer.studies.report import StudyPoint, StudyReport

ABOUT = {
    "emotion": "English tweets and their emotion",
    "github": "GitHub issues: bug, feature or question",
    "clinc150": "requests to an assistant and their intent",
}


def measured(name: str, folder: Path) -> MeasuredData:
    """The curves of a study."""
    report = StudyReport.load(folder / "study.json")
    by_method: dict[str, list[StudyPoint]] = {}
    for point in report.points:
        by_method.setdefault(str(point.levels["method"]), []).append(point)
    curves = [
        MeasuredCurve(
            name=method,
            points=[_point(x, report.metric) for x in points],
            unlabelled="unlabelled" in find_method(report.facts["methods"][method]).NEEDS,
        )
        for method, points in by_method.items()
    ]
    return MeasuredData(
        name=name, about=ABOUT[name], classes=len(report.facts["labels"]), tested=report.facts["tested"],
        words=report.facts["words"],
        seeds=len(report.seeds), model=Path(report.facts["model"]).name, metric=report.metric, curves=curves,
    )  # fmt: skip


def _point(point: StudyPoint, metric: str) -> MeasuredPoint:
    number, value = point.levels["labels"], point.metrics[metric]
    assert number is None or isinstance(number, int)
    return MeasuredPoint(
        labels=number, value=_rounded(value.value), low=_rounded(value.low), high=_rounded(value.high),
        seconds=round(point.costs["seconds"].value, 1),
    )  # fmt: skip


def _rounded(x: Any) -> Any:
    return None if x is None else round(float(x), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--fresh", action="store_true", help="leave out data sets that are not named")
    parser.add_argument("--output", type=Path, default=FILE)
    options = parser.parse_args()
    pairs = dict(each.split("=", 1) for each in options.studies)
    known = [] if options.fresh or not options.output.is_file() else read_curves(options.output).data_sets
    remaining = [data for data in known if data.name not in pairs]
    data_sets = [*remaining, *(measured(name, Path(folder)) for name, folder in pairs.items())]
    text = json.dumps(plain(MeasuredCurves(data_sets=data_sets)), indent=1) + "\n"
    options.output.write_text(text, "utf-8")
    print(f"{options.output}: {', '.join(data.described for data in data_sets)}")


if __name__ == "__main__":
    main()
