"""AutoConfig and GenerationConfig: `config.json` and `generation_config.json` of a model folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

import yaml

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import as_path, read_json_object, safe_repr
from glassformer.generation.options import GenerationOptions
from glassformer.load_options import LoadOptions
from glassformer.models import FAMILIES, text_part
from glassformer.models._config import Keys
from glassformer.models.model_config import ModelConfig, StoredGenerationConfig

GENERATION_KEYS = {x.name for x in fields(GenerationOptions)} | {"forced_decoder_ids", "no_timestamps_token_id"}
"""Keys of a config that are options of generation."""
SIZES = Path(__file__).with_name("config_defaults.yaml")


def options_of(keywords: dict[str, Any]) -> LoadOptions:
    """Loading options of keywords that the reference library takes."""
    return LoadOptions.read(keywords, dtype=None, device=None, offline=False, overrides=None)


def check_floating(options: LoadOptions, caller: str) -> None:
    """Raises: UnsupportedError: weights were asked for as integer levels, which this caller does not make."""
    if options.bits is not None:
        raise UnsupportedError(f"{caller} takes no dtype 'int{options.bits}': weights are rounded by load(folder, …)")


REGISTERED: dict[str, Any] = {}
"""Custom model types → the classes of their configs."""


class AutoConfig:
    """The config of a model: `from_pretrained`, or `for_model` with a model type and its keys."""

    @classmethod
    def register(cls, model_type: str, config: Any, exist_ok: bool = False) -> None:
        """Read configs of a custom model type with this class.

        Raises: ConfigError: the type is known.
        """
        if not exist_ok and (model_type in REGISTERED or model_type in FAMILIES):
            raise ConfigError(f"model_type {safe_repr(model_type)} is known; give exist_ok=True to put another there")
        REGISTERED[model_type] = config

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        revision: str | None = None,
        *,
        return_unused_kwargs: bool = False,
        **keywords: Any,
    ) -> Any:
        """Read `config.json`; keywords override its keys.

        Returns: the config; with return_unused_kwargs=True, and the keywords that are no keys of it.
        Raises: DataError, ConfigError: no such folder, or no key of that name.
        """
        options = options_of(keywords)
        folder = options.find_folder(name_or_folder, revision, allow_pickle=False)
        stored = text_part(read_json_object(folder / "config.json", ConfigError))
        if (own := REGISTERED.get(str(stored.get("model_type")))) is not None:
            return own.from_pretrained(folder, **keywords)
        unused = {name: keywords[name] for name in options.unknown_to(stored)} if return_unused_kwargs else {}
        options = options_of({name: value for name, value in keywords.items() if name not in unused})
        config = ModelConfig(options.override(stored, cls.from_pretrained))
        config = _as_class(config, config_class(str(config.get("model_type"))))
        return (config, unused) if return_unused_kwargs else config

    @classmethod
    def from_dict(cls, keys: Mapping[str, Any], **others: Any) -> ModelConfig:
        """A config of these keys; sizes that are not among them are the family's usual ones."""
        both = {"model_type": getattr(cls, "model_type", None), **keys, **others}
        return AutoConfig.for_model(str(both.pop("model_type")), **both)

    @classmethod
    def from_json_file(cls, path: str | Path) -> ModelConfig:
        """The config of a JSON file. Raises: ConfigError: it is no JSON object."""
        return cls.from_dict(read_json_object(as_path(path), ConfigError))

    @classmethod
    def for_model(cls, model_type: str, **keys: Any) -> ModelConfig:
        """A new config of a family. Raises: UnsupportedError: it is not known."""
        if model_type not in FAMILIES:
            raise UnsupportedError(
                f"model_type {safe_repr(model_type)} is not supported; supported: {', '.join(FAMILIES)}"
            )
        return _as_class(
            ModelConfig({"model_type": model_type, **_sizes(model_type, keys), **keys}), config_class(model_type)
        )


class FamilyConfig(AutoConfig, ModelConfig):
    """The config of one family: `BertConfig(hidden_size=32)` has the family's usual sizes elsewhere."""

    model_type: ClassVar[str]

    def __init__(self, keys: Mapping[str, Any] = MappingProxyType({}), **others: Any) -> None:
        super().__init__(AutoConfig.for_model(**{"model_type": self.model_type, **keys, **others}))

    def to_dict(self) -> dict[str, Any]:
        """A plain dict of the keys, those that the file leaves out with their defaults."""
        return {**self.defaults(), **self}

    def to_diff_dict(self) -> dict[str, Any]:
        """A plain dict of the keys, as `config.json` has them."""
        return dict(self)


@cache
def config_class(model_type: str) -> type[ModelConfig]:
    """The class of a family's configs: `BertConfig`."""
    if model_type not in FAMILIES:
        return ModelConfig
    family = FAMILIES[model_type]
    body = re.sub(r"(Model|ContextEncoder|ForConditionalGeneration)$", "", family.architecture(family.tasks[0]))
    about = {
        "model_type": model_type,
        "__module__": "glassformer.hf",
        "__doc__": f"The config of a {model_type!r} model.",
    }
    return type(f"{body}Config", (FamilyConfig,), about)


def _as_class(config: ModelConfig, kind: type[ModelConfig]) -> ModelConfig:
    object.__setattr__(config, "__class__", kind)  # attributes are keys
    return config


def _sizes(model_type: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    """The default sizes of a family that these keys do not set, in any spelling."""
    defaults = yaml.safe_load(SIZES.read_text(encoding="utf-8")).get(model_type, {})
    read = getattr(FAMILIES[model_type].spec, "keys", None)
    spellings = [entry.spellings for entry in read.keys.values()] if isinstance(read, Keys) else []
    given = {name for names in spellings if not keys.keys().isdisjoint(names) for name in names}
    return {name: size for name, size in defaults.items() if name not in given}


class GenerationConfig(StoredGenerationConfig):
    """Options of `generate` in an object, as `generation_config.json` holds them; its keys are attributes too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(options)

    @classmethod
    def from_model_config(cls, config: ModelConfig) -> Self:
        """The options of generation that a model's config holds, as older folders have them."""
        return cls(**{name: value for name, value in config.items() if name in GENERATION_KEYS})

    @classmethod
    def from_pretrained(
        cls,
        name_or_folder: str | Path,
        config_file_name: str | None = None,
        revision: str | None = None,
        **options: Any,
    ) -> Self:
        """Read `generation_config.json`, or a file of another name, changed by the options given.

        Raises: DataError, ConfigError: no such folder, or it has no such file.
        """
        folder, name = as_path(name_or_folder, "name_or_folder"), config_file_name or "generation_config.json"
        if Path(name).name != name:
            raise ConfigError(f"config_file_name is {safe_repr(name)}; it must be the name of a file, without a folder")
        if not (folder / name).is_file():
            folder = options_of({}).find_folder(name_or_folder, revision, allow_pickle=False)
        return cls(**{**read_json_object(folder / name, ConfigError), **options})
