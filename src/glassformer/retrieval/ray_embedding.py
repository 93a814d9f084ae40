"""Embedding over several processes or machines by Ray Data: one process reads, splits and writes, the workers embed.

    files ─ split ─> groups of passages ──> worker 1 ──┐
                                        ──> worker 2 ──┴─> vectors, in the order of the groups ──> the store

Groups are the same as without workers, and so are their vectors. A worker that dies is started again, and its group is
embedded by another one.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from glassformer.errors import ConfigError, DataError, import_optional
from glassformer.files.schema import parse
from glassformer.model import load
from glassformer.reports.report import plain
from glassformer.retrieval.embedder import PassageEmbedder
from glassformer.retrieval.options import WorkerOptions
from glassformer.retrieval.store import StoreSettings

GROUPS = 128
"""Groups of passages for each worker that Ray Data gets at once; the next are read meanwhile. Workers load their model
for each such run, which takes seconds; embedding takes minutes."""

_HOST_AND_PORT = re.compile(r"(?:ray://)?(\[[^\]]*\]|[^:/]+):(\d{1,5})")


class RayEmbedder:
    """Embeds groups of texts by workers of Ray.

    Args:
        settings: of the store
        options: how many workers, and the cluster
        model: folder or name on the Hub, as every worker finds it
        loading: keywords of `load`
    """

    def __init__(
        self, settings: StoreSettings, options: WorkerOptions, model: str, loading: Mapping[str, Any] | None = None
    ) -> None:
        self.settings, self.options, self.model, self.loading = settings, options, model, dict(loading or {})

    def __call__(self, groups: Iterable[list[str]]) -> Iterator[np.ndarray]:
        """The vectors of each group, in their order. [n, D] float16

        Raises: DataError: a worker cannot load the model or embed. ConfigError: the cluster does not answer.
        """
        remaining = iter(groups)
        first = list(islice(remaining, 1))
        if not first:  # nothing changed: no cluster is started
            return
        with self._ray() as ray, ThreadPoolExecutor(1) as reading:
            workers = self.options.workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
            size = GROUPS * workers
            some = first + list(islice(remaining, size - 1))
            while some:
                following = reading.submit(lambda: list(islice(remaining, size)))
                yield from self._embedded(ray, some, workers)
                some = following.result()

    def _embedded(self, ray: Any, groups: list[list[str]], workers: int) -> Iterator[np.ndarray]:
        # Texts as JSON in ASCII: Arrow would refuse halves of surrogate pairs.
        rows = [{"texts": json.dumps(texts)} for texts in groups]
        on_gpu = str(self.loading.get("device", "")).startswith("cuda")
        vectors = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            EmbeddingWorker,
            fn_constructor_args=(self.model, self.loading, plain(self.settings)),
            compute=ray.data.ActorPoolStrategy(size=min(workers, len(rows))),
            num_cpus=1,
            num_gpus=1 if on_gpu else 0,
        )
        try:
            for row in vectors.iter_rows():
                yield np.frombuffer(row["vectors"], "<f2").reshape(-1, self.settings.width)
        except ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            raise DataError(f"a worker of Ray cannot embed: {str(cause).strip().splitlines()[-1]}") from error

    @contextmanager
    def _ray(self) -> Iterator[Any]:
        """Ray, with a cluster of its own on this machine unless there is one."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
        ray = import_optional("ray", "ray[data]", "ray", "embedding by several workers")
        import_optional("ray.data", "ray[data]", "ray", "embedding by several workers")
        _quiet()
        started = not ray.is_initialized()
        if started:
            try:
                if self.options.ray and (place := _HOST_AND_PORT.fullmatch(self.options.ray)):
                    # Ray itself would wait for minutes.
                    socket.create_connection((place[1].strip("[]"), int(place[2])), timeout=10).close()
                ray.init(
                    address=self.options.ray or "local",
                    logging_level=logging.ERROR,
                    log_to_driver=False,
                    **({} if self.options.ray else {"num_cpus": self.options.workers, "include_dashboard": False}),
                )
            except (OSError, RuntimeError, ValueError) as error:
                raise ConfigError(
                    f"ray is {self.options.ray!r}, and no cluster of Ray answers there: {str(error).splitlines()[0]}; "
                    "start one by `ray start --head`, or give workers= N to use processes of this machine"
                ) from error
        context = ray.data.DataContext.get_current()
        context.execution_options.preserve_order = True
        context.enable_progress_bars = False
        _quiet()  # again, as they were configured by the import
        try:
            yield ray
        finally:
            if started:
                ray.shutdown()


def _quiet() -> None:
    for name in ("ray", "ray.data"):  # the progress is ours
        logging.getLogger(name).setLevel(logging.ERROR)


class EmbeddingWorker:
    """The model of a store in a process of its own."""

    def __init__(self, model: str, loading: dict[str, Any], settings: dict[str, Any]) -> None:
        self.embedder = PassageEmbedder(load(model, **loading), parse(StoreSettings, settings))

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        texts = json.loads(row["texts"])
        return {"vectors": self.embedder.passages(texts).astype("<f2").tobytes() if texts else b""}
