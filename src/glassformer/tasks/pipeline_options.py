"""Options of a pipeline, and of a file of its predictions, as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from glassformer.errors import ConfigError
from glassformer.files.schema import Count, Doc, Schema, given
from glassformer.generation.options import LENGTH

FILL_MASK, CLASSIFICATION, BATCH = "Masked language models", "Classification and tagging", "Batch inference"


@dataclass(frozen=True, kw_only=True)
class PipelineOptions(Schema):
    """Options of the tasks of `pipeline`; each task takes those that are about it."""

    batch_size: Annotated[Count | None, Doc("Batch size, in texts.", BATCH)] = None
    prefix: Annotated[str | None, Doc("Prefix (prompt) put before each text, such as 'summarize: '.", LENGTH)] = None
    src_lang: Annotated[str | None, Doc("Source language code, such as de_DE.", LENGTH)] = None
    tgt_lang: Annotated[str | None, Doc("Target language code.", LENGTH)] = None
    settings: Annotated[
        Mapping[str, Any] | None,
        Doc("Any other option of the task or of generation, as name=value; repeatable."),
    ] = None
    top_k: Annotated[
        Count | None, Doc("Number of predictions per text or mask: the k most probable.", CLASSIFICATION)
    ] = None
    all_scores: Annotated[
        bool, Doc("Return the probability of every label, with bars on the screen.", CLASSIFICATION)
    ] = False
    threshold: Annotated[
        float | None,
        Doc("Decision threshold: multi-label models predict labels of at least this probability.", CLASSIFICATION),
    ] = None
    aggregation_strategy: Annotated[
        str | None,
        Doc(
            "Aggregation strategy of tags: first (a word takes the tag of its first token), none (tag each token).",
            CLASSIFICATION,
        ),
    ] = None
    targets: Annotated[Sequence[str], Doc("Restrict fill-mask predictions to this word; repeatable.", FILL_MASK)] = ()

    def validate(self) -> None:
        if self.all_scores and self.top_k is not None:
            raise ConfigError(f"all_scores= and top_k= {self.top_k} were both given; give one of them")

    def keywords(self) -> dict[str, Any]:
        """The keywords of `pipeline`."""
        options = given(self)
        settings, all_scores = options.pop("settings", None) or {}, options.pop("all_scores", False)
        return {**options, **({"top_k": None} if all_scores else {}), **settings}


@dataclass(frozen=True, kw_only=True)
class PredictionFileOptions(Schema):
    """From the columns of a table to a file of predictions."""

    columns: Annotated[
        Mapping[str, str],
        Doc("Column mapping of a table or .jsonl file, role=column: text=body, text_pair=title; repeatable.", BATCH),
    ] = field(default_factory=dict)
    output: Annotated[Path | None, Doc("Output file: one JSON line per text.", BATCH)] = None
    resume: Annotated[bool, Doc("Resume: continue after the last prediction in the output file.", BATCH)] = False
    overwrite: Annotated[bool, Doc("Overwrite the output file.", BATCH)] = False

    def validate(self) -> None:
        if self.resume and self.overwrite:
            raise ConfigError("resume= keeps the output file and overwrite= does not; give one of them")

    def columns_of(self, roles: Iterable[str]) -> dict[str, str]:
        """The columns by role. Raises: ConfigError: one of another role."""
        for role, column in self.columns.items():
            if role not in roles:
                raise ConfigError(
                    f"columns= is {f'{role}={column}'!r}; it must be role=name, with a role of {', '.join(roles)}"
                )
        return dict(self.columns)
