"""Deprecated names: modules and names that moved still import for one release, with a `DeprecationWarning`.

from glassformer.judging.evaluate import evaluate      works, and warns: use glassformer.evaluation.evaluate
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, TypeVar, cast

REMOVED_IN = "the next release"

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class")

MODULES: Mapping[str, str] = {
    "core.block_sparse": "models.big_bird.block_sparse",
    "core.cells": "models.tapas.cells",
    "core.regions": "models.lxmert.regions",
    "judging.evaluate": "evaluation.evaluate",
    "judging.judge": "tasks.base",
    "tasks.registry": "tasks.base",
    "tasks.loop": "tasks.microbatch",
    "tasks.masked.task": "tasks.masked",
    "tasks.features": "tasks.pipelines",
    "evaluation.compare.systems": "evaluation.compare.texts",
    "judging.runs": "evaluation.runs",
    "judging.records": "tasks.predictions",
    "judging.mistakes.errors": "evaluation.error_analysis.errors",
    "judging.mistakes.confusion": "evaluation.error_analysis.confusion",
    "judging.comparing.seeds": "evaluation.compare.seeds",
    "judging.book.reproduce": "evaluation.reproduce",
    "evaluation.book.reproduce": "evaluation.reproduce",
    "judging.studies.results": "studies.results",
    "judging.baselines.features": "tasks.classify.baselines",
    "tasks.classify.feature_classifier": "tasks.classify.baselines",
    "evaluation.bleu": "tasks.metrics.bleu",
    "evaluation.classes": "tasks.metrics.classes",
    "evaluation.entities": "tasks.metrics.entities",
    "evaluation.intervals": "tasks.metrics.metric",
    "evaluation.rouge": "tasks.metrics.rouge",
    "evaluation.speech": "tasks.metrics.speech",
    "evaluation.squad": "tasks.metrics.answers",
    "tasks.metrics.squad": "tasks.metrics.answers",
    "training.objectives.causal": "tasks.causal.task",
    "training.objectives.classify": "tasks.classify.task",
    "training.objectives.labels": "tasks.classify.task",
    "tasks.classify.labels": "tasks.classify.task",
    "training.objectives.masked": "tasks.masked",
    "training.objectives.sequence": "tasks.seq2seq.task",
    "training.state_files": "training.state",
    "training.randomness": "training.state",
    "training.schedules": "training.optimiser",
    "training.progress": "training.callbacks",
    "runs.options": "runs.config",
    "runs.presets": "runs.config",
    "tasks.prompts": "tasks.generate.prompts",
    "tasks.lead": "tasks.seq2seq.baselines",
    "tasks.generate.lead": "tasks.seq2seq.baselines",
    "tasks.long": "tasks.generate.long",
    "tasks.compare": "evaluation.compare.texts",
    "tasks.generate.compare": "evaluation.compare.texts",
    "tasks.rows": "evaluation.compare.texts",
    "tasks.generate.rows": "evaluation.compare.texts",
    "generation.said": "generation.filters",
    "generation.prefix_states": "generation.filters",
    "generation.stopping": "generation.stopping_criteria",
    "generation.beam_pool": "generation.beam_group",
    "generation.inputs": "generation.rows",
    "generation.sample": "generation.decoding",
    "inspect.writing": "inspect.generation_trace",
    "inspect.lru_cache": "inspect.head",
    "inspect.open_inputs": "inspect.inputs",
    "lessons.blueprint": "lessons.encoder_decoder",
    "core.specs": "core",
    "core.attention_layout": "core.stack",
    "core.audio_heads": "models._speech",
    "core.spec_augment": "models._speech",
    "core.waveform": "models.wav2vec2.waveform",
    "models.load": "pretrained",
    "models.resolve": "models",
    "weights.fit": "weights.load",
    "weights.spelling": "weights.load",
}
"""Former module → where it stands now, both below `glassformer`."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "evaluation.error_analysis.confusion": {"confusion_of": "confusion_matrix"},
    "evaluation.error_analysis.errors": {"errors_of": "analyse_errors"},
    "runs.config": {"config_of": "parse_config", "Options": "TrainingOptions"},
    "runs.event_log": {
        "Journal": "EventLog",
        "journal_path": "event_log_path",
        "read_journal": "read_event_log",
        **{name: f"runs.history.{name}" for name in ("RunHistory", "read_run", "read_runs")},
    },
    "studies.results": {"crossing": "crossing_point"},
    "training": {"Options": "TrainingOptions"},
    "training.card": {"Notes": "CardNotes"},
    "training.state": {"capture": "capture_rng", "restore": "restore_rng"},
    "core": {
        "BlockSparseAttention": "models.big_bird.BlockSparseAttention",
        "BlockSparseAttentionSpec": "models.big_bird.BlockSparseAttentionSpec",
        "Memory": "EncoderOutput",
        "Pattern": "AttentionPattern",
        "Segments": "Packing",
    },
    "core.attention": {
        **{name: f"core.cross_attention.{name}" for name in ("CrossAttention", "CrossAttentionSpec")},
        **{
            name: f"core.dot_product.{name}" for name in ("attention_scores", "scaled_dot_product_attention", "softmax")
        },
    },
    "core.flow": {"Memory": "EncoderOutput"},
    "core.positions": {
        **{
            name: f"core.rotary.{name}" for name in ("LinearScaling", "Llama3Scaling", "Rotary", "RotarySpec", "rotate")
        },
        **{name: f"models.wav2vec2.{name}" for name in ("ConvolvedPositions", "ConvolvedPositionsSpec")},
    },
    "core.masks": {"Pattern": "AttentionPattern", "Segments": "Packing"},
    "generation.scorer": {"LanguageModel": "LanguageModelScorer"},
    "generation.options": {"Options": "GenerationOptions"},
    "generation.filters": {"Said": "PrefixStates", "typical": "typical_p"},
    "audio": {"SoundProcessor": "AudioProcessor", "read_sound": "read_audio"},
    "data.mapping": {"mapped": "map_rows"},
    "data.rows": {"Rows": "RowSequence"},
    "inspect": {"memory": "ram", "Head": "AttentionHead"},
    "lessons.copying": {"learn": "train_copying"},
    "lessons.encoder_decoder": {"EncoderDecoder": "TinyEncoderDecoder"},
    "models": {"Reader": "ConfigReader"},
    "models.bart": {"BartSpec": "models.transformer.TransformerSpec"},
    "models.t5": {"T5Spec": "models.transformer.TransformerSpec"},
    "models.transformer": {
        "SideSpec": "StreamSpec",
        "as_decoder": "decoder_block",
        "shifted_right": "shift_right",
    },
    "weights.load": {"fill": "load_weights", "gather": "export_weights", "Spelled": "RenamedCheckpoint"},
    "weights.names": {
        "Gapped": "FusedNoKeyBias",
        "Names": "WeightNames",
        "OneRow": "Unsqueezed",
        "Part": "Slice",
        "Stacked": "StackedExperts",
    },
    "inspect.generation_trace": {"Writing": "GenerationTrace"},
    "inspect.families": {"kinships": "family_table"},
    "tasks.metrics.classes": {"SaidClasses": "ClassificationScores", "SaidLabels": "MultiLabelScores"},
    "tasks.metrics.entities": {"SaidEntities": "EntityScores"},
    "tasks.metrics.regression": {"SaidNumbers": "RegressionScores"},
    "tasks.predictions": {
        "Record": "Prediction",
        "read_records": "read_predictions",
        "write_records": "write_predictions",
    },
}
"""Module, as it is called now → former name → name now, for what the documentation has shown.

A name with dots stands in another module.
"""


def warn_former(name: str, now: str) -> None:
    """Warn the caller of the caller of a name that is another now."""
    message = f"{name} is deprecated and goes in {REMOVED_IN}; use {now}"
    warnings.warn(message, DeprecationWarning, stacklevel=3)


class DeprecatedModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules under their former names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        name = fullname.removeprefix("glassformer.")
        if name == fullname or not any(old == name or old.startswith(f"{name}.") for old in MODULES):
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=name not in MODULES)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.removeprefix("glassformer.")
        if name in MODULES:
            now = f"glassformer.{MODULES[name]}"
            warn_former(module.__name__, now)
            module.__dict__["__getattr__"] = lambda attribute: _attribute(now, attribute)


def _attribute(module: str, name: str) -> Any:
    there = importlib.import_module(module)
    return getattr(there, NAMES.get(module.removeprefix("glassformer."), {}).get(name, name))


def former_names(module: str) -> Any:
    """The `__getattr__` of a module whose documented names changed; it warns and gives the name of today.

    Raises: AttributeError: a name that the module never had.
    """
    known = NAMES.get(module.removeprefix("glassformer."), {})

    def lookup(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        elsewhere, _, now = known[name].rpartition(".")
        warn_former(f"{module}.{name}", f"glassformer.{known[name]}" if elsewhere else now)
        return getattr(importlib.import_module(f"glassformer.{elsewhere}" if elsewhere else module), now)

    return lookup


def former_keywords(**names: str) -> Callable[[Function], Function]:
    """A decorator: former keyword arguments (former="name now") still work, with a `DeprecationWarning`."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            for former in names.keys() & options.keys():
                warn_former(f"the argument {former}", names[former])
                options[names[former]] = options.pop(former)
            return function(*args, **options)

        return cast("Function", call)

    return decorate


def former_attributes(**names: str) -> Callable[[type[Class]], type[Class]]:
    """A class decorator: former attributes and methods (former="name now") still work, with a `DeprecationWarning`.

    A subclass that defines a method by its former name overrides the one of today.
    """

    def decorate(cls: type[Class]) -> type[Class]:
        for former, now in names.items():
            setattr(cls, former, property(functools.partial(_former_attribute, former, now)))
        inherited = cls.__init_subclass__

        def adopt(subclass: type[Class], **options: Any) -> None:
            inherited(**options)
            for former, now in names.items():
                if former in vars(subclass):
                    warn_former(f"{subclass.__name__}.{former}", now)
                    setattr(subclass, now, vars(subclass)[former])

        cls.__init_subclass__ = classmethod(adopt)  # type: ignore[assignment, arg-type]
        return cls

    return decorate


def _former_attribute(former: str, now: str, owner: Any) -> Any:
    warn_former(f"{type(owner).__name__}.{former}", now)
    return getattr(owner, now)


def install() -> None:
    """Let former module names be imported; once a process."""
    if not any(isinstance(finder, DeprecatedModules) for finder in sys.meta_path):
        sys.meta_path.append(DeprecatedModules())
