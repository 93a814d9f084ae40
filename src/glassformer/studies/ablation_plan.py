"""Plan of an ablation: the language model, how its weight is found, and the test sets."""

from __future__ import annotations

from dataclasses import dataclass, field

from glassformer.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class FusionOptions:
    """The n-gram model of words, and how its weight is found.

    order: of the n-grams
    min_count: words that are rarer become unknown
    alphas, betas: the weights to choose from, besides none
    tune_rows: a sample of this many validation recordings
    """

    order: int = 3
    min_count: int = 1
    alphas: list[float] = field(default_factory=lambda: [0.2, 0.5, 1.0])
    betas: list[float] = field(default_factory=lambda: [0.0])
    tune_rows: int = 100

    def __post_init__(self) -> None:
        if not self.alphas or not self.betas or min(self.alphas) < 0:
            raise ConfigError(
                "study.language_model: alphas and betas are lists of at least one weight, alphas from 0 up"
            )
        if self.tune_rows < 1 or self.order < 1:
            raise ConfigError("study.language_model: order and tune_rows are whole numbers from 1 up")


@dataclass(frozen=True, kw_only=True)
class AblationPlan:
    """The options under `study` of an ablation.

    language_model: see `FusionOptions`
    test_sets: the files of the test sets, by name
    limit: a random sample of this many recordings of each test set, the same for all systems
    speaker: the column of the speaker, if there is one: no speaker may be in two splits
    """

    language_model: FusionOptions = field(default_factory=FusionOptions)
    test_sets: dict[str, str | list[str]]
    limit: int | None = None
    speaker: str | None = None
