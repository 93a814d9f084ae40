"""CLIP: contrastive language-image pre-training, a text tower and a vision tower with one embedding space.

towers.py        the towers, which `clip_text_model` and `clip_vision_model` have alone
weight_names.py  the towers' weight names
contrastive.py   heads: embeddings of both, their cosines and the contrastive loss; the projection of one tower
initialise.py    initial weights
network.py       both towers with the contrastive head; the vision tower with a classifier
recipe.py        config keys, weight names, architectures
"""

from glassformer.models.clip.contrastive import ContrastiveHead
from glassformer.models.clip.network import Clip, ClipClassifier, ClipSpec
from glassformer.models.clip.recipe import FAMILY, KEYS, NAMES, spec
from glassformer.models.clip.towers import TextTower, TextTowerSpec, VisionTower, VisionTowerSpec

__all__ = [
    "FAMILY",
    "KEYS",
    "NAMES",
    "Clip",
    "ClipClassifier",
    "ClipSpec",
    "ContrastiveHead",
    "TextTower",
    "TextTowerSpec",
    "VisionTower",
    "VisionTowerSpec",
    "spec",
]
