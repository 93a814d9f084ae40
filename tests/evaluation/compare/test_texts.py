"""Systems that generate texts: the metrics of each, differences, an end by Ctrl-C, and memory that does not grow."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from glassformer import ConfigError, DataError, UnsupportedError, load
from glassformer.evaluation.compare.compare import compare
from glassformer.evaluation.compare.predictors import generator
from glassformer.generation.decoding import Interrupted
from glassformer.tasks.generate.long import ChunkAndMerge
from glassformer.tasks.generate.prompts import tldr
from glassformer.tasks.seq2seq.baselines import Lead
from tests.e2e.tiny_models import make_folder

pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")

ROWS = [
    {
        "article": f"The cat number {i} ran. It was wet. Then it slept. All was well.",
        "highlights": [f"Cat {i} ran and slept."],
    }
    for i in range(10)
]
LEADS = ["lead-3", "lead-1"]


def written(source: str, **options: Any) -> list[str]:
    """What a system generates for one text."""
    rows = [{"article": TEXT, "highlights": "x"}]
    return list(compare({"it": source}, rows, generation={"max_new_tokens": 5}, **options).examples[0].outputs.values())


def test_metrics_are_those_of_each_system_alone() -> None:
    from glassformer.tasks.metrics.rouge import rouge

    found = compare(LEADS, ROWS, batch=3)
    assert found.rows == 10 and [system.name for system in found.systems] == ["lead-3", "lead-1"]
    for scores, system in zip(found.systems, [Lead(3), Lead(1)], strict=True):
        alone = rouge(system([row["article"] for row in ROWS]), [row["highlights"] for row in ROWS])
        assert scores.metrics["ROUGE-1 f"] == alone.rouge1.f
        assert scores.metrics["ROUGE-Lsum recall"] == alone.rougeLsum.recall
        assert scores.seconds_per_row is not None and scores.seconds_per_row > 0
    first, second = found.systems
    assert (first.words, second.words, found.words) == (11, 5, 5)
    assert first.differences == {}
    gap = second.metrics["ROUGE-2 f"].value - first.metrics["ROUGE-2 f"].value
    assert second.differences["ROUGE-2 f"].value == pytest.approx(gap)


def test_costs_are_words_and_seconds_with_those_of_the_references() -> None:
    table = compare(LEADS, ROWS).cost_table()
    headings, rows = table.headings, table.rows
    assert headings == ["", "words", "seconds"]
    assert [row[:2] for row in rows] == [["lead-3", "11.0"], ["lead-1", "5.0"], ["references", "5.0"]]
    assert float(rows[0][2]) > 0 and rows[2][2] == ""


def test_examples_hold_all_that_was_written_about_the_first_rows() -> None:
    (first, second) = compare(LEADS, ROWS, batch=1, examples=2).examples
    assert (first.where, first.text, first.references) == ("the list: row 0", ROWS[0]["article"], ROWS[0]["highlights"])
    assert first.outputs["lead-1"] == "The cat number 0 ran."
    assert second.outputs["lead-3"] == "The cat number 1 ran. It was wet. Then it slept."
    assert compare(LEADS, ROWS, examples=0).examples == []


def test_translations_are_scored_by_bleu_and_chrf() -> None:
    pytest.importorskip("sacrebleu", reason="needs sacrebleu: pip install 'glassformer[evaluate]'")
    from glassformer.tasks.metrics.bleu import bleu, chrf

    rows = [
        {"de": "die Katze", "en": ["the cat is on the mat"]},
        {"de": "die Katze", "en": ["a cat", "the cat is on a mat"]},
    ]
    good = {"good": lambda texts: ["the cat is on mat" for _ in texts]}
    found = compare(good, rows, task="translation", columns={"source": "de", "target": "en"})
    outputs, references = ["the cat is on mat"] * 2, [row["en"] for row in rows]
    assert found.systems[0].metrics == {
        "BLEU": bleu(outputs, references).score,
        "chrF": chrf(outputs, references).score,
    }
    assert "BLEU: nrefs:var" in found.notes[0] and "chrF" in repr(found)


def test_translations_of_two_functions_are_as_pinned() -> None:
    pytest.importorskip("sacrebleu", reason="needs sacrebleu: pip install 'glassformer[evaluate]'")
    rows = [
        {
            "de": f"die Katze {i} sitzt",
            "en": [f"the cat {i} sits", f"cat {i} sat down on {i} mats"][: 1 + i % 2],
        }
        for i in range(12)
    ]

    def replacing(cat: str, sits: str) -> Callable[[list[str]], list[str]]:
        return lambda texts: [text.replace("die Katze", cat).replace("sitzt", sits) for text in texts]

    systems = {"a": replacing("the cat", "sits on it"), "b": replacing("cat", "sat down")}
    found = compare(systems, rows, task="translation", batch=5, columns={"source": "de", "target": "en"})
    a, b = found.systems
    assert found.words == 4.75 and (a.words, b.words) == (6.0, 4.0) and found.shown == {"BLEU": 2, "chrF": 2}
    chrf, difference = b.metrics["chrF"], b.differences["BLEU"]
    assert (chrf.value, chrf.low, chrf.high) == pytest.approx((48.58854965090267, 39.54767524305407, 54.91871147825877))
    assert (difference.value, difference.low, difference.high) == pytest.approx(
        (7.128598780530744, -14.20555490817317, 29.147980523941868)
    )


def test_ctrl_c_keeps_what_was_evaluated() -> None:
    calls = 0

    def write(texts: Sequence[str]) -> list[str]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return Lead(1)(texts)

    found = compare({"lead-3": "lead-3", "slow": write}, ROWS, batch=3)
    assert found.interrupted and (found.rows, found.total) == (6, 10) and "evaluated before Ctrl-C" in repr(found)
    assert found.systems[0].metrics == compare(LEADS, ROWS[:6]).systems[0].metrics


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
    found = compare(LEADS, ROWS, batch=3)
    assert found.rows == 3 and found.interrupted


def test_ctrl_c_before_anything_was_evaluated_is_ctrl_c() -> None:
    def write(texts: Sequence[str]) -> list[str]:
        raise Interrupted(None)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        compare({"slow": write}, ROWS)


def test_memory_does_not_grow_with_the_texts(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        path = tmp_path / f"{count}.csv"
        lines = [f"A cat {i}. {'x' * 100_000}.,A cat." for i in range(count)]
        path.write_text("\n".join(["article,highlights", *lines]))
        tracemalloc.start()
        compare({"first": lambda texts: [text[:9] for text in texts]}, path, batch=4)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(8)
    assert peak(200) - peak(20) < 5_000_000  # 180 more texts have 18 million characters


def test_the_result_is_readable_and_data() -> None:
    found = compare(LEADS, ROWS)
    assert "ROUGE-Lsum" in repr(found) and "differences are to lead-3" in repr(found) and "pysbd" in repr(found)
    assert "difference" not in repr(compare(LEADS[:1], ROWS))
    data = json.loads(json.dumps(found.to_dict()))
    assert data["systems"][1]["metrics"]["ROUGE-1 f"]["value"] == found.systems[1].metrics["ROUGE-1 f"].value
    assert "<table>" in found._repr_html_()
    assert found.finding.startswith("lead-1 has a better ROUGE-L f than lead-3, by 0.100 [")


def test_what_cannot_be_compared() -> None:
    with pytest.raises(DataError, match="no row"):
        compare(LEADS, [])
    with pytest.raises(ConfigError, match="no system"):
        compare([], ROWS)
    with pytest.raises(ConfigError, match="two systems are called 'lead-1'"):
        compare([LEADS[1], LEADS[1]], ROWS)
    with pytest.raises(ConfigError, match=r"task is 'chess'; allowed: .*summarise"):
        compare(LEADS, ROWS, task="chess")
    with pytest.raises(ConfigError, match="batch is 0"):
        compare(LEADS, ROWS, batch=0)
    with pytest.raises(ConfigError, match="'colums' is no option; nearest: 'columns'"):
        compare(LEADS, ROWS, colums={})


TEXT = "time flies like an arrow. fruit flies like a banana."


def test_baselines() -> None:
    found = compare(["lead-1"], [{"article": "One. Two.", "highlights": "One."}])
    assert (found.systems[0].name, found.examples[0].outputs) == ("lead-1", {"lead-1": "One."})
    with pytest.raises(ConfigError, match="0 sentences"):
        compare(["lead-0"], ROWS)
    with pytest.raises(ConfigError, match="lead-3 is a baseline for summaries; it cannot do translation"):
        compare(["lead-3"], ROWS, task="translation")


@pytest.mark.parametrize("family", ["t5", "bart", "pegasus"])
def test_encoder_decoders_answer(tmp_path: Path, family: str) -> None:
    folder = make_folder(tmp_path / family, family)
    assert written(str(folder)) == [load(folder).generate(TEXT, max_new_tokens=5).strip()]
    rows = [{"article": TEXT, "highlights": "x"}]
    options = {"max_new_tokens": 5, "num_beams": 2}
    found = compare([folder], rows, task="translation", generation=options)
    assert found.examples[0].outputs == {family: load(folder).generate(TEXT, **options).strip()}
    assert found.systems[0].cost.parameters == sum(x.numel() for x in load(folder).parameters())


def test_prefixes_of_the_config(tmp_path: Path) -> None:
    stored = {"summarization": {"prefix": "a banana "}, "translation_en_to_de": {"prefix": "no "}}
    folder = make_folder(tmp_path / "t5", "t5", task_specific_params=stored)
    model = load(folder)
    assert written(str(folder)) == [model.generate("a banana " + TEXT, max_new_tokens=5).strip()]
    assert written(str(folder), prefix="an arrow ") == [model.generate("an arrow " + TEXT, max_new_tokens=5).strip()]


def test_documents_longer_than_the_model_go_through_chunks(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bart", "bart")  # 64 positions
    function = generator(load(folder), "summarization", "bart", max_new_tokens=5)
    assert isinstance(function, ChunkAndMerge) and function.room == 64
    (summary,) = function([TEXT * 40])
    assert isinstance(summary, str)


def test_a_decoder_continues_behind_tldr(shared: Path) -> None:
    model = load(shared / "models" / "stories260k")
    function = generator(model, "summarization", "stories", max_new_tokens=8)
    text = "Once upon a time there was a little girl. She had a dog."
    assert function([text]) == [model.generate(tldr(text), max_new_tokens=8).strip()]
    assert len(function([text * 40])) == 1  # 512 positions
    with pytest.raises(UnsupportedError, match="stories continues texts; for translation give"):
        generator(model, "translation", "stories")
    with pytest.raises(ConfigError, match="stories reads 512 tokens; with 512 new ones there is no room"):
        generator(model, "summarization", "stories", max_new_tokens=512)


def test_names(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        make_folder(tmp_path / place / "t5", "t5")
    paths = [str(tmp_path / place / "t5") for place in ("a", "b")]
    found = compare(paths, ROWS[:1], generation={"max_new_tokens": 2})
    assert [system.name for system in found.systems] == paths
    with pytest.raises(ConfigError, match="is given twice; give it once"):
        compare([paths[0], paths[0]], ROWS)


def test_a_model_that_does_not_write(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "bert", "bert")
    with pytest.raises(UnsupportedError, match=r"bert was loaded for .*; to be compared it must write"):
        compare([folder], ROWS)


def texts(path: Path, limit: int | None = None) -> list[tuple[str, str, list[str]]]:
    """Where each row of a file is, its text and its references, as systems are given them."""
    found = compare({"echo": list}, path, examples=100, limit=limit).examples
    return [(row.where.removeprefix(f"{path}: "), row.text, row.references) for row in found]


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
@pytest.mark.filterwarnings("ignore:a reference has no word")
def test_tables(tmp_path: Path, name: str, text: str) -> None:
    assert texts(put(tmp_path / name, text)) == [("line 2", 'A "long",\ntext', ["short"]), ("line 5", "b", ["ü"])]


def test_a_long_text(tmp_path: Path) -> None:
    """Python's own reader stops at 131,072 characters."""
    path = put(tmp_path / "rows.csv", "article,highlights\na," + "b" * 1_400_000)
    assert len(texts(path)[0][2][0]) == 1_400_000


def test_tabs_between_fields_in_which_a_quote_is_a_character(tmp_path: Path) -> None:
    path = put(tmp_path / "rows.tsv", 'article\tid\thighlights\n"A" cat, it\t1\t"so\n')
    assert texts(path) == [("line 2", '"A" cat, it', ['"so'])]


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {"article": ["One.", "Two."], "highlights": ["a", "b"]},
        {"article": ["x"], "highlights": ["y"], "z": 1},
    ]
    path = put(tmp_path / "rows.jsonl", "\n\n".join(map(json.dumps, lines)))
    assert texts(path) == [("line 1", "One. Two.", ["a", "b"]), ("line 3", "x", ["y"])]
    assert texts(path, 1) == [("line 1", "One. Two.", ["a", "b"])]


@pytest.mark.parametrize(
    ("name", "text", "message"),
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
        ("rows.xyz", "a", "it should end in .csv, .tsv, .jsonl, .ndjson"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        texts(put(tmp_path / name, text))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be opened"):
        texts(tmp_path / "none.csv")
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(DataError, match=r"a\.csv"):
        texts(tmp_path / "a.csv")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(CSV.encode())[:-12])
    with pytest.raises(DataError, match=r"b\.csv\.gz: cannot be unpacked"):
        texts(tmp_path / "b.csv.gz")
    with pytest.raises(ConfigError, match="limit is 0"):
        texts(put(tmp_path / "c.csv", CSV), 0)
