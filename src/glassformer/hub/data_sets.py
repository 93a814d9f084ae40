"""Download data sets: files verified by SHA-256, next to the models; and the list of all, with licences and sources.

    glassformer data fetch emotion                                  …/huggingface/assets/glassformer/data/emotion/
    data: {fetch: emotion, train: emotion/train.txt.gz}             a run that reads it

    on disk, and its digest right? ──yes──> done
          │ no
          └──> download (resumed) ──> prepare: a part, a header ──> digest right, or the first one ──> written

`data/sets.yaml` names each file by a URL that holds a commit, so its content does not change; data sets without files
are had from their publishers. `digests.json` in the folder keeps the digest of each file, also of those whose digest
`sets.yaml` does not know.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shlex
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.data.sets import DataSet, SourceFile, find_data_set
from glassformer.errors import DataError, GlassformerError
from glassformer.files import append_handle, error_reason, max_unpacked_bytes, read_json_object
from glassformer.files.atomic import atomic_file, disk_errors, write_json
from glassformer.hub.find import connections_off
from glassformer.progress import progress_bar
from glassformer.reports.report import Report
from glassformer.reports.table import Table, byte_amount

DIGESTS = "digests.json"
ATTEMPTS = 3  # a connection that broke is tried again, as long as bytes come
PARTIAL_CONTENT, BEYOND_ITS_END = 206, 416


@dataclass(frozen=True, repr=False)
class DataSetList(Report, kind="data-sets"):
    """Published data sets.

    fetched: the names of those that are on this machine
    """

    data_sets: list[DataSet]
    fetched: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, data_sets: Iterable[DataSet]) -> DataSetList:
        """These data sets, and which of them are in the folder of fetched ones."""
        listed = list(data_sets)
        return cls(listed, [each.name for each in listed if is_fetched(each, data_folder())])

    def tables(self) -> list[Table]:
        """A row a data set; ✓ = on this machine."""
        rows = [
            [
                each.name + " ✓" * (each.name in self.fetched),
                f"{each.task}: {', '.join(each.columns) or 'columns as published'}",
                each.licence,
                f"{sum(count or 0 for count in each.rows.values()):,}" if any(each.rows.values()) else "–",
                byte_amount(each.size) if each.files else "–",
            ]
            for each in self.data_sets
        ]
        return [Table(["data set", "task: columns", "licence", "rows", "size"], rows, left=3, longest=300)]

    def remarks(self) -> list[str]:
        return [
            "glassformer data list NAME: source, splits, proportions, leaks; data inspect FILE --kind NAME reads one; "
            "data fetch NAME downloads one with a size, and says first what its licence allows"
        ]


def is_fetched(data_set: DataSet, root: Path) -> bool:
    """Whether all files of a data set are in a folder of data sets."""
    return bool(data_set.files) and all((root / data_set.name / name).is_file() for name in data_set.files)


def find_downloadable(name: str) -> DataSet:
    """The data set of a name that is downloaded from here.

    Raises: ConfigError: the catalogue has none of this name. DataError: it has no files here; where to get them.
    """
    data_set = find_data_set(name)
    if data_set.files:
        return data_set
    raise DataError(
        f"{name} is not downloaded from here; get its files from {data_set.published} (licence: {data_set.licence}), "
        f"and read them by its name: glassformer data inspect FILE --kind {name}; in a configuration, data.format: "
        f"{{kind: {name}}}"
    )


def data_folder() -> Path:
    """The folder of fetched data sets: in the Hub client's cache, where models are too (HF_HOME)."""
    from huggingface_hub import constants

    return Path(constants.HF_ASSETS_CACHE) / "glassformer" / "data"


def fetched_folder(names: str | Sequence[str]) -> Path:
    """The folder that holds fetched data sets, each in a folder of its own.

    Raises: ConfigError: no such data set. DataError: one is not fetched yet, with the command, or has no files here.
    """
    root = data_folder()
    sets = [find_downloadable(name) for name in ([names] if isinstance(names, str) else names)]
    if missing := [each.name for each in sets if not is_fetched(each, root)]:
        raise DataError(
            f"the data set {missing[0]} is not on this machine yet; fetch it: glassformer data fetch "
            f"{' '.join(missing)} (or name the folder that holds {missing[0]}/: data.folder in the configuration, or "
            "--data FOLDER of train, search, study, shrink and few-labels)"
        )
    return root


def data_file(root: Path, name: str) -> Path:
    """The path of a file of a data set, `name`: SET/FILE. Raises: DataError: it is not there, and how to fetch it."""
    path = root / name
    if not path.is_file():
        command = f"glassformer data fetch {name.partition('/')[0]}"
        output = "" if root == data_folder() else f" --output {shlex.quote(str(root))}"
        raise DataError(f"{path}: no such file; fetch the data set: {command}{output}")
    return path


def fetch_data_set(name: str, output: Path | None = None) -> Path:
    """Download the files of a data set that are not there yet, or are damaged; each is verified before it counts.

    Args:
        output: the folder of data sets, in which it gets a folder of its name; None = `data_folder()`
    Returns: its folder.
    Raises:
        ConfigError: no such data set.
        DataError: a data set without files here, no connection, a digest that is not the one expected, a file of
            another origin in the folder, or a folder that cannot be written.
    """
    data_set = find_downloadable(name)
    folder = (data_folder() if output is None else output) / data_set.name
    with disk_errors(folder, DataError):
        folder.mkdir(parents=True, exist_ok=True)
        from huggingface_hub.utils import WeakFileLock  # type: ignore[attr-defined]

        with WeakFileLock(folder / ".lock"):
            _fetch_files(data_set, folder)
    return folder


def _fetch_files(data_set: DataSet, folder: Path) -> None:
    digests = _read_digests(folder)
    sources: dict[str, bytes] = {}
    partial_files = set()
    for name, file in data_set.files.items():
        path, url = folder / name, data_set.base + file.path
        expected = file.sha256 or digests.get(name)
        if expected is not None and _digest_on_disk(path) == expected:
            continue
        if path.exists() and name not in digests:
            raise DataError(
                f"{path}: is there, and was not fetched; move it away, or name another folder: --output FOLDER"
            )
        partial = folder / f".{hashlib.sha256(url.encode()).hexdigest()[:16]}.download"
        partial_files.add(partial)
        if url not in sources:
            _download(url, partial)
            sources[url] = _source_bytes(partial, file, url)
        content = file.prepare(sources[url])
        digest = hashlib.sha256(content).hexdigest()
        if expected not in (None, digest):
            partial.unlink()
            raise DataError(
                f"{url}: {name} has the SHA-256 digest {digest[:12]}…, expected {expected[:12]}…; fetch it again, and "
                "if it stays so, the source has changed: do not use it"
            )
        digests[name] = digest
        write_json(folder / DIGESTS, digests, DataError)  # before the file: one without a record is not ours
        with atomic_file(path) as stream:
            stream.write(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    for partial in partial_files:  # last, as two files may be parts of one
        partial.unlink(missing_ok=True)


def _download(url: str, partial: Path) -> None:
    """Download a file, after the bytes of it that are there already, over the connections of the Hub client.

    Raises: DataError: it cannot be had, and what to do; what came stays for the next time.
    """
    if connections_off():
        raise DataError(f"{url}: connections are off (HF_HUB_OFFLINE=1); unset it, or copy the files here yourself")
    from huggingface_hub import constants, get_session

    for attempt in range(ATTEMPTS):
        start = partial.stat().st_size if partial.exists() else 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        try:
            timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
            with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
                if response.status_code == BEYOND_ITS_END:  # the partial download is of another file: start again
                    partial.unlink()
                    continue
                response.raise_for_status()
                _receive(response, partial, resumed=response.status_code == PARTIAL_CONTENT)
            return
        except DataError:
            raise
        except Exception as problem:  # the client documents no set of errors: its own, its transport's, the system's
            if attempt == ATTEMPTS - 1 or not partial.exists() or partial.stat().st_size == start:
                raise _unavailable(url, problem) from problem
    raise DataError(f"{url}: the server sends no byte of it; try again later")


def _receive(response: Any, partial: Path, *, resumed: bool) -> None:
    """Write the body of a response as it comes, with a progress bar in bytes."""
    length = response.headers.get("Content-Length", "")
    name = os.path.basename(response.url.path)
    with (
        disk_errors(partial, DataError, "the download", "what came is kept, and the same command resumes it"),
        open(append_handle(partial), "a+b") as stream,
        progress_bar(name, int(length) if length.isdigit() else None) as advance,
    ):
        if not resumed:
            stream.truncate(0)
        for chunk in response.iter_bytes():
            stream.write(chunk)
            advance(len(chunk))


def _unavailable(url: str, problem: Exception) -> DataError:
    detail = " ".join(str(problem).split())[:200] or "no reason given"
    return DataError(
        f"{url}: could not be fetched ({type(problem).__name__}: {detail}); check the connection and run the command "
        "again, which resumes it; or name a folder that holds the files: train … --data FOLDER"
    )


def _source_bytes(partial: Path, file: SourceFile, url: str) -> bytes:
    """The unpacked bytes of a download. Raises: DataError: it is another file, such as the login page of a network."""
    size = partial.stat().st_size
    if not file.size / 2 <= size <= file.size * 2:
        partial.unlink()
        raise DataError(
            f"{url}: is {size:,} bytes, and should be about {file.size:,}; if this network has a login page, log in "
            "and fetch it again"
        )
    try:
        return _unpacked(partial, packed=file.path.endswith(".gz"))
    except DataError:
        partial.unlink()
        raise


def _unpacked(path: Path, *, packed: bool) -> bytes:
    """The content of a file. Raises: DataError: a damaged archive, or one that unpacks to far more than text does."""
    if not packed:
        return path.read_bytes()
    limit = max_unpacked_bytes(path)
    try:
        with gzip.open(path) as stream:
            content = stream.read(limit + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise DataError(f"{path.name}: is no gzip file: {error_reason(problem)}; fetch it again") from problem
    if len(content) > limit:
        raise DataError(f"{path.name}: unpacks to more than {limit:,} bytes, far more than text does")
    return content


def _digest_on_disk(path: Path) -> str | None:
    """The SHA-256 of the content of a fetched file; None where it is missing or damaged."""
    try:
        return hashlib.sha256(_unpacked(path, packed=path.suffix == ".gz")).hexdigest()
    except (OSError, DataError):
        return None


def _read_digests(folder: Path) -> dict[str, str]:
    """The recorded digests; none where the record is missing or damaged."""
    with suppress(GlassformerError):
        record = read_json_object(folder / DIGESTS, DataError)
        return {name: digest for name, digest in record.items() if isinstance(digest, str)}
    return {}
