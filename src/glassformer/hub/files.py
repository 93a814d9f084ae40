"""Select the files of a Hub repository that make a model, and list those missing in a folder.

A repository may hold the same weights several times: safetensors, pickles, other frameworks, exports. One copy is
downloaded, preferably safetensors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from glassformer.errors import GlassformerError
from glassformer.files.strict_json import read_json_object

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED_SINGLE, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"

_SMALL_FILES = frozenset(
    """
    config.json generation_config.json
    tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json
    vocab.txt vocab.json merges.txt tokenizer.model spiece.model sentencepiece.bpe.model source.spm target.spm
    normalizer.json
    chat_template.jinja chat_template.json
    preprocessor_config.json processor_config.json video_preprocessor_config.json
    modules.json sentence_bert_config.json config_sentence_transformers.json
    """.split()
)
_SHARD = re.compile(r"model-[^/]*\.safetensors")
_PICKLED_SHARD = re.compile(r"pytorch_model-[^/]*\.bin")
_PICKLE = re.compile(r"[^/]*\.(?:bin|pt|pth|ckpt)")
# The further modules of a sentence-transformers model: 1_Pooling, 2_Dense, 3_Normalize …
_MODULE = re.compile(r"[0-9]+_[A-Za-z]+/(?:config\.json|model\.safetensors)")


def model_files(names: Iterable[str], *, allow_pickle: bool = False) -> list[str]:
    """The files of a repository to download: config, tokenizer, modules, one copy of the weights."""
    present = set(names)
    chosen = {name for name in present if name in _SMALL_FILES or _MODULE.fullmatch(name)}
    return sorted(chosen | _weight_files(present, allow_pickle))


def _weight_files(present: set[str], allow_pickle: bool) -> set[str]:
    if SINGLE in present:
        return {SINGLE}
    if INDEX in present:
        return {INDEX} | {name for name in present if _SHARD.fullmatch(name)}
    if not allow_pickle:
        return set()
    if PICKLED_SINGLE in present:
        return {PICKLED_SINGLE}
    if PICKLED_INDEX in present:
        return {PICKLED_INDEX} | {name for name in present if _PICKLED_SHARD.fullmatch(name)}
    single = {name for name in present if re.fullmatch(r"[^/]*\.pt", name)}
    return single if len(single) == 1 else set()


def pickled_weights(names: Iterable[str]) -> list[str]:
    """The files of pickled weights at the top level of a repository."""
    return sorted(name for name in names if _PICKLE.fullmatch(name) and name != "training_args.bin")


def missing_files(folder: Path, *, allow_pickle: bool = False) -> list[str]:
    """Files missing in a model folder: its config, its weights, or shards that its index names.

    An unreadable index counts as complete: reading the weights reports what is wrong with it.
    """
    missing = [] if (folder / "config.json").is_file() else ["config.json"]
    for single, index in [(SINGLE, INDEX), (PICKLED_SINGLE, PICKLED_INDEX)][: 2 if allow_pickle else 1]:
        if (folder / single).is_file():
            return missing
        if (folder / index).is_file():
            return missing + [name for name in _shards(folder / index) if not (folder / name).is_file()]
    if allow_pickle and any(folder.glob("*.pt")):
        return missing
    return [*missing, SINGLE]


def _shards(index: Path) -> list[str]:
    try:
        weight_map = read_json_object(index)["weight_map"]
        return sorted({name for name in weight_map.values() if isinstance(name, str) and "/" not in name})
    except (GlassformerError, KeyError, AttributeError, TypeError):
        return []  # see missing_files: reading the weights gives a better message
