"""Export to GGUF: one file with weights, config, tokenizer and chat template, which llama.cpp and `load` read.

    model.spec       sizes ──> metadata    llama.block_count, …
    model.tokenizer  ───────> metadata    tokenizer.ggml.tokens, …
    weights          ───────> tensors     blk.0.attn_q.weight   Q4_K

What such a file cannot state is refused: the metadata are read again, and have to describe the same network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from glassformer.compression.adapters import check_not_adapted
from glassformer.core import Llama3Scaling
from glassformer.core.quantised import check_not_quantised
from glassformer.errors import DataError, UnsupportedError
from glassformer.export.options import GGUFType
from glassformer.files import as_path, safe_repr
from glassformer.files.atomic import disk_errors, write_json
from glassformer.gguf.architectures import ARCHITECTURES, config_of, file_names, metadata_of
from glassformer.gguf.header import GGUFHeader, StoredTensor
from glassformer.gguf.scaled_positions import ARCHITECTURES as SCALED
from glassformer.gguf.scaled_positions import FACTORS, factors_of, scaling_of
from glassformer.gguf.vocabulary_metadata import tokenizer_metadata
from glassformer.gguf.weights import Named
from glassformer.gguf.write import summary, write_gguf
from glassformer.loaded_model import LoadedModel
from glassformer.models import ConfigReader, find_family
from glassformer.pretrained import names_of
from glassformer.reports.table import Table, byte_amount
from glassformer.weights.load import export_weights

SAME_NETWORK = {"mistral": "llama"}
"""Families that llama.cpp runs as another one."""
ARCHITECTURE_OF = {family.model_type: name for name, family in ARCHITECTURES.items()} | SAME_NETWORK
FILE = "model.gguf"
OF_TRAINING = frozenset(
    "dropout attention_dropout init_std labels problem classifier_dropout activation padding".split()
)
"""Fields of a `TextSpec` and of its embedding that change no logits."""


def export_gguf(model: LoadedModel, folder: str | Path, type: GGUFType = "q8_0") -> tuple[Path, Table]:
    """Export a decoder to a GGUF file, model.gguf in a folder, next to its config.json.

    Args:
        type: of the matrices: f32, f16, bf16, q8_0, q4_0 or q4_k
    Returns: the file, and what became of its tensors.
    Raises: UnsupportedError: a family, a network or a tokenizer that GGUF has no place for. ConfigError: another type,
        adapters that are not merged, stored int8 or int4 levels. DataError: the disk refuses; nothing is left
        half-written. MissingExtraError: the `gguf` package is not installed.
    """
    path = as_path(folder, "folder") / FILE
    tensors, places, metadata = _planned(model, path)
    factors = _factors(model)
    with disk_errors(path, DataError):
        path.parent.mkdir(parents=True, exist_ok=True)
    stored = {places[name][0]: (tensor, places[name][1]) for name, tensor in tensors.items()}
    if factors is not None:
        stored[FACTORS] = factors, Named(FACTORS)
    written = write_gguf(path, metadata, stored, type)
    write_json(path.with_name("config.json"), {**model.config}, DataError)
    rows = [[kind, f"{count:,}", byte_amount(size), reason] for kind, count, size, reason in summary(written)]
    return path, Table(
        ["type", "tensors", "size", "instead of the type that was chosen"], rows, caption=_caption(model)
    )


def check_gguf(model: LoadedModel) -> None:
    """Check by the sizes of a model, which need no weights, what `export_gguf` would refuse. Raises: as it does."""
    _planned(model, Path(FILE))


def _planned(model: LoadedModel, path: Path) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]:
    """The weights by our names, their places in a file, and its metadata. Raises: as `export_gguf`."""
    architecture = _architecture(model)
    tensors = export_weights(model.network, names_of(model), prefixed=True, carried=model.carried)
    sizes = _sizes(model)
    places = file_names(architecture, tensors, sizes)
    metadata = metadata_of(architecture, sizes) | tokenizer_metadata(model.tokenizer, model.spec.embed.vocabulary)
    metadata |= _other_metadata(model)
    _check_same_network(model, metadata, [theirs for theirs, _ in places.values()], path)
    return tensors, places, metadata


def _factors(model: LoadedModel) -> Tensor | None:
    """Those of scaled positions, where a file has a place for their scaling."""
    rotary = model.spec.blocks.blocks[0].attention.rotary
    if rotary is None or not isinstance(rotary.scaling, Llama3Scaling) or _architecture(model) not in SCALED:
        return None
    factors = factors_of(rotary)
    return None if scaling_of(factors, _sizes(model)) is None else factors


def _caption(model: LoadedModel) -> str:
    context = _context(model)
    longest = model.config.get("max_position_embeddings", context)
    if context < longest:
        return (
            f"Texts of up to {context:,} tokens, not {longest:,}: llama.cpp has no sliding window for this family, and "
            "within one window attention is the same."
        )
    return ""


def _architecture(model: LoadedModel) -> str:
    kind = model.family.model_type
    if kind not in ARCHITECTURE_OF:
        raise UnsupportedError(
            f"a {kind!r} model cannot be written as a GGUF file; written: {', '.join(sorted(ARCHITECTURE_OF))}"
        )
    if model.task != "text-generation":
        raise UnsupportedError(
            f"GGUF files hold models that generate text; this one is for {model.task}: load it with "
            "task='text-generation'"
        )
    check_not_adapted(model.network)
    check_not_quantised(model.network, "written as a GGUF file")
    if not model.has_tokenizer:
        raise DataError("a GGUF file holds its tokenizer, and the folder of this model has none; add tokenizer.json")
    return ARCHITECTURE_OF[kind]


def _sizes(model: LoadedModel) -> dict[str, Any]:
    """Sizes by the keys of configs, taken from the spec: configs leave out what is a family's default."""
    spec = model.spec
    blocks = spec.blocks.blocks
    # A layer with a window may have a base of its own, which is the family's.
    block = next((block for block in blocks if block.attention.window is None), blocks[0])
    attention, norm = block.attention, spec.final_norm
    gain = "layer_norm_epsilon" if model.family.model_type == "gpt2" else "rms_norm_eps"
    windows = [each.attention.window for each in blocks if each.attention.window is not None]
    windowed = ARCHITECTURES[ARCHITECTURE_OF[model.family.model_type]].windowed
    return {
        "hidden_size": attention.width,
        "num_hidden_layers": len(blocks),
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.K,
        "head_dim": attention.E,
        "intermediate_size": block.feed_forward.hidden,
        "max_position_embeddings": _context(model),
        gain: norm.eps,
        "rope_theta": None if attention.rotary is None else attention.rotary.theta,
        "sliding_window": windows[0] if windows and windowed else None,
        "attn_logit_softcapping": attention.score_cap,
        "final_logit_softcapping": spec.logit_cap,
    }


def _context(model: LoadedModel) -> int:
    """Tokens of the longest text: no more than a window where the runtime knows none."""
    blocks = model.spec.blocks.blocks
    longest = model.network.max_tokens or model.config.get("max_position_embeddings") or 2048
    if ARCHITECTURES[ARCHITECTURE_OF[model.family.model_type]].windowed:
        return int(longest)
    return min(int(longest), *(block.attention.window or int(longest) for block in blocks))


def _other_metadata(model: LoadedModel) -> dict[str, Any]:
    """What llama.cpp asks for besides, and where a text ends."""
    architecture = ARCHITECTURE_OF[model.family.model_type]
    attention = model.spec.blocks.blocks[0].attention
    metadata: dict[str, Any] = {
        "general.name": str(model.config.get("_name_or_path") or (model.folder or Path("model")).name),
        f"{architecture}.vocab_size": model.spec.embed.vocabulary,
        f"{architecture}.attention.value_length": attention.E,
    }
    if attention.rotary is not None:
        metadata[f"{architecture}.rope.dimension_count"] = attention.rotary.width
    stated = model.generation_config.get("eos_token_id", model.config.get("eos_token_id"))
    ends = stated if isinstance(stated, list) else [] if stated is None else [stated]
    own = model.tokenizer.eos_token_id
    # Of several, such as a text's and a turn's, llama.cpp has a place for two, and knows others by their names.
    for key, number in zip(("eos", "eot"), sorted(ends, key=lambda end: end != own), strict=False):
        metadata[f"tokenizer.ggml.{key}_token_id"] = number
    return metadata


def _check_same_network(model: LoadedModel, metadata: Mapping[str, Any], tensors: list[str], path: Path) -> None:
    """Raises: UnsupportedError: what the metadata describe is another network."""
    header = GGUFHeader(path, dict(metadata), dict.fromkeys(tensors, StoredTensor((), 0, 0)))
    config = config_of(header, _factors(model))
    context = _context(model)
    again = find_family(config, None).spec(ConfigReader(config))
    differing = list(_differences(_normal(model.spec, context), _normal(again, context)))
    if differing:
        name, ours, theirs = differing[0]
        raise UnsupportedError(
            f"this {model.family.model_type!r} model has {name} {safe_repr(ours)}, and a GGUF file of architecture "
            f"{header.architecture!r} means {safe_repr(theirs)}; it would be run as another network"
        )


def _normal(spec: Any, context: int) -> Any:
    """The spec with its defaults as numbers, and without windows that no text reaches."""
    blocks = []
    for block in spec.blocks.blocks:
        own = block.attention
        window = own.window if own.window is not None and own.window < context else None
        scale = own.E**-0.5 if own.scale is None else own.scale
        attention = replace(own, window=window, scale=scale, head_width=own.E, kv_heads=own.K)
        blocks.append(replace(block, attention=attention))
    return replace(spec, blocks=replace(spec.blocks, blocks=tuple(blocks)))


def _differences(one: Any, other: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Fields of two specs that differ; numbers as float32 has them."""
    if is_dataclass(one) and one.__class__ is other.__class__:
        for field in fields(one):
            top = "." not in path.strip(".") or path == ".embed"
            if field.name in OF_TRAINING and (top or "dropout" in field.name):
                continue
            yield from _differences(getattr(one, field.name), getattr(other, field.name), f"{path}.{field.name}")
    elif isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
        for i, pair in enumerate(zip(one, other, strict=True)):
            yield from _differences(*pair, f"{path}.{i}")
    elif isinstance(one, float) and isinstance(other, float):
        if abs(one - other) > 1e-6 * abs(one):
            yield path.strip("."), one, other
    elif one != other:
        yield path.strip("."), one, other
