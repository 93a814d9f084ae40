"""Effects of activation patching: what a prediction is before and after, of one patch or of a sweep over many.

    session.patch("blocks.3.attn.z[5]")                    ablation of one head: logits and probabilities before, after
    corrupt.sweep("residual", source=clean)                layers × positions, each a patched pass

Normalised, 0 is the corrupt text's prediction and 1 the clean one's, whichever of them is patched:

    (patched − corrupt) / (clean − corrupt)

Source: Heimersheim and Nanda 2024, "How to use and interpret activation patching"; Zhang and Nanda 2024, "Towards best
practices of activation patching in language models".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypedDict

import torch
from torch import Tensor

from glassformer.core.flow import Flow, Output, match
from glassformer.errors import DataError, UnsupportedError, nearest
from glassformer.files import safe_repr
from glassformer.files.schema import refuse_unknown
from glassformer.inspect.outputs import YES_OR_NO
from glassformer.inspect.patching.patches import (
    Component,
    Patch,
    Progress,
    check_alignable,
    mean_activations,
    patch_of,
    record_taps,
    run_patches,
)
from glassformer.inspect.patching.readout import Readout, readout
from glassformer.models import eval_mode
from glassformer.reports.report import Report
from glassformer.reports.table import Table

if TYPE_CHECKING:
    from glassformer.inspect.session import Session

MODES = ("zero", "mean", "swap")
REPLACED = {"zero": "switched off", "mean": "replaced by the mean", "swap": "from the other text"}
"""What happens to a component, by mode."""
METRICS = ("logit", "logit difference", "probability", "log-probability")
DIRECTIONS = ("denoising", "noising")
TIE = 1e-6
"""Clean and corrupt predictions that are closer than this are equal: nothing can be normalised."""


class PatchOptions(TypedDict, total=False):
    """Options of `Session.patch` and `Session.sweep`.

    mode: "zero", "mean" or "swap"; None = swap where there is a source, else zero
    source: the session that swapped values come from
    align: positions of texts of other lengths: "start", "end"
    mean_of: sessions whose positions are averaged; None = this one
    target, against: token or label, by name or number; None = the top prediction, of the clean text against the corrupt
    metric: "logit", "logit difference", "probability", "log-probability"; None = logit difference where there are two
    position: where the prediction is read: a token's number, or a word; None = the next token, or the gap
    direction: "denoising": this text is the corrupt one; "noising": it is the clean one
    progress: called after each pass with the number of patches done and of all
    """

    mode: str | None
    source: Session | None
    align: str
    mean_of: Iterable[Session] | None
    target: str | int | None
    against: str | int | None
    metric: str | None
    position: int | str | None
    direction: str
    progress: Progress | None


@dataclass(frozen=True, kw_only=True)
class TargetMetric:
    """A number of a prediction: the logit of a class, its difference from another's, or its probability."""

    name: str
    readout: Readout
    target: int
    against: int | None = None

    def __call__(self, logits: Tensor) -> Tensor:
        """The number of each row of logits. [..., C] → [...]"""
        logits = logits.double()
        if self.name == "logit difference":
            return logits[..., self.target] - logits[..., self.against]
        if self.name == "logit":
            return logits[..., self.target]
        probabilities = self.readout.table.probabilities(logits)
        if probabilities is None:
            raise UnsupportedError(f"this model predicts a number, which has no {self.name}; take metric='logit'")
        return probabilities[..., self.target] if self.name == "probability" else probabilities[..., self.target].log()

    def __str__(self) -> str:
        name, against = self.readout.table.name, self.against
        versus = "" if against is None or self.name != "logit difference" else f" − {name(against)!r}"
        return f"{self.name} of {name(self.target)!r}{versus}"


@dataclass(frozen=True, kw_only=True)
class PredictionChange:
    """A class before and after a patch: its logit and its probability; None where logits are no distribution."""

    name: str
    number: int
    logit_before: float
    logit_after: float
    probability_before: float | None
    probability_after: float | None


@dataclass(frozen=True, kw_only=True)
class Patching:
    """What patches of a text have in common: its prediction unpatched, that of the source, and what is measured."""

    session: Session
    mode: str
    source: Session | None
    align: str
    mean_of: Iterable[Session] | None
    direction: str
    metric: TargetMetric
    base: Tensor  # [C]
    source_logits: Tensor | None  # [C]
    progress: Progress | None

    def patches(self, components: Sequence[Sequence[Component]]) -> list[Patch]:
        """The replacements of each row. Raises: as `patch_of`."""
        known = self.session.network.taps()
        names = list(dict.fromkeys(n for row in components for each in row for n in match(each.tap, known)))
        own = record_taps(self.session, names)
        shapes, values = {name: x.shape for name, x in own.items()}, None
        if self.mode == "swap":
            assert self.source is not None
            values = record_taps(self.source, names)
        elif self.mode == "mean":
            values = mean_activations((self.session,) if self.mean_of is None else self.mean_of, names)
        return [
            [write for each in row for write in patch_of(self.session, each, shapes, values, self.align)]
            for row in components
        ]

    def run(self, patches: Sequence[Patch]) -> Iterator[Tensor]:
        """The logits of each patched pass, in order. [C] each"""
        session, read = self.session, self.metric.readout
        tokens = max(map(len, session.streams.values()))
        return run_patches(
            session.network, session.batch, patches, read, tokens=tokens, last=read.last, progress=self.progress
        )

    def changes(self, patched: Tensor, count: int) -> list[PredictionChange]:
        """The most likely classes before or after a patch, and what is measured, most likely after it first."""
        table, metric, base = self.metric.readout.table, self.metric, self.base
        count = min(count, len(base))
        numbers = {metric.target, *base.topk(count).indices.tolist(), *patched.topk(count).indices.tolist()}
        numbers |= {metric.against} - {None}
        first, second = table.probabilities(base.double()), table.probabilities(patched.double())
        return [
            PredictionChange(
                name=table.name(at), number=at, logit_before=float(base[at]), logit_after=float(patched[at]),
                probability_before=None if first is None else float(first[at]),
                probability_after=None if second is None else float(second[at]),
            )
            for at in sorted(numbers, key=lambda at: (-float(patched[at]), at))
        ]  # fmt: skip

    def normalised(self, values: Tensor) -> Tensor | None:
        """Metrics as 0 = corrupt, 1 = clean; None where there is no other text, or it predicts the same."""
        if self.source_logits is None:
            return None
        clean, corrupt = float(self.metric(self.source_logits)), float(self.metric(self.base))
        if self.direction == "noising":
            clean, corrupt = corrupt, clean
        return None if abs(clean - corrupt) < TIE else (values - corrupt) / (clean - corrupt)


def patching(session: Session, options: PatchOptions) -> Patching:
    """Run the unpatched passes, and find out what is measured.

    Raises: UnsupportedError: the model has no head. DataError: options that do not go together, or no such target;
        texts of other lengths. WeightsError: the logits are NaN.
    """
    refuse_unknown("patch", options, PatchOptions)
    mode, source = options.get("mode"), options.get("source")
    mode = mode or ("zero" if source is None else "swap")
    for name, value, allowed in (
        ("mode", mode, MODES),
        ("direction", options.get("direction", "denoising"), DIRECTIONS),
        ("metric", options.get("metric"), (None, *METRICS)),
    ):
        if value not in allowed:
            listed = [each for each in allowed if each]
            raise DataError(f"{name} is {safe_repr(value)}; allowed: {', '.join(listed)}{nearest(str(value), listed)}")
    if mode == "swap" and source is None:
        raise DataError("mode is 'swap', and there is no other text to swap with; give a source")
    if mode != "mean" and options.get("mean_of") is not None:
        raise DataError(f"mean_of goes with mode='mean'; the mode is {mode!r}")
    align = options.get("align", "strict")
    if source is not None and mode == "swap":
        check_alignable(session, source, align)
    read, base = _prediction(session, options.get("position"))
    other = None
    if source is not None:
        _, other = _prediction(source, None if read.position is None else _same_position(read, source, align))
    direction = options.get("direction", "denoising")
    return Patching(
        session=session, mode=mode, source=source, align=align, mean_of=options.get("mean_of"), direction=direction,
        metric=_metric(read, base, other, direction, options), base=base, source_logits=other,
        progress=options.get("progress"),
    )  # fmt: skip


def _same_position(read: Readout, source: Session, align: str) -> int:
    """The position of the source at which its prediction is read: the end stays the end."""
    assert read.position is not None
    own, tokens = len(read.table.tokens), len(source.streams[read.table.stream])
    if align == "strict" and tokens == own:
        return read.position
    at_end = read.position == own - 1 or align == "end"
    return max(0, read.position + tokens - own) if at_end else min(read.position, tokens - 1)


def _prediction(session: Session, position: int | str | None) -> tuple[Readout, Tensor]:
    """Where a session's prediction is read, and its logits [C], of the pass without patches."""
    with torch.no_grad(), eval_mode(session.network):
        output: Output = session.network(session.batch, Flow())
    read = readout(session, output, position)
    return read, read(output)[0]


def _metric(read: Readout, base: Tensor, other: Tensor | None, direction: str, options: PatchOptions) -> TargetMetric:
    """What is measured: by default the top prediction of the clean text against that of the corrupt one."""
    name, target, against = options.get("metric"), options.get("target"), options.get("against")
    clean, corrupt = (base, other) if other is None or direction == "noising" else (other, base)
    table = read.table
    likely = 1 if table.names.labels is YES_OR_NO else int(clean.argmax())  # the logit of "no" is always 0
    number = likely if target is None else table.find(target, len(base))
    versus = None if against is None else table.find(against, len(base))
    if target is None and against is None and corrupt is not None and int(corrupt.argmax()) != number:
        versus = int(corrupt.argmax())
    if name == "logit difference" and versus is None:
        raise DataError("a logit difference is between two classes; name the other one: against=")
    if versus == number:
        raise DataError(f"target and against are both {safe_repr(table.name(number))}; name two classes")
    return TargetMetric(
        name=name or ("logit" if versus is None else "logit difference"), readout=read, target=number, against=versus
    )


@dataclass(frozen=True, kw_only=True, repr=False)
class PatchResult(
    Report, kind="patch", keys=("components", "mode", "metric", "before", "after", "normalised", "classes")
):
    """What one patch changes.

    components: as they are written
    patched: its logits [C]
    base, source: without it.
    """

    components: tuple[str, ...]
    patching: Patching
    patch: Patch
    patched: Tensor

    @property
    def mode(self) -> str:
        """What is put in place of the components."""
        return self.patching.mode

    @property
    def metric(self) -> str:
        """The name of what is measured."""
        return str(self.patching.metric)

    @property
    def before(self) -> float:
        """The metric of the text as it is."""
        return float(self.patching.metric(self.patching.base))

    @property
    def after(self) -> float:
        """The metric of the patched pass."""
        return float(self.patching.metric(self.patched))

    @property
    def normalised(self) -> float | None:
        """0 = as the corrupt text, 1 = as the clean one."""
        value = self.patching.normalised(self.patching.metric(self.patched))
        return None if value is None else float(value)

    @property
    def classes(self) -> list[PredictionChange]:
        """The five most likely classes before or after the patch, and the target."""
        return self.top()

    def top(self, count: int = 5) -> list[PredictionChange]:
        """The most likely classes before or after the patch, and the target, most likely after it first."""
        return self.patching.changes(self.patched, count)

    @property
    def heading(self) -> str:
        return f"{', '.join(self.components)}: {REPLACED[self.mode]}"

    def tables(self) -> list[Table]:
        """The classes before and after the patch."""
        rows = [
            [
                change.name,
                f"{change.logit_before:.3f}",
                f"{change.logit_after:.3f}",
                *("–" if p is None else f"{p:.1%}" for p in (change.probability_before, change.probability_after)),
            ]
            for change in self.classes
        ]
        normalised = "" if self.normalised is None else f" · {self.normalised:z.3f} (0 = corrupt, 1 = clean)"
        caption = f"{self.metric}: {self.before:z.3f} → {self.after:z.3f}{normalised}"
        return [Table(["prediction", "logit before", "after", "probability before", "after"], rows, caption)]

    def text(self, max_new_tokens: int = 20) -> tuple[str, str]:
        """Greedy continuations without and with the patch. Zeros and means hold for new tokens too, swaps do not.

        Raises: UnsupportedError: the model writes no text.
        """
        return continuations(self.patching, self.patch, max_new_tokens)


def continuations(patching: Patching, patch: Patch, count: int) -> tuple[str, str]:
    """Greedy continuations of a text, without and with a patch.

    There is no cache of keys and values, since a patch changes them.
    """
    session, read = patching.session, patching.metric.readout
    table, network = read.table, session.network
    tokenizer, field = table.names.tokenizer, "decoder_input_ids" if table.stream == "target" else "input_ids"
    if tokenizer is None or not table.causal:
        raise UnsupportedError("this model writes no text, so none can be compared")
    room = count if network.max_tokens is None else min(count, network.max_tokens - len(table.tokens))
    at_end, texts = replace(read, position=len(table.tokens) - 1), []
    for own in ([], patch):
        ids: Tensor = getattr(session.batch, field)
        for _ in range(room):
            grown, length = replace(session.batch, **{field: ids}), ids.shape[1]
            (logits,) = run_patches(network, grown, [own], at_end, tokens=length, last=1)
            ids = torch.cat([ids, logits.argmax().view(1, 1)], dim=1)
            if int(ids[0, -1]) == tokenizer.eos_token_id:
                break
        texts.append(str(tokenizer.decode(ids[0, len(table.tokens) :], skip_special_tokens=True)))
    return texts[0], texts[1]


def patch(session: Session, components: Sequence[str | Component], options: PatchOptions) -> PatchResult:
    """Replace components of a session's pass, all together, and run it again. See `Session.patch`."""
    if not components:
        raise DataError("there is no component to patch; name one, such as 'blocks.0.attn.z[3]'")
    parsed = [Component.parse(each) for each in components]
    setting = patching(session, options)
    (replaced,) = setting.patches([parsed])
    (logits,) = setting.run([replaced])
    return PatchResult(components=tuple(map(str, parsed)), patching=setting, patch=replaced, patched=logits)
