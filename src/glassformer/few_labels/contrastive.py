"""Contrastive sentence fine-tuning (SetFit): vectors of texts with equal labels are drawn together, others apart.

    a batch   16 texts, balanced over the labels; every pair of them counts: 16 forward passes are 120 pairs
    loss      (cosine of two vectors − overlap of their labels)², pairs with and without overlap weighing the same
    head      logistic regression on the vectors; labels weigh the same there too
    names     the name or description of each label is one more labelled text

Pairs exist for one batch at a time: memory grows with the batch, not with the square of the rows. A label with one row
has only pairs with other labels, and its text with itself: dropout makes two vectors of it.

Source: Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts"; all pairs of a batch: Khosla et al. 2020,
"Supervised Contrastive Learning"; one text as a pair: Gao et al. 2021, "SimCSE".
Differs: SetFit lists pairs of rows and encodes both texts of each, which takes memory and 15 times the passes; and it
uses names of labels only where no text is labelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.nn.utils import clip_grad_norm_

from glassformer.engine.encoder import prompted_ids, settings_of
from glassformer.few_labels.label_heads import NameTemplate, NameWeight, Penalty, regression_on_vectors, with_names
from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.files.schema import Count, Doc, Positive, Schema
from glassformer.model import Model, load
from glassformer.reports.table import Table
from glassformer.tasks.classify.scorer import SentenceVectors, TextScorer
from glassformer.tasks.embed import pooling_settings
from glassformer.tasks.embedding_head import EmbeddingHead, LossOptions
from glassformer.tasks.microbatch import packed_texts
from glassformer.training.optimiser import Schedule, make_optimiser, set_rate
from glassformer.training.state import seed_all

CLIP = 1.0


@dataclass(frozen=True, kw_only=True)
class ContrastiveOptions(Schema):
    """Length and rate of the tuning, and the regression on its vectors."""

    learning_rate: Annotated[Positive, Doc("Peak learning rate.")] = 5e-5
    batch_size: Annotated[Count, Doc("Texts a step, each of which is compared with all others.")] = 16
    steps: Annotated[Count, Doc("Steps, at most.")] = 60
    epochs: Annotated[Count, Doc("How often each text is read, at most.")] = 30
    weight: Penalty = 10.0
    names: NameWeight = 3.0
    template: NameTemplate = "{}"


class ContrastiveTuning(Method[ContrastiveOptions]):
    """Contrastive fine-tuning of the sentence encoder, and logistic regression on its vectors."""

    OPTIONS = ContrastiveOptions
    BRIEF: ClassVar[dict[str, Any]] = {"steps": 1}

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        options, setting = self.options, self.setting
        texts = with_names(labelled, setting, options.template) if options.names else labelled
        self.encoder, self.losses = tune_encoder(setting.model, texts, options, setting.max_tokens, setting.seed)
        # The encoder has seen all texts, so scores of folds are kinder than those of new texts will be. A tuning for
        # each fold would take five times as long.
        self.heads, scores = regression_on_vectors(
            self._vectors(texts.texts), texts, len(labelled), weight=options.weight, names=options.names,
            seed=setting.seed,
        )  # fmt: skip
        return scores

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return self.heads.scores(self._vectors(texts))

    def saved(self) -> TextScorer:
        return self.scorer(SentenceVectors(self.encoder), self.heads.linear())

    def _vectors(self, texts: Sequence[str]) -> np.ndarray:
        vectors: np.ndarray = self.encoder.encode(list(texts), normalize_embeddings=True)
        return vectors

    def tables(self) -> list[Table]:
        """The loss at the beginning and at the end."""
        tenth = max(1, len(self.losses) // 10)
        rows = [
            ["steps", str(len(self.losses))],
            ["loss of the first steps", f"{np.mean(self.losses[:tenth]):.3f}"],
            ["loss of the last steps", f"{np.mean(self.losses[-tenth:]):.3f}"],
        ]
        return [Table(["", "contrastive fine-tuning"], rows, folded=True)]


# --------------------------------------------------------------------------------------------------- the encoder


def tune_encoder(
    name: str, labelled: LabelledTexts, options: ContrastiveOptions, max_tokens: int, seed: int
) -> tuple[Model, list[float]]:
    """A sentence encoder, tuned so that texts with equal labels have near vectors; and the loss of each step."""
    seed_all(seed)
    model = load(name)
    settings = pooling_settings(model, None, True, "cosine", None, max_tokens)
    model.pooling = settings
    head = EmbeddingHead(settings, LossOptions(loss="cosine"))
    limits = settings_of(model.network, settings, None)
    size = min(options.batch_size, max(2, 2 * len(labelled)))
    steps = min(options.steps, max(1, options.epochs * len(labelled) // size))
    batches = list(balanced_batches(labelled.holds, size, steps, seed))
    used = np.unique(np.concatenate(batches)).tolist()  # of many texts a few: the others are not tokenised
    rows, _ = prompted_ids(model.tokenizer, limits, True, settings.prompt(), [labelled.texts[i] for i in used])
    ids = dict(zip(used, rows, strict=True))
    optimizer = make_optimiser(model.network, "adamw", learning_rate=options.learning_rate, weight_decay=0.01)
    schedule, losses = Schedule("linear", steps, warmup=0.1), list[float]()
    holds = torch.from_numpy(labelled.holds).float()
    model.network.train()
    for step, batch in enumerate(batches, 1):
        set_rate(optimizer, schedule(step))
        packed, flow = packed_texts([{"input_ids": np.array(ids[i], dtype=np.int32)} for i in batch.tolist()])
        states = model.network(packed, flow).last_hidden_state
        vectors = head(states, flow).text_embeds
        assert vectors is not None
        loss = pair_loss(vectors, overlap(holds[batch]))
        loss.backward()
        clip_grad_norm_(model.network.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
    model.network.eval()
    return model, losses


def balanced_batches(holds: np.ndarray, size: int, steps: int, seed: int) -> Iterator[np.ndarray]:
    """Indices of the texts of each batch: labels take turns, each with its texts in random order, none left out.

    Args:
        holds: which labels each text has; one without any counts as of a further label. [N, L]
    """
    draw = np.random.default_rng(seed)
    none = ~holds.any(1)
    pools = [np.flatnonzero(column) for column in [*holds.T, none] if column.any()]
    waiting: list[list[int]] = [[] for _ in pools]
    turn: list[int] = []
    for _ in range(steps):
        batch: list[int] = []
        while len(batch) < size:
            if not turn:
                turn = draw.permutation(len(pools)).tolist()
            # Two of a label in a row: with many labels a batch would have no pair of equal ones.
            pool = turn.pop()
            for _ in range(2):
                if not waiting[pool]:
                    waiting[pool] = draw.permutation(pools[pool]).tolist()
                batch.append(waiting[pool].pop())
        yield np.array(batch[:size])


def overlap(holds: Tensor) -> Tensor:
    """The overlap of the labels of each pair: shared labels by all of both (Jaccard); 1 where both have none. [B, B]"""
    shared = holds @ holds.T
    either = holds.sum(1)[:, None] + holds.sum(1)[None] - shared
    return torch.where(either > 0, shared / either.clamp(min=1), torch.ones_like(shared))


def pair_loss(vectors: Tensor, target: Tensor) -> Tensor:
    """Squared error of the cosines of all pairs; pairs that overlap weigh as much in all as those that do not.

    Args:
        vectors: [B, D]
        target: overlap of each pair. [B, B]
    """
    unit = normalize(vectors, dim=-1)
    error = (unit @ unit.T - target).square()
    pairs = ~torch.eye(len(vectors), dtype=torch.bool)
    parts = [error[chosen].mean() for chosen in (pairs & (target > 0), pairs & (target == 0)) if chosen.any()]
    return torch.stack(parts).mean()
