"""Whisper from OpenAI's `.pt` files and CTranslate2's folders: config, tokenizer and generation settings.

tiny.en.pt                       tokenizer.json or vocab.json next to it, else gpt2.tiktoken or multilingual.tiktoken
folder with model.bin            tokenizer.json or vocab.json there, else vocabulary.json or vocabulary.txt
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from glassformer.audio.languages import TABLE
from glassformer.errors import ConfigError, DataError, UnsupportedError, WeightsError
from glassformer.files import is_int, read_json_object, safe_repr
from glassformer.files.atomic import write_json
from glassformer.foreign.ctranslate2 import CTranslate2Weights
from glassformer.foreign.renamed import RenamedWeights
from glassformer.foreign.vocabulary import (
    copy_tokenizer,
    read_tiktoken,
    read_token_list,
    write_byte_level,
    write_settings,
)
from glassformer.models.whisper.foreign_names import (
    CTRANSLATE2,
    MULTILINGUAL_SIZE,
    OPENAI,
    added_tokens,
    config_of,
    generation_config,
    preprocessor_config,
    special_tokens,
)
from glassformer.text.tokenizer import Tokenizer
from glassformer.weights.read import WeightFiles

LANGUAGES = [entry.split()[0] for line in TABLE.split("\n") for entry in line.split(" · ") if entry]
"""Codes in the order of their tokens."""
SPEAKER_SIGNS = [*'"#()*+/:;<=>@[\\]^_`{|}~「」『』', *"<< >> <<< >>> -- --- -( -[ (' (\" (( )) ((( ))) [[ ]]".split()]
SPEAKER_SIGNS += "{{ }} ♪♪ ♪♪♪".split()
NOTES = "♩♪♫♬♭♮♯"
"""What transcripts should not hold: names of speakers, descriptions of sounds, music."""


def open_openai(checkpoint: WeightFiles, source: Path, folder: Path) -> RenamedWeights:
    """OpenAI's state dict by other names, and the files that belong to it written.

    Raises: WeightsError: tensors that are missing. ConfigError, DataError: what is wrong with files next to it.
    """
    weights = RenamedWeights(checkpoint, OPENAI)
    dims = weights.settings.get("dims")
    dims = dims if isinstance(dims, Mapping) else {}
    heads = {side: dims.get(key) for side, key in (("encoder", "n_audio_head"), ("decoder", "n_text_head"))}
    config = _write_configs(weights, _positive(heads, source), folder)
    complete = copy_tokenizer(source.parent, folder)
    if not complete and special_tokens(config["vocab_size"]):
        name = "multilingual.tiktoken" if config["vocab_size"] >= MULTILINGUAL_SIZE else "gpt2.tiktoken"
        if path := _tiktoken(source.parent, name):
            _write_tokenizer(read_tiktoken(path), config, folder, path)
            complete = True
    _write_generation(config, {}, folder, suppressed=complete)
    return weights


def open_ctranslate2(source: Path, folder: Path) -> RenamedWeights:
    """Open CTranslate2's model file, and write the files that belong to it.

    Raises: UnsupportedError: it is no Whisper. WeightsError, ConfigError, DataError: what is damaged.
    """
    checkpoint = CTranslate2Weights(source)
    if checkpoint.kind != "WhisperSpec":
        raise UnsupportedError(
            f"{source}: is a CTranslate2 model of the kind {safe_repr(checkpoint.kind)}; WhisperSpec alone is read: "
            "take the folder in the Hugging Face layout that it was converted from"
        )
    weights = RenamedWeights(checkpoint, CTRANSLATE2)
    heads = {side: checkpoint.settings.get(f"{side}.num_heads") for side in ("encoder", "decoder")}
    config = _write_configs(weights, _positive(heads, source), folder)
    if not copy_tokenizer(source.parent, folder) and special_tokens(config["vocab_size"]):
        tokens = read_token_list(source.parent)
        if tokens:
            path = source.parent / "vocabulary"
            _write_tokenizer(tokens[: special_tokens(config["vocab_size"])["endoftext"]], config, folder, path)
    stated = read_json_object(source.parent / "config.json", ConfigError, optional=True) or {}
    keys = {"suppress_tokens": "suppress_ids", "begin_suppress_tokens": "suppress_ids_begin"}
    given = {ours: stated[theirs] for ours, theirs in keys.items() if stated.get(theirs)}
    if stated.get("alignment_heads"):
        given["alignment_heads"] = stated["alignment_heads"]
    _write_generation(config, given, folder, suppressed="suppress_tokens" not in given)
    return weights


def _positive(heads: Mapping[str, Any], source: Path) -> dict[str, int]:
    """Heads of each side, where they are stated. Raises: WeightsError: no whole numbers above 0."""
    given = {side: count for side, count in heads.items() if count is not None}
    if not all(is_int(count, 1) for count in given.values()):
        raise WeightsError(f"{source}: its numbers of heads are {safe_repr(given)}; they must be whole, from 1")
    return given


def _write_configs(weights: RenamedWeights, heads: Mapping[str, int], folder: Path) -> dict[str, Any]:
    """Write config.json and preprocessor_config.json. Returns: the config."""
    if len(shape := weights.shape("model.encoder.conv1.weight")) != 3:
        raise WeightsError(
            f"{weights.files[0]}: its first convolution has the shape {list(shape)}; it must have 3 sizes"
        )
    config = config_of(weights.shape, weights.count, heads)
    write_json(folder / "config.json", config)
    write_json(
        folder / "preprocessor_config.json", preprocessor_config(config["num_mel_bins"], config["max_source_positions"])
    )
    return config


def _write_generation(config: Mapping[str, Any], given: dict[str, Any], folder: Path, *, suppressed: bool) -> None:
    """Write generation_config.json; suppressed: work out which tokens transcripts should not hold."""
    tokenizer = Tokenizer.find(folder, model_type="whisper") if suppressed else None
    if tokenizer is not None and special_tokens(config["vocab_size"]):
        given = {**suppressed_tokens(tokenizer, config["vocab_size"]), **given}
    write_json(folder / "generation_config.json", generation_config(config, LANGUAGES, given))


def suppressed_tokens(tokenizer: Tokenizer, vocabulary: int) -> dict[str, list[int]]:
    """Tokens that transcripts should not hold, and those that they should not begin with: a space, and nothing.

    Source: openai/whisper, `tokenizer.py` (non_speech_tokens) and `decoding.py` (SuppressBlank).
    """

    def ids(text: str) -> list[int]:
        numbers: list[int] = tokenizer.engine.encode(text, add_special_tokens=False).ids
        return numbers

    special = special_tokens(vocabulary)
    banned = {ids(" -")[0], ids(" '")[0]}
    for sign in (*SPEAKER_SIGNS, *NOTES):
        for tokens in (ids(sign), ids(f" {sign}")):
            # A note may be several tokens; the first of them begins no letter.
            if len(tokens) == 1 or sign in NOTES:
                banned.add(tokens[0])
    names = ("startoftranscript", "translate", "transcribe", "startoflm", "startofprev", "nospeech")
    banned |= {special[name] for name in names}
    return {"suppress_tokens": sorted(banned), "begin_suppress_tokens": [*ids(" ")[:1], special["endoftext"]]}


def _tiktoken(folder: Path, name: str) -> Path | None:
    """OpenAI's vocabulary, next to the weights or in its installed package, which is not imported."""
    spec = find_spec("whisper")
    packages = [Path(place) / "assets" for place in (spec.submodule_search_locations or ())] if spec else []
    return next((place / name for place in (folder, *packages) if (place / name).is_file()), None)


def _write_tokenizer(tokens: list[str], config: Mapping[str, Any], folder: Path, where: Path) -> None:
    added = added_tokens(config["vocab_size"], LANGUAGES)
    if not added or len(added) + len(tokens) != config["vocab_size"]:
        raise DataError(
            f"{where}: has {len(tokens)} tokens, which with {len(added)} special ones make no vocabulary of "
            f"{config['vocab_size']}; take the one of this model"
        )
    write_byte_level(tokens, added, folder, where)
    write_settings(folder, added[len(tokens)])
