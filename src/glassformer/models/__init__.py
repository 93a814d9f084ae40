"""Model families, one module each: `config.json` → spec → network, and the names of their weights.

To add a family, write a module like its neighbours and add its name to `RECIPES`; see docs/adding-a-family.md.
"""

from __future__ import annotations

from glassformer.models._config import ConfigReader
from glassformer.models._family import (
    FAMILIES,
    LABEL_KEYS,
    LABEL_TASKS,
    Family,
    attach_head,
    body_task,
    find_family,
    resolve_task,
    text_part,
    weight_names,
)
from glassformer.models._network import Network, TextSpec, eval_mode

__all__ = [
    "FAMILIES",
    "LABEL_KEYS",
    "LABEL_TASKS",
    "ConfigReader",
    "Family",
    "Network",
    "TextSpec",
    "attach_head",
    "body_task",
    "eval_mode",
    "find_family",
    "resolve_task",
    "text_part",
    "weight_names",
]
