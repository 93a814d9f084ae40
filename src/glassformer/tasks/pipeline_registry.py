"""pipeline(task, model): the pipelines by Hugging Face's task names, and the loading of a model for one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer import foreign
from glassformer.errors import ConfigError, DataError, UnknownNameError, UnsupportedError, WeightsError, nearest
from glassformer.files import read_json_object, safe_repr
from glassformer.files.lazy import imported
from glassformer.files.schema import field_types
from glassformer.hub import resolve
from glassformer.hub.find import scorer_folder
from glassformer.loading import InferenceLoading
from glassformer.model import Model, load
from glassformer.models import FAMILIES, find_family, text_part
from glassformer.task_names import ANSWERED, EXAMPLES, TASK_ALIASES, TRAINED
from glassformer.tasks.classify.scored import ScoredTextClassification
from glassformer.tasks.classify.scorer import TextScorer
from glassformer.tasks.generate.settings import split_task
from glassformer.tasks.media import MediaPipeline
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.registry import TASKS
from glassformer.weights.header import read_file_header
from glassformer.weights.load import name_list

PIPELINES: dict[str, type[Pipeline]] = {name: imported(answers) for name, answers in ANSWERED.items()}
"""Name of a task (Hugging Face's, where it has one) → what does it; a new one is a row of `task_names.TABLE`."""

LOADING = (*field_types(InferenceLoading), "strict")
"""Options of `load`."""


def pipeline(task: str, model: str | Path | Model | None = None, **options: Any) -> Pipeline:
    """A model put to a task: give it texts, and it answers.

        fill = pipeline("fill-mask", "bert-base-uncased")
        fill("Time flies like an [MASK].")[0].token_str

        translate = pipeline("translation_en_to_de", "google-t5/t5-small")
        translate(["Thank you.", "Good morning."], num_beams=4)

    Args:
        task: by its short name ("classify", "translate", …), or that of Hugging Face transformers
            ("text-classification", "translation_en_to_de", …); `glassformer.task_names` has all of them.
        model: a folder, a name on the Hub, or a model that was loaded for this task.
        options: of `load` where a name is given (`device`, `dtype`, `revision`, …); the others hold for all calls, such
            as `max_new_tokens`, `num_beams`, `top_k`, `threshold`, `batch_size`.
    Returns: what is called with a text, a list of texts, or a stream of them.
    Raises: UnknownNameError: a task that is not done. UnsupportedError: a model that cannot do it. DataError: no model.
        WeightsError: a checkpoint without the head for it. Else as `load`.
    """
    name, kind = _kind(task)
    if model is None:
        raise DataError(
            f"pipeline({task!r}) was given no model, and fetches none that you did not name; give a folder or a name, "
            f"such as pipeline({task!r}, {EXAMPLES.get(name.split('_')[0], 'FOLDER')!r})"
        )
    loading = {key: options.pop(key) for key in LOADING if key in options}
    full = task if split_task(task) else name
    if name == "text-classification" and (folder := scorer_folder(model)) is not None:
        return ScoredTextClassification(TextScorer.load(folder, **loading), full, **options)
    if isinstance(model, Model):
        if loading:
            raise ConfigError(f"{next(iter(loading))} is an option of load(…), and this model is already loaded")
        if model.task != kind.HEAD and not kind.BODY:
            raise _cannot(kind, name, model.family.model_type, model.family.tasks, model.task)
        return kind(model, full, **options)
    return kind(_loaded(kind, name, model, loading), full, **options)


def reads_media(task: str) -> bool:
    """Whether the inputs of a task are pictures or sounds."""
    return issubclass(_kind(task)[1], MediaPipeline)


def input_roles(task: str) -> Mapping[str, str]:
    """The parts of an input of a task that has several: see `Pipeline.ROLES`."""
    return _kind(task)[1].ROLES


def canonical_task(task: str) -> str:
    """The name of a task in Hugging Face transformers, without its languages.

    Raises: UnknownNameError: there is no pipeline for it.
    """
    return _kind(task)[0]


def _kind(task: str) -> tuple[str, type[Pipeline]]:
    """The name of a task without languages, and its class."""
    name = TASK_ALIASES.get(task, task) if isinstance(task, str) else ""
    name = "translation" if split_task(name) else name
    if name not in PIPELINES and name in TASKS and (of_plug_in := TASKS[name].PIPELINE) is not None:
        return name, of_plug_in
    if name not in PIPELINES:
        further = TASKS.usable(name for name in TASKS if name not in TRAINED)
        added = [name for name, kind in further if kind.PIPELINE is not None]
        verbs = [*(verb for verb, its in TASK_ALIASES.items() if its in PIPELINES), *added]
        heads = {head for family in FAMILIES.values() for head in family.tasks}
        raise UnknownNameError(
            f"there is no pipeline for the task {safe_repr(task)}"
            + (
                f"; load(…, task={name!r}) gives a model with that head, to be called directly"
                if name in heads
                else nearest(name, [*PIPELINES, *verbs])
            )
            + f"; there are, in short: {', '.join(verbs)}; in full: {', '.join(PIPELINES)}, translation_XX_to_YY"
        )
    return name, PIPELINES[name]


def _loaded(kind: type[Pipeline], name: str, model: str | Path, loading: dict[str, Any]) -> Model:
    """Load a model with the head of a task, once it is known that its family has one."""
    finding = {key: loading[key] for key in ("revision", "allow_pickle", "offline") if key in loading}
    if not isinstance(model, (str, Path)):
        raise DataError(f"the model is {safe_repr(model)}; give a folder, a name on the Hub, or a loaded Model")
    is_foreign = foreign.is_foreign(model)  # such files have configs of other forms, or none
    folder = Path(model) if is_foreign else resolve(model, check=read_file_header, **finding)
    if not is_foreign and (folder / "config.json").is_file():  # `load` says what to do where there is none
        family = find_family(text_part(read_json_object(folder / "config.json", ConfigError)), folder)
        if kind.HEAD not in family.tasks:
            raise _cannot(kind, name, family.model_type, family.tasks, None)
    loaded = load(folder, task=kind.HEAD, **loading)
    new = loaded.report.new_in_head
    if kind.BODY or not new:
        return loaded
    raise WeightsError(
        f"{folder}: holds no head for {name!r}, so its predictions would be random ({name_list(new)}); name a "
        f"checkpoint that was trained for this task, such as {EXAMPLES.get(name, 'that of its plug-in')}"
    )


def _cannot(
    kind: type[Pipeline], name: str, family: str, heads: tuple[str, ...], loaded: str | None
) -> UnsupportedError:
    if kind.HEAD in heads:
        return UnsupportedError(
            f"this model was loaded for {loaded!r}; for {name!r} load it with task={kind.HEAD!r}, or give the pipeline "
            "its name or folder"
        )
    return UnsupportedError(f"a {family!r} model cannot do {name!r}: {kind.WHY}")
