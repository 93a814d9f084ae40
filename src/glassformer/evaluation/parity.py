"""Numerical parity with the reference library, stage by stage: whether activations agree, and where they first differ.

    ids ─┬─ ours ──────  embed.out │ blocks.0.attn.out │ … │ blocks.0.out │ … │ final │ logits
         │                   ↕              ↕                      ↕             ↕       ↕
         └─ reference    embeddings │ output projection│ … │    block     │ … │ body  │ head

Ours are taps; theirs are captured by hooks on the modules that the weight names of the family point to, so that a new
family needs nothing here. In fp32, where rounding hides small errors, and in fp64, where it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.errors import UnsupportedError
from glassformer.evaluation.reference import fp64_arithmetic
from glassformer.models import Network
from glassformer.weights.names import WeightNames

TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-9}
"""Tolerance of a stage in each precision, absolute or relative to its largest number."""
PRECISIONS = {torch.float32: "fp32", torch.float64: "fp64"}

BUILDING_BLOCK = re.compile(r"(?:.*\.)?blocks\.\d+")


# ---------------------------------------------------------------------------------------------- cases and results


@dataclass(frozen=True, kw_only=True)
class ParityCase:
    """One batch for both models, padded on the right; `left`: for ours it is padded on the left.

    ids: [B, T] · keep: False where ids are padding. [B, T] bool · token_types: token_type_ids. [B, T]

    Differs: the reference counts and pools padding on the left, unless it gets positions. So it always gets texts
    padded on the right, and the visible tokens of both are compared.
    """

    name: str
    ids: Tensor
    keep: Tensor
    token_types: Tensor | None = None
    left: bool = False

    def padded_left(self) -> ParityCase:
        """The same rows with their padding on the left."""
        order = self.keep.int().argsort(dim=1, stable=True)  # padding first, texts in order
        types = None if self.token_types is None else self.token_types.gather(1, order)
        ids, keep = self.ids.gather(1, order), self.keep.gather(1, order)
        return ParityCase(name=self.name, ids=ids, keep=keep, token_types=types)


@dataclass(frozen=True)
class StageDifference:
    """The difference of two tensors of one stage.

    absolute: the largest difference · relative: that, as a part of the reference's largest number
    """

    stage: str
    absolute: float
    relative: float
    tolerance: float

    @property
    def within(self) -> bool:
        """Whether the difference is within the tolerance."""
        return min(self.absolute, self.relative) <= self.tolerance  # False for NaN


@dataclass(frozen=True)
class ParityReport:
    """Differences of all stages, cases and precisions, in the order of computation.

    stages: (precision, case) → differences · notes: remarks on the reference
    """

    stages: Mapping[tuple[str, str], Sequence[StageDifference]]
    notes: Sequence[str] = ()

    @property
    def equal(self) -> bool:
        """Whether all stages are within their tolerance."""
        return self.first is None

    @property
    def first(self) -> tuple[str, str, StageDifference] | None:
        """Precision, case and difference of the earliest stage beyond its tolerance, of all runs; None if none is."""
        beyond = [
            (order, precision, case, difference)
            for (precision, case), differences in self.stages.items()
            for order, difference in enumerate(differences)
            if not difference.within
        ]
        return min(beyond, key=lambda entry: entry[0])[1:] if beyond else None


# ---------------------------------------------------------------------------------------------------- the comparison


def compare_stages(
    network: Network,
    reference_of: Callable[[torch.dtype], nn.Module],
    names: WeightNames,
    cases: Sequence[ParityCase],
    *,
    tolerances: Mapping[torch.dtype, float] = TOLERANCES,
    notes: Sequence[str] = (),
) -> ParityReport:
    """Compare a network with a reference model in each precision.

    Args:
        network: ours, in eval mode; it is left in the last precision of `tolerances`.
        reference_of: makes the reference model in a precision; called within `fp64_arithmetic`.
        names: the weight names of the family.
        tolerances: precision → tolerance.
    Returns: the report; `report.first` is the first stage that differs.
    Raises: UnsupportedError: a module that the names point to does not exist in the reference model.
    """
    stages = {}
    for dtype, tolerance in tolerances.items():
        network.to(dtype)  # fp32 first: fp64 holds every fp32 weight exactly, and the way back would round
        with fp64_arithmetic(dtype):
            reference = reference_of(dtype).eval()
            for case in cases:
                pairs = compare_case(network, reference, names, case)
                precision = PRECISIONS.get(dtype, str(dtype).removeprefix("torch."))
                stages[precision, case.name] = [
                    difference(stage, ours, theirs, tolerance) for stage, ours, theirs in pairs
                ]
    return ParityReport(stages, tuple(notes))


def difference(stage: str, ours: Tensor, theirs: Tensor, tolerance: float) -> StageDifference:
    """The difference of two tensors; infinite for other shapes, NaN and infinity."""
    if ours.shape != theirs.shape:
        return StageDifference(stage, float("inf"), float("inf"), tolerance)
    if not ours.numel():
        return StageDifference(stage, 0.0, 0.0, tolerance)
    gap = (ours.double() - theirs.double()).abs()
    absolute = float(gap.max()) if bool(gap.isfinite().all()) else float("inf")
    scale = float(theirs.double().abs().max())
    relative = 0.0 if absolute == 0 else absolute / scale if 0 < scale < float("inf") else float("inf")
    return StageDifference(stage, absolute, relative, tolerance)


@torch.no_grad()
def compare_case(
    network: Network, reference: nn.Module, names: WeightNames, case: ParityCase
) -> list[tuple[str, Tensor, Tensor]]:
    """Run one case through both; (stage, ours, theirs) of its visible tokens, in the order of computation."""
    network.name_nodes()
    modules = _stage_modules(network, reference, names)
    ours = case.padded_left() if case.left else case
    tape = Tape(*(tap for tap, _, _ in modules)).attach(network)
    batch = Batch(input_ids=ours.ids, token_type_ids=ours.token_types)
    padded = not bool(case.keep.all())
    output = network(batch, Flow(keep=ours.keep[:, None] if padded else None, tape=tape)).present()

    extra = {} if case.token_types is None else {"token_type_ids": case.token_types}
    with _capture(modules) as captured:
        their_output = reference(
            input_ids=case.ids, attention_mask=case.keep.long(), use_cache=False, return_dict=True, **extra
        )
    fields = network.head.FIELDS if network.head is not None else ()
    stages = [(tap, tape.taps[tap], captured[tap]) for tap, _, _ in modules]
    stages += [(field, output[field], their_output[field]) for field in fields]
    return [(stage, _visible_rows(a, ours.keep), _visible_rows(b, case.keep)) for stage, a, b in stages]


def _visible_rows(x: Tensor, keep: Tensor) -> Tensor:
    """The positions of x [B, T, …] that are not padding; x itself where it has no positions."""
    return x[keep] if x.shape[:2] == keep.shape else x


def _stage_modules(network: Network, reference: nn.Module, names: WeightNames) -> list[tuple[str, nn.Module, bool]]:
    """(our tap, their module, whether it is its input), in the order of computation."""
    prefixed = bool(names.prefix) and names.prefix in dict(reference.named_modules())
    taps, paths = set(network.taps()), {path for path, _ in network.named_modules()}
    blocks = [path for path, _ in network.named_nodes() if BUILDING_BLOCK.fullmatch(path)]
    modules = []

    def module(ours: str, *, block: bool = False) -> nn.Module:
        stem = names.find(f"{ours}.weight", prefixed=prefixed)[1][0].removesuffix(".weight")
        path = re.match(r".*?\.\d+(?=\.)", f"{stem}.").group() if block else stem  # type: ignore[union-attr]
        try:
            return reference.get_submodule(path)
        except AttributeError:
            raise UnsupportedError(
                f"{type(reference).__name__} has no module {path!r}, to which the weight names map {ours!r}"
            ) from None

    for number, block in enumerate(blocks):
        their_block = module(f"{block}.attn.out", block=True)
        if number == 0:
            modules.append(("embed.out" if "embed.out" in taps else f"{block}.before", their_block, True))
        for tap, projection in (
            ("attn.out", "attn.out"),
            ("cross.out", "cross.out"),
            ("ffn.out", "ffn.down"),
        ):
            if f"{block}.{projection}" in paths:  # a mixture of experts has no such projection
                modules.append((f"{block}.{tap}", module(f"{block}.{projection}"), False))
        modules.append((f"{block}.out", their_block, False))
    modules.append(("final", reference.get_submodule(names.prefix) if prefixed else reference, False))
    return modules


@contextmanager
def _capture(modules: Sequence[tuple[str, nn.Module, bool]]) -> Iterator[dict[str, Tensor]]:
    """Capture inputs or outputs of the reference's modules by hooks while the block runs, by the names of our taps."""
    captured: dict[str, Tensor] = {}

    def capture(tap: str, entry: bool, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        if entry:
            captured[tap] = args[0] if args else kwargs["hidden_states"]
        else:
            captured[tap] = output if isinstance(output, Tensor) else output[0]

    with ExitStack() as hooks:
        for tap, module, entry in modules:
            hook = module.register_forward_hook(partial(capture, tap, entry), with_kwargs=True)
            hooks.callback(hook.remove)
        yield captured


# ------------------------------------------------------------------------------------------------------- the inputs


def random_cases(
    vocabulary: int, longest: int | None, *, token_types: int = 0, hidden: int = 0, seed: int = 0
) -> list[ParityCase]:
    """Random ids: rows without padding, and rows of three lengths with padding on either side.

    Args:
        vocabulary: ids lie below it · longest: maximum tokens of a row; None = any
        token_types: number of token types of the model; 0 = it takes no token_type_ids
        hidden: the padding id; it occurs in no text, since some heads of the reference look for it
    """
    generator = torch.Generator().manual_seed(seed)
    T, short = min(48, longest or 48), min(24, longest or 24)

    def ids(rows: int, tokens: int) -> Tensor:
        random_ids = torch.randint(0, max(vocabulary - 1, 1), (rows, tokens), generator=generator)
        return random_ids + (random_ids >= hidden) if vocabulary > 1 else random_ids  # any id but `hidden`

    def types(rows: int, tokens: int) -> Tensor | None:
        return torch.randint(0, token_types, (rows, tokens), generator=generator) if token_types else None

    lengths = torch.tensor([short, max(short * 2 // 3, 1), 1])
    keep = torch.arange(short)[None] < lengths[:, None]  # [3, short]
    padded: dict[str, Any] = {
        "ids": ids(3, short).where(keep, hidden),
        "keep": keep,
        "token_types": types(3, short),
    }
    whole: dict[str, Any] = {
        "ids": ids(2, T),
        "keep": torch.ones(2, T, dtype=torch.bool),
        "token_types": types(2, T),
    }
    return [
        ParityCase(name="random ids", **whole),
        ParityCase(name="padded right", **padded),
        ParityCase(name="padded left", **padded, left=True),
    ]


def text_case(rows: Sequence[Sequence[int]], *, hidden: int = 0) -> ParityCase:
    """A case of token ids of texts, padded on the right."""
    T = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[hidden] * (T - len(row))] for row in rows])
    keep = torch.arange(T)[None] < torch.tensor([len(row) for row in rows])[:, None]
    return ParityCase(name="text", ids=ids, keep=keep)
