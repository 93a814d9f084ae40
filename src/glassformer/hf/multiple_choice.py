"""Multiple choice: `AutoModelForMultipleChoice`, a score for each of several texts, of which one is right.

    ids [B, choices, T] ──> rows [B · choices, T] ──> a classifier of one label ──> logits [B, choices]

The network is the family's text classifier with one label, whose tensors have the names that the reference library's
class gives them; choices are rows of its batch. Source: Radford et al. 2018, section 3.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor, nn

from glassformer.core.flow import Output
from glassformer.errors import DataError, UnsupportedError
from glassformer.files import as_path
from glassformer.files.atomic import write_json
from glassformer.hf.reference_model import ReferenceModel
from glassformer.models import FAMILIES, find_family
from glassformer.models.model_config import ModelConfig

FAMILIES_OF = frozenset("albert bert big_bird deberta deberta-v2 distilbert".split())
"""Families whose classes of both heads have the same tensors."""
ONE_LABEL = {"num_labels": 1, "id2label": None, "label2id": None}
BY_CHOICE = frozenset({"inputs_embeds"})
"""Inputs with one dimension more than ids."""


class MultipleChoice(ReferenceModel):
    """A score for each choice."""

    TASKS: ClassVar[tuple[str, ...]] = ("text-classification",)
    FAMILY: ClassVar[str | None] = None

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, *unnamed: Any, **keywords: Any) -> Any:
        """Load a model; its scores are new where the folder has another head."""
        loaded = super().from_pretrained(name_or_folder, *unnamed, **{**keywords, **ONE_LABEL})
        model = loaded[0] if isinstance(loaded, tuple) else loaded
        return (_named(model), *loaded[1:]) if isinstance(loaded, tuple) else _named(model)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **keywords: Any) -> Any:
        """A new model with random weights, in training mode."""
        return _named(super().from_config({**config, **ONE_LABEL}, **keywords))

    @classmethod
    def _task(cls, config: Mapping[str, Any], folder: Path | None) -> str:
        family = find_family(config, folder)
        if family.model_type not in FAMILIES_OF:
            raise UnsupportedError(
                f"{cls.__name__}: a {family.model_type!r} model has no such head; {', '.join(sorted(FAMILIES_OF))} "
                "have; or score each choice as a pair of texts: AutoModelForSequenceClassification with num_labels=1"
            )
        return super()._task(config, folder)

    def forward(self, *args: Any, **inputs: Any) -> Any:
        """As of every model; the inputs have a dimension of choices after that of rows. labels: the right ones. [B]

        Raises: DataError: ids without choices.
        """
        named = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
        given = {**dict(zip(named, args, strict=False)), **inputs}
        as_tuple = given.pop("return_dict", None) is False
        ids = given.get("input_ids", given.get("inputs_embeds"))
        if not isinstance(ids, Tensor) or ids.dim() < 3:
            raise DataError(
                "the ids of choices are [B, choices, T]: tensor.unsqueeze(0) for the choices of one question"
            )
        labels, choices = given.pop("labels", None), ids.shape[1]
        rows = {
            name: x.flatten(0, 1) if isinstance(x, Tensor) and x.dim() >= (4 if name in BY_CHOICE else 3) else x
            for name, x in given.items()
        }
        output: Output = super().forward(**rows)
        assert output.logits is not None  # of a classifier
        logits = output.logits.view(-1, choices)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        output = replace(output, logits=logits, loss=loss)
        return output.to_tuple() if as_tuple else output

    def save_pretrained(self, folder: str | Path, **keywords: Any) -> None:
        """As of every model, under the name of its class."""
        super().save_pretrained(folder, **keywords)
        keys = {key: value for key, value in self.config.items() if key not in ONE_LABEL}
        write_json(as_path(folder, "folder") / "config.json", {**keys, "architectures": [type(self).__name__]})


def _named(model: Any) -> Any:
    """The model as one of its family's class: `BertForMultipleChoice`."""
    model.__class__ = multiple_choice_class(model.family.model_type)
    for key in ONE_LABEL:
        ModelConfig.pop(model.config, key, None)
    return model


@cache
def multiple_choice_class(family: str) -> type[MultipleChoice]:
    """The class of a family."""
    body = FAMILIES[family].architecture("text-classification").removesuffix("ForSequenceClassification")
    about = {"TASKS": MultipleChoice.TASKS, "FAMILY": family, "__module__": "glassformer.hf"}
    return type(f"{body}ForMultipleChoice", (MultipleChoice,), {**about, "__doc__": f"A {family!r} model for choices."})
