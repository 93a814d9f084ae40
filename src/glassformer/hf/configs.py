"""AutoConfig and GenerationConfig: `config.json` and `generation_config.json` of a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from glassformer.errors import ConfigError, UnsupportedError
from glassformer.files import read_json_object, safe_repr
from glassformer.load_options import LoadOptions
from glassformer.models import FAMILIES
from glassformer.models.model_config import ModelConfig
from glassformer.models.resolve import text_part


def options_of(keywords: dict[str, Any]) -> LoadOptions:
    """Loading options of keywords that the reference library takes."""
    return LoadOptions.read(keywords, dtype=None, device=None, offline=False, overrides=None)


class AutoConfig:
    """The config of a model: `from_pretrained`, or `for_model` with a model type and its keys."""

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, revision: str | None = None, **keywords: Any) -> ModelConfig:
        """Read `config.json`; keywords override its keys.

        Raises: DataError, ConfigError: no such folder, or no key of that name.
        """
        options = options_of(keywords)
        folder = options.find_folder(name_or_folder, revision, allow_pickle=False)
        stored = text_part(read_json_object(folder / "config.json", ConfigError))
        return ModelConfig(options.override(stored, cls.from_pretrained))

    @classmethod
    def for_model(cls, model_type: str, **keys: Any) -> ModelConfig:
        """A new config of a family. Raises: UnsupportedError: it is not known."""
        if model_type not in FAMILIES:
            raise UnsupportedError(
                f"model_type {safe_repr(model_type)} is not supported; supported: {', '.join(FAMILIES)}"
            )
        return ModelConfig({"model_type": model_type, **keys})


class GenerationConfig(dict[str, Any]):
    """Options of `generate` in an object, as `generation_config.json` holds them; its keys are attributes too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    @classmethod
    def from_pretrained(cls, name_or_folder: str | Path, revision: str | None = None, **options: Any) -> Self:
        """Read `generation_config.json`, changed by the options given.

        Raises: DataError, ConfigError: no such folder, or it has no such file.
        """
        folder = options_of({}).find_folder(name_or_folder, revision, allow_pickle=False)
        return cls(**{**read_json_object(folder / "generation_config.json", ConfigError), **options})

    def to_dict(self) -> dict[str, Any]:
        """A plain dict of the options."""
        return dict(self)
