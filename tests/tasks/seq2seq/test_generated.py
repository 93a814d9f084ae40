"""What is written is evaluated next to references, as the packages count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from glassformer.data.rows import read_rows
from glassformer.errors import ConfigError, DataError
from glassformer.evaluation.evaluate import evaluate
from glassformer.tasks.metrics.bleu import BleuMetric
from glassformer.tasks.predictions import read_predictions, write_predictions
from glassformer.tasks.seq2seq.generated import ReferenceTask, Summarise, Translate, with_decoder_start
from tests.tasks.words import BOS, EOS, judged, loss_of, tiny, words_of

sacrebleu = pytest.importorskip("sacrebleu", reason="needs sacrebleu: pip install 'glassformer[evaluate]'")
rouge_scorer = pytest.importorskip("rouge_score", reason="needs rouge-score: pip install 'glassformer[evaluate]'")

SOURCES = ["the cat sat on a mat", "time flies", "we saw it and they did not know why", "a dog ran home"]
TARGETS = ["a dog ran home", "fruit flies like a banana", "yes", "the cat sat"]
ROWS = read_rows([{"source": s, "target": t} for s, t in zip(SOURCES, TARGETS, strict=True)])


def learner(kind: type[ReferenceTask] = Translate, **options: object) -> ReferenceTask:
    model = tiny("transformer", "translation", "none", decoder_start_token_id=BOS)
    return kind(model, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [1, 3, 16])
def test_it_writes_as_generate_does_and_in_order(batch: int) -> None:
    objective = learner()
    task = objective.for_evaluation(beams=2, max_new_tokens=6, batch=batch)
    records = list(task.predict(ROWS))
    assert [r.row["source"] for r in records] == SOURCES and [r.label for r in records] == [[t] for t in TARGETS]
    for record in records:
        said = objective.model.generate(record.row["source"], num_beams=2, max_new_tokens=6)
        assert record.predicted == said.strip()
    examples = objective.encode(ROWS)
    wanted = [float(loss_of(objective, objective.collate([examples[i]])).detach()) for i in range(len(ROWS))]
    assert [r.loss for r in records] == pytest.approx(wanted, rel=1e-4)
    perplexity = task.metrics(records).values()["perplexity"]
    assert perplexity == pytest.approx(judged(objective, [objective.collate(list(examples))])["perplexity"], rel=1e-4)


def test_figures_are_those_of_the_package() -> None:
    task = learner().for_evaluation(beams=1, max_new_tokens=6)
    found = evaluate("translate", task, ROWS, train=ROWS, resamples=20)
    said = [record.predicted for record in found.predictions]
    bleu, chrf = sacrebleu.metrics.BLEU(), sacrebleu.metrics.CHRF()
    assert found.report.metrics["BLEU"].value == pytest.approx(bleu.corpus_score(said, [TARGETS]).score)
    assert found.report.metrics["chrF"].value == pytest.approx(chrf.corpus_score(said, [TARGETS]).score)
    assert str(bleu.get_signature()) in found.report.methods["BLEU"]
    alone = found.predictions[1].details["metrics"]["chrF"]
    assert alone == pytest.approx(chrf.corpus_score(said[1:2], [TARGETS[1:2]]).score, abs=1e-3)
    assert list(found.report.baselines) == ["copy", "word by word", "nearest"]
    copied = bleu.corpus_score(SOURCES, [TARGETS]).score
    assert found.report.baselines["copy"].metrics["BLEU"].value == pytest.approx(copied)
    # The rows are those that it learnt from, so the nearest pair is the row itself.
    assert found.report.baselines["nearest"].metrics["chrF"].value == pytest.approx(100)
    assert any("greedy search, at most 6 tokens" in note for note in found.report.notes)
    assert any("4 of 4 texts were not at their end" in note for note in found.report.notes)


def test_texts_are_counted_once_and_counts_are_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = learner().for_evaluation(beams=1, max_new_tokens=6)
    counted = []
    counts = BleuMetric.counts

    def count(self: BleuMetric, output: str, references: list[str]) -> Sequence[float]:
        counted.append(output)
        return counts(self, output, references)

    monkeypatch.setattr(BleuMetric, "counts", count)
    predictions = list(task.predict(ROWS))
    scores = task.metrics(predictions)
    write_predictions(tmp_path / "examples.jsonl", predictions)
    saved = task.metrics(read_predictions(tmp_path / "examples.jsonl"))
    assert counted == [x.predicted for x in predictions]
    for x in predictions:
        x.details.pop("counts")  # as earlier versions saved them
    again = task.metrics(predictions)
    assert len(counted) == 2 * len(ROWS)
    assert scores.values() == saved.values() == again.values() and scores.methods == saved.methods
    predictions[0].details["counts"] = [[1.0], [2.0]]
    with pytest.raises(DataError, match="a row has 10 counts, got 1"):
        task.metrics(predictions)


def test_nothing_is_written_twice_where_that_is_asked_for() -> None:
    objective = learner()
    task = objective.for_evaluation(beams=1, max_new_tokens=12, no_repeat_ngram_size=1)
    (note, *_) = task.notes(records := list(task.predict(ROWS)))
    assert note.endswith("at most 12 tokens, no 1-gram twice")
    for record in records:
        written = objective.model.generate(record.row["source"], max_new_tokens=12, no_repeat_ngram_size=1)
        assert record.predicted == written
    loose = objective.for_evaluation(beams=1, max_new_tokens=12)
    assert [r.predicted for r in loose.predict(ROWS)] != [r.predicted for r in records]


def test_sentences_and_several_summaries() -> None:
    rows = read_rows(
        [
            {"source": ["the cat sat on a mat .", "it ran home ."], "target": ["the cat ran home", "it ran"]},
            {"source": ["time flies ."], "target": ["fruit flies like a banana"]},
        ]
    )
    objective = learner(Summarise, max_source=5)
    with pytest.warns(UserWarning, match="1 of 2 sources were cut to 5 tokens"):
        examples = objective.encode(rows)
    assert words_of(examples[0]["input_ids"]).startswith("the cat sat on")
    assert words_of(examples[0]["labels"]) == "the cat ran home </s>"
    task = objective.for_evaluation(beams=2, max_new_tokens=5)
    found = evaluate("summarise", task, rows, train=rows, resamples=20)
    assert found.predictions[0].row["source"] == "the cat sat on a mat . it ran home ."
    assert found.predictions[0].label == ["the cat ran home", "it ran"]
    assert list(found.report.metrics) == ["ROUGE-1 f", "ROUGE-2 f", "ROUGE-L f", "ROUGE-Lsum f", "perplexity"]
    scorer = rouge_scorer.rouge_scorer.RougeScorer(["rougeL"])
    lead = ["the cat sat on a mat .", "time flies ."]
    wanted = [
        scorer.score_multi(references, said)["rougeL"].fmeasure
        for references, said in zip((r.label for r in found.predictions), lead, strict=True)
    ]
    assert found.report.baselines["lead-1"].metrics["ROUGE-L f"].value == pytest.approx(sum(wanted) / 2)
    assert any("1 of 2 sources were cut to 5 tokens" in note for note in found.report.notes)


def test_it_begins_as_it_was_taught() -> None:
    model = tiny("bart", "translation", "bart", decoder_start_token_id=EOS)
    objective = Translate(model)
    begun = with_decoder_start(objective)
    assert begun.generation_config["decoder_start_token_id"] == objective.start == EOS
    assert begun.generation_config["forced_bos_token_id"] == BOS
    assert model.generation_config.get("forced_bos_token_id") is None, "the model itself stays as it is"
    assert begun.network is model.network


def test_what_cannot_be_judged() -> None:
    for options, said in (
        ({"beams": 0}, "beams is 0"),
        ({"batch": "x"}, "batch is 'x'"),
        ({"no_repeat_ngram_size": 0}, "no_repeat_ngram_size is 0"),
        ({"beam": 2}, "nearest: 'beams'"),
    ):
        with pytest.raises(ConfigError, match=said):
            learner().for_evaluation(**options)
    task = learner().for_evaluation()
    for target, said in ((["a", 3], "a list of texts"), ([], "a list of texts"), ([""], "has no token")):
        with pytest.raises(DataError, match=said):
            list(task.predict(read_rows([{"source": "a", "target": target}])))
