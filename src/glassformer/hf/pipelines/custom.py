"""`Pipeline`: custom pipelines, of the four steps that a subclass defines.

inputs ──preprocess──> model inputs ──_forward──> output ──postprocess──> answer        _sanitize_parameters: whose
                                                                                        options are which step's
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from glassformer.errors import ConfigError
from glassformer.hf.auto import AutoModel
from glassformer.hf.pipelines import CompatiblePipeline, named_device


class _AnyPipeline(type):
    """`isinstance(pipe, Pipeline)` holds for what `pipeline(…)` gives, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (
            cls is CustomPipeline and isinstance(instance, CompatiblePipeline)
        )


class CustomPipeline(metaclass=_AnyPipeline):
    """A custom pipeline: preprocess, _forward, postprocess, and _sanitize_parameters.

    Args:
        model: a model, or a folder
        tokenizer, feature_extractor, image_processor, processor: what makes its inputs
        device: -1 = the CPU, 0 = the first GPU, or a name
        options: of the steps
    """

    def __init__(
        self,
        model: Any = None,
        tokenizer: Any = None,
        feature_extractor: Any = None,
        image_processor: Any = None,
        processor: Any = None,
        task: str = "",
        device: Any = None,
        **options: Any,
    ) -> None:
        if model is None:
            raise ConfigError(f"{type(self).__name__} needs a model: model=AutoModelFor….from_pretrained(folder)")
        self.model = AutoModel.from_pretrained(model) if isinstance(model, (str, Path)) else model
        self.tokenizer, self.feature_extractor, self.processor = tokenizer, feature_extractor, processor
        self.image_processor, self.task = image_processor, task
        if device is not None:
            self.model.to(named_device(device))
        for name in ("framework", "batch_size", "num_workers", "torch_dtype", "dtype"):
            options.pop(name, None)
        self._preprocess_params, self._forward_params, self._postprocess_params = self._sanitize_parameters(**options)

    @property
    def device(self) -> torch.device:
        """Device of the model."""
        device: torch.device = self.model.device
        return device

    def _sanitize_parameters(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Options → those of preprocess, of _forward and of postprocess."""
        raise NotImplementedError(f"{type(self).__name__} must define _sanitize_parameters")

    def preprocess(self, inputs: Any, **options: Any) -> Any:
        """One input → the inputs of the model."""
        raise NotImplementedError(f"{type(self).__name__} must define preprocess")

    def _forward(self, model_inputs: Any, **options: Any) -> Any:
        """The inputs of the model → its output."""
        raise NotImplementedError(f"{type(self).__name__} must define _forward")

    def postprocess(self, model_outputs: Any, **options: Any) -> Any:
        """The output of the model → the answer."""
        raise NotImplementedError(f"{type(self).__name__} must define postprocess")

    def forward(self, model_inputs: Any, **options: Any) -> Any:
        """`_forward` on the model's device, without gradients."""
        with torch.no_grad():
            return self._forward(self._placed(model_inputs), **options)

    def _placed(self, inputs: Any) -> Any:
        if isinstance(inputs, Mapping):
            moved = {name: x.to(self.device) if isinstance(x, Tensor) else x for name, x in inputs.items()}
            return moved
        return inputs.to(self.device) if isinstance(inputs, Tensor) else inputs

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """The answer to one input, or those to a list or a stream of them, one after the other."""
        for name in ("batch_size", "num_workers"):
            options.pop(name, None)
        before, on, after = self._sanitize_parameters(**options)

        def answer(one: Any) -> Any:
            model_inputs = self.preprocess(one, **{**self._preprocess_params, **before})
            output = self.forward(model_inputs, **{**self._forward_params, **on})
            return self.postprocess(output, **{**self._postprocess_params, **after})

        if isinstance(inputs, list):
            return [answer(one) for one in inputs]
        return (answer(one) for one in inputs) if isinstance(inputs, Iterator) else answer(inputs)

    def save_pretrained(self, folder: str | Path) -> None:
        """Save the model, and what makes its inputs."""
        self.model.save_pretrained(folder)
        for part in (self.tokenizer, self.feature_extractor, self.image_processor):
            if part is not None:
                part.save_pretrained(folder)


Pipeline = CustomPipeline
"""By the name of the reference library."""
