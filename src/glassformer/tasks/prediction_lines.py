"""Predictions of a pipeline in a file, one JSON line per text: {"text": …, "results": …}.

    file = PredictionLines("out.jsonl", texts, PredictionFileOptions(resume=True))
    file.write(pipe(iter(file.missing)))

A line is written as soon as its text is predicted, so that a stopped run loses none, and continues after the last one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from glassformer.errors import DataError
from glassformer.files import as_path, error_reason
from glassformer.tasks.pipeline_options import PredictionFileOptions


class PredictionLines:
    """A file of predictions. An incomplete last line is cut off.

    texts: all that the file is to have · missing: those that it does not have yet

    Args:
        options: whether an existing file is resumed or overwritten.
    Raises: DataError: the file exists without one of these, belongs to other texts, or cannot be written.
    """

    def __init__(self, path: str | Path, texts: Sequence[Any], options: PredictionFileOptions) -> None:
        self.path, self.texts = as_path(path), list(texts)
        self._anew = options.overwrite or not self.path.exists()
        self.missing = self.texts[self._count_done(options) :]

    def _count_done(self, options: PredictionFileOptions) -> int:
        output = self.path
        if output.is_dir() or not output.absolute().parent.is_dir():
            raise DataError(f"{output}: cannot be written; name a file in a folder that exists")
        if self._anew:  # fails now, before the work, where writing is not allowed, and leaves all as it is
            there = output.exists()
            output.open("ab").close()
            if not there:
                output.unlink()
            return 0
        if not options.resume:
            again = "--resume continues after its last line, --overwrite replaces it"
            raise DataError(f"{output}: already exists; {again}")
        content = output.read_bytes()
        complete = content[: content.rfind(b"\n") + 1]
        try:
            predicted = [json.loads(line)["text"] for line in complete.decode("utf-8").split("\n")[:-1]]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{output}: is not a file of predictions; --overwrite replaces it") from error
        if predicted != self.texts[: len(predicted)]:
            raise DataError(f"{output}: holds predictions for other texts; name another file, or give --overwrite")
        if len(complete) < len(content):
            os.truncate(output, len(complete))
        return len(predicted)

    def write(self, predictions: Iterable[Any]) -> int:
        """Append the predictions for the missing texts, each as it comes. Returns: how many were written.

        Raises: DataError: the disk is full.
        """
        written = 0
        try:
            with self.path.open("w" if self._anew else "a", encoding="utf-8") as file:
                for text, prediction in zip(self.missing, predictions, strict=True):
                    file.write(json_line(text, prediction) + "\n")
                    file.flush()  # an interrupt loses no finished prediction
                    written += 1
        except OSError as problem:
            if problem.filename is not None:  # a file that was to be read; writing names none
                raise
            reason = f"cannot be written: {error_reason(problem)}; --resume continues after the last prediction in it"
            raise DataError(f"{self.path}: {reason}") from problem
        return written


def json_line(text: Any, prediction: Any) -> str:
    """A text and its prediction as a line of JSON."""

    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):  # vectors
            return value.tolist()
        return [plain(item) for item in value] if isinstance(value, list) else dict(value)

    return json.dumps({"text": text, "results": plain(prediction)}, ensure_ascii=False)
