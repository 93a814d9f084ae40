"""Ways to prune a model: zeros in its weights; fewer heads, neurons or layers; a smaller vocabulary.

    pruned       zeros, by magnitude, activations or movement     the same size on disk, and the same speed
    heads        the least important attention heads go           fewer and smaller products
    neurons      the least important neurons go
    layers       the layers that change least go
    vocabulary   tokens that the rows never use go                a smaller table of embeddings

With `epochs` a model is trained again afterwards; zeros are then chosen while it is. The methods themselves are in
`glassformer.compression`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor

from glassformer.compression.movement import PruningSpec
from glassformer.compression.prune import (
    InputNorms,
    Scope,
    apply_masks,
    check_pattern,
    magnitude_scores,
    n_of_m_masks,
    prunable_weights,
    sparsity_masks,
    sparsity_of,
    wanda_scores,
)
from glassformer.compression.structure import (
    LayerChange,
    Parts,
    UnitImportance,
    keep_layers,
    keep_neurons,
    least_important,
    only_stack,
    remove_heads,
)
from glassformer.compression.vocabulary import trim_vocabulary
from glassformer.core.stack import Stack
from glassformer.data.order import example_generator
from glassformer.errors import ConfigError, nearest
from glassformer.files import counted, safe_repr
from glassformer.files.schema import BelowOne, Count, Doc, NonNegative, Positive, Schema
from glassformer.models import eval_mode
from glassformer.progress import Bar, no_bar
from glassformer.reports.table import Table, number
from glassformer.studies.ways import Source, Way
from glassformer.tasks.microbatch import TOKENS, micro_batches, run_batches
from glassformer.training.distributed import TrainingModule
from glassformer.training.trainer import Trainer

Epochs = Annotated[NonNegative, Doc("Epochs of training afterwards, with the settings of the model's run; 0: none.")]
Rate = Annotated[Positive | None, Doc("Learning rate of that training. Default: that of the model's run.")]


@dataclass(frozen=True, kw_only=True)
class PrunedOptions(Schema):
    """Options of zeros in the weights."""

    method: Annotated[
        Literal["magnitude", "wanda", "movement"],
        Doc("What stays: large weights, large weights of large inputs, or weights that training moves away from zero."),
    ] = "magnitude"
    sparsity: Annotated[BelowOne, Doc("Sparsity: share of the weights of all blocks that become zero.")] = 0.5
    scope: Annotated[
        Scope | None, Doc("Where that share holds: global, layer or row. Default: global; row for wanda.")
    ] = None
    pattern: Annotated[str | None, Doc("N:M pattern instead of a share, such as 2:4: 2 of every 4 weights stay.")] = (
        None
    )
    epochs: Epochs = 0.0
    learning_rate: Rate = None

    def validate(self) -> None:
        if self.method == "movement" and not self.epochs:
            raise ConfigError("movement pruning learns what to prune: give epochs, such as epochs: 3")
        if self.epochs and (self.method == "wanda" or self.pattern):
            raise ConfigError("epochs go with magnitude and movement pruning to a share, not with wanda or a pattern")
        if self.pattern is not None and not re.fullmatch(r"[0-9]{1,3}:[0-9]{1,3}", self.pattern):
            raise ConfigError(f"pattern is {safe_repr(self.pattern)}; it must be such as 2:4")


def _rows_to_train(epochs: float) -> tuple[str, ...]:
    return ("train",) if epochs else ()


class Pruned(Way[PrunedOptions]):
    """Pruning: the weights that count least become zero."""

    OPTIONS = PrunedOptions

    def needs(self, options: PrunedOptions) -> Sequence[str]:
        return ("calibration",) * (options.method == "wanda") + _rows_to_train(options.epochs)

    def check(self, source: Source, options: PrunedOptions) -> None:
        weights = prunable_weights(source.outline.network)
        if options.pattern is not None:
            check_pattern(weights, *map(int, options.pattern.split(":")))

    def __call__(self, source: Source, options: PrunedOptions, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        if options.epochs:
            assert options.method != "wanda"  # refused by the options
            spec = PruningSpec(method=options.method, sparsity=options.sparsity, scope=options.scope or "global")
            train_again(source, options.epochs, options.learning_rate, "pruned", spec)
        else:
            weights = prunable_weights(source.model.unprepare().network)
            scores = self._scores(source, options, weights, progress)
            default: Scope = "row" if options.method == "wanda" else "global"
            if options.pattern is None:
                masks = sparsity_masks(scores, options.sparsity, options.scope or default)
            else:
                n, m = map(int, options.pattern.split(":"))
                masks = n_of_m_masks(scores, n, m)
            apply_masks(weights, masks)
        report = sparsity_of(prunable_weights(source.model.network))
        source.model.save_pretrained(output)
        return [replace(table, caption=report.caption) for table in report.tables()]

    def _scores(
        self, source: Source, options: PrunedOptions, weights: dict[str, Any], progress: Bar
    ) -> dict[str, Tensor]:
        if options.method == "magnitude":
            return magnitude_scores(weights)
        with InputNorms(source.model.network) as norms:
            run_calibration(source, "pruned", progress)
        return wanda_scores(weights, norms.values)


@dataclass(frozen=True, kw_only=True)
class HeadsOptions(Schema):
    """Options of removing attention heads."""

    share: Annotated[BelowOne, Doc("Share of all attention heads to remove; each layer keeps at least one.")] = 0.5
    epochs: Epochs = 0.0
    learning_rate: Rate = None


class FewerHeads(Way[HeadsOptions]):
    """Head pruning: the attention heads without which the loss changes least are removed, and the tensors shrink."""

    OPTIONS = HeadsOptions

    def needs(self, options: HeadsOptions) -> Sequence[str]:
        return ("calibration", *_rows_to_train(options.epochs))

    def check(self, source: Source, options: HeadsOptions) -> None:
        parts = Parts.of(source.outline)
        units = [torch.zeros(block.attn.spec.K) for block in only_stack(parts.network)]
        remove_heads(parts, least_important(units, round(options.share * sum(map(len, units)))))

    def __call__(self, source: Source, options: HeadsOptions, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        values = importance_of_units(source, "heads", progress).heads
        units = least_important(values, round(options.share * sum(map(len, values))))
        remove_heads(Parts.of(source.model), units).put_into(source.model)
        train_again(source, options.epochs, options.learning_rate, "heads")
        source.model.save_pretrained(output)
        return [_head_table(values, units)]


def _head_table(values: Sequence[Tensor], gone: Mapping[int, Sequence[int]]) -> Table:
    """A row a layer: the importance of each of its heads, and which are gone."""
    count = max(map(len, values))
    rows = []
    for layer, importance in enumerate(values):
        shown = [number(float(x)) + " ✕" * (head in gone.get(layer, ())) for head, x in enumerate(importance)]
        rows.append(
            [str(layer), f"{len(gone.get(layer, ()))} of {len(importance)}", *shown, *[""] * (count - len(shown))]
        )
    headings = ["layer", "removed", *(f"head {head}" for head in range(count))]
    return Table(headings, rows, caption="Importance of attention heads; those with ✕ were removed")


@dataclass(frozen=True, kw_only=True)
class NeuronsOptions(Schema):
    """Options of removing neurons of feed-forward layers."""

    share: Annotated[BelowOne, Doc("Share of the neurons of each layer to remove.")] = 0.5
    epochs: Epochs = 0.0
    learning_rate: Rate = None


class FewerNeurons(Way[NeuronsOptions]):
    """Neuron pruning: in each layer the neurons without which the loss changes least are removed."""

    OPTIONS = NeuronsOptions

    def needs(self, options: NeuronsOptions) -> Sequence[str]:
        return ("calibration", *_rows_to_train(options.epochs))

    def check(self, source: Source, options: NeuronsOptions) -> None:
        parts = Parts.of(source.outline)
        keep_neurons(parts, [[0]] * len(only_stack(parts.network)))

    def __call__(
        self, source: Source, options: NeuronsOptions, output: Path, progress: Bar = no_bar
    ) -> Sequence[Table]:
        values = importance_of_units(source, "neurons", progress).neurons
        count = max(1, len(values[0]) - round(options.share * len(values[0])))
        stay = [x.argsort(descending=True, stable=True)[:count].tolist() for x in values]
        keep_neurons(Parts.of(source.model), stay).put_into(source.model)
        train_again(source, options.epochs, options.learning_rate, "neurons")
        source.model.save_pretrained(output)
        headings = ["neurons of a layer", "removed"]
        return [
            Table(
                headings,
                [[f"{len(values[0]):,}", f"{len(values[0]) - count:,}"]],
                caption="Neurons of feed-forward layers",
            )
        ]


@dataclass(frozen=True, kw_only=True)
class LayersOptions(Schema):
    """Options of removing layers."""

    count: Annotated[Count, Doc("How many layers to remove: those that change the residual stream least.")] = 1
    names: Annotated[Sequence[str], Doc("Layers to remove instead, by name: blocks.3.")] = ()
    epochs: Epochs = 0.0
    learning_rate: Rate = None


class FewerLayers(Way[LayersOptions]):
    """Layer pruning: the layers that change the residual stream least, or those that are named, are removed."""

    OPTIONS = LayersOptions

    def needs(self, options: LayersOptions) -> Sequence[str]:
        return ("calibration", *_rows_to_train(options.epochs))

    def check(self, source: Source, options: LayersOptions) -> None:
        stack = only_stack(Parts.of(source.outline).network)
        names = _layer_names(stack)
        if unknown := [name for name in options.names if name not in names]:
            hint = nearest(unknown[0], names)
            raise ConfigError(f"there is no layer {safe_repr(unknown[0])}{hint}; the model has {', '.join(names)}")
        if (count := len(set(options.names)) or options.count) >= len(names):
            asked = "names lists all of its layers" if options.names else f"count is {count}"
            raise ConfigError(f"{asked}, and the model has {counted(len(names), 'layer')}; at least one must stay")

    def __call__(self, source: Source, options: LayersOptions, output: Path, progress: Bar = no_bar) -> Sequence[Table]:
        names, count = _layer_names(only_stack(source.model.network)), options.count
        with LayerChange(source.model.network) as change:
            run_calibration(source, "layers", progress)
        order = sorted(range(len(names)), key=lambda layer: change.values[layer])
        gone = {names.index(name) for name in options.names} or set(order[:count])
        stay = [layer for layer in range(len(names)) if layer not in gone]
        keep_layers(Parts.of(source.model), stay).put_into(source.model)
        train_again(source, options.epochs, options.learning_rate, "layers")
        source.model.save_pretrained(output)
        rows = [
            [name, number(change.values[layer]), "" if layer in stay else "yes"] for layer, name in enumerate(names)
        ]
        return [Table(["layer", "change of the stream, 1 − cos", "removed"], rows, caption="What each layer changes")]


def _layer_names(stack: Stack) -> list[str]:
    return [f"{stack.path}.{layer}" for layer in range(len(stack))]


@dataclass(frozen=True, kw_only=True)
class VocabularyOptions(Schema):
    """Options of trimming the vocabulary."""

    least: Annotated[Count, Doc("How often a token must occur in the training rows to stay.")] = 1


class SmallerVocabulary(Way[VocabularyOptions]):
    """Vocabulary trimming: tokens that the training rows never use are removed, from tokenizer and embeddings."""

    OPTIONS = VocabularyOptions
    NEEDS = ("train",)

    def __call__(
        self, source: Source, options: VocabularyOptions, output: Path, progress: Bar = no_bar
    ) -> Sequence[Table]:
        rows = source.needed("train", "vocabulary")
        texts = source.task.corpus(rows, source.config.data.columns)
        report = trim_vocabulary(source.model, texts, least=options.least)
        source.model.save_pretrained(output)
        return report.tables()


# ------------------------------------------------------------------------------------------------ running the source


def run_calibration(source: Source, way: str, progress: Bar) -> None:
    """Run the network over the calibration rows. Raises: ConfigError: there are none."""
    task, rows = source.task, source.needed("calibration", way)
    with progress("calibration", len(rows)) as done:
        for _, batch in run_batches(task, task.encode(rows)):
            done(len(batch.indices))


def importance_of_units(source: Source, way: str, progress: Bar) -> UnitImportance:
    """The importance of heads and neurons for the loss of the calibration rows. Raises: ConfigError: there are none."""
    task, rows = source.task, source.needed("calibration", way)
    network = source.model.unprepare().network
    module = TrainingModule(network, None if task.loss_head is network.head else task.loss_head)
    examples = task.encode(rows)
    shown = [task.augment(examples[i], example_generator(source.seed, 0, i)) for i in range(len(examples))]
    with eval_mode(network), UnitImportance(network) as importance, progress("importance", len(shown)) as done:
        for batch in micro_batches(task, shown, range(len(shown)), TOKENS):
            losses: dict[str, Tensor] = module(batch.to(task.model.device))
            sum(losses.values(), torch.zeros(())).backward()
            network.zero_grad(set_to_none=True)
            done(len(batch.indices))
    return importance


def train_again(
    source: Source, epochs: float, learning_rate: float | None, way: str, pruning: PruningSpec | None = None
) -> None:
    """Train the model of a source in place, with the settings of its run; 0 epochs: not at all.

    Raises: ConfigError: there are no training rows.
    """
    if not epochs:
        return
    given = source.config.training
    options = replace(
        given,
        epochs=epochs,
        steps=None,
        seed=source.seed,
        learning_rate=learning_rate or given.learning_rate,
        patience=None,
    )
    task = source.task
    Trainer(source.model, task, options, train=task.encode(source.needed("train", way)), pruning=pruning).train()
