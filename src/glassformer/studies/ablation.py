"""Ablation study of a speech recogniser: does fine-tuning help, and does a language model?

                     without LM      with LM          each cell: word and character error rate on unseen recordings
    pretrained       model           model + LM       rows, columns: their paired differences
    fine-tuned       run             run + LM

    runs/homework/   words.ngram   ngram.json       the n-gram model, of the training transcripts alone
                     parts.jsonl                    which recording is in which part
                     pretrained/seed-0/evaluation/test, test+lm/    reports and transcripts; fusion.json: its weights
                     fine-tuned/seed-0/             a run as any, with the same evaluations
                     study.json   study.html

The weights of the language model are tuned for each model on validation recordings, never on test recordings. The
configuration is that of `glassformer train`, with an `AblationPlan` under `study`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from glassformer.data.sequence import RowSequence
from glassformer.errors import ConfigError
from glassformer.evaluation.evaluate import PREDICTIONS, evaluate, file_names
from glassformer.evaluation.runs import load_trained_model, open_run
from glassformer.files import read_json_object
from glassformer.files.atomic import atomic_file, write_json
from glassformer.files.schema import parse
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.store import save_ngram
from glassformer.ngram.words import speech_words
from glassformer.runs.config import RunConfig
from glassformer.runs.data import read_splits, sample_rows
from glassformer.runs.folder import seed_folder
from glassformer.runs.several import refuse_runs
from glassformer.studies.ablation_plan import AblationPlan
from glassformer.studies.ablation_results import (
    FINE_TUNED,
    PRETRAINED,
    TRAINED,
    AblationResults,
    ErrorCounts,
    TunedFusion,
)
from glassformer.studies.overlap import PartOverlap, check_overlap
from glassformer.studies.study import Study, parse_study
from glassformer.studies.training import (
    PlannedStudy,
    PlannedTraining,
    StudyProgress,
    StudyRun,
    StudyTraining,
    base_config,
    lock_folder,
    planned_training,
    trainings_to_do,
)
from glassformer.tasks.predictions import read_predictions
from glassformer.tasks.transcribe.task import Transcribe
from glassformer.tasks.transcribe.tuning import best_fusion, tune_fusion, weight_pairs
from glassformer.tasks.types import Prediction

NGRAM, MADE_OF, PARTS = "words.ngram", "made_of.json", "parts.jsonl"
BEAMS = 5
"""Beam width where `evaluation` names none: a language model has nothing to choose from in a greedy search."""


@dataclass(frozen=True)
class Ablation:
    """An ablation study.

    base: configuration of all runs, its `output` the folder of the study
    """

    base: RunConfig
    plan: AblationPlan

    def runs(self, seeds: Sequence[int] | None = None) -> list[StudyRun]:
        """The trainings, a seed each.

        Args:
            seeds: None = that of the configuration
        """
        name = TRAINED if self.base.model is None else FINE_TUNED
        return [self._run(name, seed) for seed in seeds or [self.base.training.seed]]

    @property
    def pretrained(self) -> StudyRun | None:
        """The model that training begins with; None where it begins with random weights."""
        return None if self.base.model is None else self._run(PRETRAINED, self.base.training.seed)

    def _run(self, name: str, seed: int) -> StudyRun:
        output = str(seed_folder(Path(self.base.output, name), seed))
        config = replace(self.base, output=output, training=replace(self.base.training, seed=seed))
        return StudyRun(name, "train", None, seed, config)

    @cached_property
    def splits(self) -> tuple[RowSequence, RowSequence]:
        """Training and validation rows, the same for all seeds."""
        train, validation = read_splits(self.base, Transcribe)
        assert validation is not None  # `parse_ablation` asks for its files
        return train, validation

    @cached_property
    def test_rows(self) -> dict[str, RowSequence]:
        """The rows of each test set."""
        read = self.base.data.read
        return {name: sample_rows(read(files), self.plan.limit) for name, files in self.plan.test_sets.items()}

    @property
    def parts(self) -> dict[str, RowSequence]:
        """The rows of each part, by its name."""
        return {"train": self.splits[0], "validation": self.splits[1], **self.test_rows}

    @property
    def columns(self) -> dict[str, str]:
        """Column of each role: role → column."""
        return {**Transcribe.COLUMNS, **self.base.data.columns}

    def overlap(self) -> list[PartOverlap]:
        """What the parts have in common. Raises: DataError: a recording is in two of them."""
        return check_overlap(self.parts, self.columns, self.plan.speaker)

    def dry_run(self, seeds: Sequence[int] | None = None) -> PlannedStudy:
        """What would be trained: examples, steps and positions of each run; reads all data, and trains nothing."""
        self.overlap()
        return PlannedStudy(list(self._planned(seeds)), {name: len(rows) for name, rows in self.test_rows.items()})

    def _planned(self, seeds: Sequence[int] | None) -> Iterator[PlannedTraining]:
        for run in self.runs(seeds):
            training = StudyTraining(run.config)
            yield planned_training(run, training.trainer(), finished=training.finished() is not None)

    def run(self, seeds: Sequence[int] | None = None, progress: StudyProgress | None = None) -> AblationResults:
        """Train and evaluate what is missing, see `AblationRunner.run`."""
        return AblationRunner(self, progress or StudyProgress()).run(seeds)


def parse_ablation(values: Mapping[str, Any], output: str | None = None, folder: str | None = None) -> Ablation:
    """An ablation from the keys and values of its YAML file.

    Args:
        output, folder: of the study and of its data files, where they are others than the file says
    Raises: ConfigError: an invalid key or value.
    """
    merged = dict(values)
    section = merged.pop("study", None) or {}
    plan = parse(AblationPlan, {**section, "language_model": section.get("language_model") or {}}, "study")
    if not plan.test_sets:
        raise ConfigError("study.test_sets names no test set; give one, such as test_sets: {test: test.csv}")
    base = base_config(merged, output, folder)
    if base.task != "transcribe":
        raise ConfigError(f"study.language_model is for task: transcribe; this is task: {base.task}")
    if base.data.validation is None or isinstance(base.data.validation, float):
        raise ConfigError(
            "data.validation must name files: on them the weights of the language model are tuned, and they must be "
            "the same for all seeds; glassformer data split makes them"
        )
    return Ablation(replace(base, evaluation={"beams": BEAMS, **base.evaluation}), plan)


def study_of(values: Mapping[str, Any], output: str | None = None, folder: str | None = None) -> Study | Ablation:
    """The study that a configuration describes: an ablation, if its `study` names a language model.

    Raises: ConfigError: no section `study`; and as `parse_ablation` and `parse_study`.
    """
    if "study" not in values:
        raise ConfigError(
            "a study needs a section `study` with what to train on and to evaluate on, as in examples/transfer.yaml; "
            "to train one model: glassformer train"
        )
    refuse_runs(values, "a study")
    section = values["study"]
    is_ablation = isinstance(section, Mapping) and "language_model" in section
    return (parse_ablation if is_ablation else parse_study)(values, output, folder)


# ------------------------------------------------------------------------------------------------- running


class AblationRunner:
    """Trains and evaluates the systems of an ablation."""

    def __init__(self, study: Ablation, progress: StudyProgress) -> None:
        self.study, self.base, self.plan, self.progress = study, study.base, study.plan, progress
        self.folder = Path(study.base.output)

    def run(self, seeds: Sequence[int] | None = None) -> AblationResults:
        """Train and evaluate what is missing; finished trainings and evaluations are not repeated.

        Args:
            seeds: None = that of the configuration
        Raises: ConfigError: the folder holds a run of another configuration. DataError: rows that cannot be read, or a
            recording in two parts. TrainingStopped: by Ctrl-C; what was trained is saved.
        """
        runs = self.study.runs(seeds)
        with lock_folder(self.folder):
            trainings = [StudyTraining(run.config) for run in runs]
            finished = [training.finished() for training in trainings]  # errors first, before hours of training
            overlap = self.study.overlap()
            self.progress.start(f"{trainings_to_do(finished)} on {self._transcripts(len(runs))}")
            self._write_parts()
            self._make_language_model()
            counts, tuned, seconds = list[ErrorCounts](), list[TunedFusion](), 0.0
            if self.study.pretrained is not None:
                self._evaluate(self.study.pretrained, counts, tuned)
            for number, (run, training, facts) in enumerate(zip(runs, trainings, finished, strict=True), start=1):
                if facts is None:
                    self.progress.training(number, len(runs), run)
                    facts = training.train(training.trainer(self.progress.callbacks()))
                seconds += facts["seconds"]
                self._evaluate(run, counts, tuned)
                results = self._results(counts, tuned, overlap, len(runs), seconds)
                results.write(self.folder)
        return results

    def _transcripts(self, trained: int) -> str:
        """What is trained on, and how many transcripts are searched for.

        Args:
            trained: number of trainings
        """
        options, (train, validation) = self.plan.language_model, self.study.splits
        pairs = 1 if self.base.evaluation.get("rescore") else len(weight_pairs(options.alphas, options.betas))
        test = 2 * sum(map(len, self.study.test_rows.values()))  # without and with the language model
        each = pairs * min(options.tune_rows, len(validation)) + test
        models = trained + (self.study.pretrained is not None)
        beams = self.base.evaluation["beams"]
        return f"{len(train):,} recordings; then {each:,} transcripts by {beams} beams of each of {models} models"

    def _write_parts(self) -> None:
        """A line for each recording: its split, its speaker, and its transcript."""
        columns = self.study.columns
        names = dict.fromkeys([columns["audio"], columns["text"], *filter(None, [self.plan.speaker])])
        with atomic_file(self.folder / PARTS) as stream:
            for part, rows in self.study.parts.items():
                for row in iter(rows):
                    values = {name: value for name in names if isinstance(value := row.get(name), str)}
                    stream.write(f"{json.dumps({'part': part, **values}, ensure_ascii=False)}\n".encode())

    def _make_language_model(self) -> None:
        """Train the n-gram model on the transcripts of the training part."""
        options, rows = self.plan.language_model, self.study.splits[0]
        made_of = {"rows": rows.fingerprint, "order": options.order, "min_count": options.min_count}
        note = self.folder / "ngram.json"
        if (self.folder / NGRAM).is_file() and note.is_file() and read_json_object(note, ConfigError) == made_of:
            return
        column = self.study.columns["text"]
        texts = (speech_words(str(row[column] or "")) for row in iter(rows))
        save_ngram(train_ngram(filter(None, texts), options.order, min_count=options.min_count), self.folder / NGRAM)
        write_json(note, made_of)

    def _evaluate(self, run: StudyRun, counts: list[ErrorCounts], tuned: list[TunedFusion]) -> None:
        """Tune the weights of a model, and add the errors of it with and without the language model."""
        task = self._task(run)
        tuned.append(fusion := self._tuned(run, task))
        searches = {False: {}, True: {"language_model": str(self.folder / NGRAM), **fusion.weights}}
        for fused, search in searches.items():
            options = {name: value for name, value in self.base.evaluation.items() if fused or name != "rescore"}
            evaluated = task.for_evaluation(**{**options, **search})
            for name, rows in self.study.test_rows.items():
                predictions = self._predictions(run, evaluated, f"{name}+lm" if fused else name, rows, search)
                errors = evaluated.error_counts(predictions)
                texts = [x.predicted for x in predictions]
                counts.append(ErrorCounts(run.name, fused, run.seed, name, errors, texts))

    def _task(self, run: StudyRun) -> Transcribe:
        if run.name != PRETRAINED:
            task = open_run(run.folder).task
            assert isinstance(task, Transcribe)
            return task
        model = load_trained_model(self.base.model or "", self.base.task, self.base.device)
        # A model hears whole windows, unless it has been trained to hear less.
        options = dict(self.base.task_options)
        if "audio_context" in options:
            options["audio_context"] = "window"
        return Transcribe(model, columns=self.base.data.columns or None, **options)

    def _tuned(self, run: StudyRun, task: Transcribe) -> TunedFusion:
        """The weights that make the fewest word errors on validation recordings."""
        options = self.plan.language_model
        rows = sample_rows(self.study.splits[1], options.tune_rows)
        made_of = {**self._made_of(rows, {}), **asdict(options)}
        path = run.folder / "fusion.json"
        if path.is_file() and (saved := read_json_object(path, ConfigError)).get("made_of") == made_of:
            return TunedFusion(run.name, run.seed, saved["alpha"], saved["beta"], len(rows))
        rescore = bool(self.base.evaluation.get("rescore", False))
        searches = 1 if rescore else len(weight_pairs(options.alphas, options.betas))
        with self.progress.rows(f"tuning of {run.name}", len(rows) * searches) as advance:
            scored = tune_fusion(
                task,
                rows,
                str(self.folder / NGRAM),
                alphas=options.alphas,
                betas=options.betas,
                beams=int(self.base.evaluation["beams"]),
                rescore=rescore,
                progress=advance,
            )
            scores = list(scored)
        best = best_fusion(scores)
        path.parent.mkdir(parents=True, exist_ok=True)
        tried = [{"alpha": x.alpha, "beta": x.beta, "wer": x.wer.value, "cer": x.cer.value} for x in scores]
        write_json(path, {"alpha": best.alpha, "beta": best.beta, "tried": tried, "made_of": made_of})
        return TunedFusion(run.name, run.seed, best.alpha, best.beta, len(rows))

    def _predictions(
        self, run: StudyRun, task: Transcribe, name: str, rows: RowSequence, search: Mapping[str, Any]
    ) -> list[Prediction]:
        """The transcripts of a test set; those that are there already are read, where nothing has changed."""
        folder = run.folder / "evaluation" / name
        made_of = self._made_of(rows, search)
        note = folder / MADE_OF
        if note.is_file() and read_json_object(note, ConfigError) == made_of:
            return read_predictions(folder / PREDICTIONS)
        self.progress.evaluating(run, name, len(rows))
        with self.progress.rows(f"{run.name} on {name}", len(rows)) as advance:
            evaluation = evaluate(
                self.base.task,
                task,
                rows,
                name=run.name,
                files=file_names(rows),
                seed=run.seed,
                baselines=False,
                progress=advance,
            )
        evaluation.save(folder)
        write_json(note, made_of)
        return evaluation.predictions

    def _made_of(self, rows: RowSequence, search: Mapping[str, Any]) -> dict[str, Any]:
        """All that the transcripts of a model depend on."""
        made = {"rows": rows.fingerprint, "model": self.base.model, "task_options": self.base.task_options, **search}
        made |= {"evaluation": self.base.evaluation, "words": self.study.splits[0].fingerprint}
        values: dict[str, Any] = json.loads(json.dumps(made))
        return values

    def _results(
        self,
        counts: list[ErrorCounts],
        tuned: list[TunedFusion],
        overlap: list[PartOverlap],
        planned: int,
        seconds: float,
    ) -> AblationResults:
        return AblationResults(
            counts=list(counts),
            tuned=list(tuned),
            overlap=overlap,
            test_sets={
                name: {"files": file_names(rows), "rows": len(rows)} for name, rows in self.study.test_rows.items()
            },
            references={
                name: [str(row[self.study.columns["text"]]) for row in iter(rows)]
                for name, rows in self.study.test_rows.items()
            },
            normaliser=str(self.base.task_options.get("normaliser", "basic")),
            beams=int(self.base.evaluation["beams"]),
            order=self.plan.language_model.order,
            training_rows=len(self.study.splits[0]),
            planned=planned,
            seconds=seconds,
        )
