"""The config of a model: the content of `config.json`, whose keys are attributes too.

config["n_embd"]             as the file spells it: it is a dict
config.hidden_size           the same, by the name that most families use; defaults of the family included
config.id2label[0]           the name of a label
config.pad_token_id = 0      sets a key
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from glassformer.errors import ConfigError, GlassformerError, UnsupportedError
from glassformer.files import as_path, safe_repr
from glassformer.files.atomic import write_json
from glassformer.models import FAMILIES
from glassformer.models._config import ConfigReader, Keys

COMMON_NAMES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("width",),
    "num_hidden_layers": ("layers", "encoder_layers"),
    "num_attention_heads": ("heads", "encoder_heads"),
    "num_key_value_heads": ("kv_heads", "heads"),
    "head_dim": ("head_width",),
    "intermediate_size": ("hidden", "encoder_hidden"),
    "vocab_size": ("vocabulary",),
    "max_position_embeddings": ("max_tokens",),
    "type_vocab_size": ("token_types",),
    "hidden_act": ("activation",),
    "hidden_dropout_prob": ("dropout",),
    "attention_probs_dropout_prob": ("attention_dropout",),
    "initializer_range": ("init_std",),
    "layer_norm_eps": ("eps",),
    "tie_word_embeddings": ("tied",),
}
"""Name in most families' configs → fields of a family's `Keys` that hold it."""

DEFAULTS: Mapping[str, Any] = {
    **dict.fromkeys(("architectures", "problem_type", "dtype", "torch_dtype", "decoder_start_token_id", "prefix")),
    **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id", "sep_token_id", "task_specific_params")),
    **dict.fromkeys(("output_attentions", "output_hidden_states", "is_decoder", "add_cross_attention"), False),
    **{"return_dict": True, "use_cache": True, "tie_word_embeddings": True, "name_or_path": ""},
    **{"use_return_dict": True, "_attn_implementation": "sdpa", "_name_or_path": ""},
}
"""Keys that every config of the reference library has."""


class ModelConfig(dict[str, Any]):
    """The content of a `config.json`: a dict, with attributes by the names of Hugging Face transformers."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("id2label", "label2id", "num_labels"):
            labels = self._labels()
            return {"id2label": labels, "label2id": {x: i for i, x in labels.items()}}.get(name, len(labels))
        if name in self:
            value = self[name]
            return ModelConfig(value) if name.endswith("_config") and isinstance(value, Mapping) else value
        if name == "is_encoder_decoder":
            return any(task == "translation" for task in self._tasks())
        value = self._field(name)
        if value is None and name not in DEFAULTS:
            raise AttributeError(f"config.json has no key {name!r}; it has: {', '.join(sorted(self))}")
        return DEFAULTS.get(name) if value is None else value

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def _labels(self) -> dict[int, str]:
        """The names of the labels, those of the reference library where the file gives none."""
        names = self.get("id2label")
        if isinstance(names, Mapping) and names:
            try:
                return {int(number): str(label) for number, label in names.items()}
            except ValueError:
                raise ConfigError(
                    f"id2label is {safe_repr(names)}; it must be a mapping from the number of each label to its name"
                ) from None
        count = self.get("num_labels")
        return {i: f"LABEL_{i}" for i in range(count if isinstance(count, int) else 2)}

    def _tasks(self) -> tuple[str, ...]:
        kind = str(self.get("model_type"))
        return FAMILIES[kind].tasks if kind in FAMILIES else ()

    def _field(self, name: str) -> Any:
        """What the family reads under this name, by its own spelling or the common one; None: nothing."""
        kind = str(self.get("model_type"))
        keys = getattr(FAMILIES[kind].spec, "keys", None) if kind in FAMILIES else None
        if not isinstance(keys, Keys):
            return None
        try:
            values = keys.read(ConfigReader(self))
        except GlassformerError:
            return None  # loading the model reports it
        spelled = [field for field, entry in keys.keys.items() if name in entry.spellings]
        fields = (*spelled, *COMMON_NAMES.get(name, ()))
        return next((value for field in fields if (value := getattr(values, field, None)) is not None), None)

    def defaults(self) -> dict[str, Any]:
        """The values of keys that are not there: those of the family, by its own spelling, and those of all."""
        kind = str(self.get("model_type"))
        keys = getattr(FAMILIES[kind].spec, "keys", None) if kind in FAMILIES else None
        spellings = [entry.spellings for entry in keys.keys.values()] if isinstance(keys, Keys) else []
        own = [names[0] for names in spellings if names and self.keys().isdisjoint(names)]
        values = {name: value for name in own if (value := self._field(name)) is not None}
        names = ("output_attentions", "output_hidden_states", "return_dict", "use_cache", "id2label", "label2id")
        every = {name: getattr(self, name) for name in names}
        return {**every, **values}

    def to_dict(self) -> dict[str, Any]:
        """A plain dict of the keys, as `config.json` has them."""
        return dict(self)

    def to_diff_dict(self) -> dict[str, Any]:
        """As `to_dict`: the file holds no defaults."""
        return self.to_dict()

    def to_json_string(self, use_diff: bool = True) -> str:
        return json.dumps(self, indent=2, sort_keys=True) + "\n"

    def save_pretrained(self, folder: str | Path) -> None:
        """Write `config.json` into a folder.

        Raises: ConfigError: the folder is a file.
        """
        _write_into(folder, "config.json", dict(self))

    def __copy__(self) -> ModelConfig:
        return ModelConfig(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.to_json_string()}"


class StoredGenerationConfig(dict[str, Any]):
    """The content of a `generation_config.json`: options of `generate`, which are attributes too; None = not given."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def to_dict(self) -> dict[str, Any]:
        """A plain dict of the options."""
        return dict(self)

    to_diff_dict = to_dict

    def to_json_string(self, use_diff: bool = True) -> str:
        return json.dumps(self, indent=2, sort_keys=True) + "\n"

    @classmethod
    def from_dict(cls, options: Mapping[str, Any], **others: Any) -> Self:
        """The options of a dict, and others."""
        made = cls()
        made.update({**options, **others})
        return made

    def save_pretrained(
        self, folder: str | Path, config_file_name: str | None = None, *, push_to_hub: bool = False
    ) -> None:
        """Write `generation_config.json`, or a file of another name, into a folder.

        Raises: ConfigError: the folder is a file, or the name no name of a file. UnsupportedError: push_to_hub
        """
        if push_to_hub:
            raise UnsupportedError("push_to_hub=True: upload the folder with its model: model.push_to_hub(name)")
        _write_into(folder, config_file_name or "generation_config.json", self.to_dict())


def _write_into(folder: str | Path, name: str, content: dict[str, Any]) -> None:
    folder = as_path(folder, "folder")
    if Path(name).name != name:
        raise ConfigError(f"config_file_name is {safe_repr(name)}; it must be the name of a file, without a folder")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder}: is a file; give a folder to write {name} to")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / name, content)
