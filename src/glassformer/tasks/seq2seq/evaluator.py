"""Judging what is written about a source, beside what people have written: translations, summaries.

A model reads sources as in training, cut where they were cut there, and writes by beam search. Each row has one
reference or several. How surprised it is by the first of them, token by token, is judged too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from glassformer.errors import ConfigError, MissingExtraError
from glassformer.files import shown
from glassformer.generation.settings import Settings
from glassformer.model import Model
from glassformer.tasks.base import Objective, Rows
from glassformer.tasks.causal.token_losses import Surprise, surprises
from glassformer.tasks.columns import check_columns, parts_of
from glassformer.tasks.evaluator import Baseline, Judge
from glassformer.tasks.generate.lead import Lead
from glassformer.tasks.metrics.bleu import BleuTally, ChrfTally
from glassformer.tasks.metrics.bootstrap import Counted, Sampled, Together, tallied
from glassformer.tasks.metrics.intervals import Tally
from glassformer.tasks.metrics.rouge import KINDS, RougeTally
from glassformer.tasks.predictions import Record
from glassformer.tasks.seq2seq.lexicon import Lexicon
from glassformer.tasks.seq2seq.task import SequenceToSequence, source_of, target_of

NEW_TOKENS = 128
LEARNT_PAIRS = 100_000
"""Baselines learn from so many pairs at most: they lie in memory."""


class WrittenJudge(Judge):
    """What is written about each source, beside its references.

    Args:
        beams: how many are searched · length_penalty: above 0 favours long texts; None = as the model's makers say
        no_repeat_ngram_size: so many tokens in a row are not written twice; None = as the model's makers say
        max_new_tokens: of a text, and never more than the model has room for · batch: rows that are written together
        language: of the texts, by which the sentences of summaries are found
    """

    BEAMS: int
    objective: SequenceToSequence

    def __init__(
        self,
        objective: Objective,
        *,
        beams: int | None = None,
        max_new_tokens: int = NEW_TOKENS,
        length_penalty: float | None = None,
        no_repeat_ngram_size: int | None = None,
        batch: int = 16,
        language: str = "en",
    ) -> None:
        super().__init__(objective)
        self.beams = self.BEAMS if beams is None else beams
        whole = {"beams": self.beams, "max_new_tokens": max_new_tokens, "batch": batch}
        if no_repeat_ngram_size is not None:
            whole["no_repeat_ngram_size"] = no_repeat_ngram_size
        for name, value in whole.items():
            if not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is {shown(value)}; it must be a whole number from 1 up")
        room = self.model.network.max_tokens
        self.max_new_tokens = max_new_tokens if room is None else min(max_new_tokens, room - 1)
        self.length_penalty = length_penalty
        self.no_repeat_ngram_size = no_repeat_ngram_size
        self.batch = batch
        self.language = language

    @abstractmethod
    def tallies(self) -> list[tuple[Tally, dict[str, str]]]:
        """What counts, and of its figures those that are told: figure → method."""

    def records(self, rows: Rows, progress: Callable[[int], None] | None = None) -> Iterator[Record]:
        source, target = self.objective.columns["source"], self.objective.columns["target"]
        check_columns(rows, [source, target])
        pairs = list(self.objective.pairs(rows))
        examples = [self.objective.example(source, target) for source, target in pairs]
        found: list[Surprise] = list(surprises(self.objective, examples))
        written = self.written([example["input_ids"] for example in examples], progress)
        yield from self.scored(
            [
                Record(
                    index=index,
                    where=rows.where(index),
                    row={"source": source_of(rows[index], source)},
                    label=parts_of(rows[index], target),
                    said=text,
                    loss=float(surprise.losses.mean()),
                    details={
                        "tokens": len(surprise.losses),
                        "cut": len(pairs[index][0]) > self.objective.source.room,
                        "ended": ended,
                    },
                )
                for index, ((text, ended), surprise) in enumerate(zip(written, found, strict=True))
            ]
        )

    def written(
        self, sources: Sequence[np.ndarray], progress: Callable[[int], None] | None = None
    ) -> list[tuple[str, bool]]:
        """What the model writes about each source, and whether it came to its end there.

        The longest are first: rows of like lengths share a batch.
        """
        model, options = speaking(self.objective), self._options()
        stops = set(Settings(model.generation_config, model.config, model.vocabulary).stop_ids)
        order = sorted(range(len(sources)), key=lambda i: (-len(sources[i]), i))
        said = [("", True)] * len(sources)
        for start in range(0, len(order), self.batch):
            here = order[start : start + self.batch]
            ids = torch.full((len(here), len(sources[here[0]])), self.objective.padding)
            mask = torch.zeros_like(ids)
            for row, index in enumerate(here):
                ids[row, -len(sources[index]) :] = torch.from_numpy(sources[index]).long()
                mask[row, -len(sources[index]) :] = 1
            new = model.generate(ids.to(model.device), attention_mask=mask.to(model.device), **options)
            for index, tokens in zip(here, new[:, 1:].tolist(), strict=True):
                text = self.objective.writer.decode(tokens, skip_special_tokens=True).strip()
                said[index] = text, not stops or bool(stops & set(tokens))
            if progress is not None:
                progress(len(here))
        return said

    def _options(self) -> dict[str, Any]:
        named = {name: getattr(self, name) for name in ("length_penalty", "no_repeat_ngram_size")}
        asked = {name: value for name, value in named.items() if value is not None}
        return {"num_beams": self.beams, "max_new_tokens": self.max_new_tokens, **asked}

    def scored(self, records: Sequence[Record]) -> list[Record]:
        """The same records, with the figures of each alone."""
        each: list[dict[str, float]] = [{} for _ in records]
        for tally, methods in self._counted(records):
            for figures, counts in zip(each, tally.rows, strict=True):
                found = tally.figures(counts[None], 1)
                figures.update({name: round(float(found[name][0]), 4) for name in methods})
        return [
            replace(record, details={**record.details, "figures": figures})
            for record, figures in zip(records, each, strict=True)
        ]

    def judged(self, records: Sequence[Record]) -> Sampled:
        parts: list[Sampled] = [tallied(tally, methods) for tally, methods in self._counted(records)]
        if all(record.loss is not None for record in records):
            parts.append(surprise_of(records))
        return Together(*parts)

    def _counted(self, records: Sequence[Record]) -> list[tuple[Tally, dict[str, str]]]:
        found = self.tallies()
        for record in records:
            for tally, _ in found:
                tally.add(record.said, record.label)
        return [(tally, self.methods(tally, named)) for tally, named in found]

    def methods(self, tally: Tally, named: Mapping[str, str]) -> dict[str, str]:
        """How figures were computed, once all rows have been counted."""
        return {name: how or tally.method for name, how in named.items()}

    def notes(self, records: Sequence[Record]) -> list[str]:
        penalty = "" if self.length_penalty is None else f", length penalty {self.length_penalty:g}"
        method = "greedily" if self.beams == 1 else f"by a search with {self.beams} beams{penalty}"
        once = self.no_repeat_ngram_size
        unlike = "" if once is None else f", no {once} tokens in a row twice"
        found = [f"the model writes {method}, at most {self.max_new_tokens} tokens{unlike}"]
        cut = sum(record.details.get("cut") is True for record in records)
        begun = sum(record.details.get("ended") is False for record in records)
        of = f"of {len(records):,}"
        if cut:
            found.append(
                f"{cut:,} {of} sources were cut to {self.objective.max_source} tokens, as in training"
            )
        if begun:
            found.append(f"{begun:,} {of} texts were not at their end after so many")
        return found

    def learnt(self, train: Rows) -> list[tuple[str, str]]:
        """The pairs that baselines learn from."""
        source, target = self.objective.columns["source"], self.objective.columns["target"]
        some = (train[index] for index in range(min(len(train), LEARNT_PAIRS)))
        return [(source_of(row, source), target_of(row, target)) for row in some]


class TranslateJudge(WrittenJudge):
    """Translations: BLEU and chrF."""

    METRIC = "BLEU"
    BEAMS = 5

    def tallies(self) -> list[tuple[Tally, dict[str, str]]]:
        return [(BleuTally(), {"BLEU": ""}), (ChrfTally(), {"chrF": ""})]

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        sources = [record.row["source"] for record in records]
        yield Baseline("copy", "the source as it stands", _saying(records, sources))
        if train is None:
            return
        pairs = self.learnt(train)
        about = "each word by its likeliest translation, learnt from the training pairs (IBM model 1)"
        yield Baseline("word by word", about, _saying(records, list(map(Lexicon(pairs), sources))))
        about = "the translation of the training source that is most like it (TF-IDF of its words)"
        yield Baseline("nearest", about, _saying(records, nearest(pairs, sources)))


class SummariseJudge(WrittenJudge):
    """Summaries: ROUGE."""

    METRIC = "ROUGE-L f"
    BEAMS = 4

    def tallies(self) -> list[tuple[Tally, dict[str, str]]]:
        return [(RougeTally(language=self.language), {f"{kind} f": "" for kind in KINDS})]

    def baselines(self, train: Rows | None, records: Sequence[Record]) -> Iterator[Baseline]:
        sources = [record.row["source"] for record in records]
        for sentences, about in ((1, "the first sentence"), (3, "the first three sentences")):
            said = Lead(sentences, self.language)(sources)
            yield Baseline(f"lead-{sentences}", about, _saying(records, said))


def speaking(objective: SequenceToSequence) -> Model:
    """The model, beginning what it writes as it was taught to."""
    model = objective.model
    begun: dict[str, Any] = {"decoder_start_token_id": objective.start}
    if objective.target.before:
        begun["forced_bos_token_id"] = objective.target.before[0]
    return Model(
        model.network,
        model.family,
        model.spec,
        model.config,
        model.task,
        tokenizer=model.tokenizer,
        report=model.report,
        folder=model.folder,
        own_head=model.own_head,
        generation_config={**model.generation_config, **begun},
    )


def nearest(pairs: Sequence[tuple[str, str]], sources: Sequence[str]) -> list[str]:
    """The target whose source is most like each of these.

    Raises: MissingExtraError: without scikit-learn.
    """
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
    except ImportError as error:
        raise MissingExtraError("scikit-learn", "evaluate", "the nearest pair") from error
    vectors = TfidfVectorizer(token_pattern=r"(?u)\w+|[^\w\s]", sublinear_tf=True, dtype=np.float32)
    known = vectors.fit_transform([source for source, _ in pairs])
    found: list[str] = []
    for start in range(0, len(sources), 128):
        alike = vectors.transform(sources[start : start + 128]) @ known.T  # unit vectors: their cosines
        found += [pairs[int(i)][1] for i in np.asarray(alike.argmax(axis=1)).ravel()]
    return found


def surprise_of(records: Sequence[Record]) -> Counted:
    """The perplexity of the first reference, given the source."""
    rows = [[(r.loss or 0.0) * r.details["tokens"], r.details["tokens"]] for r in records]
    how = f"exp(mean loss of the tokens of the first reference, each read so far); numpy {version('numpy')}"
    return Counted(
        np.array(rows),
        lambda sums: {"perplexity": np.exp(np.minimum(sums[:, 0] / sums[:, 1], 700.0))},
        {"perplexity": how},
    )


def _saying(records: Sequence[Record], texts: Sequence[str]) -> list[Record]:
    """The same rows, had something else written about them."""
    return [
        replace(record, said=text, loss=None, details={}) for record, text in zip(records, texts, strict=True)
    ]
