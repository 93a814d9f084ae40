"""Predictions of an evaluation in a JSON Lines file, a line for each row.

{"index": 17, "where": "val.txt: line 18", "row": {"text": "i feel numb"}, "label": "sadness", "predicted": "joy",
 "correct": false, "loss": 3.21, "details": {"scores": {"joy": 0.81, "sadness": 0.04}}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from glassformer.data.json_rows import parse_json
from glassformer.errors import ConfigError, DataError
from glassformer.files import open_regular_file, safe_repr
from glassformer.files.atomic import atomic_file
from glassformer.files.schema import parse
from glassformer.tasks.types import Prediction


def total_loss(prediction: Prediction) -> float | None:
    """The loss of a prediction; where tokens are tagged, the sum of theirs."""
    losses = prediction.details.get("losses")
    return prediction.loss if losses is None else sum(x for x in losses if x is not None)


def sort_by_loss(predictions: Iterable[Prediction]) -> list[Prediction]:
    """Sort by loss, the highest first, without those that have none; generated texts by metric, the lowest first."""
    all_rows = list(predictions)
    with_loss = [x for x in all_rows if total_loss(x) is not None]
    if not with_loss:
        with_metric = [x for x in all_rows if x.details.get("metrics")]
        return sorted(with_metric, key=lambda x: next(iter(x.details["metrics"].values())))
    return sorted(with_loss, key=lambda x: -(total_loss(x) or 0.0))


def write_predictions(path: Path, predictions: Iterable[Prediction]) -> None:
    """Write predictions as JSON Lines, one line each."""
    with atomic_file(path) as stream:
        for prediction in predictions:
            line = json.dumps(asdict(prediction), ensure_ascii=False)
            # "replace": a text may hold half a surrogate pair, which UTF-8 cannot write.
            stream.write(line.encode("utf-8", "replace") + b"\n")


def read_predictions(path: Path) -> list[Prediction]:
    """The predictions of a file.

    Raises: DataError: no such file, or a line that is no prediction.
    """
    stream, _ = open_regular_file(path, DataError)
    predictions = []
    with stream:
        for number, line in enumerate(stream, start=1):
            try:
                predictions.append(parse(Prediction, parse_json(line.decode("utf-8"))))
            except (ValueError, RecursionError, ConfigError) as error:
                raise DataError(f"{path}: line {number} is no prediction: {safe_repr(str(error))}") from error
    return predictions


def is_readable(value: object) -> bool:
    """Is an input kept in its prediction? Texts and their parts are; images and waves would be all of the file."""
    parts = value if isinstance(value, list) and value else [value]
    return all(isinstance(part, str) for part in parts)
