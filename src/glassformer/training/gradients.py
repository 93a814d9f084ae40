"""Gradient accumulation, its faults, and the validation loop: what training does with the network.

The gradient of the mean loss of a step, in any number of micro-batches and processes:

counts           of labels, of all micro-batches and processes, known before the first micro-batch
each             micro-batch ─ network ─ Σ losses / count ─ backward       adds to the gradients
out of memory    the whole step again, in micro-batches of half the size; the batch stays what it is
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import chain, groupby
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.core import processor
from glassformer.core.flow import Output
from glassformer.data.splits import sample
from glassformer.engine.malloc import keep_freed_memory
from glassformer.errors import ConfigError, GlassformerError
from glassformer.files import safe_repr
from glassformer.models import Network
from glassformer.runs.config import TrainingOptions
from glassformer.tasks.base import Task, added_metrics
from glassformer.tasks.metrics.metric import RowMetric
from glassformer.tasks.microbatch import WINDOW, dummy_batch, run_batches
from glassformer.tasks.types import Examples, MicroBatch, VectorHead
from glassformer.training.batch_loader import BatchLoader
from glassformer.training.distributed import Distributed, TrainingModule
from glassformer.training.state import TrainingState, capture_rng, restore_rng


class Diverged(GlassformerError):
    """The loss was NaN or infinite, again and again; the weights are those before. The exit code is 3."""

    exit_code = 3


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed; the CPU allocator raises a RuntimeError that only its message tells from others."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def first_nonfinite_module(network: nn.Module, run: Callable[[], Any]) -> str | None:
    """The first module whose output holds NaN or infinity while `run` is called; None where all are finite."""
    names: list[str] = []

    def check(name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        if not names and isinstance(output, Tensor) and not bool(output.isfinite().all()):
            names.append(name)

    with ExitStack() as hooks, torch.no_grad():
        for name, module in network.named_modules():
            if name:  # the network itself has no name to report
                hooks.callback(module.register_forward_hook(partial(check, name)).remove)
        run()
    return names[0] if names else None


def warn_of_emulation(precision: str, device: torch.device) -> None:
    """Say before the first step that mixed precision makes a training slower on this processor, not faster."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    if dtype is not None and not processor.is_fast(dtype, device.type):
        warnings.warn(
            f"this processor has no instructions for {precision} and emulates it: training is about ten times slower "
            "than in fp32; leave the precision at fp32",
            stacklevel=3,
        )


def is_finite(*values: float) -> bool:
    """Whether all values are finite: neither NaN nor infinite."""
    return all(map(math.isfinite, values))


CPU_TOKENS, TOKENS = 2_048, 16_384
"""Default tokens of a micro-batch: on a CPU so few that activations stay in its caches."""


class Gradients:
    """Computes the gradients of steps.

    training_module: the network as training calls it
    wrapped_module: the same, wrapped by DDP or FSDP
    """

    def __init__(
        self,
        network: Network,
        batch_loader: BatchLoader,
        options: TrainingOptions,
        distributed: Distributed,
        device: torch.device,
    ) -> None:
        self.network, self.batch_loader, self.options = network, batch_loader, options
        self.distributed, self.device = distributed, device
        task = batch_loader.task
        head = task.loss_head
        self.own_head = None if head is network.head else head
        if head is not None and head.WHOLE_BATCH and not task.WHOLE_BATCH:
            raise ConfigError(
                f"the loss of {type(head).__name__} compares all examples of a batch, and {type(task).__name__} lets a "
                "batch be cut; set WHOLE_BATCH = True on the task"
            )
        if task.WHOLE_BATCH and distributed.world_size > 1:
            raise ConfigError(
                f"{type(task).__name__} compares all examples of a batch, and {distributed.world_size} "
                "processes would each see a part of it; train it in a single process"
            )
        warn_of_emulation(options.precision, device)
        if device.type == "cpu":
            keep_freed_memory()
        with torch.no_grad():
            for tensor in chain(network.parameters(), network.buffers()):
                # Weights that are memory-mapped from a file get RAM of their own: they are about to change. In 16 bits
                # most steps of fine-tuning round to nothing (bf16), and squared gradients vanish (fp16).
                wide = torch.promote_types(tensor.dtype, torch.float32) if tensor.is_floating_point() else tensor.dtype
                tensor.data = tensor.data.to(wide, copy=True)
        self.training_module = TrainingModule(
            network, self.own_head, smoothing=options.label_smoothing, recompute=options.gradient_checkpointing
        )
        self.wrapped_module: nn.Module = distributed.wrap(self.training_module)
        self.scaler = torch.amp.GradScaler(device.type, enabled=options.precision == "fp16")

    def of_step(self, state: TrainingState, log: Callable[..., None]) -> tuple[list[MicroBatch], float, int]:
        """Compute the gradients of a step, which are then in `parameter.grad`.

        Args:
            log: called with what happened, where micro-batches had to be halved
        Returns: this process's micro-batches, the mean loss, and the tokens, of all processes.
        Raises: ConfigError: out of memory with a single example.
        """
        rng_states = capture_rng()  # a step that is run again draws the same dropout
        while True:
            batches = self.batch_loader.micro_batches(
                state.epoch, state.position, self.micro_batch_tokens(state), self.micro_batch_size(state)
            )
            try:
                return batches, *self.accumulate(batches)
            except Exception as error:
                # Of several processes the others would wait for ever in the collective operations of this step.
                if not is_out_of_memory(error) or self.distributed.world_size > 1:
                    raise
                if all(len(batch.indices) <= 1 for batch in batches):
                    raise ConfigError(
                        f"out of memory with a single example of {max(batch.tokens for batch in batches)} tokens; try "
                        "gradient_checkpointing, precision bf16, or shorter texts"
                    ) from error
                task = self.batch_loader.task
                if task.WHOLE_BATCH and not task.CACHES_GRADIENTS:
                    raise ConfigError(
                        f"out of memory with a batch of {max(len(batch.indices) for batch in batches)} examples, which "
                        "cannot be cut; lower micro_batch_size or batch_size, or try gradient_checkpointing"
                    ) from error
                reason = str(error).split("\n")[0]
            # After the handler: as long as there is the exception, its frames hold the activations that were too many.
            self.network.zero_grad(set_to_none=True)
            restore_rng(rng_states)
            state.micro_batch_halvings += 1
            log("memory", step=state.step, tokens=self.micro_batch_tokens(state), reason=reason)

    def accumulate(self, batches: list[MicroBatch]) -> tuple[float, int]:
        """Add up the gradients of micro-batches; the mean loss and the tokens, of all processes."""
        # All processes call their network equally often, since collective operations inside it wait for all: one
        # without a share runs the first example, which then counts for nothing.
        rounds, loader = self.distributed.all_reduce_max(len(batches)), self.batch_loader
        batches = loader.task.before_step(batches)
        if rounds > len(batches):
            dummy = loader.task.before_step([dummy_batch(loader.task, loader.examples)])[0]
        else:
            dummy = batches[0]
        head = self.own_head or self.network.require_head()
        names = list(head.label_counts(dummy.labels))
        counted = [{"tokens": batch.tokens, **head.label_counts(batch.labels)} for batch in batches]
        counts = self.distributed.all_reduce_sum(
            {name: sum(one[name] for one in counted) for name in ("tokens", *names)}
        )
        # DDP and FSDP take the mean over processes, hence the world size: what is wanted is the sum.
        # A step may have no label of a kind, such as no hidden token: its sum is 0 then, and 0 / 1 its mean.
        weights = {name: self.distributed.world_size / max(counts[name], 1) for name in names}
        sums = {name: torch.zeros((), device=self.device) for name in names}
        wholes = [list(parts) for _, parts in groupby(batches, key=lambda batch: batch.whole)]
        if loader.task.CACHES_GRADIENTS and len(wholes) < len(batches):  # of a single process
            for parts in wholes:
                for name, x in self._cached_backward(parts, weights).items():
                    sums[name] = sums[name] + x.detach()
            rounds = 0
        for i in range(rounds):
            batch = batches[i] if i < len(batches) else dummy
            counts_at_all = float(i < len(batches))  # a dummy's loss is multiplied by 0
            with self.distributed.gradient_sync(self.wrapped_module, last=i == rounds - 1):
                with self._forward_pass():
                    losses = self.wrapped_module(batch.to(self.device))
                self._backward({name: x * counts_at_all for name, x in losses.items()}, weights)
            for name, x in losses.items():
                sums[name] = sums[name] + counts_at_all * x.detach()
        total = self.distributed.all_reduce_sum({name: float(x) for name, x in sums.items()})
        return sum(total[name] / max(counts[name], 1) for name in names), int(counts["tokens"])

    @contextmanager
    def _forward_pass(self) -> Iterator[None]:
        # What the backward pass needs may wait in the host's RAM, where an accelerator's is short.
        with self.autocast(), torch.autograd.graph.save_on_cpu() if self.options.offload else nullcontext():
            yield

    def _backward(self, losses: Mapping[str, Tensor], weights: Mapping[str, float]) -> None:
        loss = sum((x * weights[name] for name, x in losses.items()), start=torch.zeros((), device=self.device))
        self.scaler.scale(loss).backward()

    def _cached_backward(self, parts: list[MicroBatch], weights: Mapping[str, float]) -> dict[str, Tensor]:
        """Add the gradients of a batch whose examples are compared with one another, part by part; its losses."""
        head = cast(VectorHead, self.own_head)

        def vectors_of(part: MicroBatch) -> Tensor:
            with self._forward_pass():
                part = part.to(self.device)
                return head.vectors(self.wrapped_module(part, with_loss=False), part.labels)

        labels = [part.to(self.device).labels for part in parts]
        losses_of = partial(head.vector_losses, labels=labels)
        return cached_backward(parts, vectors_of, losses_of, partial(self._backward, weights=weights))

    def diagnose(self, batches: Sequence[MicroBatch]) -> str:
        """Where NaN or infinity comes from: the weights, the output of a module, a gradient, or the loss.

        The micro-batches are run again; several processes would have to agree on each, so they do not try.
        """
        # Weights first: where they are broken, so is everything that is computed from them.
        for name, x in self.network.named_parameters():
            if not bool(x.isfinite().all()):
                return f"the weights {name}"
        for batch in batches if self.distributed.world_size == 1 else ():
            run = partial(self.training_module, batch.to(self.device))
            if (module := first_nonfinite_module(self.network, run)) is not None:
                return f"the output of {module}"
        for name, x in self.network.named_parameters():
            if x.grad is not None and not bool(x.grad.isfinite().all()):
                return f"the gradient of {name}"
        return "the loss"

    def clip_norm(self, optimizer: torch.optim.Optimizer) -> float:
        """Clip the gradient; its norm before that."""
        self.scaler.unscale_(optimizer)  # gradients of fp16 are multiplied by the scale of the loss
        trained = [p for p in self.network.parameters() if p.grad is not None]
        total = nn.utils.get_total_norm([p.grad for p in trained if p.grad is not None])
        norm = float(self.distributed.full_tensor(total))
        if norm > (self.options.clip or math.inf):  # else there is nothing to multiply
            nn.utils.clip_grads_with_norm_(trained, self.options.clip or math.inf, total)
        return norm

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Mixed precision: matrix products in the `precision` of the options."""
        narrow = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.options.precision)
        with torch.autocast(self.device.type, dtype=narrow, enabled=narrow is not None):
            yield

    def micro_batch_tokens(self, state: TrainingState) -> int:
        """Maximum tokens of a micro-batch; a batch that may not be cut has no limit by default."""
        task = self.batch_loader.task
        if self.options.micro_batch_tokens is None and task.WHOLE_BATCH and not task.CACHES_GRADIENTS:
            return sys.maxsize
        # A batch that is cut costs a second forward pass, where its examples are compared with one another.
        few = self.device.type == "cpu" and not task.WHOLE_BATCH
        full = self.options.micro_batch_tokens or (CPU_TOKENS if few else TOKENS)
        return max(full >> state.micro_batch_halvings, 1)

    def micro_batch_size(self, state: TrainingState) -> int | None:
        """Maximum examples of a micro-batch; None = any number. Where they are compared, memory does not change it."""
        size = self.options.micro_batch_size
        if self.batch_loader.task.WHOLE_BATCH:
            return size
        return None if size is None else max(size >> state.micro_batch_halvings, 1)


class ValidationLoop:
    """Runs the network in eval mode, each process over a share of the examples.

    every world-th example ─ micro-batches ─ network ─ metric.update ─ all-reduce of its state ─ metric.compute

    Args:
        gradients: whose network is run, and in which precision
        tokens: of a micro-batch at most; where memory does not suffice it is halved, apart from training's
    """

    def __init__(self, gradients: Gradients, task: Task, *, tokens: int) -> None:
        self.gradients, self.task, self.tokens = gradients, task, tokens
        self.module, self.distributed = gradients.training_module, gradients.distributed

    def metrics(self, examples: Examples, train: Examples | None = None) -> dict[str, float]:
        """The loss, the scores of the task's metric and registered ones, over all examples of all processes.

        Args:
            train: the training examples, of which a sample is scored too, the same each time: train_loss, …
        """
        scores = self._scores(examples, np.arange(len(examples)))
        if train is None:
            return scores
        options = self.gradients.options
        shown = sample(len(train), min(options.training_sample, len(train)), seed=options.seed)
        shown = self.task.with_siblings(train, shown)
        return {**scores, **{f"train_{name}": score for name, score in self._scores(train, shown).items()}}

    def _scores(self, examples: Examples, indices: np.ndarray) -> dict[str, float]:
        metric = self.task.metric()
        share = indices[self.distributed.rank :: self.distributed.world_size]
        # A task that overrides `predict` generates, or merges windows: no row's prediction is in one forward pass.
        whole = metric.needs_output and type(self.task).predict is Task.predict
        registered = added_metrics(self.task, ()) if whole else {}
        totals = dict.fromkeys(registered, 0.0)
        if metric.needs_output:
            for output, batch in self._run(examples, share, self._output):
                metric.update(output, batch)
                if registered:
                    self._add_rows(totals, registered, examples, output, batch)
        else:
            for sums, batch in self._run(examples, share, self._loss_sums):
                metric.add_losses(sums, batch)
        for name, x in metric.state.items():
            sums = {str(i): value for i, value in enumerate(x.flatten().tolist())}
            added = list(self.distributed.all_reduce_sum(sums).values())
            metric.state[name] = torch.tensor(added, dtype=x.dtype).view(x.shape)
        metric.records = self.distributed.all_gather_rows(metric.records)
        # Of a metric that computes with NumPy too, so that a checkpoint can store the best.
        scores = {name: float(score) for name, score in metric.compute().items()}
        if taken := [name for name in registered if name in scores]:
            raise ConfigError(f"validation has a metric {safe_repr(taken[0])}; register yours by another name")
        totals = self.distributed.all_reduce_sum(totals) if registered else {}
        return {**scores, **{name: total / len(indices) for name, total in totals.items()}}

    def _add_rows(
        self,
        totals: dict[str, float],
        added: Mapping[str, RowMetric],
        examples: Examples,
        output: Output,
        batch: MicroBatch,
    ) -> None:
        """Add the scores of a micro-batch by registered metrics to their totals."""
        for index, logits in zip(batch.indices, self.task.unbatch(output, batch), strict=True):
            decoded = self.task.decode(logits.float().cpu(), examples[index])
            for name, metric in added.items():
                totals[name] += metric.of_row(name, decoded["predicted"], decoded["label"], f"example {index}")

    def outputs(self, examples: Examples) -> Iterator[Any]:
        """What the head gives for each example, in their order, as the task reads it."""
        waiting: dict[int, Any] = {}  # of a window at most, in which they come by length
        following = 0
        for output, batch in self._run(examples, np.arange(len(examples)), self._output):
            waiting.update(zip(batch.indices, self.task.unbatch(output, batch), strict=True))
            while following in waiting:
                yield waiting.pop(following)
                following += 1

    def _run(
        self, examples: Examples, indices: np.ndarray, call: Callable[[MicroBatch], Any]
    ) -> Iterator[tuple[Any, MicroBatch]]:
        def keep_in_step(batches: int) -> None:
            """Call the network as often as the other processes: collective operations inside it wait for all."""
            for _ in range(self.distributed.all_reduce_max(batches) - batches):
                call(dummy_batch(self.task, examples).to(self.gradients.device))

        options, was_training = self.gradients.options, self.module.training
        self.module.eval()
        try:
            yield from run_batches(
                self.task,
                examples,
                indices.tolist(),
                tokens=lambda: self.tokens,
                size=options.micro_batch_size or options.batch_size,
                call=call,
                windows=self.distributed.all_reduce_max(-(-len(indices) // WINDOW)),
                on_window=keep_in_step,
                on_out_of_memory=self._halve,
            )
        finally:
            self.distributed.reshard(self.module)
            self.module.train(was_training)

    def _halve(self, error: Exception) -> int | None:
        """Half the tokens of a micro-batch, for an error that says that memory does not suffice.

        Several processes would have to agree on it, so they do not try.
        """
        if not is_out_of_memory(error) or self.distributed.world_size > 1 or self.task.WHOLE_BATCH:
            return None
        self.tokens = max(self.tokens // 2, 1)
        return self.tokens

    def _output(self, batch: MicroBatch) -> Output:
        with torch.no_grad(), self.gradients.autocast():
            output: Output = self.module(batch, with_loss=False)
            return output

    def _loss_sums(self, batch: MicroBatch) -> dict[str, Tensor]:
        """Of a language model in chunks, without its whole logits."""
        with torch.no_grad(), self.gradients.autocast():
            sums: dict[str, Tensor] = self.module(batch, smoothing=0.0)
            return sums


def cached_backward(
    parts: Sequence[MicroBatch],
    vectors_of: Callable[[MicroBatch], Tensor],
    losses_of: Callable[[Tensor], dict[str, Tensor]],
    backward: Callable[[dict[str, Tensor]], None],
) -> dict[str, Tensor]:
    """Gradient caching: add the gradients of a loss that compares all examples, in the memory of a part of them.

        1  part ─ network ─ vectors        of every part, without what a backward pass would need
        2  all vectors ─ loss ─ backward   the gradient of every vector: a few numbers a text
        3  part ─ network ─ vectors ─ backward, from their gradients        part by part, as if all were one call

    The gradient is that of the whole batch, since the loss depends on the weights by the vectors alone (the chain
    rule). It takes a second forward pass, which draws the dropout of the first.

    Args:
        parts: micro-batches that make up the batch
        vectors_of: runs the network on a part [texts, D]
        losses_of: the losses of all vectors, in the order of the parts
        backward: a backward pass from losses, with their weights
    Returns: the losses.
    Source: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", section 3.
    """
    generators, vectors = [], []
    for part in parts:
        generators.append(capture_rng())
        with torch.no_grad():
            vectors.append(vectors_of(part))
    leaves = torch.cat(vectors).requires_grad_()
    losses = losses_of(leaves)
    backward(losses)
    assert leaves.grad is not None
    gradients = leaves.grad.split([len(x) for x in vectors])
    for part, generator, gradient in zip(parts, generators, gradients, strict=True):
        restore_rng(generator)
        vectors_of(part).backward(gradient)
    return losses
