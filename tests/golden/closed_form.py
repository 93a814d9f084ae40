"""Checkpoints whose every number follows from its tensor's name: the same on any machine, with nothing drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from glassformer import Model
from glassformer.files.atomic import write_json
from glassformer.models import FAMILIES
from glassformer.weights.load import export_weights
from glassformer.weights.write import write_checkpoint
from tests.senses import draw_fields, network_of, with_codebooks

FOLDER = Path(__file__).parent
IDS = [[5, 17, 42, 3, 88, 29, 61, 17]]


def inputs(config: Mapping[str, Any]) -> dict[str, Tensor]:
    """What a model is given: ids, pictures or sounds; one that translates has written a part of its answer."""
    network = network_of(config)
    reads, ids = network.READS, with_codebooks(network, torch.tensor(IDS))
    given = draw_fields(config, reads, 1)
    if "input_ids" in reads:
        given["input_ids"] = ids
    return {**given, "decoder_input_ids": ids[:, 2:7]} if "decoder_input_ids" in reads else given


def wave(name: str, like: Tensor) -> Tensor:
    """0.3 · sin(step · n + phase) over the numbers n of a tensor, around 1 for the gain of a norm or a weight."""
    seed = crc32(name.encode())
    step, phase = 0.5 + seed % 1009 / 1009, seed % 2003 / 2003 * 6.28
    n = torch.arange(like.numel(), dtype=torch.float64)
    numbers = 0.3 * torch.sin(step * n + phase).reshape(like.shape)
    is_length = like.dim() > 1 and like.shape[1:].numel() == 1  # of a row of a normalised weight
    is_gain = (like.dim() == 1 and name.endswith("weight")) or is_length
    return (numbers + is_gain).to(torch.float32)


def write_folder(family: str, task: str, folder: Path) -> dict[str, Any]:
    """Write a tiny checkpoint of a family; its config."""
    record = FAMILIES[family]
    config = {**record.tiny, "architectures": [record.architecture(task)]}
    model = Model.from_config(config, task=task)
    tensors = export_weights(model.network, record.names(model.spec, task), prefixed=True)
    write_checkpoint(folder, {name: wave(name, tensor) for name, tensor in tensors.items()})
    write_json(folder / "config.json", config)
    return config
