"""CLIP from OpenAI's state dicts and open_clip's folders: config from sizes, image settings, the tokenizer files.

    ViT-B-32.pt                   a state dict by OpenAI's names; its activation is quick_gelu
    open_clip_config.json         open_clip's folder: sizes of heads, the activation, mean and deviation of pixels
      open_clip_model.safetensors, or open_clip_pytorch_model.bin

The vocabulary is in neither: tokenizer.json, vocab.json and merges.txt, or bpe_simple_vocab_16e6.txt.gz (which both
packages carry) are read from next to the file; without one, pictures are encoded, and texts are not.

Source: Radford et al. 2021, section 2.4; its released code for the names.
"""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.files import read_json_object, safe_repr
from glassformer.files.atomic import write_json
from glassformer.foreign.renamed import RenamedWeights
from glassformer.foreign.vocabulary import byte_letters, copy_tokenizer
from glassformer.weights.read import WeightFiles

OPEN_CLIP = "open_clip_config.json"
OPEN_CLIP_WEIGHTS = ("open_clip_model.safetensors", "open_clip_pytorch_model.bin")
SIMPLE_VOCABULARY = "bpe_simple_vocab_16e6.txt.gz"
MAX_VOCABULARY_BYTES = 64 << 20  # unpacked: a gzip file of a megabyte may hold a gigabyte
START, END = "<|startoftext|>", "<|endoftext|>"
HEAD_SIZE = 64  # open_clip's default, and that of all of OpenAI's, whose files do not state it
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

BLOCK = """
    {theirs}.{i}.attn.in_proj_weight   {ours}.{i}.self_attn.(q_proj|k_proj|v_proj).weight
    {theirs}.{i}.attn.in_proj_bias     {ours}.{i}.self_attn.(q_proj|k_proj|v_proj).bias
    {theirs}.{i}.attn.out_proj         {ours}.{i}.self_attn.out_proj
    {theirs}.{i}.ln_1                  {ours}.{i}.layer_norm1
    {theirs}.{i}.ln_2                  {ours}.{i}.layer_norm2
    {theirs}.{i}.mlp.c_fc              {ours}.{i}.mlp.fc1
    {theirs}.{i}.mlp.c_proj            {ours}.{i}.mlp.fc2
"""
NAMES = f"""
    visual.class_embedding        vision_model.embeddings.class_embedding
    visual.positional_embedding   vision_model.embeddings.position_embedding.weight
    visual.conv1                  vision_model.embeddings.patch_embedding
    visual.ln_pre                 vision_model.pre_layrnorm
    visual.ln_post                vision_model.post_layernorm
    visual.proj                   visual_projection.weight ᵀ
    token_embedding               text_model.embeddings.token_embedding
    positional_embedding          text_model.embeddings.position_embedding.weight
    ln_final                      text_model.final_layer_norm
    text_projection               text_projection.weight ᵀ
    input_resolution              -
    context_length                -
    vocab_size                    -
    attn_mask                     -
    {BLOCK.replace("{theirs}", "visual.transformer.resblocks").replace("{ours}", "vision_model.encoder.layers")}
    {BLOCK.replace("{theirs}", "transformer.resblocks").replace("{ours}", "text_model.encoder.layers")}
"""
"""Their names and the Hugging Face layout's; see `renamed.py`."""


def open_state_dict(checkpoint: WeightFiles, source: Path, folder: Path) -> RenamedWeights:
    """A CLIP state dict in the Hugging Face layout; config, image settings and tokenizer are written to the folder.

    Raises: WeightsError: tensors that are missing or damaged. UnsupportedError: a tower that is no vision transformer.
        ConfigError: settings of open_clip that are missing or damaged.
    """
    nearby = source if source.is_dir() else source.parent
    weights = RenamedWeights(checkpoint, NAMES)
    settings = _settings(nearby, is_open_clip=source.name in (*OPEN_CLIP_WEIGHTS, nearby.name))
    model, pixels = (_section(settings, name) for name in ("model_cfg", "preprocess_cfg"))
    config = _config(weights, model)
    write_json(folder / "config.json", config)
    size = config["vision_config"]["image_size"]
    write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": size},
            "crop_size": {"height": size, "width": size},
            "image_mean": list(pixels.get("mean", MEAN)),
            "image_std": list(pixels.get("std", DEVIATION)),
            "resample": 3,
        },
    )
    _write_tokenizer(nearby, folder, config["text_config"])
    return weights


def weights_of(folder: Path) -> Path:
    """The weights in a folder of open_clip. Raises: WeightsError: there are none."""
    for name in OPEN_CLIP_WEIGHTS:
        if (folder / name).is_file():
            return folder / name
    raise WeightsError(f"{folder}: holds {OPEN_CLIP}, and no weights; put {OPEN_CLIP_WEIGHTS[0]} next to it")


def _settings(nearby: Path, *, is_open_clip: bool) -> Mapping[str, Any]:
    path = nearby / OPEN_CLIP
    if path.is_file():
        return read_json_object(path, ConfigError)
    if is_open_clip:
        raise ConfigError(f"{path}: is missing; it says which activation the weights are for, so put it next to them")
    return {"model_cfg": {"quick_gelu": True}}


def _section(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = settings.get(name, {})
    if not isinstance(section, Mapping):
        raise ConfigError(f"{OPEN_CLIP}: {name} is {safe_repr(section)}; it must be an object")
    return section


def _config(weights: RenamedWeights, model: Mapping[str, Any]) -> dict[str, Any]:
    """config.json from the sizes of tensors, and what sizes do not say."""
    vision, text = (_section(model, name) for name in ("vision_cfg", "text_cfg"))
    for name in (*vision, *text):
        if name in ("timm_model_name", "hf_model_name", "attentional_pool"):
            raise UnsupportedError(f"{OPEN_CLIP}: {name} is a tower of another kind; vision transformers are read")
    patch = weights.shape("vision_model.embeddings.patch_embedding.weight")
    width = weights.rows("vision_model.post_layernorm.weight")
    positions = weights.rows("vision_model.embeddings.position_embedding.weight")
    words = weights.rows("text_model.embeddings.token_embedding.weight")
    text_width = weights.rows("text_model.final_layer_norm.weight")
    activation = "quick_gelu" if model.get("quick_gelu", False) else "gelu"
    projection = weights.rows("text_projection.weight")
    side = math.isqrt(positions - 1)
    if side * side != positions - 1 or len(patch) != 4:
        raise WeightsError(f"{weights.files[0]}: {positions} positions make no square of patches and a class token")
    return {
        "model_type": "clip",
        "architectures": ["CLIPModel"],
        "projection_dim": projection,
        "vision_config": {
            "model_type": "clip_vision_model",
            "hidden_size": width,
            "intermediate_size": weights.rows("vision_model.encoder.layers.0.mlp.fc1.weight"),
            "num_hidden_layers": weights.count("vision_model.encoder.layers.{i}."),
            "num_attention_heads": width // int(vision.get("head_width", HEAD_SIZE)),
            "patch_size": patch[-1],
            "image_size": patch[-1] * side,
            "projection_dim": projection,
            "hidden_act": activation,
        },
        "text_config": {
            "model_type": "clip_text_model",
            "vocab_size": words,
            "hidden_size": text_width,
            "intermediate_size": weights.rows("text_model.encoder.layers.0.mlp.fc1.weight"),
            "num_hidden_layers": weights.count("text_model.encoder.layers.{i}."),
            "num_attention_heads": int(text.get("heads", text_width // HEAD_SIZE)),
            "max_position_embeddings": weights.rows("text_model.embeddings.position_embedding.weight"),
            "projection_dim": projection,
            "hidden_act": activation,
            "bos_token_id": words - 2,
            "eos_token_id": words - 1,
            "pad_token_id": words - 1,
        },
    }


def _write_tokenizer(nearby: Path, folder: Path, text: Mapping[str, Any]) -> None:
    settings = folder / "tokenizer_config.json"
    roles = {"bos_token": START, "eos_token": END, "unk_token": END, "pad_token": END}
    longest = text["max_position_embeddings"]
    write_json(settings, {"tokenizer_class": "CLIPTokenizer", "model_max_length": longest, **roles})
    if copy_tokenizer(nearby, folder):
        return
    if (nearby / SIMPLE_VOCABULARY).is_file():
        _write_simple_vocabulary(nearby / SIMPLE_VOCABULARY, folder, text["vocab_size"])
    else:
        settings.unlink()


def _write_simple_vocabulary(path: Path, folder: Path, size: int) -> None:
    """The vocabulary of CLIP's byte pairs from the list of their merges: letters, letters at a word's end, merges."""
    try:
        with gzip.open(path) as stream:
            lines = stream.read(MAX_VOCABULARY_BYTES).decode("utf-8").split("\n")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as problem:
        raise DataError(
            f"{path}: is no list of merges ({problem}); take the one that CLIP's packages carry"
        ) from problem
    letters = sorted(byte_letters())  # as CLIP numbers them: bytes that can be printed come first
    count = size - 2 * len(letters) - 2
    merges = [line for line in lines[1 : count + 1] if len(line.split()) == 2]
    if count < 0 or len(merges) < count:
        raise DataError(
            f"{path}: has {len(merges):,} merges, and {size:,} tokens need {max(count, 0):,}; it is another, or cut off"
        )
    pieces = ["".join(line.split()) for line in merges]
    tokens = [*letters, *(letter + "</w>" for letter in letters), *pieces, START, END]
    write_json(folder / "vocab.json", {token: number for number, token in enumerate(tokens)})
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
