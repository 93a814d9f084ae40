"""From what a user typed to a folder: a folder that exists wins, another name is the Hub's.

package:NAME/folder is a folder that an installed package carries; the package itself is not imported.
A folder that holds no model, and a folder `model` that does, such as that of a run, stands for the latter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from glassformer.errors import DataError

PACKAGE, CONFIG = "package:", "config.json"
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
    check: Callable[[Path], object] | None = None,
) -> Path:
    """Find the folder of a model: here, in the Hub cache, or by fetching it.

    A folder that exists wins; the folder of a run stands for its model. A name that only a path can have (`./x`,
    `~/x`, `a/b/c`) is never looked up on the Hub. A snapshot in the Hub cache that is complete is used without
    asking the network whether there is a newer one; pass a `revision` for that. What is fetched is verified before
    it is returned, once.

    Args:
        name_or_folder: a folder, a name on the Hub: `org/name`, or `package:NAME/folder`.
        revision: a branch, tag or commit on the Hub; `main` by default.
        offline: never open a connection; so does HF_HUB_OFFLINE=1.
        allow_pickle: also fetch `*.bin` and `*.pt`, where there are no safetensors.
        cache_folder: instead of the Hub client's (HF_HUB_CACHE).
        endpoint: instead of the Hub client's (HF_ENDPOINT), a mirror say.
        check: called with each safetensors file whose digest the server does not state; it raises if the
            file is damaged. (This layer knows nothing of tensors: pass `weights.header.read_file_header`.)

    Returns: the folder; for a local one its path as given, `~` expanded, or `model` in it.

    Raises:
        DataError: no such folder and no such model, a folder of several runs, nothing in the cache while offline, or
            the network failed: what failed, and what to do.
        WeightsError: what the Hub sends is damaged, twice.
    """
    path = _expanded(name_or_folder)
    if path.is_dir():
        return _with_model(path)
    if isinstance(name_or_folder, str) and name_or_folder.startswith(PACKAGE):
        return _with_model(_in_package(name_or_folder.removeprefix(PACKAGE)))
    if path.exists():
        raise DataError(f"{path}: is a file; give the folder that holds it")
    if isinstance(name_or_folder, Path) or not _is_hub_name(name_or_folder):
        raise DataError(f"{path}: no such folder; give a model folder, or a name on the Hub such as org/name")
    from glassformer.hub.fetch import Request, fetch  # the client is imported only when it is needed

    request = Request(
        name=name_or_folder,
        revision=revision or "main",
        allow_pickle=allow_pickle,
        cache_folder=cache_folder,
        endpoint=endpoint,
        check=check,
    )
    return fetch(request, offline=offline or is_offline())


def _with_model(folder: Path) -> Path:
    inner = folder / "model"
    if (folder / CONFIG).exists():
        return folder
    if (inner / CONFIG).is_file():
        return inner
    if several := sorted(str(path.parent.parent) for path in folder.glob(f"*/model/{CONFIG}")):
        more = f" and {len(several) - 3} more" if len(several) > 3 else ""
        raise DataError(
            f"{folder}: holds no model itself; name one of those in it: {', '.join(several[:3])}{more}"
        )
    return folder


def _in_package(name: str) -> Path:
    """The folder that an installed package carries."""
    package, _, inner = name.partition("/")
    spec = find_spec(package) if package.isidentifier() else None
    if spec is None or spec.origin is None:
        raise DataError(f"{PACKAGE}{name}: no package {package!r} is installed here; install it with pip")
    home = Path(spec.origin).parent
    folder = (home / inner).resolve()
    if not folder.is_dir() or not folder.is_relative_to(home.resolve()):
        raise DataError(f"{PACKAGE}{name}: the package {package!r} has no folder {inner!r}")
    return folder


def is_offline() -> bool:
    """Whether the environment forbids connections: HF_HUB_OFFLINE is 1, ON, YES or TRUE."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}


def _expanded(name_or_folder: str | Path) -> Path:
    if not os.fspath(name_or_folder):
        raise DataError(
            "the name of the model is empty; give a folder, or a name on the Hub such as org/name"
        )
    if "\0" in os.fspath(name_or_folder):
        raise DataError(f"{os.fspath(name_or_folder)!r}: a path cannot hold a NUL character")
    try:
        path = Path(name_or_folder).expanduser()
        path.exists()
    except (OSError, RuntimeError) as problem:  # a name too long, a user that ~ does not know
        text = os.fspath(name_or_folder)
        raise DataError(
            f"{text[:100]!r}: cannot be a folder: {getattr(problem, 'strerror', problem)}"
        ) from problem
    return path


def _is_hub_name(name: str) -> bool:
    return (
        _HUB_NAME.fullmatch(name) is not None
        and len(name) <= 96
        and "--" not in name
        and ".." not in name
        and not name.endswith((".", "-", ".git"))
    )
