"""TAPAS: BERT for table question answering.

cells.py     selection of cells and aggregation of their numbers: heads and losses
network.py   token types for rows and columns, positions in cells
names.py     weight names
recipe.py    config keys and architectures
"""

from glassformer.models.tapas.cells import CellSelection, CellSelectionSpec, CellSelectionWithAggregation
from glassformer.models.tapas.names import NAMES
from glassformer.models.tapas.network import Tapas, TapasCellSelection, TapasSpec
from glassformer.models.tapas.recipe import FAMILY, KEYS, spec

__all__ = [
    "FAMILY",
    "KEYS",
    "NAMES",
    "CellSelection",
    "CellSelectionSpec",
    "CellSelectionWithAggregation",
    "Tapas",
    "TapasCellSelection",
    "TapasSpec",
    "spec",
]
