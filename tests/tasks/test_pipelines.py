"""What all pipelines share, on one that needs no weights: shapes, batches, bars, and where an error was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from glassformer import ConfigError, DataError
from glassformer.tasks.pipelines import Pipeline, first_text
from glassformer.tasks.results import Results, Summary


class Shout(Pipeline):
    """Every text in capitals."""

    HEAD = WHY = "none"

    def check(self, options: Mapping[str, Any]) -> None:
        if set(options) - {"end"}:
            raise ConfigError(f"unknown: {options}")

    def answer(self, batch: list[Any], options: Mapping[str, Any], first: int) -> list[Any]:
        self.sizes.append((first, len(batch)))
        if "bad" in batch:
            raise DataError("a bad text")
        return [Results([Summary(text.upper() + options.get("end", ""))]) for text in batch]

    def __init__(self, **options: Any) -> None:
        self.sizes: list[tuple[int, int]] = []
        super().__init__(None, "shout", **options)  # type: ignore[arg-type]


def test_shapes_and_batches() -> None:
    shout = Shout(end="!", batch_size=2)
    assert shout("a") == [{"summary_text": "A!"}] and shout("a", end="?")[0].text == "A?"
    assert shout(["a", "b", "c"]) == [shout("a"), shout("b"), shout("c")] == shout(("a", "b", "c"))
    assert isinstance(shout(["a"]), Results) and isinstance(shout(iter(["a"])), Iterator)
    shout.sizes.clear()
    assert shout.texts(["a", "b", "c", "d", "e"]) == ["A!", "B!", "C!", "D!", "E!"]
    assert shout.sizes == [(0, 2), (2, 2), (4, 1)]
    assert first_text([[Summary("deep")]]) == "deep"


def test_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [str(number) for number in range(30)]
    plain = Shout()(texts)
    assert capsys.readouterr().err == ""  # no terminal, no bar
    monkeypatch.setenv("FORCE_COLOR", "1")  # as in a terminal
    assert Shout()(texts, progress=True) == plain
    captured = capsys.readouterr()
    assert "shout" in captured.err and "30/30" in captured.err and captured.out == ""


def test_where_an_error_was() -> None:
    shout = Shout(batch_size=2)
    with pytest.raises(DataError, match=r"^texts 2 to 3: a bad text"):
        shout(["a", "b", "c", "bad"])
    with pytest.raises(DataError, match=r"^text 3: a bad text"):
        shout(["a", "b", "c", "bad"], batch_size=1)
    with pytest.raises(DataError, match=r"^a bad text"):
        shout("bad")
    answers = shout(iter(["a", "b", "bad"]))
    assert [next(answers), next(answers)] == shout(["a", "b"])
    with pytest.raises(DataError, match="text 2"):
        next(answers)
    for wrong in (0, -1, True, "2", 1.5):
        with pytest.raises(ConfigError, match="batch_size is"):
            shout("a", batch_size=wrong)
    for given in (5, None, b"a", {"a": 1}):
        with pytest.raises(DataError, match="it must be a text, or several"):
            shout(given)
    with pytest.raises(ConfigError, match="unknown"):
        shout(iter(["a"]), nosuch=1)  # now, not when the first answer is taken
