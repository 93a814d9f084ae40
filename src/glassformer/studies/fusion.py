"""Language model fusion as a factor of a study: an n-gram model of the training transcripts, its weights tuned.

    words.ngram   ngram.json                   the model, of the training transcripts alone, and what it was made of
    parts.jsonl                                which recording is in which part
    fine-tuned/seed-0/fusion.json              the weights of a recogniser, and those that were tried

The weights are tuned for each recogniser on validation recordings, never on test recordings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from glassformer.data.sequence import RowSequence
from glassformer.errors import ConfigError
from glassformer.files import read_json_object
from glassformer.files.atomic import atomic_file, write_json
from glassformer.ngram.kneser_ney import train_ngram
from glassformer.ngram.store import save_ngram
from glassformer.ngram.words import speech_words
from glassformer.runs.config import RunConfig
from glassformer.runs.data import sample_rows
from glassformer.studies.overlap import PartOverlap, check_overlap
from glassformer.studies.plan import FusionOptions
from glassformer.studies.study import StudyProgress
from glassformer.tasks.transcribe.task import Transcribe
from glassformer.tasks.transcribe.tuning import best_fusion, tune_fusion, weight_pairs

NGRAM, PARTS, WEIGHTS = "words.ngram", "parts.jsonl", "fusion.json"
BEAMS = 5
"""Beam width where `evaluation` names none: a language model has nothing to choose from in a greedy search."""


@dataclass
class Fusion:
    """The language model of a study, and the weights that each recogniser uses it with.

    base: configuration of all runs
    parts: name → rows; `train` and `validation` first
    speaker: the column of the speaker, if there is one
    """

    options: FusionOptions
    base: RunConfig
    parts: Mapping[str, RowSequence]
    speaker: str | None = None
    _is_made: bool = field(default=False, init=False)

    @property
    def columns(self) -> dict[str, str]:
        """Column of each role: role → column."""
        return {**Transcribe.COLUMNS, **self.base.data.columns}

    @property
    def tuning_rows(self) -> RowSequence:
        """The validation recordings that weights are tuned on."""
        return sample_rows(self.parts["validation"], self.options.tune_rows)

    @property
    def searches(self) -> int:
        """How many searches through the validation recordings tuning takes."""
        rescore = self.base.evaluation.get("rescore")
        return 1 if rescore else len(weight_pairs(self.options.alphas, self.options.betas))

    @property
    def path(self) -> Path:
        return Path(self.base.output, NGRAM)

    def overlap(self) -> list[PartOverlap]:
        """What the parts have in common. Raises: DataError: a recording is in two of them."""
        return check_overlap(self.parts, self.columns, self.speaker)

    def made_of(self) -> dict[str, Any]:
        """All that the weights of a recogniser depend on, besides itself."""
        return {
            "words": self.parts["train"].fingerprint,
            "tuning": self.tuning_rows.fingerprint,
            **asdict(self.options),
        }

    def search(
        self, task: Transcribe, name: str, folder: Path, about: Mapping[str, Any], progress: StudyProgress
    ) -> dict[str, Any]:
        """The options of a search with the language model, which are tuned where they are not yet.

        Args:
            name, folder: of the recogniser
            about: all that its transcripts depend on
        """
        if not self._is_made:
            self._write_parts()
            self._make_model()
            self._is_made = True
        path, made_of = folder / WEIGHTS, json.loads(json.dumps({**self.made_of(), **about}))
        saved = read_json_object(path, ConfigError) if path.is_file() else {}
        if saved.get("made_of") != made_of:
            saved = self._tune(task, name, progress)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, {**saved, "made_of": made_of})
        return {"language_model": str(self.path), "alpha": saved["alpha"], "beta": saved["beta"]}

    def _tune(self, task: Transcribe, name: str, progress: StudyProgress) -> dict[str, Any]:
        """The weights with the fewest word errors on validation recordings."""
        rows, alphas, betas = self.tuning_rows, self.options.alphas, self.options.betas
        beams, rescore = int(self.base.evaluation["beams"]), bool(self.base.evaluation.get("rescore"))
        search: dict[str, Any] = {"alphas": alphas, "betas": betas, "beams": beams, "rescore": rescore}
        with progress.rows(f"tuning of {name}", len(rows) * self.searches) as advance:
            scores = list(tune_fusion(task, rows, str(self.path), **search, progress=advance))
        best = best_fusion(scores)
        tried = [{"alpha": x.alpha, "beta": x.beta, "wer": x.wer.value, "cer": x.cer.value} for x in scores]
        return {"alpha": best.alpha, "beta": best.beta, "tried": tried}

    def _write_parts(self) -> None:
        """A line for each recording: its split, its speaker, and its transcript."""
        names = dict.fromkeys([self.columns["audio"], self.columns["text"], *filter(None, [self.speaker])])
        with atomic_file(Path(self.base.output, PARTS)) as stream:
            for part, rows in self.parts.items():
                for row in iter(rows):
                    values = {name: value for name in names if isinstance(value := row.get(name), str)}
                    stream.write(f"{json.dumps({'part': part, **values}, ensure_ascii=False)}\n".encode())

    def _make_model(self) -> None:
        """Train the n-gram model on the transcripts of the training part."""
        options, rows = self.options, self.parts["train"]
        made_of = {"rows": rows.fingerprint, "order": options.order, "min_count": options.min_count}
        note = Path(self.base.output, "ngram.json")
        if self.path.is_file() and note.is_file() and read_json_object(note, ConfigError) == made_of:
            return
        texts = (speech_words(str(row[self.columns["text"]] or "")) for row in iter(rows))
        save_ngram(train_ngram(filter(None, texts), options.order, min_count=options.min_count), self.path)
        write_json(note, made_of)

    def notes(self, tuned: list[dict[str, Any]]) -> list[str]:
        """What one has to know to defend the table.

        Args:
            tuned: name, seed, alpha and beta of each recogniser
        """
        weights = [
            f"{x['name']}, seed {x['seed']}: alpha {x['alpha']:g}, beta {x['beta']:g}"
            + " (not used)" * (not (x["alpha"] or x["beta"]))
            for x in tuned
        ]
        normaliser = self.base.task_options.get("normaliser", "basic")
        return [
            f"texts compared after the normaliser {normaliser!r}, transcripts by beam search with "
            f"{self.base.evaluation['beams']} beams",
            f"the language model: {self.options.order}-grams of the training transcripts alone; its weights are those "
            f"with the fewest word errors on {len(self.tuning_rows):,} validation recordings: {'; '.join(weights)}",
            *(str(each) for each in self.overlap() if each.first == "train"),
            "intervals are over recordings of these speakers; other speakers may differ by more",
        ]
