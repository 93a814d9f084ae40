"""Random fields for networks that read other things than one text: pictures, sounds, pages, tables, regions.

Which fields, a network says itself (`READS`); how large they are, its config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from glassformer.core.flow import Batch
from glassformer.models import FAMILIES, ConfigReader, Network

SENSES = ("pixel_values", "input_values", "input_features")
"""Fields that make their own tokens: patches, frames."""
SAMPLES = 1_400
CODECS = frozenset({"dac", "encodec"})
"""Families without attention, whose waves become codes and waves again: tests/models/test_dac.py, test_encodec.py."""
CODE_MODELS = frozenset({"musicgen_decoder"})
"""Families whose tokens are an id of each of several codebooks: tests/models/test_musicgen_decoder.py."""
READ_NO_FILES = CODECS | CODE_MODELS
"""Families that are inspected neither on a text nor on a file alone."""


def network_of(config: Mapping[str, Any], task: str | None = None) -> Network:
    """The network that a config describes, without numbers."""
    record = FAMILIES[config["model_type"]]
    named = (config.get("architectures") or [next(iter(record.architectures))])[0]
    return record.build_on_meta(record.spec(ConfigReader(config)), task or record.architectures[named])


def senses(network: Network) -> bool:
    """Does it read a picture or a sound?"""
    return any(field in network.READS for field in SENSES)


def draw_fields(config: Mapping[str, Any], reads: tuple[str, ...], count: int, *, seed: int = 3) -> dict[str, Tensor]:
    """Of the fields that a network reads, those which are not text. Each has `count` rows."""
    draw = torch.Generator().manual_seed(seed)
    seen = {**config, **config.get("vision_config", {})}

    def numbers(*shape: int) -> Tensor:
        return torch.randn(count, *shape, generator=draw)

    fields: dict[str, Tensor] = {}
    if "pixel_values" in reads:
        size = seen["image_size"]
        height, width = size if isinstance(size, list) else (size, size)
        fields["pixel_values"] = numbers(seen.get("num_channels", 3), height, width)
    if "input_values" in reads:
        fields["input_values"] = numbers(SAMPLES)
    if "input_features" in reads:
        fields["input_features"] = numbers(config["num_mel_bins"], 2 * config["max_source_positions"])
    if "visual_feats" in reads:
        fields["visual_feats"] = numbers(5, config["visual_feat_dim"])
        fields["visual_pos"] = numbers(5, config.get("visual_pos_dim", 4)).sigmoid()
    return fields


def draw_boxes(config: Mapping[str, Any], rows: int, tokens: int, *, seed: int = 3) -> Tensor:
    """Boxes of words on a page: left, top, right, bottom. [rows, tokens, 4]"""
    draw = torch.Generator().manual_seed(seed)
    end = config.get("max_2d_position_embeddings", 1024)
    corners = torch.randint(0, end, (rows, tokens, 2, 2), generator=draw)
    return corners.sort(dim=2).values.flatten(2)


def frames_seen(config: Mapping[str, Any], keep: Tensor) -> Tensor:
    """Which frames of a wave are sound, by the strides of its convolutions. keep: [B, samples] → [B, frames] bool"""
    lengths, longest = keep.sum(-1), torch.tensor(keep.shape[1])
    for kernel, stride in zip(config["conv_kernel"], config["conv_stride"], strict=True):
        lengths, longest = (lengths - kernel) // stride + 1, (longest - kernel) // stride + 1
    return torch.arange(int(longest))[None] < lengths[:, None]


def with_codebooks(network: Network, ids: Tensor) -> Tensor:
    """Ids [B, T] as a network reads them: of several codebooks [B, T, K]."""
    books = network.sizes.codebooks
    return (ids[..., None] + torch.arange(books)) % network.vocabulary if books else ids


def batch_of(network: Network, config: Mapping[str, Any], ids: Tensor) -> Batch:
    """One row for a network, whatever it reads; `ids` [1, T] where it reads text, or writes it."""
    fields = draw_fields(config, network.READS, 1)
    if "bbox" in network.READS:
        fields["bbox"] = draw_boxes(config, 1, ids.shape[1])
    if "input_ids" in network.READS:
        fields["input_ids"] = with_codebooks(network, ids)
    if "decoder_input_ids" in network.READS:
        fields["decoder_input_ids"] = ids
    return Batch(**fields)
