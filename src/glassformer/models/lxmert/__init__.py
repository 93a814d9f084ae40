"""LXMERT: a cross-modality encoder of text and image regions.

regions.py          embedding of regions; heads and losses of their prediction and of visual question answering
cross_modality.py   blocks in which each modality attends to the other
network.py          both encoders, and which head belongs to a task
names.py            weight names
recipe.py           config keys and architectures
"""

from glassformer.models.lxmert.cross_modality import CrossModalityBlock, ModalityEncoder
from glassformer.models.lxmert.names import NAMES
from glassformer.models.lxmert.network import Lxmert, LxmertSpec
from glassformer.models.lxmert.recipe import FAMILY, KEYS, spec
from glassformer.models.lxmert.regions import RegionEmbedding, RegionsSpec

__all__ = [
    "FAMILY",
    "KEYS",
    "NAMES",
    "CrossModalityBlock",
    "Lxmert",
    "LxmertSpec",
    "ModalityEncoder",
    "RegionEmbedding",
    "RegionsSpec",
    "spec",
]
