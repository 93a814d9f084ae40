"""Quantise a network: its linear layers and embeddings become layers whose weights are stored as levels.

    layers = quantisable_layers(network)                      the linear layers of body and blocks
    quantise_network(network, Scheme(bits=8), inputs="dynamic", embeddings=Scheme(bits=8))

What rounds weights is a function of a layer, so that every method (nearest, GPTQ, AWQ) stores its result in one way.
Left wide: routers of experts, heads for labels (few weights, which decide), norms, position embeddings, convolutions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase

from torch import Tensor, nn

from glassformer.compression.adapters import check_not_adapted
from glassformer.compression.calibrate import Histogram, calibrated_grid
from glassformer.compression.quantise import LevelGrid, Levels, Scheme, round_to_nearest
from glassformer.core.embeddings import LearnedPositions
from glassformer.core.language_heads import TokenPrediction
from glassformer.core.quantised import StoredLevels, check_not_quantised
from glassformer.engine.prepare import unprepare
from glassformer.errors import ConfigError, nearest
from glassformer.files import safe_repr
from glassformer.weights.quantised import replace_layer

Rounding = Callable[[str, Tensor, Scheme], Levels]
"""(path, weight [rows, columns], scheme) → the weight in levels."""


def quantisable_layers(network: nn.Module, keep: Iterable[str] = ()) -> dict[str, nn.Linear]:
    """The linear layers of a network that are quantised, by path.

    Args:
        keep: patterns of paths that stay wide, such as "blocks.0.*"
    Raises: ConfigError: a pattern that names no layer, with the nearest.
    """
    heads = [path for path, module in network.named_modules() if path.partition(".")[0] == "head"]
    tied = {id(module.weight) for module in network.modules() if isinstance(module, nn.Embedding)}
    layers = {
        path: module
        for path, module in network.named_modules()
        if type(module) is nn.Linear and path not in heads and id(module.weight) not in tied
    }
    wide = list(keep)
    for pattern in wide:
        if not any(_matches(path, pattern) for path in layers):
            raise ConfigError(
                f"no layer that is quantised is named {safe_repr(pattern)}{nearest(pattern, layers)}; there are: "
                f"{', '.join(list(layers)[:8])}{', …' if len(layers) > 8 else ''}"
            )
    return {path: layer for path, layer in layers.items() if not any(_matches(path, pattern) for pattern in wide)}


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern names a layer, or a module that it is part of."""
    return fnmatchcase(path, pattern) or path.startswith(f"{pattern}.")


def embedding_layers(network: nn.Module) -> dict[str, nn.Embedding | nn.Linear]:
    """The tables of tokens by path, and output projections over the vocabulary, of which some are tied to a table."""
    decoders = {
        f"{path}.decoder".removeprefix("."): module.decoder
        for path, module in network.named_modules()
        if isinstance(module, TokenPrediction) and type(getattr(module, "decoder", None)) is nn.Linear
    }
    tables = {
        path: module
        for path, module in network.named_modules()
        if type(module) is nn.Embedding and not isinstance(module, LearnedPositions) and path.endswith("tokens")
    }
    return {**tables, **decoders}


def quantise_network(
    network: nn.Module,
    scheme: Scheme,
    *,
    inputs: str = "wide",
    keep: Iterable[str] = (),
    embeddings: Scheme | None = None,
    rounding: Rounding = lambda path, weight, scheme: round_to_nearest(weight, scheme, path),
    grids: Mapping[str, LevelGrid] | None = None,
    factors: Mapping[str, Tensor] | None = None,
) -> list[str]:
    """Quantise the layers of a network in place.

    Args:
        scheme: of linear layers
        inputs: of linear layers: "wide", "dynamic" (8 bits, a scale for each token), or "static" with `grids`
        keep: patterns of linear layers that stay wide
        embeddings: scheme of the token embedding and of output projections over the vocabulary; None: they stay wide
        rounding: how the weights of linear layers become levels
        grids: of static inputs, by path; of the inputs times their factors
        factors: what inputs are multiplied by, by path; weights are divided by them [columns]
    Returns: the paths of the quantised layers.
    Raises: ConfigError: groups that do not divide a width, an unknown name, a network that is quantised already or has
        adapters. The network is as it was then.
    """
    check_not_quantised(network, "quantised again")
    check_not_adapted(network)
    unprepare(network)
    layers = quantisable_layers(network, keep)
    for path, layer in layers.items():
        scheme.grouped(layer.weight, path)  # all of them, before the first changes
    tables = embedding_layers(network) if embeddings is not None else {}
    for path, table in tables.items():
        assert embeddings is not None
        embeddings.grouped(table.weight, path)
    for path, layer in layers.items():
        factor = (factors or {}).get(path)
        weight = layer.weight.detach()
        made = rounding(path, weight if factor is None else weight / factor.to(weight.dtype), scheme)
        grid = (grids or {}).get(path)
        static = (None, None) if grid is None else (grid.scale.float(), grid.zero.to(made.levels.dtype))
        scaled = None if factor is None else factor.to(weight.dtype)
        replace_layer(network, path, stored_levels_of(made, scheme, weight), inputs, static, scaled)
    shared: dict[int, StoredLevels] = {}
    for path, table in tables.items():
        assert embeddings is not None
        weight = table.weight
        if id(weight) not in shared:
            shared[id(weight)] = stored_levels_of(round_to_nearest(weight, embeddings, path), embeddings, weight)
        replace_layer(network, path, shared[id(weight)])
    return [*layers, *tables]


def stored_levels_of(made: Levels, scheme: Scheme, weight: Tensor) -> StoredLevels:
    """Levels as they are stored, with scales in the dtype of the weight."""
    return StoredLevels.of(made.levels, made.scale.to(weight.dtype), scheme.bits, made.zero)


def static_grids(histograms: Mapping[str, Histogram], calibration: str) -> dict[str, LevelGrid]:
    """The grids of static inputs, by one of `CALIBRATIONS`."""
    return {path: calibrated_grid(histogram, calibration) for path, histogram in histograms.items()}
