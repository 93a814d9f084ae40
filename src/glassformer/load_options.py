"""Keywords of `load` by the names of Hugging Face transformers: mapped to ours, accepted, or refused.

    load(name, torch_dtype="float16", device_map="auto", num_labels=3, hidden_dropout_prob=0.0)

Any other keyword is a key of `config.json` to override, if the family reads it.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import torch

from glassformer import foreign
from glassformer.errors import ConfigError, DataError, UnknownOptionError, UnsupportedError, nearest
from glassformer.files import as_path, check_links, is_int, safe_repr
from glassformer.hub import resolve
from glassformer.hub.find import PACKAGE, SCORER, is_adapter_folder, packaged
from glassformer.models import FAMILIES
from glassformer.models._config import IGNORED_KEYS, Keys
from glassformer.weights.header import read_file_header
from glassformer.weights.layout import foreign_weights, is_program
from glassformer.weights.read import WeightFiles, open_checkpoint

ACCEPTED = frozenset(
    "low_cpu_mem_usage ignore_mismatched_sizes use_safetensors weights_only force_download resume_download proxies "
    "add_pooling_layer mirror use_fast _fast_init from_tf from_flax use_auth_token token".split()
)
"""Keywords that change nothing here, or whose value False changes nothing."""

FINDING = ("local_files_only", "cache_dir", "subfolder", "token", "use_auth_token", "force_download", "offline")
"""Keywords that say where the folder of a model is found."""

ATTENTION = (None, "eager", "sdpa")

REFUSED: Mapping[str, str] = {
    "trust_remote_code": "code of a model repository is never run; a family that is not supported needs a recipe "
    "(docs/adding-a-family.md), one that is needs no such code: leave it out",
    "quantization_config": "load(…, dtype='int8') or dtype='int4' rounds the weights as they are read",
    "load_in_8bit": "write dtype='int8'",
    "load_in_4bit": "write dtype='int4', or quantise the folder once (`glassformer shrink MODEL --to int4`)",
    "output_loading_info": "model.report says what became of every tensor",
    "from_tf": "TensorFlow checkpoints are not read; convert the folder to safetensors first",
    "from_flax": "Flax checkpoints are not read; convert the folder to safetensors first",
    "max_memory": "a model is held by one device: device='cuda'",
    "offload_folder": "a model is held by one device: device='cuda'",
    "state_dict": "load the folder, then call model.load_state_dict(…)",
    "gguf_file": "convert the folder to safetensors first",
}
"""Keyword → why it is refused, or what to write instead; None and False are taken."""

DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}

LEVELS = {"int8": 8, "int4": 4}
"""Dtypes of weights that are stored as integer levels, with the bits of a level."""

PRECISIONS = (*DTYPES, *LEVELS)

SAVED_ANYWAY = frozenset("is_main_process save_function push_to_hub variant token save_peft_format".split())
"""Keywords of `save_pretrained` whose usual values change nothing here."""
UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """What `load` was asked for, by our own names.

    dtype: of the weights; fp32 of those that are not stored as levels
    bits: of the levels that weights are rounded to as they are read; None: they stay in floating point
    overrides: keys of the config
    unknown: those of them that were given as keywords, to be checked with the family's
    """

    dtype: torch.dtype | None
    device: torch.device
    offline: bool
    overrides: Mapping[str, Any]
    unknown: tuple[str, ...] = ()
    subfolder: str = ""
    cache_folder: Path | None = None
    token: str | bool | None = field(default=None, repr=False)
    bits: int | None = None

    @classmethod
    def read(
        cls, keywords: Mapping[str, Any], *, dtype: Any, device: Any, offline: bool, overrides: Any
    ) -> LoadOptions:
        """Map the reference library's keywords to options.

        Raises: ConfigError: a value that is not allowed, or two names of one thing.
            UnsupportedError: what is not done, with what to write instead.
        """
        rest = dict(keywords)
        _refuse(rest)
        if "torch_dtype" in rest:
            dtype = _one_of("dtype", dtype, "torch_dtype", rest.pop("torch_dtype"))
        if "device_map" in rest:
            device = _one_of("device", device, "device_map", _device(rest.pop("device_map")))
        if (attention := rest.pop("attn_implementation", None)) not in ATTENTION:
            raise UnsupportedError(
                f"attn_implementation is {safe_repr(attention)}; torch's own fused attention is used ('sdpa'), and "
                "computed step by step where a tape listens ('eager'): leave it out"
            )
        config, cache = rest.pop("config", None), rest.pop("cache_dir", None)
        offline = bool(rest.pop("local_files_only", False)) or offline
        subfolder = rest.pop("subfolder", None) or ""
        for name, value in (("cache_dir", cache), ("subfolder", subfolder)):
            if not (value is None or isinstance(value, (str, Path))):
                raise ConfigError(f"{name} is {safe_repr(value)}; it must be the path of a folder")
        given = {key: value for key, value in rest.items() if key not in ACCEPTED}
        if given.get("num_labels") is not None:
            given.setdefault("id2label", None)
            given.setdefault("label2id", None)
        bits = level_bits(dtype)
        return cls(
            dtype=torch.float32 if bits else dtype_of(None if dtype == "auto" else dtype),
            bits=bits,
            device=device_of(device),
            offline=offline,
            overrides={**_config(config), **(overrides or {}), **given},
            unknown=tuple(given),
            subfolder=str(subfolder),
            cache_folder=None if cache is None else Path(cache),
            token=rest.get("token", rest.get("use_auth_token")),
        )

    def unknown_to(self, config: Mapping[str, Any]) -> list[str]:
        """The keywords that are no keys of a config."""
        known = self._known(config)
        return [name for name in self.unknown if name not in known]

    def _known(self, config: Mapping[str, Any]) -> set[str]:
        """The keys that a config may have: those it has, and those of its family."""
        kind = str(config.get("model_type"))
        keys = getattr(FAMILIES[kind].spec, "keys", None) if kind in FAMILIES else None
        known = {*config, *IGNORED_KEYS}
        if isinstance(keys, Keys):
            known |= {name for entry in keys.keys.values() for name in entry.spellings} | {*keys.fixed}
            known |= {*keys.unused.split()}
        return known

    def override(self, config: Mapping[str, Any], call: Any) -> dict[str, Any]:
        """The config of a folder with the keys that the caller overrides.

        Args:
            call: the function that took them; its own keywords may be meant by one that is no key
        Raises: ConfigError: a keyword that is no key of the config.
        """
        kind, known = str(config.get("model_type")), self._known(config)
        own = [p.name for p in signature(call).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
        for name in self.unknown:
            if name not in known:
                raise ConfigError(
                    f"load(…) takes no {safe_repr(name)}, and it is no key of a {kind!r} model's config"
                    f"{nearest(name, [*own, *known])}"
                )
        return {**config, **self.overrides}

    def locate(self, name_or_folder: str | Path, revision: str | None, *, allow_pickle: bool) -> str | Path:
        """The folder of a name or path, downloaded where it has to be; another library's file as it is.

        Raises: DataError: there is none.
        """
        if isinstance(name_or_folder, str) and name_or_folder.startswith(PACKAGE):
            path = packaged(name_or_folder)
            name_or_folder = path if path.is_file() else name_or_folder
        if foreign.is_foreign(name_or_folder) or is_program(name_or_folder):
            return name_or_folder
        return self._resolve(name_or_folder, revision, allow_pickle=allow_pickle)

    def find_folder(self, name_or_folder: str | Path, revision: str | None, *, allow_pickle: bool) -> Path:
        """The model folder of a name or path, downloaded where it has to be.

        Raises: DataError: there is none. ConfigError: it holds no config.json.
        """
        return _with_config(self._resolve(name_or_folder, revision, allow_pickle=allow_pickle))

    def _resolve(self, name_or_folder: str | Path, revision: str | None, *, allow_pickle: bool) -> Path:
        if not isinstance(name_or_folder, (str, Path)):
            raise DataError(
                f"the model is {safe_repr(name_or_folder)}; give a folder, or a name on the Hub such as 'org/name'"
            )
        folder = resolve(
            name_or_folder,
            revision=revision,
            offline=self.offline,
            allow_pickle=allow_pickle,
            cache_folder=self.cache_folder,
            token=self.token,
            check=read_file_header,
        )
        return folder / self.subfolder if self.subfolder else folder


@contextmanager
def opened(location: str | Path, *, allow_pickle: bool) -> Iterator[tuple[Path, Callable[[], WeightFiles]]]:
    """A located model folder, and what opens its weights; of another library's file, a folder made of it.

    Raises: ConfigError: it holds no config.json.
    """
    if foreign.is_foreign(location):
        with foreign.opened(as_path(location, "location")) as unpacked:
            yield unpacked
        return
    folder = _with_config(as_path(location, "location"))
    check_links(folder, ConfigError)
    yield folder, partial(open_checkpoint, folder, allow_pickle=allow_pickle)


def level_bits(dtype: Any) -> int | None:
    """Bits of the levels that a dtype names, such as "int8"; None: it is a floating-point one, or unknown."""
    return 8 if dtype is torch.int8 else LEVELS.get(dtype) if isinstance(dtype, str) else None


def dtype_of(dtype: torch.dtype | str | None) -> torch.dtype | None:
    """Resolve a floating-point dtype, also by name; None stays None."""
    resolved = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if dtype is not None and resolved not in DTYPES.values():
        raise ConfigError(f"dtype is {safe_repr(dtype)}; allowed: {', '.join([*DTYPES, *LEVELS])}")
    return resolved


def device_of(device: torch.device | str | None) -> torch.device:
    """Resolve an available device; None = the CPU, "auto" = the accelerator if there is one."""
    if device == "auto":
        accelerator = torch.accelerator.current_accelerator()
        available = accelerator is not None and torch.accelerator.is_available()
        return accelerator if accelerator is not None and available else torch.device("cpu")
    try:
        resolved = torch.device("cpu" if device is None else device)
        torch.empty(0, device=resolved)  # torch.device accepts devices that this machine does not have
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            f"device is {safe_repr(device)}, which this machine or this build of torch does not have; "
            "'auto' takes the accelerator if there is one, 'cpu' is everywhere"
        ) from error
    return resolved


def _with_config(folder: Path) -> Path:
    if is_adapter_folder(folder):
        raise ConfigError(
            f"{folder}: is a folder of adapters, without a model; glassformer.load(folder) loads them with their base "
            "model"
        )
    if os.path.lexists(folder / SCORER):
        raise ConfigError(
            f"{folder}: holds a classifier of a method of few labels, which is no network: classify texts with it by "
            "glassformer predict classify, or glassformer.pipeline('classify', FOLDER)"
            + ("; its sentence encoder is in encoder/" if (folder / "encoder").is_dir() else "")
        )
    if not os.path.lexists(folder / "config.json"):
        raise ConfigError(
            f"{folder}: holds no config.json; give a model folder in the Hugging Face layout: config.json, "
            "model.safetensors, and tokenizer.json or vocabulary files"
            + (foreign_weights(os.listdir(folder)) if folder.is_dir() else "")
        )
    return folder


def _refuse(rest: dict[str, Any]) -> None:
    for name, instead in REFUSED.items():
        if rest.pop(name, None) not in (None, False):
            raise UnsupportedError(f"load(…) takes no {name}: {instead}")
    if rest.get("use_safetensors") is False:
        raise ConfigError(
            "use_safetensors=False asks for pickle files, which can run any code: allow_pickle=True reads "
            "them in a sandboxed child process, where there is no safetensors file"
        )


def _one_of(name: str, value: Any, theirs: str, given: Any) -> Any:
    if value is not None and given is not None and value != given:
        raise ConfigError(f"{name} = {safe_repr(value)} and {theirs} = {safe_repr(given)} are two names of one thing")
    return given if value is None else value


def _device(device_map: Any) -> Any:
    """The one device of a device map."""
    if isinstance(device_map, Mapping):
        if set(device_map) != {""}:
            raise UnsupportedError(
                f"device_map is {safe_repr(device_map)}; a model is held by one device: give device_map='auto' or "
                "{'': 'cuda:0'}"
            )
        device_map = device_map[""]
    if is_int(device_map, -math.inf):
        return f"cuda:{device_map}"
    one = ("balanced", "balanced_low_0", "sequential")
    return "auto" if device_map in one else device_map


def _config(config: Any) -> Mapping[str, Any]:
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return {key: value for key, value in config.items() if key != "architectures"}
    raise DataError(
        f"config is {safe_repr(config)}; it must be a config: AutoConfig.from_pretrained(folder), or a dict"
    )


def shard_bytes(reference: Mapping[str, Any], max_shard_bytes: int) -> int:
    """The largest weight file, of keywords of `save_pretrained` by the names of Hugging Face transformers.

    Raises: ConfigError: a keyword or a size that is not known. UnsupportedError: what is not done.
    """
    rest = {name: value for name, value in reference.items() if name not in SAVED_ANYWAY or value not in (None, False)}
    rest = {name: value for name, value in rest.items() if (name, value) != ("is_main_process", True)}
    if rest.pop("safe_serialization", True) is not True:
        raise UnsupportedError("safe_serialization=False would write a pickle, which can run any code: leave it out")
    if rest.pop("state_dict", None) is not None:
        raise UnsupportedError("save_pretrained(state_dict=…): call model.load_state_dict(…) before it")
    if rest.pop("push_to_hub", False):
        raise UnsupportedError("save_pretrained(push_to_hub=True): call model.push_to_hub(name)")
    rest.pop("save_function", None)  # that of accelerate writes what this writes
    size = rest.pop("max_shard_size", max_shard_bytes)
    if rest:
        raise UnknownOptionError(f"save_pretrained(…) takes no {', '.join(map(safe_repr, rest))}")
    if isinstance(size, str) and (match := re.fullmatch(r"(\d+)\s*([KMGT]I?B)", size.strip().upper())):
        size = int(match[1]) * UNITS[match[2]]
    if not is_int(size, 1):
        raise ConfigError(f"max_shard_size is {safe_repr(size)}; it must be a number of bytes, or a text such as '5GB'")
    return size
