"""Systems side by side: the figures of each alone, differences, an end by Ctrl-C, and memory that does not grow."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from glassformer import ConfigError, DataError, UnsupportedError, load
from glassformer.evaluation.compare.texts import Row, System, compare, model_system, named_systems, read_rows
from glassformer.generation.decoding import Interrupted
from glassformer.tasks.generate.long import ChunkAndMerge
from glassformer.tasks.generate.prompts import tldr
from glassformer.tasks.seq2seq.baselines import Lead
from tests.e2e.tiny_models import make_folder

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
        assert scores.seconds_per_row is not None and scores.seconds_per_row > 0
    first, second = found.systems
    assert (first.words, second.words, found.words) == (11, 5, 5)
    assert first.differences == {}
    gap = second.metrics["ROUGE-2 f"].value - first.metrics["ROUGE-2 f"].value
    assert second.differences["ROUGE-2 f"].value == pytest.approx(gap)


def test_costs_are_words_and_seconds_with_those_of_the_references() -> None:
    table = compare(ROWS, LEADS).cost_table()
    headings, rows = table.headings, table.rows
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
    assert found.interrupted and found.rows == 6 and "evaluated before Ctrl-C" in repr(found)
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
    assert data["systems"][1]["metrics"]["ROUGE-1 f"]["value"] == found.systems[1].metrics["ROUGE-1 f"].value
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


TEXT = "time flies like an arrow. fruit flies like a banana."


def test_baselines() -> None:
    (lead,) = named_systems(["lead-1"], "summarization")
    assert (lead.name, lead.write(["One. Two."])) == ("lead-1", ["One."])
    with pytest.raises(ConfigError, match="0 sentences"):
        named_systems(["lead-0"], "summarization")
    with pytest.raises(ConfigError, match="lead-3 is a baseline for summaries"):
        named_systems(["lead-3"], "translation")


@pytest.mark.parametrize("family", ["t5", "bart", "pegasus"])
def test_encoder_decoders_answer(tmp_path: Path, family: str) -> None:
    folder = make_folder(tmp_path / family, family)
    (system,) = named_systems([str(folder)], "summarization", max_new_tokens=5)
    assert system.name == family
    assert system.write([TEXT]) == [load(folder).generate(TEXT, max_new_tokens=5).strip()]
    (system,) = named_systems([str(folder)], "translation", max_new_tokens=5, num_beams=2)
    assert system.write([TEXT]) == [load(folder).generate(TEXT, max_new_tokens=5, num_beams=2).strip()]


def test_what_the_makers_put_before_a_text(tmp_path: Path) -> None:
    told = {"summarization": {"prefix": "a banana "}, "translation_en_to_de": {"prefix": "no "}}
    folder = make_folder(tmp_path / "t5", "t5", task_specific_params=told)
    model = load(folder)
    wanted = model.generate("a banana " + TEXT, max_new_tokens=5).strip()
    assert model_system(model, "summarization", "t5", max_new_tokens=5).write([TEXT]) == [wanted]
    other = model_system(model, "summarization", "t5", max_new_tokens=5, prefix="an arrow ")
    assert other.write([TEXT]) == [model.generate("an arrow " + TEXT, max_new_tokens=5).strip()]


def test_documents_longer_than_the_model_go_through_chunks(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bart", "bart")  # 64 positions
    system = model_system(load(folder), "summarization", "bart", max_new_tokens=5)
    assert isinstance(system.write, ChunkAndMerge) and system.write.room == 64
    (summary,) = system.write([TEXT * 40])
    assert isinstance(summary, str)


def test_a_decoder_goes_on_behind_tldr(shared: Path) -> None:
    model = load(shared / "models" / "stories260k")
    system = model_system(model, "summarization", "stories", max_new_tokens=8)
    text = "Once upon a time there was a little girl. She had a dog."
    assert system.write([text]) == [model.generate(tldr(text), max_new_tokens=8).strip()]
    assert len(system.write([text * 40])) == 1  # 512 positions
    with pytest.raises(UnsupportedError, match="stories continues texts; for translation give"):
        model_system(model, "translation", "stories")
    with pytest.raises(ConfigError, match="stories reads 512 tokens; with 512 new ones there is no room"):
        model_system(model, "summarization", "stories", max_new_tokens=512)


def test_names(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        make_folder(tmp_path / place / "t5", "t5")
    paths = [str(tmp_path / place / "t5") for place in ("a", "b")]
    assert [system.name for system in named_systems(paths, "summarization")] == paths
    with pytest.raises(ConfigError, match="is given twice; give it once"):
        named_systems([paths[0], paths[0]], "summarization")


def test_a_model_that_does_not_write(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bert", "bert")
    with pytest.raises(UnsupportedError, match=r"bert was loaded for .*; to be compared it must write"):
        named_systems([str(folder)], "summarization")


def rows(path: Path, limit: int | None = None) -> list[Row]:
    return list(read_rows(path, "article", "highlights", limit))


def put(path: Path, text: str | bytes) -> Path:
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


CSV = 'id,article,highlights\r\n1,"A ""long"",\ntext",short\r\n\r\n2,b,ü\r\n'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.csv", CSV),
        ("rows.csv.gz", "\ufeff" + CSV),
    ],
)
def test_tables(tmp_path: Path, name: str, text: str) -> None:
    assert rows(put(tmp_path / name, text)) == [Row(2, 'A "long",\ntext', ["short"]), Row(5, "b", ["ü"])]


def test_a_long_text(tmp_path: Path) -> None:
    """Python's own reader stops at 131,072 characters."""
    path = put(tmp_path / "rows.csv", "article,highlights\na," + "b" * 1_400_000)
    assert len(rows(path)[0].references[0]) == 1_400_000


def test_tabs_between_fields_in_which_a_quote_is_a_letter(tmp_path: Path) -> None:
    path = put(tmp_path / "rows.tsv", 'article\tid\thighlights\n"A" cat, it\t1\t"so\n')
    assert rows(path) == [Row(2, '"A" cat, it', ['"so'])]


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"article": ["One.", "Two."], "highlights": ["a", "b"]},
        {"article": "x", "highlights": "y", "z": 1},
    ]
    path = put(tmp_path / "rows.jsonl", "\n\n".join(map(json.dumps, lines)))
    assert rows(path) == [Row(1, "One. Two.", ["a", "b"]), Row(3, "x", ["y"])]


def test_rows_come_one_by_one_and_no_more_than_asked(tmp_path: Path) -> None:
    path = put(tmp_path / "rows.csv", "article,highlights\na,b\nc,d\n" + "broken\n")
    assert [row.text for row in rows(path, 2)] == ["a", "c"]
    assert next(read_rows(path, "article", "highlights")).text == "a"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "rows.csv",
            "article,summary\na,b\n",
            "line 2: no column 'highlights'; there are: 'article', 'summary'",
        ),
        ("rows.csv", "articles,highlights\na,b\n", "line 2: no column 'article'; nearest: 'articles'"),
        ("rows.csv", "article,highlights\na,b\nc\n", "line 3 has 1 fields, the first line names 2"),
        ("rows.csv", "article,highlights\na,b\n1,2,3\n", "line 3 has 3 fields"),
        ("rows.tsv", "article\thighlights\na\tb\t3\n", "line 2 has 3 fields, the first line names 2$"),
        ("rows.csv", "article,highlights\na,b\nc, \n", "line 3: 'highlights' is ' '; it must be a text"),
        ("rows.csv", 'article,highlights\na,b\nc,"d\n', "line 3 cannot be read as a row"),
        ("rows.csv", 'article,highlights\na,"b"c\n', "line 2 cannot be read as a row"),
        ("rows.csv", "article,article\na,b\n", "line 1 names the column 'article' twice"),
        ("rows.csv", "", "holds no row"),
        ("rows.csv", "article,highlights\n", "holds no row"),
        ("rows.csv", b"article,highlights\na,\xff\n", "line 2 is not UTF-8"),
        ("rows.jsonl", '{"article": "a", "highlights": "b"}\n{"article"', "line 2 is not valid JSON: "),
        ("rows.jsonl", "[" * 100_000, "line 1 is not valid JSON"),
        ("rows.jsonl", "[1]", "line 1 is not a JSON object, but \\[1\\]"),
        ("rows.jsonl", '{"article": "a", "highlights": 5}', "line 1: 'highlights' is 5; it must be a text"),
        ("rows.jsonl", '{"article": "a", "highlights": []}', "line 1: 'highlights' is \\[\\]"),
        ("rows.jsonl", '{"article": "a"}', "line 1: no column 'highlights'; there are: 'article'"),
        ("rows.txt", "a", "its name must end in .csv, .tsv, .jsonl, .ndjson"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, name: str, text: str | bytes, said: str) -> None:
    with pytest.raises(DataError, match=said):
        rows(put(tmp_path / name, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be opened"):
        rows(tmp_path / "none.csv")
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match=r"a\.csv"):
        rows(tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(CSV.encode())[:-12])
    with pytest.raises(DataError, match=r"b\.csv\.gz: cannot be read after line"):
        rows(tmp_path / "b.csv.gz")
    with pytest.raises(DataError, match="the limit is 0"):
        rows(put(tmp_path / "c.csv", CSV), 0)
