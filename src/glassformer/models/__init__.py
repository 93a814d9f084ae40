"""Model families, one module each: `config.json` → spec → network, and the names of their weights.

To add a family, write a module like its neighbours and add its name here; see docs/adding-a-family.md.
"""

from __future__ import annotations

import copyreg
from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Any

from glassformer.deprecation import former_names
from glassformer.models._config import ConfigReader
from glassformer.models._family import Family
from glassformer.models._network import Network, TextSpec

RECIPES = """albert bart bert big_bird clip clip_text_model clip_vision_model deberta deberta-v2 distilbert dpr
    electra gemma gemma2 gemma3_text gpt2 granite hubert imagegpt layoutlm llama lxmert marian
    mbart mistral mixtral modernbert mpnet nomic_bert olmo2 openai-gpt pegasus phi phi3 qwen2
    qwen3 roberta stablelm starcoder2 t5 tapas transformer vit wav2vec2 whisper xlm xlm-roberta""".split()
"""The `model_type` of each family; its module has the same name, with underscores."""


class Families(MutableMapping[str, Family]):
    """`model_type` of `config.json` → family, whose recipe is imported when it is first asked for."""

    def __init__(self) -> None:
        self._families: dict[str, Family | None] = dict.fromkeys(RECIPES)

    def __getitem__(self, model_type: str) -> Family:
        family = self._families[model_type]
        if family is None:
            module = import_module(f"glassformer.models.{model_type.replace('-', '_')}")
            family = self._families[model_type] = module.FAMILY
        return family

    def __setitem__(self, model_type: str, family: Family) -> None:
        self._families[model_type] = family

    def __delitem__(self, model_type: str) -> None:
        del self._families[model_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._families)

    def __len__(self) -> int:
        return len(self._families)


FAMILIES = Families()


def _reduce(family: Family) -> Any:
    """Pickle and copy a family by its name: a recipe's functions are not data."""
    if family.model_type in FAMILIES and FAMILIES[family.model_type] is family:
        return _family, (family.model_type,)
    return object.__reduce_ex__(family, 4)


def _family(model_type: str) -> Family:
    return FAMILIES[model_type]


copyreg.pickle(Family, _reduce)

__all__ = ["FAMILIES", "ConfigReader", "Family", "Network", "TextSpec"]

__getattr__ = former_names(__name__)
