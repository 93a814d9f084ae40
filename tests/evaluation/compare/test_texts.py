"""Systems side by side: the figures of each alone, differences, an end by Ctrl-C, and memory that does not grow."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Sequence

import pytest

from glassformer import ConfigError, DataError
from glassformer.evaluation.compare.texts import Row, System, compare
from glassformer.generation.decoding import Interrupted
from glassformer.tasks.seq2seq.baselines import Lead

pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")

ROWS = [
    Row(
        i + 2,
        f"The cat number {i} ran. It was wet. Then it slept. All was well.",
        [f"Cat {i} ran and slept."],
    )
    for i in range(10)
]
LEADS = [System("lead-3", Lead(3)), System("lead-1", Lead(1))]


def test_figures_are_those_of_each_system_alone() -> None:
    from glassformer.tasks.metrics.rouge import rouge

    found = compare(ROWS, LEADS, batch=3)
    assert found.rows == 10 and [system.name for system in found.systems] == ["lead-3", "lead-1"]
    for scores, system in zip(found.systems, LEADS, strict=True):
        alone = rouge(system.write([row.text for row in ROWS]), [row.references for row in ROWS])
        assert scores.metrics["ROUGE-1 f"] == alone.rouge1.f
        assert scores.metrics["ROUGE-Lsum recall"] == alone.rougeLsum.recall
        assert scores.seconds_a_row is not None and scores.seconds_a_row > 0
    first, second = found.systems
    assert (first.words, second.words, found.words) == (11, 5, 5)
    assert first.differences == {}
    gap = second.metrics["ROUGE-2 f"].value - first.metrics["ROUGE-2 f"].value
    assert second.differences["ROUGE-2 f"].value == pytest.approx(gap)


def test_costs_are_words_and_seconds_with_those_of_the_references() -> None:
    headings, rows = compare(ROWS, LEADS).costs()
    assert headings == ["", "words", "seconds"]
    assert [row[:2] for row in rows] == [["lead-3", "11.0"], ["lead-1", "5.0"], ["references", "5.0"]]
    assert float(rows[0][2]) > 0 and rows[2][2] == ""


def test_examples_hold_all_that_was_written_about_the_first_rows() -> None:
    (first, second) = compare(ROWS, LEADS, batch=1, examples=2).examples
    assert (first.line, first.text, first.references) == (2, ROWS[0].text, ROWS[0].references)
    assert first.outputs["lead-1"] == "The cat number 0 ran."
    assert second.outputs["lead-3"] == "The cat number 1 ran. It was wet. Then it slept."
    assert compare(ROWS, LEADS, examples=0).examples == []


def test_translations_are_judged_by_bleu_and_chrf() -> None:
    pytest.importorskip("sacrebleu", reason="needs sacrebleu: pip install 'glassformer[evaluate]'")
    from glassformer.tasks.metrics.bleu import bleu, chrf

    good = System("good", lambda texts: ["the cat is on mat" for _ in texts])
    rows = [
        Row(1, "die Katze", ["the cat is on the mat"]),
        Row(2, "die Katze", ["a cat", "the cat is on a mat"]),
    ]
    found = compare(rows, [good], task="translation")
    outputs, references = good.write(["", ""]), [row.references for row in rows]
    assert found.systems[0].metrics == {
        "BLEU": bleu(outputs, references).score,
        "chrF": chrf(outputs, references).score,
    }
    assert "BLEU: nrefs:var" in found.notes[0] and "chrF" in repr(found)


def test_ctrl_c_keeps_what_was_judged() -> None:
    calls = 0

    def write(texts: Sequence[str]) -> list[str]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return Lead(1)(texts)

    found = compare(ROWS, [LEADS[0], System("slow", write)], batch=3)
    assert found.interrupted and found.rows == 6 and "judged before Ctrl-C" in repr(found)
    assert found.systems[0].metrics == compare(ROWS[:6], LEADS).systems[0].metrics


def test_ctrl_c_while_rows_are_counted_leaves_no_half_row(monkeypatch: pytest.MonkeyPatch) -> None:
    from glassformer.tasks.metrics.rouge import RougeMetric

    added = 0
    add = RougeMetric.add

    def interrupted(self: RougeMetric, output: str, references: str | Sequence[str]) -> None:
        nonlocal added
        added += 1
        if added == 9:  # the first row of the second batch was counted for one system
            raise KeyboardInterrupt
        add(self, output, references)

    monkeypatch.setattr(RougeMetric, "add", interrupted)
    found = compare(ROWS, LEADS, batch=3)
    assert found.rows == 3 and found.interrupted


def test_ctrl_c_before_anything_was_judged_is_ctrl_c() -> None:
    def write(texts: Sequence[str]) -> list[str]:
        raise Interrupted(None)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        compare(ROWS, [System("slow", write)])


def test_memory_does_not_grow_with_the_texts() -> None:
    def rows(count: int) -> Iterator[Row]:
        for i in range(count):
            yield Row(i, f"A cat {i}. " + "x" * 100_000 + ".", ["A cat."])

    def peak(count: int) -> int:
        tracemalloc.start()
        compare(rows(count), [System("first", lambda texts: [text[:9] for text in texts])], batch=4)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(8)
    assert peak(200) - peak(20) < 5_000_000  # 180 more texts have 18 million letters


def test_the_result_is_readable_and_data() -> None:
    found = compare(ROWS, LEADS)
    assert "ROUGE-Lsum" in repr(found) and "differences are to lead-3" in repr(found) and "pysbd" in repr(found)
    assert "difference" not in repr(compare(ROWS, LEADS[:1]))
    data = json.loads(json.dumps(found.to_dict()))
    assert data["systems"][1]["figures"]["ROUGE-1 f"]["value"] == found.systems[1].metrics["ROUGE-1 f"].value
    assert "<table>" in found._repr_html_()


def test_progress() -> None:
    done: list[int] = []
    compare(ROWS, LEADS, batch=4, progress=done.append)
    assert done == [4, 4, 2]


def test_what_cannot_be_compared() -> None:
    with pytest.raises(DataError, match="no row"):
        compare([], LEADS)
    with pytest.raises(ConfigError, match="no system"):
        compare(ROWS, [])
    with pytest.raises(ConfigError, match="two systems are called 'lead-1'"):
        compare(ROWS, [LEADS[1], LEADS[1]])
    with pytest.raises(ConfigError, match=r"the task is 'chess'; .* summarization or translation"):
        compare(ROWS, LEADS, task="chess")
    with pytest.raises(ConfigError, match="batch is 0"):
        compare(ROWS, LEADS, batch=0)
    with pytest.raises(DataError, match=r"few gave \['one'\] for 8 texts"):
        compare(ROWS, [System("few", lambda texts: ["one"])])

    def fails(texts: Sequence[str]) -> list[str]:
        raise DataError("too long")

    with pytest.raises(DataError, match="bad, about the rows of lines 2 to 9: too long"):
        compare(ROWS, [System("bad", fails)])
