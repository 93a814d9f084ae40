"""Side by side with the reference library, stage by stage: do the numbers agree, and if not, where do they part?

    ids ─┬─ ours ──────  embed.out │ blocks.0.attn.out │ … │ blocks.0.out │ … │ final │ logits
         │                   ↕              ↕                      ↕             ↕       ↕
         └─ reference    embeddings │ output projection│ … │    block     │ … │ body  │ head

Ours are taps; theirs are caught by hooks on the modules that the recipe's table of names points to, so that a new
family needs nothing here. Run twice: in fp32, where rounding hides small errors, and in fp64, where it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from glassformer.core.flow import Batch, Flow, Tape
from glassformer.errors import MissingExtraError, UnsupportedError
from glassformer.models import Network
from glassformer.weights.names import Names

TOLERANCES = {torch.float32: 1e-4, torch.float64: 1e-9}
"""By how much a stage may differ, absolutely or relative to its largest number, in each precision."""

STEERING_KEYS = frozenset({"adapter_name", "auto_map", "quantization_config", "transformers_weights"})
"""Keys, beside those with a leading underscore, by which a config tells the reference what else to open or run."""

BUILDING_BLOCK = re.compile(r"(?:.*\.)?blocks\.\d+")


# --------------------------------------------------------------------------------------- what goes in, what comes out


@dataclass(frozen=True, kw_only=True)
class Case:
    """One batch for both sides, padded on the right; `left` says that ours gets it padded on the left.

    ids: [B, T] · keep: False where ids are padding. [B, T] bool · segments: token_type_ids. [B, T]

    Differs: where padding stands on the left the reference counts it and pools it, unless it is told otherwise. So it
    always gets its texts padded on the right, and the visible tokens of both are compared.
    """

    name: str
    ids: Tensor
    keep: Tensor
    segments: Tensor | None = None
    left: bool = False


@dataclass(frozen=True)
class Difference:
    """How far two tensors of one stage are apart.

    absolute: the largest difference · relative: that, as a part of the reference's largest number
    """

    stage: str
    absolute: float
    relative: float
    tolerance: float

    @property
    def within(self) -> bool:
        return min(self.absolute, self.relative) <= self.tolerance  # a NaN is not


@dataclass(frozen=True)
class Report:
    """All stages of all cases in all precisions, in the order in which they are computed.

    stages: (precision, case) → differences · notes: what the reader should know about how it was measured
    """

    stages: Mapping[tuple[str, str], Sequence[Difference]]
    notes: Sequence[str] = ()

    @property
    def equal(self) -> bool:
        return self.first is None

    @property
    def first(self) -> tuple[str, str, Difference] | None:
        """Precision, case and difference of the earliest stage beyond its tolerance, of all runs; None if none is."""
        found = [
            (place, precision, case, difference)
            for (precision, case), differences in self.stages.items()
            for place, difference in enumerate(differences)
            if not difference.within
        ]
        return min(found, key=lambda entry: entry[0])[1:] if found else None


# ---------------------------------------------------------------------------------------------------- the comparison


def check(
    network: Network,
    reference_of: Callable[[torch.dtype], nn.Module],
    names: Names,
    cases: Sequence[Case],
    *,
    tolerances: Mapping[torch.dtype, float] = TOLERANCES,
    notes: Sequence[str] = (),
) -> Report:
    """Compare a network with a reference model in each precision.

    Args:
        network: ours, in eval mode; it is left in the last precision of `tolerances`.
        reference_of: makes the reference model in a precision; called within `widened` where that is fp64.
        names: the recipe's table for this network.
        tolerances: precision → tolerance.
    Returns: the report; `report.first` is the first stage that differs.
    Raises: UnsupportedError: a module that the names point to does not exist in the reference model.
    """
    stages = {}
    for dtype, tolerance in tolerances.items():
        network.to(dtype)
        with widened(dtype):
            reference = reference_of(dtype).eval()
            for case in cases:
                pairs = both(network, reference, names, case)
                stages[_name(dtype), case.name] = [
                    difference(stage, ours, theirs, tolerance) for stage, ours, theirs in pairs
                ]
    return Report(stages, tuple(notes))


def difference(stage: str, ours: Tensor, theirs: Tensor, tolerance: float) -> Difference:
    """How far apart two tensors are; other shapes, NaN and infinity are as far as can be."""
    if ours.shape != theirs.shape:
        return Difference(stage, float("inf"), float("inf"), tolerance)
    if not ours.numel():
        return Difference(stage, 0.0, 0.0, tolerance)
    gap = (ours.double() - theirs.double()).abs()
    absolute = float(gap.max()) if bool(gap.isfinite().all()) else float("inf")
    scale = float(theirs.double().abs().max())
    relative = 0.0 if absolute == 0 else absolute / scale if 0 < scale < float("inf") else float("inf")
    return Difference(stage, absolute, relative, tolerance)


@torch.no_grad()
def both(
    network: Network, reference: nn.Module, names: Names, case: Case
) -> list[tuple[str, Tensor, Tensor]]:
    """Run one case through both; (stage, ours, theirs) of its visible tokens, in the order of computation."""
    network.name_nodes()
    places = _places(network, reference, names)
    ours_ids, ours_keep, ours_segments = case.ids, case.keep, case.segments
    if case.left:
        order = case.keep.int().argsort(dim=1, stable=True)  # padding first, texts in order
        ours_ids, ours_keep = case.ids.gather(1, order), case.keep.gather(1, order)
        ours_segments = None if case.segments is None else case.segments.gather(1, order)
    tape = Tape(*(tap for tap, _, _ in places)).attach(network)
    batch = Batch(input_ids=ours_ids, token_type_ids=ours_segments)
    hides = not bool(case.keep.all())
    output = network(batch, Flow(keep=ours_keep[:, None] if hides else None, tape=tape)).given()

    extra = {} if case.segments is None else {"token_type_ids": case.segments}
    with _caught(places) as caught:
        answer = reference(
            input_ids=case.ids, attention_mask=case.keep.long(), use_cache=False, return_dict=True, **extra
        )
    fields = network.head.FIELDS if network.head is not None else ()
    stages = [(tap, tape.taps[tap], caught[tap]) for tap, _, _ in places]
    stages += [(field, output[field], answer[field]) for field in fields]
    return [(stage, _visible(ours, ours_keep), _visible(theirs, case.keep)) for stage, ours, theirs in stages]


def _visible(x: Tensor, keep: Tensor) -> Tensor:
    """The rows of x [B, T, …] that stand for text; x itself where it has no positions."""
    return x[keep] if x.shape[:2] == keep.shape else x


def _places(network: Network, reference: nn.Module, names: Names) -> list[tuple[str, nn.Module, bool]]:
    """(our tap, their module, is it what goes in), in the order of computation."""
    prefixed = bool(names.prefix) and hasattr(reference, names.prefix)
    taps, parts = set(network.taps()), {path for path, _ in network.named_modules()}
    blocks = [path for path, _ in network.named_nodes() if BUILDING_BLOCK.fullmatch(path)]
    places = []

    def module(ours: str, *, block: bool = False) -> nn.Module:
        stem = names.find(f"{ours}.weight", prefixed=prefixed)[1][0].removesuffix(".weight")
        path = re.match(r".*?\.\d+(?=\.)", f"{stem}.").group() if block else stem  # type: ignore[union-attr]
        try:
            return reference.get_submodule(path)
        except AttributeError:
            raise UnsupportedError(
                f"{type(reference).__name__} has no module {path!r}, where the recipe's names place {ours!r}"
            ) from None

    for number, block in enumerate(blocks):
        whole = module(f"{block}.attn.out", block=True)
        if number == 0:
            places.append(("embed.out" if "embed.out" in taps else f"{block}.before", whole, True))
        for tap, projection in (
            ("attn.out", "attn.out"),
            ("cross.out", "cross.out"),
            ("ffn.out", "ffn.down"),
        ):
            if f"{block}.{projection}" in parts:  # a mixture of experts ends in no projection of its own
                places.append((f"{block}.{tap}", module(f"{block}.{projection}"), False))
        places.append((f"{block}.out", whole, False))
    places.append(("final", getattr(reference, names.prefix) if prefixed else reference, False))
    return places


@contextmanager
def _caught(places: Sequence[tuple[str, nn.Module, bool]]) -> Iterator[dict[str, Tensor]]:
    """What goes into or comes out of the reference's modules while the block runs, under our taps' names."""
    caught: dict[str, Tensor] = {}

    def on_entry(tap: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            caught[tap] = args[0] if args else kwargs["hidden_states"]

        return keep

    def on_exit(tap: str) -> Callable[..., None]:
        def keep(module: nn.Module, args: Any, output: Any) -> None:
            caught[tap] = output if isinstance(output, Tensor) else output[0]

        return keep

    handles = [
        module.register_forward_pre_hook(on_entry(tap), with_kwargs=True)
        if entry
        else module.register_forward_hook(on_exit(tap))
        for tap, module, entry in places
    ]
    try:
        yield caught
    finally:
        for handle in handles:
            handle.remove()


# ------------------------------------------------------------------------------------------------------- the inputs


def random_cases(
    vocabulary: int, longest: int | None, *, segments: int = 0, hidden: int = 0, seed: int = 0
) -> list[Case]:
    """Ids drawn at random: rows without padding, and rows of three lengths with padding on either side.

    Args:
        vocabulary: ids lie below it · longest: the most tokens a row may have; None = any
        segments: how many segments the model knows; 0 = it takes no token_type_ids
        hidden: the id that stands for padding; it is drawn for no text, since the reference looks for it in some heads
    """
    draw = torch.Generator().manual_seed(seed)
    T, short = min(48, longest or 48), min(24, longest or 24)

    def ids(rows: int, tokens: int) -> Tensor:
        drawn = torch.randint(0, max(vocabulary - 1, 1), (rows, tokens), generator=draw)
        return drawn + (drawn >= hidden) if vocabulary > 1 else drawn  # any id but `hidden`

    def parts(rows: int, tokens: int) -> Tensor | None:
        return torch.randint(0, segments, (rows, tokens), generator=draw) if segments else None

    lengths = torch.tensor([short, max(short * 2 // 3, 1), 1])
    keep = torch.arange(short)[None] < lengths[:, None]  # [3, short]
    padded = ids(3, short).where(keep, hidden)
    which = parts(3, short)
    return [
        Case(name="random ids", ids=ids(2, T), keep=torch.ones(2, T, dtype=torch.bool), segments=parts(2, T)),
        Case(name="padded right", ids=padded, keep=keep, segments=which),
        Case(name="padded left", ids=padded, keep=keep, segments=which, left=True),
    ]


def text_case(rows: Sequence[Sequence[int]], *, hidden: int = 0) -> Case:
    """Ids of texts, as a tokenizer gave them, padded on the right."""
    T = max(len(row) for row in rows)
    ids = torch.tensor([[*row, *[hidden] * (T - len(row))] for row in rows])
    keep = torch.arange(T)[None] < torch.tensor([len(row) for row in rows])[:, None]
    return Case(name="text", ids=ids, keep=keep)


# ------------------------------------------------------------------------------------------------ the reference side


class _Widened(TorchFunctionMode):
    """Every torch function that is told fp32 hears fp64."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        def wide(value: Any) -> Any:
            return torch.float64 if value is torch.float32 else value

        if function is torch.Tensor.float:
            function = torch.Tensor.double
        return function(*map(wide, args), **{key: wide(value) for key, value in (kwargs or {}).items()})


@contextmanager
def widened(dtype: torch.dtype) -> Iterator[None]:
    """For fp64, lift the steps that the reference always takes in fp32; for any other precision, nothing.

    Its `.double()` leaves root-mean-square norms, rotary tables and some softmaxes in fp32. A model built and run in
    this block computes them in fp64 as well, so that the comparison sees the mathematics and not that rounding.
    """
    if dtype != torch.float64:
        yield
        return
    with _Widened():
        yield


def reference_model(
    architecture: str, config: Mapping[str, Any], tensors: Mapping[str, Tensor], dtype: torch.dtype
) -> tuple[nn.Module, list[str]]:
    """A model of the reference library, made from a config and tensors that were read and checked by us.

    It is given no path and no name: it opens no file and no connection, and runs no code from a folder.

    Args:
        architecture: the class name, as in `config.json`.
        tensors: name → tensor, as in the checkpoint.
    Returns: the model in eval mode, and notes on tensors that it missed or had no use for.
    Raises: MissingExtraError: the reference library is not installed. UnsupportedError: it has no such class.
    """
    try:
        import transformers
    except ImportError:
        raise MissingExtraError("transformers", "reference", "comparing with the reference library") from None
    kind = getattr(transformers, architecture, None)
    if kind is None:
        raise UnsupportedError(
            f"transformers {transformers.__version__} has no class {architecture!r} to compare with"
        )
    quiet = transformers.utils.logging
    verbosity, bars = quiet.get_verbosity(), quiet.is_progress_bar_enabled()
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    try:
        settings = kind.config_class.from_dict(
            {key: value for key, value in config.items() if key not in STEERING_KEYS and key[:1] != "_"}
        )
        if dtype == torch.float64:
            settings.reorder_and_upcast_attn = False  # an order of rounding that raises in fp64
        if settings.pad_token_id is None:
            settings.pad_token_id = 0  # its sequence classifiers look for one as soon as there are two rows
        model, report = kind.from_pretrained(
            None,
            config=settings,
            state_dict=dict(tensors),
            dtype=dtype,
            attn_implementation="eager",  # else a name in the config could ask for a kernel from the Hub
            experts_implementation="eager",  # the grouped product has no fp64
            output_loading_info=True,
        )
    finally:
        quiet.set_verbosity(verbosity)
        if bars:
            quiet.enable_progress_bar()
    notes = [
        f"the reference library has {what}: {', '.join(sorted(map(str, report[key]))[:10])}"
        for key, what in (
            ("missing_keys", "no tensors for these parameters, so its own are random"),
            ("mismatched_keys", "tensors of another shape"),
        )
        if report[key]
    ]
    return model.eval(), notes


def _name(dtype: torch.dtype) -> str:
    return {torch.float32: "fp32", torch.float64: "fp64"}.get(dtype, str(dtype).removeprefix("torch."))
