"""Whisper's weights by the names of OpenAI's release and of CTranslate2, and the configs that their sizes make.

Source of names: openai/whisper, `model.py`; OpenNMT/CTranslate2, `specs/whisper_spec.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

OPENAI = """
encoder.conv1                        model.encoder.conv1
encoder.conv2                        model.encoder.conv2
encoder.ln_post                      model.encoder.layer_norm
decoder.ln                           model.decoder.layer_norm
decoder.token_embedding              model.decoder.embed_tokens
{side}.positional_embedding          model.{side}.embed_positions.weight
{side}.blocks.{i}.attn.query         model.{side}.layers.{i}.self_attn.q_proj
{side}.blocks.{i}.attn.key           model.{side}.layers.{i}.self_attn.k_proj
{side}.blocks.{i}.attn.value         model.{side}.layers.{i}.self_attn.v_proj
{side}.blocks.{i}.attn.out           model.{side}.layers.{i}.self_attn.out_proj
{side}.blocks.{i}.attn_ln            model.{side}.layers.{i}.self_attn_layer_norm
{side}.blocks.{i}.cross_attn.query   model.{side}.layers.{i}.encoder_attn.q_proj
{side}.blocks.{i}.cross_attn.key     model.{side}.layers.{i}.encoder_attn.k_proj
{side}.blocks.{i}.cross_attn.value   model.{side}.layers.{i}.encoder_attn.v_proj
{side}.blocks.{i}.cross_attn.out     model.{side}.layers.{i}.encoder_attn.out_proj
{side}.blocks.{i}.cross_attn_ln      model.{side}.layers.{i}.encoder_attn_layer_norm
{side}.blocks.{i}.mlp.0              model.{side}.layers.{i}.fc1
{side}.blocks.{i}.mlp.2              model.{side}.layers.{i}.fc2
{side}.blocks.{i}.mlp_ln             model.{side}.layers.{i}.final_layer_norm
"""

CTRANSLATE2 = """
encoder.conv1                                       model.encoder.conv1
encoder.conv2                                       model.encoder.conv2
decoder.embeddings                                  model.decoder.embed_tokens
decoder.projection.weight                           proj_out.weight
{side}.layer_norm                                   model.{side}.layer_norm
{side}.position_encodings.encodings                 model.{side}.embed_positions.weight
{side}.layer_{i}.self_attention.layer_norm          model.{side}.layers.{i}.self_attn_layer_norm
{side}.layer_{i}.self_attention.linear_0            model.{side}.layers.{i}.self_attn.(q_proj|k_proj|v_proj)
{side}.layer_{i}.self_attention.linear_0.bias       model.{side}.layers.{i}.self_attn.(q_proj||v_proj).bias
{side}.layer_{i}.self_attention.linear_1            model.{side}.layers.{i}.self_attn.out_proj
{side}.layer_{i}.attention.layer_norm               model.{side}.layers.{i}.encoder_attn_layer_norm
{side}.layer_{i}.attention.linear_0                 model.{side}.layers.{i}.encoder_attn.q_proj
{side}.layer_{i}.attention.linear_1                 model.{side}.layers.{i}.encoder_attn.(k_proj|v_proj)
{side}.layer_{i}.attention.linear_1.bias            model.{side}.layers.{i}.encoder_attn.(|v_proj).bias
{side}.layer_{i}.attention.linear_2                 model.{side}.layers.{i}.encoder_attn.out_proj
{side}.layer_{i}.ffn.layer_norm                     model.{side}.layers.{i}.final_layer_norm
{side}.layer_{i}.ffn.linear_0                       model.{side}.layers.{i}.fc1
{side}.layer_{i}.ffn.linear_1                       model.{side}.layers.{i}.fc2
"""

HEAD_WIDTH = 64
"""Of every published model; files that do not say their heads have it."""
TIMESTAMPS, SPECIALS = 1501, 8
"""Tokens <|0.00|> to <|30.00|>; other special tokens but the languages."""
MULTILINGUAL_SIZE, SMALLEST_SIZE = 51_865, 51_864


def config_of(
    shape: Callable[[str], tuple[int, ...]], count: Callable[[str], int], heads: Mapping[str, int]
) -> dict[str, Any]:
    """config.json from the sizes of tensors, by the reference library's names; heads: of encoder and decoder."""
    width, bins, _ = shape("model.encoder.conv1.weight")
    config: dict[str, Any] = {
        "model_type": "whisper",
        "architectures": ["WhisperForConditionalGeneration"],
        "is_encoder_decoder": True,
        "d_model": width,
        "num_mel_bins": bins,
        "vocab_size": shape("model.decoder.embed_tokens.weight")[0],
        "max_source_positions": shape("model.encoder.embed_positions.weight")[0],
        "max_target_positions": shape("model.decoder.embed_positions.weight")[0],
    }
    for side in ("encoder", "decoder"):
        config[f"{side}_layers"] = count(f"model.{side}.layers.{{i}}.")
        config[f"{side}_attention_heads"] = heads.get(side) or max(1, width // HEAD_WIDTH)
        config[f"{side}_ffn_dim"] = shape(f"model.{side}.layers.0.fc1.weight")[0]
    ids = special_tokens(config["vocab_size"])
    if ids:
        config |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), ids["endoftext"])
        config["decoder_start_token_id"] = ids["startoftranscript"]
    else:
        # No vocabulary of a release: the keys of one would lie outside of the table.
        config |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"), 0)
    return config


def special_tokens(vocabulary: int) -> dict[str, int]:
    """Ids of the special tokens but the languages, by name; none where the size is no release's.

    text · endoftext · startoftranscript · languages · translate · transcribe · startoflm · startofprev · nospeech ·
    notimestamps · timestamps
    """
    if vocabulary < SMALLEST_SIZE:
        return {}
    end = 50_257 if vocabulary >= MULTILINGUAL_SIZE else 50_256
    names = ("translate", "transcribe", "startoflm", "startofprev", "nospeech", "notimestamps")
    first = vocabulary - TIMESTAMPS - len(names)
    return {"endoftext": end, "startoftranscript": end + 1, **{name: first + i for i, name in enumerate(names)}}


def generation_config(config: Mapping[str, Any], languages: list[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """generation_config.json of a vocabulary of this size.

    Args:
        languages: their codes, in the order of their tokens
        given: keys that the file's own config states
    """
    ids = special_tokens(config["vocab_size"])
    if not ids:
        return {}
    several = config["vocab_size"] >= MULTILINGUAL_SIZE
    start = ids["startoftranscript"]
    made = {
        **{key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")},
        "max_length": config["max_target_positions"],
        "max_initial_timestamp_index": 50,
        "no_timestamps_token_id": ids["notimestamps"],
        "prev_sot_token_id": ids["startofprev"],
        "is_multilingual": several,
        "return_timestamps": False,
    }
    if several:
        codes = languages[: ids["translate"] - start - 1]
        made["lang_to_id"] = {f"<|{code}|>": start + 1 + i for i, code in enumerate(codes)}
        made["task_to_id"] = {task: ids[task] for task in ("transcribe", "translate")}
        made["task"] = "transcribe"
    return made | dict(given)


def added_tokens(vocabulary: int, languages: list[str]) -> dict[int, str]:
    """Every special token by its id."""
    ids = special_tokens(vocabulary)
    if not ids:
        return {}
    tokens = {number: f"<|{name}|>" for name, number in ids.items()}
    first = ids["startoftranscript"] + 1
    tokens |= {first + i: f"<|{code}|>" for i, code in enumerate(languages[: ids["translate"] - first])}
    begin = ids["notimestamps"] + 1
    return tokens | {begin + i: f"<|{i * 0.02:.2f}|>" for i in range(TIMESTAMPS)}


def preprocessor_config(bins: int, positions: int) -> dict[str, Any]:
    """preprocessor_config.json: windows of 25 ms each 10 ms, two frames an encoder state."""
    return {
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": bins,
        "sampling_rate": 16_000,
        "hop_length": 160,
        "n_fft": 400,
        "chunk_length": max(1, 2 * positions // 100),
    }
