"""Knowledge distillation as a wrapper around any task: the same rows, examples and metrics, and a loss with a teacher.

task, teacher ──taught_by──> task     its training examples carry what the teacher predicts for them (`teach`)
                                      labels   {"own": …, "taught": …}
                                      loss     alpha · own + (1 - alpha) · T² · KL, and of hidden states

stored    the teacher reads each example once; its logits are kept in an Arrow file, 16 bits each, for many students
written   the student continues or answers some examples itself, and the teacher scores what it has written
live      it reads each micro-batch: of tasks that show an example otherwise each time (masked language modelling),
          and where hidden states or attention are matched, which are too large to keep
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.compression.distil import (
    Distillation,
    attention_divergence,
    between_soft_targets,
    cosine_distance,
    matching_states,
    reverse_soft_targets,
    soft_targets,
    soft_yes_or_no,
    state_distance,
    top_soft_targets,
)
from glassformer.core.classification_heads import SequenceClassifier, TokenClassifier
from glassformer.core.dot_product import soft_cap
from glassformer.core.flow import Flow, Output, Tape
from glassformer.core.heads import Head, Labels, not_none, single_tensor
from glassformer.core.language_heads import TokenPrediction
from glassformer.core.losses import IGNORE_INDEX, summed_cross_entropy
from glassformer.errors import ConfigError, DataError, UnsupportedError, import_optional
from glassformer.files.atomic import atomic_file
from glassformer.models import Network, eval_mode
from glassformer.tasks.base import Task
from glassformer.tasks.classify.task import label_names
from glassformer.tasks.embedding_head import EmbeddingHead
from glassformer.tasks.microbatch import WINDOW, run_batches
from glassformer.tasks.on_policy import Writer, writer_of
from glassformer.tasks.types import Example, Examples, MicroBatch

TEACHER, OWN = "taught", "own"
HEADS = (SequenceClassifier, TokenClassifier, TokenPrediction)
"""Heads that have one distribution for each label."""


def counted_logits(head: Head, x: Tensor, flow: Flow, labels: Labels) -> tuple[Tensor, Output | None, Tensor]:
    """The logits of the labels that count, from final hidden states [B, T, D].

    Returns: logits [N, C]; the output of the head, None of one over a vocabulary, whose whole logits are too many; and
        the labels that count.
    """
    if isinstance(head, TokenPrediction):
        aligned = head.labels_of(labels, (*x.shape[:-1], head.decoder.out_features))
        counted = aligned != IGNORE_INDEX
        logits = head.decoder(head.transform_states(x[counted]))
        return logits if head.logit_cap is None else soft_cap(logits, head.logit_cap), None, aligned[counted]
    output, own = head(x, flow), single_tensor(labels)
    logits = not_none(output.logits)
    if own.is_floating_point():  # several labels, or numbers: all count
        return logits, output, own
    own = own.view(logits.shape[:-1])
    return logits[own != IGNORE_INDEX], output, own[own != IGNORE_INDEX]


class DistilledHead(Head):
    """The loss of a student, next to the head that it is of: it has no weights.

    Args:
        head: of the student, whose own loss has the weight alpha
        network: of the student
        depths: layers of student and teacher
    """

    def __init__(self, head: Head, options: Distillation, network: Network, depths: tuple[int, int]) -> None:
        super().__init__()
        # In a tuple they are no children: their weights belong to the network.
        self._parts, self.options, self.depths = (head, network), options, depths
        self.projections: StateProjections | None = None

    @property
    def inner(self) -> Head:
        return self._parts[0]

    def forward(self, x: Tensor, flow: Flow) -> Output:
        output: Output = self.inner(x, flow)
        return output

    def label_counts(self, labels: Labels) -> dict[str, int]:
        own, teacher = _taught(labels)
        counts = self.inner.label_counts(own)
        if teacher is None:
            return counts
        if self.options.alpha < 1:
            counts["distillation"] = len(teacher["vectors"]) if "vectors" in teacher else sum(counts.values())
        return counts | {name: int(teacher["real"].sum()) for name in self._matched()}

    def _matched(self) -> list[str]:
        return [name for name in ("hidden", "attention", "cosine") if getattr(self.options, name)]

    def loss_sums(self, x: Tensor, flow: Flow, labels: Labels, *, smoothing: float = 0.0) -> dict[str, Tensor]:
        own, teacher = _taught(labels)
        options = self.options
        if teacher is None or options.alpha == 1:  # to the bit what it is without a teacher
            sums = self.inner.loss_sums(x, flow, own, smoothing=smoothing)
        elif "vectors" in teacher:
            output = self.inner(x, flow)
            own_sums = self.inner.output_loss_sums(output, own, smoothing=smoothing)
            sums = {name: options.alpha * value for name, value in own_sums.items()}
            vectors = (self.projections or _as_they_are)(0, not_none(output.text_embeds))
            sums["distillation"] = (1 - options.alpha) * (vectors - teacher["vectors"]).square().sum()
        else:
            logits, output, counted = counted_logits(self.inner, x, flow, own)
            if output is None:
                sums = {"loss": summed_cross_entropy(logits, counted, smoothing)}
            else:
                sums = self.inner.output_loss_sums(output, own, smoothing=smoothing)
            sums = {name: options.alpha * value for name, value in sums.items()}
            sums["distillation"] = (1 - options.alpha) * self._soft(logits, counted, teacher)
        return sums if teacher is None else sums | self._states(x, flow, teacher)

    def _soft(self, logits: Tensor, counted: Tensor, teacher: Mapping[str, Tensor]) -> Tensor:
        theirs, T = teacher["logits"], self.options.temperature
        if "ids" in teacher:
            return top_soft_targets(logits, teacher["ids"], theirs, T)
        if not counted.is_floating_point():
            if self.options.divergence == "jsd":
                return between_soft_targets(logits, theirs, T, self.options.beta)
            loss = reverse_soft_targets if self.options.divergence == "reverse" else soft_targets
            return loss(logits, theirs, T)
        if getattr(self.inner, "problem", None) == "regression" or logits.shape[-1] == 1:
            return (logits.float() - theirs.float()).square().sum()  # a number has no distribution to soften
        return soft_yes_or_no(logits, theirs, T)

    def _states(self, x: Tensor, flow: Flow, teacher: Mapping[str, Any]) -> dict[str, Tensor]:
        sums: dict[str, Tensor] = {}
        if not self._matched():
            return sums
        assert flow.tape is not None  # `collate` has attached one
        real, pairs = teacher["real"], list(enumerate(matching_states(*self.depths)))
        if self.options.hidden:
            own = [flow.tape.taps[name] for name in stream_names(self._parts[1])]
            wide = self.projections or _as_they_are
            parts = [state_distance(wide(i, own[i][real]), teacher["hidden"][j][real]) for i, j in pairs]
            sums["hidden"] = self.options.hidden * torch.stack(parts).mean()
        if self.options.attention:
            probs = [flow.tape.taps[name] for name in attention_names(self._parts[1])]
            parts = [attention_divergence(probs[i - 1], teacher["attention"][j - 1], real) for i, j in pairs[1:]]
            sums["attention"] = self.options.attention * torch.stack(parts).mean()
        if self.options.cosine:
            final = (self.projections or _as_they_are)(self.depths[0], x[real])
            sums["cosine"] = self.options.cosine * cosine_distance(final, teacher["final"][real])
        return sums


def _as_they_are(layer: int, states: Tensor) -> Tensor:
    return states


class StateProjections:
    """Learned matrices from the student's width to the teacher's, one for each hidden state: only training has them.

    They are a child of the network meanwhile, so that they are optimised and saved in checkpoints with it; `merge` and
    `unmerge` are called before and after the model is saved without them.
    """

    NAME = "state_projections"

    def __init__(self, network: Network, width: int, count: int) -> None:
        self.network = network
        self.matrices = nn.ModuleList([nn.Linear(network.width, width, bias=False) for _ in range(count)])
        self.matrices.to(next(network.parameters()).device)
        self.unmerge()

    def __call__(self, layer: int, states: Tensor) -> Tensor:
        projected: Tensor = self.matrices[layer](states)
        return projected

    def merge(self) -> None:
        """Leave the network as it is without them."""
        delattr(self.network, self.NAME)

    def unmerge(self) -> None:
        """Make them a part of the network again."""
        self.network.add_module(self.NAME, self.matrices)

    def remove(self) -> None:
        """Leave the network for good."""
        self.merge()


def _taught(labels: Labels) -> tuple[Labels, Mapping[str, Any] | None]:
    """The labels of the task itself, and what the teacher says; None = nothing, as in validation."""
    if isinstance(labels, dict) and labels.keys() == {OWN, TEACHER}:
        return labels[OWN], cast(Mapping[str, Any], labels[TEACHER])
    return labels, None


def stream_names(network: Network) -> tuple[str, ...]:
    """The taps of the residual stream: before each block, and after the last."""
    return list(network.stream_taps().values())[-1]


def attention_names(network: Network) -> list[str]:
    """The taps of the self-attention of each block of the stream that the head reads, in their order."""
    stack = list(network.stacks().values())[-1]
    return [f"{stack.path}.{layer}.attn.probs" for layer in range(len(stack))]


class DistilledTask(Task):
    """What `taught_by` adds to the class of a task."""

    teacher: Task
    distillation: Distillation
    _kind: type[Task]
    _loss: DistilledHead
    _examples: Examples
    _write: Writer

    @property
    def training_identity(self) -> str:
        options = {**vars(self.distillation), "teacher": self.teacher.model.network.fingerprint(), "store": None}
        return f"{super().training_identity}, distilled {sorted(options.items(), key=str)}"

    @property
    def loss_head(self) -> Head | None:
        return self._loss

    @property
    def is_live(self) -> bool:
        """Whether the teacher reads each micro-batch, instead of each example once."""
        options = self.distillation
        changes = options.on_policy > 0 or changes_examples(self._kind)
        return options.matches_states or changes or isinstance(self._loss.inner, EmbeddingHead)

    def teach(self, examples: Examples, folder: Path) -> Examples:
        """Training examples with what the teacher predicts, which is stored in the folder where it can be."""
        if self.distillation.alpha == 1 and not self.distillation.matches_states:
            return examples
        self._examples = examples
        if self.distillation.on_policy:
            return examples  # the teacher is asked in `before_step`, when the student has written
        return TaughtExamples(examples, None if self.is_live else stored_logits(self, examples, folder))

    def before_step(self, batches: Sequence[MicroBatch]) -> list[MicroBatch]:
        share = self.distillation.on_policy
        if not share:
            return super().before_step(batches)
        taught = []
        for batch in batches:
            examples = [self._examples[i] for i in batch.indices]
            chosen = [i for i, x in enumerate(torch.rand(len(examples)).tolist()) if x < share]
            written = self._write([examples[i] for i in chosen], self.distillation.max_new_tokens) if chosen else []
            for i, example in zip(chosen, written, strict=True):
                examples[i] = example
            one = self.collate([{**x, TEACHER: None} for x in examples], batch.indices)
            taught.append(replace(one, whole=batch.whole))
        return taught

    def augment(self, example: Example, draw: np.random.Generator) -> Example:
        return _with_teacher(super().augment(example, draw), example)

    def perturb(self, example: Example, draw: np.random.Generator) -> Example:
        return _with_teacher(super().perturb(example, draw), example)

    def collate(self, examples: Sequence[Example], indices: Iterable[int] = ()) -> MicroBatch:
        batch = super().collate([_without_teacher(x) for x in examples], indices)
        if TEACHER not in examples[0]:
            return batch
        stored = [x[TEACHER] for x in examples]
        teacher: Mapping[str, Any] = self._asked(batch) if stored[0] is None else _joined(stored)
        flow, network = batch.flow, self.model.network
        if self.distillation.matches_states:
            flow = replace(flow, tape=Tape(*self._patterns(network)).attach(network))
        return replace(batch, flow=flow, labels=cast(Labels, {OWN: batch.labels, TEACHER: teacher}))

    def _patterns(self, network: Network) -> list[str]:
        hidden = stream_names(network) if self.distillation.hidden else ()
        return [*hidden, *(attention_names(network) if self.distillation.attention else ())]

    def _asked(self, batch: MicroBatch) -> dict[str, Any]:
        """What the teacher says of a micro-batch: logits of the labels that count, and states."""
        network, options = self.teacher.model.network, self.distillation
        batch = batch.to(self.teacher.model.device)
        tape = Tape(*self._patterns(network)).attach(network) if options.matches_states else None
        flow = replace(batch.flow, tape=tape)
        with torch.no_grad(), eval_mode(network):
            x = network.states(batch.batch, flow)
            answer: dict[str, Any] = {}
            if options.alpha < 1 and isinstance(theirs := self.teacher.loss_head, EmbeddingHead):
                answer = {"vectors": theirs(x, flow).text_embeds}
            elif options.alpha < 1:
                answer = _largest(counted_logits(self._their_head, x, flow, batch.labels)[0], options.top_k)
        if tape is not None:
            written = batch.batch.decoder_input_ids is not None
            keep = batch.batch.decoder_keep if written else flow.keep
            answer["real"] = torch.ones(x.shape[:2], dtype=torch.bool) if keep is None else keep[:, -1]
            answer["final"] = x
            if options.hidden:
                answer["hidden"] = tuple(tape.taps[name] for name in stream_names(network))
            if options.attention:
                answer["attention"] = tuple(tape.taps[name] for name in attention_names(network))
        return answer

    @property
    def _their_head(self) -> Head:
        return self.teacher.model.network.require_head()


def changes_examples(kind: type[Task]) -> bool:
    """Whether a task shows an example otherwise each time."""
    return kind.augment is not Task.augment or kind.perturb is not Task.perturb


def _largest(logits: Tensor, k: int | None) -> dict[str, Any]:
    """Logits, or the k largest with their numbers."""
    if k is None or k >= logits.shape[-1]:
        return {"logits": logits}
    values, ids = logits.topk(k, dim=-1)
    return {"logits": values, "ids": ids}


def _joined(stored: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Tensor]:
    """Stored logits of examples, end to end. [N, C] and [N, k]"""
    return {name: torch.from_numpy(np.concatenate([x[name] for x in stored])) for name in stored[0]}


def _with_teacher(shown: Example, example: Example) -> Example:
    return {**shown, TEACHER: example[TEACHER]} if TEACHER in example else shown


def _without_teacher(example: Example) -> Example:
    return {name: x for name, x in example.items() if name != TEACHER}


class TaughtExamples:
    """Training examples, each with what the teacher says of it: stored logits, or None where it is asked each time."""

    def __init__(self, examples: Examples, stored: StoredLogits | None) -> None:
        self.examples, self.stored = examples, stored
        self.lengths, self.fingerprint = examples.lengths, examples.fingerprint

    def __len__(self) -> int:
        return len(self.examples)

    def __getitem__(self, index: int) -> Example:
        return {**self.examples[index], TEACHER: None if self.stored is None else self.stored[index]}


def taught_by(task: Task, teacher: Task, options: Distillation) -> DistilledTask:
    """The task with a loss that has a teacher; everything else of it is as it was.

    Args:
        teacher: the same task with the teacher's model
    Raises: ConfigError: teacher and student have other labels, or another tokenizer.
        UnsupportedError: the head has no distribution for each label.
    """
    student, theirs = task.model, teacher.model
    network, head = student.network, task.loss_head
    embeds = isinstance(head, EmbeddingHead)
    if head is None or not (embeds or (isinstance(head, HEADS) and head is network.head)):
        raise UnsupportedError(
            f"{type(task).__name__} is trained by {type(head).__name__}, whose loss has no teacher here; those that "
            "have are of texts and tokens with a label each, of language models, and of sentence encoders"
        )
    if any(type(x.network).loss_sums is Network.loss_sums_from_output for x in (student, theirs)):
        raise UnsupportedError(
            f"a {student.family.model_type!r} model computes its loss in a way of its own, with no teacher"
        )
    if not isinstance(head, TokenPrediction | EmbeddingHead):
        ours, other = (label_names(x.config) for x in (student, theirs))
        if ours != other:
            apart = sorted({*ours} ^ {*other}) or ours
            raise ConfigError(
                f"the labels of the teacher ({len(other)}) are not those of the student ({len(ours)}): "
                f"{', '.join(apart[:5])}{', …' * (len(apart) > 5)} differ or are numbered otherwise"
            )
    if student.has_tokenizer and theirs.has_tokenizer:
        own, their = (x.tokenizer.engine.get_vocab() for x in (student, theirs))
        if own != their:
            raise ConfigError(
                f"the tokenizer of the teacher ({len(their):,} entries) is not that of the student ({len(own):,}); "
                f"they share {len(own.items() & their.items()):,}, and a teacher says nothing of a token that it lacks"
            )
    depths = [len(stream_names(x.network)) - 1 for x in (student, theirs)]
    kind = type(task)
    own_class: Any = type(f"Distilled{kind.__name__}", (DistilledTask, kind), {"__module__": __name__})
    distilled = cast(DistilledTask, own_class.__new__(own_class, **task.given_options))
    vars(distilled).update(vars(task))
    distilled.teacher, distilled.distillation, distilled._kind = teacher, options, kind
    if options.on_policy:
        if changes_examples(kind):
            raise UnsupportedError(f"{kind.__name__} shows its examples otherwise each time; on_policy is not for it")
        distilled._write = writer_of(task)
    distilled._loss = loss = DistilledHead(head, options, network, (depths[0], depths[1]))
    distilled.CACHES_GRADIENTS = False  # a batch in parts has the loss of its vectors alone
    if (embeds or options.hidden or options.cosine) and network.width != theirs.network.width:
        loss.projections = StateProjections(network, theirs.network.width, depths[0] + 1)
        distilled.training_parts = (loss.projections,)
    return distilled


# ------------------------------------------------------------------------------------------------- stored logits


class StoredLogits:
    """A teacher's logits by example, mapped from an Arrow file. Raises: DataError: it is damaged."""

    def __init__(self, path: Path) -> None:
        pa = import_optional("pyarrow", "pyarrow", "data", "reading a teacher's logits")
        try:
            self._file = pa.memory_map(str(path))
            table = pa.ipc.open_file(self._file).read_all()
            self.k: int = int(table.schema.metadata[b"columns"])
            self.columns = {name: table[name].combine_chunks() for name in table.column_names}
        except (pa.ArrowException, OSError, KeyError, TypeError) as error:
            raise DataError(f"{path}: is damaged ({error}); remove it, and the teacher is asked again") from error
        self.count: int = table.num_rows

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, np.ndarray]:
        rows = {name: x[index].values.to_numpy(zero_copy_only=False) for name, x in self.columns.items()}
        kinds = {"logits": np.float32, "ids": np.int64}
        return {name: x.astype(kinds[name]).reshape(-1, self.k) for name, x in rows.items()}


def stored_logits(task: DistilledTask, examples: Examples, folder: Path) -> StoredLogits:
    """The teacher's logits of examples: read where an earlier student has stored them, computed now otherwise.

    Raises: MissingExtraError: without pyarrow.
    """
    pa = import_optional("pyarrow", "pyarrow", "data", "storing a teacher's logits")
    top_k = task.distillation.top_k
    key = f"{examples.fingerprint} {task.teacher.model.network.fingerprint()} {top_k}"
    path = folder / f"teacher-{hashlib.sha256(key.encode()).hexdigest()[:16]}.arrow"
    if path.is_file():
        return StoredLogits(path)
    folder.mkdir(parents=True, exist_ok=True)
    fields = [("logits", pa.large_list(pa.float16()))]
    batches, k = iter(_asked_once(task, examples)), 0
    with atomic_file(path) as stream:
        first = next(batches)
        k = first[0]["logits"].shape[-1]
        fields += [("ids", pa.large_list(pa.int32()))] * ("ids" in first[0])
        schema = pa.schema(fields, metadata={"columns": str(k), "key": key})
        with pa.ipc.new_file(stream, schema) as writer:
            for answers in (first, *batches):
                columns = [pa.array([np.asarray(x[name]).ravel() for x in answers], type=kind) for name, kind in fields]
                writer.write_batch(pa.record_batch(columns, schema=schema))
    return StoredLogits(path)


def _asked_once(task: DistilledTask, examples: Examples) -> Iterator[list[dict[str, np.ndarray]]]:
    """What the teacher says of each example, a window of them at a time."""
    network, options = task.teacher.model.network, task.distillation

    def call(batch: MicroBatch) -> Any:
        with torch.no_grad():
            x = network.states(batch.batch, batch.flow)
            return _largest(counted_logits(task._their_head, x, batch.flow, batch.labels)[0], options.top_k)

    with eval_mode(network):
        for start in range(0, len(examples), WINDOW):
            window = range(start, min(start + WINDOW, len(examples)))
            answers: dict[int, dict[str, np.ndarray]] = {}
            for answer, batch in run_batches(task.teacher, examples, window, call=call):
                counts = [_count(task.teacher, examples[i]) for i in batch.indices]
                ends = np.cumsum(counts)[:-1]
                parts = {name: np.split(x.float().cpu().numpy(), ends) for name, x in answer.items()}
                for place, index in enumerate(batch.indices):
                    kinds = {"logits": np.float16, "ids": np.int32}
                    answers[index] = {name: x[place].astype(kinds[name]) for name, x in parts.items()}
            yield [answers[i] for i in window]


def _count(task: Task, example: Example) -> int:
    """How many labels of an example count."""
    labels, head = task.collate([example]).labels, task.model.network.require_head()
    if isinstance(head, SequenceClassifier):
        return 1
    return sum(head.label_counts(labels).values())
