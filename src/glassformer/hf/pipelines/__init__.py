"""`pipeline` with the arguments, defaults and nesting of answers of Hugging Face transformers.

`glassformer.pipeline` gives every text a list of results, whatever the task; there the nesting depends on the task, on
whether one text or a list came, and on the options. This module says how, task by task, and nothing else.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from glassformer.errors import ConfigError, DataError, GlassformerError, UnsupportedError
from glassformer.files import check_count, is_int, safe_repr
from glassformer.generation.arguments import with_config
from glassformer.hf.reference_model import as_reference
from glassformer.hf.reference_tokenizer import as_reference_tokenizer, plain_tokenizer
from glassformer.hf.tokenizers import AutoTokenizer
from glassformer.hub import resolve
from glassformer.model import Model, load
from glassformer.task_names import EXAMPLES
from glassformer.tasks.classify.zero_shot import ZeroShotClassification
from glassformer.tasks.generate.pipeline import TextGeneration
from glassformer.tasks.generate.settings import split_task
from glassformer.tasks.pipeline_registry import LOADING, canonical_task
from glassformer.tasks.pipeline_registry import pipeline as plain_pipeline
from glassformer.tasks.pipelines import Pipeline
from glassformer.tasks.results import Result, Results
from glassformer.tasks.tag.pipeline import TokenClassification
from glassformer.text.tables.encode import TableTokenizer

DEFAULTS: Mapping[str, Mapping[str, Any]] = {"token-classification": {"aggregation_strategy": "none"}}
"""Task → options that have another default there."""

WITHOUT_EFFECT = frozenset(
    "framework use_fast num_workers padding clean_up_tokenization_spaces feature_extractor image_processor processor "
    "use_auth_token pin_memory tokenizer_kwargs binary_output chunk_length_s stride_length_s timeout".split()
)
"""Arguments that change nothing here: texts are never padded, a model comes with its processor, long sounds are read in
windows of its own, and no picture is fetched from an address."""

BY_NAME = ("question", "context", "word_boxes", "image")
"""Inputs that are given by name."""

ONE_RESULT = ("summarization", "translation", "text2text-generation")
"""Tasks that give one result a text, which is not in a list of its own within a list of texts."""


METHODS = frozenset("do_sample num_beams penalty_alpha prompt_lookup_num_tokens assistant_model".split())
"""Options that say how tokens are chosen."""

PipelineException = GlassformerError
"""What a pipeline raises, by its name there."""


class AggregationStrategy(StrEnum):
    """Values of `aggregation_strategy`."""

    NONE = "none"
    SIMPLE = "simple"
    FIRST = "first"
    AVERAGE = "average"
    MAX = "max"


STEPS = ("preprocess", "forward", "_forward", "postprocess", "_sanitize_parameters", "ensure_tensor_on_device")
"""Steps of a pipeline there, which are one here."""


def get_supported_tasks() -> list[str]:
    """The names of the tasks that `pipeline` takes."""
    return sorted(USUAL)


def __getattr__(name: str) -> Any:
    from glassformer.hf.names import REFUSED, class_of

    if name == "Pipeline":
        from glassformer.hf.pipelines.custom import Pipeline

        return Pipeline
    if name in REFUSED or name.endswith("Pipeline"):
        return class_of(name)
    raise AttributeError(f"glassformer.hf.pipelines has no {name!r}")


USUAL = {
    **EXAMPLES,
    "token-classification": "dbmdz/bert-large-cased-finetuned-conll03-english",
    "feature-extraction": "distilbert/distilbert-base-cased",
    "automatic-speech-recognition": "facebook/wav2vec2-base-960h",
}
"""Tasks → the model of a pipeline without one, which is that of the reference library where its family is here."""


def check_task(task: str) -> tuple[str, dict[str, Any], Any]:
    """The name of a task, its usual model, and nothing more.

    Raises: UnsupportedError: there is no such task.
    """
    name = canonical_task(task)
    return name, {"default": {"model": {"pt": (USUAL.get(name), None)}}}, None


def pipeline(
    task: str | None = None,
    model: str | Path | Model | None = None,
    *,
    tokenizer: Any = None,
    config: Any = None,
    device: Any = None,
    device_map: Any = None,
    torch_dtype: Any = None,
    dtype: Any = None,
    trust_remote_code: bool | None = None,
    model_kwargs: Mapping[str, Any] | None = None,
    **options: Any,
) -> CompatiblePipeline:
    """A pipeline that is called as one of transformers.

        pipeline("sentiment-analysis", "distilbert-base-uncased-finetuned-sst-2-english")("I love this")

    Args:
        task: by its name there, also of those that newer releases have dropped; None = the task of the model's head.
        model: a folder, a name on the Hub, or a loaded model; None = the task's usual one (`USUAL`), which is not
            downloaded without asking.
        tokenizer: instead of the model's own
        device: -1 = the CPU, 0 = the first GPU, or a name
        options: of the task, of loading (`revision`, …), and of `generate`.
    Raises: UnsupportedError: a task or an argument that is not supported. Else as `glassformer.pipeline`.
    """
    if trust_remote_code:
        raise UnsupportedError("trust_remote_code=True would run code of the checkpoint, which never happens here")
    if config is not None:
        raise UnsupportedError("config= is given to load(…, overrides=…); give the loaded model to the pipeline")
    if task is None:
        model = model if isinstance(model, Model) or model is None else load(model)
        task = _task_of_head(model)
    name = canonical_task(task)
    options = _with_effect(options)
    model = _usual_model(name) if model is None else model
    place, kind = (device_map if device is None else device), (torch_dtype if dtype is None else dtype)
    loading = {**(model_kwargs or {}), **_place_and_kind(place, kind)}
    if isinstance(model, Model):
        model = model.to(loading.pop("device")) if "device" in loading else model
        loading |= {key: options.pop(key) for key in LOADING if key in options}
        if loading:
            names = ", ".join(f"{name}=" for name in loading)
            warnings.warn(f"{names} changes nothing: the model is loaded; give it to from_pretrained(…)", stacklevel=2)
            loading = {}
    source, target = options.pop("src_lang", None), options.pop("tgt_lang", None)
    if name == "translation" and source and target and not split_task(task):
        task = f"translation_{source}_to_{target}"
    inner = plain_pipeline(task, model, **{**DEFAULTS.get(name, {}), **loading, **_renamed(name, options)})
    inner.model = inner.model if isinstance(model, Model) else as_reference(inner.model)
    _answer_as_there(inner)
    chosen = None if tokenizer is None else _set_tokenizer(inner, tokenizer)
    made: CompatiblePipeline = object.__new__(named_class(name))
    CompatiblePipeline.__init__(made, inner, name, options, model)
    if chosen is not None:
        made.tokenizer = chosen
    return made


def _set_tokenizer(inner: Pipeline, tokenizer: Any) -> Any:
    """Set another tokenizer, also by name. Returns: it, with the names of the reference library."""
    chosen = AutoTokenizer.from_pretrained(tokenizer) if isinstance(tokenizer, (str, Path)) else tokenizer
    inner.model = copy(inner.model)  # the caller's own model keeps its tokenizer
    inner.model.tokenizer = plain_tokenizer(chosen.tokenizer if isinstance(chosen, TableTokenizer) else chosen)
    return as_reference_tokenizer(chosen)


def _answer_as_there(inner: Pipeline) -> None:
    """Set what a pipeline of a task does otherwise than there."""
    if isinstance(inner, TokenClassification):
        inner.by_tokens = True
    if isinstance(inner, TextGeneration):
        inner.from_start = True


def _place_and_kind(place: Any, kind: Any) -> dict[str, Any]:
    """The keywords of loading for a device, which may be a number, and for a dtype."""
    return {
        **({} if place is None else {"device": named_device(place)}),
        **({} if kind in (None, "auto") else {"dtype": kind}),
    }


def named_device(place: Any) -> Any:
    """A device by number: -1 = the CPU, 0 = the first accelerator, and the CPU with a note where there is none."""
    if not is_int(place, -math.inf):
        return place
    accelerator = torch.accelerator.current_accelerator(check_available=True) if place >= 0 else None
    if place >= 0 and accelerator is None:
        warnings.warn(f"device={place}: this machine has no accelerator; the pipeline runs on the CPU", stacklevel=4)
    return "cpu" if accelerator is None else f"{accelerator.type}:{place}"


class _ByTask(type):
    """A class of pipelines of one task, which is called as `pipeline` is: `TextClassificationPipeline(model=…)`."""

    def __call__(cls, model: Any = None, tokenizer: Any = None, **options: Any) -> Any:
        return pipeline(cls.TASK, model, tokenizer=tokenizer, **options)  # type: ignore[attr-defined] # of `named_class`


class CompatiblePipeline(metaclass=_ByTask):
    """A pipeline whose answers are nested as those of transformers.

    inner: the pipeline that answers
    model, tokenizer, task, device: as there
    """

    def __init__(self, inner: Pipeline, name: str, options: Mapping[str, Any], model: Any = None) -> None:
        self.inner, self.task, self._name = inner, inner.task, name
        self._options = dict(options)
        self.model = model if isinstance(model, Model) else inner.model
        if isinstance(inner, ZeroShotClassification):
            self.entailment_id = inner.entailment

    @property
    def image_processor(self) -> Any:
        """What prepares pictures or sounds, None where the model reads texts alone; `feature_extractor` is the same."""
        return self.inner.model.processor if self.inner.model.has_processor else None

    feature_extractor = image_processor

    @cached_property
    def tokenizer(self) -> Any:
        return as_reference_tokenizer(self.inner.model.tokenizer)

    @property
    def device(self) -> torch.device:
        return self.model.device

    def __call__(self, inputs: Any = None, *further: Any, **options: Any) -> Any:
        """Answer one input, a list, or a stream of them."""
        if self._name == "zero-shot-classification":
            inputs = options.pop("sequences", inputs)
            if isinstance(inputs, str) and not inputs:
                raise DataError("the input is an empty text; give at least one word to classify")
        if isinstance(inputs, Sequence) and not isinstance(inputs, (str, bytes, list, tuple)):
            inputs = list(inputs)  # a column of a data set
        if self._name == "document-question-answering":
            options |= dict(zip(("question", "word_boxes"), further, strict=False))
            inputs = None if "question" in options else inputs  # the picture, which is not read
        elif self._name == "table-question-answering" and further:
            options["query"] = further[0]
        elif further:  # candidate labels of zero-shot-classification
            options["candidate_labels"] = further[0]
        elif self._name == "text-classification" and isinstance(inputs, list):
            inputs = [_text_or_pair(each) for each in inputs]
        named = _inputs_by_name(options)
        given = _with_effect(options)
        batch_size = {key: given.pop(key) for key in ("batch_size",) if key in given}
        given = _renamed(self._name, given)
        set_before = _renamed(self._name, self._options).keys()
        if self._name == "text-classification" and not {"top_k", "threshold"} & (given.keys() | set_before):
            batch_size["top_k"] = 1  # as there: the likeliest label, also where none of several is probable
        given |= self._sampling(given.keys() | set_before)
        tensors = {**self._options, **options}.get("return_tensors") in (True, "pt")
        if inputs is None and named:
            answer = self.inner(**named, **given, **batch_size)
            inputs = None if isinstance(named["question"], str) else []
        else:
            answer = self.inner(inputs, **given, **batch_size)
        if isinstance(answer, Iterator):
            return (self._shaped(each, given, alone=False, tensors=tensors) for each in answer)
        if isinstance(inputs, (list, tuple)):
            answers = [self._shaped(each, given, alone=False, tensors=tensors) for each in answer]
            return answers[0] if self._name == "fill-mask" and len(answers) == 1 else answers  # as there
        all_scores = bool(options.get("return_all_scores"))
        return self._shaped(answer, given, alone=isinstance(inputs, str), all_scores=all_scores, tensors=tensors)

    predict = transform = __call__

    def _sampling(self, named: Collection[str]) -> dict[str, Any]:
        """Text generation samples, as there, where neither the caller nor the model says how tokens are chosen."""
        named_method = self.model.generation_config.get("do_sample") is not None or not METHODS.isdisjoint(named)
        if self._name != "text-generation" or named_method:
            return {}
        return {"do_sample": True, **({} if "temperature" in named else {"temperature": 0.7})}

    def _shaped(
        self, answer: Any, call: Mapping[str, Any], *, alone: bool, all_scores: bool = False, tensors: bool = False
    ) -> Any:
        """One input's answer, nested as there.

        Args:
            alone: a single text, no list and no mapping
            all_scores: asked for by the old name of top_k=None
            tensors: states as a tensor, not as lists
        """
        answer = _as_dicts(answer)
        if self._name == "text-classification":
            several = {"top_k", "threshold"} & {*_renamed(self._name, self._options), *call}
            result = list(answer) if several else answer[0]
            return [result] if alone and ("top_k" not in call or all_scores) else result
        if self._name in ONE_RESULT and not alone and len(answer) == 1:
            return answer[0]
        if self._name in ("feature-extraction", "image-feature-extraction"):
            states = np.asarray(answer)[None]
            return torch.from_numpy(states) if tensors else states.tolist()
        if self._name == "automatic-speech-recognition" and not self.model.is_encoder_decoder:
            for chunk in answer.get("chunks", ()):
                chunk["text"] = chunk["text"].strip()  # words of letters, without the space before them
        return answer

    def __getattr__(self, name: str) -> Any:
        if name in STEPS:
            raise UnsupportedError(
                f"pipeline.{name}(…) is not there: call the pipeline itself, or its parts: "
                "pipeline.model(**pipeline.tokenizer(text, return_tensors='pt'))"
            )
        raise AttributeError(f"a pipeline has no {name!r}")

    def push_to_hub(self, name: str, **options: Any) -> str:
        """Upload the model with its tokenizer. Returns: the address of the commit."""
        return self.model.push_to_hub(name, **options)

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    def save_pretrained(self, folder: str | Path) -> None:
        """Save the model with its tokenizer."""
        self.model.save_pretrained(folder)

    def __repr__(self) -> str:
        return f"pipeline({self.task!r}, {self.model!r})"


def _as_dicts(answer: Any) -> Any:
    """Results as plain dictionaries, in plain lists, which print as there; another answer as it is."""
    if isinstance(answer, Result):
        return {name: _as_dicts(value) for name, value in answer.items()}
    several = isinstance(answer, Results) or (isinstance(answer, list) and answer and isinstance(answer[0], Result))
    return [_as_dicts(each) for each in answer] if several else answer


def _text_or_pair(given: Any) -> Any:
    """An input of text classification within a list. Raises: DataError: a list of two texts, which is no pair there."""
    if isinstance(given, list) and len(given) == 1 and isinstance(given[0], list) and len(given[0]) == 2:
        return tuple(given[0])  # the old way to write a pair
    if isinstance(given, list):
        raise DataError(f"an input is {safe_repr(given)}; give a text, or a pair as {{'text': …, 'text_pair': …}}")
    return given


def _with_effect(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that change something. Raises: ConfigError: `num_workers` is no number of processes."""
    if options.get("num_workers") is not None:
        check_count("num_workers", options["num_workers"], 0)
    return {key: value for key, value in options.items() if key not in WITHOUT_EFFECT}


def _inputs_by_name(options: dict[str, Any]) -> dict[str, Any]:
    return {key: options.pop(key) for key in BY_NAME if key in options}


def _renamed(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as our pipelines know them.

    Raises: UnsupportedError: ids are asked for in the place of texts.
    """
    if options.get("return_tensors") and name in ("text-generation", *ONE_RESULT):
        raise UnsupportedError(
            f"a {name} pipeline gives texts; for ids leave return_tensors out, and write "
            "model.generate(**tokenizer(text, return_tensors='pt'))"
        )
    unused = {"return_tensors"}
    if name in ("question-answering", *ONE_RESULT, "text-generation"):
        unused.add("truncation")
    if name == "token-classification":
        unused.add("stride")  # long texts are read in windows of its own
    renamed = {"top_k" if key == "topk" else key: value for key, value in options.items() if key not in unused}
    if name == "text-generation":
        renamed = _of_generation(renamed)
    if renamed.pop("return_all_scores", False):
        renamed["top_k"] = None
    if renamed.pop("grouped_entities", False):
        renamed["aggregation_strategy"] = "simple"
    if "truncation" in renamed:
        renamed["truncation"] = renamed["truncation"] not in (False, "do_not_truncate")
    return renamed


def _of_generation(options: dict[str, Any]) -> dict[str, Any]:
    """Options of text generation, without those that only a pipeline there has.

    Raises: ConfigError: two that exclude each other, or a way to shorten a prompt that there is not.
    """
    options = with_config(options.pop("generation_config", None), options)
    if options.pop("return_text", None) and "return_full_text" in options:
        raise ConfigError("return_text and return_full_text were both given; give one of them")
    if options.get("streamer", "") is None:
        del options["streamer"]
    variables = {name: options.pop(name) for name in ("tools", "documents") if name in options}
    if variables := {**variables, **(options.pop("tokenizer_encode_kwargs", None) or {})}:
        options["template_variables"] = variables
    if (ends := options.pop("stop_sequence", None)) is not None:
        options["stop_strings"] = [ends] if isinstance(ends, str) else ends
    if (shortening := options.pop("handle_long_generation", None)) is not None:
        if shortening != "hole":
            raise ConfigError(f"handle_long_generation is {safe_repr(shortening)}; it must be 'hole', or left out")
        options["truncation"] = True
    if options.get("max_new_tokens") is not None and options.pop("max_length", None) is not None:
        warnings.warn("max_new_tokens and max_length were both given; max_new_tokens counts", stacklevel=4)
    return options


@cache
def named_class(task: str) -> type:
    """The class of a task's pipelines: `TextClassificationPipeline`."""
    name = "".join(part[:1].upper() + part[1:] for part in task.replace("2text", "2Text").split("-")) + "Pipeline"
    about = {"__module__": "glassformer.hf", "TASK": task, "__doc__": f"pipeline({task!r}, …)"}
    return _ByTask(name, (CompatiblePipeline,), about)


def _task_of_head(model: Any) -> str:
    if not isinstance(model, Model):
        raise ConfigError(
            "pipeline() was given no task and no model; give the task: pipeline('text-classification', …)"
        )
    return "text2text-generation" if model.is_encoder_decoder and model.writes else model.task


def _usual_model(name: str) -> str | Path | None:
    """The task's usual checkpoint: from the cache, or downloaded where the user agrees; else None."""
    if (usual := USUAL.get(name)) is None:  # a task of a plug-in
        return None
    try:
        return resolve(usual, offline=True)
    except GlassformerError:
        if sys.stdin.isatty() and sys.stderr.isatty():
            print(f"no model is named; download {usual} from the Hub? [y/N] ", end="", file=sys.stderr, flush=True)
            if sys.stdin.readline().strip().lower() in ("y", "yes"):
                return usual
    return None
