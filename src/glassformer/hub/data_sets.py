"""Named data sets: a catalogue with columns, sizes, licence and source; files verified by SHA-256, next to the models.

    glassformer data fetch emotion                                  …/huggingface/assets/glassformer/data/emotion/
    data: {fetch: emotion, train: emotion/train.txt.gz}             a run that reads it

    on disk, and its digest right? ──yes──> done
          │ no
          └──> download (resumed) ──> prepare: a part, a header ──> digest right, or the first one ──> written

Data sets of books and papers are listed as well, as `data/published.yaml` has them; those are not downloaded from here.
`data_sets.yaml` names each file by a URL that holds a commit, so its content does not change. `digests.json` in the
folder keeps the digest of each file, also of those whose digest the catalogue does not know.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shlex
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.data.published import published_sets
from glassformer.errors import ConfigError, DataError, GlassformerError, nearest
from glassformer.files import append_handle, error_reason, max_unpacked_bytes, read_json_object, safe_repr
from glassformer.files.atomic import atomic_file, disk_errors, write_json
from glassformer.files.schema import parse
from glassformer.hub.find import connections_off
from glassformer.progress import progress_bar
from glassformer.reports.amounts import byte_amount
from glassformer.reports.report import Record, Report
from glassformer.reports.table import Table

CATALOGUE = Path(__file__).with_suffix(".yaml")
DIGESTS = "digests.json"
ATTEMPTS = 3  # a connection that broke is tried again, as long as bytes come
PARTIAL_CONTENT, BEYOND_ITS_END = 206, 416


@dataclass(frozen=True, kw_only=True)
class CatalogueFile:
    """A file of a data set, and how it is made of a source; the fields are explained in `data_sets.yaml`."""

    path: str
    size: int
    sha256: str | None = None
    part: list[int] = field(default_factory=list)
    header: str = ""
    without: list[str] = field(default_factory=list)

    def prepare(self, source: bytes) -> bytes:
        """The content of the file, made of its unpacked source."""
        content = source[slice(*self.part)] if self.part else source
        if self.without:
            dropped = {line.encode() for line in self.without}
            content = b"".join(x for x in content.splitlines(keepends=True) if x.rstrip(b"\r\n") not in dropped)
        return f"{self.header}\n".encode() + content if self.header else content


DATA_SET_KEYS = (
    *("name", "about", "task", "rows", "licence", "base", "files", "published", "columns", "commercial"),
    *("source", "size", "fetched"),
)


@dataclass(frozen=True, kw_only=True)
class DataSet(Record, keys=DATA_SET_KEYS):
    """A data set of the catalogue, to download where it has files; the fields are explained in `data_sets.yaml`."""

    name: str
    about: str
    task: str
    rows: dict[str, int]
    licence: str
    base: str = ""
    files: dict[str, CatalogueFile] = field(default_factory=dict)
    published: str = ""
    columns: dict[str, str] = field(default_factory=dict)
    commercial: bool = True

    @property
    def size(self) -> int:
        """Size of the download in bytes."""
        return sum({file.path: file.size for file in self.files.values()}.values())

    @property
    def source(self) -> str:
        """The repository and the commit that the files are of; or where they can be had."""
        if not self.files:
            return self.published.removeprefix("https://")
        owner, repository, commit = self.base.split("/")[3:6]
        return f"github.com/{owner}/{repository} @ {commit[:7]}"

    @property
    def fetched(self) -> bool:
        """Whether it is on this machine."""
        return self.is_in(data_folder())

    @property
    def terms(self) -> dict[str, str]:
        """What is fetched, from where, and what its licence allows."""
        return {
            self.name: f"{self.about}; {byte_amount(self.size)}",
            "licence": self.licence if self.commercial else f"{self.licence}: not for commercial use",
            "source": self.source,
        }

    def is_in(self, root: Path) -> bool:
        """Whether all its files are in the folder of data sets."""
        return bool(self.files) and all((root / self.name / name).is_file() for name in self.files)


@dataclass(frozen=True, repr=False)
class DataSetList(Report, kind="data-sets"):
    """The data sets of the catalogue."""

    data_sets: list[DataSet]

    def tables(self) -> list[Table]:
        """A row a data set; ✓ = on this machine."""
        rows = [
            [
                each.name + " ✓" * each.fetched,
                each.task,
                f"{each.licence} · {each.source.removeprefix('github.com/')}",
                f"{sum(each.rows.values()):,}" if each.rows else "–",
                byte_amount(each.size) if each.files else "–",
            ]
            for each in self.data_sets
        ]
        return [Table(["data set", "task", "licence · source", "rows", "size"], rows, left=3, longest=300)]

    def remarks(self) -> list[str]:
        return ["glassformer data fetch NAME downloads one; it says first what its licence allows"]


@cache
def catalogue(path: Path = CATALOGUE) -> dict[str, DataSet]:
    """The data sets that can be fetched, and those of books and papers, by name."""
    import yaml

    entries = yaml.safe_load(path.read_text("utf-8"))
    sets = {name: parse(DataSet, {"name": name, **entry}, name) for name, entry in entries.items()}
    shared = [each.name for each in fields(DataSet) if each.name not in ("base", "files")]
    for name, published in published_sets().items():
        sets[name] = DataSet(**{key: getattr(published, key) for key in shared})
    return sets


def find_data_set(name: str) -> DataSet:
    """The data set of a name. Raises: ConfigError: the catalogue has none."""
    known = catalogue()
    if name not in known:
        raise ConfigError(
            f"no data set is called {safe_repr(name)}{nearest(name, known)}; glassformer data list shows: "
            f"{', '.join(known)}"
        )
    return known[name]


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
    if missing := [each.name for each in sets if not each.is_in(root)]:
        raise DataError(
            f"the data set {missing[0]} is not on this machine yet; fetch it: glassformer data fetch "
            f"{' '.join(missing)} (or name the folder that holds {missing[0]}/: --data FOLDER)"
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


def _source_bytes(partial: Path, file: CatalogueFile, url: str) -> bytes:
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
