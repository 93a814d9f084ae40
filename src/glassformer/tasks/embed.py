"""Sentence-embedding training: a bi-encoder (SBERT) whose vectors are near where texts belong together.

    loss                          columns                                        evaluated by
    multiple-negatives-ranking    text, text_pair (and negative)                 recall@k and MRR of text_pair
    triplet                       text, text_pair, negative                      the same
    margin-mse                    text, text_pair, negative, label or a teacher  the same
    cosine, mse, cosent           text, text_pair, label: a score, or a teacher  Spearman's and Pearson's correlation
    contrastive                   text, text_pair, label: 1 or 0                 average precision

Texts are pooled, cut and prefixed with prompts as the model's folder says, so `model.encode` of the trained folder
gives the vectors that were trained. In a search, `text` is the query (`encode_query`) and the others are documents.

Source: Reimers and Gurevych 2019, "Sentence-BERT"; Henderson et al. 2017, for ranking among a batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from glassformer.core.flow import Output
from glassformer.core.heads import Head
from glassformer.engine.encoder import check_one_stack, prompted_ids, settings_of
from glassformer.engine.encoder import encode as encode_texts
from glassformer.engine.pooling import SIMILARITIES, PoolingSettings, check_pooling
from glassformer.errors import ConfigError, DataError, nearest
from glassformer.files import check_count, safe_repr
from glassformer.loaded_model import LoadedModel
from glassformer.model import load
from glassformer.sentence_embeddings import PROMPTS_OF_DOCUMENTS, SentenceEmbedder
from glassformer.tasks.base import Progress
from glassformer.tasks.classify.kinds import number_of, scaled, score_bounds
from glassformer.tasks.columns import RowTask, listed, row_chunks, tell_cut, text_of
from glassformer.tasks.embedding_head import EmbeddingHead, LossOptions
from glassformer.tasks.metrics.metric import Bootstrap, BootstrapUnion, Metric
from glassformer.tasks.metrics.ranking import (
    AveragePrecisionScores,
    Ranking,
    rank_pairs,
    ranking_bootstrap,
    ranking_scores,
    unit,
)
from glassformer.tasks.metrics.regression import RegressionScores
from glassformer.tasks.microbatch import packed_texts
from glassformer.tasks.types import Dataset, Example, Examples, MicroBatch, Prediction

RANKED = ("cosine", "dot", "euclidean")
"""Similarities by which texts are ranked."""


class Embed(RowTask):
    """Sentence embeddings: texts that belong together, or have a score of similarity, learned as vectors.

    Args:
        columns: role → column; `negative` is read where the rows have one, a text or a list of texts
        loss: see above
        scale: of similarities, where they are compared in a batch; None = 20 of cosines, else 1
        margin: of distances; None = 0.5 by cosine, else 5
        dimensions: Matryoshka: the loss of the first this many dimensions of the vectors, added up; none = of all
        dimension_weights: of the loss of each of them; none = 1
        score_range: the lowest and highest score that a label can have, which then are 0 and 1
        teacher: a model that scores the pairs in place of labels: a cross-encoder, or a sentence encoder
        teacher_activation: of a cross-encoder's logits: "sigmoid" or "none"; None = sigmoid of a single one
        pooling: "mean", "cls", …, of a folder that does not say, or in place of what it says
        normalise: vectors to length 1; None = as the folder says
        similarity: "cosine" or "dot"; None = as the folder says, else cosine
        prompts: name → text, of the trained folder, such as {query: "query: ", document: "passage: "}
        max_tokens: of a text; None = as the folder says, or what the model can take
    Raises: ConfigError: options that do not go together. UnsupportedError: a model of several stacks.
    Differs: texts that are equal to an anchor's own pair, or belong to an equal anchor, are no negatives of it; in
        sentence-transformers they are, unless its sampler keeps them apart.
    """

    HEAD = "feature-extraction"
    COLUMNS: ClassVar[Mapping[str, str]] = {
        "text": "text",
        "text_pair": "text_pair",
        "negative": "negative",
        "label": "label",
    }
    TARGETS: ClassVar[tuple[str, ...]] = ("negative", "label")
    BASELINES = "glassformer.tasks.embedding_baselines:baselines_of_task"

    def __init__(
        self,
        model: LoadedModel,
        *,
        columns: Mapping[str, str] | None = None,
        loss: str = "multiple-negatives-ranking",
        scale: float | None = None,
        margin: float | None = None,
        dimensions: Sequence[int] = (),
        dimension_weights: Sequence[float] = (),
        score_range: Sequence[float] = (),
        teacher: str | None = None,
        teacher_activation: str | None = None,
        pooling: str | None = None,
        normalise: bool | None = None,
        similarity: str | None = None,
        prompts: Mapping[str, str] | None = None,
        max_tokens: int | None = None,
    ) -> None:
        check_one_stack(model.network, "sentence embedding")
        self.settings = pooling_settings(model, pooling, normalise, similarity, prompts, max_tokens)
        self.options_of_loss = LossOptions(
            loss=cast(Any, loss),
            scale=scale,
            margin=margin,
            dimensions=tuple(dimensions),
            dimension_weights=tuple(dimension_weights),
        )
        self.kind = self.options_of_loss.kind
        self.options_of_loss.check_dimensions(self.settings.dimension(model.network.width))
        self._head = EmbeddingHead(self.settings, self.options_of_loss)
        if not self.kind.scored and self._head.similarity not in RANKED:
            raise ConfigError(
                f"texts are ranked by {', '.join(RANKED)}, and the folder compares vectors by {self._head.similarity}; "
                "give a similarity"
            )
        super().__init__(model, columns)
        model.pooling = self.settings  # what the trained folder says
        self.scores = PairScores(loss, score_range, teacher, teacher_activation, self.columns["label"])
        read = [role for role in self.kind.reads if role != "label" or teacher is None]
        self.columns = {role: self.columns[role] for role in read}
        self._reads_negative = True if not self.kind.compares or "negative" in (columns or {}) else None
        self.WHOLE_BATCH = self.CACHES_GRADIENTS = self.kind.compares
        self.METRIC, self.VALIDATION_METRIC = self.kind.report, self.kind.validation
        self.how = {"settings": self._settings_key(), "scores": self.scores.key(), "loss": loss}

    def trained_head(self) -> Head:
        return self._head

    def _settings_key(self) -> dict[str, Any]:
        keys = ("max_tokens", "lower_case", "prompts", "default_prompt")
        return {name: getattr(self.settings, name) for name in keys}

    def check_training(self, examples: Examples, compared: int) -> None:
        own = self.options_of_loss.loss
        pairs_alone = not any(len(examples[i]["documents"]) > 2 for i in range(min(len(examples), compared)))
        if self.kind.compares and pairs_alone and min(compared, len(examples)) < 2:
            raise ConfigError(
                f"{own} compares the examples of a batch, and a batch has {min(compared, len(examples))}; give more "
                "rows, a larger batch_size (and micro_batch_size), or a column of negatives"
            )
        if self.kind.scored or "label" in self.kind.reads:
            values = (examples[i]["scores"].tolist() for i in range(len(examples)))
            first = next(values)
            if len(examples) > 1 and all(value == first for value in values) and len(set(first)) == 1:
                raise DataError(
                    f"all {len(examples):,} rows have the score {first[0]:g}; there is nothing to tell apart"
                )
        elif own == "multiple-negatives-ranking" and pairs_alone:
            first = examples[0]["keys"][1]
            if all(examples[i]["keys"][1] == first for i in range(len(examples))):
                raise DataError(
                    f"{self.columns['text_pair']!r} is the same text in all {len(examples):,} rows; there is nothing "
                    "to tell apart"
                )

    # ------------------------------------------------------------------------------- from rows to the network

    def columns_read(self) -> dict[str, str]:
        return {role: column for role, column in self.columns.items() if role != "negative" or self._reads_negative}

    def inputs(self) -> list[str]:
        return [self.columns[role] for role in ("text", "text_pair")]

    def encode(self, rows: Dataset, *, cache: Path | None = None) -> Examples:
        if self._reads_negative is None and "negative" in self.columns:  # the first rows are those learned from
            self._reads_negative = self.columns["negative"] in rows.columns
        self.how |= {"negatives": self._reads_negative, "teacher": self.scores.taught_by()}
        return super().encode(rows, cache=cache)

    def texts_of(self, row: Mapping[str, Any]) -> list[str]:
        """The texts of a row: a text, what belongs to it, and negatives. Raises: DataError: it lacks one."""
        texts = [text_of(row, self.columns[role]) for role in ("text", "text_pair")]
        if "negative" in self.columns and self._reads_negative:
            negatives = negatives_of(row, self.columns["negative"])
            if not negatives and not self.kind.compares:
                raise DataError(f"{self.columns['negative']!r} is empty; {self.options_of_loss.loss} needs a negative")
            if texts[1] in negatives:
                raise DataError(f"{safe_repr(texts[1])} is both {self.columns['text_pair']!r} and a negative")
            texts += negatives
        return texts

    def prompts_of(self, roles: int) -> list[str]:
        """What is put before each text of a row: as `encode_query` and `encode_document` do, or `encode`."""
        if self.kind.scored:
            return [self.settings.prompt()] * roles
        names = self.settings.prompts
        of_query = self.settings.prompt(name="query") if "query" in names else ""
        of_document = next((self.settings.prompt(name=name) for name in PROMPTS_OF_DOCUMENTS if name in names), "")
        return [of_query, *[of_document] * (roles - 1)]

    def make_examples(self, rows: Dataset) -> Iterator[Example]:
        tokenizer, cut, of = self.model.tokenizer, 0, 0
        limits = settings_of(self.model.network, self.settings, None)

        def parse(row: Mapping[str, Any]) -> tuple[list[str], list[float] | None]:
            texts = self.texts_of(row)
            return texts, self.scores.read(row, len(texts) - 2)

        for numbers, parsed in row_chunks(rows, parse):
            of += sum(len(texts) for texts, _ in parsed)
            prompted = [
                prompt + text
                for texts, _ in parsed
                for prompt, text in zip(self.prompts_of(len(texts)), texts, strict=True)
            ]
            ids, too_long = prompted_ids(tokenizer, limits, True, "", prompted)
            cut += too_long
            taught = self.scores.taught([texts for texts, _ in parsed])
            remaining = iter(ids)
            for index, (texts, read), scores in zip(numbers, parsed, taught, strict=True):
                own = [np.array(next(remaining), dtype=np.int32) for _ in texts]
                if not all(map(len, own)):
                    raise DataError(f"{rows.where(index)}: a text has no token: {safe_repr(texts)}")
                yield {
                    "input_ids": np.concatenate(own),
                    "documents": np.array([len(text) for text in own], dtype=np.int32),
                    "keys": np.array([text_key(text) for text in own], dtype=np.int64),
                    "scores": np.array(read if scores is None else scores, dtype=np.float32),
                }
        tell_cut("texts", cut, of, limits.max_tokens)

    def collate(self, examples: Sequence[Example], indices: Any = ()) -> MicroBatch:
        """One row of the texts of all examples, those of one length next to each other: they share attention calls."""
        texts, place = self._by_length(examples)
        batch, flow = packed_texts([{"input_ids": text} for text in texts])
        labels = {
            "texts": torch.tensor([len(example["documents"]) for example in examples]),
            "order": torch.from_numpy(place),
            "keys": torch.from_numpy(np.concatenate([example["keys"] for example in examples])),
            "scores": torch.from_numpy(np.concatenate([example["scores"] for example in examples])),
        }
        return MicroBatch(batch, flow, labels, tuple(indices), sum(map(len, texts)))

    def _by_length(self, examples: Sequence[Example]) -> tuple[list[np.ndarray], np.ndarray]:
        """The texts of examples by length, and where each then is, in the order of the examples."""
        texts = [
            text
            for example in examples
            for text in np.split(example["input_ids"], np.cumsum(example["documents"])[:-1])
        ]
        order = np.argsort([len(text) for text in texts], kind="stable")
        return [texts[i] for i in order], np.argsort(order, kind="stable")

    def labels(self, examples: Sequence[Example], flow: Any) -> dict[str, Tensor]:
        return cast(dict[str, Tensor], self.collate(examples).labels)

    def unbatch(self, output: Output, batch: MicroBatch) -> list[Any]:
        """The vectors of the texts of each example. [texts, D] each"""
        labels = cast(dict[str, Tensor], batch.labels)
        return list(self._head.vectors(output, batch.labels).split(labels["texts"].tolist()))

    def metric(self) -> Metric:
        return EmbeddingMetric(self._head)

    # ------------------------------------------------------------------------------------------ evaluation

    def vectors(self, texts: Sequence[str], prompt: str) -> dict[str, Tensor]:
        """The vector of each text, as `model.encode` gives it. [D] each"""
        model, tokens, unique = self.model, self.evaluation.tokens, list(dict.fromkeys(texts))
        given = {"prompt": prompt, "batch_tokens": tokens, "progress": False}
        vectors = encode_texts(model.network, model.tokenizer, unique, self.settings, **given)
        return dict(zip(unique, torch.from_numpy(vectors), strict=True))

    def similarities(self, texts: Sequence[Sequence[str]]) -> list[float]:
        """The similarity of the first two texts of each row."""
        query, document = self.prompts_of(2)
        a, b = self.vectors([row[0] for row in texts], query), self.vectors([row[1] for row in texts], document)
        pairs = torch.stack([a[row[0]] for row in texts]), torch.stack([b[row[1]] for row in texts])
        return cast(list[float], self._head.pair_similarities(*pairs).tolist())

    def rankings(self, texts: Sequence[Sequence[str]]) -> dict[Any, Ranking]:
        """All second and further texts of the rows, ranked for each first one."""
        query, document = self.prompts_of(2)
        a = self.vectors([row[0] for row in texts], query)
        pairs = [row[1] for row in texts]
        candidates = [*pairs, *(text for row in texts for text in row[2:])]
        b = self.vectors(candidates, document)
        queries = torch.stack([a[row[0]] for row in texts])
        queries, vectors = ranked_vectors(self._head, queries, torch.stack([b[text] for text in candidates]))
        return rank_pairs(queries, [row[0] for row in texts], vectors, candidates, self._head.scale)

    def predict(self, rows: Dataset, progress: Progress | None = None) -> Iterator[Prediction]:
        """The similarity of each pair; or the best text for each, and where its own is in the ranking."""
        self.encode(rows)  # an error names the row
        texts = [self.texts_of(row) for row in iter(rows)]
        predicted = self._scored(rows, texts) if self.kind.scored else self._ranked(rows, texts)
        yield from predicted
        if progress is not None:
            progress(len(rows))

    def _scored(self, rows: Dataset, texts: list[list[str]]) -> Iterator[Prediction]:
        taught, similarities = self.scores.taught(texts), self.similarities(texts)
        for index, (row, own, similarity) in enumerate(zip(texts, taught, similarities, strict=True)):
            (score,) = own or self.scores.read(rows[index], 0)
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={"text": row[0], "text_pair": row[1]},
                label=score,
                predicted=similarity,
                loss=(similarity - score) ** 2 if self.options_of_loss.loss in ("cosine", "mse") else None,
            )

    def _ranked(self, rows: Dataset, texts: list[list[str]]) -> Iterator[Prediction]:
        ranked = self.rankings(texts)
        for index, row in enumerate(texts):
            ranking = ranked[row[0]]
            yield Prediction(
                index=index,
                where=rows.where(index),
                row={"text": row[0]},
                label=list(ranking.losses),
                predicted=next(iter(ranking.probabilities)),
                correct=ranking.rank == 1,
                loss=ranking.losses[row[1]],
                details={"scores": ranking.probabilities, "rank": ranking.rank, "texts": row[1:]},
            )

    def metrics(self, predictions: Sequence[Prediction]) -> Bootstrap:
        if not self.kind.scored:
            return ranking_bootstrap([x.details["rank"] for x in predictions])
        true, predicted = (np.array([getattr(x, side) for x in predictions]) for side in ("label", "predicted"))
        correlations = RegressionScores(true, predicted, squares=self.options_of_loss.loss in ("cosine", "mse"))
        if self.options_of_loss.loss != "contrastive":
            return correlations
        return BootstrapUnion(AveragePrecisionScores(true, predicted), correlations)


class EmbeddingMetric(Metric):
    """The loss, and of pairs with a score the correlation of similarities and scores; else recall@k and MRR@10.

    Texts are ranked among all of the data, whatever batches they came in: their vectors are kept till then.
    """

    head: EmbeddingHead

    def update(self, output: Output, batch: MicroBatch) -> None:
        super().update(output, batch)
        labels, vectors = cast(dict[str, Tensor], batch.labels), self.head.vectors(output, batch.labels)
        first = labels["texts"].cumsum(0) - labels["texts"]
        if self.head.options.kind.scored:
            similarities = self.head.pair_similarities(vectors[first], vectors[first + 1])
            self.records += torch.stack([labels["scores"], similarities], dim=1).double().tolist()
            return
        role = torch.full_like(labels["keys"], 2)  # 0: the text, 1: what belongs to it, 2: a negative
        role[first], role[first + 1] = 0, 1
        known = torch.stack([role, labels["keys"]], dim=1).double()
        self.records += list(torch.cat([known, vectors.double()], dim=1).cpu().numpy())  # a quarter of Python's floats

    def compute(self) -> dict[str, float]:
        scores, records = super().compute(), torch.from_numpy(np.array(self.records, dtype=np.float64))
        if self.head.options.kind.scored:
            true, predicted = records.numpy().T
            every = np.ones((1, len(true)), dtype=np.int64)
            parts: list[Bootstrap] = [RegressionScores(true, predicted, squares=False)]
            if self.head.options.loss == "contrastive":
                parts.append(AveragePrecisionScores(true, predicted))
            return {**scores, **{name: float(x[0]) for part in parts for name, x in part.scores(every).items()}}
        anchors, pairs, negatives = (records[records[:, 0] == role] for role in range(3))
        candidates = torch.cat([pairs, negatives])
        queries, vectors = ranked_vectors(self.head, anchors[:, 2:].float(), candidates[:, 2:].float())
        keys = [side[:, 1].tolist() for side in (anchors, candidates)]
        ranked = rank_pairs(queries, keys[0], vectors, keys[1], self.head.scale)
        return {**scores, **ranking_scores([ranked[key].rank for key in keys[0]])}


class PairScores:
    """The scores of pairs: labels of rows, or those of a teacher.

    Args:
        loss: which reads them
        bounds: lowest and highest score, which are 0 and 1; none = as they are
        teacher, activation: a model that scores, in place of labels
        column: of the labels
    Raises: ConfigError: options that do not go together.
    """

    def __init__(
        self, loss: str, bounds: Sequence[float], teacher: str | None, activation: str | None, column: str
    ) -> None:
        self.loss, self.bounds, self.column = loss, score_bounds(bounds), column
        self.teacher, self.activation = teacher, activation
        self._loaded: SentenceEmbedder | None = None
        if self.bounds and (teacher is not None or loss not in ("cosine", "mse", "cosent")):
            raise ConfigError(f"score_range is of labels that {loss} does not read; leave it out")
        if teacher is not None and loss not in ("cosine", "mse", "cosent", "margin-mse"):
            raise ConfigError(f"a teacher gives scores, which {loss} does not read; use mse, cosent or margin-mse")
        if activation is not None and (teacher is None or activation not in ("sigmoid", "none")):
            raise ConfigError(f"teacher_activation is {safe_repr(activation)}; allowed: sigmoid, none, with a teacher")

    def key(self) -> list[Any]:
        """What decides them."""
        return [self.bounds, self.teacher, self.activation]

    def taught_by(self) -> list[str]:
        """The weights of the teacher, which its name does not tell, and how it pools: examples of others are others."""
        if self.teacher is None:
            return []
        model = self._embedder().model
        return [model.network.fingerprint(), repr(model.pooling)]

    def read(self, row: Mapping[str, Any], negatives: int) -> list[float]:
        """The label of a row: a number, or of several negatives one each. Raises: DataError: another, or out of range.

        Args:
            negatives: how many the row has
        """
        if self.teacher is not None or self.loss in ("multiple-negatives-ranking", "triplet"):
            return []
        value = row.get(self.column)
        several = listed(value) if self.loss == "margin-mse" else None
        numbers = [number_of(x) for x in ([value] if several is None else several)]
        if None in numbers:
            raise DataError(f"{self.column!r} is {safe_repr(value)}; it must be a number")
        known = cast(list[float], numbers)
        if self.loss == "margin-mse":
            if len(known) == negatives + 1 and negatives:  # the scores themselves, that of the right text first
                return [known[0] - score for score in known[1:]]
            if len(known) != negatives:
                raise DataError(
                    f"{self.column!r} is {safe_repr(value)}, and the row has {negatives} negatives; give the margin to "
                    "each, or the score of the right text and that of each negative"
                )
            return known
        return [self._in_range(known[0])]

    def _in_range(self, score: float) -> float:
        if self.loss == "contrastive":
            if score not in (0, 1):
                raise DataError(f"{self.column!r} is {score:g}; it must be 1 (they belong together) or 0")
            return score
        if self.bounds:
            return scaled(score, self.bounds, repr(self.column))
        if self.loss == "cosine" and not -1 <= score <= 1:
            raise DataError(
                f"{self.column!r} is {score:g}; a cosine is from -1 to 1: give the range of the scores, "
                "task_options.score_range=[0,5]"
            )
        return score

    def taught(self, texts: Sequence[Sequence[str]]) -> list[list[float] | None]:
        """The teacher's scores of rows; None each where labels have them."""
        if self.teacher is None:
            return [None] * len(texts)
        pairs = [(row[0], other) for row in texts for other in row[1:]]
        scores = iter(teacher_scores(self._embedder(), pairs, self.activation))
        rows = [[next(scores) for _ in row[1:]] for row in texts]
        return [[own[0] - other for other in own[1:]] if self.loss == "margin-mse" else own for own in rows]

    def _embedder(self) -> SentenceEmbedder:
        """The teacher, loaded when it is first asked."""
        if self._loaded is None:
            assert self.teacher is not None
            self._loaded = SentenceEmbedder(load(self.teacher))
        return self._loaded


def teacher_scores(teacher: SentenceEmbedder, pairs: Sequence[tuple[str, str]], activation: str | None) -> list[float]:
    """Scores of pairs, by a cross-encoder or by the similarity of a sentence encoder's vectors.

    Raises: ConfigError: a cross-encoder with several labels.
    """
    if teacher.model.task != "text-classification":
        queries, documents = teacher.encode_query([a for a, _ in pairs]), teacher.encode_document([b for _, b in pairs])
        return teacher.similarity_pairwise(queries, documents).tolist()
    scores = teacher.score(pairs, activation=activation)
    if scores.ndim > 1:
        raise ConfigError(f"the teacher has {scores.shape[1]} labels; a cross-encoder with one gives a score")
    return [float(score) for score in scores]


def pooling_settings(
    model: LoadedModel,
    pooling: str | None,
    normalise: bool | None,
    similarity: str | None,
    prompts: Mapping[str, str] | None,
    max_tokens: int | None,
) -> PoolingSettings:
    """The settings that a model is trained with, and its folder then has: its own, with these changes.

    Raises: ConfigError: no such pooling, similarity or prompt.
    """
    settings = model.pooling if isinstance(model.pooling, PoolingSettings) else None
    settings = settings or settings_of(model.network, model.pooling, None)  # or what is wrong with the folder
    changed: dict[str, Any] = {"stored": True}
    if pooling is not None:
        changed |= {"poolings": (check_pooling(pooling),), "layers": (), "normalise": False}
    if normalise is not None:
        changed["normalise"] = normalise
    if similarity is not None and similarity not in SIMILARITIES:
        raise ConfigError(
            f"similarity is {safe_repr(similarity)}{nearest(str(similarity), SIMILARITIES)}; allowed: "
            f"{', '.join(SIMILARITIES)}"
        )
    if similarity is not None:
        changed["similarity"] = similarity
    for name, text in (prompts or {}).items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise ConfigError(f"prompts has {safe_repr(name)}: {safe_repr(text)}; a prompt is a text, by its name")
    if prompts is not None:
        changed["prompts"] = dict(prompts)
    if max_tokens is not None:
        check_count("max_tokens", max_tokens)
        changed["max_tokens"] = max_tokens
    return replace(settings, **changed)


def ranked_vectors(head: EmbeddingHead, queries: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors whose dot products are in the order of the similarities."""
    if head.similarity == "euclidean":  # |q - c|² = |q|² - 2 (q · c - |c|² / 2), in which |q| is the same for all c
        ones, halves = queries.new_ones(len(queries), 1), -candidates.square().sum(-1, keepdim=True) / 2
        return torch.cat([queries, ones], dim=-1), torch.cat([candidates, halves], dim=-1)
    return (unit(queries), unit(candidates)) if head.similarity == "cosine" else (queries, candidates)


def negatives_of(row: Mapping[str, Any], column: str) -> list[str]:
    """The negatives of a row: a text, or a list of them, which may be empty. Raises: DataError: another."""
    value = row.get(column)
    texts = [value] if isinstance(value, str) else listed(value)
    if texts is None or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{column!r} is {safe_repr(value)}; it must be a text, or a list of texts")
    return texts


def text_key(ids: np.ndarray) -> int:
    """A number of 48 bits, equal for equal ids; a double holds it exactly."""
    return int.from_bytes(hashlib.blake2b(ids.tobytes(), digest_size=6).digest(), "big")
