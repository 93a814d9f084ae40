"""Unsupervised data augmentation (UDA): a classifier must answer alike for an unlabelled text and a changed copy of it.

    labelled     text            ──> cross-entropy, of the texts that are not yet too certain (signal annealing)─┐
    unlabelled   text            ──> p, without gradient: aligned, sharpened, and left out where it is unsure    ├> loss
                 changed copy    ──> q                          KL(p ‖ q), times `weight`                       ─┘

    signal annealing    a labelled text counts while its label has at most the probability    1/L + (1 − 1/L) · a(t)
                        t = step / steps;  linear a = t;  log a = 1 − exp(−5t);  exp a = exp(5(t − 1))

Few labelled texts are soon learned by heart; annealing leaves them out before that, while unlabelled ones go on. A
classifier that has hardly learned yet would teach itself its first guesses, so unlabelled texts come in later; and it
would soon give all of them the label that it likes best, so its predictions are aligned with the labels' shares.
Source: Xie et al. 2020, "Unsupervised Data Augmentation for Consistency Training"; alignment: Berthelot et al. 2020,
"ReMixMatch", section 3.1.
Differs: copies are made by words that are deleted, swapped or inserted unless others are named, where the source
translates texts and back; each label of several is an own question, with L = 2.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from glassformer.few_labels.augmentation import ChangedCopies, ChangeOptions
from glassformer.few_labels.fine_tuning import (
    ONE_STEP,
    FineTuningOptions,
    examples_of,
    held_out_loss,
    new_classifier,
    scores_of,
    shown_loss,
    steps_of,
    weights_of,
)
from glassformer.few_labels.method import Method
from glassformer.few_labels.rows import LabelledTexts
from glassformer.few_labels.thresholds import best_thresholds
from glassformer.files.schema import BelowOne, Count, Doc, NonNegative, Positive
from glassformer.models import eval_mode
from glassformer.reports.table import Table
from glassformer.tasks.classify.task import Classify
from glassformer.training.optimiser import Schedule, make_optimiser, set_rate
from glassformer.training.state import seed_all

CLIP = 1.0
SHARPNESS = 5.0
"""How fast `log` rises at the beginning, and `exp` at the end."""
CHECKS = 10
"""How often the held-out texts are scored."""
RECENT = 0.95
"""Weight of the mean so far against that of a step, in distribution alignment."""
Annealing = Literal["none", "linear", "log", "exp"]


@dataclass(frozen=True, kw_only=True)
class UdaOptions(FineTuningOptions, ChangeOptions):
    """The training, how copies are changed, and what unlabelled texts weigh."""

    weight: Annotated[NonNegative, Doc("Weight of the consistency loss.")] = 1.0
    begin: Annotated[BelowOne, Doc("Share of the steps after which unlabelled texts count.")] = 0.5
    pairs: Annotated[Count, Doc("Unlabelled texts a step, each with its copy.")] = 8
    pool: Annotated[Count, Doc("Unlabelled texts that are read, at most.")] = 5_000
    temperature: Annotated[Positive, Doc("Sharpening: below 1 makes certain predictions more certain.")] = 0.4
    confidence: Annotated[BelowOne, Doc("Unlabelled texts count from this probability of a label on.")] = 0.95
    align: Annotated[bool, Doc("Predictions for unlabelled texts have each label as often as labelled texts do.")] = (
        True
    )
    annealing: Annotated[Annealing, Doc("How soon labelled texts count although they are certain.")] = "log"


class UnsupervisedAugmentation(Method[UdaOptions]):
    """Fine-tuning with a consistency loss on unlabelled texts."""

    OPTIONS = UdaOptions
    NEEDS = ("labels", "unlabelled")
    BRIEF: ClassVar[dict[str, Any]] = {**ONE_STEP, "begin": 0.0}

    @property
    def roles(self) -> set[str]:
        return self.options.roles

    def learn(self, labelled: LabelledTexts, unlabelled: Sequence[str]) -> np.ndarray | None:
        setting, options = self.setting, self.options
        train, validation = options.divided(labelled, setting.seed)
        self.withheld, self._checks = len(validation), list[list[str]]()
        draw = np.random.default_rng(setting.seed)
        read = options.pairs * math.ceil((1 - options.begin) * steps_of(options, len(train)))
        texts = [unlabelled[i] for i in draw.permutation(len(unlabelled))[: min(options.pool, read)]]
        self._changed = ChangedCopies(options, setting)
        copies = self._changed.of(texts, draw)
        seed_all(setting.seed)  # of the new head
        self.task = new_classifier(setting.model, labelled, setting)
        self._train(train, validation, texts, copies)
        if labelled.several and len(validation):
            self.thresholds = best_thresholds(self.scores(validation.texts), validation.holds)
        return None

    def _train(self, train: LabelledTexts, validation: LabelledTexts, texts: list[str], copies: list[str]) -> None:
        """Train; of texts that are held out, take the weights with the lowest loss."""
        task, options, network = self.task, self.options, self.task.model.network
        draw = np.random.default_rng(self.setting.seed)
        known, (plain, _), (changed, _) = (
            examples_of(task, train),
            task.encoded(texts, None),
            task.encoded(copies, None),
        )
        steps = steps_of(options, len(train))
        own, others = endless(len(train), options.batch_size, draw), endless(len(texts), options.pairs, draw)
        optimizer = make_optimiser(network, learning_rate=options.learning_rate, weight_decay=0.01)
        schedule, counts = Schedule("linear", steps, warmup=0.1), np.zeros(3)
        lowest, weights, alignment = math.inf, weights_of(network), LabelAlignment(train)
        network.train()
        for step in range(1, steps + 1):
            set_rate(optimizer, schedule(step))
            batch = task.collate([known[i] for i in next(own)])
            answers, labels = network(batch.batch, batch.flow).logits, batch.labels
            assert isinstance(labels, Tensor)
            ceiling = annealed(options.annealing, step / steps, 2 if train.several else len(train.kind.names))
            loss, counted = supervised_loss(answers, labels, several=train.several, ceiling=ceiling)
            sure = 0.0
            if step > options.begin * steps:
                pairs = next(others)
                with torch.no_grad(), eval_mode(network):
                    target = logits_of(task, [plain[i] for i in pairs])
                more, sure = consistency_loss(
                    alignment(target) if options.align else target, logits_of(task, [changed[i] for i in pairs]),
                    several=train.several, temperature=options.temperature, confidence=options.confidence,
                )  # fmt: skip
                loss = loss + options.weight * more
            loss.backward()
            clip_grad_norm_(network.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            counts += 1, counted, sure
            if step % max(1, steps // CHECKS) == 0 or step == steps:
                held_out = held_out_loss(task, validation) if len(validation) else math.nan
                if held_out < lowest:
                    lowest, weights = held_out, weights_of(network)
                shares = [f"{x:.0%}" for x in counts[1:] / counts[0]]
                self._checks.append([str(step), *shares, shown_loss(held_out)])
                counts[:] = 0
        network.eval()
        if len(validation):
            network.load_state_dict(weights)

    def scores(self, texts: Sequence[str]) -> np.ndarray:
        return scores_of(self.task, texts)

    def saved(self) -> Classify:
        return self.task

    def tables(self) -> list[Table]:
        """What counted, and the held-out loss, over the steps."""
        headings = ["step", "labelled that count", "unlabelled that count", "held-out loss"]
        own = Table(headings, self._checks, "Unsupervised data augmentation", folded=True)
        return [own, *self._changed.tables()]


def endless(count: int, size: int, draw: np.random.Generator) -> Iterator[np.ndarray]:
    """Indices of batches without end: each example once before any comes again."""
    order = np.zeros(0, dtype=np.int64)
    while True:
        while len(order) < size:
            order = np.concatenate([order, draw.permutation(count)])
        yield order[:size]
        order = order[size:]


def logits_of(task: Classify, examples: Sequence[Any]) -> Tensor:
    """What the network, as it is, answers for examples. [N, L]"""
    batch, flow = task.collate_inputs(examples)
    logits: Tensor = task.model.network(batch, flow).logits
    return logits


def annealed(annealing: Annealing, progress: float, labels: int) -> float:
    """The probability of its label up to which a labelled text counts; from by chance, 1/L, to 1.

    Args:
        progress: share of the steps that are done
    """
    if annealing == "none":
        return math.inf
    rise = {
        "linear": progress,
        "log": 1 - math.exp(-SHARPNESS * progress),
        "exp": math.exp(SHARPNESS * (progress - 1)),
    }[annealing]
    return 1 / labels + (1 - 1 / labels) * rise


class LabelAlignment:
    """Distribution alignment: p · share of the label among labelled texts / its mean p of late, and normalised."""

    def __init__(self, labelled: LabelledTexts) -> None:
        self.several = labelled.several
        # A label that no text has, or all have, counts as one that half a text has more, or less.
        shares = (labelled.holds.sum(0) + 0.5) / (len(labelled) + 1)
        self.shares = torch.from_numpy(shares).float()
        self.means: Tensor | None = None

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits of aligned probabilities. [N, L]"""
        p = (logits.sigmoid() if self.several else logits.softmax(-1)).mean(0)
        self.means = p if self.means is None else RECENT * self.means + (1 - RECENT) * p
        if self.several:
            return logits + self.shares.logit() - self.means.logit()
        return logits + self.shares.log() - self.means.log()


def supervised_loss(logits: Tensor, labels: Tensor, *, several: bool, ceiling: float) -> tuple[Tensor, float]:
    """Cross-entropy of the labels whose probability is below the ceiling, and their share.

    Args:
        logits: [N, L]
        labels: numbers of the labels [N]; of several labels 0 or 1 [N, L]
    """
    if several:
        losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    else:
        losses = F.cross_entropy(logits, labels, reduction="none")
    counts = (-losses.detach()).exp() < ceiling  # the loss is −log of that probability
    return (losses * counts).sum() / counts.sum().clamp(min=1), float(counts.float().mean())


def consistency_loss(
    target: Tensor, answers: Tensor, *, several: bool, temperature: float, confidence: float
) -> tuple[Tensor, float]:
    """KL(p ‖ q) of the sharpened p of texts and the q of their copies, mean over all; and the share that counts.

    Args:
        target: logits of the texts. [N, L]
        answers: logits of the copies. [N, L]
        confidence: the rest counts as 0
    """
    if several:  # each label is a question with two answers
        target, answers = (torch.stack([x, torch.zeros_like(x)], -1) for x in (target, answers))
    sure = target.softmax(-1).amax(-1) >= confidence
    sharp = (target / temperature).log_softmax(-1)
    divergence = (sharp.exp() * (sharp - answers.log_softmax(-1))).sum(-1)
    return (divergence * sure).mean(), float(sure.float().mean())
