"""Maps of embeddings: points of a plane for each layer, each layer turned to lie on the one before; and their files.

    ContextualEmbeddings, or vectors [N, D] ──> EmbeddingMap ──┬─ pca           [levels, N, 2], explained variance
                                                              ├─ project       t-SNE, UMAP, in a worker process
                                                              ├─ neighbours    nearest vectors, not points
                                                              └─ export        files of other projectors

Embedding Projector: https://projector.tensorflow.org reads embeddings.tsv and metadata.tsv (a header only where there
are several columns) · embedding-atlas reads the Parquet file: one row a point, its vector, its place, its metadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.errors import DataError, import_optional
from glassformer.files import as_path, is_int
from glassformer.files.atomic import atomic_file, disk_errors
from glassformer.inspect.embeddings.contextual import ContextualEmbeddings, nearest_rows, unit_rows
from glassformer.inspect.embeddings.options import ProjectionOptions
from glassformer.inspect.embeddings.projection import Check, Progress, check_vectors, pca, procrustes, project
from glassformer.inspect.numbers import map_level_names
from glassformer.reports.charts import Axis, Point, TradeOff
from glassformer.reports.report import Report
from glassformer.reports.table import IntervalCell, Table, percent

VECTORS, METADATA = "embeddings.tsv", "metadata.tsv"
MAX_COMPARED = 2048
"""Points of which each is compared with each: a tenth of a second a level."""
LONGER = 8
"""Times the median length: one vector as long as that takes the map for itself, and leaves the others on one point."""
MAX_POINTS = 400
"""Points of the map on the page of a report; more are one cloud."""
NAME_CHARACTERS = 120
TEXT_CHARACTERS = 2_000
"""Longest text of a row in metadata: projectors show it next to a point."""


@dataclass(frozen=True, repr=False)
class EmbeddingMap(Report, kind="embedding-map", keys=("word", "levels", "rows", "labels", "pca", "explained")):
    """Vectors of N points at one or more levels, what each point is, and their places on a plane.

        embedding_map = EmbeddingMap.of(embed_words(model, titles, "adoption"))
        embedding_map.pca[-1], embedding_map.explained[-1]      places at the last level [N, 2]; shares of variance [2]
        embedding_map.project("tsne", perplexity=10)            places of the last level, by t-SNE [N, 2]
        embedding_map.export("adoption/")                       files for other projectors

    levels: name of each level
    states: vectors [levels, N, D]
    rows: metadata of each point
    labels: the class of each point, where there are classes
    spans: start and end of the word in its text
    word: the word whose occurrences these are
    directions: map vectors that are scaled to length 1; None = where one is `LONGER` times longer than the median
    """

    levels: tuple[str, ...]
    states: np.ndarray
    rows: Sequence[dict[str, Any]]
    labels: Sequence[str] | None = None
    spans: Sequence[tuple[int, int]] | None = None
    word: str | None = None
    directions: bool | None = None

    @classmethod
    def of(cls, embeddings: ContextualEmbeddings, *, directions: bool | None = None) -> EmbeddingMap:
        """The map of contextual embeddings, level by level."""
        return cls(
            tuple(map_level_names(embeddings.levels)),
            embeddings.states,
            embeddings.metadata(),
            embeddings.labels,
            None if embeddings.word is None else [(item.start, item.end) for item in embeddings.items],
            embeddings.word,
            directions,
        )

    @classmethod
    def of_vectors(
        cls,
        vectors: Any,
        texts: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        *,
        directions: bool | None = None,
    ) -> EmbeddingMap:
        """The map of any vectors, such as sentence embeddings.

        Args:
            vectors: [N, D]
            texts, labels: of each
            directions: as of the class

        Raises: DataError: NaN or infinity among the vectors, or another number of texts or labels.
        """
        array = check_vectors(vectors)
        for what, given in (("texts", texts), ("labels", labels)):
            if given is not None and len(given) != len(array):
                raise DataError(f"there are {len(given):,} {what} for {len(array):,} vectors; give one for each vector")
        rows: list[dict[str, Any]] = [{} for _ in range(len(array))]
        for i, row in enumerate(rows):
            row.update({} if labels is None else {"label": str(labels[i])})
            row["text"] = str(i) if texts is None else texts[i]
        named = None if labels is None else [str(label) for label in labels]
        return cls(("vectors",), array[None], rows, named, directions=directions)

    def __len__(self) -> int:
        return int(self.states.shape[1])

    @cached_property
    def lengths(self) -> np.ndarray:
        """Lengths of the vectors as they are. [levels, N]"""
        return np.stack([np.linalg.norm(level.astype(np.float64), axis=1) for level in self.states])

    @cached_property
    def of_directions(self) -> bool:
        """Whether vectors are scaled to length 1 before they are mapped: at all levels, which lie on each other."""
        return self.longest[2] > LONGER if self.directions is None else self.directions

    @cached_property
    def longest(self) -> tuple[int, int, float]:
        """The vector that exceeds the median length of its level most: level, point, and how many times."""
        medians = np.median(self.lengths, axis=1, keepdims=True)
        times = self.lengths / np.where(medians > 0, medians, 1)
        level, point = np.unravel_index(times.argmax(), times.shape)
        return int(level), int(point), float(times[level, point])

    def _vectors(self, level: int) -> np.ndarray:
        """What is mapped of a level. [N, D]"""
        return unit_rows(self.states[level]) if self.of_directions else self.states[level]

    @cached_property
    def _pca(self) -> tuple[np.ndarray, np.ndarray]:
        places, shares = zip(*(pca(self._vectors(level)) for level in range(len(self.levels))), strict=True)
        aligned = [places[0]]
        for level in places[1:]:
            aligned.append(_onto(level, aligned[-1]))
        return np.stack(aligned), np.stack(shares)

    @property
    def pca(self) -> np.ndarray:
        """The first two principal components, each level turned onto the one before. [levels, N, 2]"""
        return self._pca[0]

    @property
    def explained(self) -> np.ndarray:
        """The share of each level's variance that the two components explain. [levels, 2]"""
        return self._pca[1]

    def project(
        self,
        method: str | ProjectionOptions = "tsne",
        levels: Sequence[int] = (-1,),
        *,
        progress: Progress | None = None,
        check: Check | None = None,
        **options: Any,
    ) -> np.ndarray:
        """Places by "pca", "tsne" or "umap", turned onto those of PCA. [N, 2]; of several levels [levels, N, 2]

        Args:
            options: `perplexity`, `neighbours`, `min_dist`, `seed`; see `ProjectionOptions`
            progress, check: as in `glassformer.inspect.embeddings.projection.project`
        Raises: DataError: no such level, or vectors that have no map. ConfigError: an option out of range.
        """
        chosen = method if isinstance(method, ProjectionOptions) else ProjectionOptions(**{"method": method, **options})
        numbers = [self.level(each) for each in levels]
        places = project([self._vectors(i) for i in numbers], chosen, progress, check)
        aligned = np.stack([_onto(points, self.pca[i]) for i, points in zip(numbers, places, strict=True)])
        return aligned[0] if len(aligned) == 1 else aligned

    def level(self, number: int) -> int:
        """A level counted from 0. Raises: DataError: there is none."""
        if not is_int(number, -len(self.levels), len(self.levels)):
            raise DataError(
                f"there is no level {number}; there are 0 to {len(self.levels) - 1}: {', '.join(self.levels)}"
            )
        return number % len(self.levels)

    def neighbours(self, point: int, k: int = 10, level: int = -1) -> list[tuple[int, float]]:
        """The k points whose vectors have the largest cosine similarity. Raises: DataError: no such point or level."""
        if not is_int(point, 0, len(self)):
            raise DataError(f"there is no point {point}; there are {len(self):,}, counted from 0")
        return nearest_rows(self.states[self.level(level)], point, k)

    def nearest_pair(self, level: int = -1, among: Sequence[int] | None = None) -> tuple[int, int, float] | None:
        """The two points of different words, or texts, with the largest cosine similarity, and that; None: all are
        the same, or more than `MAX_COMPARED`, of which each would be compared with each.

        Args:
            among: these points; None = all
        Raises: DataError: there is no such level.
        """
        chosen = np.arange(len(self)) if among is None else np.asarray(among, dtype=int)
        if not 1 < len(chosen) <= MAX_COMPARED:
            return None
        unit = unit_rows(self.states[self.level(level)][chosen])
        names = np.unique([self.name(i).casefold() for i in chosen], return_inverse=True)[1]
        similarity = np.where(names[:, None] == names, -np.inf, unit @ unit.T)
        first, second = np.unravel_index(similarity.argmax(), similarity.shape)
        cosine = float(similarity[first, second])
        return None if cosine == -np.inf else (int(chosen[first]), int(chosen[second]), min(cosine, 1.0))

    def name(self, point: int) -> str:
        """A point in words: the word that it is of, or its text."""
        row = self.rows[point]
        return str(row.get("form", row["text"]))

    def select(self, points: Iterable[int]) -> EmbeddingMap:
        """A map of some points: what a lasso holds. Raises: DataError: no such point, or none at all."""
        chosen = list(points)
        if not chosen or not all(0 <= i < len(self) for i in chosen):
            raise DataError(f"the points are {chosen!r:.80}; give numbers from 0 to {len(self) - 1}, at least one")
        return EmbeddingMap(
            self.levels,
            self.states[:, chosen],
            [self.rows[i] for i in chosen],
            None if self.labels is None else [self.labels[i] for i in chosen],
            None if self.spans is None else [self.spans[i] for i in chosen],
            self.word,
            self.of_directions,
        )

    def to_pandas(self, level: int = -1) -> Any:
        """A DataFrame: the metadata of each point, and its place x, y by PCA."""
        pandas = import_optional("pandas", "pandas", "data", "a DataFrame")
        places = self.pca[self.level(level)]
        return pandas.DataFrame(list(self.rows)).assign(x=places[:, 0], y=places[:, 1])

    def export(self, folder: str | Path, level: int = -1, *, vectors: np.ndarray | None = None) -> list[Path]:
        """Write embeddings.tsv, metadata.tsv and, where pyarrow is installed, embeddings.parquet into a folder.

        Args:
            level: whose vectors
            vectors: others to write in their place, such as sums of layers [N, D]
        Returns: the files.
        Raises: DataError: they cannot be written.
        """
        target = as_path(folder, "folder")
        level = self.level(level)
        chosen = self.states[level] if vectors is None else vectors
        with disk_errors(target, DataError, "the folder"):
            target.mkdir(parents=True, exist_ok=True)
        files = [target / VECTORS, target / METADATA]
        _write_lines(files[0], ("\t".join(f"{x:.7g}" for x in row) for row in chosen))
        _write_lines(files[1], self._metadata_lines())
        try:
            files.append(self._write_parquet(target / "embeddings.parquet", level, chosen))
        except ImportError:
            (target / "embeddings.parquet").unlink(missing_ok=True)  # of another run; these are not its vectors
        return files

    def _metadata_lines(self) -> Iterable[str]:
        """A line a point; the projector wants names of columns only where there are several."""
        columns = list(self.rows[0])
        if len(columns) > 1:
            yield "\t".join(columns)
        for row in self.rows:
            yield "\t".join(_cell(row[name]) for name in columns)

    def _write_parquet(self, path: Path, level: int, vectors: np.ndarray) -> Path:
        pyarrow = import_optional("pyarrow", "pyarrow", "data", "a Parquet file")
        parquet = import_optional("pyarrow.parquet", "pyarrow", "data", "a Parquet file")
        flat = pyarrow.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
        columns = {name: [row[name] for row in self.rows] for name in self.rows[0]}
        places = self.pca[level]
        table = pyarrow.table(
            {
                **columns,
                "x": places[:, 0],
                "y": places[:, 1],
                "vector": pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
            }
        )
        with disk_errors(path, DataError), atomic_file(path) as stream:
            parquet.write_table(table, stream)
        return path

    @property
    def heading(self) -> str:
        what = f"occurrences of {self.word!r}" if self.word else "points"
        return f"map of {len(self):,} {what}, {len(self.levels)} levels × {self.states.shape[2]}"

    def tables(self) -> list[Table]:
        """The first points, with their places at the last level, by PCA."""
        places, columns = self.pca[-1], list(self.rows[0])
        rows = [
            [str(i), *(str(row[name])[:120] for name in columns), f"{x:.3g}", f"{y:.3g}"]
            for i, (row, (x, y)) in enumerate(zip(self.rows[:10], places[:10], strict=True))
        ]
        return [Table(["point", *columns, "x", "y"], rows, left=1 + len(columns))]

    def charts(self) -> list[TradeOff]:
        """The places at the last level, by PCA, of a random sample of many points; by class where there are classes."""
        count = len(self)
        chosen = np.sort(np.random.default_rng(0).permutation(count)[:MAX_POINTS]).tolist()
        groups = list(dict.fromkeys(self.labels or ()))
        points = [
            Point(
                f"{i} {_cell(self.rows[i]['text'])[:NAME_CHARACTERS]}",
                *(IntervalCell(f"{x:.3g}", float(x)) for x in self.pca[-1][i]),
                group=self.labels[i] if self.labels else "",
                mark=str(i),
            )
            for i in chosen
        ]
        across, up = (Axis(f"component {i}: {percent(x)} of the variance") for i, x in enumerate(self.explained[-1], 1))
        of = " of vectors scaled to length 1" if self.of_directions else ""
        of += f" ({MAX_POINTS} of {count:,} points)" if count > MAX_POINTS else ""
        return [TradeOff(f"{self.levels[-1]}, by PCA{of}", across, up, points, groups)]


def _onto(points: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Points turned and mirrored onto a target, in their own scale, about their own mean."""
    fitted = procrustes(points, target)
    size, own = np.linalg.norm(fitted - fitted.mean(0)), np.linalg.norm(points - points.mean(0))
    turned: np.ndarray = (fitted - fitted.mean(0)) * (own / size if size else 1.0)
    return turned


def _cell(value: object) -> str:
    """A value on one line without tabs."""
    return " ".join(str(value)[:TEXT_CHARACTERS].split())


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with disk_errors(path, DataError), atomic_file(path) as stream:
        for line in lines:
            stream.write(f"{line}\n".encode("utf-8", "replace"))
