"""The loop.

    for each epoch:                                     Trainer.train
        for each step of it:                            Trainer.train_epoch
            passes ─ network ─ losses ─ backward        Trainer.train_step
            clip ─ optimiser ─ rate of the next step
        validate ─ best? ─ save                         Trainer.validate

What a step reads follows from its number, what it draws from generators that are saved, and its losses are divided by
the labels of the whole step. So a run is the same however it is cut: into passes, into processes, or by a kill.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from glassformer.errors import ConfigError, WeightsError
from glassformer.runs.options import Options
from glassformer.tasks.base import Examples, Objective
from glassformer.tasks.microbatch import Pass
from glassformer.training import randomness
from glassformer.training.allocator import keep_freed_memory
from glassformer.training.callbacks import Callback, Report
from glassformer.training.examiner import Examiner
from glassformer.training.faults import Diverged, is_number, what_is_wrong
from glassformer.training.feed import Feed
from glassformer.training.gradients import Gradients
from glassformer.training.optimiser import make_optimiser, set_rate
from glassformer.training.parallel import gather_crew
from glassformer.training.plan import Plan
from glassformer.training.run_folder import Nowhere, RunFolder
from glassformer.training.schedules import Schedule
from glassformer.training.snapshot import State, restore, snapshot
from glassformer.training.stopping import Stopped, Stopping

if TYPE_CHECKING:
    from glassformer.compression.adapters import Adapters
    from glassformer.model import Model

LOWER_IS_BETTER = frozenset({"loss", "perplexity", "bits", "wer", "cer", "mse"})
CHANGEABLE = frozenset(
    "micro_batch_tokens micro_batch_size keep log_every max_skipped max_failed_saves save_every deterministic".split()
)
"""Options that may differ when a run goes on: they change no weight, but by rounding."""


@dataclass(frozen=True)
class Result:
    """How a run ended: steps done, figures of the best validation and of which step they are."""

    steps: int
    figures: dict[str, float]
    best_step: int | None
    folder: Path | None


class Trainer:
    """Trains a model for an objective.

        trainer = Trainer(model, objective, Options(epochs=3), train=objective.examples(rows), folder="runs/first")
        trainer.train()
        trainer.validate()

    Args:
        model: it is trained in place · objective: what it is to learn
        train, validation: examples · folder: for checkpoints, the log and the best model; None = keep nothing
        callbacks: told of what happens · adapters: of the model, which then is saved with them merged
        sharded: several processes hold a part of each tensor, instead of all
    Raises: ConfigError, DataError: options, data and model that do not go together.
    """

    def __init__(
        self,
        model: Model,
        objective: Objective,
        options: Options | None = None,
        *,
        train: Examples,
        validation: Examples | None = None,
        folder: str | Path | None = None,
        callbacks: Sequence[Callback] = (),
        adapters: Adapters | None = None,
        sharded: bool = False,
    ) -> None:
        self.model, self.objective, self.options = model, objective, options or Options()
        self.train_examples, self.validation_examples = train, validation
        self.callbacks, self.adapters = list(callbacks), adapters
        self.plan = Plan(self.options, train.lengths)
        self.steps = self.plan.total()
        self.crew, self.device = gather_crew(model.device, sharded=sharded)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.network = model.network.to(self.device)
        _own_memory(self.network)
        feed = Feed(objective, train, self.plan, (self.crew.rank, self.crew.world))
        self.gradients = Gradients(self.network, feed, self.options, self.crew, self.device)
        self.optimizer = make_optimiser(
            self.network,
            self.options.optimizer,
            learning_rate=self.options.learning_rate,
            weight_decay=self.options.weight_decay,
            beta1=self.options.beta1,
            beta2=self.options.beta2,
            epsilon=self.options.epsilon,
        )
        self.folder = None if folder is None else Path(folder)
        self.schedule = Schedule(
            name=self.options.schedule,
            steps=self.steps,
            warmup=self.options.warmup,
            floor=self.options.floor,
            width=self.network.width,
        )
        self.home: Nowhere = (
            RunFolder(self.folder, keep=self.options.keep, crew=self.crew)
            if self.folder is not None
            else Nowhere()
        )
        self.state = State()
        self._clocks = _clocks()
        self.metric = self.options.metric or objective.METRIC
        self._examiner = Examiner(self.gradients, objective, tokens=self.gradients.tokens(self.state))
        self._failed_saves = 0
        self._saved_step: int | None = None

    # ------------------------------------------------------------------------------------------------- the run

    def train(self, *, resume: bool = True) -> Result:
        """Train to the end, from the newest whole checkpoint of the folder where there is one.

        Args:
            resume: False = a folder that holds a run is an error.
        Returns: a `Result`; the model holds the best weights that were found, or the last where nothing was validated.
        Raises: Stopped: by Ctrl-C or SIGTERM; the step is finished and saved. Diverged: the loss is no number.
            ConfigError: the folder holds another run. WeightsError: the disk refused too often.
        """
        with ExitStack() as held:
            held.enter_context(self.home.opened())
            self._begin(resume)
            held.enter_context(self._training())
            self._clocks = _clocks()
            stop = held.enter_context(Stopping())
            result = None
            self._tell("on_begin")
            try:
                while self.state.step < self.steps and not self._had_enough:
                    self.train_epoch(stop)
                result = self._end()
            finally:
                self._tell("on_end", result)
            return result

    def train_epoch(self, stop: Stopping | None = None) -> None:
        """The steps that are left of this epoch, validations and saves where they are due."""
        epoch = self.state.epoch
        while self.state.epoch == epoch and self.state.step < self.steps and not self._had_enough:
            self.train_step()
            ended = self.state.epoch > epoch or self.state.step == self.steps
            if self.validation_examples is not None and _due(
                self.state.step, self.options.validate_every, ended
            ):
                self._judge()
            asked = self.crew.most(int(stop is not None and bool(stop.asked)))
            # Not between steps that were skipped: a run that goes back shall go back to before them.
            if asked or (not self.state.skipped and _due(self.state.step, self.options.save_every, ended)):
                self.save()
            if asked:
                raise Stopped(
                    f"stopped after step {self.state.step} of {self.steps}, which is saved; the same command goes on "
                    "from there"
                )

    def train_step(self) -> Report:
        """One change of the weights, from a batch that may take several passes."""
        began, state = time.perf_counter(), self.state
        factor = self.schedule(state.step + 1) * 0.5**state.rollbacks
        set_rate(self.optimizer, factor)
        self.network.train()
        items, loss, tokens = self.gradients.of(state, self.home.log)
        norm = self.gradients.clipped(self.optimizer)
        scaler = (
            self.gradients.scaler
        )  # which passes over gradients that are too large for 16 bits, and learns
        applied = is_number(loss) and (is_number(norm) or scaler.is_enabled())
        wrong = "" if applied else self._what_is_wrong(items)
        if applied and not self.options.dry_run:
            scaler.step(self.optimizer)
            scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        speed = tokens / (time.perf_counter() - began)
        state.step, state.place, state.tokens = state.step + 1, state.place + 1, state.tokens + tokens
        if state.place == self.plan.steps(state.epoch):
            state.epoch, state.place = state.epoch + 1, 0
        epoch = state.epoch + state.place / self.plan.steps(state.epoch)
        report = Report(state.step, epoch, loss, self.options.learning_rate * factor, norm, tokens, speed)
        self._note(report)
        if applied:
            state.skipped = 0
            self._tell("on_step", report)
        else:
            self._skipped(report, wrong, [i for item in items for i in item.indices])
        return report

    def validate(self, examples: Examples | None = None) -> dict[str, float]:
        """Figures over the validation examples, or others: the mean loss of their labels, and the objective's own.

        Memory does not grow with the data: figures are added up pass by pass.
        """
        chosen = examples if examples is not None else self.validation_examples
        if chosen is None or not len(chosen):
            raise ConfigError("there is nothing to validate on; give validation examples")
        return self._examiner.figures(chosen)

    def predict(self, examples: Examples) -> Iterator[Any]:
        """What the head says to each example, in their order, as the objective reads it."""
        return self._examiner.answers(examples)

    def save(self) -> None:
        """Save everything that decides how the run goes on; a disk that refuses leaves the last save whole."""
        self._count_time()
        if self.state.step == self._saved_step:
            return
        self.state.journals = [int(x) for x in self.crew.each(torch.tensor(self.home.mark()))]
        tensors, values = snapshot(self.network, self.optimizer, self.gradients.scaler, self.state, self.crew)
        failed, place = None, None
        if self.crew.main:
            try:
                place = self.home.save(self.state.step, tensors, values, self._identity)
            except WeightsError as error:
                failed = error
        self._failed_saves = self.crew.most(self._failed_saves + 1 if failed else 0)
        if self._failed_saves:
            self.home.log("not saved", step=self.state.step, reason=str(failed))
            if self._failed_saves > self.options.max_failed_saves:
                raise failed or WeightsError("the main process could not save")
            if failed:
                warnings.warn(f"step {self.state.step} is not saved: {failed}", stacklevel=2)
            return
        self._saved_step = self.state.step
        self.home.log("checkpoint", step=self.state.step)
        self._tell("on_checkpoint", place)

    # ------------------------------------------------------------------------------------------- inside a step

    def _note(self, report: Report) -> None:
        """A line of the log every so many steps: the mean of their losses, what they read, and how fast."""
        since = self.state.since
        news = {
            "steps": 1,
            "loss": report.loss,
            "tokens": report.tokens,
            "seconds": report.tokens / report.tokens_per_s,
        }
        self.state.since = since = {name: since.get(name, 0) + value for name, value in news.items()}
        numbers = is_number(report.loss, report.grad_norm)
        if report.step % self.options.log_every and report.step < self.steps and numbers:
            return
        mean = {"loss": since["loss"] / since["steps"], "tokens_per_s": since["tokens"] / since["seconds"]}
        self.home.log("step", **{**asdict(report), **mean, "tokens": self.state.tokens})
        self.state.since = {}

    def _count_time(self) -> None:
        """What went by since it was counted last."""
        now = _clocks()
        self.state.seconds += now[0] - self._clocks[0]
        self.state.cpu_seconds += now[1] - self._clocks[1]
        self._clocks = now

    def _what_is_wrong(self, items: list[Pass]) -> str:
        again = items if self.crew.world == 1 else []  # several would have to agree on each pass
        return what_is_wrong(self.network, self.gradients.learner, [item.to(self.device) for item in again])

    def _skipped(self, report: Report, module: str, indices: list[int]) -> None:
        """A step that was not applied is told; too many in a row send the run back to its last checkpoint."""
        self.state.skipped += 1
        self.home.log("skipped", step=report.step, loss=report.loss, indices=indices, module=module)
        some = f"{indices[:10]}{'…' if len(indices) > 10 else ''}"
        warnings.warn(
            f"step {report.step} was not applied: {module} is no number (loss {report.loss}); examples {some}",
            stacklevel=3,
        )
        if self.state.skipped < self.options.max_skipped:
            return
        found = self.home.begin(self._identity) if self.state.rollbacks < self.options.max_skipped else None
        if found is None:
            raise Diverged(
                f"{self.state.skipped} steps in a row had a loss that is no number (last: step {report.step}, "
                f"{module}), and there is no checkpoint left to go back to; lower learning_rate, or look at the "
                f"examples {some}"
            )
        rollbacks = self.state.rollbacks + 1
        self._restore(*found)
        self.state.rollbacks = rollbacks
        self.home.log("rolled back", to=self.state.step, lr_factor=0.5**rollbacks)

    # ---------------------------------------------------------------------------------------- around the steps

    def _judge(self) -> None:
        """Validate, and keep the model if it is the best so far."""
        figures, state = self.validate(), self.state
        if self.metric not in figures:
            raise ConfigError(f"metric is {self.metric!r}; validation gives {', '.join(figures)}")
        value = figures[self.metric]
        own = self.metric == self.objective.METRIC
        lower = not self.objective.HIGHER if own else self.metric in LOWER_IS_BETTER
        better = is_number(value) and (
            state.best is None or (value < state.best if lower else value > state.best)
        )
        state.worse = 0 if better else state.worse + 1
        if better:
            state.best, state.best_step, state.figures = value, state.step, figures
            self._publish()
        self.home.log("validation", step=state.step, figures=figures, best=better)
        self._tell("on_validation", figures)

    @property
    def _had_enough(self) -> bool:
        return self.options.patience is not None and self.state.worse >= self.options.patience

    def _publish(self) -> None:
        """Make the model as it is now the run's, whole and merged, as anyone can load it."""
        if self.adapters is not None:
            self.adapters.merge()
        model = self.crew.published(self.model)
        if self.crew.main:
            self.home.publish(model)
        if self.adapters is not None:
            self.adapters.unmerge()

    def _begin(self, resume: bool) -> None:
        if self.options.deterministic:
            torch.use_deterministic_algorithms(True)
        found = self.home.begin(self._identity)
        if found is not None and not resume:
            raise ConfigError(
                f"{self.folder}: holds a run already; let it go on (resume), or choose another folder"
            )
        if found is None:
            randomness.seed_all(self.crew.seed(self.options.seed))
            self.home.cut(0)
            self.home.log("begin", steps=self.steps, options=asdict(self.options))
            return
        self._restore(*found)
        self.home.cut(dict(enumerate(self.state.journals)).get(self.crew.rank, 0))
        self.home.log("resumed", step=self.state.step)

    def _restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        self.state = restore(
            tensors,
            values,
            self.network,
            self.optimizer,
            self.gradients.scaler,
            self.crew,
            seed=self.options.seed,
        )
        self._saved_step = self.state.step

    @contextmanager
    def _training(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.network.eval()
            self.gradients.feed.close()

    def _end(self) -> Result:
        self.save()
        if self.state.best_step is None:
            self._publish()
        elif self.folder is not None:
            if self.adapters is not None:  # what is taken has them merged
                self.adapters.remove()
            self.home.take_best(self.model)
        result = Result(self.state.step, self.state.figures, self.state.best_step, self.folder)
        self.home.log("end", **asdict(replace(result, folder=None)))
        return result

    @property
    def _identity(self) -> dict[str, Any]:
        """What must be the same when a run goes on."""
        kept = {name: x for name, x in asdict(self.options).items() if name not in CHANGEABLE}
        return {
            **kept,
            "objective": type(self.objective).__name__,
            "data": self.train_examples.fingerprint,
            "model": f"{self.model.family.model_type}, {sum(p.numel() for p in self.network.parameters())} parameters",
        }

    def _tell(self, what: str, *news: Any) -> None:
        if self.crew.main:
            for callback in self.callbacks:
                getattr(callback, what)(self, *news)


def _due(step: int, every: int | None, ended: bool) -> bool:
    """Is it time? At the end of each epoch and of the run, or every so many steps and at the end."""
    return ended if every is None else step % every == 0


def _clocks() -> tuple[float, float]:
    """Seconds on the wall, and of the processors that work for this process."""
    return time.perf_counter(), time.process_time()


def _own_memory(network: nn.Module) -> None:
    """Weights that are mapped from a file get memory of their own: they are about to change."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.data = parameter.data.clone()
