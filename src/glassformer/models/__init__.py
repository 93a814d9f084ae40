"""One recipe a family: `config.json` → spec, spec → network, their tensor names ↔ ours.

To add a family, write a recipe like its neighbours and put its record here; see docs/architecture.md.
"""

from __future__ import annotations

from glassformer.models import bert, gpt2, llama, transformer
from glassformer.models._family import Family, Network, Reader, TextSpec

FAMILIES: dict[str, Family] = {
    recipe.FAMILY.model_type: recipe.FAMILY for recipe in (bert, gpt2, llama, transformer)
}
"""`model_type` of `config.json` → the family's record."""

__all__ = ["FAMILIES", "Family", "Network", "Reader", "TextSpec"]
